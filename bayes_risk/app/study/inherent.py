"""Where a release stands between the ends of the scale of risk, frozen."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.formats import NONE, PLUS_MINUS, begun, number, plain, significant
from bayes_risk.data.base_result import Result, Table, value
from bayes_risk.studies.comparing.words import MEASURES

Array = npt.NDArray[np.float64]
PLACES = ("minimum", "release", "maximum", "unchanged")
WRITTEN = {"repu": "repU", "disco": "DiSCO", "dcap": "DCAP", "tcap": "TCAP"}
HEADLINES = ("expected_match_risk", "pmse_cart", "repu")  # the first of each kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InherentBounds(Result):
    """Measures of a release beside those at the ends of the scale; made by a study's ``[bounds]``.

    Attributes
    ----------
    measures : tuple of str, length K
        As in the results that they are of; context measures with their target, ``disco (job)``.
    values : ndarray, shape (K, 4)
        At the minimum (uniform values), of the release, at the maximum (values redrawn within
        patterns), and of the original released unchanged.
    mcse : ndarray, shape (K,)
        Monte Carlo error of the release's number; NaN: none is known.
    patterns : tuple of str
        Columns whose combinations are the patterns; empty: all records share one.
    alone, n : int
        Records with a pattern of their own, which keep their values at the maximum; all records.
    m : int
        Data sets of each end.
    seed_entropy : str
        The seed of the ends.

    See Also
    --------
    bayes_risk.release_bounds : Makes the releases; what they bound, and what not.
    """

    measures: tuple[str, ...]
    values: Array
    mcse: Array
    patterns: tuple[str, ...]
    alone: int
    n: int
    m: int
    seed_entropy: str

    def summary(self) -> pd.DataFrame:
        """One row per measure.

        Columns ``minimum``, ``release``, ``maximum``, ``unchanged``; ``position``, 0 as at the
        minimum and 1 as at the maximum (NaN where these are equal; outside 0 to 1 where the release
        is beyond); ``mcse`` of ``release``.
        """
        index = pd.Index(self.measures, name="measure")
        table = pd.DataFrame(self.values, index, list(PLACES))
        span = table["maximum"] - table["minimum"]
        table["position"] = (table["release"] - table["minimum"]) / span.where(span != 0)
        return table.assign(mcse=self.mcse)

    def sentence(self) -> str:
        """The result in plain words."""
        by = f"with the same {', '.join(self.patterns)}" if self.patterns else "of the whole file"
        told = [
            "The scale goes from values drawn uniformly (minimum) to values redrawn among records "
            f"{by} (maximum; {self.alone:,} of {self.n:,} records are alone there and keep theirs)."
        ]
        rows = self.summary().to_dict("index")
        told += [_stands(name, rows[name]) for name in self.headlines]
        return " ".join(told)

    @property
    def headlines(self) -> list[str]:
        """A measure of each kind: of identification, of utility, of context."""
        return [name for name in HEADLINES if name in self.measures]

    def line(self) -> str:
        """The first measure between the ends."""
        name = (self.headlines or self.measures)[0]
        row = self.summary().loc[name]
        return (
            f"{words_of(name)} {number(row['release'])}, between {number(row['minimum'])} (uniform "
            f"values) and {number(row['maximum'])} (redrawn within patterns)"
        )

    def tables(self) -> dict[str, Table]:
        """Each measure at both ends, of the release between them, and unchanged."""
        found = Table(
            note=(
                "The ends bound what synthesis given the patterns can do on average. A model that "
                "knows more columns, or copies records, can be above the maximum, and that is a "
                "finding. Where the ends are close together the position is noise."
            ),
            caption=f"Means over {self.m:,} data sets each.",
            frame=self.summary(),
            labels=lambda name: begun(words_of(str(name))),
            columns=[
                *((begun(place), value(place, significant, digits=4)) for place in PLACES),
                ("Release, 2 s.e.", _error),
                ("Position (0 to 1)", value("position", digits=2)),
            ],
            file="bounds",
        )
        return {"measures": found}


def _error(row: Mapping[str, float]) -> str:
    return NONE if pd.isna(row["mcse"]) else f"{PLUS_MINUS} {plain(2 * row['mcse'], 2)}"


def words_of(measure: str) -> str:
    """A measure in words: ``DiSCO of job``."""
    if measure in MEASURES:
        return MEASURES[measure].words
    name, _, target = measure.partition(" (")
    return f"{WRITTEN[name]} of {target[:-1]}" if target else WRITTEN[name]


def _stands(name: str, row: Mapping[Hashable, float]) -> str:
    where = "" if pd.isna(row["position"]) else f", at {number(row['position'], 2)} of the way"
    return (
        f"{begun(words_of(name))}: {number(row['release'])}, between {number(row['minimum'])} and "
        f"{number(row['maximum'])}{where} ({number(row['unchanged'])} unchanged)."
    )
