"""Evidence of releases of a Poisson mixture, for business competitors.

They know the second largest value, or all records but two (Wei & Reiter 2016). All records that
they do not know are integrated out. Where an approximation is used, `in_words` names it.
What contradicts the data or the release is refused first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import change
from bayes_risk.evidence.contract import Progress, Simulated, Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import Ticker
from bayes_risk.models.mixture.mixture import truncation_binds
from bayes_risk.models.mixture.state import Units
from bayes_risk.release.release import EncodedRelease

from .competitors import (
    TAIL,
    Averaged,
    ClassPosterior,
    Groups,
    before,
    dealt,
    dealt_to_pair,
    further,
    pair_masses,
    together,
    with_total,
)
from .scenario import AttackScenario

EXACT_UP_TO = 2**21  # cells of the convolution
TILTS = 64  # centres at which a convolution is taken
TRUSTED = 1e-9  # of the largest mass: below, rounding errors of the transform show
NODES = 4096  # support points of the saddlepoint's sums
EXPONENTS = np.linspace(0.0, 4.0, 17)  # of the power laws that a tail may follow


def belief(others: Any, low: float, high: float, column: str) -> tuple[Array, Array]:
    """Values (V,) of one other record of the tail, and S beliefs about them (S, V).

    By default power laws v ** -s for each s of `EXPONENTS`: what the total says of s is learnt.
    """
    values = np.arange(np.floor(low) + 1.0, np.floor(high) + 1.0)
    if others is None:
        relative = np.maximum(values, 0.5) / max(values[0], 0.5)
        powers = relative ** -EXPONENTS[:, None]
        return values, powers / powers.sum(axis=1, keepdims=True)
    if hasattr(others, "pmf"):
        chances = np.asarray(others.pmf(values), dtype=float)
    else:
        chances = np.asarray(others.cdf(values + 0.5) - others.cdf(values - 0.5), dtype=float)
    if not chances.sum() > 0:
        raise InputError(
            f"others gives no probability to values of {column!r} above the threshold and up to "
            "the second largest; give a belief that covers them"
        )
    return values, (chances / chances.sum())[None]


def log_sum_of_others(sums: Array, n: int, values: Array, chances: Array) -> tuple[Array, bool]:
    """log Pr(n values of `belief` add up to each of ``sums`` (G,)), and whether that is exact."""
    if n == 0:
        return np.where(sums == 0, 0.0, -np.inf), True
    steps = sums - n * values[0]  # in steps above the least possible sum
    possible = (steps >= 0) & (steps <= n * (len(values) - 1)) & (steps == np.round(steps))
    out = np.full(len(sums), -np.inf)
    exact = n * len(values) <= EXACT_UP_TO
    if possible.any():
        added = convolved if exact else saddlepoint
        with np.errstate(divide="ignore"):
            each = [added(steps[possible], n, np.log(row)) for row in chances]
        out[possible] = np.logaddexp.reduce(each, axis=0) - np.log(len(each))
    return out, exact


def convolved(steps: Array, n: int, log_chances: Array) -> Array:
    """log Pr(sum of n steps) on 0 .. V - 1, by Fourier transforms, tilted to where it is asked."""
    v = np.arange(len(log_chances), dtype=float)
    size = 1 << int(np.ceil(np.log2(n * (len(v) - 1) + 1)))
    out = np.full(len(steps), -np.inf)
    left = np.argsort(steps, kind="stable")
    for _ in range(TILTS):
        if not len(left):
            break
        centre = steps[left[len(left) // 2]]
        mean = float(np.clip(centre / n, 1e-6 * v[-1], (1.0 - 1e-6) * v[-1]))
        t = _tilted(mean, v, log_chances)[0] if len(v) > 1 else 0.0
        log_tilted = log_chances + t * v
        scale = np.logaddexp.reduce(log_tilted)
        spectrum = np.fft.rfft(np.exp(log_tilted - scale), size)
        mass = np.fft.irfft(spectrum**n, size)
        at = mass[steps[left].astype(np.int64)]
        good = at > TRUSTED * mass.max()
        here = left[good]
        out[here] = np.log(at[good]) + n * scale - t * steps[here]
        if not good.any():
            break
        left = left[~good]
    if len(left):
        out[left] = saddlepoint(steps[left], n, log_chances)
    return out


def saddlepoint(steps: Array, n: int, log_chances: Array) -> Array:
    """The same approximately: exp(n K(t) - t s) / sqrt(2 pi n K''(t)) with n K'(t) = s."""
    v, log_mass = np.arange(len(log_chances), dtype=float), log_chances
    if len(v) > NODES:  # neighbouring values taken together
        edges = np.linspace(0, len(v), NODES + 1).astype(int)[:-1]
        mass = np.add.reduceat(np.exp(log_chances), edges)
        v = np.add.reduceat(np.exp(log_chances) * v, edges) / np.maximum(mass, 1e-300)
        with np.errstate(divide="ignore"):
            log_mass = np.log(mass)
    out = np.empty(len(steps))
    for g, s in enumerate(steps):
        if s <= 0 or s >= n * (len(log_chances) - 1):
            out[g] = n * (log_chances[0] if s <= 0 else log_chances[-1])
            continue
        t, cumulant, variance = _tilted(s / n, v, log_mass)
        out[g] = n * cumulant - t * s - 0.5 * np.log(2 * np.pi * n * max(variance, 1e-12))
    return out


def _tilted(mean: float, v: Array, log_chances: Array) -> tuple[float, float, float]:
    """The tilt t with mean K'(t), K(t), K''(t), by bisection safeguarding Newton's steps."""
    low, high, t = -np.inf, np.inf, 0.0
    span = max(float(v[-1] - v[0]), 1.0)
    total = spread = 0.0
    for _ in range(200):
        log_w = log_chances + t * v
        total = float(np.logaddexp.reduce(log_w))
        w = np.exp(log_w - total)
        here = float(w @ v)
        spread = float(w @ (v - here) ** 2)
        if abs(here - mean) <= 1e-10 * span:
            break
        low, high = (t, high) if here < mean else (low, t)
        step = t + (mean - here) / max(spread, 1e-12 * span**2)
        if not low < step < high:
            step = t + np.sign(mean - here) * max(1.0 / span, abs(t))
            if np.isfinite(low) and np.isfinite(high):
                step = 0.5 * (low + high)
        t = step
    return t, total, spread


def check(scene: AttackScenario) -> None:
    """Refuse what contradicts the data or the release, and what is not offered."""
    intruder, fit = scene.intruder, scene.fit
    name = scene.names[scene.j]
    largest = scene.own.counts[scene.record, scene.j]
    if scene.other == scene.record:
        raise InputError("other", intruder.other, "is the target; name another record")
    if not scene.release.replaced.all():
        raise InputError(
            "knows_records",
            intruder.knows_records,
            "is offered for releases of which every record was replaced",
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
            f"a target does not have the largest {name!r}, as the intruder knows; "
            "leave targets out to audit the record that has"
        )
    _check_totals(scene)
    if scene.deals:
        _check_groups(scene)


def _check_totals(scene: AttackScenario) -> None:
    given = scene.intruder.knows_totals
    if not isinstance(given, Mapping):
        return
    for name, total in given.items():
        if name not in scene.names:
            raise InputError(
                "knows_totals",
                f"names column {name!r}, which is no count; counts are {list(scene.names)}",
            )
        if float(total) != scene.own.counts[:, scene.names.index(name)].sum():
            raise InputError(  # without the data's total, which is confidential
                ("knows_totals", name),
                total,
                "is not what the data add up to; give that, or true alone",
            )


def _check_groups(scene: AttackScenario) -> None:
    """Whether the groups that the intruder knows are there, and keep their totals."""
    groups, inferred = scene.release.groups, scene.intruder.groups == "inferred"
    if inferred and (
        scene.fit.model.kind == "TCMM" or (groups is not None and (groups == TAIL).any())
    ):
        raise InputError(
            "groups", "inferred", 'is not offered where a tail was collapsed; give "known"'
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
        scene = AttackScenario.of(fit, intruder, release, targets, u)
        check(scene)
        work = _Work(scene=scene, rng=child, progress=progress)
        one = _pair(work) if scene.other is not None else _second(work)
        value = np.where(scene.in_order, one.value, -np.inf)  # another order is impossible
        deviation = np.where(scene.in_order, one.deviation, 0.0)
        full = max(work.full, default=0.0)
        binds = truncation_binds(full, fit.prior.n_classes, " given the release")
        found.append((value, deviation, 0.0 if binds else one.ess))
    values, deviations, ess = zip(*found, strict=True)
    return Simulated(np.stack(values, axis=2), np.stack(deviations, axis=2), np.array(ess))


def in_words(fit: Any, intruder: Intruder, release: EncodedRelease, targets: Targets) -> str:
    """What is approximated in `evidence`, and what is disclosed for certain, one phrase."""
    scene = AttackScenario.of(fit, intruder, release, targets, 0)
    check(scene)
    words = ["weaker: unknown records integrated out; synthetic rows are matched to nobody"]
    if scene.other is not None:
        words = ["weaker: fits without the two records"]
        if scene.deals:
            words = ["weaker: which records share a total is known to the intruder"]
    elif scene.in_tail:
        sums, n, values, _ = _tail(scene)
        exact = n * len(values) <= EXACT_UP_TO
        how = "by convolution" if exact else f"by a saddlepoint, relative error of order 1/{n}"
        words = [f"weaker: the total of the tail less {n} independent unknown values, {how}"]
        if n == 0:
            words = ["weaker: nobody else is in the tail; its total discloses the target"]
    elif release.m > 1:
        words.append("as if the unknown records were drawn anew for each release (approximate)")
    if intruder.knows_totals and scene.other is None and not scene.deals:
        words.append("the sum of the others taken as normal (approximate)")
    if release.groups is not None and not scene.in_tail:
        groups = [scene.groups(l, scene.j) for l in range(release.m)]
        if alone := sum(int((group == group[scene.record]).sum() == 1) for group in groups):
            words.append(
                f"in {alone} of {release.m} data sets the target is a component of its own, "
                "whose total is its value: a singleton disclosure"
            )
    return "; ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """A scene, and how to sample what it asks for; in ``full`` how often all was occupied."""

    scene: AttackScenario
    rng: Rng
    progress: Progress | None
    full: list[float] = field(default_factory=list)

    def learnt(self, units: Units, stage: str, *, share: int = 1) -> ClassPosterior:
        """Classes learnt from units, by chains as long as the fit's (or a share of them)."""
        fit, sampling = self.scene.fit, self.rng.spawn(2)
        size = max(fit.n_draws // fit.n_chains // share, 4)
        thin = max(fit.posterior.thin // share, 1)
        tick = Ticker(self.progress, stage, fit.n_chains * size)
        how: Any = {"n_draws": size, "tune": max(size * thin // 4, 100), "thin": thin, "tick": tick}
        drawn = fit.posterior.refitted(units, rng=sampling[0], **how).draws
        self.full.append(float((drawn.n_occupied == fit.prior.n_classes).mean()))
        kept = self.scene.hows[0].conditional & (units.given is not None)
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
    scene = work.scene
    if scene.in_tail:
        log_p = np.zeros((scene.release.m, len(scene.guesses)))
        log_p[0], _ = log_sum_of_others(*_tail(scene))  # all show the same total: one says all
        return Averaged.exact(log_p)
    prior = before(work.scene.fit.prior, scene.question)
    if scene.deals and scene.intruder.groups == "known":
        each = []
        for l in range(scene.release.m):
            label = np.unique(scene.groups(l, scene.j), return_inverse=True)[1].reshape(1, -1)
            each.append(change(_dealt_to(scene, l, label)[0], prior))
        return Averaged.exact(np.stack(each))
    of_one = _dealt if scene.deals else _drawn
    parts = [of_one(work, l) for l in range(len(scene.hows))]
    return _less(parts, Averaged(prior, np.zeros(len(prior)), np.inf))


def _drawn(work: _Work, l: int) -> Averaged:
    """MP: the predictive of a further record; a known total has power 1 / m for each release."""
    scene, question = work.scene, work.scene.question
    rows = scene.hows[l].z.below(question.second)
    learnt = work.learnt(rows.units(), f"release {l + 1}")
    plain = learnt.averaged(further(learnt, question))
    if not scene.intruder.knows_totals:
        return plain
    total = float(scene.own.counts[:, scene.j].sum())
    rest = total - scene.second_value - question.guesses
    joint = learnt.averaged(with_total(learnt, question, rest, len(scene.own.counts) - 2))
    if scene.release.m == 1:
        return joint
    alone = learnt.averaged(with_total(learnt, question, None, 0))
    w = 1.0 / scene.release.m
    return Averaged(
        plain.value + w * change(joint.value, alone.value),
        plain.deviation + w * (joint.deviation - alone.deviation),
        min(plain.ess, joint.ess),
    )


def _dealt(work: _Work, l: int) -> Averaged:
    """MM, groups inferred: by the labels of a mixture learnt from the data set."""
    units = work.scene.hows[l].z.units()
    every = units.only(units.unit)  # each row has a label of its own
    learnt = work.learnt(every, f"release {l + 1}")
    return learnt.averaged(_dealt_to(work.scene, l, learnt.label))


def _dealt_to(scene: AttackScenario, l: int, label: npt.NDArray[np.integer]) -> Array:
    """MM: log p_h(y*, y_2 | groups and totals), (H, G)."""
    kept, whole = ~scene.synthesized, scene.knows_second_record
    first = scene.agree(scene.record, kept, levels=True)
    second = scene.agree(scene.runner_up, kept & whole, levels=whole)
    groups = Groups.of(scene.hows[l].z, label, first, second)
    return dealt(groups, scene.dealt_question(l))


def _tail(scene: AttackScenario) -> tuple[Array, int, Array, Array]:
    """What the others of the tail must add up to, how many, and the belief about each."""
    y = scene.own.counts[scene.groups(0, scene.j) == TAIL, scene.j]
    threshold = float(scene.thresholds(0)[0])
    knows_one = scene.second_value > threshold
    sums = float(y.sum()) - knows_one * scene.second_value - scene.question.guesses
    high = max(scene.second_value, threshold + 1.0)
    values, chances = belief(scene.intruder.others, threshold, high, scene.names[scene.j])
    return sums, len(y) - 1 - int(knows_one), values, chances


def _pair(work: _Work) -> Averaged:
    """An intruder who knows all records but two and their sum."""
    scene, m = work.scene, work.scene.release.m
    base = work.learnt(scene.known(None), "known records", share=2)
    if scene.deals:
        return _dealt_pair(scene, base)
    parts = []
    for l in range(m):
        learnt = work.learnt(scene.known(l), f"release {l + 1}", share=2)
        parts.append(learnt.averaged(pair_masses(learnt, scene.pair(l))))
    return _less(parts, base.averaged(pair_masses(base, scene.pair(None))))


def _dealt_pair(scene: AttackScenario, base: ClassPosterior) -> Averaged:
    """Groups known: exact but for the predictive that is divided by."""
    pair, value, deviation = scene.pair(None), [], np.zeros(1)
    truth = scene.own.counts[scene.record, scene.columns]
    for l in range(scene.release.m):
        groups = np.stack([scene.groups(l, j)[scene.two] for j in scene.columns.tolist()], axis=1)
        columns, log_p = together(groups), np.zeros((len(base.draws), len(pair.guesses)))
        if columns.any():  # log p(y*, T - y* | known) where the two share a component
            own: Any = {"columns": pair.columns[columns], "totals": pair.totals[columns]}
            log_p = pair_masses(base, replace(pair, guesses=pair.guesses[:, columns], **own))
        expected = base.averaged(log_p)
        value.append(dealt_to_pair(groups, scene.thresholds(l), pair, truth, expected.value))
        deviation = deviation - expected.deviation
    return Averaged(np.stack(value), deviation, float(len(base.draws)))
