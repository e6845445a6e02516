"""Combining rules for partially synthetic data: sums by hand, fits of statsmodels, errors."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

from bayes_risk import InputError
from bayes_risk.demo import visits
from bayes_risk.utilities.combining import combine

Q = np.array([[1.0, 4.0], [3.0, 4.5], [2.0, 5.0]])
U = np.array([[[2.0, 0.5], [0.5, 1.0]], [[2.5, 0.5], [0.5, 1.0]], [[1.5, 0.5], [0.5, 1.0]]])


def simulated(m=3):
    rng = np.random.default_rng(5)
    x = rng.normal(size=40)
    tables = [pd.DataFrame({"x": x, "y": 1 + 2 * x + rng.normal(size=40)}) for _ in range(m)]
    return [smf.ols("y ~ x", data=table).fit() for table in tables]


def test_scalar_by_hand():
    # q: 10, 12, 11 -> mean 11, b = 1; u = 4; T = 4 + 1/3; r = 1/12; nu = 2 * 13^2
    row = combine([10, 12, 11], [4, 4, 4]).table.iloc[0]
    half = stats.t.ppf(0.975, 338) * np.sqrt(13 / 3)
    expected = [11, np.sqrt(13 / 3), 338, 11 - half, 11 + half, 1, 4]
    columns = ["estimate", "std_error", "df", "low", "high", "b", "u"]
    assert row[columns].tolist() == pytest.approx(expected)


def test_several_quantities_by_hand():
    found = combine(Q, U, names=["a", "b"])
    # b = [[1, 1/4], [1/4, 1/4]], u = [[2, 1/2], [1/2, 1]]
    expected = [[2 + 1 / 3, 0.5 + 0.25 / 3], [0.5 + 0.25 / 3, 1 + 0.25 / 3]]
    assert found.covariance.loc["a", "b"] == pytest.approx(expected[0][1])
    assert found.covariance.to_numpy() == pytest.approx(np.array(expected))
    assert found.table["estimate"].to_dict() == {"a": 2.0, "b": 4.5}
    assert found.table.loc["a", "df"] == pytest.approx(2 * 7**2)


def test_joint_test_by_hand():
    # u^-1 = [[1, -1/2], [-1/2, 2]] / 1.75; tr(b u^-1) = (1 - 1/4 + 1/2) / 1.75
    # t = k (m - 1) = 4, so w = (k + 1)(m - 1)(1 + 1/r)^2 / 2
    found = combine(Q, U).test([1.0, 4.0])
    r = (1.25 / 1.75) / 6
    form = (1.0 - 0.5 + 0.5) / 1.75  # d = (1, 1/2)
    w = 3 * (1 + 1 / r) ** 2
    assert found.statistic == pytest.approx(form / (2 * (1 + r)))
    assert (found.df_numerator, found.df_denominator) == (2, pytest.approx(w))
    assert found.p_value == pytest.approx(stats.f.sf(found.statistic, 2, w))


def test_more_data_sets_use_the_degrees_of_freedom_of_the_paper():
    q, u = np.vstack([Q, Q]), np.concatenate([U, U])
    found = combine(q, u).test(0.0)
    r = float(np.trace(np.cov(q.T) @ np.linalg.inv(u.mean(axis=0)))) / 12
    assert found.df_denominator == pytest.approx(4 + 6 * (1 + (1 - 2 / 10) / r) ** 2)


def test_joint_test_of_one_quantity_is_that_of_its_interval():
    found = combine([10, 12, 11, 13, 10, 9], [4] * 6, names=["a"])
    row = found.table.loc["a"]
    test = found.test(row["low"])
    assert test.p_value == pytest.approx(0.05)
    assert test.df_denominator == pytest.approx(row["df"])
    assert found.test(row["low"], names=["a"]).statistic == pytest.approx(test.statistic)


def test_equal_estimates_leave_the_normal_interval():
    found = combine([2.0, 2.0], [0.25, 0.25])
    row = found.table.iloc[0]
    assert row["df"] == np.inf and row["b"] == 0
    assert row["high"] == pytest.approx(2 + stats.norm.ppf(0.975) / 2)
    test = combine([[2.0], [2.0]], [[[0.25]], [[0.25]]]).test()
    assert test.df_denominator == np.inf
    assert test.p_value == pytest.approx(stats.chi2.sf(16, 1))


def test_no_variance_at_all():
    row = combine([2.0, 2.0], [0.0, 0.0]).table.iloc[0]
    assert row[["std_error", "low", "high"]].tolist() == [0, 2, 2]
    assert combine([1.0, 2.0], [0.0, 0.0]).table.loc[0, "df"] == 1  # m - 1


def test_statsmodels_results_are_put_together_by_name():
    fits = simulated()
    found = combine(fits)
    assert found.table.index.tolist() == ["Intercept", "x"]
    slopes = [fit.params["x"] for fit in fits]
    T = np.mean([fit.bse["x"] ** 2 for fit in fits]) + np.var(slopes, ddof=1) / 3
    assert found.table.loc["x", "estimate"] == pytest.approx(np.mean(slopes))
    assert found.table.loc["x", "std_error"] == pytest.approx(np.sqrt(T))
    direct = combine(np.array([f.params for f in fits]), np.array([f.cov_params() for f in fits]))
    assert found.covariance.to_numpy() == pytest.approx(direct.covariance.to_numpy())
    assert found.test(names=["x"]).p_value < 1e-6 < found.test([1, 2]).p_value


def test_statsmodels_without_names_and_with_several_equations():
    fits = simulated()
    plain = [sm.OLS(np.asarray(f.model.endog), np.asarray(f.model.exog)).fit() for f in fits]
    assert combine(plain).table.to_numpy() == pytest.approx(combine(fits).table.to_numpy())
    df = visits()
    tables = [df.iloc[:1500], df.iloc[400:]]
    several = [
        sm.MNLogit(t["coinsurance"], sm.add_constant(t[["disease"]])).fit(disp=0) for t in tables
    ]
    found = combine(several).table
    assert len(found) == 8
    params = np.mean([f.params.to_numpy() for f in several], axis=0)
    assert found["estimate"].to_numpy() == pytest.approx(params.ravel(order="F"))
    errors = np.mean([f.bse.to_numpy() ** 2 for f in several], axis=0)
    assert found["u"].to_numpy() == pytest.approx(errors.ravel(order="F"))


def test_tables_and_series():
    tables = [
        pd.DataFrame({"estimate": q, "std_error": np.sqrt(np.diag(u))}, index=["a", "b"])
        for q, u in zip(Q, U, strict=True)
    ]
    tables[1] = tables[1].iloc[::-1]  # another order of rows
    found = combine(tables)
    assert found.table.to_numpy() == pytest.approx(combine(Q, U).table.to_numpy())
    assert np.isnan(found.covariance.loc["a", "b"])
    with pytest.raises(InputError, match=r"needs covariances.*\(m, k, k\)"):
        found.test()
    q = [t["estimate"] for t in tables]
    u = [t["std_error"] ** 2 for t in tables]
    assert combine(q, u).table.equals(found.table)


def test_only_variances_and_one_quantity_allow_a_test():
    found = combine(Q, np.diagonal(U, axis1=1, axis2=2))
    assert found.test(names=[0]).p_value < 1


def test_confidence_widens_the_interval():
    narrow, wide = (combine([1, 2], [1, 1], confidence=c).table.loc[0] for c in (0.5, 0.99))
    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]


def test_errors_of_fits_and_tests():
    fits = simulated()
    fewer = smf.ols("y ~ 1", data=fits[0].model.data.frame).fit()
    with pytest.raises(InputError, match=r"data set 2 and data set 0 differ in 1 quantities"):
        combine([*fits[:2], fewer])
    with pytest.raises(InputError, match="leave out variances"):
        combine(fits, [1, 2, 3])
    found = combine(fits)
    with pytest.raises(InputError, match="null=.* one for each of the 2 quantities"):
        found.test([1, 2, 3])
    with pytest.raises(InputError, match="names names column 'z'"):
        found.test(names=["z"])
    with pytest.raises(InputError, match="names is empty"):
        found.test(names=[])
    same = np.ones((3, 2, 2))
    with pytest.raises(InputError, match="cannot be inverted"):
        combine(Q, same).test()


def test_repr_says_what_was_combined():
    assert "m = 3 partially synthetic data sets, 95% intervals" in repr(combine(Q, U))
