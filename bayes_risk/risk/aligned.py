"""The same records and guesses in the evidence of several releases, found by label and by value."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import in_batches, zeros
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import distinct_rows
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.variables import Number, Variable
from bayes_risk.evidence.contract import Targets
from bayes_risk.evidence.evidence import Evidence
from bayes_risk.evidence.methods import HOUSEHOLD, IN_FILE, JOINED
from bayes_risk.evidence.problem import Sample
from bayes_risk.intruder import priors

from .attribute import AttributeEvidence
from .grid_check import grid_check
from .posterior import Limits, at_truth

BLOCK = 2**21  # guesses that are looked up at a time
NO_COLUMNS = "several releases were joined, and a column may be synthesised in some of them"


class Aligned(NamedTuple):
    """Evidence of several releases for the same records and guesses, in the terms of the last."""

    each: list[AttributeEvidence]
    labels: pd.Index
    case: Ints  # (n,): the joint case of each record
    cases: list[Ints]  # of each evidence, (U,): its case for each joint case
    place: list[npt.NDArray[np.int32]]  # of each evidence, (G, U): its guess for each joint guess
    targets: Targets
    missing: str  # what some of them lack, in words
    gone: int  # records that not all have

    def added(self, which: Sequence[int]) -> AttributeEvidence:
        """The evidence of some of them, added."""
        last, chosen = self.each[-1], [self.each[t] for t in which]
        guesses, mine = self.targets.guesses, self.cases[-1]
        founds = [one.found for one in chosen]
        found = self._sum(which, founds)
        base = None if last.base is None else self.taken(last.base, -1)
        variables = [last.microdata.variables[j] for j in self.targets.columns]
        base_of_last = last.found.base is not None and which[-1] == len(self.each) - 1
        return replace(
            last,
            index=self.labels,
            case=self.case,
            cases=self.targets,
            found=replace(
                found,
                base=self.taken(last.found.base, -1) if base_of_last else None,
                apart=tuple(self._sum(which, of) for of in modes_of(founds)),
            ),
            disclosed=np.any([self.each[t].disclosed[self.cases[t]] for t in which], axis=0),
            words=joined_words(last, chosen, self.missing, "added over releases"),
            base=base,
            grid=None if base is None else grid_check(base, guesses, variables),
            **of_several(last, chosen, mine, self.gone),
        )

    def taken(self, values: Any, t: int, block: slice = slice(None)) -> Any:
        """Values (..., G, U) of an evidence for the joint guesses; 0 where one is not counted."""
        place, cases = self.place[t][:, block], self.cases[t][block]
        (G, U), counted = self.place[t].shape, self.targets.guesses.counted[:, block]
        own = np.arange(*block.indices(U))
        if values.shape[-2:] == (G, U) and counted.all() and (cases == own).all():
            if (place == np.arange(G)[:, None]).all():  # all of them, as they are
                return values[..., block]
        out = np.empty((*values.shape[:-2], *place.shape), dtype=values.dtype)
        for axes in np.ndindex(values.shape[:-2]):
            for g, row in enumerate(place):  # of all at once there would be a copy
                out[axes][g] = np.where(counted[g], values[axes][row, cases], 0)
        return out

    def _sum(self, which: Sequence[int], founds: Sequence[Evidence]) -> Evidence:
        """Evidence by release in their order; deviations by fit, the last release first."""
        parts = [(t, one.log_evidence) for t, one in zip(which, founds, strict=True)]
        order = [*zip(which, founds, strict=True)][::-1]
        moved = [(t, one) for k, (t, one) in enumerate(order) if not k or one.deviations.any()]
        with_error = [one.deviations.shape[1] for _, one in moved if one.deviations.any()]
        B = min(with_error, default=2)
        shape = (len(founds[-1].deviations), B, *self.place[-1].shape)
        deviations: Any = zeros(shape, founds[-1].deviations.dtype)
        if with_error:
            deviations = Stacked(self, [(t, in_batches(one.deviations, B)) for t, one in moved])
        return Evidence(
            log_evidence=np.asarray(Stacked(self, parts)),
            deviations=deviations,
            **of_fits(founds, [self.cases[t] for t in which]),
            joined=len(founds[-1].log_evidence),
        )


class Stacked:
    """Values (.., ..., G, U) of several evidences, one behind the other, as `Aligned.taken`.

    They are put together where some cases are read, ``[..., block]``: all would be a join's peak.
    """

    def __init__(self, aligned: Aligned, parts: Sequence[tuple[int, Any]]) -> None:
        self.aligned, self.parts, (_, first) = aligned, parts, parts[0]
        axes = sum(len(values) for _, values in parts), *first.shape[1:-2]
        self.shape = *axes, *aligned.place[-1].shape

    def any(self) -> bool:
        """Whether one is not zero."""
        return any(values.any() for _, values in self.parts)

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        each = [self.aligned.taken(values, t, key[-1]) for t, values in self.parts]
        return np.concatenate(each)[key[:-1]]

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        return np.asarray(self[..., slice(None)], dtype)


def of_several(
    one: AttributeEvidence, chosen: Sequence[AttributeEvidence], cases: Ints, gone: int
) -> dict[str, Any]:
    """What the evidence of several releases is beside its numbers, in terms of one of them."""
    return {
        "seed_entropy": "; ".join(each.seed_entropy for each in chosen),
        "log_rest": np.broadcast_to(-np.inf, len(cases)),
        "limits": _limits([each.limits for each in chosen]),
        "way": JOINED,
        "factors": NO_COLUMNS,
        "before": None if one.before is None else one.before[:, cases],
        "sample": one.sample if not gone else Sample(_records(one), False),
    }


def modes_of(founds: Sequence[Evidence]) -> list[tuple[Evidence, ...]]:
    """Joint modes, where the release of any leaves several open."""
    kinds = [[*one.apart] or [one] for one in founds]
    return [*product(*kinds)] if any(len(k) > 1 for k in kinds) else []


def of_fits(founds: Sequence[Evidence], at: Sequence[Ints]) -> dict[str, Any]:
    """What the evidence of several fits is beside its numbers; ``at``: of each, its cases or -1."""
    learnt = [one.learnt for one in founds if one.learnt is not None]
    pairs = [*zip(founds, at, strict=True)]
    return {
        "khat": np.max([np.where(u < 0, 0.0, one.khat[u]) for one, u in pairs], axis=0),
        "ess": np.min([np.where(u < 0, np.inf, one.ess[u]) for one, u in pairs], axis=0),
        "learnt": learnt[-1] if learnt else None,
        "few": any(one.few_chains for one in founds),
    }


def joined_words(
    one: AttributeEvidence, chosen: Sequence[AttributeEvidence], missing: str, how: str
) -> dict[str, str]:
    """Assumptions of all, each once, in the terms of one."""

    def joined(name: str) -> str:
        texts = []
        for each in chosen:
            modes = each.found.modes if name == "evidence" else None
            texts.append(each.words[name] + (f"; {modes.sentence()}" if modes else ""))
        unique = [*dict.fromkeys(texts)]
        if len(unique) == 1:
            return unique[0]
        return "; ".join(f"release {k}: {text}" for k, text in enumerate(texts, start=1))

    own = {name: joined(name) for name in ("synthesis", "evidence", "releases")}
    unknown = one.cases.known is not None
    own["evidence"] += f"; {how}" + " as if these did not share the unknown records" * unknown
    return {**one.words, **own, "guesses": f"{one.words['guesses']}{missing}"}


def _records(one: AttributeEvidence) -> int:
    """How many records were replaced, of which the targets are all or some."""
    return len(one.index) if one.sample is None else one.sample.records


def _limits(each: Sequence[Limits]) -> Limits:
    """Errors as large as any allows, weights as good as all want."""
    log_odds, khat, ess = zip(*each, strict=True)
    return Limits(max(log_odds), min(khat), max(ess))


# --- the same records, and the same guesses -------------------------------------------------------


def aligned(each: list[AttributeEvidence], *, same_table: bool) -> Aligned:
    """Records by label, guesses by value; what cannot be aligned is refused by name."""
    last = each[-1]
    names, common, rows, gone = in_common(each, same_table=same_table)
    own = [_codes(one, last, names) for one in each]
    same = np.ones(len(common), dtype=bool)
    truth = at_truth(np.moveaxis(own[-1], 2, 0), last.cases.guesses.truth).T  # shape (U, q)
    for one, codes, case in zip(each[:-1], own, rows, strict=False):
        other = at_truth(np.moveaxis(codes, 2, 0), one.cases.guesses.truth).T
        same &= (other[case] == truth[rows[-1]]).all(axis=1)
    if same_table and not same.all():
        raise InputError(
            f"the true guess of {int((~same).sum()):,} records is not the same in all evidence; "
            'give all audits the same grid, with `truth="add"`'
        )
    first, case, _ = distinct_rows(np.column_stack([row[same] for row in rows]))
    cases = [row[same][first] for row in rows]
    found = [_placed(one, codes, last, own[-1], (u, cases[-1]))
             for one, codes, u in zip(each, own, cases, strict=True)]  # fmt: skip
    counted = np.all([place >= 0 for place in found], axis=0)
    wanted = last.cases.guesses.counted[:, cases[-1]]
    fewer = wanted.sum(axis=0) - counted.sum(axis=0)
    own_truth = counted[last.cases.guesses.truth[cases[-1]], np.arange(len(first))]
    left = ((counted.sum(axis=0) >= 2) | (fewer == 0)) & own_truth
    if not left.any():
        raise InputError(
            "no guess but the truth is in all evidence; give all audits the same guesses (grids at "
            "quantiles of a model differ between models: give percent or bounds)"
        )
    kept = np.flatnonzero(left[case])
    used = np.flatnonzero(left)
    number = np.cumsum(left) - 1
    guessed = np.flatnonzero(counted[:, used].any(axis=1))
    cases = [u[used] for u in cases]
    index = common[np.flatnonzero(same)[kept]]
    gone += len(common) - len(index)
    whole = len(guessed) == len(counted) and len(used) == len(left)
    cut: Any = ... if whole else np.ix_(guessed, used)
    return Aligned(
        each=each,
        labels=index,
        case=number[case[kept]],
        cases=cases,
        place=[place[cut] for place in found],
        targets=_targets(last, cases[-1], guessed, counted[cut]),
        missing=_missing_in_words(gone, fewer[case[kept]], wanted.sum(axis=0)[case[kept]]),
        gone=gone,
    )


def in_common(
    each: list[AttributeEvidence], *, same_table: bool, wave: int | None = None
) -> tuple[list[str], pd.Index, list[Ints], int]:
    """Guessed columns, labels in all, their case in each evidence, and how many are not in all.

    With ``wave`` the labels are those in the evidence of that number, whose case is -1 where a
    table lacks them; who is in a table and was not audited there is left out.
    """
    names = [_checked(each, t, same_table) for t in range(len(each))][-1]
    common = each[-1 if wave is None else wave].index
    for one in each:
        there = common.isin(one.index)
        common = common[there if wave is None else there | ~common.isin(one.microdata.index)]
    alone = wave is not None and not any(
        common.isin(one.index).any() for t, one in enumerate(each) if t != wave
    )
    if not len(common) or alone:
        raise InputError(
            "evidence has no record label in common; give all tables the same index (in a study "
            "[data] index), and all audits the same targets"
        )
    every = reduce(lambda one, other: one.union(other, sort=False), (e.index for e in each))
    places = [one.index.get_indexer(common) for one in each]
    rows = [np.where(row < 0, -1, one.case[row]) for one, row in zip(each, places, strict=True)]
    return names, common, rows, len(every) - len(common)


def _targets(last: AttributeEvidence, cases: Ints, guessed: Ints, counted: Flags) -> Targets:
    """The last's targets, with the guesses that are in all; where these are all, no copy."""
    own = last.cases.guesses
    if counted.shape == own.counted.shape and (cases == np.arange(len(cases))).all():
        if len(cases) == len(last.cases) and (counted == own.counted).all():
            return last.cases
    targets = last.cases.only(cases)
    old = targets.guesses
    number = np.full(len(old.codes), -1)
    number[guessed] = np.arange(len(guessed))
    codes, cells = old.codes[guessed], old.cells[guessed]
    guesses = replace(old, codes=codes, cells=cells, truth=number[old.truth], counted=counted)
    return replace(targets, guesses=guesses)


def _missing_in_words(gone: int, fewer: Ints, of: Ints) -> str:
    """Words for records and guesses that some of them lack; empty: none."""
    text = ""
    if fewer.any():
        text = (
            f"; of {of.mean():,.1f} guesses a record, {fewer.mean():,.1f} are not in every "
            "release's evidence, and are not considered"
        )
    return text + f"; {gone:,} records that are not in all of it are left out" * bool(gone)


def _checked(each: list[AttributeEvidence], t: int, same_table: bool) -> list[str]:
    """The guessed columns of the last, after one was compared with it and those before."""
    one, last, what = each[t], each[-1], f"evidence {t + 1}"
    names = [last.microdata.columns[j] for j in last.cases.columns]
    own = [one.microdata.columns[j] for j in one.cases.columns]
    if set(own) != set(names):
        raise InputError(
            f"{what} guesses {', '.join(sorted(own))}, and evidence {len(each)} guesses "
            f"{', '.join(sorted(names))}; audit all for the same columns (knows_columns)"
        )
    if one.searched is not None:
        raise InputError(
            f"the guesses of {what} were searched under the prior "
            f"[{priors.prior_in_words(one.searched)}], and those left out have no evidence; list "
            "all of them: give a larger `budget`, or coarser grids"
        )
    if one.way == "weaker" or (one.cases.known is None) != (last.cases.known is None):
        raise InputError(
            f"{what} is of an intruder who knows other records than that of evidence {len(each)}; "
            "audit all for the same intruder"
        )
    if one.way in IN_FILE:
        raise InputError(
            f"{what} is of an intruder who is not certain that the target is in the file, which is "
            "the same for all releases, so that their evidence does not add; leave in_file out"
        )
    if one.way in HOUSEHOLD:
        raise InputError(
            f"{what} is of an intruder who knows no member of the target's household; members are "
            "summed out over all releases together, so that their evidence does not add; leave "
            "household out"
        )
    if one.way == JOINED:
        raise InputError(f"{what} was joined before; give the evidence of each release")
    if same_table:
        check_table(one.microdata, last.microdata, what, f"evidence {len(each)}")
        _check_known(one, last, what, len(each))
    for k, other in enumerate(each[:t], start=1):
        _check_other_files(one, other, what, f"evidence {k}")
    return names


def check_table(mine: Microdata, theirs: Microdata, what: str, than: str) -> None:
    """Both are one confidential table, as far as they have the same columns."""
    if mine is theirs:
        return
    cure = "; tables of several years need same_table=False (in a study: same_table = false)"
    rows = mine.index.get_indexer(theirs.index)
    if len(mine.index) != len(theirs.index) or (rows < 0).any():
        raise InputError(
            f"{what} is of another table than {than}: their records have other labels{cure}"
        )
    by_name = {v.name: j for j, v in enumerate(mine.variables)}
    shared = [(by_name[v.name], j) for j, v in enumerate(theirs.variables) if v.name in by_name]
    for i, j in shared:
        codes = _in_terms(mine.codes[rows, i], mine.variables[i], theirs.variables[j])
        if wrong := int((codes != theirs.codes[:, j]).sum()):
            raise InputError(
                f"{what} is of another table than {than}: column {theirs.columns[j]!r} differs in "
                f"{wrong:,} of {len(rows):,} records{cure}"
            )


def _check_known(one: AttributeEvidence, last: AttributeEvidence, what: str, T: int) -> None:
    """Both are of intruders who know the same records, of those that have labels in both."""
    if one.cases.known is None or last.cases.known is None:
        return
    rows = one.microdata.index.get_indexer(last.microdata.index)
    if (one.cases.known[rows] != last.cases.known).any():
        raise InputError(
            f"{what} is of an intruder who knows other records than that of evidence {T}; name "
            "the known records: Intruder(knows_records=[labels])"
        )


def _in_terms(
    codes: npt.NDArray[Any], own: Variable | Number, other: Variable | Number
) -> npt.NDArray[Any]:
    """Codes of one variable in those of another of the same name; -1 or NaN: it has no such."""
    if isinstance(own, Number) and isinstance(other, Number):
        values = codes.astype(float)
        if own.missing is not None and other.missing is not None:
            values = np.where(values == own.missing, other.missing, values)
        return values
    if isinstance(own, Number):
        levels = pd.Index(other.levels, dtype=object)  # type: ignore[union-attr]
        return levels.get_indexer(pd.Index(codes.astype(float), dtype=object))
    if isinstance(other, Number):
        numbers = pd.to_numeric(pd.Series(own.levels, dtype=object), errors="coerce")
        missing = np.nan if other.missing is None else other.missing
        return np.append(numbers.to_numpy(dtype=float), missing)[codes.astype(np.int64)]
    if (own.levels, own.missing) == (other.levels, other.missing):
        return codes
    table = pd.Index(other.levels, dtype=object).get_indexer(pd.Index(own.levels, dtype=object))
    missing = len(other.levels) if other.missing else -1
    return np.append(table, missing)[codes.astype(np.int64)]


def _codes(one: AttributeEvidence, last: AttributeEvidence, names: list[str]) -> npt.NDArray[Any]:
    """Guesses (G, U, q) in the order and terms of the last's columns."""
    if one is last:
        return one.cases.guesses.codes
    own = [one.microdata.columns[j] for j in one.cases.columns]
    parts = []
    for name in names:
        mine, theirs = (
            of.variables[of.columns.index(name)] for of in (one.microdata, last.microdata)
        )
        parts.append(_in_terms(one.cases.guesses.codes[:, :, own.index(name)], mine, theirs))
    return np.stack(parts, axis=2)


def _placed(
    one: AttributeEvidence,
    codes: npt.NDArray[Any],
    last: AttributeEvidence,
    wanted: npt.NDArray[Any],
    at: tuple[Ints, Ints],
) -> npt.NDArray[np.int32]:
    """Which of one's guesses each of the last's is, (G, U) of the joint cases; -1: none."""
    (mine, theirs), counted = at, one.cases.guesses.counted
    want = last.cases.guesses.counted
    place = np.full((len(wanted), len(mine)), -1, dtype=np.int32)
    size = max(BLOCK // (len(codes) + len(wanted)), 1)
    for block in (slice(u, u + size) for u in range(0, len(mine), size)):
        a, b = codes[:, mine[block]], wanted[:, theirs[block]]
        there, requested = counted[:, mine[block]], want[:, theirs[block]]
        if a.shape == b.shape and (a == b).all():
            found = np.broadcast_to(np.arange(len(a))[:, None], requested.shape)
            there = there & requested
        else:
            found = _found(a, there, b)
            there = (found >= 0) & requested
        place[:, block] = np.where(there, found, -1)
    in_order = np.broadcast_to(np.arange(len(place), dtype=np.int32)[:, None], place.shape)
    return in_order if (place == in_order).all() else place  # which takes no room


def _found(codes: npt.NDArray[Any], counted: Flags, wanted: npt.NDArray[Any]) -> Ints:
    """Place of guesses (G, U, q) among others (G', U, q) that are counted; -1: none."""
    rows = [
        np.column_stack(
            [np.tile(np.arange(part.shape[1]), len(part)), part.reshape(-1, part.shape[2])]
        )
        for part in (codes, wanted)
    ]
    _, cell, _ = distinct_rows(np.concatenate(rows))
    number = np.repeat(np.arange(len(codes)), codes.shape[1])
    at = np.full(cell.max() + 1, -1, dtype=np.int64)
    kept = counted.ravel()
    at[cell[: len(number)][kept]] = number[kept]
    return np.asarray(at[cell[len(number) :]].reshape(wanted.shape[:2]))


# --- the same files -------------------------------------------------------------------------------


def _check_other_files(
    one: AttributeEvidence, other: AttributeEvidence, what: str, before: str
) -> None:
    """No data set of one release is in another, but by chance, where both makers are known."""
    if one.encoded is None or other.encoded is None:  # of published tables
        tables = [set(str(of.release.maker).split()) for of in (one, other)]
        if one.encoded is other.encoded and tables[0] & tables[1]:
            raise InputError(f"{what} is of a table of {before}: it adds nothing; leave it out")
        return
    if set(one.release.synthesized) != set(other.release.synthesized):
        return
    makers = [(of.release.maker, of.release.seed_entropy) for of in (one, other)]
    if None not in (makers[0][0], makers[1][0]) and makers[0] != makers[1]:
        return
    ordered = one.encoded.corresponds and other.encoded.corresponds
    seen = {d: l for l, d in enumerate(_digests(other, other.encoded.codes, ordered), start=1)}
    for l, digest in enumerate(_digests(one, one.encoded.codes, ordered), start=1):
        if digest in seen:
            raise InputError(
                f"data set {l} of {what} is data set {seen[digest]} of {before}: it adds nothing; "
                "leave it out"
            )


def _digests(one: AttributeEvidence, files: Any, ordered: bool) -> Iterator[tuple[int, int, int]]:
    """A number for each data set's synthetic values, and, if ordered, where they stand."""
    place = one.microdata.index.argsort() if ordered else None
    names = sorted(map(str, one.release.synthesized))
    for codes in files:
        codes = codes if place is None else codes[place]
        row: Any = np.arange(len(codes), dtype=np.uint64) * np.uint64(ordered)
        for name in names:
            j = one.microdata.columns.index(name)
            row = row * np.uint64(1_000_003) + _value_hash(one.microdata.variables[j], codes[:, j])
        mixed = pd.util.hash_array(row)
        yield len(codes), int(mixed.sum(dtype=np.uint64)), int(np.bitwise_xor.reduce(mixed))


def _value_hash(variable: Variable | Number, codes: npt.NDArray[Any]) -> Array:
    if isinstance(variable, Number):
        with np.errstate(over="ignore"):  # as a file in single precision holds them
            single = codes.astype(np.float32).astype(float)
        alike = 2 * len(np.unique(single)) < len(np.unique(codes))  # 1e12 and a spread of 1
        return np.asarray(pd.util.hash_array(codes.astype(float) if alike else single))
    texts = [repr(float(v)) if isinstance(v, int | float) else str(v) for v in variable.levels]
    hashed = pd.util.hash_array(np.array([*texts, "missing"], dtype=object), categorize=False)
    return np.asarray(hashed[codes.astype(np.int64)])
