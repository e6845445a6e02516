"""Pictures of results: each function takes a result and gives matplotlib axes.

Nothing is shown, no global style is touched; without ``ax`` the figure belongs to the axes alone
(``ax.figure.savefig(...)``). Colours are those of Okabe & Ito (2008), told apart by every eye, and
every colour has a second sign (dash, marker or label). Other keywords go to matplotlib, to whatever
draws the numbers of the release: bars, points or curve.
"""

from .attribute import (
    GOOD_KHAT,
    calibration,
    plot_attribute_risk,
    plot_calibration,
    plot_closeness,
    plot_diagnostics,
    plot_geography,
    plot_posterior,
    plot_priors,
    plot_ranks,
    plot_worst,
    random_guess,
)
from .canvas import axes_of, legend
from .comparison import (
    PAIRS,
    plot_context,
    plot_factor,
    plot_risk_utility,
    plot_tornado,
    plot_utility,
    plot_worst_pairs,
)
from .membership import (
    STYLES,
    plot_before_after,
    plot_full_table,
    plot_likeliest,
    plot_match_probabilities,
    plot_path,
    plot_privacy_loss,
    plot_roc,
    plot_sweep,
)

__all__ = [
    "GOOD_KHAT",
    "axes_of",
    "legend",
    "PAIRS",
    "STYLES",
    "plot_utility",
    "calibration",
    "plot_calibration",
    "plot_geography",
    "plot_privacy_loss",
    "plot_roc",
    "plot_priors",
    "plot_worst_pairs",
    "plot_attribute_risk",
    "plot_before_after",
    "plot_closeness",
    "plot_context",
    "plot_diagnostics",
    "plot_factor",
    "plot_full_table",
    "plot_likeliest",
    "plot_match_probabilities",
    "plot_path",
    "plot_posterior",
    "plot_ranks",
    "plot_risk_utility",
    "plot_sweep",
    "plot_tornado",
    "plot_worst",
    "random_guess",
]
