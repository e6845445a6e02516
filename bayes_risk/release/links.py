"""What files show of single persons beyond chance: nearest pairs and own rows.

Both tests ask one question, whether a file knows persons of the original, and answer it without a
model. What is judged: ``docs/reading-the-numbers.md``.

*Nearest pairs.* Pool the n original and N released records, with densities a and b around a point.
If the file was drawn without knowledge of the persons, two records that are each other's nearest
are one of each with probability 2ab/(a + b)^2 <= 1/2, *whatever the densities* (among n and N
records with equal kept values 2nN/((n + N)(n + N - 1)), if larger). K pairs of which F are mixed
show about 2F - K persons.

*Own rows.* If rows with equal kept values could stand in any order, the row nearest to a record is
its own once per cell, with variance at most 1.

*Single persons.* Among equal amounts that one person of either table has, as many agree in other
columns as among nearly equal amounts (Fisher's test).
"""

from collections.abc import Sequence

import pandas as pd

from bayes_risk.data.microdata import Microdata

from .links_result import Links
from .own_rows import own_rows
from .pairs import equal_pairs
from .seen import Seen
from .single import single_persons
from .tables import Released, Tables, tables_with_release


def links(
    original: pd.DataFrame | Microdata | Tables,
    release: Released | pd.DataFrame | Sequence[pd.DataFrame] | None = None,
    *,
    keys: Sequence[str] = (),
    corresponds: bool | None = None,
    person: str | None = None,
) -> Links:
    r"""Test whether released files show persons of the original beyond chance, without a model.

    *Nearest pairs.* Put the n records of the original and the N of a file together. Two records
    that are each other's nearest are one of each table with probability
    :math:`2ab/(a+b)^2 \le 1/2`, if the file was drawn without knowledge of these persons at
    density b where the original's is a. Equal records count where exactly two are equal.

    *Own rows.* If row i is record i, and rows could as well stand in any order among those with
    the same kept values, the released row that is nearest to a record is its own once a cell.

    Parameters
    ----------
    original : DataFrame or Microdata, n records
        The confidential file.
    release : Release, DataFrame, or list of m DataFrames
        The released files.
    keys : list of str
        Columns that an intruder knows: tested on their own besides.
    corresponds : bool, optional
        Whether row i of a file is record i; by default where it has as many and the same index.
    person : str, optional
        The column that names persons, as of `exposure`: each counts once.

    Returns
    -------
    Links
        Tests, with the number of persons that each sees beyond chance; facts of columns.

    Raises
    ------
    InputError
        As of `exposure`.

    See Also
    --------
    exposure : Counts of equal records and values.

    Notes
    -----
    *Assumptions.* Densities are about the same at the two records of a pair. Within cells of kept
    columns, of n and N records, the bound is :math:`2nN/((n+N)(n+N-1))` where this is larger. Where
    kept values are nearly all different, own rows are tested in pairs of records of which trees,
    grown on other records, predict like values; ``by_chance`` is approximate there.

    *Single persons.* An amount that one person has in either table may be equal by chance. Of K
    such pairs F agree in the other columns (amounts by tenths; all, or all but one), or are the
    same row. Pairs of nearly equal amounts, the next N/20 (3 to 100) on either side, are R, of
    which k agree. If the file knows no person, and columns change little over so many neighbours,
    the K are as any of the K + R: Fisher's exact test, for one pair ``p >= 1/(R + 1)``. Amounts
    that the first explains are left out. Values computed from others agree in pairs of one table
    too, which are compared then. Columns of mostly the original's values (donors') are not tested.

    *Largest amounts*, the 1 and 20 of all, and that of each level of a column. Assumed: equal
    values are no more frequent there than among others as round. With R others, of which none is
    equal, the largest is so with probability ``1/(R + 1)``, times the share that agrees if its
    record agrees too. Where amounts are cut off, a level's is one of each table in half of all
    cases at most. Not seen: one copy in the middle of a file; few copies of categories alone, of
    which exchangeability claims no more than ``2^-K``.

    *Several tests.* Each is made on all columns, on all but one, on single amounts, on every two of
    at most eight amounts (nearest pairs) and on the keys;
    p-values are multiplied by the number of tests (Bonferroni).

    *Cost.* Time O(m p n log n) for p columns; nearest records are looked up for 2,000 records a
    test at most, and whether own rows are nearest for 5,000. Memory O(n p).

    References
    ----------
    Henze, N. (1988). A multivariate two-sample test based on the number of nearest neighbor type
    coincidences. Annals of Statistics 16, 772-783.
    """
    read = (
        original
        if isinstance(original, Tables)
        else tables_with_release(original, release, corresponds)
    )
    tables = read.by_person(person)
    seen = Seen(tables)
    kinds = equal_pairs(seen, keys), single_persons(seen), own_rows(seen)
    tests = [one for kind in kinds for one in kind] if seen.made or seen.ranks else []
    adjusted = [one._replace(p=min(1.0, one.p * len(tests))) for one in tests]
    return Links(
        n=tables.n_persons,
        m=tables.m,
        made=(*seen.made, *seen.ranks),
        tests=tuple(sorted(adjusted, key=lambda one: (one.p, -one.low))),
        unchanged={name: seen.alone(name) for name in seen.kept},
        alone_together=seen.alone_together(),
        outside=tables.outside(),
        copies=seen.copies() if tables.frames else {},
        identifiers=seen.named,
    )
