"""Impossible combinations of a table's levels, as samplers, synthesis and guesses know them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.disjoint_boxes import guesses_held, held
from bayes_risk._core.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ZeroRegion:
    """Impossible combinations, coded against a table."""

    # shape (p + 1,): where the levels of each variable begin in the long row of levels
    starts: Ints
    boxes: Flags  # shape (B, D): disjoint boxes: the levels that each holds
    rules: Flags  # shape (R, D): the rules as they were given, which may overlap
    words: tuple[str, ...]  # R of them, the rules for people

    def holds(self, codes: npt.NDArray[Any]) -> Flags:
        """Which coded records (..., p) are impossible, shape (...)."""
        rows = codes.astype(np.int64) + self.starts[:-1]
        return held(self.boxes, rows.reshape(-1, rows.shape[-1])).reshape(rows.shape[:-1])

    def holds_guesses(
        self, profiles: npt.NDArray[Any], columns: npt.NDArray[np.integer], codes: npt.NDArray[Any]
    ) -> Flags:
        """Which guesses (G, U, q) for the columns of profiles (U, p) are impossible, (G, U)."""
        begin = self.starts[:-1]
        guesses = codes.astype(np.int64) + begin[columns]
        return guesses_held(self.boxes, profiles.astype(np.int64) + begin, columns, guesses)

    def refuse(self, codes: npt.NDArray[Any], source: str) -> None:
        """Stop if a table (n, p) holds impossible records, and say how many by which rule."""
        if not self.holds(codes).any():
            return
        rows = codes.astype(np.int64) + self.starts[:-1]
        excluded = np.array([held(rule[None], rows).sum() for rule in self.rules])
        worst = int(excluded.argmax())
        others = int((excluded > 0).sum()) - 1
        more = f", and {others} further rules exclude some" if others else ""
        raise InputError(
            f"`impossible` excludes {int(self.holds(codes).sum())} records of {source}: rule "
            f"{worst + 1} ({self.words[worst]}) excludes {int(excluded[worst])}{more}; mend the "
            "rules or the records"
        )
