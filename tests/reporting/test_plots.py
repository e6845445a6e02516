import dataclasses
from functools import partial

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bayes_risk.reporting import plots
from bayes_risk.reporting.plots import canvas
from tests.helpers.edge_results import attribute, identification
from tests.helpers.numeric_results import joint

RISK = attribute([0.2, 0.3, 0.4, 0.9], reliable=[True, True, True, False], labels=list("abcd"))
NUMBERS = joint()  # LogIncome, kids (numbers) and job
ALL = [
    (plots.plot_attribute_risk, RISK),
    (plots.plot_ranks, RISK),
    (plots.plot_worst, RISK),
    (plots.plot_diagnostics, RISK),
    (plots.plot_match_probabilities, identification()),
    (partial(plots.plot_closeness, variable="LogIncome"), NUMBERS),
    (partial(plots.plot_closeness, variable="LogIncome", relative=True), NUMBERS),
    (partial(plots.plot_posterior, label=2, variable="kids"), NUMBERS),
    (partial(plots.plot_posterior, label=2, variable="job"), NUMBERS),
    (partial(plots.plot_posterior, label=2), NUMBERS),
]


@pytest.mark.parametrize(("plot", "result"), ALL)
def test_gives_axes_of_a_new_figure_and_touches_nothing_global(plot, result):
    before = mpl.rcParams.copy()
    axes = plot(result)
    assert isinstance(axes, Axes)
    assert axes.get_xlabel()
    assert axes.get_legend() is not None
    assert mpl.rcParams == before
    axes.figure.canvas.draw()


@pytest.mark.parametrize(("plot", "result"), ALL)
def test_draws_where_it_is_told(plot, result):
    ax = Figure().add_subplot()
    assert plot(result, ax=ax) is ax


def test_results_plot_themselves():
    assert isinstance(RISK.plot(), Axes)
    assert isinstance(identification().plot(), Axes)


def heights(axes):
    return [bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)]


def lines_at(axes):
    return [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"]


def test_random_guess_line_is_one_over_the_number_of_guesses():
    assert lines_at(plots.plot_attribute_risk(RISK)) == [pytest.approx(1 / 3)]
    assert plots.random_guess(RISK) == pytest.approx(1 / 3)


def test_bars_count_every_record():
    assert sum(heights(plots.plot_attribute_risk(RISK))) == 4


def test_ranks_share_ties_and_count_every_record():
    # 0.2: two guesses above (0.4 each); 0.3: two above; 0.4, 0.9: first
    assert heights(plots.plot_ranks(RISK)) == [2, 0, 2]
    assert heights(plots.plot_ranks(attribute([1 / 3]))) == pytest.approx([1 / 3] * 3)


def test_worst_first_from_the_top_with_labels_as_they_are():
    risk = attribute([0.2, 0.9], labels=["a$b$", "x" * 40])
    axes = plots.plot_worst(risk)
    labels = [t.get_text() for t in axes.get_yticklabels()]
    assert labels == ["x" * 23 + "\N{HORIZONTAL ELLIPSIS}", r"a\$b\$"]
    assert axes.yaxis_inverted()
    axes.figure.canvas.draw()


def test_missing_errors_do_not_stop_a_plot():
    risk = attribute([0.2, 0.9], mcse=np.nan)
    for plot in (plots.plot_worst, plots.plot_diagnostics):
        plot(risk).figure.canvas.draw()


def curve(axes, label):
    return next(line for line in axes.lines if line.get_label() == label).get_xydata()


def test_closeness_curves_hold_every_record():
    axes = plots.plot_closeness(NUMBERS, "LogIncome")
    table = NUMBERS.closeness("LogIncome")
    for label, name in {"with": "", "without": "_prior"}.items():
        found = curve(axes, f"{label} the release")
        assert set(found[1:, 0]) == set(table[f"expected_absolute_error{name}"])
        assert found[-1, 1] == 1


def test_relative_closeness_is_in_units_of_the_prior():
    found = curve(plots.plot_closeness(NUMBERS, "kids", relative=True), "with the release")
    table = NUMBERS.closeness("kids")
    ratio = table["expected_absolute_error"] / table["expected_absolute_error_prior"]
    assert np.allclose(np.unique(found[1:, 0]), np.unique(ratio))


@pytest.mark.parametrize(
    ("highest", "end"), [(0.9, 1), (0.31, 0.4), (0.17, 0.3), (0.15, 0.2), (0.004, 0.005)]
)
def test_an_axis_of_small_probabilities_ends_above_them(highest, end):
    risk = attribute([highest, highest / 2], prior="far from everything")
    risk = dataclasses.replace(risk, log_prior=np.full((3, 2), -9.0), mcse=np.zeros(2))
    for plot in (plots.plot_attribute_risk, plots.plot_worst):
        assert plot(risk).get_xlim() == pytest.approx((0, end))


def test_posterior_of_a_number_stands_over_its_values():
    table = NUMBERS.posterior(2, "LogIncome")
    axes = plots.plot_posterior(NUMBERS, 2, "LogIncome")
    parts = {"with the release": table[~table["is_truth"]], "the truth": table[table["is_truth"]]}
    for label, part in parts.items():
        assert np.allclose(curve(axes, label), part[["LogIncome", "probability"]])
    assert np.allclose(curve(axes, "without the release"), table[["LogIncome", "prior"]])
    assert axes.get_xlabel() == "LogIncome"


def widths(axes, colour):
    wanted = mpl.colors.to_rgba(colour)
    return [bar.get_width() for bar in axes.patches if bar.get_facecolor() == wanted]


def test_posterior_of_a_category_has_a_bar_for_each_level():
    table = NUMBERS.posterior(2, "job").sort_values("probability", ascending=False)
    axes = plots.plot_posterior(NUMBERS, 2, "job")
    true = table["is_truth"]
    assert widths(axes, canvas.BLUE) == pytest.approx(table["probability"][~true].to_list())
    assert widths(axes, canvas.VERMILION) == pytest.approx(table["probability"][true].to_list())
    assert [t.get_text() for t in axes.get_yticklabels()] == table["job"].to_list()


def test_joint_posterior_shows_the_likeliest_and_always_the_truth():
    table = NUMBERS.posterior(2)
    axes = plots.plot_posterior(NUMBERS, 2)
    true = table.index[table["is_truth"]].item()
    assert true > plots.attribute.MANY_BARS
    assert widths(axes, canvas.BLUE) == pytest.approx(table["probability"][:10].to_list())
    assert widths(axes, canvas.VERMILION) == pytest.approx([table["probability"][true]])
    assert "11 of 36 guesses shown" in axes.get_xlabel()
    income, kids, job = table.iloc[true, :3]
    assert axes.get_yticklabels()[-1].get_text() == f"{income:.6g}, {kids}, {job}"


def test_posterior_of_the_only_variable_needs_no_name():
    axes = plots.plot_posterior(RISK, "d")
    assert axes.get_ylabel() == "job" and "guesses shown" not in axes.get_xlabel()


def wide(places=10_560, n=50):
    """As many guesses for each record; the truth at places 1, 2, ..., n."""
    risk = attribute([0.5] * n)
    log_p = np.full((places, n), -12.0)
    log_p[np.arange(places)[:, None] <= np.arange(n)] = -3.0
    log_p[0] = -5.0
    return dataclasses.replace(
        risk,
        guesses=np.zeros((places, n, 1), dtype=np.int64),
        log_evidence=log_p[None],
        log_prior=np.full((places, n), -np.log(places)),
        log_probability=log_p,
    )


def test_ranks_among_thousands_of_guesses_stand_in_few_bars_that_hold_all_records():
    axes = plots.plot_ranks(wide())
    labels = [tick.get_text() for tick in axes.get_xticklabels()]
    assert labels[:5] == ["1", "2", "3", "5", "9"] and labels[-1] == "8,193"
    assert sum(heights(axes)) == pytest.approx(50) and len(heights(axes)) == 15
    (chance,) = [patch for patch in axes.patches if hasattr(patch, "get_data")]
    assert chance.get_data().values.sum() == pytest.approx(50)
    assert chance.get_data().values[1] == pytest.approx(50 / 10_560)


def test_random_guess_is_told_in_full():
    axes = plots.plot_attribute_risk(wide())
    assert "random guess (1 in 10,560)" in [t.get_text() for t in axes.get_legend().get_texts()]


def test_random_guess_counts_only_the_guesses_of_each_record():
    prior = np.log(np.full((3, 2), 1 / 3))
    prior[:, 1] = [np.log(0.5), np.log(0.5), -np.inf]
    risk = dataclasses.replace(attribute([0.4, 0.4]), log_prior=prior)
    assert risk.guesses_each.tolist() == [3, 2]
    assert "Choosing among 2 to 3 guesses (median 2) for each" in risk.sentence()
    (chance,) = [p for p in plots.plot_ranks(risk).patches if hasattr(p, "get_data")]
    assert chance.get_data().values == pytest.approx([1 / 3 + 1 / 2, 1 / 3 + 1 / 2, 1 / 3])


@pytest.mark.parametrize(("plot", "result"), ALL[:4])
def test_in_axes_of_others_the_legend_stands_inside(plot, result):
    figure = Figure(figsize=(8, 3))
    axes = figure.subplots(1, 2)[0]
    axes.set_title("a title")
    plot(result, ax=axes)
    figure.canvas.draw()
    inside, around = axes.get_legend().get_window_extent(), axes.get_window_extent()
    assert inside.y1 <= around.y1 + 1 and inside.x1 <= around.x1 + 1
    alone = plot(result)
    alone.figure.canvas.draw()
    assert alone.get_legend().get_window_extent().y0 >= alone.get_window_extent().y1 - 1


def test_errors_of_the_worst_stay_between_0_and_1():
    axes = plots.plot_worst(attribute([0.004, 0.999, 0.5], mcse=0.01))
    ends = np.concatenate([segments[:, 0] for segments in axes.collections[0].get_segments()])
    assert ends.min() >= 0 and ends.max() <= 1
    assert np.isclose(ends, 0.48).any() and np.isclose(ends, 0.52).any()
