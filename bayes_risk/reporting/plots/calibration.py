"""Whether the intruder's confidence is borne out: predicted probability against frequency."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import beta

from bayes_risk._core.validate import at_least

from .canvas import BLUE, GREY, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_risk.risk.result import AttributeRisk

Array = npt.NDArray[np.float64]
TIE = 1e-9
TAIL = 0.025


def calibration(risk: "AttributeRisk", *, bins: int = 10) -> pd.DataFrame:
    """How often the intruder's likeliest guess is right, by the probability it is given.

    If the true values are distributed as the prior says and the model is true, the frequency equals
    the probability in every bin. Guesses centred on the truth under a flat prior are not: there the
    table shows how misled, or how lucky, the intruder is.

    Parameters
    ----------
    risk : AttributeRisk
    bins : int
        Into how many bins of equal width the probabilities from 0 to 1 are put.

    Returns
    -------
    DataFrame
        One row per bin that holds records, labelled by its lower end: ``predicted`` (mean
        probability of the likeliest guess), ``frequency`` (share of records of which it is the
        truth; guesses that tie share), ``low`` and ``high`` (95 % interval, Jeffreys: of Beta(k +
        1/2, n - k + 1/2), 0 or 1 where no or every guess is right), ``records`` n. Records released
        unchanged are left out.

    Raises
    ------
    InputError
        No bin.

    Notes
    -----
    Intervals take records as independent; they share the release and its draws, so a departure of
    all bins to one side says less than as many departures to both.
    """
    at_least("bins", bins, 1)
    kept = risk.case[~risk.disclosed[risk.case]]
    confidence, right = (values[kept] for values in _likeliest(risk))
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    rows = {}
    for b in np.unique(place):
        here = place == b
        n, k = int(here.sum()), float(right[here].sum())
        rows[b / bins] = (confidence[here].mean(), k / n, *_interval(k, n), n)
    columns = ["predicted", "frequency", "low", "high", "records"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("bin")
    return table.astype({"records": "int64"})


def plot_calibration(
    risk: "AttributeRisk", *, bins: int = 10, ax: "Axes | None" = None, **kwargs: Any
) -> "Axes":
    """How often the likeliest guess is right against its probability, with 95 % intervals.

    On the line the intruder's confidence is borne out, below it the intruder is too sure. Numbers
    of records stand beside the points. See `calibration`.

    Parameters
    ----------
    risk : AttributeRisk
    bins : int
        Number of bins of equal width.
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.errorbar`.

    Returns
    -------
    matplotlib Axes
    """
    axes, table = axes_of(ax), calibration(risk, bins=bins)
    x, y = table["predicted"].to_numpy(), table["frequency"].to_numpy()
    spread = np.stack([y - table["low"], table["high"] - y])
    axes.plot([0, 1], [0, 1], "--", color=GREY, label="borne out")
    style: dict[str, Any] = {"fmt": "o", "color": BLUE, "capsize": 3}
    style |= {"label": "likeliest guess (95 % interval)"} | kwargs
    axes.errorbar(x, y, yerr=spread, **style)
    for at, height, n in zip(x, y, table["records"], strict=True):
        axes.annotate(
            f"{n:,}", (at, height), (6, -11), textcoords="offset points", fontsize="small"
        )
    axes.set(xlim=(0, 1.05), ylim=(0, 1.05))
    axes.set(xlabel="probability of the likeliest guess", ylabel="share of records\nwhere it is so")
    legend(axes)
    return axes


def _likeliest(risk: "AttributeRisk") -> tuple[Array, Array]:
    """Probability of the likeliest guess, and the share of it that is the truth; shapes (U,)."""
    top = risk.log_probability.max(axis=0)
    level = risk.log_probability >= top - TIE
    true = np.take_along_axis(level, risk.truth[None], axis=0)[0]
    return np.exp(top), true / level.sum(axis=0)


def _interval(k: float, n: int) -> tuple[float, float]:
    low = 0.0 if k == 0 else float(beta.ppf(TAIL, k + 0.5, n - k + 0.5))
    high = 1.0 if k == n else float(beta.ppf(1 - TAIL, k + 0.5, n - k + 0.5))
    return low, high
