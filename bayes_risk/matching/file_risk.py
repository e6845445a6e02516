"""Identification risk of files: the sums over all records, frozen; no record is kept."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.matching import jackknife_error
from bayes_risk._core.profile_counts import Tally

from .errors import standard_error
from .words import errors_in_words, knowledge, sentence, shown, summary_table, tables_searched

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileRisk:
    """What an intruder achieves who looks for every record of a file in its releases.

    The sums of `IdentificationRisk`, without the records. For target i, ``c_i`` released records
    have the highest match probability, ``T_i = 1`` if the true record is among them; *per release*
    (Hornby & Hu 2021) or *pooled* over releases (Reiter & Mitra 2009).

    Attributes
    ----------
    known, synthesized : tuple of str
        The keys: unsynthesised, and synthesised.
    fallback : bool
        Whether the intruder, when nothing matches, chooses among all who share the known keys.
    n : int
        Number of targets: all records of the original.
    n_profiles : int
        Distinct profiles: a key, the set of releases that show it for a record, and whether the
        record holds it. Time and memory beyond the reading go by their number.
    each : ndarray, shape (m, 7)
        The measures of each release, in the order of the columns of `summary` without ``mcse`` and
        ``baseline``.
    pooled : ndarray, shape (7,)
        Those of the pooled probabilities.
    baseline_expected_match_risk : float
        Expected match risk by the known keys alone: the number of their distinct values.
    pooled_mcse : float
        Jackknife standard error over releases of the pooled expected match risk; NaN for m < 3.

    See Also
    --------
    bayes_risk.identification_risk_of_files : Makes it.
    """

    known: tuple[str, ...]
    synthesized: tuple[str, ...]
    fallback: bool
    n: int
    n_profiles: int
    each: Reals
    pooled: Reals
    baseline_expected_match_risk: float
    pooled_mcse: float

    @classmethod
    def of(
        cls,
        found: Tally,
        *,
        m: int,
        known: tuple[str, ...],
        synthesized: tuple[str, ...],
        fallback: bool,
    ) -> "FileRisk":
        """Turn the whole numbers of a file into its measures."""
        expected = [chances.expected() for chances in found.chances]
        rows = [_measures(found, row, risk) for row, risk in enumerate(expected) if row <= m]
        left_out = np.array(expected[m + 1 :])
        return cls(
            known=known,
            synthesized=synthesized,
            fallback=fallback,
            n=found.n,
            n_profiles=found.profiles,
            each=np.array(rows[:m]),
            pooled=np.array(rows[m]),
            baseline_expected_match_risk=float(found.cells),
            pooled_mcse=jackknife_error(left_out) if len(left_out) else float("nan"),
        )

    @property
    def m(self) -> int:
        """Number of releases."""
        return len(self.each)

    @property
    def baseline_true_matches(self) -> None:
        """Records that the known keys alone match uniquely and correctly: not counted here."""
        return None

    @property
    def expected_match_risk_mcse(self) -> pd.Series:
        """Standard errors of the expected match risk, labelled ``mean`` and ``pooled``.

        As in `IdentificationRisk`: between releases, NaN for m = 1; and by the jackknife, NaN for
        m < 3.
        """
        return pd.Series(
            {"mean": float(standard_error(self.each[:, 0])), "pooled": self.pooled_mcse}
        )

    @property
    def held(self) -> list[str]:
        """Keys that were not synthesised, as in `IdentificationRisk`."""
        return [str(name) for name in self.known]

    @property
    def sought(self) -> list[str]:
        """Keys that are matched against synthetic values; always exactly."""
        return [str(name) for name in self.synthesized]

    @property
    def near(self) -> list[str]:
        """Keys matched within a radius: none."""
        return []

    def presence(self) -> str:
        """What the intruder knows of the target's being in the file."""
        return "knows that the target is in the file"

    def summary(self) -> pd.DataFrame:
        """File level: one row per release ``1 .. m``, then ``mean`` and ``pooled``.

        Columns as in `IdentificationRisk.summary`: ``expected_match_risk``, ``mcse``,
        ``baseline``, ``true_matches``, ``true_match_rate``, ``unique_matches``,
        ``false_match_rate``, ``no_match``, ``claims``.
        """
        return summary_table(
            self.each.tolist(),
            self.pooled.tolist(),
            mcse=self.expected_match_risk_mcse,
            baseline=self.baseline_expected_match_risk,
        )

    def sentence(self) -> str:
        """Say the result in plain words."""
        return sentence(
            knowledge(
                [*map(str, self.known)],
                [*map(str, self.synthesized)],
                tables_searched(self.m, None),
            ),
            self.summary(),
            f"{self.n:,} records",
            n=self.n,
            error=errors_in_words(self.pooled_mcse, float("nan"), None),
            without_release=self.baseline_expected_match_risk,
        )

    def __repr__(self) -> str:
        return shown("FileRisk", self.sentence(), self.summary())


def _measures(found: Tally, row: int, expected: float) -> list[float]:
    """Compute the file-level measures, in the order of the summary's columns."""
    K, F, s, no_match, claims = (float(count) for count in found.counts[row])
    false_rate = F / s if s else float("nan")
    return [expected, K, K / found.n, s, false_rate, no_match, claims]
