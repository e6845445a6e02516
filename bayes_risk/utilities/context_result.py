"""Context measures of releases, as found."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array
from bayes_risk.data.base_result import Drawn
from bayes_risk.data.measures import CONTEXT

from .tables import over_releases


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ContextMeasures(Drawn):
    """Measures that other tools report, by release; made by `context_measures`.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the original's records.
    keys, targets : tuple of str
    rows : tuple of (str, str), length K
        Target (empty: none) and measure.
    value, of, compare : ndarray, shape (m, K)
        Measures, the number of records that they are shares of, and what each is compared with:
        without the release, or in the original. repU and the like: UiO. DiSCO, TCAP: Dorig. DCAP:
        CAPd. CAPd and CAPs: baseCAPd. Distances: those of the original's records to each other.
        Closer than the holdout: 1/2. NaN: nothing.
    replicated, disclosed : ndarray, shape (n,) and (T, n)
        Share of releases in which the record is a replicated unique, or in DiSCO of each target.
    compared, held_out : tuple of str, int
        Columns of the distances; how many records held out, and of the original, are compared with.
    seed_entropy : str
        The seed of the draws.
    """

    PICTURE: ClassVar[str] = "plot_context"
    index: pd.Index
    keys: tuple[str, ...]
    targets: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    value: Array
    of: Array
    compare: Array
    replicated: Array
    disclosed: Array
    compared: tuple[str, ...]
    held_out: int
    seed_entropy: str

    @property
    def m(self) -> int:
        """Number of releases."""
        return len(self.value)

    def summary(self) -> pd.DataFrame:
        """One row per target and measure; `meanings` defines them.

        Columns: ``value`` (a share, or a distance; mean over releases); ``sd``, ``lowest`` and
        ``highest`` over releases; ``compare`` (see `compare`; NaN: nothing to compare with); ``of``
        (records that it is a share of); ``standard_error`` (of `closer_than_holdout`, at most,
        about: of records looked up and held out; NaN for the others, which have none).
        """
        columns = over_releases(self.value)
        columns |= {"compare": self.compare.mean(axis=0), "of": self.of.mean(axis=0)}
        closer = np.array([name == "closer_than_holdout" for _, name in self.rows])
        of = np.where(closer, columns["of"], np.nan)
        columns["standard_error"] = np.sqrt(0.25 / of + 0.25 / max(self.held_out, 1))
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
        found = [CONTEXT[name] for name in names]
        rows = [(one.words, one.of, one.is_not) for one in found]
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

    def to_dict(self) -> dict[str, Any]:
        """Sentence, keys, targets, measures."""
        return {
            "sentence": self.sentence(),
            "keys": self.keys,
            "targets": self.targets,
            "measures": self.tables()["file"].frame,
        }

    def _labels(self) -> pd.MultiIndex:
        return pd.MultiIndex.from_tuples(list(self.rows), names=["target", "measure"])
