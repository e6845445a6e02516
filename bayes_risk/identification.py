"""Identification risk: can an intruder tell which released record is the target.

Keys match exactly, synthesised numbers on request within a radius. The mathematics and its
derivation: ``docs/identification.md``.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.boxes import NumericKey, box_up, match_each_box, match_pooled_boxes
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import (
    Matches,
    cell_codes,
    cell_sizes,
    jackknife_error,
    match_each,
    match_pooled,
    number_keys,
    pair_up,
)
from bayes_risk._core.validate import known_columns
from bayes_risk.identification_keys import (
    Key,
    checked_radius,
    coded,
    numeric_key,
    source,
    unsynthesized_key,
)
from bayes_risk.identification_result import IdentificationRisk
from bayes_risk.microdata import same_records

Ids = npt.NDArray[np.int64]


@runtime_checkable
class Released(Protocol):
    """What is asked of a release: its m tables, and which columns were synthesised."""

    @property
    def datasets(self) -> Sequence[pd.DataFrame]:
        """The m released tables."""

    @property
    def synthesized(self) -> Sequence[str]:
        """Names of the synthesised columns."""


def identification_risk(
    original: pd.DataFrame,
    releases: Released | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    known: Sequence[str],
    synthesized: Sequence[str],
    radius: Mapping[str, float] | None = None,
    fallback: bool = True,
) -> IdentificationRisk:
    r"""Compute the risk that an intruder who knows some columns finds a record in the release.

    The intruder knows that the target is in the file, and holds its genuine values t of the keys.
    In release l he looks for records j that carry them; :math:`N_{t,l}` records do. Pooled over
    releases (Reiter & Mitra 2009; Drechsler & Reiter 2008, eq. 6)

    .. math:: \Pr(J = j \mid t, Z) = \frac1m \sum_{l=1}^m
              \frac{1[j \text{ matches } t \text{ in } Z^{(l)}]}{N_{t,l}}.

    For target i, c_i records j attain the highest probability, T_i = 1 if the true record is one of
    them, K_i = 1 if c_i T_i = 1 and F_i = 1 if c_i (1 - T_i) = 1. Summaries (Hu 2019, eq. 21-23):
    expected match risk sum T/c, true match rate sum K/n, false match rate sum F/s with
    s = #{c_i = 1}.

    Parameters
    ----------
    original : DataFrame of n records
        The confidential file. Never changed.
    releases : Release, DataFrame, or list of m DataFrames
        The released files, with the original's records in the original's order, or with its index.
        Files of a `Release` may leave out columns that were not synthesised.
    known : list of str
        Unsynthesised columns that the intruder knows: he matches the target's values against the
        released ones, which must be the original's. May be empty.
    synthesized : list of str
        Synthesised columns whose genuine value the intruder knows of the target: it is matched
        against released, synthetic values. May be empty, but not both.
    radius : dict of str to float, optional
        Relative radius r of synthesised numeric keys: ``{"income": 0.1}`` lets record j match if
        :math:`|Z_j - y_i| \le r |y_i|`, ends inside. With several, all must hold (a box). Every
        key that is not named matches exactly.
    fallback : bool
        What an intruder does when no record of release l has the target's full key. True (Reiter &
        Mitra 2009; Drechsler & Reiter 2008): he chooses among the :math:`N_{us}` records that share
        the known keys, so each gets :math:`1/N_{us}`, all n records if ``known`` is empty. False
        (Hornby & Hu 2021): he gives up, and the record adds nothing.

    Returns
    -------
    IdentificationRisk
        Per release and pooled; expected match risk lies between 0 and n, large is bad.

    Raises
    ------
    InputError
        No release (m = 0); no key; a column that is missing, repeated or in both lists; a key
        listed against what the `Release` says was synthesised; a known column whose released values
        differ from the original's (list it under ``synthesized``); records that do not correspond
        (give both tables one index); a numeric key of more than 1,000 values (give it a radius, cut
        it into categories, or declare it a code with ``astype("category")``); a key stored as text
        here and as numbers there (make it one type); a radius that is negative or infinite, or is
        given to a key that is not under ``synthesized``, holds no numbers, or has missing or
        infinite values (fill them in, or cut the key into categories).

    See Also
    --------
    IdentificationRisk : What comes back: summaries, records, errors.

    Notes
    -----
    *Two definitions are published, and they differ much.* Hornby & Hu (2021) compute c, T, K, F in
    each release and average over releases (row ``mean``). Reiter & Mitra (2009) pool the
    probabilities over releases first and take the maximum then (row ``pooled``): a record that
    matches in more releases than the others stands out, which makes many more single matches, true
    ones and false ones. The first speaks of an intruder who uses one release, the second of one
    who uses all. Both are reported; for m = 1 they agree.

    *True match rate* is per record, sum K / n (Hu 2019; Hornby & Hu 2021). Drechsler & Reiter
    (2008) divide by s instead; that is one minus our false match rate.

    *Radius.* The ends ``y - r |y|`` and ``y + r |y|`` are floating-point numbers and belong to the
    interval, which at y = 0 or r = 0 is the value itself. Hornby & Hu (2021) write the same
    interval for y > 0; their package leaves the ends out, so r = 0 and y <= 0 match nothing there.
    A continuous column that the intruder knows and that was not synthesised is matched exactly, or,
    in plain DataFrames, within a radius if it is listed under ``synthesized``: then it does not
    count among the known keys of fallback and baseline.

    *Conventions.* Missing values are a level of their own: missing matches missing only. Where
    nothing matches: with the fallback c = N_us, T = 1; without it c = T = 0 and T/c is 0. Ties are
    exact: probabilities are compared as fractions, not as floating-point numbers.

    *Cost.* O(m n log n) time and O(m n) memory: keys become integers, are sorted and counted. The
    error of the pooled risk adds O(m^2 n) time. With one radius the same, by windows that slide
    over the sorted values; with more, every record in the narrowest key's window is looked at.

    References
    ----------
    Reiter, J. P. and Mitra, R. (2009). Estimating risks of identification disclosure in partially
    synthetic data. Journal of Privacy and Confidentiality 1, 99-110.
    Drechsler, J. and Reiter, J. P. (2008). Accounting for intruder uncertainty due to sampling when
    estimating identification disclosure risks in partially synthetic data. PSD 2008, 227-238.
    Hornby, R. and Hu, J. (2021). Identification risks evaluation of partially synthetic data with
    the IdentificationRiskCalculation R package. Transactions on Data Privacy 14, 37-52.
    Hu, J. (2019). Bayesian estimation of attribute and identification disclosure risks in
    synthetic data. Transactions on Data Privacy 12, 61-89.

    Examples
    --------
    >>> import pandas as pd
    >>> original = pd.DataFrame({"sex": list("ffmm"), "job": list("abab")})
    >>> synthetic = pd.DataFrame({"sex": list("ffmm"), "job": list("abbb")})
    >>> risk = identification_risk(original, synthetic, known=["sex"], synthesized=["job"])
    >>> risk.records["probability"].tolist()
    [1.0, 1.0, 0.5, 0.5]
    >>> float(risk.summary().loc["pooled", "expected_match_risk"]), float(risk.baseline.sum())
    (3.0, 2.0)
    """
    if not isinstance(fallback, bool):
        raise InputError(f"fallback={fallback!r} is not a truth value; give True or False")
    known, synthesized = _checked_keys(original, known, synthesized)
    within = checked_radius(radius, synthesized)
    tables = _release_tables(original, releases, known, synthesized)
    us = [unsynthesized_key(name, original, tables) for name in known]
    columns = {name: [original[name], *(table[name] for table in tables)] for name in synthesized}
    s = [coded(name, columns[name]) for name in synthesized if name not in within]
    numeric = [numeric_key(name, columns[name], r) for name, r in within.items()]
    u, z, n_us = _numbered(us, s, m=len(tables), n=len(original))
    each, pooled, *left_out = _matched(u, z, numeric, n_us, fallback)
    return IdentificationRisk(
        index=original.index,
        known=tuple(known),
        synthesized=tuple(synthesized),
        radius=within,
        fallback=fallback,
        **_arrays(each, pooled),
        baseline=1 / n_us,
        pooled_mcse=_pooled_error(left_out),
    )


def _matched(
    u: Ids, z: Ids, numeric: Sequence[NumericKey], n_us: Ids, fallback: bool
) -> list[Matches]:
    """Match in each release; pooled; and, for m > 2, pooled without each of them."""
    if numeric:
        boxes = box_up(u, z, numeric)
        each = match_each_box(boxes, n_us, fallback=fallback)
        return [each, *match_pooled_boxes(boxes, n_us, fallback=fallback)]
    each = match_each(u, z, n_us, fallback=fallback)
    pool = partial(match_pooled, pair_up(u, z), u, n_us, fallback=fallback)
    return [each, pool(), *(pool(without=l) for l in range(len(z)) if len(z) > 2)]


def _arrays(each: Matches, pooled: Matches) -> dict[str, Any]:
    """Name the arrays of the result: (n, m) per release, (n,) pooled."""
    names = ("c", "T", "K", "F", "no_match")
    by_release = {name: getattr(each, name).T for name in names}
    return by_release | {f"pooled_{name}": getattr(pooled, name) for name in names}


def _pooled_error(left_out: Sequence[Matches]) -> float:
    """Jackknife the pooled expected match risk over releases; NaN below three of them."""
    if not left_out:
        return float("nan")
    return jackknife_error(np.array([found.probability.sum() for found in left_out]))


def _numbered(us: Sequence[Key], s: Sequence[Key], *, m: int, n: int) -> tuple[Ids, Ids, Ids]:
    """Assign numbers to target keys (n,) and released keys (m, n); measure the us-cells (n,)."""
    us_code = cell_codes([k.codes[0] for k in us], [k.n_levels for k in us], shape=(n,))
    cells, us_cell = np.unique(us_code, return_inverse=True)
    code = cell_codes(
        [us_cell, *(k.codes for k in s)], [len(cells), *(k.n_levels for k in s)], shape=(m + 1, n)
    )
    u, z = number_keys(code[0], code[1:])
    return u, z, cell_sizes(us_cell)


def _checked_keys(
    original: pd.DataFrame, known: Sequence[str], synthesized: Sequence[str]
) -> tuple[list[str], list[str]]:
    if not isinstance(original, pd.DataFrame):
        raise InputError(f"original is a {type(original).__name__}; give a pandas DataFrame")
    if not len(original):
        raise InputError("original has no records; give at least one")
    if not original.index.is_unique:
        raise InputError(
            "the index of the original names some records twice; give each record its own label "
            "(reset_index(drop=True))"
        )
    known = known_columns("known", known, list(original.columns))
    synthesized = known_columns("synthesized", synthesized, list(original.columns))
    both = [column for column in known if column in synthesized]
    if both:
        raise InputError(
            f"{both} stand under both known and synthesized; a column is either synthesised or not"
        )
    if not known and not synthesized:
        raise InputError("known and synthesized are both empty; name at least one key column")
    return known, synthesized


def _release_tables(
    original: pd.DataFrame, releases: Any, known: list[str], synthesized: list[str]
) -> list[pd.DataFrame]:
    """Put the m released tables in the original's order, every key there exactly once."""
    declared = not isinstance(releases, pd.DataFrame) and isinstance(releases, Released)
    if declared:
        _agree(list(releases.synthesized), known, synthesized)
    tables = _listed(releases.datasets if declared else releases)
    ordered = []
    for l, table in enumerate(tables, start=1):
        absent = [c for c in known + synthesized if c not in table.columns]
        if declared:  # a Release may leave out what it did not synthesise
            absent = [c for c in absent if c in synthesized]
        if absent:
            raise InputError(
                f"release {l} lacks column {absent[0]!r}; it has {list(table.columns)}. Leave the "
                f"key out, or wrap files that hold only the synthesised columns in a Release"
            )
        ordered.append(same_records(original.index, table, f"release {l}"))
    _columns_once([original, *ordered], known + synthesized)
    return ordered


def _listed(releases: Any) -> list[pd.DataFrame]:
    tables = [releases] if isinstance(releases, pd.DataFrame) else releases
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise InputError(
            f"releases is a {type(releases).__name__}; give a Release, a DataFrame or a list of "
            f"DataFrames"
        )
    if not len(tables):
        raise InputError("releases is empty (m = 0); give at least one released file")
    for l, table in enumerate(tables, start=1):
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"release {l} is a {type(table).__name__}; give a pandas DataFrame")
    return list(tables)


def _agree(declared: list[str], known: list[str], synthesized: list[str]) -> None:
    """Check that the keys are listed as the release says they were synthesised."""
    for column in synthesized:
        if column not in declared:
            raise InputError(
                f"synthesized names {column!r}, which the release did not synthesise (it did "
                f"{declared}); put it under known="
            )
    for column in known:
        if column in declared:
            raise InputError(
                f"known names {column!r}, which the release synthesised; put it under synthesized="
            )


def _columns_once(tables: Sequence[pd.DataFrame], keys: Sequence[str]) -> None:
    for l, table in enumerate(tables):
        repeated = set(table.columns[table.columns.duplicated()])
        for column in keys:
            if column in repeated:
                raise InputError(
                    f"{source(l)} has column {column!r} more than once; rename or drop one"
                )
