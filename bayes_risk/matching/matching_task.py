"""One matching task: coded keys, what to go by where nothing matches, and who matches."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.boxes import Boxes, box_up, match_each_box, match_pooled_boxes
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import (
    Cells,
    Matches,
    count_matches,
    match_each,
    match_pooled,
    pair_up,
)

from .matching_keys import MatchingKeys

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


class MatchingTask(NamedTuple):
    """Keys, what to go by where nothing matches, match counts N (m, n_t), and boxes if any.

    ``limit``: how far squared distances may add up (`bayes_risk._core.boxes.Boxes`).
    """

    keys: MatchingKeys
    cells: Cells
    limit: float
    boxes: Boxes | None
    N: Ids

    @classmethod
    def of(cls, keys: MatchingKeys, cells: Cells, *, limit: float) -> "MatchingTask":
        """Count the matches."""
        if not keys.numeric:
            N = count_matches(keys.z, int(keys.u.max()) + 1)[:, keys.u]
            return cls(keys, cells, limit, None, N)
        boxes = box_up(keys.u, keys.z, keys.place, keys.numeric, limit=limit)
        return cls(keys, cells, limit, boxes, boxes.N)

    def matches(self, D: Reals) -> Iterator[Matches]:
        """Match in each release; pooled; and, for m > 2, pooled without each of them."""
        u, z, place = self.keys.u, self.keys.z, self.keys.place
        if self.boxes is not None:
            each = match_each_box(self.boxes, D, self.cells)
            yield each
            yield from match_pooled_boxes(self.boxes, D, each, self.cells)
            return
        by_key = _by_key(D, u)
        each = match_each(u, z, place, by_key, self.cells)
        pool = partial(match_pooled, pair_up(u, z, by_key, place=place), u, each, self.cells)
        yield each
        yield pool()
        yield from (pool(without=l) for l in range(len(z)) if len(z) > 2)

    def pooled_over(self, kept: Ids, D: Reals) -> Matches:
        """Match pooled over some of the tables only."""
        numeric = [key._replace(value=key.value[kept]) for key in self.keys.numeric]
        keys = self.keys._replace(z=self.keys.z[kept], numeric=numeric)
        found = MatchingTask.of(keys, self.cells, limit=self.limit).matches(D[kept])
        next(found)
        return next(found)


def _by_key(D: Reals, u: Ids) -> Reals:
    """D of every key, (m, U), from those of its targets."""
    _, first = np.unique(u, return_index=True)
    of_key: Reals = D[:, first]
    if (of_key[:, u] != D).any():
        raise InputError(
            "population gives different counts to targets with the same keys; count people by all "
            "keys, or name the column that tells them apart under known"
        )
    return of_key
