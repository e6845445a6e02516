"""Pictures of each kind of result: what is drawn is what the result says."""

import dataclasses
from functools import partial

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from scipy.stats import beta

from bayes_risk.reporting import plots
from tests.helpers.edge_results import attribute
from tests.helpers.every_result import every
from tests.helpers.numeric_results import joint

pytestmark = pytest.mark.check

KINDS = {
    "risk": (plots.plot_attribute_risk, "attribute", {"alpha": 0.5}),
    "ranks": (plots.plot_ranks, "attribute", {"width": 0.5}),
    "worst": (plots.plot_worst, "attribute", {"ms": 9}),
    "k-hat": (plots.plot_diagnostics, "attribute", {"ms": 9}),
    "calibration": (plots.plot_calibration, "attribute", {"ms": 9}),
    "matches": (plots.plot_match_probabilities, "identification", {"alpha": 0.5}),
    "roc": (plots.plot_roc, "membership", {"lw": 3}),
    "losses": (plots.plot_privacy_loss, "privacy loss", {"lw": 3}),
    "full table": (plots.plot_full_table, "full table", {"ms": 9}),
    "tornado": (plots.plot_tornado, "sensitivity", {"height": 0.3}),
    "prior": (partial(plots.plot_factor, factor="prior"), "sensitivity", {"height": 0.3}),
    "m": (partial(plots.plot_factor, factor="m"), "sensitivity", {"ms": 9}),
    "matching": (plots.plot_sweep, "matching", {"alpha": 0.5}),
    "before, after": (plots.plot_before_after, "reweighting", {"ms": 9}),
    "path": (plots.plot_path, "reweighting", {"ms": 9}),
    "context": (plots.plot_context, "context", {"height": 0.3}),
    "map": (plots.plot_risk_utility, "comparison", {"ms": 9}),
    "squares": (plots.plot_utility, "utility", {"alpha": 0.5}),
    "worst pairs": (plots.plot_worst_pairs, "utility", {"height": 0.3}),
}


def drawn_by(kind, **how):
    plot, name, _ = KINDS[kind]
    return plot(every()[name], **how)


def line(axes, label):
    return next(x for x in axes.lines if x.get_label() == label).get_xydata()


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_figure_with_words_and_nothing_global(kind):
    before = mpl.rcParams.copy()
    axes = drawn_by(kind)
    assert isinstance(axes, Axes) and mpl.rcParams == before
    assert axes.get_xlabel() or axes.get_xticklabels()
    axes.figure.canvas.draw()


@pytest.mark.parametrize("kind", KINDS)
def test_where_it_is_told_and_with_keywords_of_matplotlib(kind):
    ax, given = Figure().add_subplot(), KINDS[kind][2]
    assert drawn_by(kind, ax=ax, **given) is ax
    (name, value), *_ = given.items()
    getters = {"ms": "get_markersize", "lw": "get_linewidth", "alpha": "get_alpha"}
    getters |= {"width": "get_width", "height": "get_height"}
    artists = [*ax.lines, *ax.patches, *ax.collections]
    found = [getattr(a, getters[name])() for a in artists if hasattr(a, getters[name])]
    assert any(np.isclose(v, value) for v in found if np.isscalar(v))


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"squares"}))
def test_every_colour_has_a_second_sign(kind):
    """Marks in a legend differ by more than colour: marker, dash, hatch, or kind of mark."""
    handles, _ = drawn_by(kind).get_legend_handles_labels()
    signs = [sign_of(handle) for handle in handles]
    assert len(handles) > 1 and len(set(signs)) == len(signs)


def sign_of(handle):
    if hasattr(handle, "get_marker"):
        return ("line", handle.get_marker(), handle.get_linestyle(), handle.get_linewidth())
    if hasattr(handle, "patches"):
        first = handle.patches[0]
        return ("bars", first.get_hatch(), first.get_fill(), first.get_linestyle())
    if hasattr(handle, "lines"):
        return ("errors", handle.lines[0].get_marker(), handle.lines[0].get_linestyle())
    return (type(handle).__name__, getattr(handle, "get_hatch", str)(), handle.get_linestyle())


def test_results_draw_themselves_by_the_same_functions():
    for name in (
        *("membership", "privacy loss", "full table", "reweighting", "matching", "utility"),
        *("context", "comparison"),
    ):
        assert isinstance(every()[name].plot(), Axes)


def test_context_measures_stand_beside_what_they_compare_with():
    found = every()["context"]
    axes, table = plots.plot_context(found), found.summary()
    shown = table.loc[
        [name[1] in ("repu", "disco", "dcap", "tcap", "dcr_zero") for name in table.index]
    ]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx(shown["value"].to_list()) and axes.yaxis_inverted()
    beside = line(axes, "with the original")[:, 0]
    assert beside == pytest.approx(shown["compare"].to_numpy())


def test_the_map_is_drawn_in_the_ink_of_the_page():
    """On dark paper a black front would not be seen."""
    found = every()["comparison"]
    with mpl.rc_context({"text.color": "#123456"}):
        axes = plots.plot_risk_utility(found, kind="points")
    front = [x for x in axes.lines if x.get_label() == "Pareto front"]
    assert [x.get_color() for x in front] == ["#123456"] * len(front)
    black = to_rgba("black")
    assert all(to_rgba(x.get_color()) != black for x in axes.lines)


def test_the_mark_of_the_base_stands_within_the_axes():
    found = every()["sensitivity"]
    axes = plots.plot_factor(found, "m")
    low, high = axes.get_ylim()
    top = max(float(y) for x in axes.lines for y in np.atleast_1d(x.get_ydata()))
    assert low == 0 and high > 1.05 * top


# --- calibration -------------------------------------------------------------------------------


def test_calibration_counts_every_record_and_has_jeffreys_intervals():
    risk = attribute([0.2, 0.3, 0.4, 0.9, 0.92, 0.95])
    # likeliest: 0.4 (two others, level), 0.35 (two others, level), 0.4 (truth), 0.9 .. (truth)
    table = plots.calibration(risk, bins=2)
    assert table.index.to_list() == [0.0, 0.5] and table["records"].to_list() == [3, 3]
    assert table["predicted"].to_list() == pytest.approx([(0.4 + 0.35 + 0.4) / 3, 2.77 / 3])
    assert table["frequency"].to_list() == pytest.approx([1 / 3, 1.0])
    assert table["high"].iloc[1] == 1.0
    low, high = beta.ppf([0.025, 0.975], 1.5, 2.5)
    assert table.iloc[0][["low", "high"]].to_list() == pytest.approx([low, high])
    assert table["low"].iloc[1] == pytest.approx(beta.ppf(0.025, 3.5, 0.5))


def test_guesses_that_tie_share_and_unchanged_records_are_left_out():
    risk = attribute([1 / 3, 0.9], disclosed=[False, True])
    table = plots.calibration(risk, bins=10)
    assert table["records"].sum() == 1
    assert table["frequency"].item() == pytest.approx(1 / 3)


def test_an_intruder_who_believes_what_is_true_is_calibrated():
    """Truths drawn from the posterior itself: departures are within their binomial error."""
    rng = np.random.default_rng(8)
    n = 4_000
    p = rng.dirichlet([0.6, 0.6, 0.6], n)
    truth = np.array([rng.choice(3, p=row) for row in p])
    risk = dataclasses.replace(attribute([0.3] * n), log_probability=np.log(p.T), truth=truth)
    table = plots.calibration(risk, bins=10)
    own = table["predicted"] * (1 - table["predicted"]) / table["records"]
    z = (table["frequency"] - table["predicted"]) / np.sqrt(own)
    assert np.abs(z).max() < 4 and table["records"].sum() == n
    inside = (table["low"] <= table["predicted"]) & (table["predicted"] <= table["high"])
    assert inside.mean() > 0.6


def test_calibration_draws_its_table():
    risk = attribute([0.2, 0.3, 0.4, 0.9])
    axes, table = plots.plot_calibration(risk, bins=5), plots.calibration(risk, bins=5)
    bars = axes.containers[0]
    assert bars.lines[0].get_xydata() == pytest.approx(table[["predicted", "frequency"]].to_numpy())
    ends = bars.lines[2][0].get_segments()
    assert [s[0][1] for s in ends] == pytest.approx(table["low"].to_list())
    assert [s[1][1] for s in ends] == pytest.approx(table["high"].to_list())
    assert [t.get_text() for t in axes.texts] == [str(n) for n in table["records"]]


# --- geography ---------------------------------------------------------------------------------


def test_places_are_those_of_the_guessed_numbers_and_colours_are_risks():
    risk = joint()
    axes = plots.plot_geography(risk, "LogIncome", "kids", worst=2)
    points = axes.collections[0]
    p = risk.records["probability"].to_numpy()
    true = risk.guesses[risk.truth, np.arange(len(risk.truth))][risk.case]
    names = [v.name for v in risk.variables]
    at = true[:, [names.index("LogIncome"), names.index("kids")]].astype(float)
    assert np.asarray(points.get_offsets()) == pytest.approx(at)
    assert np.asarray(points.get_array()) == pytest.approx(p)
    assert (np.diff(points.get_sizes()[np.argsort(p)]) >= 0).all()  # the second sign
    rings = axes.lines[0].get_xydata()
    assert rings == pytest.approx(at[np.argsort(-p, kind="stable")[:2]])


def test_places_may_be_given_in_any_order():
    risk = attribute([0.2, 0.9], labels=["a", "b"])
    places = pd.DataFrame({"x": [5.0, 1.0], "y": [6.0, 2.0]}, index=["b", "a"])
    axes = plots.plot_geography(risk, "x", "y", places=places)
    assert np.asarray(axes.collections[0].get_offsets()).tolist() == [[1, 2], [5, 6]]
    assert axes.get_xlabel() == "x" and axes.get_ylabel() == "y"


def test_many_places_become_hexagons_with_the_highest_risk_in_each(monkeypatch):
    monkeypatch.setattr(plots.attribute, "MANY_POINTS", 3)
    risk = attribute([0.2, 0.3, 0.4, 0.9])
    places = pd.DataFrame({"x": [0.0, 0.0, 9.0, 9.0], "y": [0.0, 0.0, 9.0, 9.0]})
    axes = plots.plot_geography(risk, "x", "y", places=places, worst=0)
    assert sorted(axes.collections[0].get_array()) == pytest.approx([0.3, 0.9])
    assert axes.get_legend() is None


# --- priors, membership, losses, utility -------------------------------------------------------


def test_priors_stand_beside_their_own_belief():
    table = every()["evidence"].compare({"even": "uniform", "margins": "marginal"})
    for measure, error, baseline in (
        ("mean_probability", "mcse", "baseline"),
        ("max_probability", "max_mcse", "max_baseline"),
    ):
        axes = plots.plot_priors(table, measure=measure, color="k")
        assert [bar.get_width() for bar in axes.patches] == pytest.approx(table[measure].to_list())
        assert axes.patches[0].get_facecolor() == to_rgba("k")
        assert line(axes, "without the release")[:, 0] == pytest.approx(table[baseline].to_list())
        ends = axes.containers[0].lines[2][0].get_segments()
        wide = [s[1][0] - s[0][0] for s in ends]
        assert wide == pytest.approx((4 * table[error].fillna(0)).to_list())
        assert [t.get_text() for t in axes.get_yticklabels()] == ["even", "margins"]


def test_the_curve_of_membership_is_its_roc():
    found = every()["membership"]
    for log in (False, True):
        axes = plots.plot_roc(found, log=log)
        assert line(axes, "with the release") == pytest.approx(found.roc().to_numpy())
        assert axes.get_xscale() == ("log" if log else "linear")


def test_losses_end_at_the_share_that_is_finite():
    found = every()["privacy loss"]
    ruled = dataclasses.replace(
        found, loss=np.where(np.arange(len(found.loss)) == 0, np.inf, found.loss)
    )
    share = np.isfinite(ruled.records["privacy_loss"]).mean()
    assert line(plots.plot_privacy_loss(ruled), "with the release")[-1, 1] == pytest.approx(share)
    assert share < 1


def test_squares_hold_the_ratios_of_columns_and_pairs():
    found = every()["utility"]
    names, ratios = [*found.unsynthesized, *found.synthesized], plots.comparison.ratios_of(found)
    for (a, b), ratio in found.pairs["ratio"].items():
        i, j = names.index(a), names.index(b)
        assert ratios[max(i, j), min(i, j)] == ratio and np.isnan(ratios[min(i, j), max(i, j)])
    for name, ratio in found.margins["ratio"].items():
        assert ratios[names.index(name), names.index(name)] == ratio
    axes = plots.plot_utility(found)
    drawn = np.ma.filled(axes.collections[0].get_array(), np.nan).reshape(ratios.shape)
    assert drawn == pytest.approx(np.maximum(ratios, 1e-3), nan_ok=True)
    written = [t.get_text() for t in axes.texts]
    assert written == [f"{v:.2g}" for v in ratios[np.isfinite(ratios)]]


def test_worst_pairs_come_first_with_the_worse_column_beside():
    found = every()["utility"]
    axes = plots.plot_worst_pairs(found, k=2)
    table, alone = found.pairs.head(2), found.margins["ratio"]
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
    assert ends == pytest.approx(table["ratio"].clip(lower=0.1).to_list())
    beside = [max(alone[n] for n in pair if n in alone.index) for pair in table.index]
    drawn = line(axes, "the worse column alone")[:, 0]
    assert drawn == pytest.approx(np.maximum(beside, 0.1))
    assert line(axes, "drawn from the truth")[0, 0] == 1


def test_a_sweep_of_matching_draws_the_pooled_matches():
    found = every()["matching"]
    axes = plots.plot_sweep(found)
    assert [bar.get_height() for bar in axes.patches] == pytest.approx(
        found.summary()["expected_match_risk"].to_list()
    )


def test_bars_of_several_settings_differ_by_hatch_too():
    assert len(set(plots.membership.HATCHES)) == len(plots.STYLES)


def test_labels_of_a_tornado_have_room_in_a_figure_as_narrow_as_the_reports(monkeypatch):
    monkeypatch.setattr(plots.comparison, "_short", lambda *_: "truth favoured, factor 10")
    figure = Figure(figsize=(6.8, 3.0))
    axes = plots.plot_tornado(every()["sensitivity"], ax=figure.add_subplot())
    figure.tight_layout()
    figure.canvas.draw()
    ends = [text.get_window_extent().x1 for text in axes.texts]
    assert ends and max(ends) <= figure.bbox.x1
