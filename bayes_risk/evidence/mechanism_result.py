"""What the check of an assumed synthesis model found, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.formats import number
from bayes_risk.data.base_result import Result, Table, count, value

from .mechanism_statistics import ORIGINAL, WITH, Measure

Array = npt.NDArray[np.float64]

LEVEL = 0.05  # how often, at most, files that the model did make fail the check
NAMED = 3  # measures of a column that a sentence names


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MechanismCheck(Result):
    """Released files among files simulated from the model that they are audited under.

    Attributes
    ----------
    measures : tuple of Measure, length K
        What files were compared by: column (empty: all together), words, kind.
    difference : ndarray, shape (K,)
        How many standard deviations of simulated files the released ones lie from their mean.
    p_values : ndarray, shape (K,), in (0, 1]
        Of each measure, adjusted for all of them together.
    columns : tuple of str
        The synthesised columns.
    n_simulated : int
        Number of simulated files, or sets of m files where these share their parameters.
    m : int
        Number of released files.
    impossible : mapping of column to int
        Values that the model cannot make, of the file that shows most; columns without are left
        out.
    seed_entropy : str
        The seed that made it.
    kept_models : bool
        Whether the fit holds the very models that made the files, kept by the program that made
        them, so that nothing is assumed unless the check fails.

    See Also
    --------
    bayes_risk.check_mechanism : Makes it.
    """

    measures: tuple[Measure, ...]
    difference: Array
    p_values: Array
    columns: tuple[str, ...]
    n_simulated: int
    m: int
    impossible: Mapping[str, int]
    seed_entropy: str
    kept_models: bool = False

    @property
    def p_value(self) -> float:
        """How often files that the model made differ as much in any measure."""
        return float(self.p_values.min())

    @property
    def failed(self) -> bool:
        """Whether these files were not made by the model, at level `LEVEL`."""
        return bool(self.impossible) or self.p_value <= LEVEL

    @property
    def table(self) -> pd.DataFrame:
        """One row per synthesised column, and one of all of them where the model has a density.

        Columns: ``p_value``; ``measure``, the one that differs most; ``difference`` in standard
        deviations of simulated files; ``impossible``, values that the model cannot make.
        """
        rows = {}
        of = np.array([measure.column for measure in self.measures], dtype=object)
        for name in [*self.columns, *([ALL] if (of == ALL).any() else [])]:
            k = np.flatnonzero(of == name)
            worst = int(k[np.argmax(self.difference[k])])
            rows[name] = (
                *(float(self.p_values[k].min()), self.measures[worst].words),
                *(float(self.difference[worst]), self.impossible.get(name, 0)),
            )
        heads = ["p_value", "measure", "difference", "impossible"]
        found = pd.DataFrame.from_dict(rows, orient="index", columns=heads)
        return found.rename_axis("column")

    def summary(self) -> pd.DataFrame:
        """One row per measure, that which differs most first.

        Columns: ``column``, ``measure``, ``difference``, ``p_value``.
        """
        order = np.argsort(-self.difference, kind="stable")
        return pd.DataFrame(
            {
                "column": [self.measures[k].column for k in order],
                "measure": [self.measures[k].words for k in order],
                "difference": self.difference[order],
                "p_value": self.p_values[order],
            }
        )

    def differs(self) -> str:
        """Where the files differ, by column, in words; empty where they do not."""
        order = np.argsort(-self.difference, kind="stable")
        found: dict[str, list[str]] = {}
        for column, words, _ in (self.measures[k] for k in order if self.p_values[k] <= LEVEL):
            found.setdefault(column or "all columns", []).append(words.removesuffix(ORIGINAL))
        said = []
        for name, several in found.items():
            words = sorted(dict.fromkeys(several), key=lambda w: w.startswith(WITH))
            more = ", ..." if len(words) > NAMED else ""
            said.append(f"{name} ({', '.join(words[:NAMED])}{more})")
        return "; ".join(said)

    def cannot(self) -> str:
        """Values that the model cannot make, by column, in words; empty where there are none."""
        counts = [f"{count:,} of {name}" for name, count in self.impossible.items()]
        return ", ".join(counts)

    def sentence(self) -> str:
        """What was found, in plain words."""
        among = self.compared()
        if not self.failed and self.kept_models:
            return (
                "The files are audited under the models that were kept of their synthesis: the "
                f"check found nothing against it ({among})."
            )
        if not self.failed:
            return (
                "The synthesis model is assumed, not verified: the check found nothing against it "
                f"({among})."
            )
        said = []
        if self.impossible:
            said.append(f"it cannot make values that they show ({self.cannot()})")
        if self.p_value <= LEVEL:
            said.append(f"they differ from files that it makes ({among}) in {self.differs()}")
        return f"The synthesis model assumed did not make these files: {'; and '.join(said)}."

    def compared(self) -> str:
        """The p-value, and how many simulated files it rests on."""
        p = "p < 0.001" if self.p_value < 0.001 else f"p = {number(self.p_value)}"
        return f"{p}, {self.n_simulated} simulated"

    def tables(self) -> dict[str, Table]:
        """By column: p-value, the measure that differs most, values that the model cannot make."""
        files = "1 released file" if self.m == 1 else f"{self.m} released files"
        found = Table(
            note=(
                "p: how often files that the model made differ as much in any of "
                f"{len(self.measures)} measures; below {LEVEL:g} the model is rejected. The check "
                "can reject a model, never confirm it."
            ),
            caption=f"{files} among {self.n_simulated} simulated from the model.",
            frame=self.table,
            head="Column",
            labels=lambda name: str(name or "All columns jointly"),
            columns=[
                ("p", value("p_value")),
                ("Differs most in", lambda row: str(row["measure"])),
                ("By standard deviations", value("difference", digits=1)),
                ("Values it cannot make", count("impossible")),
            ],
        )
        return {"columns": found}

    def line(self) -> str:
        """Whether the model is rejected."""
        return f"{'rejected' if self.failed else 'not rejected'} ({self.compared()})"

    def to_dict(self) -> dict[str, Any]:
        """Sentence, p-value, outcome, and the columns."""
        return {
            "sentence": self.sentence(),
            "p_value": self.p_value,
            "failed": self.failed,
            "n_simulated": self.n_simulated,
            "columns": self.table.rename(index={"": "(all)"}),
        }

    def __repr__(self) -> str:
        return f"MechanismCheck\n{self.sentence()}\n\n{self.table.round(3).to_string()}"


ALL = ""  # the column of measures of all columns together
