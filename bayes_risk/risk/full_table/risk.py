"""Attribute risk over the full table: where the truth stands among all values."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayes_risk._core.arrays import Flags
from bayes_risk._core.errors import InputError, UnreliableWeightsWarning
from bayes_risk._core.validate import at_least
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Fit, Progress, TablePredictive, Targets, drawn_in_words
from bayes_risk.evidence.methods import check_offered
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.intruder.guesses import Itself
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.intruder.priors import NAMED, TruthFactor, in_words
from bayes_risk.release.release import Release
from bayes_risk.risk.attribute import MAX_MCSE_LOG_ODDS
from bayes_risk.risk.posterior import MAX_MCSE

from .result import FullTableRisk
from .spread import Spread
from .tables import Table, WeightedDraws, draws_by_fit, spreads, weighed

MAX_CELLS = 100_000_000
PRIORS = ("predictive", "uniform", "marginal")
WAYS = {
    "predictive": "leave-one-out predictives before and after seeing the release",
    "independent-releases": "predictives before and after seeing each release, multiplied as if "
    "the releases did not share the records that are not known (an approximation)",
}


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
    progress: Progress | None = None,
) -> FullTableRisk:
    """Posterior of the intruder over all values of the columns that they do not know.

    ``Pr(Y_i = y* | Z, A, S)`` proportional to ``prior(y*) prod_l p(Z^(l) | y*, A, S)`` (Hu 2019,
    section 3.2), with every combination of levels a guess: nothing tells where to look.

    Parameters
    ----------
    fit : Fit
        A synthesis model whose predictives are mixtures of products: `models.DPMPM`.
    release : Release
        The m synthetic data sets. Columns that were not synthesised stay at their true values.
    targets : int, list of labels, mask, or None
        Records to audit, as in `attribute_risk`. Each costs a walk through the table.
    prior : {"predictive", "uniform", "marginal"} or TruthFactor
        What the intruder believes of all values beforehand. ``"predictive"``, the model's own
        p(y* | y_A), is the belief of one who knows the model. Under ``"uniform"`` most of the
        belief is in values that nobody has and nobody synthesises: see Notes.
    intruder : Intruder, optional
        What the intruder knows; the worst case by default. One who knows some records, with
        several releases: release by release, as ``evidence="independent-releases"`` of
        `attribute_risk`.
    draws : int, optional
        Draws of each augmented fit to use, spread evenly; of the base fit m times as many. By
        default as many as make about four seconds a target on one core. Their error is in ``mcse``.
    keep : int
        How many of the likeliest values to list for each target, at least 1.
    random_seed, n_jobs, progress
        As in `attribute_risk`.

    Returns
    -------
    FullTableRisk
        Per record: probability and rank of the truth among all values, what share of the posterior
        lies near it, the likeliest values.

    Raises
    ------
    InputError
        A model whose predictives are no mixtures of products; a table of more than 100 million
        values; records released unchanged; another prior.

    Warns
    -----
    UnreliableWeightsWarning
        Some records are marked unreliable.

    Notes
    -----
    Cost: a target takes C x T multiplications for C values and T terms, classes times draws, in
    single precision where that is exact enough (`docs/evidence.md`). Memory: 4 bytes a value,
    and 4 T sqrt(C), for each thread. Leave-one-out weights come from all draws. Error: between
    batches of chains. It is large under a uniform prior: values that hardly any draw allows
    have a posterior of ``prod_l S_l / S_0^m``, in which the base fit's error counts m times.

    Records with k-hat above `khat_threshold` are marked, not fitted again.
    """
    _check_prior(prior)
    at_least("keep", keep, 1)
    if draws is not None:
        at_least("draws", draws, 1)
    rng = np.random.default_rng(random_seed)
    choose, sampling, knowing, collapsing = rng.spawn(4)
    problem, way = problem_of(fit, release, intruder, targets, choose, knowing)
    cases = problem.cases
    table = Table.of(fit.microdata.n_levels[cases.columns])
    check_size(table)
    runner = EvidenceRunner(problem, sampling, n_jobs, progress)
    parts = runner.tables(cases, collapsing.spawn)
    fits, found = tabulated(
        parts,
        cases,
        fit.microdata,
        prior,
        table,
        draws=draws,
        keep=keep,
        n_jobs=n_jobs,
        tick=(lambda done: None if progress is None else progress("full table", done, len(cases))),
    )
    risk = FullTableRisk.of(
        found,
        fits,
        microdata=fit.microdata,
        cases=cases,
        table=table,
        index=fit.microdata.index[problem.rows],
        case=problem.case,
        reliable=_reliable(found, fits, runner.threshold),
        assumptions={
            "records": problem.knowledge(),
            "columns": f"guessed: {', '.join(fit.microdata.columns[j] for j in cases.columns)}",
            "synthesis": fit.mechanism(problem.release),
            "prior": in_words(prior),
            "guesses": f"all {table.n_cells:,} combinations of their levels",
            "evidence": f"{way}: {WAYS[way]}",
            "releases": drawn_in_words(fit, problem.release),
        },
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
    )
    _warn(risk)
    return risk


def tabulated(
    parts: Sequence[TablePredictive],
    cases: Targets,
    microdata: Microdata,
    prior: str | TruthFactor,
    table: Table,
    *,
    draws: int | None,
    keep: int = 20,
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[list[WeightedDraws], list[Spread]]:
    """Weights and posteriors from the base predictive and those of the releases."""
    m = len(parts) - 1
    wanted = draws_by_fit(parts, table.n_cells, m, draws)
    fits = [weighed(part, cases, k) for part, k in zip(parts, wanted, strict=True)]
    factor = np.array([-float(m)] + [1.0] * m)
    found = spreads(
        fits, factor, table, cases, microdata, prior, keep=keep, n_jobs=n_jobs, tick=tick
    )
    return fits, found


def problem_of(
    fit: Fit,
    release: Release,
    intruder: Intruder | None,
    targets: Any,
    choose: np.random.Generator,
    knowing: np.random.Generator,
) -> tuple[AuditProblem, str]:
    """The audit, and how its evidence is computed, if the model can tabulate it at all."""
    name = type(fit).__name__
    if intruder is not None and intruder.is_competitor:
        raise InputError(
            f"knows_records={intruder.knows_records!r} asks about numbers, which have no table; "
            "use attribute_risk"
        )
    problem = AuditProblem.prepare(
        fit, release, intruder, Itself(), targets, choose=choose, knowing=knowing
    )
    can = problem.capabilities
    if can.tabulated is None:
        raise InputError(
            f"{name} offers no full table: its predictives are no mixtures of products; list the "
            "values with guesses=Listed(table) in attribute_risk, or use models.DPMPM"
        )
    check_offered(problem)
    ways = [way for way in WAYS if way in can.methods]
    if not ways:
        raise InputError(
            f"{name} offers {sorted(can.methods) or 'no evidence'} for this release and intruder, "
            f"and a full table needs one of {list(WAYS)}"
        )
    unchanged = int((~problem.release.replaced[problem.rows]).sum())
    if unchanged:
        raise InputError(
            f"{unchanged} of {len(problem.rows)} targets were released unchanged: their values are "
            "known for certain; leave them out"
        )
    return problem, ways[0]


def _check_prior(prior: Any) -> None:
    if isinstance(prior, TruthFactor) or (isinstance(prior, str) and prior in PRIORS):
        return
    named = isinstance(prior, str) and prior in NAMED
    other = f"prior={prior!r} is for listed guesses and" if named else "this prior is"
    raise InputError(
        f"{other} not offered over a full table; give one of {list(PRIORS)} or TruthFactor(f)"
    )


def check_size(table: Table) -> None:
    """Refuse tables that are too large to be listed, or leave nothing to guess."""
    if table.n_cells > MAX_CELLS:
        raise InputError(
            f"the unknown columns have {table.n_cells:.3g} combinations of levels, and a full "
            f"table at most {MAX_CELLS:,}; search it with likeliest(...), or let the intruder know "
            "some columns: Intruder(knows_columns=[...])"
        )
    if table.n_cells < 2:
        raise InputError("the unknown columns have one combination of levels: nothing to guess")


def _reliable(found: Sequence[Spread], fits: Sequence[WeightedDraws], threshold: float) -> Flags:
    khat = np.max([fit.khat for fit in fits], axis=0)
    mcse = np.array([s.mcse for s in found])
    log_odds = np.array([s.mcse_log_odds for s in found])
    return np.asarray((khat <= threshold) & (mcse <= MAX_MCSE) & (log_odds <= MAX_MCSE_LOG_ODDS))


def _warn(risk: FullTableRisk) -> None:
    doubtful = int((~risk.reliable[risk.case]).sum())
    if doubtful:
        warnings.warn(
            f"{doubtful} of {len(risk.case)} records are unreliable (largest k-hat "
            f"{risk.khat.max():.2f}, largest error of log odds {risk.mcse_log_odds.max():.2f}); "
            'give more draws, a longer fit, or prior="predictive"',
            UnreliableWeightsWarning,
            stacklevel=3,
        )
