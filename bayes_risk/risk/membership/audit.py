"""Membership: how well an intruder can tell that a record is in the confidential data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import betaincinv, expit

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.batches import standard_error
from bayes_risk._core.checkpoint import begin_work
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import in_range, positive, whole_number
from bayes_risk.data.base_result import OfRecords, draw
from bayes_risk.evidence.contract import Fit, Leaving, Progress, drawn_in_words
from bayes_risk.evidence.methods import LACKING, AuditQuestion, choose_method, shows_members
from bayes_risk.evidence.presence import alternatives_of
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.intruder.guesses import GuessSet, Itself
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import Release
from bayes_risk.risk.posterior import warn_of_unreliable

from .computation import (
    BASELINE,
    GRID,
    MEASURES,
    RATES,
    TIE,
    CaseTerms,
    Group,
    MembershipComputation,
    Others,
    Standing,
    curve_measures,
    level,
    power,
)
from .households import computations

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_MCSE = 1.0  # of a log Bayes factor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Membership(OfRecords):
    """Log Bayes factors that records are in the confidential data, against another person.

    Attributes
    ----------
    index, assumptions, seed_entropy
        As in `AttributeRisk`; labels as given, N of them, members first, then others.
    member : ndarray of bool, length N
        Whether the record is in the confidential data.
    log_bayes_factor, mcse : ndarray, shape (N,)
        Of a member, for its own place; of others, the mean over the places examined. Minus
        infinity: the release rules it out. Its Monte Carlo standard error.
    khat, ess, reliable : ndarray, shape (N,)
        As in `AttributeRisk`; k-hat and ESS are NaN for others, who share those of the places.
    standing : Standing, of arrays of one entry a member
        Where each stands among the others examined for the same place.
    prior_odds : float
        Odds of membership before the release.
    measures, standard_error, mcse_of_measures : ndarray, shape (6,)
        Of the curve: value, its error over which persons were examined (bootstrap), and over the
        draws. NaN without others.
    """

    member: Flags
    log_bayes_factor: Array
    mcse: Array
    khat: Array
    ess: Array
    reliable: Flags
    standing: Standing
    prior_odds: float
    measures: Array
    standard_error: Array
    mcse_of_measures: Array

    @property
    def records(self) -> pd.DataFrame:
        """One row per record examined, labelled as given; members first.

        Columns: ``member`` (is it in the data); ``log_bayes_factor``; its ``mcse``;
        ``posterior_odds`` (prior odds times the Bayes factor) and ``probability`` of membership;
        ``prior`` probability; ``false_positive_rate``, at which an intruder finds this member (0.5
        without the release; NaN for others); ``khat``; ``ess``; ``reliable``.
        """
        log_odds = np.log(self.prior_odds) + self.log_bayes_factor
        with np.errstate(over="ignore"):
            odds = np.exp(log_odds)
        found_at = np.full(len(odds), np.nan)
        if self.has_others:
            found_at[self.member] = level(self.standing)
        columns = {
            **{name: getattr(self, name) for name in ("member", "log_bayes_factor", "mcse")},
            "posterior_odds": odds,
            "probability": expit(log_odds),
            "prior": self.prior,
            "false_positive_rate": found_at,
            **{name: getattr(self, name) for name in ("khat", "ess", "reliable")},
        }
        return pd.DataFrame(columns, index=self.index)

    @property
    def prior(self) -> float:
        """Probability of membership before the release."""
        return self.prior_odds / (1 + self.prior_odds)

    @property
    def has_others(self) -> bool:
        """Whether people outside the data were examined."""
        return not self.member.all()

    def roc(self) -> pd.DataFrame:
        """Share of members found by an intruder who accepts that share of others for each place.

        Columns ``false_positive_rate`` and ``true_positive_rate``, on a grid from 0 to 1.
        """
        self._needs_others()
        rates = np.append(0.0, GRID)
        found = [power(self.standing, rate).mean() for rate in rates]
        return pd.DataFrame({"false_positive_rate": rates, "true_positive_rate": found})

    def empirical_epsilon(self, confidence: float = 0.95) -> pd.DataFrame:
        """The epsilon of differential privacy that explains the members found.

        An (epsilon, 0)-private mechanism keeps the true positive rate below ``exp(epsilon)`` times
        the false positive rate, and the same of their complements: epsilon is at least
        ``max(log(TPR / FPR), log((1 - FPR) / (1 - TPR)))``. Its interval is that of the true
        positive rate (Clopper and Pearson), for as many people as have its standard errors, over
        people and draws; the false positive rate is exact, as a member's rank among others is.
        Of these data and this release: no bound on the mechanism, and no guarantee.

        Parameters
        ----------
        confidence : float
            Of the interval, between 0 and 1.

        Returns
        -------
        DataFrame
            Indexed by ``false_positive_rate`` (0.01, 0.05); columns ``true_positive_rate``,
            ``epsilon``, ``low``, ``high``. Without the release epsilon is 0.

        Raises
        ------
        InputError
            No person outside the data was examined; a confidence outside (0, 1).

        Notes
        -----
        Jagielski, Ullman & Oprea (2020), NeurIPS 33, 22205-22216. No further draw is needed.
        """
        in_range("confidence", confidence)
        self._needs_others()
        rate, k = np.array(RATES), slice(1, 1 + len(RATES))  # after the area
        found, n = self.measures[k], np.full(len(rate), float(self.member.sum()))
        variance = self.standard_error[k] ** 2 + self.mcse_of_measures[k] ** 2
        known = (variance > 0) & (found > 0) & (found < 1)
        n[known] = np.minimum(n, found * (1 - found) / np.where(known, variance, 1.0))[known]
        yes, no, tail = n * found, n * (1 - found), (1 - confidence) / 2
        rates = {
            "epsilon": found,
            "low": np.where(yes > 0, betaincinv(np.maximum(yes, TIE), no + 1, tail), 0.0),
            "high": np.where(no > 0, betaincinv(yes + 1, np.maximum(no, TIE), 1 - tail), 1.0),
        }
        with np.errstate(divide="ignore"):  # of a share of 0 or 1
            epsilon = {
                name: np.maximum(np.log(share / rate), np.log((1 - rate) / (1 - share)))
                for name, share in rates.items()
            }
        index = pd.Index(rate, name="false_positive_rate")
        return pd.DataFrame({"true_positive_rate": found} | epsilon, index=index).clip(lower=0)

    def summary(self) -> pd.DataFrame:
        """File level; columns ``value``, ``standard_error``, ``mcse``, ``baseline``.

        Rows: ``auc`` (how often the release points to the member of a pair, which is the power
        averaged over all false positive rates); ``power_at_1_percent`` and ``power_at_5_percent``
        (share of members found at that false positive rate); ``advantage`` (true less false
        positive rate where that is largest, chosen afterwards, so above 0 even by chance) and
        ``advantage_at_one`` (where the intruder accepts anyone with a Bayes factor above 1);
        ``mean_bayes_factor_of_others`` (1 where the model is true); ``median_log_bayes_factor`` and
        ``max_log_bayes_factor`` of members; ``max_probability`` of a member's membership;
        ``members``, ``others``, ``unreliable`` (numbers of records). ``standard_error`` is over
        which persons were examined, ``mcse`` over the draws, and the baseline is what an
        intruder without the release can do.
        """
        of_curve = self.measures, self.standard_error, self.mcse_of_measures, BASELINE
        rows = dict(zip(MEASURES, zip(*of_curve, strict=True), strict=True))
        log_bf = np.where(self.member, self.log_bayes_factor, -np.inf)
        top, error, nan = log_bf.max(), self.mcse[int(np.argmax(log_bf))], np.nan
        p = expit(np.log(self.prior_odds) + top)
        median = np.median(self.log_bayes_factor[self.member])
        rows |= {
            "median_log_bayes_factor": (median, nan, nan, 0.0),
            "max_log_bayes_factor": (top, nan, error, 0.0),
            "max_probability": (p, nan, p * (1 - p) * error, self.prior),
            "members": (self.member.sum(), nan, nan, nan),
            "others": ((~self.member).sum(), nan, nan, nan),
            "unreliable": ((~self.reliable).sum(), nan, nan, nan),
        }
        columns = ["value", "standard_error", "mcse", "baseline"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns).astype(float)

    def plot(self, ax: "Axes | None" = None, *, log: bool = False) -> "Axes":
        """The curve of `roc`; ``log``: on logarithmic axes, which show the small rates."""
        return draw("plot_roc", self, log=log, ax=ax)

    def _needs_others(self) -> None:
        if not self.has_others:
            raise InputError(
                "no person outside the data was examined; give others, held-out records of the "
                "same population"
            )


def _refusal(problem: AuditProblem) -> str:
    """Why membership is no question for a problem; or nothing."""
    who = problem.intruder
    if who.household == "composition":
        return 'household="composition" is not offered for membership; give "unknown"'
    if who.is_competitor or who.knows_columns:
        return (
            "an intruder who asks about membership has a whole record in mind; give "
            "knows_records alone: all-but-target, none, a fraction, a mask or labels"
        )
    model, cure = problem.capabilities.fit_for("household"), "use attribute_risk"
    if model is not None and model.id and problem.households is None:
        cure += ', or give household="unknown": is the household in the data?'
    return shows_members(problem, "membership", cure)


MEMBERS = AuditQuestion(
    methods=("predictive", "parts"),
    lacking=LACKING.format("membership"),
    households=True,
    refusal=_refusal,
)


@shows_progress
def membership(
    fit: Fit,
    release: Release,
    *,
    records: Any = None,
    others: pd.DataFrame | None = None,
    intruder: Intruder | None = None,
    prior_odds: float = 1.0,
    comparisons: int = 200,
    alternatives: int = 200,
    refit_budget: int = 10,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: ProgressOption = None,
) -> Membership:
    """Log Bayes factor that a record is in the confidential data, against another person.

    The intruder knows every record but one. The unknown record is either the candidate c or
    another person y', drawn from the model's predictive:
    ``BF = p(Z | A, c) / E[p(Z | A, y')] = prod_l r_l(c) / E[prod_l r_l(y')]`` with
    ``r_l(y) = p(y | A, Z^(l)) / p(y | A)``. Of one release the denominator is 1.

    Parameters
    ----------
    fit, release
        As in `attribute_risk`, all columns of all records synthesised.
    records : None, "all", int, list of labels, or mask
        Members to audit: all (None, "all"), that many drawn at random, or named. For each member, A
        is every other record.
    others : DataFrame, optional
        People outside the data, held out or hypothetical, with the columns of the table. Each
        member is compared with these people in the member's place, for an intruder who knows the
        same A.
    intruder : Intruder, optional
        ``knows_records``: every other record by default; ``"none"``, a fraction, a mask or labels
        if the release has one data set. With ``household="unknown"`` the household of each is what
        is not known: ``records`` name households by any of their persons, results by the first;
        others are households, compared with those of as many persons; nothing is refitted.
    prior_odds : float
        Odds of membership before the release.
    comparisons : int
        Number of others, at most, with whom a member is compared. If they have no more distinct
        values than this, all are used.
    alternatives : int
        How many alternatives y' are drawn for each candidate where there are several releases, at
        least 2. If the table has no more cells than that, all are listed and nothing is drawn.
    refit_budget, random_seed, n_jobs, progress
        As in `attribute_risk`.

    Raises
    ------
    InputError
        A release that leaves columns or records as they are; a fit without predictives, or of
        weighted records; others who cannot be encoded, or are the members for the most part; an
        intruder who is not offered.

    Warns
    -----
    UnreliableWeightsWarning
        Some log Bayes factors have a k-hat above `khat_threshold` or an error above 1.

    Notes
    -----
    Derivation, and which comparison is fair: `docs/membership.md`. Distinct cases are computed
    once. Cost: m augmented fits, then for U places H x U x (1 + comparisons + alternatives)
    predictives per fit (without alternatives if m = 1), in blocks of places.
    """
    positive("prior_odds", prior_odds)
    whole_number("comparisons", comparisons)
    whole_number("alternatives", alternatives)
    whole_number("refit_budget", refit_budget)
    rng = np.random.default_rng(random_seed)
    choose, turns, draw, knowing, sampling, asking, samples = rng.spawn(7)
    others = None if isinstance(others, pd.DataFrame) and not len(others) else others
    problem = AuditProblem.prepare(
        fit, release, intruder, Itself(), records, choose=choose, knowing=knowing, name="records"
    )
    if (leaving := problem.capabilities.fit_for("left-out")) is not None:
        return _of_runs(leaving, problem, others, prior_odds, sampling, n_jobs, progress)
    method = choose_method(problem, question=MEMBERS)
    begin_work()
    runner = EvidenceRunner(problem, method.offer, sampling, n_jobs, progress)
    if problem.households is not None:
        counts = comparisons, alternatives
        groups = computations(problem, runner, others, counts, (turns, draw, asking))
        return _found(problem, runner, groups, others, prior_odds, samples, rng)
    # whole records are guessed, in the order of the table's columns
    data, theirs = fit.microdata, None if others is None else others.index
    guesses = GuessSet.of(problem.cases.profiles[None])
    cases = replace(problem.cases, columns=np.arange(len(data.columns)), guesses=guesses)
    people = None if others is None else data.encode(others, "others")
    of = data.codes, (data.index, theirs)
    compared = Others.of(people, *of, len(cases), comparisons, turns)  # type: ignore[arg-type]
    posteriors, other = runner.fits(cases), None
    if len(release.by_draw) > 1 or release.classes == "own":  # else their mean is 1
        other = alternatives_of(runner.drawing(cases), len(cases), alternatives, draw)
    computation = MembershipComputation(
        runner=runner,
        posteriors=posteriors,
        cases=cases,
        counts=np.bincount(problem.case, minlength=len(cases)).astype(float),
        others=compared,
        alternatives=other,
        budget=refit_budget,
        rng=asking,
    )
    group = Group(problem.rows, problem.case, np.arange(len(compared.person)), computation)
    return _found(problem, runner, [group], others, prior_odds, samples, rng)


def _found(
    problem: AuditProblem,
    runner: EvidenceRunner,
    groups: Sequence[Group],
    others: pd.DataFrame | None,
    prior_odds: float,
    samples: Rng,
    rng: Rng,
) -> Membership:
    """What the computations of all groups say together."""
    answers = [group.computation.answers() for group in groups]
    members = CaseTerms(*map(_joined, zip(*(terms for terms, _, _ in answers), strict=True)))
    case = _joined([g.case + s for g, s in zip(groups, _starts(groups), strict=True)])
    most = max(groups, key=lambda group: len(group.others)).computation
    whole = replace(most, counts=_joined([g.computation.counts for g in groups]))
    found, over_people, over_draws = whole.curve(members, samples)
    each = list(zip(groups, answers, strict=True))
    theirs = _joined([mean[g.computation.others.person] for g, (_, mean, _) in each])
    their_mcse = _joined([error[g.computation.others.person] for g, (_, _, error) in each])
    unknown = np.full(len(theirs), np.nan)  # of others
    mcse = np.append(members.mcse[case], their_mcse)
    khat = np.append(members.khat[case], unknown)
    reliable = ~(khat > runner.threshold) & (mcse <= MAX_MCSE)
    warn_of_unreliable(
        reliable,
        f"largest k-hat {np.nanmax(khat):.2f}, largest Monte Carlo error {np.max(mcse):.2f}",
        "give a larger refit_budget, or a fit with more draws"
        if problem.households is None
        else "give a fit with more draws",
        what="log Bayes factors",
    )
    labels = problem.fit.microdata.index[_joined([g.rows for g in groups])]
    if others is not None:
        labels = labels.append(others.index[_joined([g.others for g in groups])])
    alone = sorted({g.size for g in groups if others is not None and not len(g.others)})
    unit = "record" if problem.households is None else "household"
    another = "person" if unit == "record" else "household of as many persons"
    return Membership(
        index=labels,
        member=np.arange(len(mcse)) < len(case),
        log_bayes_factor=np.append(members.log_bf[case], theirs),
        mcse=mcse,
        khat=khat,
        ess=np.append(members.ess[case], unknown),
        reliable=reliable,
        standing=Standing(*members.found[:, case]),
        prior_odds=float(prior_odds),
        measures=found,
        standard_error=over_people,
        mcse_of_measures=over_draws,
        assumptions={
            "records": problem.intruder.in_words(),
            "question": f"whether the {unit} that is not known is the candidate, or another "
            f"{another} whom the model would draw",
            "synthesis": problem.fit.mechanism(problem.release),
            "alternatives": whole.alternatives_in_words,
            **({"others": f"none of {', '.join(map(str, alone))} persons"} if alone else {}),
            "releases": drawn_in_words(problem.fit, problem.release),
        },
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
    )


def _joined(arrays: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(list(arrays), axis=-1)


def _starts(groups: Sequence[Group]) -> Ints:
    """Where the cases of each begin among all."""
    return np.cumsum([0, *(len(g.computation.cases) for g in groups[:-1])])


RESAMPLES = 200  # of runs


def _of_runs(
    fit: Leaving,
    problem: AuditProblem,
    others: pd.DataFrame | None,
    prior_odds: float,
    rng: Rng,
    n_jobs: int,
    progress: Progress | None,
) -> Membership:
    """Membership from runs of the generator in which a random share of the records is left out."""
    if why := _refusal(problem):
        raise InputError(why)
    if others is not None:
        raise InputError("others", "are the records that runs leave out here; leave it out")
    if problem.intruder.knows_less:
        raise InputError(
            "knows_records",
            problem.intruder.knows_records,
            'is not offered for membership from runs; give "all-but-target"',
        )
    begin_work()
    sampling, resampling = rng.spawn(2)
    found = fit.left_out(problem.release, rng=sampling, n_jobs=n_jobs, progress=progress)
    out = ~found.inside
    measures = _against_left_out(found.held_out[found.inside], found.held_out[out])
    again, runs = [], int(found.run.max()) + 1
    for _ in range(RESAMPLES):
        some = resampling.multinomial(runs, np.full(runs, 1 / runs))
        factors = np.repeat(found.held_out, some[found.run])
        inside = np.repeat(found.inside, some[found.run])
        again.append(_against_left_out(factors[inside], factors[~inside])[0])
    rows, labels = problem.rows, problem.release.microdata.index
    people, at = np.unique(found.record[out], return_inverse=True)
    count = np.bincount(at)
    theirs = np.bincount(at, found.held_out[out]) / count
    spread = np.sqrt(np.bincount(at, (found.held_out[out] - theirs[at]) ** 2) / count**2)
    mcse = np.append(standard_error(found.deviations[None][..., rows], few=False), spread)
    own = found.log_bayes_factor[rows]
    unknown = np.full(len(people), np.nan)
    return Membership(
        index=labels[rows].append(pd.Index([f"{label} (left out)" for label in labels[people]])),
        member=np.arange(len(mcse)) < len(rows),
        log_bayes_factor=np.append(own, theirs),
        mcse=mcse,
        khat=np.append(np.zeros(len(rows)), unknown),
        ess=np.append(np.full(len(rows), np.inf), unknown),
        reliable=mcse <= MAX_MCSE,
        standing=_against_left_out(own, found.held_out[out])[1],
        prior_odds=float(prior_odds),
        measures=measures[0],
        standard_error=np.std(again, axis=0, ddof=1),
        mcse_of_measures=np.zeros(len(MEASURES)),
        assumptions={
            "records": problem.intruder.in_words(),
            "question": "whether the candidate is in the data, or was left out of them",
            "synthesis": problem.fit.mechanism(problem.release),
            "alternatives": f"{len(people):,} records left out of {runs} runs of the generator; "
            "the curve is of these runs, and the result is a lower bound",
            "releases": drawn_in_words(problem.fit, problem.release),
        },
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
    )


def _against_left_out(inside: Array, outside: Array) -> tuple[Array, Standing]:
    """`MEASURES` of members (U,) among people who were left out (K,), and where each stands."""
    line = np.sort(outside)
    below, upto = np.searchsorted(line, inside - TIE), np.searchsorted(line, inside + TIE, "right")
    K = np.full(len(inside), float(len(line)))
    at = Standing(
        above=K - upto,
        equal=(upto - below).astype(float),
        compared=K,
        gain=np.asarray((inside > TIE) - float((outside > TIE).mean()), dtype=float),
        factor=np.full(len(inside), float(np.exp(outside).mean())),
    )
    return curve_measures(at, np.ones(len(inside))), at
