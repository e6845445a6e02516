"""What compiled loops take, by name: one class for each meaning, read as ``layout.rate``.

A class with fewer fields stands for a simpler case: `LevelLayout` for `FamilyLayout` where there
are levels alone. How many fields an argument has is known when a loop is compiled, so a branch
such as ``if len(layout) > 2`` costs nothing, and what the simpler case lacks is not compiled.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints

Labels: TypeAlias = npt.NDArray[np.int16]
Places: TypeAlias = npt.NDArray[np.int32]


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


class CaseArrays(NamedTuple):
    """Targets as the predictives of any families see them; U in a block, variables as in `Cases`.

    ``label (H, U)``: their classes, one more than there are where nothing is to be taken out;
    ``flags (H, U, 2 p)``: which of their counts, own and synthetic, are structural zeros; then as
    in `Cases`: ``values``, ``exposure``, ``linked``, ``held``, ``given``, ``given_linked (U, V)``;
    ``power (U,)``: record weights; ``constants``, ``linked_constants (U, V, 2)`` of values and of
    synthetic values, see `log_number`; ``rows (U, V)``: rows of T that own values of numbers have,
    or -1.
    """

    label: Labels
    flags: Flags
    values: Array
    exposure: Array
    linked: Array
    held: Array
    given: Flags
    given_linked: Flags
    power: Array
    constants: Array
    linked_constants: Array
    rows: Ints


class PointArrays(NamedTuple):
    """The guesses of a block of targets, as points in each of q guessed columns.

    ``columns (q,)``: the guessed variables; ``values (U, q, C)``: distinct values, ``n_points (U,
    q)`` of them, with ``constants (U, q, C, 2)``; which of these the truth and the guesses have,
    ``truth (U, 1, q)`` and ``cells (U, G, q)``; ``first (U, G)``: the first column in which a guess
    is not as the one before; ``rows (U, q, C)``: rows of T that values of numbers have.
    """

    columns: Ints
    values: Array
    constants: Array
    n_points: Ints
    truth: Places
    cells: Places
    first: Ints
    rows: Ints


class NumberValues(NamedTuple):
    """N distinct values of numbers in a block of targets.

    ``variables (N,)``, ``values (N, 2)`` with the exposure, ``constants (N, 2)``.
    """

    variables: Ints
    values: Array
    constants: Array


class PredictiveDraws(NamedTuple):
    """Sums and draws that predictives are read from, H in all.

    ``n (H, K)``, ``alpha (H,)``, ``pi (H, K)`` of all classes; of the S classes of each draw that
    `sampler.occupied` leaves ``order (H, S)``, which they are, ``M (H, D + 2 p + r, S)``, ``phi (H,
    D, S)`` and ``log_weights (H, S + 1, S)`` without a record of each, or of nobody. Whether the
    weights of classes are ``integrated`` out.
    """

    n: Array
    alpha: Array
    pi: Array
    order: Ints
    M: Array
    phi: Array
    log_weights: Array
    integrated: bool


class PredictiveDraw(NamedTuple):
    """One draw, shapes as in `PredictiveDraws` without H; no ``pi`` where it is integrated out.

    ``P (V, S, 5)``: parameters of numbers and totals of levels; ``T (D + N, S)``: logs of levels
    and of distinct values of numbers, nobody taken out.
    """

    n: Array
    alpha: float
    pi: Array
    order: Ints
    M: Array
    phi: Array
    P: Array
    T: Array
    log_weights: Array


class DrawRoom(NamedTuple):
    """Room for what `fill_draw` finds: ``nothing (0, 4)``, ``S (4, K)``, P and T of a draw."""

    nothing: Array
    S: Array
    P: Array
    T: Array


class TermRoom(NamedTuple):
    """Room for `rest_terms`: which variables are ``guessed (V,)``, and ``gone``, ``of``, ``every``.

    ``gone (3, 4)``: what is taken out of sums, see `number_parameters`; ``of (2, 5)``: parameters;
    ``every (K,)`` of all classes.
    """

    guessed: Flags
    gone: Array
    of: Array
    every: Array


class GuessRoom(NamedTuple):
    """Room for `points_of` and what is found by it, class by class.

    ``terms``, ``rest (K,)``; ``L``, ``R (q, C, K)``: log masses of points, and masses over the
    likeliest; ``products (q, K)``; ``masses (G,)``.
    """

    spare: TermRoom
    terms: Array
    rest: Array
    L: Array
    R: Array
    products: Array
    masses: Array


class RunningSums(NamedTuple):
    """Sums over draws ``(U, B, G)``, and the logs that they are ``relative`` to, (U, B)."""

    sums: Array
    relative: Array


class ImputedCases(NamedTuple):
    """Targets beside imputed records: as `CaseArrays`, of B sets of sums and m data sets.

    ``label (H, B, U)``, ``flags (H, B, U, 2 p)``; ``linked (m + 1, U, V)`` and
    ``linked_constants``: synthetic values of each data set, then of none; ``known (U,)``: whose
    values the intruder sees; ``imputed (H, U, F)``: imputed values of the variables ``free (F,)``.
    """

    label: Labels
    flags: Flags
    values: Array
    exposure: Array
    constants: Array
    linked: Array
    linked_constants: Array
    known: Flags
    imputed: Array
    given: Flags
    given_linked: Flags
    power: Array
    free: Ints
    rows: Ints


class LevelTables(NamedTuple):
    """Of tables of levels alone: ``Q (H, D, K)``, ``tau (H, p, K)`` and ``weights (H, K + 1, K)``.

    Probability of a level in a class; class totals plus prior mass; weights of classes without a
    member of each, or of nobody.
    """

    Q: Array
    tau: Array
    weights: Array


class LevelTargets(NamedTuple):
    """Targets of tables of levels alone, by rows of phi, -1 where there is none; U in a block.

    ``label (H, U)``; ``truth``, ``linked``, ``held (U, p)``: own values, own synthetic ones, own
    ones that the data hold; ``given``, ``given_linked (U, p)``: of own and synthetic values those
    that are conditioned on.
    """

    label: Labels
    truth: Ints
    linked: Ints
    held: Ints
    given: Ints
    given_linked: Ints


class LevelGuesses(NamedTuple):
    """Guesses as rows of phi, ``levels (U, G, q)``.

    ``changes``, ``first (U, G)``: how many variables each changes, and the first of these.
    """

    levels: Ints
    changes: Ints
    first: Ints


class WidePlaces(NamedTuple):
    """Where in the row of a `WideLayout` the changed levels of guesses stand.

    ``guesses (U, G, most)``, in order, filled up with the place of "no change"; ``own (U, width)``:
    which places are those of the target's own levels.
    """

    guesses: Places
    own: Flags


class LogTables(NamedTuple):
    """Logs of weights (K,), of phi (D, K), of 1 - psi and of a zero at exposure 1, (p, K)."""

    log_pi: Array
    log_phi: Array
    log_alive: Array
    at_zero: Array


class LabelRoom(NamedTuple):
    """Room for a unit: ``products (w + 1, K)``, ``masses (K,)``; whole numbers, all 0.

    ``copies (K,)``: individuals by class; ``dead (c,)``: how many zeros are structural.
    """

    products: Array
    masses: Array
    copies: Ints
    dead: Ints


class LabelSums(NamedTuple):
    """Weighted counts ``n (K,)`` of classes and sums ``M``, see `families.py`."""

    n: Array
    M: Array


class ChainPoint(NamedTuple):
    """Where a chain is: ``alpha (1,)``, ``log_left (K - 1,)``, ``pi (K,)``, ``phi (D, K)``."""

    alpha: Array
    log_left: Array
    pi: Array
    phi: Array


class DrawArrays(NamedTuple):
    """Draws of one chain as loops write them, shapes as in `Draws`."""

    alpha: Array
    log_left: Array
    pi: Array
    phi: Array
    n_occupied: Ints


class CollapsedDraws(NamedTuple):
    """Sums by class of H draws: ``n (H, K)``, ``M (H, ., K)``, ``fallen (H,)`` into zeros.

    Of wanted units ``label (H, N)`` and structural zeros ``flags (H, N, c)``.
    """

    n: Array
    M: Array
    label: Labels
    flags: Flags
    fallen: Ints


class ClassSums(NamedTuple):
    """Classes of all individuals: weighted counts ``n``, individuals ``size (K,)``, sums ``M``."""

    n: Array
    size: Ints
    M: Array


class LevelSides(NamedTuple):
    """The two sides of a split, of levels alone.

    ``S``: sums as ``M``, a column a side and a third of nobody; weighted counts ``n`` and
    individuals ``size (2,)``; ``T (2, q + 1)``: totals of columns of levels and prior mass, the
    last for padding, whose only level is sure.
    """

    S: Array
    n: Array
    size: Ints
    T: Array


class NumberSides(NamedTuple):
    """The same where there may be numbers, with their parameters ``P (2, p + r, 4)``.

    Counts: rate and its log, logs of the chance of a structural zero and of none; reals: mean,
    precision, half its log.
    """

    S: Array
    n: Array
    size: Ints
    T: Array
    P: Array


class NumberSizes(NamedTuple):
    """Numbers p of counts and r of reals; whether there are structural zeros."""

    p: int
    r: int
    inflated: bool


class UnknownArrays(NamedTuple):
    """R unknown rows: what is imputed of them, and what each of m data sets shows.

    ``free (F,)``: imputed variables, with ``exposure (R, F)``; ``absent (F, 2)``: which of them,
    with which value, says that a number is missing, -1: none does. What is shown: variables ``kinds
    (s,)``, of which the first ``n_own`` are the rows' own, values ``shown (m, R, s)`` and
    ``shown_exposure (R, s)``.
    """

    free: Ints
    exposure: Array
    absent: Ints
    kinds: Ints
    n_own: int
    shown: Array
    shown_exposure: Array


class ImputingState(NamedTuple):
    """Where a chain over unknown rows is; loops write into it.

    B = m + W sets of parameters, those of the releases and then those of the base chains: ``alpha
    (B,)``, ``log_left (B, K - 1)``, ``pi (B, K)``, ``phi (B, D, K)``; of base chains also sums ``n
    (W, K)`` and ``M (W, ., K)``, and labels ``(W, R)`` and structural zeros ``flags (W, R, p)`` of
    the unknown rows; their values ``y (R, F)``, NaN where a number is missing.
    """

    alpha: Array
    log_left: Array
    pi: Array
    phi: Array
    n: Array
    M: Array
    label: Ints
    flags: Flags
    y: Array


class ImputingTables(NamedTuple):
    """What is looked up of all B sets: ``log_pi (m, K)``, ``P (B, V, K, 5)``, ``T (B, D, K)``.

    Parameters of numbers and logs of levels, as in `PredictiveDraw`; of the base chains T lacks the
    divisors, which stand with the weights, and ``log_alpha (W, .)`` is log(alpha + i).
    """

    log_pi: Array
    P: Array
    T: Array
    log_alpha: Array


class HeldValue(NamedTuple):
    """What the data hold of one variable of a target, NaN where nothing.

    Weight, ``own`` and synthetic value, exposure, which of the two are structural zeros (1 or 0).
    """

    power: float
    own: float
    linked: float
    exposure: float
    flag: float
    linked_flag: float
