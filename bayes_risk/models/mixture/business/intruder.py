"""What a business competitor sees of one target, and the evidence of releases for them.

They know the second largest value, or all records but two (Wei & Reiter 2016). All records that
they do not know are integrated out. Where an approximation is used, `knowledge_in_words` names it.
What contradicts the data or the release is refused first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import change
from bayes_risk.data.microdata import rows_named
from bayes_risk.evidence.contract import Progress, Simulated, Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import Ticker
from bayes_risk.models.mixture.columns import Mechanism
from bayes_risk.models.mixture.mixture import truncation_binds
from bayes_risk.models.mixture.state import Rows, Units
from bayes_risk.release.release import EncodedRelease

from .competitors import (
    EXACT_UP_TO,
    TAIL,
    Averaged,
    ClassPosterior,
    Groups,
    Pair,
    Question,
    before,
    belief,
    dealt,
    dealt_to_pair,
    further,
    log_sum_of_others,
    pair_masses,
    sharing_columns,
    with_total,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackScenario:
    """One target before one intruder."""

    fit: Any
    intruder: Intruder
    release: EncodedRelease
    hows: tuple[Mechanism, ...]  # how each of the m data sets was drawn
    record: int  # the target
    other: int | None  # the second record that is not known, if there is one
    columns: Ints  # (q,): guessed counts
    guesses: Array  # (G, q)

    @classmethod
    def of(
        cls, fit: Any, intruder: Intruder, release: EncodedRelease, targets: Targets, u: int
    ) -> "AttackScenario":
        """Read target u."""
        index, columns, other = fit.microdata.index, fit.columns, None
        if intruder.other is not None:
            other = int(rows_named([intruder.other], index, "other")[0])
        return cls(
            fit=fit,
            intruder=intruder,
            release=release,
            hows=tuple(Mechanism.of(release, columns, fit.prior)),
            record=int(targets.record[u]),
            other=other,
            columns=columns.variables(targets.columns),
            guesses=targets.guesses.codes[:, u].astype(float),
        )

    @property
    def names(self) -> list[str]:
        """Of the counts."""
        names: list[str] = self.fit.counts
        return names

    @property
    def known_columns(self) -> Flags:
        """Counts of the target that are known, shape (p,)."""
        known = [name in list(self.intruder.knows_columns) for name in self.names]
        return np.array(known) | ~self.synthesized

    @property
    def deals(self) -> bool:
        """Whether totals are dealt (MM, TCMM)."""
        return self.release.groups is not None or self.fit.model.kind != "MP"

    @property
    def own(self) -> Rows:
        """Confidential rows."""
        return self.hows[0].y

    @property
    def synthesized(self) -> Flags:
        """Which counts are, shape (p,)."""
        return self.hows[0].synthesized[: len(self.names)]

    def telling(self, rows: Rows, counts: npt.ArrayLike, *, levels: bool = True) -> Rows:
        """The same rows saying nothing but of the ``counts`` (p,), and of covariates or not."""
        shown = np.append(np.asarray(counts, dtype=bool), np.full(rows.positions.shape[1], levels))
        return rows.without(~shown, self.hows[0].padding)

    @property
    def j(self) -> int:
        """The guessed count of an intruder who knows the largest."""
        return int(self.columns[0])

    @property
    def runner_up(self) -> int:
        """The record with the second largest value."""
        values = self.own.counts[:, self.j].copy()
        values[[self.record] if self.other is None else self.two] = -1.0
        return int(np.argmax(values))

    @property
    def second_value(self) -> float:
        """The largest value that is known."""
        return float(self.own.counts[self.runner_up, self.j])

    @property
    def in_order(self) -> Flags:
        """Guesses that leave the target the largest, shape (G,)."""
        if self.intruder.largest is None:
            return np.ones(len(self.guesses), dtype=bool)
        least = np.full(len(self.guesses), self.second_value)
        if self.other is not None:
            least = np.maximum(least, self.pair(None).totals[0] - self.guesses[:, 0])
        return np.asarray(self.guesses[:, 0] >= least)

    @property
    def knows_second_record(self) -> bool:
        """Whether the whole record with the second largest value is known, not the value alone."""
        return bool(self.intruder.knows_records == "second-largest")

    @property
    def question(self) -> Question:
        """What is asked of the target, and known of it and of the second largest."""
        whole = self.knows_second_record
        marked = whole | (np.arange(len(self.names)) == self.j)
        second = self.own.take(np.array([self.runner_up]))
        return Question(
            column=self.j,
            guesses=self.guesses[:, 0],
            exposure=float(self.own.exposure[self.record, self.j]),
            target=self.telling(self.own.take(np.array([self.record])), self._known_of_target),
            second=self.telling(second, marked, levels=whole),
        )

    @property
    def _known_of_target(self) -> Flags:
        return np.asarray(self.known_columns & ~np.isin(np.arange(len(self.names)), self.columns))

    def dealt_question(self, l: int) -> Question:
        """The same of counts that are dealt in the same groups as the guessed one."""
        question, alike = self.question, self.synthesized.copy()
        if self.release.groups is not None and self.intruder.groups != "inferred":
            for j in np.flatnonzero(alike).tolist():
                alike[j] = (self.groups(l, j) == self.groups(l, self.j)).all()
        return replace(
            question,
            target=self.telling(question.target, alike, levels=False),
            second=self.telling(question.second, alike, levels=False),
        )

    def agree(self, record: int, columns: Flags, *, levels: bool) -> Array:
        """1 for rows with a record's exposure, these counts, and if compared, covariates; (n,)."""
        own = self.own
        same = (own.exposure == own.exposure[record]).all(axis=1)
        same &= (own.counts == own.counts[record])[:, columns].all(axis=1)
        if levels:
            same &= (own.positions == own.positions[record]).all(axis=1)
        return np.asarray(same.astype(float))

    def groups(self, l: int, j: int) -> Ints:
        """Of all records in count j, as data set l was dealt; (n,)."""
        assert self.release.groups is not None
        place = list(self.release.synthesized).index(self.names[j])
        return np.asarray(self.release.groups[l][:, place])

    @property
    def in_tail(self) -> bool:
        """Whether the target is in a collapsed tail of the guessed count."""
        if self.release.groups is None or self.other is not None:
            return False
        return bool(self.groups(0, self.j)[self.record] == TAIL)

    def thresholds(self, l: int) -> Array:
        """The largest value outside the tail of each guessed count, (q,)."""
        found = []
        for j in self.columns.tolist():
            outside = self.groups(l, j) != TAIL
            found.append(self.own.counts[outside, j].max() if outside.any() else -1.0)
        return np.array(found)

    @property
    def two(self) -> Ints:
        """Rows of target and other."""
        assert self.other is not None
        return np.array([self.record, self.other])

    def known(self, l: int | None) -> Units:
        """Rows known without the two: of the table, and with l, of a data set by MP."""
        rest = ~np.isin(np.arange(len(self.own.counts)), self.two)
        return self.own.take(rest).units() if l is None else self.hows[l].around(rest)[0]

    def pair(self, l: int | None) -> Pair:
        """What is asked of the two; with l, their own synthetic values beside what is known."""
        each, how = np.split(self.two, 2), None if l is None else self.hows[l]
        rows = [self.telling(self.own.take(i), self._known_of_target) for i in each]
        if how is not None and how.own:
            z, made = self.telling(how.z, self.synthesized), how.synthesized
            rows = [row.beside(z.take(i), made) for row, i in zip(rows, each, strict=True)]
        counts = self.own.counts[self.two]
        return Pair(
            columns=self.columns,
            guesses=self.guesses,
            totals=counts[:, self.columns].sum(axis=0),
            exposure=self.own.exposure[self.two],
            first=rows[0],
            second=rows[1],
        )


def check(attack: AttackScenario) -> None:
    """Refuse what contradicts the data or the release, and what is not offered."""
    intruder, fit = attack.intruder, attack.fit
    name = attack.names[attack.j]
    largest = attack.own.counts[attack.record, attack.j]
    if attack.other == attack.record:
        raise InputError("other", intruder.other, "is the target; name another record")
    if not attack.release.replaced.all():
        raise InputError(
            "knows_records",
            intruder.knows_records,
            "is offered for releases of which every record was replaced",
        )
    if fit.prior.inflation is not None and (
        attack.other is not None or attack.known_columns[attack.synthesized].any()
    ):
        raise InputError(
            "a mixture with structural zeros offers intruders who know the second largest and "
            "no column of the target; fit without zeros"
        )
    if intruder.largest is not None and largest < attack.second_value:
        raise InputError(
            f"a target does not have the largest {name!r}, as the intruder knows; "
            "leave targets out to audit the record that has"
        )
    _check_totals(attack)
    if attack.deals:
        _check_groups(attack)


def _check_totals(attack: AttackScenario) -> None:
    given = attack.intruder.knows_totals
    if not isinstance(given, Mapping):
        return
    for name, total in given.items():
        if name not in attack.names:
            raise InputError(
                "knows_totals",
                f"names column {name!r}, which is not a count; counts are {list(attack.names)}",
            )
        if float(total) != attack.own.counts[:, attack.names.index(name)].sum():
            raise InputError(  # without the data's total, which is confidential
                ("knows_totals", name),
                total,
                "is not what the data add up to; give that, or true alone",
            )


def _check_groups(attack: AttackScenario) -> None:
    """Whether the groups that the intruder knows are there, and keep their totals."""
    groups, inferred = attack.release.groups, attack.intruder.groups == "inferred"
    if inferred and (
        attack.fit.model.kind == "TCMM" or (groups is not None and (groups == TAIL).any())
    ):
        raise InputError(
            "groups", "inferred", 'is not offered where a tail was collapsed; give "known"'
        )
    if groups is None:
        if not inferred:
            raise InputError(
                'the release has no groups, and `groups="known"` needs them: keep the release '
                'as it was made, or give `groups="inferred"`'
            )
        return
    for l in range(attack.release.m):
        for q, name in enumerate(attack.release.synthesized):
            j, label = attack.names.index(name), np.unique(groups[l, :, q], return_inverse=True)[1]
            moved = attack.hows[l].z.counts[:, j] - attack.own.counts[:, j]
            if np.bincount(label.reshape(-1), moved).any():
                raise InputError(
                    f"column {name!r} of release {l + 1} does not keep the confidential totals "
                    "of its groups: they contradict the data; give the release as it was made"
                )


def evidence(
    fit: Any,
    intruder: Intruder,
    release: EncodedRelease,
    targets: Targets,
    *,
    rng: Rng,
    progress: Progress | None,
) -> Simulated:
    """log p(Z^(l) | y*, A), (m, G, U), for a competitor; an ESS of 0 where a truncation binds."""
    found = []
    for u, child in enumerate(rng.spawn(len(targets))):
        attack = AttackScenario.of(fit, intruder, release, targets, u)
        check(attack)
        work = _Work(attack=attack, rng=child, progress=progress)
        one = _pair(work) if attack.other is not None else _second(work)
        value = np.where(attack.in_order, one.value, -np.inf)  # another order is impossible
        deviation = np.where(attack.in_order, one.deviation, 0.0)
        full = max(work.full, default=0.0)
        binds = truncation_binds(full, fit.prior.n_classes, " given the release")
        found.append((value, deviation, 0.0 if binds else one.ess))
    values, deviations, ess = zip(*found, strict=True)
    return Simulated(np.stack(values, axis=2), np.stack(deviations, axis=2), np.array(ess))


def knowledge_in_words(
    fit: Any, intruder: Intruder, release: EncodedRelease, targets: Targets
) -> str:
    """What is approximated in `evidence`, and what is disclosed for certain, one phrase."""
    attack = AttackScenario.of(fit, intruder, release, targets, 0)
    check(attack)
    words = ["weaker: unknown records integrated out; synthetic rows are matched to no record"]
    if attack.other is not None:
        words = ["weaker: fits without the two records"]
        if attack.deals:
            words = ["weaker: which records share a total is known to the intruder"]
    elif attack.in_tail:
        sums, n, values, _ = _tail(attack)
        exact = n * len(values) <= EXACT_UP_TO
        how = "by convolution" if exact else f"by a saddlepoint, relative error of order 1/{n}"
        words = [f"weaker: the total of the tail less {n} independent unknown values, {how}"]
        if n == 0:
            words = ["weaker: no other record is in the tail; its total discloses the target"]
    elif release.m > 1:
        words.append("as if the unknown records were drawn anew for each release (approximate)")
    if intruder.knows_totals and attack.other is None and not attack.deals:
        words.append("the sum of the others taken as normal (approximate)")
    if release.groups is not None and not attack.in_tail:
        groups = [attack.groups(l, attack.j) for l in range(release.m)]
        if alone := sum(int((group == group[attack.record]).sum() == 1) for group in groups):
            words.append(
                f"in {alone} of {release.m} data sets the target is a component of its own, "
                "whose total is its value: a singleton disclosure"
            )
    return "; ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """A scene, and how to sample what it asks for; in ``full`` how often all was occupied."""

    attack: AttackScenario
    rng: Rng
    progress: Progress | None
    full: list[float] = field(default_factory=list)

    def learnt(self, units: Units, stage: str, *, share: int = 1) -> ClassPosterior:
        """Classes learnt from units, by chains as long as the fit's (or a share of them)."""
        fit, sampling = self.attack.fit, self.rng.spawn(2)
        size = max(fit.n_draws // fit.n_chains // share, 4)
        thin = max(fit.posterior.thin // share, 1)
        tick = Ticker(self.progress, stage, fit.n_chains * size)
        how: Any = {"n_draws": size, "tune": max(size * thin // 4, 100), "thin": thin, "tick": tick}
        drawn = fit.posterior.refitted(units, rng=sampling[0], **how).draws
        self.full.append(float((drawn.n_occupied == fit.prior.n_classes).mean()))
        kept = self.attack.hows[0].conditional & (units.given is not None)
        return ClassPosterior.of(fit.prior, units, drawn, kept, rng=sampling[1])


def _less(parts: Sequence[Averaged], expected: Averaged) -> Averaged:
    """Log means over draws of each data set, less what was expected without it; (m, G)."""
    value, deviation, ess = zip(*parts, strict=True)
    return Averaged(
        np.stack([change(each, expected.value) for each in value]),
        np.sum(deviation, axis=0) - len(parts) * expected.deviation,
        min(*ess, expected.ess),
    )


def _second(work: _Work) -> Averaged:
    """An intruder who knows the second largest value."""
    attack = work.attack
    if attack.in_tail:
        log_p = np.zeros((attack.release.m, len(attack.guesses)))
        log_p[0], _ = log_sum_of_others(*_tail(attack))  # all show the same total: one says all
        return Averaged.exact(log_p)
    prior = before(work.attack.fit.prior, attack.question)
    if attack.deals and attack.intruder.groups == "known":
        each = []
        for l in range(attack.release.m):
            label = np.unique(attack.groups(l, attack.j), return_inverse=True)[1].reshape(1, -1)
            each.append(change(_dealt_to(attack, l, label)[0], prior))
        return Averaged.exact(np.stack(each))
    of_one = _dealt if attack.deals else _drawn
    parts = [of_one(work, l) for l in range(len(attack.hows))]
    return _less(parts, Averaged(prior, np.zeros(len(prior)), np.inf))


def _drawn(work: _Work, l: int) -> Averaged:
    """MP: the predictive of a further record; a known total has power 1 / m for each release."""
    attack, question = work.attack, work.attack.question
    rows = attack.hows[l].z.below(question.second)
    learnt = work.learnt(rows.units(), f"release {l + 1}")
    plain = learnt.averaged(further(learnt, question))
    if not attack.intruder.knows_totals:
        return plain
    total = float(attack.own.counts[:, attack.j].sum())
    rest = total - attack.second_value - question.guesses
    joint = learnt.averaged(with_total(learnt, question, rest, len(attack.own.counts) - 2))
    if attack.release.m == 1:
        return joint
    alone = learnt.averaged(with_total(learnt, question, None, 0))
    w = 1.0 / attack.release.m
    return Averaged(
        plain.value + w * change(joint.value, alone.value),
        plain.deviation + w * (joint.deviation - alone.deviation),
        min(plain.ess, joint.ess),
    )


def _dealt(work: _Work, l: int) -> Averaged:
    """MM, groups inferred: by the labels of a mixture learnt from the data set."""
    units = work.attack.hows[l].z.units()
    every = units.only(units.unit)  # each row has a label of its own
    learnt = work.learnt(every, f"release {l + 1}")
    return learnt.averaged(_dealt_to(work.attack, l, learnt.label))


def _dealt_to(attack: AttackScenario, l: int, label: npt.NDArray[np.integer]) -> Array:
    """MM: log p_h(y*, y_2 | groups and totals), (H, G)."""
    kept, whole = ~attack.synthesized, attack.knows_second_record
    first = attack.agree(attack.record, kept, levels=True)
    second = attack.agree(attack.runner_up, kept & whole, levels=whole)
    groups = Groups.of(attack.hows[l].z, label, first, second)
    return dealt(groups, attack.dealt_question(l))


def _tail(attack: AttackScenario) -> tuple[Array, int, Array, Array]:
    """What the others of the tail must add up to, how many, and the belief about each."""
    y = attack.own.counts[attack.groups(0, attack.j) == TAIL, attack.j]
    threshold = float(attack.thresholds(0)[0])
    knows_one = attack.second_value > threshold
    sums = float(y.sum()) - knows_one * attack.second_value - attack.question.guesses
    high = max(attack.second_value, threshold + 1.0)
    values, chances = belief(attack.intruder.others, threshold, high, attack.names[attack.j])
    return sums, len(y) - 1 - int(knows_one), values, chances


def _pair(work: _Work) -> Averaged:
    """An intruder who knows all records but two and their sum."""
    attack, m = work.attack, work.attack.release.m
    base = work.learnt(attack.known(None), "known records", share=2)
    if attack.deals:
        return _dealt_pair(attack, base)
    parts = []
    for l in range(m):
        learnt = work.learnt(attack.known(l), f"release {l + 1}", share=2)
        parts.append(learnt.averaged(pair_masses(learnt, attack.pair(l))))
    return _less(parts, base.averaged(pair_masses(base, attack.pair(None))))


def _dealt_pair(attack: AttackScenario, base: ClassPosterior) -> Averaged:
    """Groups known: exact but for the predictive that is divided by."""
    pair, value, deviation = attack.pair(None), [], np.zeros(1)
    truth = attack.own.counts[attack.record, attack.columns]
    for l in range(attack.release.m):
        groups = np.stack(
            [attack.groups(l, j)[attack.two] for j in attack.columns.tolist()], axis=1
        )
        columns, log_p = sharing_columns(groups), np.zeros((len(base.draws), len(pair.guesses)))
        if columns.any():  # log p(y*, T - y* | known) where the two share a component
            own: Any = {"columns": pair.columns[columns], "totals": pair.totals[columns]}
            log_p = pair_masses(base, replace(pair, guesses=pair.guesses[:, columns], **own))
        expected = base.averaged(log_p)
        value.append(dealt_to_pair(groups, attack.thresholds(l), pair, truth, expected.value))
        deviation = deviation - expected.deviation
    return Averaged(np.stack(value), deviation, float(len(base.draws)))
