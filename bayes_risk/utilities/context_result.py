"""Context measures of releases: what each is, a share of what, what it is not; those found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array
from bayes_risk._core.formats import NONE, begun, number, percent
from bayes_risk.data.base_result import Drawn, Public, Table, for_file

from .tables import over_releases

_ORIGINAL, _RELEASE = "records of the original", "records of the release"
_LOOKED_UP = "released records looked up"


class Meaning(NamedTuple):
    """The measure as its authors write it, in words, what it does not say, its denominator."""

    written: str
    is_: str
    is_not: str
    of: str = _ORIGINAL


_ONE_FILE = "It is a property of one file and says nothing of the other."
_NO_INTRUDER = (
    "It takes the release for the original and no intruder's knowledge into account: no probability"
    " that anybody is identified."
)
_NOT_BAYES = (
    "It is no probability that a value is disclosed: what anybody would guess from the rest of the "
    "data counts too, and an uncertain guess counts for nothing."
)
_NOT_RISK = (
    "It mixes utility with risk: a release that keeps relations between key and target scores high "
    "without any record being at risk."
)
_NOT_NEAR = (
    "It is no probability: a record in a dense place has close neighbours by chance, and one far "
    "from all may still be given away by a single column."
)
MEANINGS = {
    "uio": Meaning("UiO", "records of the original whose key nobody else there holds", _ONE_FILE),
    "uis": Meaning(
        "UiS", "records of the release whose key no other record there shows", _ONE_FILE, _RELEASE
    ),
    "uiois": Meaning(
        "UiOiS", "uniques of the original whose key the release shows, once or more", _NO_INTRUDER
    ),
    "repu": Meaning(
        "repU",
        "replicated uniques: uniques of the original whose key is unique in the release too",
        _NO_INTRUDER,
    ),
    "dorig": Meaning(
        "Dorig", "records of the original whose key leaves one value of the target there", _ONE_FILE
    ),
    "dsyn": Meaning(
        "Dsyn",
        "records of the release whose key leaves one value of the target there",
        _ONE_FILE,
        _RELEASE,
    ),
    "iso": Meaning(
        "iSO",
        "records of the original whose key the release shows",
        "It says whether there is anything to look up, not what is learnt.",
    ),
    "dis": Meaning(
        "DiS",
        "records of the original whose key leaves one value of the target in the release",
        "The value may be wrong: see DiSCO.",
    ),
    "disco": Meaning("DiSCO", "records of DiS whose one value is theirs", _NOT_BAYES),
    "disdio": Meaning(
        "DiSDiO",
        "records of DiSCO whose key leaves one value in the original too",
        "Nobody without the original can tell these records from the rest of DiSCO.",
    ),
    "correct": Meaning(
        "DiSCO over DiS",
        "share of apparent disclosures that are right: TCAP of Little et al. (2022, 2025) and, "
        "from 1.9-3 on, of synthpop",
        "It speaks of the records with an apparent disclosure alone, however few they are.",
        of="records in DiS",
    ),
    "base_cap": Meaning(
        "baseCAPd",
        "right guesses of somebody who knows the target's distribution and no key",
        "It is the reference of CAP measures, not a measure of the release.",
    ),
    "capd": Meaning(
        "CAPd",
        "right guesses of somebody who draws a record of the original with the key",
        _ONE_FILE,
    ),
    "caps": Meaning(
        "CAPs", "the same of the release's own records in the release", _ONE_FILE, _RELEASE
    ),
    "dcap": Meaning(
        "DCAP",
        "right guesses of somebody who draws a record of the release with the key, if there is one",
        _NOT_RISK,
    ),
    "tcap": Meaning(
        "TCAP",
        "the records of DiSCO among those whose key the release shows (synthpop up to 1.9-2)",
        _NOT_BAYES,
        of="records in iSO",
    ),
    "dcr_zero": Meaning(
        "DCR = 0",
        "released records that agree with some record of the original in every column compared",
        _NOT_NEAR,
        _LOOKED_UP,
    ),
    "dcr_median": Meaning(
        "DCR, median",
        "median distance of released records to the closest record of the original (numbers "
        "over their range, 1 between different levels)",
        _NOT_NEAR,
        _LOOKED_UP,
    ),
    "dcr_5_percent": Meaning(
        "DCR, 5 %",
        "5 % of released records are at least so close to a record of the original",
        _NOT_NEAR,
        _LOOKED_UP,
    ),
    "closer_than_holdout": Meaning(
        "Closer than holdout",
        "released records closer to the original than to as many records held out, ties half",
        "Half is what a release has that learnt the population and no record; a few records "
        "learnt by heart do not move it.",
        _LOOKED_UP,
    ),
}
COMPARED = {  # the measure that it compares with
    **dict.fromkeys(("uis", "uiois", "repu"), "uio"),
    **dict.fromkeys(("dsyn", "dis", "disco", "disdio", "tcap"), "dorig"),
    **dict.fromkeys(("capd", "caps"), "base_cap"),
    "dcap": "capd",
}
DRAWN = ("repu", "disco", "dcap", "tcap", "dcr_zero")
DISTANCES = ("dcr_median", "dcr_5_percent")  # the others are shares of records


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
    PICTURE: ClassVar[str] = "plot_context"

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
        found = [MEANINGS[name] for name in names]
        rows = [(one.is_, one.of, one.is_not) for one in found]
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
                labels=lambda row: _named(*row),
                columns=[
                    ("Value", lambda row: _form(row)(row["value"])),
                    ("Over releases", _range if self.m > 1 else lambda _: NONE),
                    ("To read against", _beside),
                    ("Records", lambda row: number(round(row["of"]))),
                ],
                public=next(
                    (
                        Public(
                            f"{MEANINGS['iso'].is_} (mean)".capitalize(),
                            float(row["of"] * row["value"]),
                            round(row["of"]),
                        )
                        for (_, name), (_, row) in zip(self.rows, rows.iterrows(), strict=True)
                        if name == "iso"
                    ),
                    None,
                ),
            ),
            "meanings": Table(
                caption="What the measures are, and are not.",
                frame=self.meanings(),
                labels=lambda name: MEANINGS[name].written,
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
    return number if row["label"][1] in DISTANCES else percent


def _named(target: str, measure: str) -> str:
    written = MEANINGS[measure].written
    return f"{written} of {target}" if target else written


def _range(row: Mapping[str, Any]) -> str:
    low, high = (_form(row)(row[name]) for name in ("lowest", "highest"))
    return low if low == high else f"{low} to {high}"


def _beside(row: Mapping[str, Any]) -> str:
    """What a measure is compared with: the number, and which it is."""
    measure, value = row["label"][1], _form(row)(row["compare"])
    if value == NONE:
        return NONE
    if measure in COMPARED:
        return f"{value} ({MEANINGS[COMPARED[measure]].written})"
    return value if measure == "closer_than_holdout" else f"{value} (original)"


def _definition(row: Mapping[str, Any]) -> str:
    """The definition, and what it is a share of."""
    of = "" if row["label"] in DISTANCES else f" A share of: {row['share_of']}."
    return f"{begun(row['is'])}.{of}"
