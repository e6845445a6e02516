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
    """The layout of levels alone, as in `FamilyLayout`."""

    starts: Ints
    level: float


class FamilyLayout(NamedTuple):
    """Which rows of phi are whose, see `families.py`, and the priors."""

    starts: Ints  # (q + 1,): where the levels of each of q columns begin in phi; the padding row
    level: float  # every entry of the Dirichlet prior of levels
    shape: Array  # (p,), as ``rate``: of the gamma prior of the rates of p counts
    rate: Array
    inflated: bool  # whether zeros may be structural
    beta: Array  # (2,): prior of the chance of a structural zero
    # (r, 4): m, kappa, a, b; 1 / variance ~ Gamma(a, b), mean ~ Normal(m, variance / kappa)
    reals: Array


class SweepLayout(NamedTuple):
    """What the loops over sweeps and draws take of a model."""

    families: FamilyLayout
    n_normalised: int  # rows that are normalised over what is possible
    splits: int  # splits or merges that a sweep tries


class LevelLogs(NamedTuple):
    """Logs that the sampler of unknown rows looks up, of i = 0, 1, ..."""

    counts: Array  # log(i)
    levels: Array  # log(i + a)
    divisors: Array  # sum over the columns of levels of log(i + d_j a)


class ImputingLayout(NamedTuple):
    """What the sampler of unknown rows takes of a model."""

    families: FamilyLayout
    logs: LevelLogs


class GuessLayout(NamedTuple):
    """Columns of levels as predictives see them."""

    fixed: Flags  # (p,): whether a column is kept at its drawn probabilities
    columns: Ints  # (q,): which are guessed
    starts: Ints  # (p + 1,), as in `FamilyLayout`


class WideLayout(NamedTuple):
    """Levels of the guessed columns one after the other in a row, and a last place: "no change"."""

    fixed: Flags
    columns: Ints
    low: Ints  # (q,): row of phi of the first level of a column that has a place
    offset: Ints  # (q + 1,): that place
    later: Ints  # of each place the first one of the next column


class TermLayout(NamedTuple):
    """Columns of levels of a whole table, as in `GuessLayout`."""

    fixed: Flags
    place: Ints  # (p,): first place of a guessed column among the factors of a term, else -1
    starts: Ints


class CaseArrays(NamedTuple):
    """Targets as the predictives of any families see them; U in a block, the rest as in `Cases`."""

    label: Labels  # (H, U): their classes, K where nothing is to be taken out
    flags: Flags  # (H, U, 2 p): which counts, own and synthetic, are structural zeros
    values: Array
    exposure: Array
    linked: Array
    data: Array
    given: Flags
    given_linked: Flags
    power: Array  # (U,): record weights
    constants: Array  # (U, V, 2), as those of synthetic values: see `log_number`
    linked_constants: Array
    rows: Ints  # (U, V): rows of T that own values of numbers have, or -1


class PointArrays(NamedTuple):
    """The guesses of a block of targets, as points in each of q guessed columns."""

    columns: Ints  # (q,): the guessed variables
    values: Array  # (U, q, C): distinct values
    constants: Array  # (U, q, C, 2)
    n_points: Ints  # (U, q): how many there are
    truth: Places  # (U, 1, q): which of them the truth has
    cells: Places  # (U, G, q): and the guesses
    first: Ints  # (U, G): the first column in which a guess is not as the one before
    rows: Ints  # (U, q, C): rows of T that values of numbers have


class NumberValues(NamedTuple):
    """N distinct values of numbers in a block of targets."""

    variables: Ints  # (N,)
    values: Array  # (N, 2): with the exposure
    constants: Array  # (N, 2)


class PredictiveDraws(NamedTuple):
    """Sums and draws that predictives are read from, H in all, of S classes that are `occupied`."""

    n: Array  # (H, K), as ``pi``: of all classes
    alpha: Array  # (H,)
    pi: Array
    order: Ints  # (H, S): which classes they are
    M: Array  # (H, D + 2 p + r, S)
    phi: Array  # (H, D, S)
    log_weights: Array  # (H, S + 1, S): without a record of each, or of nobody
    integrated: bool  # whether the weights of classes are integrated out


class PredictiveDraw(NamedTuple):
    """One draw, shapes as in `PredictiveDraws` without H; no ``pi`` where it is integrated out."""

    n: Array
    alpha: float
    pi: Array
    order: Ints
    M: Array
    phi: Array
    P: Array  # (V, S, 5): parameters of numbers and totals of levels
    T: Array  # (D + N, S): logs of levels and of distinct values of numbers, nobody taken out
    log_weights: Array


class DrawBuffers(NamedTuple):
    """Room for what `fill_draw` finds: ``nothing (0, 4)``, ``S (4, K)``, P and T of a draw."""

    nothing: Array
    S: Array
    P: Array
    T: Array


class TermBuffers(NamedTuple):
    """Room for `rest_terms`."""

    guessed: Flags  # (V,): which variables are
    gone: Array  # (3, 4): what is taken out of sums, see `number_parameters`
    of: Array  # (2, 5): parameters
    every: Array  # (K,): of all classes


class GuessBuffers(NamedTuple):
    """Room for `points_of` and what is found by it, class by class."""

    spare: TermBuffers
    terms: Array  # (K,), as ``rest``
    rest: Array
    L: Array  # (q, C, K): log masses of points
    R: Array  # (q, C, K): masses over the likeliest
    products: Array  # (q, K)
    masses: Array  # (G,)


class RunningSums(NamedTuple):
    """Sums over draws ``(U, B, G)``, and the logs that they are ``relative`` to, (U, B)."""

    sums: Array
    relative: Array


class ImputedCases(NamedTuple):
    """Targets beside imputed records: as `CaseArrays`, of B sets of sums and m data sets."""

    label: Labels  # (H, B, U)
    flags: Flags  # (H, B, U, 2 p)
    values: Array
    exposure: Array
    constants: Array
    linked: Array  # (m + 1, U, V), as its constants: of each data set, then of none
    linked_constants: Array
    known: Flags  # (U,): whose values the intruder sees
    imputed: Array  # (H, U, F): imputed values
    given: Flags
    given_linked: Flags
    power: Array
    free: Ints  # (F,): of which variables
    rows: Ints


class LevelTables(NamedTuple):
    """Of tables of levels alone."""

    Q: Array  # (H, D, K): probability of a level in a class
    tau: Array  # (H, p, K): class totals plus prior mass
    weights: Array  # (H, K + 1, K): of classes without a member of each, or of nobody


class LevelTargets(NamedTuple):
    """Targets of tables of levels alone, by rows of phi, -1 where there is none; U in a block."""

    label: Labels  # (H, U)
    truth: Ints  # (U, p), as all others: own values
    linked: Ints  # own synthetic values
    data: Ints  # own values that the data hold
    given: Ints  # own values that are conditioned on
    given_linked: Ints  # and synthetic ones


class LevelGuesses(NamedTuple):
    """Guesses as rows of phi."""

    levels: Ints  # (U, G, q)
    changes: Ints  # (U, G): how many variables each changes
    first: Ints  # (U, G): the first of these


class WidePlaces(NamedTuple):
    """Where in the row of a `WideLayout` the changed levels of guesses stand."""

    guesses: Places  # (U, G, most): in order, filled up with "no change"
    own: Flags  # (U, width): places of the target's own levels


class LogTables(NamedTuple):
    """Logs of weights (K,), of phi (D, K), of 1 - psi and of a zero at exposure 1, (p, K)."""

    log_pi: Array
    log_phi: Array
    log_alive: Array
    at_zero: Array


class LabelBuffers(NamedTuple):
    """Room for a unit; whole numbers are all 0."""

    products: Array  # (w + 1, K)
    masses: Array  # (K,)
    copies: Ints  # (K,): individuals by class
    dead: Ints  # (c,): how many zeros are structural


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
    """Sums by class of H draws; labels and structural zeros of N wanted units."""

    n: Array  # (H, K)
    M: Array  # (H, ., K)
    label: Labels  # (H, N)
    flags: Flags  # (H, N, c)
    fallen: Ints  # (H,): into zeros


class ClassSums(NamedTuple):
    """Classes of all individuals: weighted counts ``n``, individuals ``size (K,)``, sums ``M``."""

    n: Array
    size: Ints
    M: Array


class LevelSides(NamedTuple):
    """The two sides of a split, of levels alone."""

    S: Array  # sums as ``M``, a column a side and a third of nobody
    n: Array  # (2,): weighted counts
    size: Ints  # (2,): individuals
    T: Array  # (2, q + 1): totals of columns of levels and prior mass; the level of padding is sure


class NumberSides(NamedTuple):
    """The same where there may be numbers."""

    S: Array
    n: Array
    size: Ints
    T: Array
    # (2, p + r, 4): of counts rate, its log, logs of a structural zero and of none; of reals mean,
    # precision, half its log
    P: Array


class NumberSizes(NamedTuple):
    """Numbers p of counts and r of reals; whether there are structural zeros."""

    p: int
    r: int
    inflated: bool


class UnknownArrays(NamedTuple):
    """R unknown rows: what is imputed of them, and what each of m data sets shows."""

    free: Ints  # (F,): imputed variables
    exposure: Array  # (R, F)
    absent: Ints  # (F, 2): which of them, with which value, says that a number is missing; -1: none
    kinds: Ints  # (s,): variables that are shown
    n_own: int  # the first of these, which are the rows' own
    shown: Array  # (m, R, s)
    shown_exposure: Array  # (R, s)


class ImputingState(NamedTuple):
    """Where a chain over unknown rows is: B = m + W sets, of the releases, then of base chains."""

    alpha: Array  # (B,)
    log_left: Array  # (B, K - 1)
    pi: Array  # (B, K)
    phi: Array  # (B, D, K)
    n: Array  # (W, K): of base chains
    M: Array  # (W, ., K)
    label: Ints  # (W, R): of the unknown rows
    flags: Flags  # (W, R, p): their structural zeros
    y: Array  # (R, F): their values, NaN where a number is missing


class ImputingTables(NamedTuple):
    """What is looked up of all B sets, as in `PredictiveDraw`."""

    log_pi: Array  # (m, K)
    P: Array  # (B, V, K, 5)
    T: Array  # (B, D, K): of base chains without the divisors, which stand with the weights
    log_alpha: Array  # (W, .): log(alpha + i)


class OwnValues(NamedTuple):
    """What the data hold of one variable of a target, NaN where nothing."""

    power: float  # weight
    own: float
    linked: float
    exposure: float
    flag: float  # whether the own value is a structural zero, and the synthetic one
    linked_flag: float
