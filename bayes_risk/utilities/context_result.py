"""Context measures of releases, frozen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_risk._core.formats import percent, plain

from .meanings import MEANINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]

SHOWN = {"repu": "repU", "disco": "DiSCO", "dcap": "DCAP", "tcap": "TCAP", "dcr_zero": "DCR = 0"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextMeasures:
    """Measures that other tools report, by release; made by `context_measures`.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the original's records.
    keys, targets : tuple of str
    rows : tuple of (str, str), length K
        Target (empty: none) and measure.
    value, of : ndarray, shape (m, K)
        Measures, and the number of records that they are shares of.
    given_compare : ndarray, shape (m, K)
        What distances compare with; NaN where that is another row.
    replicated : ndarray, shape (n,)
        Share of releases in which the record is a replicated unique.
    disclosed : ndarray, shape (T, n)
        Share of releases in which the record is in DiSCO of each target.
    compared : tuple of str
        Columns of the distances.
    has_holdout : bool
        Whether records held out were given.
    seed_entropy : str
        The seed of the draws.

    See Also
    --------
    bayes_risk.context_measures : Makes it; formulas, cost and references.
    """

    index: pd.Index
    keys: tuple[str, ...]
    targets: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    value: Array
    of: Array
    given_compare: Array
    replicated: Array
    disclosed: Array
    compared: tuple[str, ...]
    has_holdout: bool
    seed_entropy: str

    @property
    def m(self) -> int:
        """Number of releases."""
        return len(self.value)

    @property
    def compare(self) -> Array:
        """What each number is compared with, (m, K): without the release, or in the original.

        repU and the like: UiO. DiSCO, TCAP: Dorig. DCAP: CAPd. CAPd and CAPs: baseCAPd. Distances:
        those of the original's records to each other. Closer than the holdout: 1/2.
        """
        where = {row: k for k, row in enumerate(self.rows)}
        found = self.given_compare.copy()
        for k, (target, measure) in enumerate(self.rows):
            other = MEANINGS[measure].compare
            if other:
                found[:, k] = self.value[:, where[target, other]]
            if measure == "closer_than_holdout":
                found[:, k] = 0.5
        return found

    def summary(self) -> pd.DataFrame:
        """One row per target and measure; `meanings` defines them.

        Columns: ``value`` (a share, or a distance; mean over releases); ``sd``, ``lowest`` and
        ``highest`` over releases; ``compare`` (see `compare`; NaN: nothing to compare with); ``of``
        (records that it is a share of).
        """
        nan = np.full(len(self.rows), np.nan)
        columns = {
            "value": self.value.mean(axis=0),
            "sd": self.value.std(axis=0, ddof=1) if self.m > 1 else nan,
            "lowest": self.value.min(axis=0),
            "highest": self.value.max(axis=0),
            "compare": self.compare.mean(axis=0),
            "of": self.of.mean(axis=0),
        }
        return pd.DataFrame(columns, index=self._labels())

    @property
    def releases(self) -> pd.DataFrame:
        """Values by release: a row per target and measure, a column per release, from 1."""
        columns = pd.RangeIndex(1, self.m + 1, name="release")
        return pd.DataFrame(self.value.T, index=self._labels(), columns=columns)

    @property
    def records(self) -> pd.DataFrame:
        """One row per record of the original, as shares of the releases.

        Columns: ``replicated_unique``, and ``disco_`` with each target's name.
        """
        columns = {"replicated_unique": self.replicated}
        columns |= {f"disco_{t}": row for t, row in zip(self.targets, self.disclosed, strict=True)}
        return pd.DataFrame(columns, index=self.index)

    def meanings(self) -> pd.DataFrame:
        """What every measure here is, what it is a share of, and what it is not."""
        names = list(dict.fromkeys(measure for _, measure in self.rows))
        rows = [(MEANINGS[n].is_, MEANINGS[n].denominator, MEANINGS[n].is_not) for n in names]
        index = pd.Index(names, name="measure")
        return pd.DataFrame(rows, index=index, columns=["is", "share_of", "is_not"])

    @property
    def dataset(self) -> xr.Dataset:
        """The numbers as labelled arrays for NetCDF; no record of the original is in them."""
        labels = np.array([f"{m} ({t})" if t else m for t, m in self.rows], dtype=str)
        dims = ("release", "measure")
        data = {"value": (dims, self.value), "of": (dims, self.of), "compare": (dims, self.compare)}
        attrs = {
            "keys": ", ".join(map(str, self.keys)),
            "targets": ", ".join(map(str, self.targets)),
            "random_seed": self.seed_entropy,
        }
        return xr.Dataset(data, {"release": np.arange(1, self.m + 1), "measure": labels}, attrs)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """RepU, DiSCO, DCAP and TCAP beside what they compare with."""
        from bayes_risk.reporting.plots import plot_context

        return plot_context(self, ax=ax)

    def sentence(self) -> str:
        """The result in plain words."""
        share = dict(zip(self.rows, self.value.mean(axis=0).tolist(), strict=True))
        told = [
            f"By {', '.join(map(str, self.keys))}, {percent(share['', 'repu'])} of the original's "
            f"records are unique there and in the release (repU; {percent(share['', 'uio'])} are "
            "unique in the original)."
        ]
        for target in self.targets:
            disco, dorig, tcap = (share[target, name] for name in ("disco", "dorig", "tcap"))
            told.append(
                f"For {percent(disco)} the key leaves one value of {target} in the release, and "
                f"the right one (DiSCO; {percent(dorig)} in the original; TCAP {percent(tcap)})."
            )
        told.append("None of these is a probability that somebody is identified or learnt about.")
        return " ".join(told)

    def __repr__(self) -> str:
        rows = self.summary().map(lambda v: "" if pd.isna(v) else plain(v))
        return f"ContextMeasures\n{self.sentence()}\n\n{rows.to_string()}"

    def _labels(self) -> pd.MultiIndex:
        return pd.MultiIndex.from_tuples(list(self.rows), names=["target", "measure"])
