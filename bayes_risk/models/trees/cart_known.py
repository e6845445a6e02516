"""What released values say of leaves of trees of which the intruder does not know all records.

The chance of the released values given the composition of a node is a product over levels, and so
is the belief about the composition (``docs/trees.md``, "Unknown records") but for the number u of
unknown records. With c_v known values of level v, prior weights a_v and r_v^l released values in
data set l, all m data sets show the same unknown records:

    p(Z^(1..m)|c) = const  sum over u_1 + u_2 + ... = u of  prod_v  P_v(u_v),
    P_v(k) = Gamma(a_v+c_v+k) / (Gamma(a_v+c_v) k!)  prod_l  Gamma(c_v+k+r_v^l) / Gamma(c_v+k),

a term zero if c_v + k = 0 < r_v^l (plain draws: last factor (c_v+k)^r_v^l). It is the coefficient
of x^u in the product of the polynomials sum_k P_v(k) x^k. Levels of a node that agree in all counts
are one *type*; the levels that the node never shows are one class together, the last.

Rows of a table: what of the target is taken out of the node. 0 .. T: a known value of that type;
T + 1: an unknown record; T + 2: nothing, for the target lies elsewhere. Columns: what the guess
puts in. 0 .. T: a value of that type; T + 1: nothing.
"""

import math
from typing import Any

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk.evidence.contract import Progress, Simulated, Targets
from bayes_risk.models.fits.synthesis import Ticker

from .cart_evidence import LeafCounts, Leaves, check_made, leaf_rows
from .tree import PLAIN, Moves, Tree

WIDE = 300.0  # log range of a node's polynomials from which they are tilted
FURTHEST = 60.0  # log tilt


def node_counts(
    leaves: Leaves, tree: Tree, known: Flags, guessed: Array
) -> tuple[Array, tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """What all data sets show of one tree, of records partly known: by value, node and type.

    First the V values that are met or ``guessed``. *By value*: sorted ``node V + value`` of those
    shown, and types. *By node*: known and unknown records, released values R (nodes, m), weight of
    a level and of all not shown, known records with such. *By type*: the first of each node, known
    records, released values (types, m) in increasing order, levels of it.
    """
    seen = leaves._replace(weights=known.astype(float))
    counts = LeafCounts.of(seen, tree, np.concatenate(leaves.z), [guessed])
    j, V, shown = tree.column, len(counts.values), counts.r > 0
    keys, frequency = counts.keys[shown], counts.n[shown].astype(np.int64)
    r = np.zeros((len(counts.keys), len(leaves.z)), dtype=np.int64)
    for l, z in enumerate(leaves.z):
        np.add.at(r[:, l], counts.places(tree.node(z), z[:, j]), 1)
    r, node = r[shown], keys // V
    if leaves.kind == PLAIN:  # of plain draws only the sums matter
        r = r.sum(axis=1, keepdims=True)
    R = np.zeros((tree.n_nodes, r.shape[1]), dtype=np.int64)
    np.add.at(R, node, r)
    table = np.column_stack([node, frequency, np.sort(r, axis=1)])
    types, kind, times = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    first = np.searchsorted(types[:, 0], np.arange(tree.n_nodes + 1))
    n_known = counts.N.astype(np.int64)
    rest = n_known - np.bincount(node, weights=frequency, minlength=tree.n_nodes).astype(np.int64)
    # a number may be any that the column shows
    levels = leaves.data.variables[j].n_levels or len(np.unique(keys % V))
    weight = 1.0 / levels
    hidden = np.maximum(levels - np.bincount(node, minlength=tree.n_nodes), 0) * weight
    return (
        counts.values,
        (keys, kind.reshape(-1) - first[node]),
        (n_known, tree.end - tree.begin - n_known, R, weight, hidden, rest),
        (first, *map(np.ascontiguousarray, (types[:, 1], types[:, 2:])), times),
    )


@numba.njit(cache=True, nogil=True)
def _tables(draws, nodes, types, cells, sums):
    """Tables of all nodes in which a cell is wanted."""
    known, unknown, R, weight, weight_rest, rest = nodes
    first, c, r, times = types
    tables, here, wanted = sums
    for node in range(len(known)):
        T, mine = first[node + 1] - first[node], slice(first[node], first[node + 1])
        table = tables[cells[node] : cells[node + 1]].reshape(T + 3, T + 2)
        marked = wanted[cells[node] : cells[node + 1]].reshape(T + 3, T + 2)
        if marked.any():
            here[node] = fill_table(
                draws,
                (known[node], unknown[node], R[node], weight, weight_rest[node], rest[node]),
                (c[mine], r[mine], times[mine]),
                marked,
                table,
            )


@numba.njit(cache=True, nogil=True)
def fill_table(kind, node, types, wanted, table):
    """The wanted cells of a node's table; returns log p of it. Arguments: `node_counts`."""
    n_known, n_unknown, R, weight, weight_rest, c_rest = node
    T = len(types[0])  # after them the levels that are not shown
    counts = np.append(types[0].astype(np.float64), c_rest)
    r = np.concatenate((types[1], np.zeros((1, len(R)), dtype=np.int64)))
    times, weights = np.append(types[2], 1), np.append(np.full(T, weight), weight_rest)
    log_p = np.empty((T + 1, n_unknown + 2))
    for k in range(T + 1):
        _log_terms(kind, counts[k], weights[k], r[k], log_p[k])
    tilt = _tilt(log_p, times, n_unknown)
    p, add, drop = _terms(kind, log_p, counts, weights, r, tilt)
    powers = np.empty((2, *p.shape))  # each type as often as it occurs, and once less
    for k in range(len(p)):
        powers[1, k] = _power(p[k], times[k] - 1)
        powers[0, k] = _times(powers[1, k], p[k])
    sides, at = _sides(powers[0]), (kind, R, tilt)
    here = _log_at(at, sides[0][T + 1], n_known, n_unknown)
    for row in range(T + 3):
        if wanted[row].any():
            table[row, :] = np.nan
            counted = n_known - (1 if row <= T else 0), n_unknown - (1 if row == T + 1 else 0)
            mine = _row(row, wanted[row], powers, p, drop, times, sides)
            if wanted[row, T + 1]:
                table[row, T + 1] = _log_at(at, mine[0], *counted)
            for k in range(T + 1):
                if wanted[row, k] and k == row == T:
                    table[row, k] = here
                elif wanted[row, k]:
                    product = _times(mine[1][k], add[k])
                    table[row, k] = _log_at(at, product, counted[0] + 1, counted[1])
    return here


@numba.njit(cache=True, nogil=True)
def _log_terms(kind, c, weight, r, out):
    """log of Gamma(w+c+u) / (Gamma(w+c) u!) prod_l g_l(c+u), u = 0, 1, ..., up to a constant."""
    shows = r.sum() > 0
    out[:] = -np.inf
    start = 1 if c == 0 and shows else 0
    if start < len(out):
        out[start] = math.log(weight) if start else 0.0
    for u in range(start, len(out) - 1):
        if weight + c + u <= 0.0:
            break
        step = math.log((weight + c + u) / (u + 1.0))
        for l in range(len(r)):
            if r[l] > 0:
                step += _log_change(kind, c + u, r[l])
        out[u + 1] = out[u] + step


@numba.njit(cache=True, nogil=True)
def _log_change(kind, n, r):
    """log g(n + 1) / g(n)."""
    if kind == PLAIN:
        return r * math.log((n + 1.0) / n)
    return math.log((n + r) / n)


@numba.njit(cache=True, nogil=True)
def _tilt(log_p, times, n_unknown):
    """A factor for each unknown record, which moves the product's mass to the middle."""
    spread = 0.0
    for k in range(len(log_p)):
        there = log_p[k][log_p[k] > -np.inf]
        spread += times[k] * (there.max() - there.min())
    if spread < WIDE:
        return 0.0
    low, high = -FURTHEST, FURTHEST
    for _ in range(50):
        middle = (low + high) / 2.0
        if _mean(log_p, times, middle) < n_unknown:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


@numba.njit(cache=True, nogil=True)
def _mean(log_p, times, tilt):
    """Expected number of unknown records if the levels were independent."""
    total, u = 0.0, np.arange(log_p.shape[1])
    for k in range(len(log_p)):
        x = log_p[k] + tilt * u
        x = np.exp(x - x.max())
        total += times[k] * (u * x).sum() / x.sum()
    return total


@numba.njit(cache=True, nogil=True)
def _terms(kind, log_p, counts, weights, r, tilt):
    """Polynomials of each type as it is, with one more known record of it, and with one less."""
    K, D = log_p.shape[0], log_p.shape[1] - 1
    as_is, add, drop = np.empty((K, D)), np.empty((K, D)), np.full((K, D), -np.inf)
    for k in range(K):
        total = weights[k] + counts[k]
        for u in range(D):
            as_is[k, u] = log_p[k, u] + tilt * u
            add[k, u] = log_p[k, u + 1] + math.log(u + 1.0) - math.log(total) if total > 0 else 0.0
            add[k, u] += tilt * u
            if u > 0 and total > 1.0:
                drop[k, u] = log_p[k, u - 1] + math.log((total - 1.0) / u) + tilt * u
        if counts[k] > 0:
            drop[k, 0] = log_p[k, 0]
            for l in range(r.shape[1]):
                if r[k, l] > 0:
                    last = counts[k] == 1
                    drop[k, 0] -= np.inf if last else _log_change(kind, counts[k] - 1.0, r[k, l])
    return _scaled(as_is), _scaled(add), _scaled(drop)


@numba.njit(cache=True, nogil=True)
def _scaled(log_x):
    """Polynomials with the largest coefficient 1, and last the log of what that was, (K, D + 1)."""
    out = np.zeros((len(log_x), log_x.shape[1] + 1))
    for k in range(len(log_x)):
        out[k, -1] = log_x[k].max()
        if out[k, -1] > -np.inf:
            out[k, :-1] = np.exp(log_x[k] - out[k, -1])
    return out


@numba.njit(cache=True, nogil=True)
def _times(x, y):
    """Product of two such polynomials up to their degree."""
    D = len(x) - 1
    out = np.zeros(D + 1)
    for i in range(D):
        out[i:D] += x[i] * y[: D - i]
    top = out.max()
    if top > 0.0:
        out /= top
        out[D] = x[D] + y[D] + math.log(top)
    else:
        out[D] = -np.inf
    return out


@numba.njit(cache=True, nogil=True)
def _power(x, times):
    """A polynomial multiplied with itself."""
    out = np.zeros(len(x))
    out[0] = 1.0
    while times > 0:
        if times % 2:
            out = _times(out, x)
        times //= 2
        if times:
            x = _times(x, x)
    return out


@numba.njit(cache=True, nogil=True)
def _sides(p):
    """Products of the types before each, and of those from each on; (T + 2, D + 1)."""
    K = len(p)
    before, after = np.zeros((K + 1, p.shape[1])), np.zeros((K + 1, p.shape[1]))
    before[0, 0], after[K, 0] = 1.0, 1.0
    for k in range(K):
        before[k + 1] = _times(before[k], p[k])
        after[K - 1 - k] = _times(after[K - k], p[K - 1 - k])
    return before, after


@numba.njit(cache=True, nogil=True)
def _row(row, wanted, powers, p, drop, times, sides):
    """Products for one row: of all types; and for each wanted column one level of it left out."""
    K, before, after = len(p), sides[0].copy(), sides[1].copy()
    if row < K:  # the sides change where they hold the type that the target leaves
        mine = _times(powers[1, row], drop[row])
        for k in range(row, K):
            before[k + 1] = _times(before[k], mine if k == row else powers[0, k])
        for k in range(row, -1 if wanted[:row].any() else row, -1):
            after[k] = _times(after[k + 1], mine if k == row else powers[0, k])
    out = np.zeros(p.shape)
    for k in range(K):
        if not wanted[k] or (k == row and k == K - 1):
            continue
        rest = powers[1, k]
        if k == row:
            rest = _times(_power(p[k], times[k] - 2), drop[k])
        out[k] = _times(_times(before[k], after[k + 1]), rest)
    return before[K], out


@numba.njit(cache=True, nogil=True)
def _log_at(at, product, n_known, n_unknown):
    """log of the coefficient of ``n_unknown``, the tilt taken off, with what all terms share."""
    kind, R, tilt = at
    if n_unknown < 0 or n_known < 0 or product[n_unknown] <= 0.0:
        return -np.inf
    N = n_known + n_unknown
    out = math.log(product[n_unknown]) + product[-1] - tilt * n_unknown
    out += math.lgamma(n_unknown + 1.0) + math.lgamma(1.0 + n_known) - math.lgamma(1.0 + N)
    for l in range(len(R)):
        if R[l] > 0:
            out += -R[l] * math.log(N) if kind == PLAIN else math.lgamma(N) - math.lgamma(N + R[l])
    return out


BELIEF = (
    "summed over all that the records that are not known may hold: the intruder knows how many "
    "lie in each leaf, and learns from the known values there, after a prior of the weight of one "
    "record that favours no value"
)
IN_WORDS = {
    "exact": f"exact: in closed form, {BELIEF}",
    "independent-releases": f"independent-releases: in closed form, {BELIEF}; leaves of different "
    "trees are taken as if they did not share these records (an approximation)",
}


def partly_known(
    leaves: Leaves, targets: Targets, known: Flags, progress: Progress | None
) -> Simulated:
    """log p(Z^(1..m) | y*, y_A) of all data sets, up to a constant for each target, (1, G, U)."""
    total = np.zeros((1, *targets.guesses.codes.shape[:2]))
    tick = Ticker(progress, "evidence", len(leaves.trees[0]))
    for tree in leaves.trees[0]:  # those of all data sets
        total[0] += _of_tree(leaves, tree, known, targets)
        tick(1)
    return Simulated.exact(total)


def _of_tree(leaves: Leaves, tree: Tree, known: Flags, targets: Targets) -> Array:
    """What one tree adds, (G, U). Cost: 4 u^2 for u unknown records of a node and two types."""
    for z in leaves.z:
        check_made(leaves.data, tree, LeafCounts.of(leaves, tree, z).n_strange)
    leaf, guessed, cell = leaf_rows(tree, targets)
    values, (keys, kind), by_node, types = node_counts(leaves, tree, known, guessed)
    own, guess = (np.searchsorted(values, y) for y in (targets.profiles[:, tree.column], guessed))
    moves = Moves.of(tree, by_node[2].any(axis=1), tree.leaf(targets.profiles), leaf)
    _, taken, put, g, u = moves
    knows = known[targets.record]
    moves = moves.only(~(taken & put & knows[u] & (own[u] == guess[g, u])))  # others stay as it is
    node, taken, put, g, u = moves
    width = np.diff(types[0])

    def type_of(value: Ints) -> Ints:
        """Of values in the nodes; of those that a node never shows the last."""
        key = node * len(values) + value
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.asarray(np.where(keys[place] == key, kind[place], width[node]))

    row = np.where(knows[u], type_of(own[u]), width[node] + 1)
    row = np.where(taken, row, width[node] + 2)
    column = np.where(put, type_of(guess[g, u]), width[node] + 1)
    cells = np.concatenate([[0], np.cumsum((width + 3) * (width + 2))])
    place = cells[node] + row * (width[node] + 2) + column
    tables, here = np.zeros(cells[-1]), np.zeros(tree.n_nodes)
    wanted = np.zeros(cells[-1], dtype=np.bool_)
    wanted[place] = True
    _tables(leaves.kind, by_node, types, cells, (tables, here, wanted))
    return moves.summed(tables[place] - here[node], leaf.shape)[cell]
