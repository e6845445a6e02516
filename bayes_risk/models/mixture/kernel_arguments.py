"""What compiled loops take, by name: one class for each meaning, read as ``layout.rate``.

A class with fewer fields stands for a simpler case: `LevelLayout` for `FamilyLayout` where there
are levels alone. How many fields an argument has is known when a loop is compiled, so a branch
such as ``if len(layout) > 2`` costs nothing, and what the simpler case lacks is not compiled.
"""

from typing import NamedTuple

from bayes_risk._core.arrays import Array, Flags, Ints


class LevelLayout(NamedTuple):
    """The layout of levels alone: ``starts (q + 1,)`` and ``level`` as in `FamilyLayout`."""

    starts: Ints
    level: float


class FamilyLayout(NamedTuple):
    """Which rows of phi are whose, see `families.py`, and the priors.

    ``starts (q + 1,)``: where the levels of each of q columns begin among the rows of phi, and the
    padding row; ``level``: every entry of the Dirichlet prior of levels. Of p counts ``shape`` and
    ``rate (p,)`` of the gamma prior of rates; whether zeros are ``inflated``, that is may be
    structural, and ``beta (2,)``, the prior of the chance of one. ``reals (r, 4)``: m, kappa, a, b
    of each of r reals, ``1 / variance ~ Gamma(a, b)`` and ``mean ~ Normal(m, variance / kappa)``.
    """

    starts: Ints
    level: float
    shape: Array
    rate: Array
    inflated: bool
    beta: Array
    reals: Array


class SweepLayout(NamedTuple):
    """What the loops over sweeps and draws take of a model.

    ``families``; ``n_normalised``: how many rows are normalised over what is possible; ``splits``:
    how many splits or merges a sweep tries.
    """

    families: FamilyLayout
    n_normalised: int
    splits: int


class LevelLogs(NamedTuple):
    """Logs that the sampler of unknown rows looks up, of i = 0, 1, ...

    ``counts``: log(i); ``levels``: log(i + a); ``divisors``: sum over the columns of levels of
    log(i + d_j a).
    """

    counts: Array
    levels: Array
    divisors: Array


class ImputingLayout(NamedTuple):
    """What the sampler of unknown rows takes of a model."""

    families: FamilyLayout
    logs: LevelLogs


class GuessLayout(NamedTuple):
    """Columns of levels as predictives see them.

    ``fixed (p,)``: whether a column is kept at its drawn probabilities; ``columns (q,)``: which are
    guessed; ``starts (p + 1,)`` as in `FamilyLayout`.
    """

    fixed: Flags
    columns: Ints
    starts: Ints


class WideLayout(NamedTuple):
    """Levels of the guessed columns one after the other in a row, and a last place: "no change".

    ``fixed``, ``columns`` as in `GuessLayout`; ``low (q,)``: row of phi of the first level of a
    column that has a place, which is ``offset[j]``, shape (q + 1,); ``later``: of each place the
    first one of the next column.
    """

    fixed: Flags
    columns: Ints
    low: Ints
    offset: Ints
    later: Ints


class TermLayout(NamedTuple):
    """Columns of levels of a whole table: ``fixed``, ``starts`` as in `GuessLayout`.

    ``place (p,)``: first place of a guessed column among the factors of a term, else -1.
    """

    fixed: Flags
    place: Ints
    starts: Ints
