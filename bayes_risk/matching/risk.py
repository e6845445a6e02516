"""Identification risk: can an intruder tell which released record is the target.

Exact keys are coded and numbered as cells; a key is compared as a number within a radius, or with
missing values that are no level. The intruder knows who is in the file, or what the population is
like. The mathematics and its derivation: ``docs/identification.md``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import (
    Cells,
    Matches,
    cell_codes,
    count_matches,
    jackknife_error,
    match_each,
    match_pooled,
    number_keys,
    pair_up,
)
from bayes_risk.release.release import SAME

from .boxes import Boxes, NumericKey, box_up, match_each_box, match_pooled_boxes
from .choices import Strategy, check_effects, checked_choices, claimed
from .exposure import exposure
from .input import (
    Key,
    Released,
    Targets,
    check_unchanged,
    checked_keys,
    checked_missing,
    checked_targets,
    level_key,
    reason_key,
    release_tables,
    source,
)
from .odds import Outsiders, check_sample, how_many_may_be, per_table
from .radii import Radius, checked_ends, checked_radius
from .replicates import Replicates, parts_of_draws, strata
from .result import IdentificationRisk

LAST = np.finfo(np.float64).max  # an end beyond the largest number is no end


class Compared(NamedTuple):
    """How a key is compared: as a number, by its level, or both (is it missing, and if not)."""

    key: NumericKey | None
    level: Key | None


def numeric_key(
    target: pd.Series,
    original: pd.Series,
    tables: Sequence[pd.DataFrame],
    radius: Radius,
    *,
    unsynthesized: bool,
    missing: str,
    closed: bool,
) -> Compared:
    """Compare a key as numbers: those of the targets with those of the releases.

    Released values have shape (m, n), or (1, n) if the key is unsynthesised.
    """
    name = str(original.name)
    column = _numbers(original, "the original", missing)
    y = _numbers(target, "the targets", missing)
    shown = [
        _numbers(table[original.name], source(l), missing)
        for l, table in enumerate(tables, start=1)
        if original.name in table or not unsynthesized
    ]
    if unsynthesized:
        for l, values in enumerate(shown, start=1):
            same = np.isclose(values, column, rtol=SAME, atol=0.0, equal_nan=True)
            check_unchanged(name, int((~same).sum()), len(column), source(l))
        shown = [column]
    present = column[~np.isnan(column)]
    if not len(present):
        raise InputError(f"key {name!r} is missing in every record of the original; leave it out")
    around = np.where(np.isnan(y), present[0], y)
    low, high = _finite(checked_ends(name, radius, around, present), around, closed)
    key = NumericKey(y, low, high, np.stack(shown))
    return _by_level(key) if missing == "level" else Compared(_by_rule(key, missing), None)


def _finite(ends: tuple[Array, Array], y: Array, closed: bool) -> tuple[Array, Array]:
    """Finite ends of closed intervals. Open ones end a number earlier, but not before y itself.

    The file's smallest value is the lower end of its own `Quantile`: it belongs to it all the same.
    """
    low, high = (np.clip(end, -LAST, LAST) for end in ends)
    if closed:
        return low, high
    point = low == high  # nothing is inside
    return (
        np.where((low < y) | point, np.nextafter(low, np.inf), low),
        np.where((high > y) | point, np.nextafter(high, -np.inf), high),
    )


def _by_level(key: NumericKey) -> Compared:
    """Missing values match each other: whether a value is missing becomes a key of its own."""
    lost, gone = np.isnan(key.y), np.isnan(key.value)
    if not lost.any() and not gone.any():
        return Compared(key, None)
    y, low, high = (np.where(lost, 0.0, x) for x in key[:3])
    level = Key(lost.astype(np.int64), gone.astype(np.int64), 2)
    return Compared(NumericKey(y, low, high, np.where(gone, 0.0, key.value)), level)


def _by_rule(key: NumericKey, missing: str) -> NumericKey:
    """Missing values match anything, or nothing."""
    y, low, high, value = key
    lost, wild = np.isnan(y), missing == "wildcard"
    reach = (-np.inf, np.inf) if wild else (np.inf, -np.inf)
    return NumericKey(
        np.where(lost, 0.0, y),
        np.where(lost, reach[0], low),
        np.where(lost, reach[1], high),
        value if wild else np.where(np.isnan(value), np.inf, value),
    )


def _numbers(column: pd.Series, where: str, missing: str) -> Array:
    dtype, is_a = column.dtype, pd.api.types
    if (
        not is_a.is_numeric_dtype(dtype)
        or is_a.is_bool_dtype(dtype)
        or is_a.is_complex_dtype(dtype)
    ):
        raise InputError(
            f"key {column.name!r} ({dtype}) of {where} holds no real numbers, which a radius "
            "needs; convert it (pandas.to_numeric), or leave it out of radius"
        )
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        raise InputError(
            f"key {column.name!r} of {where} has infinite values in {np.isinf(values).sum():,} of "
            f"{len(values):,} records, which lie within no radius; mend them, or cut the key into "
            "categories (pandas.cut) and leave it out of radius"
        )
    return values


class MatchingKeys(NamedTuple):
    """Keys of n_t targets and of n records in m releases.

    ``u``, ``z``: numbers of exact keys, shapes (n_t,) and (m, n), -1 where no target has it;
    ``u_us``, ``z_us``: those of the unsynthesised ones alone, (n_t,) and (1, n). ``numeric`` and
    ``numeric_us``: keys compared as numbers, all and the unsynthesised ones.
    """

    place: Ints
    u: Ints
    z: Ints
    u_us: Ints
    z_us: Ints
    numeric: Sequence[NumericKey]
    numeric_us: Sequence[NumericKey]

    @classmethod
    def from_tables(
        cls,
        original: pd.DataFrame,
        tables: Sequence[pd.DataFrame],
        sought: Targets,
        known: Sequence[str],
        synthesized: Sequence[str],
        radius: Mapping[str, Radius],
        *,
        missing: Mapping[str, str],
        closed: bool,
        also: Sequence[Key] = (),
    ) -> "MatchingKeys":
        """Code every key over the targets, the original and the releases.

        ``also``: further unsynthesised keys, already coded.
        """
        exact: dict[bool, list[Key]] = {True: [*also], False: []}  # by whether it is unsynthesised
        numeric: dict[bool, list[NumericKey]] = {True: [], False: []}
        for name in [*known, *synthesized]:
            us = name in known
            column, how = original[name], missing[name]
            target = column if sought.frame is original else sought.frame[name]
            if name in radius:
                within = radius[name]
                found = numeric_key(
                    *(target, column, tables, within), unsynthesized=us, missing=how, closed=closed
                )
            else:
                found = _level_key(name, target, column, tables, unsynthesized=us, missing=how)
            numeric[us] += [] if found.key is None else [found.key]
            exact[us] += [] if found.level is None else [found.level]
        place, m, n = sought.place, len(tables), len(original)
        known_code = _codes(exact[True], len(place), (1, n))
        cells, cell = np.unique(known_code, return_inverse=True)  # targets first, then records
        digits = Key(cell[: len(place)], cell[len(place) :], len(cells))
        code = _codes([digits, *exact[False]], len(place), (m, n))
        u, z = number_keys(code[: len(place)], code[len(place) :].reshape(m, n))
        u_us, z_us = number_keys(digits.target, digits.released.reshape(1, n))
        wide = [k._replace(value=np.broadcast_to(k.value, (m, n))) for k in numeric[True]]
        return cls(place, u, z, u_us, z_us, [*wide, *numeric[False]], numeric[True])

    def cells(self, *, fallback: bool, certain: bool, limit: float) -> Cells:
        """Each target's records by the unsynthesised keys alone."""
        if self.numeric_us:
            boxes = box_up(self.u_us, self.z_us, self.place, self.numeric_us, limit=limit)
            return Cells(boxes.N[0], boxes.own[0], fallback and certain, certain)
        number, z = self.u_us, self.z_us[0]
        size = np.bincount(z + 1, minlength=int(number.max()) + 2)[1:]
        own = (self.place >= 0) & (z[self.place] == number)
        return Cells(size[number], own, fallback and certain, certain)


def _codes(keys: Sequence[Key], n_targets: int, shape: tuple[int, int]) -> Ints:
    """Cell codes of targets, then of the released records, release after release."""
    m, n = shape
    digits = [
        np.append(key.target, np.broadcast_to(key.released, shape).reshape(-1)) for key in keys
    ]
    return cell_codes(digits, [key.n_levels for key in keys], shape=(n_targets + m * n,))


def _level_key(
    name: str,
    target: pd.Series,
    original: pd.Series,
    tables: Sequence[pd.DataFrame],
    *,
    unsynthesized: bool,
    missing: str,
) -> Compared:
    """A categorical key; a number if its missing values are there, and no level of their own."""
    key = level_key(name, target, original, tables, unsynthesized=unsynthesized)
    shown = [original] if unsynthesized else [table[name] for table in tables]
    lost, gone = target.isna().to_numpy(), np.stack([column.isna().to_numpy() for column in shown])
    if missing == "level" or not (lost.any() or gone.any()):
        return Compared(None, key)
    y = np.where(lost, np.nan, key.target)
    value = np.where(gone, np.nan, np.atleast_2d(key.released))
    return Compared(_by_rule(NumericKey(y, y, y, value), missing), None)


def identification_risk(
    original: pd.DataFrame,
    releases: Released | Replicates | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    known: Sequence[str],
    synthesized: Sequence[str],
    targets: Any = None,
    population: Outsiders = None,
    strategy: Strategy = "always",
    reason: Any = None,
    radius: Mapping[str, float | Radius] | None = None,
    shape: str = "box",
    closed: bool = True,
    missing: str | Mapping[str, str] = "level",
    fallback: bool = True,
) -> IdentificationRisk:
    r"""Compute the risk that an intruder who knows some columns finds a record in the release.

    The intruder holds the genuine values t of a target's keys. In release l he looks for records j
    that carry them; :math:`N_{t,l}` records do, of :math:`F_t` people of the population. Pooled
    over releases (Reiter & Mitra 2009; Drechsler & Reiter 2008, eq. 6 and 7)

    .. math:: \Pr(J = j \mid t, Z) = \frac1m \sum_{l=1}^m
              \min(1/F_t, 1/N_{t,l}) \, 1[j \text{ matches } t \text{ in } Z^{(l)}],

    and the rest is the probability that the target is not in the file, :math:`\Pr(J = n + 1)`.
    Who knows that the target is in the file has :math:`1/N_{t,l}` there, and no rest, matched or
    not.

    For target i, c_i records j attain the highest probability, T_i = 1 if the true record is one of
    them, K_i = 1 if c_i T_i = 1 and F_i = 1 if c_i (1 - T_i) = 1. Summaries (Hu 2019, eq. 21-23):
    expected match risk sum T/c, true match rate sum K/n, false match rate sum F/s with
    s = #{c_i = 1}.

    Parameters
    ----------
    original : DataFrame of n records
        The confidential file. Never changed.
    releases : Release, DataFrame, or list of m DataFrames; or Replicates
        The released files, with the original's records in the original's order, or with its index;
        made by whatever means: synthesis, swapping, noise, recoding. Files of a `Release` may leave
        out columns that were not synthesised. `Replicates` are the m tables that an intruder who
        knows the model draws; errors are then those between the releases they came from.
    known : list of str
        Unsynthesised columns that the intruder knows: he matches the target's values against the
        released ones, which must be the original's. May be empty.
    synthesized : list of str
        Changed columns whose genuine value the intruder knows of the target: it is matched against
        released values. May be empty, but not both.
    targets : list of labels, mask of n values, or DataFrame, optional
        Whom he looks for: all records (None), some of them, or the rows of a table with all keys:
        those whose index label is one of the original's are in the file, the others are not (rows
        that are merely numbered, in both tables, must be the original's first).
    population : Population, list of m of them, or array, optional
        None: he knows that his targets are in the file. Otherwise how many people of the population
        carry each target's exact keys: known, estimated from the original, or from each release in
        turn; as an array of shape (n_t,) or (m, n_t), above 0, in the targets' order, or a Series
        by label.
    strategy : {"always", "likeliest"} or float
        When he claims a match (Drechsler & Reiter 2008, section 4.3): always; unless the target is
        likelier outside the file than any record; if it is outside with a probability below a
        number. Without a population he always claims one.
    reason : mask of n values, or function, optional
        The reason why records were chosen for synthesis (R), where he knows it: which records were,
        or a function that tells it of the rows of a DataFrame. He then looks for a target only
        among records that were chosen as it would be.
    radius : dict of str to float or Radius, optional
        How near numbers must come: ``{"income": 0.1}`` lets record j match if
        :math:`|Z_j - y_i| \le 0.1 |y_i|`; or `Absolute`, `SD`, `Quantile`. Every key that is not
        named matches exactly.
    shape : {"box", "ellipse"}
        With several radii: each must hold, or the squared distances, each in units of its radius,
        must add up to 1 at most (to less, if ends are left out).
    closed : bool
        Whether the ends of the intervals belong to them, as Hornby & Hu (2021) define; their
        package leaves them out, so that a radius of 0 matches nothing.
    missing : {"level", "wildcard", "never"}, or dict of str to one of them
        Missing values of a key match missing ones only; match everything, theirs or the target's;
        or match nothing.
    fallback : bool
        What an intruder who knows that the target is in the file does when no record of release l
        has its full key. True (Reiter & Mitra 2009; Drechsler & Reiter 2008): he chooses among the
        :math:`N_{us}` records that share the known keys, so each gets :math:`1/N_{us}`, all n
        records if ``known`` is empty. False (Hornby & Hu 2021): he gives up, and the record adds
        nothing. With a population he takes the target to be outside.

    Returns
    -------
    IdentificationRisk
        Per release and pooled; expected match risk lies between 0 and n_t, large is bad.

    Raises
    ------
    InputError
        A choice that changes nothing (a strategy without a population, an ellipse without two
        radii, open ends without a radius);
        no release (m = 0); no key; a column that is missing, repeated or in both lists; a key
        listed against what the `Release` says was synthesised; a known column whose released values
        differ from the original's (list it under ``synthesized``); records that do not correspond
        (give both tables one index); unknown targets; a numeric key of more than 1,000 values (give
        it a radius, cut it into categories, or declare it a code with ``astype("category")``); a
        key stored as text here and as numbers there (make it one type); a radius that is negative
        or infinite, or is given to a key that holds no numbers or infinite ones; population counts
        that do not belong to the keys, or differ between targets with the same keys.

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
    A continuous column that was not synthesised may have a radius too; the records whose known keys
    lie within reach are then those of fallback and baseline.

    *Conventions.* Where nothing matches: with the fallback c = N_us, T = 1; without it c = T = 0
    and T/c is 0. Ties are exact, for keys of fewer than 2^31 records: probabilities are compared
    as fractions, not as floating-point numbers.

    *Cost.* O(m n log n) time and O(m n) memory: keys become integers, are sorted and counted. The
    error of the pooled risk adds O(m^2 n) time. With one radius the same, by windows that slide
    over the sorted values; with more, about as many records are looked at as match, or share the
    two narrowest keys.

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
    found = matched(**locals())  # all arguments as they came
    if isinstance(releases, Replicates):
        return found
    return replace(found, exposure=exposure(original, releases, keys=[*known, *synthesized]))


def matched(
    original: pd.DataFrame,
    releases: Released | Replicates | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    known: Sequence[str],
    synthesized: Sequence[str],
    targets: Any = None,
    population: Outsiders = None,
    strategy: Strategy = "always",
    reason: Any = None,
    radius: Mapping[str, float | Radius] | None = None,
    shape: str = "box",
    closed: bool = True,
    missing: str | Mapping[str, str] = "level",
    fallback: bool = True,
) -> IdentificationRisk:
    """Compute `identification_risk` without what the files show by themselves."""
    choices = checked_choices(strategy, shape, closed, fallback)
    known, synthesized = checked_keys(original, known, synthesized)
    keys = [*known, *synthesized]
    within, lost = checked_radius(radius, keys), checked_missing(missing, keys)
    check_effects(choices, population=population is not None, n_radii=len(within))
    tables = release_tables(original, releases, known, synthesized)
    sought = checked_targets(original, targets, keys)
    coded = MatchingKeys.from_tables(
        *(original, tables, sought, known, synthesized, within),
        missing=lost,
        closed=closed,
        also=reason_key(reason, original, sought),
    )
    cells = coded.cells(fallback=fallback, certain=population is None, limit=choices.limit)
    task = MatchingTask.from_keys(coded, cells, limit=choices.limit)
    release_of = np.array(releases.release_of) if isinstance(releases, Replicates) else None
    population = per_table(population, release_of)
    check_sample(population, original)
    odds = how_many_may_be(population, sought.frame, task.N, keys, within)
    found = task.matches(odds.D)
    each, claims = (claimed(next(found), choices.strategy) for _ in range(2))
    return IdentificationRisk(
        index=sought.labels,
        known=tuple(known),
        synthesized=tuple(synthesized),
        radius=within,
        shape=shape,
        closed=closed,
        missing={name: how for name, how in lost.items() if how != "level"},
        fallback=cells.used,
        population=odds.words,
        estimated=odds.estimated,
        strategy=choices.strategy,
        in_file=sought.place >= 0,
        **_arrays(each, claims),
        reason=reason is not None,
        baseline=np.where(cells.own, 1 / np.maximum(cells.size, 1), 0.0),
        release_of=release_of,
        pooled_mcse=_jackknife(
            found if release_of is None else task.without_each(strata(release_of), odds.D),
            choices.strategy,
        ),
        pooled_draws_mcse=_jackknife(
            [] if release_of is None else task.without_each(parts_of_draws(release_of), odds.D),
            choices.strategy,
        ),
    )


def _arrays(each: Matches, pooled: Matches) -> dict[str, Any]:
    """Name the arrays of the result: (n_t, m) per release, (n_t,) pooled."""
    names = ("c", "T", "K", "F", "no_match", "outside")
    by_release = {name: getattr(each, name).T for name in names}
    return by_release | {f"pooled_{name}": getattr(pooled, name) for name in names}


def _jackknife(left_out: Iterable[Matches], strategy: Strategy) -> float:
    """Error of the pooled expected match risk, from what is matched without each part; or NaN."""
    expected = [float(claimed(found, strategy).probability.sum()) for found in left_out]
    return jackknife_error(np.array(expected)) if expected else float("nan")


class MatchingTask(NamedTuple):
    """Keys, what to go by where nothing matches, match counts N (m, n_t), and boxes if any.

    ``limit``: how far squared distances may add up (`bayes_risk.matching.boxes.Boxes`).
    """

    keys: MatchingKeys
    cells: Cells
    limit: float
    boxes: Boxes | None
    N: Ints

    @classmethod
    def from_keys(cls, keys: MatchingKeys, cells: Cells, *, limit: float) -> "MatchingTask":
        """Count the matches."""
        if not keys.numeric:
            N = count_matches(keys.z, int(keys.u.max()) + 1)[:, keys.u]
            return cls(keys, cells, limit, None, N)
        boxes = box_up(keys.u, keys.z, keys.place, keys.numeric, limit=limit)
        return cls(keys, cells, limit, boxes, boxes.N)

    def matches(self, D: Array) -> Iterator[Matches]:
        """Match in each release; pooled; and, for m > 2, pooled without each of them."""
        u, z, place = self.keys.u, self.keys.z, self.keys.place
        if self.boxes is not None:
            each = match_each_box(self.boxes, D, self.cells)
            yield each
            yield from match_pooled_boxes(self.boxes, D, each, self.cells)
            return
        by_key = _by_key(D, u)
        each = match_each(u, z, place, by_key, self.cells)
        pool = partial(match_pooled, pair_up(u, z, by_key, place=place), u, each, self.cells)
        yield each
        yield pool()
        yield from (pool(without=l) for l in range(len(z)) if len(z) > 2)

    def without_each(self, parts: Sequence[Ints], D: Array) -> Iterator[Matches]:
        """Match pooled over the tables, each part left out in turn; of one part nothing."""
        for part in parts if len(parts) > 1 else []:
            kept = np.setdiff1d(np.arange(len(D)), part)
            numeric = [key._replace(value=key.value[kept]) for key in self.keys.numeric]
            keys = self.keys._replace(z=self.keys.z[kept], numeric=numeric)
            found = MatchingTask.from_keys(keys, self.cells, limit=self.limit).matches(D[kept])
            next(found)  # in each release
            yield next(found)


def _by_key(D: Array, u: Ints) -> Array:
    """D of every key, (m, U), from those of its targets."""
    _, first = np.unique(u, return_index=True)
    of_key: Array = D[:, first]
    if (of_key[:, u] != D).any():
        raise InputError(
            "population gives different counts to targets with the same keys; count people by all "
            "keys, or name the column that tells them apart under known"
        )
    return of_key
