"""Whether a record is in the file: Bayes factors against another person, and evidence with them.

``log BF = sum_l log r_l(c) - log E[prod_l r_l(y')]`` with ``r_l = p(. | A, Z^(l)) / p(. | A)`` and
``y'`` from ``p(. | A)``; derivation: `docs/membership.md`. Where the target is in the file with
probability pi, ``p(Z | y*, A)`` is proportional to ``pi BF(y*) + 1 - pi``: the record in its place
is the target's, or another person's.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Ints, Rng
from bayes_risk._core.logspace import change, log_sum
from bayes_risk.data.microdata import Codes
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.release.release import EncodedRelease

from .contract import Fit, Posterior, Targets
from .evidence import Evidence, relative_to_truth
from .leave_one_out import Ratio, added_parts, leave_one_out

AT_ONCE = 25  # synthetic data sets drawn at a time for alternatives
ALTERNATIVES = 200  # drawn for each place
ENOUGH_ROWS = 1_000  # of which alternatives are drawn, for places in turn
MAX_CASE_GUESSES = 2**18  # cases x guesses at a time
FEWEST = 64  # cases at a time, whatever the room
FIRST = 64  # targets whose draws tell how much chains repeat themselves


class Alternatives(NamedTuple):
    """Somebody else whom the model would draw for a place: rows of values."""

    codes: Codes  # shape (M, p)
    per_case: int  # how many of them each case takes, in turn; all of them if they are listed
    # whether they were drawn from p(y' | y); else they are all values that there can be
    drawn: bool

    def of(self, cases: Ints) -> Codes:
        """Those of cases by number, shape (L, cases, p)."""
        which, L = np.repeat(np.arange(self.per_case)[:, None], len(cases), axis=1), self.per_case
        if self.drawn:
            which = (which + L * cases) % len(self.codes)
        return np.asarray(self.codes[which])


def alternatives_of(
    fit: Fit,
    U: int,
    L: int,
    rng: np.random.Generator,
    units: Callable[[Codes], Codes] | None = None,
) -> Alternatives:
    """All cells of a small table, or L draws of p(y' | y) for each of U cases.

    ``units``: rows (..., n', p') of the households of tables (..., n, p), where cases are those.
    """
    levels = fit.microdata.n_levels
    if units is None and levels.all() and np.prod(levels.astype(float)) <= L:
        cells = np.indices(tuple(levels)).reshape(len(levels), -1).T
        return Alternatives(cells.astype(np.int32), len(cells), False)
    parts, done = [], 0
    how = {"parameters": "independent"} if "one-mode" in fit.parameters else {}  # of all chains
    while done < L:
        m = min(AT_ONCE, L - done, max(fit.n_draws, 1))
        tables, rows = rng.spawn(2)
        made = fit.synthesize(m, random_seed=tables, **how)
        drawn = EncodedRelease.of(made, fit.microdata).codes  # shape (m, n, p)
        drawn = drawn if units is None else units(drawn)
        n = drawn.shape[1]
        chosen = rows.permuted(np.repeat(np.arange(n)[None], m, axis=0), axis=1)[:, : min(U, n)]
        parts.append(drawn[np.arange(m)[:, None], chosen])
        done += m
    codes = np.concatenate(parts).swapaxes(0, 1)  # shape (rows, L, p): a case after the other
    return Alternatives(codes.reshape(-1, codes.shape[2]), L, True)


class MembershipOdds(NamedTuple):
    """Log Bayes factors of C candidates for each of U places, the member first."""

    log_bayes_factor: Array  # shape (C, U)
    deviations: npt.NDArray[np.float32]  # shape (F, B, C, U): by fit and batch of draws
    # shape (U,): what the drawn alternatives add to the variance; 0 where all are listed, or none
    # needed; and what each of them adds to its log, shape (L, U): none where they are listed
    variance_of_draws: Array
    influence: Array
    khat: Array  # shape (U,), as `ess`
    ess: Array


class Normaliser(NamedTuple):
    """log E[prod_l r_l(y')], its derivatives by the log predictives, and its sampling variance.

    ``by_base``, ``by_release`` (m of them) and ``influence`` have shape (L, U); the value moves by
    the mean influence of the alternatives in a sample less that of all.
    """

    log_value: Array
    by_base: Array
    by_release: Sequence[Array]
    variance: Array
    influence: Array


def odds(found: Sequence[Ratio], L: int, log_q: Array | None, linked: bool) -> MembershipOdds:
    """Log Bayes factors of candidates: the first C guesses, the last L being alternatives.

    ``found``: of the base fit, and of each of the m augmented ones, guesses (C + L, U). ``log_q``
    (L, U): log density that alternatives were drawn from; None: they are all that can be.
    ``linked``: the release ties values to the record itself; ratios are known up to constants only.
    """
    base, releases = found[0], found[1:]
    C = len(base.value) - L
    impossible = base.value == -np.inf
    log_r = [np.where(impossible, -np.inf, change(f.value, base.value)) for f in releases]
    value = np.sum([r[:C] for r in log_r], axis=0)
    deviations = np.stack([f.deviation[:, :C] for f in found])
    deviations[0] *= np.float32(-len(releases))
    variance, influence = np.zeros(value.shape[1]), np.zeros((0, value.shape[1]))
    if L:
        log_omega = base.value[C:] - (0.0 if log_q is None else log_q)
        n = normaliser(log_omega, [r[C:] for r in log_r], drawn=log_q is not None, linked=linked)
        value, variance = value - n.log_value, n.variance
        influence = n.influence if log_q is not None else influence
        for d, w, f in zip(deviations, [n.by_base, *n.by_release], found, strict=True):
            d -= np.einsum("lu,blu->bu", w, f.deviation[:, C:])[:, None].astype(np.float32)
    khat, ess = np.max([f.khat for f in found], axis=0), np.min([f.ess for f in found], axis=0)
    return MembershipOdds(value, deviations, variance, influence, khat, ess)


def normaliser(
    log_omega: Array, log_r: Sequence[Array], *, drawn: bool, linked: bool
) -> Normaliser:
    """Weighted mean over alternatives of prod_l r_l, shapes (L, U).

    Of draws their mean ``mean_k omega_k prod_l r_l(k)``, or, where its variance is smaller, with
    ``E[r_l] = 1`` as control: ``1 + mean omega (prod r - 1 - sum (r_l - 1))``. If ``linked``, r_l
    is known up to a constant, which cancels against that of the candidate.
    """
    m, L = len(log_r), len(log_omega)
    log_product = np.sum(log_r, axis=0)
    total = log_sum(log_omega + log_product)
    share = np.exp(log_omega + log_product - total)  # sums to one over alternatives
    by_base, nothing = (1.0 - m) * share, np.zeros(len(total))
    if linked:
        below = log_sum(log_omega)
        moved = share - (prior := np.exp(log_omega - below))
        variance = (moved**2).sum(axis=0) if drawn else nothing
        return Normaliser(total - below, by_base - prior, [share] * m, variance, moved * L)
    if not drawn:
        return Normaliser(total, by_base, [share] * m, nothing, share)
    plain = total - np.log(L), by_base, [share] * m, _variance_of_mean(share * L), share * L
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        omega, product = np.exp(log_omega), np.exp(log_product)
        r = [np.exp(x) for x in log_r]
        terms = omega * (product - 1.0 - np.sum([x - 1.0 for x in r], axis=0))
        value = 1.0 + terms.mean(axis=0)
        controlled = (
            np.log(np.where(value > 0, value, np.nan)),
            (1.0 - m) * omega * (product - 1.0) / (L * value),
            [omega * (product - x) / (L * value) for x in r],
            _variance_of_mean(terms / value),
            terms / value,
        )
    better = (controlled[3] < plain[3]) & np.isfinite(controlled[0])
    pairs: Any = zip(controlled, plain, strict=True)
    return Normaliser(*(np.where(better, a, b) for a, b in pairs))


def _variance_of_mean(terms: Array) -> Array:
    return np.asarray(terms.var(axis=0, ddof=1) / len(terms))


def predicted(
    posterior: Posterior, targets: Targets, *, rng: np.random.Generator, n_jobs: int
) -> Ratio:
    """log p(y* | A) of all guesses as such; targets not ``fitted`` are not taken out."""
    how: Any = {"to_truth": False, "first": FIRST}
    parts = posterior.predictives(targets, rng=rng)
    return added_parts([leave_one_out(part, targets, n_jobs, **how) for part in parts])


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """What turns predictives into evidence where the target may not be in the file.

    ``probability`` (n,): that each record's place is the target's; ``alternatives``: other people
    in it, None where their mean is 1; ``linked``: as in `odds`.
    """

    probability: Array
    alternatives: Alternatives | None
    linked: bool

    def targets_of(self, cases: Targets) -> Targets:
        """The guesses as whole records, then alternatives; in the order of the table's columns."""
        guesses, p = cases.guesses, cases.profiles.shape[1]
        others = self._others(cases)
        codes = np.repeat(cases.profiles[None], len(guesses.codes), axis=0)
        codes = codes.astype(np.result_type(codes, guesses.codes, others), copy=False)
        codes[..., cases.columns] = guesses.codes
        cells = np.zeros((len(codes), p), dtype=np.int64)
        cells[:, cases.columns] = guesses.cells
        each = cells.max(initial=0) + 1 + np.arange(len(others))
        cells = np.concatenate([cells, np.repeat(each[:, None], p, axis=1)])
        whole = GuessSet.of(np.concatenate([codes, others]), cells=cells)
        return replace(cases, columns=np.arange(p), guesses=replace(whole, truth=guesses.truth))

    def read(self, posterior: Posterior, target: Targets, rng: Rng) -> Ratio:
        """Log predictives of a fit that has not seen the target."""
        return predicted(posterior, unseen(self.targets_of(target)), rng=rng, n_jobs=1)

    def combined(
        self, start: Posterior, rng: Rng, n_jobs: int, ratios: Iterable[Ratio], m: int, to: Targets
    ) -> Evidence:
        """Evidence ``log(pi BF(y*) + 1 - pi)`` of all releases together, and its error.

        By first order: BF moves it by its share. What is drawn of the alternatives counts as one
        more fit. ``start``: the base posterior that alternatives were drawn from.
        """
        found, others, log_q = list(ratios), self._others(to), None
        if self.alternatives is not None and self.alternatives.drawn:
            drawn = replace(self.targets_of(to), guesses=GuessSet.of(others))
            log_q = predicted(start, unseen(drawn), rng=rng, n_jobs=n_jobs).value
        o, pi = odds(found, len(others), log_q, self.linked), self.probability[to.record]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_in = np.log(pi) + o.log_bayes_factor
            log_evidence = np.logaddexp(log_in, np.log1p(-pi))
            share = np.where(log_in > -np.inf, np.exp(log_in - log_evidence), 0.0)
        deviations = o.deviations * share.astype(np.float32)
        if len(o.influence):
            moved = np.stack([part.mean(axis=0) for part in _batches(o.influence, deviations)])
            more = share * (o.influence.mean(axis=0) - moved)[:, None]  # shape (B, G, U)
            deviations = np.concatenate([deviations, more[None].astype(np.float32)])
        G = len(log_evidence)
        truth = to.guesses.truth[None, None]
        own = found[0].deviation[:, :G]
        return relative_to_truth(
            to,
            log_evidence=log_evidence[None],
            deviations=deviations,
            khat=o.khat,
            ess=o.ess,
            base=found[0].value[:G],
            base_deviations=own - np.take_along_axis(own, truth, axis=1),
        )

    def _others(self, cases: Targets) -> Codes:
        if self.alternatives is None:
            return cases.profiles[None][:0]
        return self.alternatives.of(cases.record)

    def step(self, guesses: int) -> int:
        """Cases at a time."""
        extra = 0 if self.alternatives is None else self.alternatives.per_case
        return max(MAX_CASE_GUESSES // (guesses + extra), FEWEST)


def unseen(targets: Targets) -> Targets:
    """The same targets, of whom no fit has seen the record."""
    return replace(targets, fitted=np.zeros(len(targets), dtype=bool))


def _batches(influence: Array, deviations: npt.NDArray[Any]) -> list[Array]:
    """Alternatives in as many batches as the draws have."""
    B = min(deviations.shape[1], len(influence))
    return [influence[b::B] for b in range(B)]
