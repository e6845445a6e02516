"""Versions of ArviZ and PyMC: what is kept in a tree, and what is not, is read alike."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_risk as br
from bayes_risk import _compat
from bayes_risk._core.checkpoint import Store, keeping
from bayes_risk.models.fits.sampling import Length, kept_chains

Y = np.array([1.0, 2.0, 4.0, 3.0])
TABLE = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": Y})


class InferenceData:
    """What ArviZ before 1.0 gives, as far as it is used: groups by name."""

    def __init__(self, **groups):
        self.held = groups

    def groups(self):
        return list(self.held)

    def __getitem__(self, name):
        return self.held[name]

    def add_groups(self, groups):
        self.held |= groups


def tree(**groups):
    return xr.DataTree.from_dict(groups)


def posterior(*names, chains=2, draws=30):
    rng = np.random.default_rng(3)
    sizes = ("chain", "draw")
    values = {name: (sizes, 1.0 + rng.random((chains, draws))) for name in names}
    return xr.Dataset(values | {"other": (("chain", "draw", "class"), np.ones((chains, draws, 3)))})


KINDS = pytest.mark.parametrize("kind", [tree, InferenceData], ids=["tree", "inference data"])


@KINDS
def test_groups_are_read_and_added_alike(kind):
    first, second = posterior("a"), xr.Dataset({"ess": ("profile", np.arange(3.0))})
    found = kind(posterior=first)
    _compat.add_group(found, "log_predictive", second)
    assert _compat.holds_draws(found)
    assert _compat.group_names(found) == ["posterior", "log_predictive"]
    xr.testing.assert_identical(_compat.group(found, "posterior"), first)
    xr.testing.assert_identical(_compat.group(found, "log_predictive"), second)
    assert len(_compat.group(found, "sample_stats")) == 0


TWO = pd.DataFrame({"posterior": [1.0], "children": [2.0]})


@pytest.mark.parametrize(
    "given",
    [None, {}, TABLE, TWO, posterior("a")],
    ids=["nothing", "mapping", "table", "table of such columns", "dataset"],
)
def test_nothing_else_holds_draws(given):
    assert not _compat.holds_draws(given)


def test_what_is_made_is_what_the_installed_arviz_reads(tmp_path):
    import arviz as az

    values = {"a": np.random.default_rng(1).normal(size=(2, 50))}
    made = _compat.draws_of_posterior(values)
    again = _compat.draws_object({"posterior": _compat.group(made, "posterior")})
    for found in (made, again):
        assert type(found) is (xr.DataTree if _compat.arviz_is_a_tree() else az.InferenceData)
        np.testing.assert_array_equal(_compat.group(found, "posterior")["a"], values["a"])
    whole = float(az.ess(_compat.group(made, "posterior"), method="bulk")["a"])
    assert whole == pytest.approx(_compat.effective_draws(values["a"]), rel=1e-12)
    made.to_netcdf(str(tmp_path / "draws.nc"), engine="h5netcdf")
    with xr.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as back:
        np.testing.assert_array_equal(_compat.group(back, "posterior")["a"], values["a"])


@KINDS
def test_draws_are_taken_apart_and_put_together(kind, tmp_path):
    stats = xr.Dataset({"diverging": (("chain", "draw"), np.eye(2, dtype=bool))}, attrs={"by": "n"})
    labels = {"class": ["one", "two", "three"]}
    given = kind(posterior=posterior("a", draws=2).assign_coords(labels), sample_stats=stats)
    with keeping(Store(tmp_path / "steps")):
        back = kept_chains(lambda: given, Length(draws=2, tune=0, chains=2))
    assert _compat.group_names(back) == ["posterior", "sample_stats"]
    for name in _compat.group_names(back):
        xr.testing.assert_identical(_compat.group(back, name), _compat.group(given, name))


# --- draws from elsewhere ------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("how", ["one", "by column"])
def test_draws_of_either_kind_are_a_fit(kind, how):
    names = ["Intercept", "x", "sigma"]
    model = br.models.Regression({"y": "1 + x"})
    one = kind(posterior=posterior(*(f"y: {name}" for name in names)))
    given = one if how == "one" else {"y": kind(posterior=posterior(*names))}
    fit = model.from_draws(TABLE, given)
    flat = {n: _compat.group(one, "posterior")[f"y: {n}"].to_numpy().ravel() for n in names}
    same = model.from_draws(TABLE, {"y": pd.DataFrame(flat)})
    a, b = (f.synthesize(2, random_seed=1) for f in (fit, same))
    assert fit.diagnostics["chains"] == 2 and same.diagnostics["chains"] == 1
    for x, y in zip(a.datasets, b.datasets, strict=True):
        pd.testing.assert_frame_equal(x, y)


@KINDS
@pytest.mark.parametrize(
    "groups",
    [
        {"prior": posterior("y: x")},
        {"posterior": xr.Dataset()},
        {"posterior": xr.Dataset({"y: x": ("sample", np.ones(9))})},
        {"posterior": xr.Dataset({"y: x": (("sample", "part"), np.ones((9, 2)))})},
    ],
    ids=["no posterior", "empty", "one dimension", "other dimensions"],
)
def test_draws_without_chains_are_refused(kind, groups):
    with pytest.raises(br.InputError, match="no variables of 'y'; they are named 'y: Intercept'"):
        br.models.Regression({"y": "1 + x"}).from_draws(TABLE, kind(**groups))


def test_a_table_with_a_column_posterior_is_a_table():
    names = ["Intercept", "x", "sigma", "posterior", "children", "groups"]
    table = pd.DataFrame({name: [1.0, 2.0] for name in names})
    fit = br.models.Regression({"y": "1 + x"}).from_draws(TABLE, {"y": table})
    assert fit.diagnostics["draws"] == 2
    with pytest.raises(br.InputError, match="draws is a DataFrame; give a mapping"):
        br.models.Regression({"y": "1 + x"}).from_draws(TABLE, table)


def test_a_run_knows_the_version_of_its_diagnostics():
    """Another version may give another R-hat, so a stopped run must not go on with it."""
    from bayes_risk.reporting.provenance import versions

    assert ("arviz-stats" in versions()) == _compat.arviz_is_a_tree()
    assert {"arviz", "pymc"} <= set(versions())


def test_names_with_slashes_are_read_back_as_they_were():
    """Variables of a tree may not have them: ``C(job)[T.clerk/cook]``, ``x / 2``."""
    values = {"y: x / 2": np.random.default_rng(1).normal(size=(2, 30))}
    made = _compat.draws_of_posterior(values)
    (name,) = _compat.group(made, "posterior").data_vars
    assert _compat.plain_name(str(name)) == "y: x / 2"
    assert "/" not in str(name)


def test_a_regression_whose_formula_divides_is_fitted_and_its_draws_are_brought():
    model = br.models.Regression({"y": "1 + I(x / 2)"})
    fit = model.fit(TABLE, draws=20, tune=0, chains=2, random_seed=1)
    again = model.from_draws(TABLE, fit.idata)
    np.testing.assert_array_equal(
        again.posterior.parts[0].draws.beta, fit.posterior.parts[0].draws.beta
    )


# --- PyMC ----------------------------------------------------------------------------------------


class Later:
    """A step method of PyMC 6.4."""

    def setup_chain(self, rng, tune, draws):
        self.told = rng, tune, draws


class Earlier:
    """And one before it."""

    def set_rng(self, rng):
        self.told = rng


def test_step_methods_of_either_kind_get_their_generator():
    rng, later, earlier = np.random.default_rng(1), Later(), Earlier()
    for step in (later, earlier):
        _compat.set_up_chain(step, rng, tune=5, draws=7)
    assert later.told == (rng, 5, 7) and earlier.told is rng
