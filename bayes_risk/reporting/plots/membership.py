"""Pictures of membership and privacy loss."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .canvas import BLUE, ORANGE, VERMILION, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_risk.risk.membership.result import Membership
    from bayes_risk.risk.privacy_loss_result import PrivacyLoss


def plot_roc(
    found: "Membership", *, log: bool = False, ax: "Axes | None" = None, **kwargs: Any
) -> "Axes":
    """Members found against people outside the data who are taken for members.

    On the line the release tells nothing.

    Parameters
    ----------
    found : Membership
        With people outside the data.
    log : bool
        Logarithmic axes, which show the small rates.
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.plot`, for the curve.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        Nobody outside the data was asked about.
    """
    table = found.roc()
    rates = table["false_positive_rate"].to_numpy()
    axes, low = axes_of(ax), float(rates[1]) if log else 0.0
    style: dict[str, Any] = {"color": BLUE, "label": "with the release"} | kwargs
    axes.plot(rates, table["true_positive_rate"], **style)
    axes.plot(rates, rates, color=VERMILION, ls="--", label="without the release")
    if log:
        axes.set(xscale="log", yscale="log")
    axes.set(xlim=(low, 1), ylim=(low, 1.02))
    axes.set(xlabel="people outside the data taken for members", ylabel="members found")
    legend(axes)
    return axes


def plot_privacy_loss(found: "PrivacyLoss", *, ax: "Axes | None" = None, **kwargs: Any) -> "Axes":
    """Share of records whose loss is at most so much; infinite losses are never reached.

    Parameters
    ----------
    found : PrivacyLoss
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.step`, for the curve.

    Returns
    -------
    matplotlib Axes
    """
    table, axes = found.records, axes_of(ax)
    loss = np.sort(table["privacy_loss"].to_numpy())
    finite = loss[np.isfinite(loss)]
    share = np.arange(1, len(finite) + 1) / len(loss)
    style: dict[str, Any] = {"where": "post", "color": BLUE, "label": "with the release"} | kwargs
    axes.step(finite, share, **style)
    if table["low"].notna().any():
        low = np.sort(table["low"].dropna().clip(lower=0))
        share = np.arange(1, len(low) + 1) / len(loss)
        axes.step(low, share, where="post", color=ORANGE, ls=":", label="bias the other way")
    axes.axvline(0, color=VERMILION, ls="--", label="without the release")
    axes.set(xlabel="realised privacy loss", ylabel="share of records", ylim=(0, 1.02))
    legend(axes)
    return axes
