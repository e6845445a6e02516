"""Attribute risk over the full table: where the truth stands among all values."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.checkpoint import begin_work
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import whole_number
from bayes_risk.data.base_result import OfTargets
from bayes_risk.evidence.contract import Fit, drawn_in_words
from bayes_risk.evidence.methods import AuditQuestion, EvidenceMethod, choose_method
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.intruder.guesses import Itself
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.intruder.priors import NAMED, TruthFactor, prior_in_words
from bayes_risk.release.release import Release
from bayes_risk.risk.posterior import MAX_MCSE, MAX_MCSE_LOG_ODDS, mcse_of_mean, warn_of_unreliable

from .tables import GuessTable, tabulated

MAX_CELLS = 100_000_000
PRIORS = ("predictive", "uniform", "marginal")
RANKS = ("mcse", "rank", "rank_low", "rank_high", "prior_rank", "within_1", "within_2")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FullTableRisk(OfTargets):
    """The intruder's posterior for each target over all values of the unknown columns.

    Attributes
    ----------
    index, assumptions, seed_entropy, case, variables, deviations, khat, ess, reliable, few_chains
        As in `AttributeRisk`: arrays live on cases.
    n_values, truth : ndarray of int, shape (n_cases,) and (n_cases, q)
        Number of values that are possible; codes of the true ones.
    log_prior, log_probability, mcse, mcse_log_odds : ndarray, shape (n_cases,)
        Of the truth; Monte Carlo standard errors of its probability, and of its log odds.
    rank, prior_rank : ndarray, shape (n_cases,)
        Expected rank of the truth among all values, 1 the likeliest; the same without the release.
    rank_low, rank_high : ndarray, shape (n_cases,)
        The rank, were the log odds of the truth two standard errors larger, or smaller.
    within_1, within_2 : ndarray, shape (n_cases,)
        Share of the posterior on values that differ from the truth in at most 1, or 2, variables.
    entropy, eps : ndarray, shape (n_cases,)
        Of the posterior, in nats; largest less smallest log evidence over all values.
    best, best_log_probability, best_log_prior : ndarray, shape (k, n_cases, q) and (k, n_cases)
        Codes of the likeliest values, and their logs.
    n_draws : tuple of int, length F
        Draws of each fit in use, the base fit first.
    """

    PICTURE: ClassVar[str] = "plot_full_table"
    deviations: Array
    khat: Array
    ess: Array
    reliable: Flags
    few_chains: bool = False
    n_values: Ints
    truth: Ints
    log_prior: Array
    log_probability: Array
    mcse: Array
    mcse_log_odds: Array
    rank: Array
    prior_rank: Array
    rank_low: Array
    rank_high: Array
    within_1: Array
    within_2: Array
    entropy: Array
    eps: Array
    best: Ints
    best_log_probability: Array
    best_log_prior: Array
    n_draws: tuple[int, ...]

    @property
    def records(self) -> pd.DataFrame:
        """One row per target, indexed as the input.

        Columns: ``prior`` and ``probability`` of the truth, ``mcse`` of the probability; ``rank``
        of the truth among all values (1: the likeliest; ties share their places), ``rank_low`` and
        ``rank_high`` (two standard errors either way) and ``prior_rank`` (without the release);
        ``within_1`` and ``within_2`` (share of the posterior that differs from the truth in at most
        1 or 2 variables); ``best`` (probability of the likeliest value) and ``best_distance`` (in
        how many variables it differs from the truth); ``entropy`` in nats and ``n_effective``, its
        exponential; ``eps`` (realised privacy loss over all values); ``khat``; ``ess``;
        ``reliable``.
        """
        columns = {
            "prior": np.exp(self.log_prior),
            "probability": np.exp(self.log_probability),
            **{name: getattr(self, name) for name in RANKS},
            "best": np.exp(self.best_log_probability[0]),
            "best_distance": (self.best[0] != self.truth).sum(axis=1),
            "entropy": self.entropy,
            "n_effective": np.exp(self.entropy),
            **{name: getattr(self, name) for name in ("eps", "khat", "ess", "reliable")},
        }
        return self.by_target(columns)

    def summary(self) -> pd.DataFrame:
        """File level: one row per measure, columns ``value``, ``mcse`` and ``baseline``.

        Rows: ``mean_probability``, ``max_probability`` of the truth; ``median_rank``,
        ``share_ranked_first`` and ``share_in_first_100``; ``mean_within_1``, ``mean_within_2``;
        ``median_n_effective``; ``max_eps``; ``values``; ``targets``; ``unreliable``. The baseline
        is what the intruder could state without the release.
        """
        table, none = self.records, np.nan
        worst = int(np.argmax(table["probability"]))
        p, prior, rank, before = (table[c] for c in ("probability", "prior", "rank", "prior_rank"))
        rows = {
            "mean_probability": (p.mean(), mcse_of_mean(self), prior.mean()),
            "max_probability": (p.max(), table["mcse"].iloc[worst], prior.max()),
            "median_rank": (rank.median(), none, before.median()),
            "share_ranked_first": ((rank < 1.5).mean(), none, (before < 1.5).mean()),
            "share_in_first_100": ((rank <= 100).mean(), none, (before <= 100).mean()),
            "mean_within_1": (table["within_1"].mean(), none, none),
            "mean_within_2": (table["within_2"].mean(), none, none),
            "median_n_effective": (table["n_effective"].median(), none, none),
            "max_eps": (table["eps"].max(), none, none),
            "values": (int(self.n_values.max()), none, none),
            "targets": (len(table), none, none),
            "unreliable": (int((~table["reliable"]).sum()), none, none),
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "mcse", "baseline"])

    def top(self, label: Hashable, k: int = 10) -> pd.DataFrame:
        """The likeliest values of one record, likeliest first; at most as many as were kept.

        Columns: the guessed variables, then ``prior``, ``probability``, ``distance`` (in how many
        variables it differs from the truth) and ``is_truth``. Contains confidential values.
        """
        u = int(self.case[self.position(label)])
        logs = self.best_log_prior[:k, u], self.best_log_probability[:k, u]
        return likeliest_values(self, self.best[:k, u], *logs, self.truth[u])

    @property
    def dataset(self) -> xr.Dataset:
        """All of it, labelled ``record, guess, variable``. Holds confidential values."""
        at, c = ("guess", "record"), self.case
        data = {
            "best_log_probability": (at, self.best_log_probability[:, c]),
            "best_log_prior": (at, self.best_log_prior[:, c]),
            "best_code": ((*at, "variable"), self.best[:, c]),
            "truth_code": (("record", "variable"), self.truth[c]),
        }
        return self.with_variables(data, {"guess": np.arange(1, len(self.best) + 1)})


def likeliest_values(
    result: OfTargets, codes: Ints, log_prior: Array, log_p: Array, truth: Ints
) -> pd.DataFrame:
    """Values (k, q) of a record, and how far each lies from the truth (q,)."""
    distance = (codes != truth).sum(axis=1)
    return result.decoded(codes.astype(np.int32)).assign(
        prior=np.exp(log_prior),
        probability=np.exp(log_p),
        distance=distance,
        is_truth=distance == 0,
    )


@shows_progress
def full_table_risk(
    fit: Fit,
    release: Release,
    *,
    targets: Any,
    prior: str | TruthFactor = "predictive",
    intruder: Intruder | None = None,
    draws: int | None = None,
    keep: int = 20,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: ProgressOption = None,
) -> FullTableRisk:
    """Posterior of the intruder over all values of the columns that the intruder does not know.

    As `attribute_risk`, with every combination of levels as a guess: the guesses give no hint of
    the truth.

    Parameters
    ----------
    fit, release, targets
        As in `attribute_risk`, of a model whose predictives are mixtures of products:
        `models.DPMPM`. Columns that were not synthesised stay at their true values. Each target
        costs one pass over the table.
    prior : {"predictive", "uniform", "marginal"} or TruthFactor
        What the intruder believes of all values beforehand. ``"predictive"``, the model's own
        p(y* | y_A), is the belief of one who knows the model. Under ``"uniform"`` most of the
        belief is in values that no record has and no model synthesises: see Notes.
    intruder : Intruder, optional
        As in `attribute_risk`. One who knows some records, with several releases: release by
        release, as ``evidence="independent-releases"``.
    draws : int, optional
        Draws of each augmented fit to use, spread evenly; of the base fit m times as many. By
        default as many as make about four seconds a target on one core. Their error is in ``mcse``.
    keep : int
        How many of the likeliest values to list for each target, at least 1.
    random_seed, n_jobs, progress
        As in `attribute_risk`.

    Raises
    ------
    InputError
        A model whose predictives are not mixtures of products; a table of more than 100 million
        values; records released unchanged; another prior.

    Notes
    -----
    Cost and memory: `docs/evidence.md`. Leave-one-out weights come from all draws. Error: between
    batches of chains; large under a uniform prior, where values that hardly any draw allows have a
    posterior in which the base fit's error counts m times. Records with k-hat above
    `khat_threshold` are marked and warned of, not fitted again.
    """
    if not (isinstance(prior, TruthFactor) or (isinstance(prior, str) and prior in PRIORS)):
        named = isinstance(prior, str) and prior in NAMED
        given = ("prior", prior) if named else ("prior",)
        raise InputError(
            *given,
            f"is for listed guesses and not offered over a full table; give one of {list(PRIORS)} "
            "or `TruthFactor(10)`",
        )
    whole_number("keep", keep)
    if draws is not None:
        whole_number("draws", draws)
    rng = np.random.default_rng(random_seed)
    choose, sampling, knowing, collapsing = rng.spawn(4)
    problem, method = problem_of(fit, release, intruder, targets, choose, knowing)
    cases = problem.cases
    table = GuessTable.of(fit.microdata.n_levels[cases.columns])
    if not 2 <= table.n_cells <= MAX_CELLS:
        raise InputError(
            f"the unknown columns have {table.n_cells:.3g} combinations of levels, and a full "
            f"table at least 2 and at most {MAX_CELLS:,}; name more or fewer columns in "
            "`knows_columns` (or search a larger one: `likeliest`)"
        )
    begin_work()
    runner = EvidenceRunner(problem, method.name, sampling, n_jobs, progress)
    parts = runner.tables(cases, collapsing.spawn)
    fits, found = tabulated(
        parts,
        cases,
        fit.microdata,
        prior,
        table,
        draws=draws,
        keep=keep,
        few_chains=runner.starts_from_release,
        n_jobs=n_jobs,
        tick=(lambda done: None if progress is None else progress("full table", done, len(cases))),
    )
    variables = tuple(fit.microdata.variables[j] for j in cases.columns)
    khat = np.max([of.khat for of in fits], axis=0)
    numbers: Any = {name: np.stack([of[name] for of in found], axis=-1) for name in found[0]}
    exact = (numbers["mcse"] <= MAX_MCSE) & (numbers["mcse_log_odds"] <= MAX_MCSE_LOG_ODDS)
    risk = FullTableRisk(
        index=fit.microdata.index[problem.rows],
        case=problem.case,
        variables=variables,
        truth=cases.profiles[:, cases.columns].astype(np.int64),
        khat=khat,
        ess=np.min([of.ess for of in fits], axis=0),
        reliable=(khat <= runner.threshold) & exact,
        n_draws=tuple(len(of.draws) for of in fits),
        few_chains=runner.starts_from_release,
        assumptions={
            "records": problem.knowledge(),
            "columns": f"guessed: {', '.join(v.name for v in variables)}",
            "synthesis": fit.mechanism(problem.release),
            "prior": prior_in_words(prior),
            "guesses": f"all {table.n_cells:,} combinations of their levels",
            "evidence": method.in_words,
            "releases": drawn_in_words(fit, problem.release),
        },
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        **numbers | {"best": table.codes(numbers["best"])},
    )
    warn_of_unreliable(
        risk.reliable[risk.case],
        f"largest k-hat {khat.max():.2f}, largest error of log odds {risk.mcse_log_odds.max():.2f}",
        'give more draws, a longer fit, or `prior="predictive"`',
    )
    return risk


def _refusal(problem: AuditProblem) -> str:
    """Why there is no full table for a problem; or nothing."""
    if problem.intruder.is_competitor:
        return (
            f"`knows_records={problem.intruder.knows_records!r}` asks about numbers, which have no "
            "table; leave the full table out (`attribute_risk`)"
        )
    if unchanged := int((~problem.release.replaced[problem.rows]).sum()):
        return (
            f"{unchanged} of {len(problem.rows)} targets were released unchanged: their values are "
            "known for certain; leave them out"
        )
    return ""


TABLES = AuditQuestion(
    methods=("predictive", "independent-releases"),
    takes=("full-table",),
    lacking="offers no full table: its predictives are not mixtures of products; use DPMPM "
    "(or list the values: `attribute_risk` with `guesses=Listed(table)`)",
    refusal=_refusal,
)


def problem_of(
    fit: Fit,
    release: Release,
    intruder: Intruder | None,
    targets: Any,
    choose: np.random.Generator,
    knowing: np.random.Generator,
) -> tuple[AuditProblem, EvidenceMethod]:
    """The audit, and the method that gives its evidence, if the model can tabulate it."""
    problem = AuditProblem.prepare(
        fit, release, intruder, Itself(), targets, choose=choose, knowing=knowing
    )
    return problem, choose_method(problem, question=TABLES)
