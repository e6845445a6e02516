"""How close the intruder comes: by hand, and by loops over guesses."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.data.variables import Number
from bayes_risk.risk import closeness as rooms
from tests.helpers.numeric_results import JOB, joint, numeric


def shuffled(risk, seed=7):
    """The same guesses in another order, a different one for each case."""
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random(risk.log_prior.shape), axis=0)

    def take(x):
        return np.take_along_axis(x, order, axis=0)

    return replace(
        risk,
        guesses=np.take_along_axis(risk.guesses, order[..., None], axis=0),
        truth=np.argmax(order == risk.truth, axis=0),
        log_evidence=np.take_along_axis(risk.log_evidence, order[None], axis=1),
        log_prior=take(risk.log_prior),
        log_probability=take(risk.log_probability),
        mcse_log_evidence=take(risk.mcse_log_evidence),
    )


# --- by hand ---------------------------------------------------------------------------------


def test_three_guesses_by_hand():
    """Truth 10; guesses 9, 10, 13 with posterior 0.3, 0.2, 0.5 and prior 0.5, 0.25, 0.25."""
    risk = numeric([[9], [10], [13]], [[0.3], [0.2], [0.5]], [[0.5], [0.25], [0.25]], truth=1)
    row = risk.closeness("LogIncome", within=[1, 2.5], percent=30, mass=0.75).loc[0]
    expected = {
        "mode_error": (3, 1),
        "mode_is_truth": (0, 0),
        "expected_absolute_error": (0.3 + 1.5, 0.5 + 0.75),
        "expected_squared_error": (0.3 + 4.5, 0.5 + 2.25),
        "probability_of_truth": (0.2, 0.25),
        "probability_within_1": (0.5, 0.75),
        "probability_within_2.5": (0.5, 0.75),
        "probability_within_30_percent": (1, 1),
        # posterior: 13 and 9; prior: 9, and one of 10 and 13, which tie: half of each
        "region_size": (2, 2),
        # cells: 9: 1; 10: (1 + 3) / 2 = 2; 13: 3
        "region_length": (3 + 1, 1 + (2 + 3) / 2),
        "truth_in_region": (0, 0.5),
    }
    for name, (posterior, prior) in expected.items():
        assert row[name] == pytest.approx(posterior), name
        assert row[f"{name}_prior"] == pytest.approx(prior), name
    assert row["reliable"]


def test_columns_are_part_of_the_contract():
    table = joint().closeness("LogIncome", within=0.5)
    names = ["mode_error", "mode_is_truth", "expected_absolute_error", "expected_squared_error",
             "probability_of_truth", "probability_within_0.5", "region_size", "region_length",
             "truth_in_region"]  # fmt: skip
    bounded = [n for n in names if n.startswith(("expected", "probability"))]
    expected = {*names, *(f"{n}_prior" for n in names), *(f"{n}_mcse_bound" for n in bounded)}
    assert set(table.columns) == expected | {"reliable"}
    assert table.columns[-1] == "reliable" and len(table.columns) == len(set(table.columns))


def test_a_point_mass_makes_no_error():
    risk = numeric([[5.0], [6.0], [7.0]], [[1], [0], [0]])
    row = risk.closeness("LogIncome", within=0.1).loc[0]
    for name in ("mode_error", "expected_absolute_error", "expected_squared_error"):
        assert row[name] == 0
    for name in ("mode_is_truth", "probability_of_truth", "probability_within_0.1", "region_size"):
        assert row[name] == 1
    assert row["truth_in_region"] == 1 and row["region_length"] == 1
    assert (row.filter(like="mcse_bound").to_numpy(dtype=float) == 0).all()


def test_posterior_equal_to_prior_is_the_baseline():
    p = np.random.default_rng(3).dirichlet(np.ones(5), size=4).T
    table = numeric(np.arange(5.0)[:, None] + np.zeros(4), p, p, truth=[0, 1, 2, 4]).closeness(
        "LogIncome", within=2, percent=50
    )
    for name in table.columns:
        if f"{name}_prior" in table:
            assert np.allclose(table[name], table[f"{name}_prior"]), name


def test_ties_share_the_mode_and_the_region():
    """Ten equal guesses 0..9, truth 2: the mode is anyone, 9 of 10 make 90 %."""
    risk = numeric(np.arange(10.0)[:, None], np.full((10, 1), 0.1), truth=2)
    row = risk.closeness("LogIncome").loc[0]
    assert row["mode_error"] == pytest.approx(np.abs(np.arange(10) - 2).mean())
    assert row["mode_is_truth"] == pytest.approx(0.1)
    assert row["region_size"] == 9
    assert row["region_length"] == pytest.approx(9) and row["truth_in_region"] == pytest.approx(0.9)


def test_ties_forgive_rounding():
    p = np.array([[0.1 + 0.2], [0.3], [0.4 - 1e-16]])
    row = numeric([[0.0], [1], [2]], p / p.sum(), truth=1).closeness("LogIncome", mass=0.5).loc[0]
    assert row["truth_in_region"] == pytest.approx(0.5)
    row = numeric([[0.0], [1]], [[0.5], [0.5 + 1e-13]]).closeness("LogIncome").loc[0]
    assert row["mode_is_truth"] == pytest.approx(0.5)


def test_masses_that_are_met_exactly():
    """Values of 1/n each: k of them make k/n, however that is rounded."""
    for n in range(2, 12):
        risk = numeric(np.arange(float(n))[:, None], np.full((n, 1), 1 / n))
        for k in range(1, n + 1):
            found = risk.closeness("LogIncome", mass=k / n)
            assert found["region_size"].item() == k
            assert found["truth_in_region"].item() == pytest.approx(k / n)


def test_all_of_the_mass_takes_all_that_is_possible():
    risk = numeric([[0.0], [1], [2]], [[0.6], [0.4], [0]], truth=2)
    row = risk.closeness("LogIncome", mass=1).loc[0]
    assert row["region_size"] == 2 and row["truth_in_region"] == 0
    assert row["region_size_prior"] == 3 and row["truth_in_region_prior"] == 1


def test_intervals_are_closed_in_spite_of_rounding():
    grid = 0.3 + 0.1 * np.arange(-3, 4)  # 0.3 - 0.2 is not quite 0.1
    risk = numeric(grid[:, None], np.full((7, 1), 1 / 7), truth=3)
    found = risk.closeness("LogIncome", within=[0.1, 0.2, 0.3], percent=100).loc[0]
    for name, count in {"0.1": 3, "0.2": 5, "0.3": 7, "100_percent": 7}.items():
        assert found[f"probability_within_{name}"] == pytest.approx(count / 7)
    large = numeric([[1e6], [1e6 + 1e-4], [1e6 + 2e-4]], np.full((3, 1), 1 / 3))
    within = large.closeness("LogIncome", within=1e-4)["probability_within_0.0001"]
    assert within.item() == pytest.approx(2 / 3)


def test_percentages_of_zero_and_of_negative_truths():
    values = [[-12.0, -1.0], [-10.0, 0.0], [-9.0, 1.0]]
    p = [[0.2, 0.3], [0.3, 0.3], [0.5, 0.4]]
    found = numeric(values, p, truth=1).closeness("LogIncome", percent=[10, 20])
    assert np.allclose(found["probability_within_10_percent"], [0.8, 0.3])
    assert np.allclose(found["probability_within_20_percent"], [1.0, 0.3])


def test_guesses_that_do_not_count_are_left_out():
    """A far value without prior, and a repetition of the truth, change nothing."""
    plain = numeric([[1.0], [2.0], [4.0]], [[0.5], [0.3], [0.2]])
    more = numeric(
        [[1.0], [2.0], [4.0], [99.0], [1.0]],
        [[0.5], [0.3], [0.2], [0], [0]],
        [[1 / 3], [1 / 3], [1 / 3], [0], [0]],
    )
    pd.testing.assert_frame_equal(
        plain.closeness("LogIncome", within=1), more.closeness("LogIncome", within=1)
    )
    pd.testing.assert_frame_equal(plain.posterior(0, "LogIncome"), more.posterior(0, "LogIncome"))


def test_a_truth_without_prior_is_shown_and_never_found():
    risk = numeric([[1.0], [2.0], [4.0]], [[0], [0.6], [0.4]], [[0], [0.5], [0.5]])
    table = risk.posterior(0, "LogIncome")
    assert table["LogIncome"].tolist() == [1, 2, 4] and table["is_truth"].tolist() == [1, 0, 0]
    row = risk.closeness("LogIncome").loc[0]
    assert row["probability_of_truth"] == 0 and row["mode_error"] == 1


# --- against loops ---------------------------------------------------------------------------


def by_loop(risk, u, j, log_p):
    """Distribution over the values of variable j, one guess after the other."""
    found = {}
    for g in range(risk.n_guesses):
        if np.isfinite(risk.log_prior[g, u]):
            value = risk.guesses[g, u, j]
            found[value] = found.get(value, 0.0) + np.exp(log_p[g, u])
    return found


@pytest.mark.parametrize("j", [0, 1, 2])
def test_marginals_are_sums_over_the_other_variables(j):
    risk = joint()
    variable = risk.variables[j]
    truths = risk.marginal_probability()[variable.name]
    for u in range(6):
        table = risk.posterior(u, variable.name)
        assert list(table.columns) == [
            variable.name, "prior", "probability", "mcse_bound", "is_truth",
        ]  # fmt: skip
        posterior, prior = (by_loop(risk, u, j, x) for x in (risk.log_probability, risk.log_prior))
        values = sorted(posterior)
        decoded = variable.decode(np.array(values), pd.RangeIndex(len(values)))
        assert table[variable.name].tolist() == decoded.tolist()
        assert np.allclose(table["probability"], [posterior[v] for v in values])
        assert np.allclose(table["prior"], [prior[v] for v in values])
        assert table[["prior", "probability"]].sum().to_numpy() == pytest.approx([1, 1])
        true = table[table["is_truth"]]
        assert (
            true[variable.name].item() == decoded[values.index(risk.guesses[risk.truth[u], u, j])]
        )
        for name in ("prior", "probability", "mcse_bound"):
            assert truths[name][u] == pytest.approx(true[name].item())


def test_measures_are_expectations_over_the_joint_guesses():
    risk = joint()
    found = risk.closeness("LogIncome", within=0.7, percent=60)
    p, sd = np.exp(risk.log_probability), risk.mcse_log_evidence
    for u in range(6):
        y = risk.guesses[risk.truth[u], u, 0]
        far = np.abs(risk.guesses[:, u, 0] - y)
        measures = {
            "expected_absolute_error": far,
            "expected_squared_error": far**2,
            "probability_within_0.7": far <= 0.7,
            "probability_within_60_percent": far <= 0.6 * abs(y),
            "probability_of_truth": far == 0,
        }
        for name, f in measures.items():
            mean = (p[:, u] * f).sum()
            assert found[name][u] == pytest.approx(mean)
            assert found[f"{name}_prior"][u] == pytest.approx(
                (np.exp(risk.log_prior)[:, u] * f).sum()
            )
            bound = (p[:, u] * np.abs(f - mean) * sd[:, u]).sum()
            assert found[f"{name}_mcse_bound"][u] == pytest.approx(bound)
        marginal = by_loop(risk, u, 0, risk.log_probability)
        mode = max(marginal, key=marginal.get)
        assert found["mode_error"][u] == pytest.approx(abs(mode - y))
        assert found["mode_is_truth"][u] == (mode == y)


@pytest.mark.parametrize("mass", [0.3, 0.5, 0.9])
def test_regions_are_the_smallest_of_all_sets(mass):
    """Every subset of the four values: the least with the mass, and of these the likeliest."""
    risk = joint()
    found = risk.closeness("LogIncome", mass=mass)
    for u in range(6):
        marginal = by_loop(risk, u, 0, risk.log_probability)
        values = sorted(marginal)
        sets = [np.flatnonzero(s) for s in product([0, 1], repeat=len(values))]
        p = np.array([sum(marginal[values[k]] for k in s) for s in sets])
        size = min(len(s) for s, total in zip(sets, p, strict=True) if total >= mass)
        best = max((total, tuple(s)) for s, total in zip(sets, p, strict=True) if len(s) == size)[1]
        edges = np.convolve(values, [0.5, 0.5], "valid")
        edges = [2 * values[0] - edges[0], *edges, 2 * values[-1] - edges[-1]]
        assert found["region_size"][u] == size
        assert found["region_length"][u] == pytest.approx(sum(np.diff(edges)[list(best)]))
        true = values.index(risk.guesses[risk.truth[u], u, 0])
        assert found["truth_in_region"][u] == (true in best)


def test_errors_stay_below_their_bound_whatever_depends_on_what():
    """Errors of the log evidence that are independent, equal, or opposed."""
    rng = np.random.default_rng(5)
    risk = joint(U=1)
    sd = risk.mcse_log_evidence[:, 0]
    far = np.abs(risk.guesses[:, 0, 0] - risk.guesses[risk.truth[0], 0, 0])
    p = np.exp(risk.log_probability[:, 0])
    bound = risk.closeness("LogIncome")["expected_absolute_error_mcse_bound"].item()
    worst = np.sign(far - (p * far).sum())
    for shock in (rng.normal(size=(4000, len(sd))), rng.normal(size=(4000, 1)) * worst):
        small = p * np.exp(0.01 * shock * sd)
        spread = ((small * far).sum(axis=1) / small.sum(axis=1)).std() / 0.01
        assert spread < 1.05 * bound  # 4 standard errors of a standard deviation of 4000
    assert spread == pytest.approx(bound, rel=0.05)  # the last ones conspire


@pytest.mark.parametrize("name", ["LogIncome", "kids"])
def test_the_order_of_guesses_does_not_matter(name):
    risk, other = joint(), shuffled(joint())
    one, two = (r.closeness(name, within=1, percent=20) for r in (risk, other))
    pd.testing.assert_frame_equal(one, two)
    pd.testing.assert_frame_equal(risk.posterior(4, name), other.posterior(4, name))
    pd.testing.assert_frame_equal(risk.marginal_probability(), other.marginal_probability())
    places = [r.geography("LogIncome", "kids") for r in (risk, other)]
    pd.testing.assert_frame_equal(*places)


def test_blocks_of_cases_change_nothing(monkeypatch):
    risk = joint()
    whole = risk.closeness("LogIncome", within=1)
    monkeypatch.setattr(rooms, "BLOCK", 80)  # two cases at a time
    pd.testing.assert_frame_equal(whole, risk.closeness("LogIncome", within=1))


def test_records_take_the_measures_of_their_case():
    risk = numeric(
        [[1.0, 5], [2, 6]], [[0.9, 0.2], [0.1, 0.8]], case=[1, 0, 1], index=["a", "b", "c"]
    )
    found = risk.closeness("LogIncome")["expected_absolute_error"]
    assert found.index.tolist() == ["a", "b", "c"] and np.allclose(found, [0.8, 0.1, 0.8])
    assert np.allclose(risk.marginal_probability()[("LogIncome", "probability")], [0.2, 0.9, 0.2])


def test_cases_with_fewer_values_are_padded():
    """The second case guesses one value twice."""
    found = numeric([[1.0, 5], [2, 5], [3, 5]], [[0.2, 0.2], [0.3, 0.3], [0.5, 0.5]]).closeness(
        "LogIncome"
    )
    assert found["expected_absolute_error"].tolist() == pytest.approx([0.3 + 1.0, 0])
    assert found["region_length"].tolist() == [3, 0] and found["region_size"].tolist() == [3, 1]
    assert found["probability_of_truth"].tolist() == pytest.approx([0.2, 1])


# --- file level ------------------------------------------------------------------------------


def test_summary_has_a_row_for_each_number_and_means_over_records():
    risk = joint()
    table = risk.closeness_summary(mass=0.8)
    assert table.index.tolist() == ["LogIncome", "kids"]
    for name in table.index:
        one = risk.closeness(name, mass=0.8)
        assert table.columns[-1] == "records" and len(table.columns) == len(one.columns)
        for measure in ("mode_error", "expected_absolute_error", "probability_of_truth"):
            for end in ("", "_prior"):
                assert table.loc[name, f"mean_{measure}{end}"] == pytest.approx(
                    one[f"{measure}{end}"].mean()
                )
        for measure in ("mode_is_truth", "truth_in_region", "truth_in_region_prior"):
            assert table.loc[name, f"share_{measure}"] == pytest.approx(one[measure].mean())


def test_summary_of_categories_alone_is_empty():
    codes = np.arange(3.0)[:, None, None]
    assert numeric(codes, [[0.2], [0.3], [0.5]], variables=(JOB,)).closeness_summary().empty


def test_posteriors_that_cannot_be():
    with pytest.raises(br.InputError, match="'wage' is not guessed"):
        joint().posterior(0, "wage")
    with pytest.raises(br.InputError, match="record 99 is not among the 6 targets"):
        joint().posterior(99, "kids")


# --- numbers that may be missing --------------------------------------------------------------


@pytest.mark.parametrize("code", [-8.0, 11.0, 1e9])
def test_a_missing_value_is_no_distance_away(code):
    """Whatever number stands for it, between others too; record 1 has none, 2 no doubt of it."""
    values = [[10, code, 10], [12, 10, 12], [16, 12, 16], [code, 16, code]]
    p = [[0.1, 0.6, 0.0], [0.2, 0.2, 0.2], [0.1, 0.1, 0.0], [0.6, 0.1, 0.8]]
    income = Number("income", True, "float64", missing=code)
    risk = numeric(values, p, truth=[1, 0, 1], variables=(income,))
    found = risk.closeness("income", within=[2, 1e10])
    # given that there is one: 1/4, 1/2, 1/4 after and 1/3 each before
    for name, (posterior, prior) in {
        "mode_error": (0, 2),
        "expected_absolute_error": (1.5, 2),
        "expected_squared_error": (5, 20 / 3),
        "region_length": (2 + 3 + 4, 2 + 3 + 4),
        "probability_within_2": (0.3, 0.5),
        "probability_within_10000000000": (0.4, 0.75),
        "probability_of_truth": (0.2, 0.25),
        "mode_is_truth": (0, 0.25),
    }.items():
        assert found[name][0] == pytest.approx(posterior), name
        assert found[f"{name}_prior"][0] == pytest.approx(prior), name
    assert found["expected_absolute_error_mcse_bound"][0] == pytest.approx(0.1 * 1.5)
    none = found.filter(regex="error|within|length").loc[1]
    assert none.isna().all() and found["probability_of_truth"][1] == 0.6
    assert found.loc[2, ["mode_error", "expected_absolute_error", "region_length"]].tolist() == [
        0, 0, 3,
    ]  # fmt: skip
    assert risk.probability_between(0, "income", -1e10, 1e10)["probability"] == pytest.approx(0.4)
    row = risk.closeness_summary().loc["income"]
    assert row["records"] == 2 and row["mean_expected_absolute_error"] == pytest.approx(0.75)
    table = risk.tables()["closeness-1"]
    assert table.caption == "income: means over 3 records; distances: over the 2 who have one."
    assert "distance from true income, 2 records" in [row[0] for row in risk.screen().rows]


def test_a_number_that_nobody_has_has_no_distance_and_no_picture():
    income = Number("income", True, "float64", missing=-8.0)
    risk = numeric([[-8], [10]], [[0.5], [0.5]], variables=(income,))
    assert risk.closeness_summary().loc["income", "records"] == 0 and risk.closest().empty
    assert "Expected distance" not in str(risk.tables()["closeness-1"].rows)
    assert "distance" not in str(risk.screen().rows)


def test_results_looked_at_in_turn_give_what_each_gives_alone():
    """What is kept of one result serves no other, and not the same one with another prior."""
    p, q = [[0.3], [0.2], [0.5]], [[0.6], [0.3], [0.1]]
    risks = [numeric([[9], [10], [13]], one, q, truth=1) for one in (p, q)]
    risks.append(replace(risks[0], log_prior=risks[1].log_probability))

    def table(risk):
        return risk.marginal_probability()["LogIncome"][["prior", "probability"]].loc[0].tolist()

    for _ in range(2):
        for risk, right in zip(risks, ([0.3, 0.2], [0.3, 0.3], [0.3, 0.2]), strict=True):
            assert table(risk) == pytest.approx(right)
    rooms._last.clear()
    assert table(risks[2]) == pytest.approx([0.3, 0.2])


def test_marginals_of_few_values_are_computed_once_however_many_guesses(monkeypatch):
    risk, made = joint(), []
    monkeypatch.setattr(rooms, "BLOCK", 80)  # some cases at a time
    monkeypatch.setattr(rooms, "KEPT", 3 * risk.log_prior.shape[1])
    marginal = rooms._marginal

    def counted(*given):
        made.append(given)
        return marginal(*given)

    first = rooms.nearest_values(risk, [1])
    monkeypatch.setattr(rooms, "_marginal", counted)
    pd.testing.assert_frame_equal(rooms.nearest_values(risk, [1]), first)
    assert not made and len(risk.log_prior) > 3
    rooms.nearest_values(risk, [0, 1])
    rooms.nearest_values(risk, [0, 1])
    assert len(made) == 2 * -(-risk.log_prior.shape[1] // (80 // len(risk.log_prior)))


def test_the_likeliest_of_the_truths_neighbours_has_no_number_without_the_release():
    """It is the truth, whatever is released."""
    rng = np.random.default_rng(2)
    df = pd.DataFrame({c: rng.choice(list("ab"), 80) for c in "gh"})
    df["x"] = rng.normal(0, 1, 80).round(1)
    fit = br.models.CART(order=["x", "g"], min_leaf=20).fit(df, random_seed=1)
    release = fit.synthesize(m=1, random_seed=1)
    of = {"x": "levels"}, br.Neighbourhood(1)
    both = [br.attribute_risk(fit, release, guesses=one, random_seed=1) for one in of]
    every, near = ({row[0]: row[-1] for row in risk.tables()["closeness-1"].rows} for risk in both)
    modes = {row for row, without in near.items() if without == "\N{EN DASH}"}
    assert modes == {"Distance of the likeliest value", "Likeliest value is the true one"}
    assert not any(without == "\N{EN DASH}" for without in every.values())
