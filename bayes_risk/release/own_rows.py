"""Own rows: rows of a file that are nearest to their own record, among those kept alike.

Where row i of a file is record i, it shows nothing of the record beyond the kept columns if the
rows could stand in any order among those with the same kept values. Then the row that is nearest
to a record is its own in one case per cell, with a variance of at most one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numba
import numpy as np
from scipy.special import gammainc, gammaincinv

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.nearest import Index, Points, halved, index_of, two_nearest
from bayes_risk.data.variables import within_range

from . import persons
from .links_result import ALIKE, OWN, SURE, Link
from .seen import APART, LEAST, LOOKED_AT, TIMES, WIDE, Seen

MANY = 5_000  # records whose own rows are compared
FORETOLD = 0.9  # share of the variance of values above which kept columns explain them
TREES, SMALLEST = 15, 5  # and records of a leaf, at least
FOLDS, PENALTIES = 5, np.logspace(-3, 4, 8)
GROUP = 2  # records of like predictions where kept values are all different


def own_rows(seen: Seen) -> Iterator[Link]:
    """Rows whose own record is nearest, in each file and in the mean of all, of those alike."""
    rows = np.arange(seen.tables.n)[seen.rows(1)]
    cell, who = seen.cells[0][rows], persons.each_or(seen.tables.of_person(0, rows), rows)
    single = np.bincount(cell)[cell] == 1
    cell = persons.cells_of(cell, who)
    alone = np.bincount(cell)[cell] == 1
    there = [l for l in range(1, seen.m1) if seen.tables.corresponds[l - 1]]
    in_order = {l: seen.sorted_cells(l) for l in there}
    for l in there if not alone.all() else ():
        parted = persons.cells_of(in_order[l][rows], who)
        yield from _own_rows_of(seen, OWN, [l], rows[~alone], parted[~alone])
    free = [l for l in there if in_order[l] is seen.cells[0]]
    if len(free) > 1 and not alone.all():
        yield from _own_rows_of(seen, OWN, free, rows[~alone], cell[~alone])
    files = [l for l in range(1, seen.m1) if l in free or l not in there]
    alone &= single | seen.tables.corresponds.all()
    some = rows[alone][persons.one_row(who[alone])]
    if len(files) and seen.kept and len(some) >= LEAST:
        alike = _alike(seen, files, some)
        for group in [[l] for l in files] + ([files] if len(files) > 1 else []):
            yield from _own_rows_of(seen, ALIKE, group, some, alike)


def _own_rows_of(
    seen: Seen, test: str, files: Sequence[int], rows: Ints, cell: Ints
) -> Iterator[Link]:
    """Own rows in some files, of all columns and of each; in pairs that are alike of all."""
    made, cell = (*seen.made, *seen.ranks), np.unique(cell, return_inverse=True)[1]
    factors = TIMES if test == OWN else TIMES[:1]
    who = persons.each_or(seen.tables.of_person(0, rows), rows)
    for names in [made] + [(c,) for c in made if len(made) > 1]:
        for of, found, cells, fold in _own(
            *_features(seen, names, files, rows, len(files) > 1), cell, who, factors
        ):
            low = float(gammaincinv(found, SURE / 2)) if found else 0.0
            beyond, least = (max(k - cells, 0.0) / (1 - cells / of) for k in (found, low))
            p = float(gammainc(np.floor(found), cells)) if found >= 1 else 1.0  # of Poisson
            file = files[0] if len(files) == 1 else 0
            yield Link(test, file, names, of, found, cells, p, beyond * fold, least * fold)


def _features(
    seen: Seen, names: Sequence[str], files: Sequence[int], rows: Ints, shares: bool
) -> tuple[Points, Points]:
    """Columns of the original and the mean of some files: ranks, and codes or shares of levels."""
    codes: list[Sequence[Ints]] = []
    numbers: list[Sequence[Array]] = [[np.empty((len(rows), 0))] * 2]
    places = [rows, *(seen.row_of(l, rows) for l in files)]
    for name in names:
        amounts = seen.amounts(name, (0, *files))
        if (
            len(names) == 1 < len(files)
            and (mean := seen.mean(name, (0, *files), places)) is not None
        ):
            amounts, places = mean, [np.arange(len(rows))] * 2
        if amounts is not None:
            of_ranks = [part[at] for part, at in zip(amounts, places, strict=True)]
            lost = [np.isnan(part).astype(float) for part in of_ranks]
            full = [np.where(np.isnan(part), 1.0, part) for part in of_ranks]
            numbers += [full, lost] if np.any(lost) else [full]
            continue
        column = seen.column(name)
        parts = [column.codes[l][at] for l, at in zip((0, *files), places, strict=True)]
        if not shares:
            codes.append(parts)
            continue
        held = np.flatnonzero(np.bincount(np.concatenate(parts), minlength=column.size))
        numbers += [[(p == v) / np.sqrt(2) for p in parts] for v in held[:WIDE]]
    none = np.empty((len(rows), 0), np.int32)
    levels = [np.column_stack([none, *[c[k] for c in codes]]).astype(np.int32) for k in (0, 1)]
    y = np.column_stack([first for first, *_ in numbers])
    z = np.column_stack([np.mean(others, axis=0) for _, *others in numbers])
    return Points(levels[0], y), Points(levels[1], z)


def _own(
    y: Points, z: Points, cell: Ints, who: Ints, factors: Sequence[float]
) -> Iterator[persons.Own]:
    """Persons looked at, own rows that are nearest, and those by chance, in cells of some."""
    size = np.bincount(cell)
    of = np.flatnonzero(size[cell] > 1)
    if len(of) < LEAST:
        return
    every = np.random.default_rng(0).permutation(np.unique(who[of]))
    y, z = (Points(x.codes, np.column_stack([cell * APART, x.numbers])) for x in (y, z))
    own = ((z.numbers - y.numbers) ** 2).sum(axis=1) + (z.codes != y.codes).sum(axis=1)
    index = index_of(z)
    for most, some in ((MANY, factors[:1]), (LOOKED_AT, factors[1:])):
        looked_at = every[: max(1, most * len(every) // len(of))]
        rows = of[np.isin(who[of], looked_at)] if len(of) > most else of
        found = _by_factors(index, y.only(rows), (own[rows], who[rows], size[cell[rows]]), some)
        fold = max(1.0, len(of) / most)
        yield from (one._replace(fold=fold) for one in found if one.of >= LEAST)


def _by_factors(
    index: Index, asked: Points, of: tuple[Array, Ints, Ints], factors: Sequence[float]
) -> list[persons.Own]:
    """Own rows of some records by each factor; a search ends where another's is nearer."""
    if not factors:
        return []
    reach = max(factors) ** 2
    near = two_nearest(index, asked, limit=persons.bounds(*of[:2]), reach=reach)
    found = [persons.own_nearest(near, *of, times) for times in factors]
    if max(factors) > 1 and any(one.found for one in found):
        near = two_nearest(index, asked, reach=reach)
        found = [persons.own_nearest(near, *of, times) for times in factors]
    return found


def _alike(seen: Seen, files: Sequence[int], rows: Ints) -> Ints:
    """Pairs of records for which the files' values, given kept columns, are predicted alike.

    Predictions are made for records that were not used. A value that kept columns predict nearly
    for certain says nothing: those of which more than `FORETOLD` of the variance is explained are
    left out; alone is everybody if all are.
    """
    some = np.arange(len(rows))
    kept = [within_range([seen.values(name, 0)[rows]])[0] for name in seen.kept]
    made = (*seen.made, *seen.ranks)
    asked, known = _features(seen, made, files, rows, True)[1].numbers, np.column_stack(kept)
    known = np.where(np.isnan(known), np.nanmin(known, axis=0) - 1, known)
    if len(rows) > MANY:
        some = np.random.default_rng(0).choice(some, MANY, replace=False)
    shown, x, rng = asked[some], known[some], np.random.default_rng(0)
    parts = np.array_split(rng.permutation(len(some)), FOLDS)
    use = [np.setdiff1d(np.arange(len(some)), left) for left in parts]

    def guess(of: Array, predicted: Callable[[Array, Array, Array], Array]) -> Array:
        found = np.empty(of.shape)
        for kept_in, left in zip(use, parts, strict=True):
            found[left] = predicted(x[kept_in], of[kept_in], x[left])
        return found

    by_trees = partial(_of_trees, rng=rng)
    smoothly = guess(shown, _smoothly)
    found = [smoothly, guess(shown, by_trees), smoothly + guess(shown - smoothly, by_trees)]
    lost = np.array([((shown - one) ** 2).sum(axis=0) for one in found])
    predicted = np.choose(lost.argmin(axis=0), found)
    group = np.arange(len(rows)) + len(rows)  # alone
    left = ((asked[some] - predicted) ** 2).sum(axis=0)
    if (left >= (1 - FORETOLD) * ((asked - asked.mean(axis=0)) ** 2)[some].sum(axis=0)).all():
        group[some] = halved(predicted, GROUP)
    return np.asarray(np.unique(group, return_inverse=True)[1])


def _smoothly(x: Array, y: Array, at: Array) -> Array:
    """Ridge regression on columns and their products, standardised; its penalty by leaving one out.

    Of the singular values s of the columns a penalty a keeps w = s^2 / (s^2 + a); a residual with
    the record left out is the residual over 1 - 1/n - h, h the sum of w u^2.
    """
    n, p = x.shape
    both = [(i, j) for i in range(p) for j in range(i + 1)] if p <= WIDE else []
    Z = _standardised(np.concatenate([x, at]), n)
    Z = _standardised(np.column_stack([Z, *(Z[:, i] * Z[:, j] for i, j in both)]), n)
    U, s, V = np.linalg.svd(Z[:n], full_matrices=False)
    mean = y.mean(axis=0)
    along = U.T @ (y - mean)
    best, found = np.inf, np.zeros(along.shape)
    for penalty in PENALTIES:
        w = s**2 / (s**2 + penalty)
        left_out = (y - mean - U @ (w[:, None] * along)) / (1 - 1 / n - U**2 @ w)[:, None]
        if (loss := float((left_out**2).sum())) < best:
            best, found = loss, (s / (s**2 + penalty))[:, None] * along
    return np.asarray(mean + Z[n:] @ (V.T @ found))


def _standardised(x: Array, n: int) -> Array:
    """Columns by mean and deviation of the first n rows."""
    sd = x[:n].std(axis=0)
    return np.asarray((x - x[:n].mean(axis=0)) / np.where(sd > 1e-12, sd, 1.0))


def _of_trees(x: Array, y: Array, at: Array, rng: np.random.Generator) -> Array:
    """Mean of extremely randomised trees (Geurts, Ernst & Wehenkel 2006), of all columns each."""
    chance = rng.random((TREES, 2 * len(x) // SMALLEST + 1, x.shape[1]))
    return np.asarray(np.mean([_of_tree(x, y, at, u) for u in chance], axis=0))


@numba.njit(cache=True)
def _of_tree(x: Array, y: Array, at: Array, chance: Array) -> Array:
    """Predictions of a tree whose nodes cut each column by chance (K, p) and take the best cut."""
    (n, p), (K, q) = x.shape, (len(chance), y.shape[1])
    of, ends = np.arange(n), np.zeros((K, 2), np.int64)
    column, cut, child = np.full(K, -1), np.zeros(K), np.zeros(K, np.int64)
    mean, ends[0, 1], made, left = np.zeros((K, q)), n, 1, np.zeros(q)
    for k in range(K):
        if k == made:
            break
        rows = of[ends[k, 0] : ends[k, 1]]
        for i in rows:
            for c in range(q):
                mean[k, c] += y[i, c] / len(rows)
        best = -np.inf
        for j in range(p):
            low, high = x[rows, j].min(), x[rows, j].max()
            at_cut, size = low + chance[k, j] * (high - low), 0
            left[:] = 0.0
            for i in rows:
                if x[i, j] <= at_cut:
                    size += 1
                    for c in range(q):
                        left[c] += y[i, c] - mean[k, c]
            if min(size, len(rows) - size) >= SMALLEST:
                gain = (left**2).sum() * (1 / size + 1 / (len(rows) - size))
                if gain > best:
                    best, column[k], cut[k] = gain, j, at_cut
        if column[k] >= 0:
            below = x[rows, column[k]] <= cut[k]
            rows[:] = np.concatenate((rows[below], rows[~below]))
            child[k], middle = made, ends[k, 0] + below.sum()
            ends[made, 0], ends[made, 1] = ends[k, 0], middle
            ends[made + 1, 0], ends[made + 1, 1] = middle, ends[k, 1]
            made += 2
    found = np.empty((len(at), q))
    for r in range(len(at)):
        k = 0
        while column[k] >= 0:
            k = child[k] + (at[r, column[k]] > cut[k])
        found[r] = mean[k]
    return found
