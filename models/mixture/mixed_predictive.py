"""Leave-one-out predictives of mixtures of any families, parameters integrated out.

Given the labels, the target is taken out of its class and p(y* | labels, y_-i) is a sum over
classes of products of predictives of the families, the class weights being the stick-breaking
predictive; of a record of weight w it is E[(pi_k f_k(y*))^w]. The derivation stands in
`docs/mixtures.md`. Columns can instead be *fixed* at their drawn parameters: all of them for the
published importance sampler, the unsynthesised ones where the release was drawn given them.

A guess is one of a few points in every guessed column, so each point meets each class once a draw,
and a guess is a product of what was found. The sum over classes runs over probabilities, those of
the likeliest guess being 1, and over logs for guesses below 1e-200: masses may differ by factors of
exp(1e6). Sums over draws are kept as (sum, what it is relative to, log of what is too small for
it).

Variables are numbered counts, reals, levels; a level's value is its row of phi. ``draw``: n, alpha,
pi, M, phi, parameters of numbers (V, K, 5) and logs of levels (D, K), nobody taken out.
``targets``: label (H, U), structural zeros of own and synthetic counts (H, U, 2 p), values (U, V),
exposures (U, V), own synthetic values (U, V), own values that are among the data (U, V), NaN where
there are none, which values are given (own, synthetic), weights (U,), and constants (U, V, 2) of
values and of synthetic values.
"""

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk.evidence.contract import Targets

from .categorical.predictive_kernels import class_weights
from .categorical.state import NO_ZEROS, Draws, Prior, Units, mixed_data, n_normalised
from .categorical.sweep import TINY
from .columns import Columns
from .families import (
    FAR,
    HALF_LOG_2PI,
    PARAMETERS,
    count_constants,
    log_level,
    log_number,
    log_rise,
    log_sum_of,
    number_parameters,
)
from .mixed import sums_of

LOG_RANGE = 500.0
SMALL = 1e-200  # of the likeliest guess; exp(-LOG_RANGE) is far below
LEAST = 1e-250
STEP = 200.0  # of logs, beyond which a sum is put aside


@numba.njit(cache=True, nogil=True)
def collapse_draws(rng, data, layout, theta, wanted, out):
    """Labels anew for each draw; fills n, M, label and structural zeros of wanted units.

    ``wanted`` lists units; synthetic rows that were drawn given others, and records that fell into
    structural zeros, are among the sums, but for weights. ``out[4]``: how many records fell.
    """
    families, zero, N = layout
    all_pi, all_phi = theta
    all_n, all_M, all_label, all_flags, fallen = out
    U, K = data[0][1].shape[0], all_pi.shape[1]
    n_z, M_z = np.zeros(K), np.zeros(all_M.shape[1:])
    label, flags = np.zeros(U, np.int64), np.zeros((U, all_flags.shape[2]), np.bool_)
    for h in range(all_pi.shape[0]):
        fallen[h] = sums_of(
            rng, data, families, zero, N, all_pi[h], all_phi[h], all_n[h], all_M[h], n_z, M_z,
            label, flags,
        )[0]  # fmt: skip
        if data[3].shape[0] > 0:
            all_M[h] += M_z
        for i in range(wanted.shape[0]):
            all_label[h, i] = label[wanted[i]]
            all_flags[h, i] = flags[wanted[i]]


@numba.njit(cache=True, nogil=True)
def log_powers(n, alpha, pi, removed, w, out):
    """log E[pi_k^w | labels, w less in class `removed`], sticks integrated out; or of pi itself.

    E[V_k^w] prod_{l<k} E[(1 - V_l)^w], V_k ~ Beta(1 + n_k, alpha + n_{>k}); pi empty: integrated.
    """
    K = out.shape[0]
    if pi.shape[0] > 0:
        for k in range(K):
            out[k] = w * math.log(max(pi[k], TINY))
        return
    if w == 1.0:
        class_weights(n, alpha, removed, out)
        for k in range(K):
            out[k] = math.log(max(out[k], TINY))
        return
    after = n.sum() - (w if removed < K else 0.0)
    log_rest = 0.0
    for k in range(K - 1):
        here = 1.0 + n[k] - (w if k == removed else 0.0)
        after -= here - 1.0
        both = log_rise(here + alpha + after, w)
        out[k] = log_rest + log_rise(here, w) - both
        log_rest += log_rise(alpha + after, w) - both
    out[K - 1] = log_rest


@numba.njit(cache=True, nogil=True)
def fill_draw(M, phi, layout, fixed, P, T):
    """Parameters of all numbers and logs of all levels, nobody taken out."""
    starts, p_r, nothing = layout[0], layout[2].shape[0] + layout[6].shape[0], np.zeros((0, 4))
    for v in range(p_r):
        for k in range(phi.shape[1]):
            number_parameters(M, phi, layout, fixed[v], v, k, nothing, P[v, k])
    for q in range(starts.shape[0] - 1):
        for k in range(phi.shape[1]):
            total = 0.0
            for row in range(starts[q], starts[q + 1]):
                total += M[row, k] + layout[1] if not fixed[p_r + q] else phi[row, k]
            for row in range(starts[q], starts[q + 1]):
                here = phi[row, k] if fixed[p_r + q] else M[row, k] + layout[1]
                T[row, k] = math.log(max(here, TINY) / total)


@numba.njit(cache=True, nogil=True)
def told_of(held, linked, exposure, flags, power, h, u, v, p):
    """What the data hold of variable v of a target.

    Weight and own value, synthetic value, exposure, which of the two are structural zeros.
    """
    flag, of_z = (1.0 * flags[h, u, v], 1.0 * flags[h, u, p + v]) if v < p else (0.0, 0.0)
    return power[u], held[u, v], linked[u, v], exposure[u, v], flag, of_z


@numba.njit(cache=True, nogil=True)
def set_gone(told, own, given_z, gone):
    """What is taken out of the sums of a class before a value of a variable is looked at.

    ``own``: the target's class. ``given_z``: the own synthetic value is conditioned on.
    """
    w, y, z, e, flag, of_z = told
    gone[:, 0] = 0.0
    if own and y == y:
        gone[0, 0], gone[0, 1], gone[0, 2], gone[0, 3] = w, y, e, flag
    if z == z and own != given_z:
        gone[1, 0], gone[1, 1], gone[1, 2] = 1.0 if own else -1.0, z, e
        gone[1, 3] = of_z if own else 0.0
    return gone[0, 0] != 0.0 or gone[1, 0] != 0.0


@numba.njit(cache=True, nogil=True)
def log_value(M, phi, P, T, layout, fixed, v, k, x, e, changed, gone, w, constants, of):
    """log E[p(x)^w] of variable v in class k; ``changed``: something is ``gone`` from its sums."""
    p, p_r = layout[2].shape[0], layout[2].shape[0] + layout[6].shape[0]
    if v >= p_r:
        row = int(x)
        if w == 1.0 and not changed:
            return T[row, k]
        return log_level(M, phi, layout, fixed, row, v - p_r, k, gone, w)
    if not changed or fixed:
        return log_number(x, e, P[v, k], v >= p, layout[4], w, constants)
    number_parameters(M, phi, layout, False, v, k, gone, of)
    return log_number(x, e, of, v >= p, layout[4], w, constants)


@numba.njit(cache=True, nogil=True)
def add_value(M, phi, P, T, layout, fixed, v, told, k0, x, given_z, w, constants, gone, of, out):
    """Add to out[k] the log of E[p(x)^w] of variable v; class k0 without the target."""
    p_r, e = layout[2].shape[0] + layout[6].shape[0], told[3]
    changed, K = set_gone(told, False, given_z, gone), out.shape[0]
    mine = out[k0] if k0 < K else 0.0
    if v >= p_r and w == 1.0 and not changed:
        row = int(x)
        for k in range(K):
            out[k] += T[row, k]
    else:
        for k in range(K):
            out[k] += log_value(
                M, phi, P, T, layout, fixed, v, k, x, e, changed, gone, w, constants, of
            )
    if k0 < K:
        changed = set_gone(told, True, given_z, gone)
        out[k0] = mine + log_value(
            M, phi, P, T, layout, fixed, v, k0, x, e, changed, gone, w, constants, of
        )


@numba.njit(cache=True, nogil=True)
def log_add(x, y):
    """log(exp x + exp y)."""
    top, other = max(x, y), min(x, y)
    return top if other == -math.inf else top + math.log1p(math.exp(other - top))


@numba.njit(cache=True, nogil=True)
def both_kinds(M, phi, layout, told, v, k, own, gone, of):
    """Chance that the own synthetic zero of a count is structural; parameters if not, and if so.

    A zero of either kind may be conditioned on: a count is then a mixture of two.
    """
    e = told[3]
    set_gone(told, own, False, gone)
    if not own:
        gone[1, 0] = 0.0
    number_parameters(M, phi, layout, False, v, k, gone, of[0])
    psi, alive = of[0, 3], -of[0, 0] * math.log1p(e / of[0, 1])
    for s in range(2):
        gone[2, 0], gone[2, 1], gone[2, 2], gone[2, 3] = -1.0, 0.0, e, s
        number_parameters(M, phi, layout, False, v, k, gone, of[s])
    return psi / (psi + (1.0 - psi) * math.exp(alive))


@numba.njit(cache=True, nogil=True)
def log_of_both(share, x, e, of, w, constants):
    """log mass of a count whose class has a parameter set with chance 1 - share, or another."""
    first = log_number(x, e, of[0], False, True, w, constants)
    second = log_number(x, e, of[1], False, True, w, constants)
    return log_add(math.log1p(-share) + first, math.log(share) + second)


@numba.njit(cache=True, nogil=True)
def rest_terms(draw, layout, fixed, targets, h, u, which, room, out):
    """out[k]: log of the class's weight and of the target's values; its class without the target.

    ``which``: 0 all values, 1 all but those of variables that are guessed, 2 those that are given.
    """
    label, flags, values, exposure, linked, held = targets[:6]
    given, given_z, power, constants, z_constants = targets[6:11]
    n, alpha, pi, M, phi, P, T = draw
    guessed, gone, of = room
    k0, p, w = label[h, u], layout[2].shape[0], 1.0 if which == 2 else power[u]
    log_powers(n, alpha, pi, k0, w, out)
    anything = False
    for v in range(values.shape[1]):
        told, x = told_of(held, linked, exposure, flags, power, h, u, v, p), values[u, v]
        z = linked[u, v]
        take = x == x and (given[u, v] if which == 2 else not (which == 1 and guessed[v]))
        take_z = z == z and (which != 2 or given_z[u, v])
        anything |= take or take_z
        if take_z:
            add_value(
                M, phi, P, T, layout, fixed[v], v, told, k0, z, False, 1.0, z_constants[u, v],
                gone, of[0], out,
            )  # fmt: skip
        if take and take_z and layout[4] and v < p and z == 0.0 and not fixed[v]:
            for k in range(out.shape[0]):
                share = both_kinds(M, phi, layout, told, v, k, k == k0, gone, of)
                out[k] += log_of_both(share, x, told[3], of, w, constants[u, v])
        elif take:
            add_value(
                M, phi, P, T, layout, fixed[v], v, told, k0, x, take_z, w, constants[u, v],
                gone, of[0], out,
            )  # fmt: skip
    return anything


@numba.njit(cache=True, nogil=True)
def class_points(M, phi, P, T, layout, fixed, v, told, k, own, x, constants, gone, of, out):
    """out[c, k]: log mass of each point x[c] of variable v in class k."""
    p, p_r = layout[2].shape[0], layout[2].shape[0] + layout[6].shape[0]
    w, _, z, e, _, _ = told
    changed = (own or z == z) and set_gone(told, own, True, gone)
    if v >= p_r or fixed or not changed:
        for c in range(x.shape[0]):
            out[c, k] = log_value(
                M, phi, P, T, layout, fixed, v, k, x[c], e, changed, gone, w, constants[c], of[0]
            )
    elif layout[4] and v < p and z == 0.0:
        share = both_kinds(M, phi, layout, told, v, k, own, gone, of)
        for c in range(x.shape[0]):
            out[c, k] = log_of_both(share, x[c], e, of, w, constants[c])
    else:
        number_parameters(M, phi, layout, False, v, k, gone, of[0])
        for c in range(x.shape[0]):
            out[c, k] = log_number(x[c], e, of[0], v >= p, layout[4], w, constants[c])


@numba.njit(cache=True, nogil=True)
def bounds(rest, L, n_points, u, k):
    """Largest and smallest log mass that any guess can have in a class."""
    most, least = rest[k], rest[k]
    for i in range(L.shape[0]):
        high, low = L[i, 0, k], L[i, 0, k]
        for c in range(1, n_points[u, i]):
            high, low = max(high, L[i, c, k]), min(low, L[i, c, k])
        most, least = most + high, least + low
    return most, least


@numba.njit(cache=True, nogil=True)
def highest(P, p, r, columns, k):
    """Largest log density that a guess of weight 1 can have in class k; masses are at most 1."""
    total = 0.0
    for v in columns:
        if p <= v < p + r:
            of = P[v, k]
            if of[1] == 0.0:
                total += 0.5 * math.log(of[2]) - HALF_LOG_2PI
            else:
                total += of[4] - HALF_LOG_2PI - 0.5 * math.log(of[3])
    return total


@numba.njit(cache=True, nogil=True)
def point_terms(draw, layout, fixed, targets, guesses, h, u, rest, room, L):
    """L[i, c, k] of the classes that matter; minus infinity of those that cannot.

    A class whose ``rest`` and highest density are far below the least that another class gives to
    any guess adds nothing to any. The class that the rest points to is looked at first.
    """
    columns, points, constants, n_points = guesses[:4]
    label, flags, _, exposure, linked, held = targets[:6]
    _, _, _, M, phi, P, T = draw
    _, gone, of = room
    power, p, r = targets[8], layout[2].shape[0], layout[6].shape[0]
    cut, first, least = power[u] == 1.0, 0, -math.inf
    for v in columns:
        cut &= linked[u, v] != linked[u, v]
    for i in range(columns.shape[0]):
        if columns[i] >= p + r:  # levels of all classes at once; what is taken out comes below
            for c in range(n_points[u, i]):
                L[i, c] = T[int(points[u, i, c])]
    for k in range(rest.shape[0]):
        first = k if rest[k] > rest[first] else first
    for t in range(rest.shape[0]):
        k = first if t == 0 else t - (t <= first)
        own = k == label[h, u]
        if t > 0 and cut and not own:
            if rest[k] + highest(P, p, r, columns, k) + guesses[6] < least + FAR:
                L[:, :, k] = -math.inf
                continue
        for i in range(columns.shape[0]):
            v, some = columns[i], n_points[u, i]
            if v >= p + r and cut and not own:
                continue
            class_points(
                M, phi, P, T, layout, fixed[v], v,
                told_of(held, linked, exposure, flags, power, h, u, v, p), k, own,
                points[u, i, :some], constants[u, i], gone, of, L[i],
            )  # fmt: skip
        if t == 0:
            least = bounds(rest, L, n_points, u, first)[1]


@numba.njit(cache=True, nogil=True)
def scale(rest, L, n_points, u, R, base):
    """Probabilities of points over the likeliest, for the classes that matter to some guess.

    ``R[i, c, t]`` belongs to the t-th class kept, ``base[t]`` to its likeliest guess. How many are
    kept, and the log of what was divided out, are returned.
    """
    q, K = L.shape[0], L.shape[2]
    top, low = -math.inf, -math.inf
    for k in range(K):
        most, least = bounds(rest, L, n_points, u, k)
        top, low = max(top, most), max(low, least)
    reach, kept = max(top - LOG_RANGE, low + FAR), 0
    for k in range(K):
        most = bounds(rest, L, n_points, u, k)[0]
        if most < reach or most == -math.inf:
            continue
        base[kept] = math.exp(most - top)
        for i in range(q):
            high = L[i, 0, k]
            for c in range(1, n_points[u, i]):
                high = max(high, L[i, c, k])
            for c in range(n_points[u, i]):
                R[i, c, kept] = math.exp(L[i, c, k] - high)
        kept += 1
    return kept, top


@numba.njit(cache=True, nogil=True)
def log_guess(rest, L, cells, u, g, terms):
    """Log mass of one guess over all classes, by logs alone."""
    for k in range(rest.shape[0]):
        terms[k] = rest[k]
        for i in range(cells.shape[2]):
            terms[k] += L[i, cells[u, g, i], k]
    return log_sum_of(terms)


@numba.njit(cache=True, nogil=True)
def first_changes(cells, out):
    """out[u, g]: the first column in which a guess differs from the one before."""
    U, G, q = cells.shape
    for u in range(U):
        for g in range(G):
            i = 0
            while g > 0 and i < q - 1 and cells[u, g, i] == cells[u, g - 1, i]:
                i += 1
            out[u, g] = i


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def guess_masses(R, cells, u, first, kept, products, masses):
    """Masses of guesses over the likeliest; products of what a guess shares with the one before.

    ``products[i, t]``: base and the first i columns' points in class t.
    """
    q = cells.shape[2]
    for g in range(cells.shape[1]):
        for i in range(first[u, g], q - 1):
            c = cells[u, g, i]
            for t in range(kept):
                products[i + 1, t] = products[i, t] * R[i, c, t]
        mass, c = 0.0, cells[u, g, q - 1]
        for t in range(kept):
            mass += products[q - 1, t] * R[q - 1, c, t]
        masses[g] = mass


@numba.njit(cache=True, nogil=True)
def add_draw(rest, L, cells, u, masses, log_v, top, sums, relative, small, terms):
    """Add exp(log_v) times the mass of every guess to the sums (G,) of a batch.

    What the sums are relative to is returned.
    """
    s = log_v + top
    if s == -math.inf:
        return relative
    if s > relative + STEP:
        put_aside(sums, relative, small)
        relative = s
    factor = math.exp(s - relative)
    least = max(SMALL, LEAST / factor) if factor > 0.0 else math.inf
    for g in range(masses.shape[0]):
        if masses[g] > least:
            sums[g] += masses[g] * factor
        else:
            small[g] = log_add(small[g], log_v + log_guess(rest, L, cells, u, g, terms))
    return relative


@numba.njit(cache=True, nogil=True)
def put_aside(sums, relative, small):
    """Move sums (G,) to the logs of what is too small."""
    for g in range(sums.shape[0]):
        if sums[g] > 0.0:
            small[g] = log_add(small[g], math.log(sums[g]) + relative)
            sums[g] = 0.0


@numba.njit(cache=True, nogil=True)
def truth_masses(tables, layout, fixed, targets, out):
    """out[h, u] = log p_h(values of the target, the target taken out), given what is given."""
    all_n, all_alpha, all_pi, all_M, all_phi, integrated = tables
    K, D, V = all_n.shape[1], all_phi.shape[1], targets[2].shape[1]
    P, T, terms = np.empty((V, K, PARAMETERS)), np.zeros((D, K)), np.empty(K)
    room = np.zeros(V, np.bool_), np.zeros((3, 4)), np.empty((2, PARAMETERS))
    for h in range(out.shape[0]):
        pi = all_pi[h, : 0 if integrated else K]
        fill_draw(all_M[h], all_phi[h], layout, fixed, P, T)
        draw = all_n[h], all_alpha[h], pi, all_M[h], all_phi[h], P, T
        for u in range(out.shape[1]):
            rest_terms(draw, layout, fixed, targets, h, u, 0, room, terms)
            out[h, u] = log_sum_of(terms)
            if rest_terms(draw, layout, fixed, targets, h, u, 2, room, terms):
                out[h, u] -= log_sum_of(terms)


@numba.njit(cache=True, nogil=True)
def guess_sums(tables, layout, fixed, targets, guesses, log_weights, batch, out):
    """out[u, b, g] = log of the batch's sum of exp(log_weights) p_h(y*) / p_h(y_i)."""
    all_n, all_alpha, all_pi, all_M, all_phi, integrated = tables
    columns, points, _, n_points, truth_at, cells, _ = guesses
    H, K, D, V = all_n.shape[0], all_n.shape[1], all_phi.shape[1], targets[2].shape[1]
    (U, B, G), q, C = out.shape, points.shape[1], points.shape[2]
    P, T, terms = np.empty((V, K, PARAMETERS)), np.zeros((D, K)), np.empty(K)
    rest, products = np.empty(K), np.empty((q, K))
    L, R = np.empty((q, C, K)), np.empty((q, C, K))
    room = np.zeros(V, np.bool_), np.zeros((3, 4)), np.empty((2, PARAMETERS))
    room[0][columns] = True
    sums, relative = np.zeros(out.shape), np.full((U, B), -math.inf)
    first, masses = np.empty((U, G), np.int64), np.empty(G)
    out[:] = -math.inf
    first_changes(cells, first)
    for h in range(H):
        b, pi = batch[h], all_pi[h, : 0 if integrated else K]
        fill_draw(all_M[h], all_phi[h], layout, fixed, P, T)
        draw = all_n[h], all_alpha[h], pi, all_M[h], all_phi[h], P, T
        for u in range(U):
            rest_terms(draw, layout, fixed, targets, h, u, 1, room, rest)
            point_terms(draw, layout, fixed, targets, guesses, h, u, rest, room, L)
            kept, top = scale(rest, L, n_points, u, R, products[0])
            log_v = log_weights[h, u] - log_guess(rest, L, truth_at, u, 0, terms)
            guess_masses(R, cells, u, first, kept, products, masses)
            relative[u, b] = add_draw(
                rest, L, cells, u, masses, log_v, top, sums[u, b], relative[u, b], out[u, b], terms
            )
    for u in range(U):
        for b in range(B):
            put_aside(sums[u, b], relative[u, b], out[u, b])


Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """What the predictives need of each draw.

    Attributes
    ----------
    draws : Draws
    n : ndarray, shape (H, K)
        Weights of classes.
    M : ndarray, shape (H, D + 2 p + r, K)
        Sums, as in `families.py`.
    fixed : ndarray of bool, shape (V,)
        Variables kept at their drawn parameters.
    integrated : bool
        Whether the weights of classes are integrated out.
    fallen : ndarray of int, shape (H,)
        How many records fell into the structural zeros.
    """

    draws: Draws
    n: Array
    M: Array
    fixed: Mask
    integrated: bool
    fallen: Ints

    @classmethod
    def at_theta(cls, draws: Draws, prior: Prior) -> "Sums":
        """Nothing integrated out."""
        H, K = draws.pi.shape
        return cls(
            draws=draws,
            n=np.zeros((H, K)),
            M=np.zeros((H, prior.n_sums, K)),
            fixed=np.ones(prior.n_numbers + len(prior.starts) - 1, dtype=bool),
            integrated=False,
            fallen=np.zeros(H, np.int64),
        )


def collapse(
    prior: Prior, units: Units, draws: Draws, fixed: Mask, wanted: Ints, *, rng: np.random.Generator
) -> tuple[Sums, npt.NDArray[np.int16], Mask]:
    """Labels anew for each draw, then sums by class instead of parameters.

    A label drawn from p(z | y, theta_h) makes (theta_h, z) a draw of the joint posterior, so the
    chain itself need not keep labels. Labels (H, U) and structural zeros (H, U, 2 p) are kept of
    the ``wanted`` units (U,) only; -1: of nobody, class K. Cost: one sweep a draw.
    """
    (H, K), p = draws.pi.shape, prior.n_counts
    kept, place = np.unique(wanted[wanted >= 0], return_inverse=True)
    n, M = np.empty((H, K)), np.empty((H, prior.n_sums, K))
    c = 0 if prior.inflation is None else units.counts.shape[1]
    label, flags = np.empty((H, len(kept)), np.int16), np.zeros((H, len(kept), c), np.bool_)
    fallen = np.zeros(H, np.int64)
    zero = (prior.zeros or NO_ZEROS).arrays
    collapse_draws(
        rng,
        mixed_data(units),
        (prior.layout, zero, n_normalised(units)),
        (draws.pi, draws.phi),
        kept,
        (n, M, label, flags, fallen),
    )
    labels = np.full((H, len(wanted)), K, np.int16)
    labels[:, wanted >= 0] = label[:, place]
    drawn = np.zeros((H, len(wanted), 2 * p), np.bool_)
    drawn[:, wanted >= 0, :c] = flags[:, place]
    sums = Sums(draws=draws, n=n, M=M, fixed=fixed, integrated=not fixed.any(), fallen=fallen)
    return sums, labels, drawn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cases:
    """Targets as the predictives see them, variables numbered counts, reals, levels.

    Attributes
    ----------
    values, exposure : ndarray, shape (U, V)
        The target's own values, and their exposures.
    linked : ndarray, shape (U, V)
        Its own synthetic values where classes were the records' own; else NaN.
    held : ndarray, shape (U, V)
        Its own values as far as they are among the data; else NaN.
    given, given_linked : ndarray of bool, shape (U, V)
        Values, own and synthetic, that the density is conditional on.
    power : ndarray, shape (U,)
        Weights of the targets.
    columns : ndarray of int, shape (q',)
        The guessed variables.
    guesses : ndarray, shape (G, U, q')
    volume : ndarray, shape (G + 1, U, q')
        log of what a density of each guess, and of the truth, is multiplied with.
    """

    values: Array
    exposure: Array
    linked: Array
    held: Array
    given: Mask
    given_linked: Mask
    power: Array
    columns: Ints
    guesses: Array
    volume: Array

    @classmethod
    def of(
        cls,
        prior: Prior,
        columns: Columns,
        targets: Targets,
        *,
        linked: Array | None,
        conditional: Mask,
        shown: Mask | None = None,
    ) -> "Cases":
        """Join targets with their own synthetic values (n, V).

        Of targets that are not ``fitted`` the data hold the values that are ``shown`` (V,), and the
        synthetic ones that are linked: the density is conditional on these.
        """
        rows, guessed = columns.rows(targets.profiles, prior), columns.variables(targets.columns)
        values, p, r = rows.values, prior.n_counts, prior.n_reals
        exposure = np.ones(values.shape)
        exposure[:, :p] = columns.exposures(targets.profiles)
        tied = np.full(values.shape, np.nan) if linked is None else linked[targets.record]
        fitted = targets.fitted[:, None]
        told = np.broadcast_to(conditional if shown is None else shown, values.shape)
        guesses = columns.points(targets.guesses.codes, targets.columns, prior)
        every = np.concatenate([guesses, values[None][:, :, guessed]])
        volume = np.zeros(every.shape)
        for i, v in enumerate(guessed.tolist()):
            if p <= v < p + r:
                volume[..., i] = columns.log_volume(every[..., i], v - p)
        return cls(
            values=values,
            exposure=exposure,
            linked=tied,
            held=np.where(fitted | told, values, np.nan),
            given=conditional | (~fitted & told),
            given_linked=np.broadcast_to(~fitted, values.shape),
            power=targets.weight,
            columns=guessed,
            guesses=guesses,
            volume=volume,
        )

    def arrays(self, block: slice, p: int) -> tuple[npt.NDArray[Any], ...]:
        """What the kernels take after labels and structural zeros."""
        x, z, w = self.values[block], self.linked[block], self.power[block]
        constants, of_z = np.zeros((*x.shape, 2)), np.zeros((*x.shape, 2))
        for u in range(len(x)):
            count_constants(x[u, :p], w[u], constants[u])
            count_constants(np.nan_to_num(z[u, :p], nan=0.0), 1.0, of_z[u])
        for i, v in enumerate(self.columns.tolist()):
            if v >= p:
                constants[:, v, 0] = self.volume[-1, block, i]
        some = (self.exposure, self.linked, self.held, self.given, self.given_linked)
        return (x, *(np.ascontiguousarray(y[block]) for y in some), w, constants, of_z)

    def points(self, block: slice, p: int) -> tuple[Any, ...]:
        """Guessed variables, their distinct values, and which each guess and the truth has."""
        own = self.values[block][:, self.columns]
        w = self.power[block]
        G, U, q = self.guesses[:, block].shape
        every = np.concatenate([self.guesses[:, block], own[None]])
        cells, found, volume = np.empty((U, G + 1, q), np.int32), [], []
        for u in range(U):
            for i in range(q):
                values, at, cells[u, :, i] = np.unique(
                    every[:, u, i], return_index=True, return_inverse=True, equal_nan=True
                )
                found.append(values)
                volume.append(self.volume[at, block][:, u, i])
        n_points = np.array([len(v) for v in found], np.int64).reshape(U, q)
        values = np.zeros((U, q, int(n_points.max(initial=1))))
        constants = np.zeros((*values.shape, 2))
        for place, (v, log_volume) in enumerate(zip(found, volume, strict=True)):
            u, i = divmod(place, q)
            values[u, i, : len(v)] = v
            if self.columns[i] < p:
                count_constants(v, w[u], constants[u, i])
            else:
                constants[u, i, : len(v), 0] = log_volume
        true, chosen = np.ascontiguousarray(cells[:, -1:]), np.ascontiguousarray(cells[:, :-1])
        highest = float(self.volume[:, block].max(initial=0.0)) * q
        return self.columns, values, constants, n_points, true, chosen, max(highest, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixedPredictive:
    """p(y* | theta_h without the target) for a list of targets and their guesses.

    Attributes
    ----------
    prior : Prior
    sums : Sums
        Of the H draws.
    cases : Cases
    label : ndarray of int, shape (H, U)
        Class of each target; K where nothing is to be taken out.
    structural : ndarray of bool, shape (H, U, 2 p)
        Which of its values, own and synthetic, are drawn to be structural zeros.
    batch : ndarray of int, shape (H,)
        Batch of each draw.
    """

    prior: Prior
    sums: Sums
    cases: Cases
    label: npt.NDArray[np.int16]
    structural: Mask
    batch: Ints

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h without i), given what is given of i, shape (H, block)."""
        targets = self._targets(block)
        out = np.empty(targets[0].shape)
        truth_masses(self._tables(), self.prior.layout, self.sums.fixed, targets, out)
        return out

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        targets, B = self._targets(block), int(self.batch.max()) + 1
        out = np.empty((targets[0].shape[1], B, len(self.cases.guesses)))
        guess_sums(
            self._tables(),
            self.prior.layout,
            self.sums.fixed,
            targets,
            self.cases.points(block, self.prior.n_counts),
            np.ascontiguousarray(log_weights),
            self.batch,
            out,
        )
        return np.ascontiguousarray(out.transpose(1, 2, 0))

    def _tables(self) -> tuple[Any, ...]:
        s, d = self.sums, self.sums.draws
        return s.n, d.alpha, d.pi, s.M, d.phi, s.integrated

    def _targets(self, block: slice) -> tuple[npt.NDArray[Any], ...]:
        some = (self.label[:, block], self.structural[:, block])
        kept = (np.ascontiguousarray(x) for x in some)
        return *kept, *self.cases.arrays(block, self.prior.n_counts)
