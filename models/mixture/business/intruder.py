"""Evidence of releases of a Poisson mixture, for business competitors.

They know the second largest value, or all records but two (Wei & Reiter 2016). All records that
they do not know are integrated out. Where an approximation is used, `weaker_in_words` names it.
What contradicts the data or the release is refused first.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError, TruncationWarning
from bayes_risk._core.logspace import change
from bayes_risk.evidence.contract import Progress, Simulated, Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.mixture.sampler import run_chains
from bayes_risk.models.mixture.state import Units
from bayes_risk.release.release import EncodedRelease

from .all_but_two import Pair, dealt_to_pair, pair_masses, together
from .class_posterior import ClassPosterior
from .largest_value import belief, is_exact, log_sum_of_others
from .scenario import AttackScenario
from .second_largest import Averaged, Groups, averaged, before, dealt, further, with_total
from .totals import TAIL

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SOMETIMES = 0.05  # share of draws with every component occupied from which the truncation binds


def check(scene: AttackScenario, fit: Any) -> None:
    """Whether all this can be.

    Raises
    ------
    InputError
        A target that does not hold the largest value, or that is ``other``; totals that are not
        those of the data; groups missing, or whose totals the release does not keep; structural
        zeros where they are not offered.
    """
    intruder, label = scene.intruder, fit.microdata.index[scene.record]
    largest = scene.own.counts[scene.record, scene.j]
    if scene.other == scene.record:
        raise InputError(f"other={intruder.other!r} is the target; name another record")
    if not scene.release.replaced.all():
        raise InputError(
            f"knows_records={intruder.knows_records!r} is offered for releases of which every "
            "record was replaced"
        )
    if fit.prior.inflation is not None and (
        scene.other is not None or scene.known_columns[scene.synthesized].any()
    ):
        raise InputError(
            "a mixture with structural zeros offers intruders who know the second largest and "
            "no column of the target; fit without zeros"
        )
    if intruder.largest is not None and largest < scene.second_value:
        raise InputError(
            f"target {label!r} has {largest:.0f} in {scene.name!r}, and another record has "
            f"{scene.second_value:.0f}: the data break the order that the intruder "
            "knows; leave targets= out to audit the largest"
        )
    _check_totals(scene)
    if scene.deals:
        _check_groups(scene, fit.model.kind)


def _check_totals(scene: AttackScenario) -> None:
    given = scene.intruder.knows_totals
    if not isinstance(given, Mapping):
        return
    for name, total in given.items():
        if name not in scene.names:
            raise InputError(
                f"knows_totals names column {name!r}, which is no count; counts are "
                f"{list(scene.names)}"
            )
        true = scene.own.counts[:, scene.names.index(name)].sum()
        if float(total) != true:
            raise InputError(
                f"knows_totals gives {total:g} for column {name!r}, and the data add up to "
                f"{true:.0f}: they contradict; give the data's total, or knows_totals=True"
            )


def _check_groups(scene: AttackScenario, kind: str) -> None:
    """Whether the groups that the intruder knows are there, and keep their totals."""
    groups, inferred = scene.release.groups, scene.intruder.groups == "inferred"
    if inferred and (kind == "TCMM" or (groups is not None and (groups == TAIL).any())):
        raise InputError(
            'groups="inferred" is not offered where a tail was collapsed; give groups="known"'
        )
    if groups is None:
        if not inferred:
            raise InputError(
                'the release has no groups, and groups="known" needs them: keep the Release '
                'that synthesize made, or give Intruder(groups="inferred")'
            )
        return
    for l in range(scene.release.m):
        for q, name in enumerate(scene.release.synthesized):
            j, label = scene.names.index(name), np.unique(groups[l, :, q], return_inverse=True)[1]
            moved = scene.hows[l].z.counts[:, j] - scene.own.counts[:, j]
            if np.bincount(label.reshape(-1), moved).any():
                raise InputError(
                    f"column {name!r} of release {l + 1} does not keep the confidential totals "
                    "of its groups: they contradict the data; give the release as it was made"
                )


def weaker(
    fit: Any,
    intruder: Intruder,
    release: EncodedRelease,
    targets: Targets,
    *,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Simulated:
    """log p(Z^(l) | y*, A), shape (m, G, U), for an intruder who does not know all other records.

    Raises
    ------
    InputError
        A target that does not hold the largest value; totals that contradict the data; a release
        whose groups are needed and not there.

    Warns
    -----
    TruncationWarning
        All components were occupied in some fit: values far from all of them then are thought
        impossible. The effective number of draws is set to 0, which marks the target unreliable.
    """
    found = []
    for u, child in enumerate(rng.spawn(len(targets))):
        scene = AttackScenario.of(fit, intruder, release, targets, u)
        check(scene, fit)
        work = _Work(fit=fit, scene=scene, rng=child, progress=progress)
        one = _pair(work) if scene.other is not None else _second(work)
        found.append(_trusted(_ordered(one, scene), work))
    return Simulated(
        np.stack([f.value for f in found], axis=2),
        np.stack([f.deviation for f in found], axis=2),
        np.array([f.ess for f in found]),
    )


def weaker_in_words(fit: Any, intruder: Intruder, release: EncodedRelease, targets: Targets) -> str:
    """What is approximated in `weaker`, and what is disclosed for certain, one phrase."""
    scene = AttackScenario.of(fit, intruder, release, targets, 0)
    check(scene, fit)
    words = ["weaker: unknown records integrated out; synthetic rows are matched to nobody"]
    if scene.other is not None:
        words = ["weaker: fits without the two records"]
        if scene.deals:
            words = ["weaker: which records share a total is known to the intruder"]
    elif scene.in_tail:
        sums, n, values, _ = _tail(scene)
        exact = is_exact(n, len(values))
        how = "by convolution" if exact else f"by a saddlepoint, relative error of order 1/{n}"
        words = [f"weaker: the total of the tail less {n} independent unknown values, {how}"]
        if n == 0:
            words = ["weaker: nobody else is in the tail; its total discloses the target"]
    elif release.m > 1:
        words.append("as if the unknown records were drawn anew for each release (approximate)")
    if intruder.knows_totals and scene.other is None and not scene.deals:
        words.append("the sum of the others taken as normal (approximate)")
    return "; ".join(words + _singletons(scene))


def _singletons(scene: AttackScenario) -> list[str]:
    """Groups of one that hold a target: their totals are its values."""
    if scene.release.groups is None or scene.in_tail:
        return []
    groups = [scene.partition(l) for l in range(scene.release.m)]
    alone = sum(int((group == group[scene.record]).sum() == 1) for group in groups)
    if not alone:
        return []
    return [
        f"in {alone} of {scene.release.m} data sets the target is a component of its own, "
        "whose total is its value: a singleton disclosure"
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """A scene, and how to sample what it asks for; in ``full`` how often all was occupied."""

    fit: Any
    scene: AttackScenario
    rng: np.random.Generator
    progress: Progress | None
    full: list[float] = field(default_factory=list)

    def learnt(self, units: Units, stage: str, *, share: int = 1) -> ClassPosterior:
        """Classes learnt from units, by chains as long as the fit's (or a share of them)."""
        draws, fit = self.fit.draws, self.fit
        C, sampling = draws.n_chains, self.rng.spawn(2)
        size = max(len(draws) // C // share, 4)
        thin = max(fit.posterior.thin // share, 1)
        drawn = run_chains(
            fit.prior,
            units,
            [draws.last(c) for c in range(C)],
            draws=size,
            tune=max(size * thin // 4, 100),
            thin=thin,
            rng=sampling[0],
            tick=ticker(self.progress, stage, C * size),
        )
        self.full.append(float((drawn.n_occupied == fit.prior.n_classes).mean()))
        kept = self.scene.hows[0].conditional & (units.given is not None)
        return ClassPosterior.of(fit.prior, units, drawn, kept, rng=sampling[1])


def _exact(log_p: Array) -> Averaged:
    """Log evidence (m, G) without a Monte Carlo error."""
    return Averaged(value=log_p, deviation=np.zeros((2, log_p.shape[1])), ess=np.inf)


def _ordered(found: Averaged, scene: AttackScenario) -> Averaged:
    """Guesses that break the order are impossible."""
    return replace(
        found,
        value=np.where(scene.in_order, found.value, -np.inf),
        deviation=np.where(scene.in_order, found.deviation, 0.0),
    )


def _trusted(found: Averaged, work: _Work) -> Averaged:
    """Without effective draws where the truncation binds in a fit of several components."""
    K, worst = work.fit.prior.n_classes, max(work.full, default=0.0)
    if K == 1 or worst <= SOMETIMES:
        return found
    warnings.warn(
        f"all n_classes={K} components are occupied in {100 * worst:.0f} % of draws given the "
        "release: the truncation binds, and values far from all components are thought impossible; "
        "fit with more classes",
        TruncationWarning,
        stacklevel=4,
    )
    return replace(found, ess=0.0)


def _less(parts: Sequence[Averaged], expected: Averaged) -> Averaged:
    """Log means over draws of each data set, less what was expected without it; (m, G)."""
    deviation = np.sum([p.deviation for p in parts], axis=0)
    return Averaged(
        value=np.stack([change(p.value, expected.value) for p in parts]),
        deviation=deviation - len(parts) * expected.deviation,
        ess=min(p.ess for p in (*parts, expected)),
    )


def _second(work: _Work) -> Averaged:
    """An intruder who knows the second largest value."""
    scene = work.scene
    if scene.in_tail:
        log_p = np.zeros((scene.release.m, len(scene.guesses)))
        log_p[0], _ = log_sum_of_others(
            *_tail(scene)
        )  # all show the same total: the first says all
        return _exact(log_p)
    prior = before(work.fit.prior, scene.question)
    if scene.deals and scene.intruder.groups == "known":
        each = [_dealt_to(scene, l, scene.partition(l)[None])[0] for l in range(len(scene.hows))]
        return _exact(np.stack([change(x, prior) for x in each]))
    of_one = _dealt if scene.deals else _drawn
    parts = [of_one(work, l) for l in range(len(scene.hows))]
    return _less(parts, Averaged(value=prior, deviation=np.zeros(len(prior)), ess=np.inf))


def _drawn(work: _Work, l: int) -> Averaged:
    """MP: the predictive of a further record, after the release and what is known.

    A known total is weighed with a power 1 / m for each release, so that it counts once.
    """
    scene, question = work.scene, work.scene.question
    rows = scene.hows[l].z.below(question.second)
    learnt = work.learnt(rows.units(), f"release {l + 1}")
    plain = averaged(further(learnt, question), learnt.batch)
    if not scene.intruder.knows_totals:
        return plain
    rest = scene.total - scene.second_value - question.guesses
    joint = averaged(with_total(learnt, question, rest, scene.n - 2), learnt.batch)
    if scene.release.m == 1:
        return joint
    alone = averaged(with_total(learnt, question, None, 0), learnt.batch)
    w = 1.0 / scene.release.m
    return Averaged(
        value=plain.value + w * change(joint.value, alone.value),
        deviation=plain.deviation + w * (joint.deviation - alone.deviation),
        ess=min(plain.ess, joint.ess),
    )


def _dealt(work: _Work, l: int) -> Averaged:
    """MM, groups inferred: by the labels of a mixture learnt from the data set."""
    units = work.scene.hows[l].z.units()
    every = units.only(units.unit)  # each row has a label of its own
    learnt = work.learnt(every, f"release {l + 1}")
    return averaged(_dealt_to(work.scene, l, learnt.label), learnt.batch)


def _dealt_to(scene: AttackScenario, l: int, label: npt.NDArray[np.integer]) -> Array:
    """MM: log p_h(y*, y_2 | groups and totals), (H, G)."""
    groups = Groups.of(scene.hows[l].z, label, scene.may_be_target, scene.may_be_second)
    return dealt(groups, scene.dealt_question(l))


def _tail(scene: AttackScenario) -> tuple[Array, int, Array, Array]:
    """What the others of the tail must add up to, how many, and the belief about each."""
    total, size, threshold = scene.tail
    knows_one = scene.second_value > threshold
    sums = total - knows_one * scene.second_value - scene.question.guesses
    high = max(scene.second_value, threshold + 1.0)
    values, chances = belief(scene.intruder.others, threshold, high, scene.name)
    return sums, size - 1 - int(knows_one), values, chances


def _pair(work: _Work) -> Averaged:
    """An intruder who knows all records but two and their sum."""
    scene, m = work.scene, work.scene.release.m
    base = work.learnt(scene.known(None), "known records", share=2)
    if scene.deals:
        return _dealt_pair(scene, base)
    parts = []
    for l in range(m):
        learnt = work.learnt(scene.known(l), f"release {l + 1}", share=2)
        parts.append(averaged(pair_masses(learnt, scene.pair(l)), learnt.batch))
    return _less(parts, averaged(pair_masses(base, scene.pair(None)), base.batch))


def _dealt_pair(scene: AttackScenario, base: ClassPosterior) -> Averaged:
    """Groups known: exact but for the predictive that is divided by."""
    pair, each = scene.pair(None), [scene.groups_of_pair(l) for l in range(scene.release.m)]
    expected = [_expected(base, pair, together(groups)) for groups in each]
    log_p = [
        dealt_to_pair(groups, scene.thresholds(l), pair, scene.truth, expected[l].value)
        for l, groups in enumerate(each)
    ]
    deviation = -np.sum([e.deviation for e in expected], axis=0)
    return Averaged(value=np.stack(log_p), deviation=deviation, ess=float(len(base.batch)))


def _expected(base: ClassPosterior, pair: Pair, columns: npt.NDArray[np.bool_]) -> Averaged:
    """log p(y*, T - y* | known) of the columns in which the two share a component."""
    log_p = np.zeros((len(base.batch), len(pair.guesses)))
    return averaged(pair_masses(base, pair.of(columns)) if columns.any() else log_p, base.batch)
