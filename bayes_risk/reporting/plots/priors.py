"""One audit under several beliefs."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError

from .canvas import BLUE, ORANGE, as_text, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BESIDE = {"mean_probability": ("mcse", "baseline"), "max_probability": ("max_mcse", "max_baseline")}
WORDS = {"mean_probability": "mean over records", "max_probability": "worst record"}


def plot_priors(
    compared: pd.DataFrame,
    *,
    measure: str = "mean_probability",
    ax: "Axes | None" = None,
    **kwargs: Any,
) -> "Axes":
    """Probability of the truth under each prior, two standard errors, and the prior's own.

    Parameters
    ----------
    compared : DataFrame
        From ``evidence.compare({...})``: one row a prior.
    measure : {"mean_probability", "max_probability"}
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.barh`.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        Another measure, or a table that does not hold it.
    """
    if measure not in BESIDE or measure not in compared:
        raise InputError(
            f"measure={measure!r} is not drawn from these columns; give one of {list(BESIDE)} and "
            "the table of evidence.compare({...})"
        )
    axes, places = axes_of(ax), np.arange(len(compared))
    error, baseline = BESIDE[measure]
    spread = 2 * compared[error].fillna(0).to_numpy()
    style: dict[str, Any] = {"height": 0.6, "color": BLUE, "capsize": 2}
    style |= {"label": "with the release (\N{PLUS-MINUS SIGN} 2 s.e.)"} | kwargs
    axes.barh(places, compared[measure], xerr=spread, **style)
    axes.plot(compared[baseline], places, "D", color=ORANGE, ms=5, label="without the release")
    axes.set_yticks(places, [as_text(name) for name in compared.index])
    axes.set(ylabel="prior", xlabel=f"probability of the truth, {WORDS[measure]}")
    axes.set_xlim(left=0)
    axes.invert_yaxis()
    legend(axes)
    return axes
