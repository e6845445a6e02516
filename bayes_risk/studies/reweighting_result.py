"""What came of weighing records down: round by round, record by record, and who is worse off."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array
from bayes_risk._core.formats import NONE, error, number
from bayes_risk.data.base_result import Drawn, Table, count, draw, for_file, value
from bayes_risk.release.release import Release
from bayes_risk.risk.result import AttributeRisk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANCE = 0.025  # of a record whose risk did not change to seem to have risen
CLEARLY = 2.0  # times as many as that


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """One fit, release and audit."""

    weights: Array  # shape (n,): of all records, as given to the fit
    risk: AttributeRisk
    release: Release
    # ``margins`` and ``pairs``: mean distance of tables (`reweighting.table_distances`)
    utility: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reweighting(Drawn):
    """Risk and utility of synthesis before and after records were weighed down by their risk.

    Attributes
    ----------
    rounds : tuple of Round
        Round 0 has all weights 1; the last is the one to release.
    fit : Fit
        Of the last round.
    until : float or None
        Threshold of the probability of the truth.
    share : float
        Share of records that may stay above it.
    reason : str
        Why it stopped.
    seed_entropy : str
        The seed that made it.
    """

    rounds: tuple[Round, ...]
    fit: Any
    until: float | None
    share: float
    reason: str
    seed_entropy: str
    PICTURE: ClassVar[str] = "plot_before_after"

    @property
    def release(self) -> Release:
        """The release of the last round."""
        return self.rounds[-1].release

    @property
    def risk(self) -> AttributeRisk:
        """The audit of the last round."""
        return self.rounds[-1].risk

    @property
    def weights(self) -> pd.Series:
        """Weights of the last round, one a record of the table."""
        index = self.fit.microdata.index
        return pd.Series(self.rounds[-1].weights, index=index, name="weight")

    @property
    def records(self) -> pd.DataFrame:
        """One row per target of the audits.

        Columns: ``prior``; ``before`` and ``after``, the probability of the truth in the first and
        last round; ``error``, the standard error of their difference, the chance of the synthesis
        included (m = 1: of Monte Carlo alone); ``weight`` in the last round; ``moderate`` (not
        above the threshold before; without one, not among the highest 5 %); ``rose`` (moderate, and
        risen by more than the error explains: one in 40 does so by chance); ``beyond`` (by how much
        more); ``newly_above`` (moderate before, above the threshold now).
        """
        first, last = self.rounds[0].risk, self.rounds[-1].risk
        before, after = first.records["probability"], last.records["probability"]
        error = np.hypot(_standard_error(first), _standard_error(last))
        limit = before.quantile(0.95) if self.until is None else self.until
        moderate = (before <= limit).to_numpy()
        beyond = (after - before).to_numpy() - _times(first) * error
        rose = moderate & (beyond > 0)
        return pd.DataFrame(
            {
                "prior": first.records["prior"],
                "before": before,
                "after": after,
                "error": error,
                "weight": self.weights.loc[first.index].to_numpy(),
                "moderate": moderate,
                "rose": rose,
                "beyond": np.where(rose, beyond, 0.0),
                "newly_above": moderate & (after > (1.0 if self.until is None else limit)),
            }
        )

    @property
    def risk_rose(self) -> bool:
        """Whether moderate records rose ("whack-a-mole").

        Above the threshold, or clearly more of them than by chance.
        """
        table = self.records
        by_chance = CHANCE * table["moderate"].sum()
        many = table["rose"].sum() > max(CLEARLY * by_chance, 1)
        return len(self.rounds) > 1 and bool(many or table["newly_above"].any())

    def summary(self) -> pd.DataFrame:
        """One row per round.

        Columns: ``mean_probability`` of the truth and its Monte Carlo error ``mcse``;
        ``max_probability`` and ``mcse_max``; ``above`` (records above the threshold; NaN without
        one); ``mean_weight`` and ``min_weight`` of all records; ``margins`` and ``pairs``, mean
        distances of tables from the original; ``unreliable`` records.
        """
        return pd.DataFrame(
            [self._row(r) for r in self.rounds], index=pd.RangeIndex(len(self.rounds), name="round")
        )

    def _row(self, one: Round) -> dict[str, Any]:
        rows: Any = one.risk.summary()
        p = one.risk.records["probability"]
        return {
            "mean_probability": rows.loc["mean_probability", "value"],
            "mcse": rows.loc["mean_probability", "mcse"],
            "max_probability": rows.loc["max_probability", "value"],
            "mcse_max": rows.loc["max_probability", "mcse"],
            "above": np.nan if self.until is None else int((p > self.until).sum()),
            "mean_weight": float(one.weights.mean()),
            "min_weight": float(one.weights.min()),
            **one.utility,
            "unreliable": int(rows.loc["unreliable", "value"]),
        }

    def sentence(self) -> str:
        """The result in plain words."""
        rows = self.summary()
        first, last = rows.iloc[0], rows.iloc[-1]
        risk, worst, margins, pairs = (
            (number(first[name]), number(last[name]))
            for name in ("mean_probability", "max_probability", "margins", "pairs")
        )
        above = (
            ""
            if self.until is None
            else f"; above {self.until:g}: {first['above']:.0f} records, then {last['above']:.0f}"
        )
        return (
            f"Stopped after round {len(rows) - 1}: {self.reason}. The truth's probability went "
            f"from {risk[0]} to {risk[1]} on average and from {worst[0]} to {worst[1]} in the "
            f"worst case{above}. Margins are {margins[0]}, then {margins[1]} away from the "
            f"original's, pairwise tables {pairs[0]}, then {pairs[1]}. {self.moderate_in_words()}"
        )

    def moderate_in_words(self) -> str:
        """How many records of moderate risk rose, by how much, and how many would by chance."""
        table = self.records
        count, among = int(table["rose"].sum()), int(table["moderate"].sum())
        said = (
            f"Of {among:,} records of moderate risk, {count:,} rose by more than the error "
            f"explains ({CHANCE * among:.0f} would by chance)"
        )
        if count:
            by = table["beyond"][table["rose"]]
            said += f", by {number(by.mean())} beyond it on average and {number(by.max())} at most"
        if self.until is not None:
            said += f"; {int(table['newly_above'].sum()):,} are above the threshold now"
        if not self.risk_rose:
            return f"{said}."
        return f"{said}: weighing some records down has exposed others; more rounds would help."

    def plot_path(self, ax: "Axes | None" = None) -> "Axes":
        """Risk against the distance of pairwise tables, round by round."""
        return draw("plot_path", self, ax=ax)

    def screen(self) -> Table:
        """Risk and utility before and after."""
        rows = self.summary()
        n, above = len(rows) - 1, "" if self.until is None else f"above {self.until:g}"
        ends = {0: "before"} | ({n: f"after: {self.reason.partition(':')[0]}"} if n else {})
        return Table(
            frame=rows,
            head=f"Reweighting ({n} round{'s' if n != 1 else ''} after the first)",
            labels=ends,
            columns=[
                ("truth, mean", value("mean_probability")),
                ("worst", value("max_probability")),
                (above, lambda row: "" if pd.isna(row["above"]) else f"{int(row['above']):,}"),
                ("pairs off by", value("pairs")),
            ],
        )

    def tables(self) -> dict[str, Table]:
        """Risk and utility, round by round; the records."""
        rows = self.summary()
        above = "above" if self.until is None else f"above {self.until:g}"
        without = float(self.risk.records["prior"].mean())
        return {
            "rounds": Table(
                frame=rows,
                note=(
                    "All that a report says of attribute and identification risk beside this is of "
                    "the last release."
                ),
                caption=(
                    "Probability of the truth, mean over records and in the worst case, two "
                    f"standard errors in brackets ({number(without)} on average without the "
                    "release); then how far one-way and two-way tables are from the original's "
                    "(total variation, 0 to 1)."
                ),
                head="Round",
                labels=lambda r: f"{r} (all weights 1)" if r == 0 else str(r),
                columns=[
                    ("Truth, mean", lambda row: _with_error(row["mean_probability"], row["mcse"])),
                    (
                        "Truth, worst",
                        lambda row: _with_error(row["max_probability"], row["mcse_max"]),
                    ),
                    (f"Records {above}", count("above")),
                    ("Mean weight", value("mean_weight")),
                    ("Least weight", value("min_weight")),
                    ("Margins off by", value("margins")),
                    ("Pairs off by", value("pairs")),
                ],
            ),
            "records": for_file(self.records, "reweighting"),
        }

    def to_dict(self) -> dict[str, Any]:
        """Sentence, why it stopped, and the rounds."""
        return {
            "sentence": self.sentence(),
            "reason": self.reason,
            "until": self.until,
            "rounds": self.summary(),
        }


def _with_error(value: float, mcse: float) -> str:
    spread = error(float(mcse), float(value))
    return number(float(value)) + ("" if spread in ("0", NONE) else f" ({spread})")


def _standard_error(risk: AttributeRisk) -> Array:
    """Of each target's probability: Monte Carlo, and for m > 1 the chance of the synthesis.

    Each release moves the log evidence by e_l(g), relative to the truth; to first order it moves
    the truth's probability by ``- p_truth sum_g p_g e_l(g)``, so the variance of the sum over m
    releases is m times that between releases.
    """
    m = len(risk.log_evidence)
    variance = risk.mcse**2
    if m > 1:
        p = np.exp(risk.log_probability)  # shape (G, U)
        e = np.where(np.isfinite(risk.log_evidence), risk.log_evidence, 0.0)
        at_truth = np.take_along_axis(p, risk.truth[None], axis=0)[0]
        moved = -at_truth * np.einsum("mgu,gu->mu", e, p)
        variance = variance + m * moved.var(axis=0, ddof=1)
    return np.asarray(np.sqrt(variance)[risk.case], dtype=float)


def _times(risk: AttributeRisk) -> float:
    """How many errors a record rises by chance one time in 40: Student's t of 2 (m - 1) degrees."""
    from scipy.stats import norm, t

    m = len(risk.log_evidence)
    return float(norm.isf(CHANCE) if m == 1 else t.isf(CHANCE, 2 * (m - 1)))
