"""Modes of a model in which the chains of an audit were found, for reports: `docs/modes.md`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.formats import NONE, begun
from bayes_risk.data.base_result import Table, count_column, value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Modes:
    """The modes in which starts led by a release were found, and those that were carried on.

    Attributes
    ----------
    mode : ndarray of int, shape (S,)
        Mode of each start, 0 the one that the release favours most, then in falling order.
    distance : ndarray, shape (S, S)
        Root mean square of the difference between two starts' base log ratios of the probed
        guesses, less what the noise of each explains.
    log_release : ndarray, shape (S, m)
        Mean log probability of each data set given draws of each start.
    kept, chosen : tuple of int, ndarray of int, shape (m,)
        Modes that the release does not rule out; the mode that each data set chooses by itself, or
        -1.
    used : ndarray of int, shape (C,)
        Starts that were carried on: the chains of the audit.
    put_back : int
        How often a chain left the mode later, in any of the fits, and was put back.
    settled : bool
        Whether the best mode was found twice, or by draws of the fit that made the release, or most
        starts found modes that others did too; else a better one may be left.
    """

    mode: Ints
    distance: Array
    log_release: Array
    kept: tuple[int, ...]
    chosen: Ints
    used: Ints
    put_back: int = 0
    settled: bool = True

    @property
    def discarded(self) -> Ints:
        """Starts in a mode that the release rules out."""
        return np.flatnonzero(~np.isin(self.mode, self.kept))

    @property
    def elsewhere(self) -> Ints:
        """Data sets, counted from 1, that by themselves choose another mode than all together."""
        return np.flatnonzero((self.chosen != -1) & ~np.isin(self.chosen, self.kept)) + 1

    @property
    def chains_by_mode(self) -> list[Ints]:
        """Chains of the audit, counted from 0, in each mode that any of them is in."""
        mode = self.mode[self.used]
        return [np.flatnonzero(mode == k) for k in np.unique(mode)]

    @property
    def table(self) -> pd.DataFrame:
        """One row per mode, counted from 1, that which the release favours most first.

        Columns: ``starts`` found in it; ``chains`` of the audit; ``log_release``, how many nats
        less probable than the first it makes the release; ``open``, whether the release does not
        rule it out; ``data_sets`` that choose it by themselves, as numbers from 1.
        """
        modes, total = np.unique(self.mode), self.log_release.sum(axis=1)
        mean = np.array([total[self.mode == k].mean() for k in modes])
        by_itself = [np.flatnonzero(self.chosen == k) + 1 for k in modes]
        columns = {
            "starts": [int((self.mode == k).sum()) for k in modes],
            "chains": [int((self.mode[self.used] == k).sum()) for k in modes],
            "log_release": mean - mean[0],
            "open": np.isin(modes, self.kept),
            "data_sets": [", ".join(map(str, sets)) for sets in by_itself],
        }
        return pd.DataFrame(columns, index=pd.Index(modes + 1, name="mode"))

    def sentence(self) -> str:
        """The same in words."""
        S, discarded, kept = len(self.mode), len(self.discarded), len(self.kept)
        text = "found the same mode"
        if kept > 1:
            text = f"found {kept} modes that the release does not distinguish, and intervals "
            text += "span these"
        if not self.settled:
            text = f"found {kept} modes, the best of them only once: better ones may remain, and "
            text += "intervals span these (to resolve: audit with the fit that made the release)"
        if len(others := self.elsewhere):
            text += f"; considered alone, data set {', '.join(map(str, others))} chooses another"
        text += f"; {discarded} discarded" * bool(discarded)
        times = f"{self.put_back} times" if self.put_back > 1 else "once"
        text += f"; chains that left their mode were restarted {times}" * bool(self.put_back)
        return f"{S - discarded} of {S} chains started from the release {text}"

    def shown(self, means: Sequence[float] = ()) -> Table:
        """`table` for people; ``means``: mean probability of the truth in each mode left open."""
        frame = self.table
        there = dict(zip(frame.index[frame["chains"] > 0], means, strict=False))
        frame["less"] = (-frame["log_release"]).where(frame["log_release"] != 0)
        frame["mean_probability"] = [there.get(k, np.nan) for k in frame.index]
        return Table(
            title="Modes of the model",
            note=f"{begun(self.sentence())}.",
            caption=(
                "Modes found by the chains that started from the release. Chosen by: data sets "
                "that exclude all other modes by themselves. A difference of 10 nats plus three "
                "standard errors excludes a mode: its unknown weight may offset a smaller one."
            ),
            frame=frame,
            head="Mode",
            columns=[
                ("Starts", count_column("starts")),
                ("Chains of the audit", count_column("chains")),
                ("Release less probable by (nats)", value("less", digits=1)),
                ("Chosen by data sets", lambda row: row["data_sets"] or NONE),
                *([("Mean probability", value("mean_probability"))] if means else []),
            ],
        )
