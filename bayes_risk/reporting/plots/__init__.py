"""Pictures of results: each function takes a result and gives matplotlib axes.

Nothing is shown, no global style is touched; without ``ax`` the figure belongs to the axes alone
(``ax.figure.savefig(...)``). Colours are those of Okabe & Ito (2008), told apart by every eye, and
every colour has a second sign (dash, marker or label). Other keywords go to matplotlib, to whatever
draws the numbers of the release: bars, points or curve.
"""

from .attribute import GOOD_KHAT as GOOD_KHAT
from .attribute import calibration as calibration
from .attribute import plot_attribute_risk as plot_attribute_risk
from .attribute import plot_calibration as plot_calibration
from .attribute import plot_closeness as plot_closeness
from .attribute import plot_diagnostics as plot_diagnostics
from .attribute import plot_geography as plot_geography
from .attribute import plot_held_out as plot_held_out
from .attribute import plot_posterior as plot_posterior
from .attribute import plot_priors as plot_priors
from .attribute import plot_ranks as plot_ranks
from .attribute import plot_worst as plot_worst
from .attribute import random_guess as random_guess
from .canvas import axes_of as axes_of
from .canvas import legend as legend
from .comparison import PAIRS as PAIRS
from .comparison import plot_context as plot_context
from .comparison import plot_factor as plot_factor
from .comparison import plot_risk_utility as plot_risk_utility
from .comparison import plot_tornado as plot_tornado
from .comparison import plot_utility as plot_utility
from .comparison import plot_verdicts as plot_verdicts
from .comparison import plot_worst_pairs as plot_worst_pairs
from .membership import STYLES as STYLES
from .membership import plot_before_after as plot_before_after
from .membership import plot_full_table as plot_full_table
from .membership import plot_likeliest as plot_likeliest
from .membership import plot_match_probabilities as plot_match_probabilities
from .membership import plot_path as plot_path
from .membership import plot_privacy_loss as plot_privacy_loss
from .membership import plot_roc as plot_roc
from .membership import plot_sweep as plot_sweep
