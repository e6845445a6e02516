"""Own rows: rows of a file that are nearest to their own record, among those kept alike.

Where row i of a file is record i, it shows nothing of the record beyond the kept columns if the
rows could stand in any order among those with the same kept values. Then the row that is nearest
to a record is its own in one case per cell, with a variance of at most one.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

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
TREES = 15
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
            missing = [np.isnan(part).astype(float) for part in of_ranks]
            full = [np.where(np.isnan(part), 1.0, part) for part in of_ranks]
            numbers += [full, missing] if np.any(missing) else [full]
            continue
        column = seen.column(name)
        parts = [column.codes[l][at] for l, at in zip((0, *files), places, strict=True)]
        if not shares:
            codes.append(parts)
            continue
        occurring = np.flatnonzero(np.bincount(np.concatenate(parts), minlength=column.size))
        numbers += [[(p == v) / np.sqrt(2) for p in parts] for v in occurring[:WIDE]]
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
    index: Index, query: Points, of: tuple[Array, Ints, Ints], factors: Sequence[float]
) -> list[persons.Own]:
    """Own rows of some records by each factor; a search ends where another's is nearer."""
    if not factors:
        return []
    reach = max(factors) ** 2
    near = two_nearest(index, query, limit=persons.bounds(*of[:2]), reach=reach)
    found = [persons.own_nearest(near, *of, times) for times in factors]
    if max(factors) > 1 and any(one.found for one in found):
        near = two_nearest(index, query, reach=reach)
        found = [persons.own_nearest(near, *of, times) for times in factors]
    return found


def _alike(seen: Seen, files: Sequence[int], rows: Ints) -> Ints:
    """Pairs of records for which the files' values, given kept columns, are predicted alike.

    Predictions are made for records that were not used. A value that kept columns predict nearly
    for certain says nothing: those of which more than `FORETOLD` of the variance is explained are
    left out; alone is everybody if all are.
    """
    from sklearn import config_context
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    from sklearn.tree import ExtraTreeRegressor

    some = np.arange(len(rows))
    kept = [within_range([seen.values(name, 0)[rows]])[0] for name in seen.kept]
    made = (*seen.made, *seen.ranks)
    numbers, known = _features(seen, made, files, rows, True)[1].numbers, np.column_stack(kept)
    known = np.where(np.isnan(known), np.nanmin(known, axis=0) - 1, known)
    if len(rows) > MANY:
        some = np.random.default_rng(0).choice(some, MANY, replace=False)
    smooth = make_pipeline(
        StandardScaler(), PolynomialFeatures(2 if len(kept) <= WIDE else 1), StandardScaler(),
        RidgeCV(np.logspace(-3, 4, 8)),
    )  # fmt: skip
    trees = [ExtraTreeRegressor(min_samples_leaf=5, random_state=k) for k in range(TREES)]
    folds = [*KFold(5, shuffle=True, random_state=0).split(some)]
    shown = numbers[some]

    def guess(models: Sequence[Any], x: Array, of: Array, **how: bool) -> Array:
        found = np.empty(of.shape)
        for use, left in folds:
            a, b, y = x[use], x[left], of[use]
            every = [m.fit(a, y, **how).predict(b, **how) for m in models]
            found[left] = np.mean(every, axis=0).reshape(len(left), -1)
        return found

    by_trees = partial(guess, trees, known[some].astype(np.single), check_input=False)
    with config_context(assume_finite=True, skip_parameter_validation=True):
        smoothly = guess([smooth], known[some], shown)
        found = [smoothly, by_trees(shown), smoothly + by_trees(shown - smoothly)]
    losses = np.array([((shown - one) ** 2).sum(axis=0) for one in found])
    predicted = np.choose(losses.argmin(axis=0), found)
    group = np.arange(len(rows)) + len(rows)  # alone
    left = ((numbers[some] - predicted) ** 2).sum(axis=0)
    if (left >= (1 - FORETOLD) * ((numbers - numbers.mean(axis=0)) ** 2)[some].sum(axis=0)).all():
        group[some] = halved(predicted, GROUP)
    return np.asarray(np.unique(group, return_inverse=True)[1])
