"""Context measures of releases, as found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array
from bayes_risk._core.formats import NONE, begun, number, percent
from bayes_risk.data.base_result import Drawn, Public, Table, for_file
from bayes_risk.data.measures import CONTEXT, in_words

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

    def tables(self) -> dict[str, Table]:
        """Each measure with its denominator, what it is and is not; the records."""
        rows = self.summary()
        what = "1 release" if self.m == 1 else f"Means over {self.m:,} releases"
        keys = ", ".join(map(str, self.keys))
        names = [f"{measure} ({target})" if target else measure for target, measure in rows.index]
        held = ""
        if self.held_out:
            error = percent(float(rows["standard_error"].max()))
            held = f" Closer than holdout: {self.held_out:,} records held out, "
            held += f"standard error up to {error}."
        return {
            "measures": Table(
                caption=f"Keys: {keys}. {what}. Shares are of so many records.{held}",
                frame=rows,
                labels=lambda row: in_words(f"{row[1]} ({row[0]})" if row[0] else row[1]),
                columns=[
                    ("Value", lambda row: _form(row)(row["value"])),
                    ("Over releases", _range if self.m > 1 else lambda _: NONE),
                    ("To read against", _beside),
                    ("Records", lambda row: number(round(row["of"]))),
                ],
                public=next(
                    (
                        Public(
                            CONTEXT[name].public,
                            float(row["of"] * row["value"]),
                            round(row["of"]),
                        )
                        for (_, name), (_, row) in zip(self.rows, rows.iterrows(), strict=True)
                        if CONTEXT[name].public
                    ),
                    None,
                ),
            ),
            "meanings": Table(
                caption="What the measures are, and are not.",
                frame=self.meanings(),
                labels=lambda name: CONTEXT[name].short,
                columns=[("What it is", _definition), ("What it is not", itemgetter("is_not"))],
            ),
            "file": Table(
                frame=rows.set_axis(pd.Index(names, name="measure")), file="context_measures"
            ),
            "records": for_file(self.records, "context"),
        }

    def line(self) -> str:
        """Replicated uniques, and DiSCO of the target for which it is largest."""
        share = self.summary()["value"]
        repu, uio = (percent(share["", name]) for name in ("repu", "uio"))
        told = f"repU {repu} ({uio} unique in the original)"
        if not self.targets:
            return told
        worst = max(self.targets, key=lambda target: float(share[target, "disco"]))
        disco, dorig = (percent(float(share[worst, name])) for name in ("disco", "dorig"))
        most = ", the largest of its targets" if len(self.targets) > 1 else ""
        return f"{told}; DiSCO of {worst} {disco} ({dorig} in the original){most}"

    def to_dict(self) -> dict[str, Any]:
        """Sentence, keys, targets, measures."""
        return {
            "sentence": self.sentence(),
            "keys": self.keys,
            "targets": self.targets,
            "measures": self.tables()["file"].frame,
        }

    def sentence(self) -> str:
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

    def _labels(self) -> pd.MultiIndex:
        return pd.MultiIndex.from_tuples(list(self.rows), names=["target", "measure"])


def _form(row: Mapping[str, Any]) -> Callable[[float], str]:
    """How a measure is written: a share of records, or a distance."""
    return percent if CONTEXT[row["label"][1]].kind == "share" else number


def _range(row: Mapping[str, Any]) -> str:
    low, high = (_form(row)(row[name]) for name in ("lowest", "highest"))
    return low if low == high else f"{low} to {high}"


def _beside(row: Mapping[str, Any]) -> str:
    """What a measure is compared with: the number, and which it is."""
    measure, value = row["label"][1], _form(row)(row["compare"])
    if value == NONE:
        return NONE
    if beside := CONTEXT[measure].baseline:
        return f"{value} ({CONTEXT[beside].short})"
    return value if measure == "closer_than_holdout" else f"{value} (original)"


def _definition(row: Mapping[str, Any]) -> str:
    """The definition, and what it is a share of."""
    of = f" A share of: {row['share_of']}." * (CONTEXT[row["label"]].kind == "share")
    return f"{begun(row['is'])}.{of}"
