"""What is found by all keys: candidates of each release and pooled, claims, and their errors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Cells, Matches, jackknife_error
from bayes_risk.data.precision import SAME

from .boxes import BOX, ROUND, Boxes, NumericKey, OwnRows, box_up, match_each, match_pooled
from .odds import IN_FILE, Odds
from .radii import Radius
from .replicates import parts_of_draws, strata
from .result import STORED, Strategy


class Choices(NamedTuple):
    """When a match is claimed, how radii combine, whether ends belong, what if nothing matches.

    ``radius``, ``missing``: how near keys must come, and what their missing values match.
    """

    strategy: Strategy
    shape: str
    closed: bool
    fallback: bool
    radius: Mapping[str, Radius] = {}
    missing: Mapping[str, str] = {}

    @property
    def limit(self) -> float:
        """What the squared distances may add up to."""
        return BOX if self.shape == "box" else ROUND


class KeySet(NamedTuple):
    """Keys of n_t targets and of n rows in m releases."""

    own: OwnRows
    u: Ints  # (n_t,): numbers of exact keys
    z: Ints  # (m, n): of released ones, -1 where no target has it
    numeric: Sequence[NumericKey]  # keys compared as numbers

    def boxes(self, limit: float, releases: Ints | slice = slice(None)) -> Boxes:
        """Who matches in some of the releases; ``limit``: see `Boxes`."""
        numeric = [key._replace(value=key.value[releases]) for key in self.numeric]
        return box_up(self.u, self.z[releases], self.own, numeric, limit=limit)


def claimed(found: Matches, strategy: Strategy) -> Matches:
    """The matches that he claims: elsewhere c = T = 0 (Drechsler & Reiter 2008, section 4.3).

    Of ``Pr(J = n + 1) > max_j Pr(J = j)`` and ``Pr(J = n + 1) < gamma`` the other side of 1 is
    compared, within `SAME`: 1 - 2/3 is above 1/3 in floating point, 1 - 9/10 below 1/10.
    """
    if strategy == "always":
        return found
    if strategy == "likeliest":
        claims = found.inside + found.top >= 1 - SAME
    else:
        claims = found.inside > (1 - float(strategy)) * (1 + SAME)
    one = np.where(claims, found.one, -1)
    return found._replace(c=found.c * claims, hits=found.hits * claims, one=one)


def found_by(
    every: KeySet,
    kept: KeySet,
    choices: Choices,
    odds_of: Callable[[Boxes], Odds],
    release_of: Ints | None,
) -> dict[str, Any]:
    """What is found by all keys, and where nothing matches by those that were kept."""
    boxes = every.boxes(choices.limit)
    size, mine, one = (of[0] for of in kept.boxes(choices.limit).candidates())
    odds = odds_of(boxes)
    certain = odds.words == IN_FILE  # else he takes whom nothing matches to be outside
    cells = Cells(size, mine, one, choices.fallback and certain, certain)
    D = _by_box(odds.D, boxes.of)
    each = match_each(boxes, D, cells)
    pooled, *apart = match_pooled(boxes, D, each, cells, left_out=release_of is None)
    of_parts = partial(_left_out, every, D, cells, choices.limit)
    by_release, claims = (claimed(found, choices.strategy) for found in (each, pooled))
    of_draws: Iterable[Matches] = ()
    left_out: Iterable[Matches] = apart
    if release_of is not None:
        left_out, of_draws = of_parts(strata(release_of)), of_parts(parts_of_draws(release_of))
    return {
        "fallback": cells.used,
        "population": odds.words,
        "estimated": odds.estimated,
        "strategy": choices.strategy,
        **{name: getattr(by_release, name).T for name in STORED},
        **{f"pooled_{name}": getattr(claims, name) for name in STORED},
        "baseline": cells.own / np.maximum(cells.size, 1),
        "release_of": release_of,
        "pooled_mcse": _jackknife(left_out, choices.strategy),
        "pooled_draws_mcse": _jackknife(of_draws, choices.strategy),
    }


def _jackknife(left_out: Iterable[Matches], strategy: Strategy) -> float:
    """Error of the pooled expected match risk, from what is matched without each part; or NaN."""
    expected = [float(claimed(found, strategy).probability.sum()) for found in left_out]
    return jackknife_error(np.array(expected)) if expected else float("nan")


def _left_out(
    keys: KeySet, D: Array, cells: Cells, limit: float, parts: Sequence[Ints]
) -> Iterator[Matches]:
    """Match pooled over the tables, each part left out in turn; of one part nothing."""
    for part in parts if len(parts) > 1 else []:
        kept = np.setdiff1d(np.arange(len(D)), part)
        boxes = keys.boxes(limit, kept)
        each = match_each(boxes, D[kept], cells)
        yield from match_pooled(boxes, D[kept], each, cells, left_out=False)


def _by_box(D: Array, of: Ints) -> Array:
    """D of every box, (m, B), from those of the targets that have it."""
    _, first = np.unique(of, return_index=True)
    of_box: Array = D[:, first]
    if (of_box[:, of] != D).any():
        raise InputError(
            "population gives different counts to targets with the same keys; count people by all "
            "keys, or name the column that distinguishes them under known"
        )
    return of_box
