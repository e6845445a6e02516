"""Identification risk: can an intruder tell which released record is the target.

Exact keys are coded and numbered as cells; a key is compared as a number within a radius, or with
missing values that are no level. The intruder knows who is in the file, or what the population is
like. The mathematics and its derivation: ``docs/identification.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array
from bayes_risk._core.checkpoint import begin_work
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Combinations, number_keys
from bayes_risk._core.validate import is_number, one_of
from bayes_risk.data.equality import Coded
from bayes_risk.data.groups import By
from bayes_risk.data.precision import shortest
from bayes_risk.data.variables import TO_NUMBERS, is_numeric
from bayes_risk.release.exposure import exposure_of_tables
from bayes_risk.release.tables import Released, Tables, together

from .boxes import Boxes, NumericKey, OwnRows
from .found import Choices, KeySet, found_by
from .input import (
    Key,
    MatchTargets,
    check_discrete,
    checked_flag,
    checked_keys,
    checked_targets,
    missing_by_key,
    persons_sought,
    reason_key,
    release_tables,
    rows_correspond,
)
from .odds import Odds, Outsiders, check_sample, how_many_may_be, per_table
from .radii import Radius, checked_ends, checked_radius
from .replicates import Replicates
from .result import NOBODYS, IdentificationRisk, MatchCounts, Matched, Strategy

SINGLE = ("float32", "float16", "float[pyarrow]", "halffloat[pyarrow]")

# how a key is compared: as a number, by its level, or both (is it missing, and if not)
Compared = tuple[NumericKey | None, Key | None]


def compared_keys(
    name: str,
    tables: Tables,
    files: Sequence[int],
    sought: MatchTargets,
    rules: Choices,
    unsynthesized: bool,
) -> Compared:
    """One key of the targets, and of releases (m, n), or of the original (1, n) if it was kept."""
    within, missing = rules.radius.get(name), rules.missing[name]
    if unsynthesized:
        tables.check_kept(name)
    if within is None:
        codes = coded_key(name, tables)
        parts: Sequence[Any] = codes.codes
    else:
        parts = _numbers(name, tables)
    column, shown = parts[0], [parts[l] for l in files]
    y = parts[-1] if sought.outside else column[sought.place]
    value = column[None] if unsynthesized else np.stack(shown)
    if within is None:
        y_missing, gone = y == 0, value == 0
        if missing == "level" or not (y_missing.any() or gone.any()):
            return None, Key(y, value, codes.size)
        y, value = np.where(y_missing, np.nan, y), np.where(gone, np.nan, value)
        return _with_missing(NumericKey(y, y, y, value), missing)
    present = column[~np.isnan(column)]
    if not len(present):
        raise InputError(f"key {name!r} is missing in every record of the original; leave it out")
    around = np.where(np.isnan(y), present[0], y)
    low, high = checked_ends(name, within, around, present, rules.closed)
    return _with_missing(NumericKey(y, low, high, value), missing)


def coded_key(name: str, tables: Tables) -> Coded:
    """A key that matches exactly, coded in every table."""
    codes = tables.column(name)
    for l, frame in enumerate(tables.frames):
        if name in frame:
            check_discrete(name, frame[name], codes.n_values[l], f" of {tables.places[l]}")
    if codes.refusal:
        raise InputError(codes.refusal)
    return codes


def _with_missing(key: NumericKey, missing: str) -> Compared:
    """Missing values match anything, nothing, or each other: this becomes a key of its own."""
    y, low, high, value = key
    y_missing, gone, level = np.isnan(y), np.isnan(value), None
    if not (y_missing.any() or gone.any()):
        return key, None
    if missing == "level":
        level = Key(y_missing.astype(np.int64), gone.astype(np.int64), 2)
        ends, value = (0.0, 0.0), np.where(gone, 0.0, value)
    elif missing == "wildcard":
        ends = (-np.inf, np.inf)
    else:
        ends, value = (np.inf, -np.inf), np.where(gone, np.inf, value)
    low, high = np.where(y_missing, ends[0], low), np.where(y_missing, ends[1], high)
    return NumericKey(np.where(y_missing, 0.0, y), low, high, value), level


def _numbers(name: str, tables: Tables) -> list[Array]:
    """Numbers of a key in every table; none of them infinite."""
    types = [frame[name].dtype if name in frame else None for frame in tables.frames]
    for l, dtype in enumerate(types):
        if (l == 0 and not is_numeric(dtype)) or np.dtype("complex") == dtype:
            raise InputError(
                f"key {name!r} (`{dtype}`) of {tables.places[l]} holds no real numbers, which a "
                f"radius needs; leave it out of `radius`, or {TO_NUMBERS}"
            )
    found = tables.numbers(name)
    if any(str(dtype).lower() in SINGLE for dtype in types):
        found = [shortest(values) for values in found]
    for values, where in zip(found, tables.places, strict=True):
        if np.isinf(values).any():
            raise InputError(
                f"key {name!r} of {where} has infinite values in {np.isinf(values).sum():,} of "
                f"{len(values):,} records, which lie within no radius; correct them, or cut the "
                "key into categories (`pandas.cut`) and leave it out of `radius`"
            )
    return found


def key_sets(
    tables: Tables,
    files: Sequence[int],
    sought: MatchTargets,
    own: OwnRows,
    keys: tuple[Sequence[str], Sequence[str]],
    rules: Choices,
    also: Sequence[Key],
) -> tuple[KeySet, KeySet]:
    """All keys in some files (known and synthesised; ``also``: coded), and unsynthesised ones."""
    exact: dict[bool, list[Key]] = {True: [*also], False: []}  # by whether it is unsynthesised
    numeric: dict[bool, list[NumericKey]] = {True: [], False: []}
    for name in [*keys[0], *keys[1]]:
        us = name in keys[0]
        number, level = compared_keys(name, tables, files, sought, rules, us)
        numeric[us] += [] if number is None else [number]
        exact[us] += [] if level is None else [level]
    m, n_t = len(files), len(sought.place)
    n = int(tables.sizes[files[0]])
    kept, every = Combinations(n_t + n), Combinations(n_t + m * n)  # targets first, then records
    for key in exact[True]:
        kept.add(np.append(key.target, key.released), key.n_levels)
    of_target, of_record = np.split(kept.dense(), [n_t])
    every.add(np.append(of_target, np.tile(of_record, m)), kept.size)
    for key in exact[False]:
        every.add(np.append(key.target, key.released), key.n_levels)
    u, z = number_keys(every.number[:n_t], every.number[n_t:].reshape(m, n))
    u_us, z_us = number_keys(of_target, of_record.reshape(1, n))
    wide = [k._replace(value=np.broadcast_to(k.value, (m, n))) for k in numeric[True]]
    of_all = KeySet(own, u, z, [*wide, *numeric[False]])
    return of_all, KeySet(own, u_us, z_us, numeric[True])


def checked_choices(strategy: Any, shape: Any, closed: Any, fallback: Any) -> Choices:
    """Each by itself; a number: the largest Pr(J = n + 1) at which he still claims."""
    checked_flag("fallback", fallback)
    checked_flag("closed", closed)
    shape = one_of("shape", shape)
    if is_number(strategy) and 0 < strategy <= 1:
        strategy = float(strategy)
    elif not isinstance(strategy, str) or strategy not in ("always", "likeliest"):
        raise InputError(
            "strategy",
            strategy,
            '; give "always", "likeliest", or a number above 0 and at most 1: he claims a match '
            "if the target is outside the file with a probability below it",
        )
    return Choices(strategy, shape, closed, fallback)


def check_effects(choices: Choices, *, population: bool, n_radii: int) -> None:
    """Refuse choices that change nothing: whoever made them expects that they do."""
    if choices.strategy != "always" and not population:
        raise InputError(
            "strategy",
            choices.strategy,
            "changes nothing for an intruder who knows that his targets are in the file; give "
            "`population` too, or leave it out",
        )
    if choices.shape == "ellipse" and n_radii < 2:
        raise InputError(
            "shape",
            "ellipse",
            f"needs two radii, and `radius` names {n_radii}; give another key one, or leave it "
            "out: one radius makes an interval",
        )
    if not choices.closed and not n_radii:
        raise InputError(
            "closed",
            False,
            "leaves out the ends of radii, and radius names none; give a key a radius, or leave "
            "closed out",
        )


def identification_risk(
    original: pd.DataFrame,
    releases: Released | Replicates | pd.DataFrame | Sequence[pd.DataFrame | Released],
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
    corresponds: bool | None = None,
    person: str | None = None,
    by: By = (),
) -> Matched:
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
        out columns that were not synthesised. A list of Releases of one table is matched as all
        their files together; a key that any of them leaves unchanged is ``known``, as its values
        are genuine there. `Replicates` are the m tables that an intruder who knows the model draws;
        errors are then those between the releases they came from.
    known : list of str
        Unsynthesised columns that the intruder knows. The target's values are matched against the
        released ones, which must be the original's. May be empty.
    synthesized : list of str
        Changed columns. The intruder knows the target's true values, which are matched against
        released ones. May be empty, but not both.
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
        or a function that states it for the rows of a DataFrame. He then looks for a target only
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
        package leaves them out. Decimals decide, ``|Z_j - y_i| <= r`` or ``< r``, and not their
        sums in floating point. A value always matches itself.
    missing : {"level", "wildcard", "never"}, or dict of str to one of them
        Missing values of a key match missing ones only; match everything, theirs or the target's;
        or match nothing.
    fallback : bool
        What an intruder who knows that the target is in the file does when no record of release l
        has its full key. True (Reiter & Mitra 2009; Drechsler & Reiter 2008): he chooses among the
        :math:`N_{us}` records that share the known keys, so each gets :math:`1/N_{us}`, all n
        records if ``known`` is empty. False (Hornby & Hu 2021): he gives up, and the record adds
        nothing. With a population he takes the target to be outside.
    corresponds : bool, optional
        Whether row i of a release is record i; by default where there are as many. Rows that are
        without correspondence, fresh draws of every column, may be of any number and order.
    person : str, optional
        The column that names persons with several records (in a table of targets too). Any record
        of the target's person is a correct match. T/c is the share of the person's records among
        the c_i candidates; K states that all are the person's, F that all are one other person's;
        the baseline is the share among the N_us. A person is matched if one of the person's
        records is matched uniquely and correctly. Not offered with a population.
    by : list of str, or mapping of column to list of numbers
        Columns by which risk is stated group by group, in ``risk.groups``: see
        `IdentificationRisk.by_group`.

    Returns
    -------
    IdentificationRisk, or MatchCounts without row correspondence
        Per release and pooled; expected match risk lies between 0 and n_t, large is bad.

    Raises
    ------
    InputError
        A choice that changes nothing; a key that is missing, repeated, listed against what the
        `Release` states was synthesised, stored as text here and as numbers there, or a number of
        more than 1,000 values without a radius; a known column that was changed; records that do
        not correspond, or what needs them to; targets, radii or population counts that do not
        belong to the keys.

    See Also
    --------
    IdentificationRisk, MatchCounts : What comes back: summaries, records, errors.

    Notes
    -----
    *Two published definitions differ much.* Hornby & Hu (2021) compute c, T, K, F in
    each release and average over releases (row ``mean``): an intruder who uses one release. Reiter
    & Mitra (2009) pool the probabilities over releases first (row ``pooled``): one who uses all.
    Both are reported; for m = 1 they agree.

    *Cost.* O(m n log n) time and O(m n) memory; the error of the pooled risk adds O(m^2 n) time.
    Pooled with several radii, or in ellipses or with three, about as many records are looked at as
    match, or share the two narrowest keys. Conventions, exact ties: ``docs/identification.md``.

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
    return identified(
        original,
        releases,
        MatchingOptions(
            known,
            synthesized,
            targets,
            population,
            strategy,
            reason,
            radius,
            shape,
            closed,
            missing,
            fallback,
            corresponds,
            person,
            by,
        ),
    )[0]


class MatchingOptions(NamedTuple):
    """Arguments of `identification_risk`."""

    known: Sequence[str]
    synthesized: Sequence[str]
    targets: Any = None
    population: Outsiders = None
    strategy: Strategy = "always"
    reason: Any = None
    radius: Mapping[str, float | Radius] | None = None
    shape: str = "box"
    closed: bool = True
    missing: str | Mapping[str, str] = "level"
    fallback: bool = True
    corresponds: bool | None = None
    person: str | None = None
    by: By = ()


def identified(
    original: pd.DataFrame, releases: Any, how: MatchingOptions
) -> tuple[Matched, Tables]:
    """`identification_risk`, and the tables that it has read."""
    releases = together(releases)
    found, tables = matched(original, releases, how)
    if len(how.by):
        if not isinstance(found, IdentificationRisk):
            raise InputError("by", f"needs rows that are records. {NOBODYS} Leave it out")
        people = how.targets if isinstance(how.targets, pd.DataFrame) else original
        found = replace(found, groups=found.by_group(how.by, table=people))
    begin_work()
    if isinstance(releases, Replicates):
        return found, tables
    exposure = exposure_of_tables(tables, [*how.known, *how.synthesized])
    return replace(found, exposure=exposure), tables


def matched(original: pd.DataFrame, releases: Any, how: MatchingOptions) -> tuple[Matched, Tables]:
    """`identified` without the `Exposure`."""
    population, reason = how.population, how.reason
    choices = checked_choices(how.strategy, how.shape, how.closed, how.fallback)
    known, synthesized = checked_keys(original, how.known, how.synthesized)
    keys = [*known, *synthesized]
    if how.person in keys:
        raise InputError(
            "person", how.person, "is a key too; leave it out of `known` and `synthesized`"
        )
    within, missing = checked_radius(how.radius, keys), missing_by_key(how.missing, keys)
    check_effects(choices, population=population is not None, n_radii=len(within))
    drawn = isinstance(releases, Replicates)
    options = {"population": population is not None, "reason": reason is not None}
    options |= {"known": bool(known), "Replicates": drawn}
    own = rows_correspond(original, releases, how.corresponds, **options)
    sought = checked_targets(original, how.targets, keys)
    people = sought.frame if sought.outside else None
    tables = release_tables(original, releases, known, synthesized, own, people)
    tables.by_person(how.person)
    if population is not None and tables.n_persons < tables.n:
        raise InputError(
            f"population counts people, and some have several records by `person={how.person!r}`; "
            "give one record of each, or leave out `population` or `person`"
        )
    whose = persons_sought(sought, tables)
    own_rows = OwnRows.of(sought.place, tables.of_person(0), whose)
    rules = choices._replace(radius=within, missing=missing)
    same: dict[str, Any] = {
        "index": sought.frame.index,
        "synthesized": tuple(synthesized),
        "radius": within,
        "shape": choices.shape,
        "closed": choices.closed,
        "missing": {name: how for name, how in missing.items() if how != "level"},
        "in_file": own_rows.many > 0,
        "person": whose,
    }
    if not own:
        nobodys, tallies = own_rows._replace(many=np.zeros_like(own_rows.many)), []
        for l in range(tables.m + 1):
            rows = own_rows if l == 0 else nobodys._replace(person=tables.of_person(l))
            keys_of, _ = key_sets(tables, [l], sought, rows, ([], synthesized), rules, [])
            tallies.append([of[0] for of in keys_of.boxes(choices.limit).candidates()])
        (in_file, mine, _), *by_file = tallies
        c, _, one = (np.stack(of, axis=1) for of in zip(*by_file, strict=True))
        counts = {"c": c, "one": one >= 0, "others": in_file - mine, "own": own_rows.many}
        return MatchCounts(sizes=tables.sizes, **counts, **same), tables
    also = reason_key(reason, original, sought)
    files = range(1, tables.m + 1)
    every, kept = key_sets(tables, files, sought, own_rows, (known, synthesized), rules, also)
    release_of = np.array(releases.release_of) if drawn else None
    population = per_table(population, release_of)
    check_sample(population, original)

    def odds_of(boxes: Boxes) -> Odds:
        return how_many_may_be(population, sought.frame, boxes.N[:, boxes.of], keys, within)

    found = found_by(every, kept, choices, odds_of, release_of)
    same |= {"known": tuple(known), "reason": reason is not None, "keys": sought.frame[keys]}
    return IdentificationRisk(**found, **same), tables
