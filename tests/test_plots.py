import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bayes_risk import plots
from tests.edge_results import attribute, identification

RISK = attribute([0.2, 0.3, 0.4, 0.9], reliable=[True, True, True, False], labels=list("abcd"))
ALL = [
    (plots.plot_attribute_risk, RISK),
    (plots.plot_ranks, RISK),
    (plots.plot_worst, RISK),
    (plots.plot_diagnostics, RISK),
    (plots.plot_match_probabilities, identification()),
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
    assert labels == [r"a\$b\$", "x" * 23 + "\N{HORIZONTAL ELLIPSIS}"]
    axes.figure.canvas.draw()


def test_missing_errors_do_not_stop_a_plot():
    risk = attribute([0.2, 0.9], mcse=np.nan)
    for plot in (plots.plot_worst, plots.plot_diagnostics):
        plot(risk).figure.canvas.draw()
