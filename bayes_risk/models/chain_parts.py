"""Parts of a chain of models: what each sees of a release, guesses and draws, and their sums."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Ints, Rng
from bayes_risk._core.batches import in_batches
from bayes_risk._core.matching import distinct_rows
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Predictive, Targets, model_name, rows_kept
from bayes_risk.evidence.evidence import Evidence
from bayes_risk.evidence.runner import Chains, Fits, Sampling
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.release.release import EncodedRelease


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedPart:
    """A part that is fitted: the columns that it draws, and where the chain has its columns."""

    fit: Any
    own: tuple[str, ...]
    at: Ints  # (p_k,)

    def name(self, k: int) -> str:
        """The part of this number, as messages have it."""
        return f"part {k} of the chain ({model_name(self.fit)})"

    def table(self, codes: Codes) -> Codes:
        """Its columns of the chain's coded tables (..., p)."""
        return codes[..., self.at].astype(self.fit.microdata.codes.dtype)

    def release(self, release: EncodedRelease) -> EncodedRelease | None:
        """What it made of the chain's release, the columns before it as released; None: nothing."""
        names = [c for c in release.synthesized if c in self.own]
        data, parameters = self.fit.microdata, self.drawing(release.parameters)
        if not names:
            return None
        columns = np.array([c in names for c in data.columns])
        source = replace(release.source, synthesized=names, draw_index=None, maker=None)
        more: Any = {"source": replace(source, parameters=parameters), "synthesized": names}
        more |= {"codes": self.table(release.codes), "columns": columns, "parameters": parameters}
        return replace(release, microdata=data, **more)

    def drawing(self, parameters: str | None) -> str | None:
        """How its parameters are drawn: without modes those of one mode are any."""
        modes = "one-mode" in self.fit.parameters
        return "independent" if parameters == "one-mode" and not modes else parameters

    def targets(self, cases: Targets) -> tuple[Targets, Ints] | None:
        """The targets with their guesses of its columns, each once, and which guess has which."""
        place = {int(j): k for k, j in enumerate(self.at)}
        there = [q for q, j in enumerate(cases.columns) if int(j) in place]
        if not there:
            return None
        guesses, dtype = cases.guesses, self.fit.microdata.codes.dtype
        first, cell, _ = distinct_rows(guesses.cells[:, there])
        counted = np.zeros((len(first), len(cases)), dtype=bool)
        np.logical_or.at(counted, cell, guesses.counted)
        codes = guesses.codes[first][:, :, there].astype(dtype)
        masses = {k: guesses.masses[q] for k, q in enumerate(there) if q in guesses.masses}
        own = GuessSet(codes, cell[guesses.truth], counted, guesses.cells[first][:, there])
        own = replace(own, masses=masses)
        columns = np.array([place[int(cases.columns[q])] for q in there])
        profiles = self.table(cases.profiles)
        return replace(cases, profiles=profiles, columns=columns, guesses=own), cell


def children_of(rng: Rng, n: int) -> list[Rng]:
    """Generators of n parts: of one part that which is given, as if it were no chain."""
    return [rng, *rng.spawn(n - 1)]


@dataclass(frozen=True, slots=True, eq=False)
class PartPredictive:
    """A part's predictive for the guesses of the chain; ``cell`` (G,): its guess of each.

    Draws of its lots of chains stand one behind the other.
    """

    lots: Sequence[Predictive]
    cell: Ints

    @property
    def batch(self) -> Ints:
        each, before = [of.batch for of in self.lots], 0
        for k, batch in enumerate(each):
            each[k], before = batch + before, before + int(batch.max()) + 1
        return np.concatenate(each)

    def log_truth(self, block: slice) -> Array:
        return np.concatenate([of.log_truth(block) for of in self.lots])

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        ends = np.cumsum([len(of.batch) for of in self.lots])[:-1]
        each = zip(self.lots, np.split(log_weights, ends), strict=True)
        return np.concatenate([of.log_sums(block, own) for of, own in each])[:, self.cell]


@dataclass(frozen=True, slots=True, eq=False)
class ChainPosterior:
    """Posteriors of the parts, of each its lots of chains, independent of one another."""

    parts: Sequence[FittedPart]
    each: Sequence[Sequence[Any]]

    def predictives(self, targets: Targets, *, rng: Rng) -> list[PartPredictive]:
        """Those of all parts, one behind the other: their logs add."""
        found = list[PartPredictive]()
        every = zip(self.parts, self.each, children_of(rng, len(self.parts)), strict=True)
        for one, lots, child in every:
            if (seen := one.targets(targets)) is not None:
                cases, cell = seen
                ways = zip(lots, children_of(child, len(lots)), strict=True)
                of = [posterior.predictives(cases, rng=generator) for posterior, generator in ways]
                found += [PartPredictive(same, cell) for same in zip(*of, strict=True)]
        return found


class Beside(NamedTuple):
    """The `Strategy` of a `ChainFit`."""

    fit: Any
    n_chains: int

    def begin(self, fits: Fits, cases: Targets) -> Sampling:
        """Chains of all parts."""
        begun: Sampling = self.fit.begin(fits, cases)
        return begun


class ChainSampling(Sampling):
    """Chains of all parts beside one another."""

    def __init__(self, fits: Fits, fit: Any, begun: Sequence[Sampling]) -> None:
        super().__init__(fits, [])
        self.fit, self.begun = fit, begun
        self._together()

    def _together(self) -> None:
        self.chains = [self._of([of.chains for of in self.begun])]
        self.modes = next((of.modes for of in self.begun if of.modes is not None), None)

    def _of(self, lots: Sequence[Sequence[Chains]]) -> Chains:
        """Some lots of chains of each part, as one."""
        each = zip(self.fit.parts, lots, strict=True)
        parts = tuple(replace(one, fit=own[0].fit) for one, own in each)

        def posterior(k: int) -> ChainPosterior:
            return ChainPosterior(parts, [[of.posterior(k)() for of in own] for own in lots])

        ways: Any = [partial(posterior, k) for k in range(len(lots[0][0].posteriors))]
        return Chains(replace(self.fit, parts=parts), ways)

    def double(self, share: Array) -> None:
        """Twice as long, or as many, chains of each part."""
        for of in self.begun:
            of.double(share)
        self._together()

    def all_sampled(self) -> None:
        """Count what the parts' chains did."""
        for of in self.begun:
            of.all_sampled()
        self._together()

    def by_mode(self) -> Sequence[Sequence[Chains]]:
        """Chains of each combination of modes, where the release leaves several of a part open."""
        kinds = [[*of.by_mode()] or [of.chains] for of in self.begun]
        if all(len(of) == 1 for of in kinds):
            return []
        return [[self._of(lots)] for lots in product(*kinds)]


def added_evidence(each: Sequence[Evidence]) -> Evidence:
    """Evidence of the parts for the same guesses: logs add.

    Errors of fits with the same place in their audits are added batch by batch: the parts' draws
    are independent, so that the variances add. Those without a base fit stand last.
    """
    m = len(each[0].log_evidence)
    B = min((one.deviations.shape[1] for one in each if one.deviations.any()), default=2)
    moved = [in_batches(one.deviations, B) for one in each]
    drawn = [of for of in moved if len(of) == m + 1]
    alone = [of for of in moved if len(of) == 1 and of.any()]
    deviations = [reduce(np.add, of) for of in (drawn, alone) if of] or moved[:1]
    bases = [one.base for one in each if one.base is not None]
    with_modes = [one for one in each if one.modes is not None]
    modes = [[*one.apart] or [one] for one in each] if any(one.apart for one in each) else []
    apart = tuple(added_evidence(some) for some in product(*modes)) if modes else ()
    return Evidence(
        log_evidence=reduce(np.add, (one.log_evidence for one in each)),
        deviations=np.concatenate(deviations),
        khat=np.max([one.khat for one in each], axis=0),
        ess=np.min([one.ess for one in each], axis=0),
        base=reduce(np.add, bases) if len(bases) == len(each) else None,
        base_deviations=None if drawn else np.zeros_like(moved[0][0]),
        modes=with_modes[0].modes if with_modes else None,
        few=any(one.few_chains for one in each),
        apart=apart,
        by_column=_by_column(each),
        joined=m * bool(drawn and alone),
    )


def of_guesses(found: Evidence, cell: Ints) -> Evidence:
    """The same for guesses of which several may be one here."""
    along = {"log_evidence": 1, "deviations": 2, "base": 0, "by_column": 2}
    of = {name: getattr(found, name) for name in along}
    taken_at: Any = {
        k: None if v is None else np.take(v, cell, axis=along[k]) for k, v in of.items()
    }
    apart = tuple(of_guesses(one, cell) for one in found.apart)
    return replace(found, apart=apart, **taken_at)


def _by_column(each: Sequence[Evidence]) -> Array | None:
    """Factors of all parts one behind the other; of a part with one, all its evidence."""
    parts = [one.log_evidence[None] if one.by_column is None else one.by_column for one in each]
    if sum(map(len, parts)) == 1:
        return None
    m = len(each[0].log_evidence)
    whole = all(part.shape[1] == m for part in parts) and rows_kept(each[0].log_evidence) == m
    return np.concatenate([part if whole else part.sum(axis=1, keepdims=True) for part in parts])
