"""Any synthesiser: what an intruder learns from its files, found by running it.

In each run a random share of the records has its guessed values drawn afresh, and the generator
makes files of that table as it made the released ones. What was drawn is known, and so is what the
files show: examples from which one model over guesses learns to say what the intruder may believe.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Unpack

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints, Rng
from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk._core.progress import Progress
from bayes_risk._core.validate import (
    in_range,
    is_sequence,
    known_columns,
    positive,
    whole_number,
)
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import no_weights
from bayes_risk.evidence.contract import (
    Capabilities,
    How,
    LeftOut,
    Offer,
    Simulated,
    Targets,
    drawn_in_words,
)
from bayes_risk.evidence.learnt import Learnt
from bayes_risk.evidence.runner import Budget
from bayes_risk.intruder.guesses import PointMasses
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import Declaration, Fitted, microdata
from bayes_risk.release.release import PARAMETERS, EncodedRelease, Release

from .features import Features
from .generator import Command, Generator, generated_tables, seed_from
from .leaks import EFFECTS, effects, likelihoods, log_evidence
from .membership import left_out_factors
from .ratio import Examples, RatioFit, batches, fitted_ratio, normalised
from .runs import MOST, Redrawn, RedrawPlan, RunFiles, in_turn, run_of, seeds_remark

FEWEST_RUNS = 8  # of fewer chance may look like something that was told
ROWS = 2**14  # of files, from which laws are learnt
BLOCK = 2**18  # numbers of features, for each of d, at a time
POINTS = 2_048  # at which a density is computed; between them it is a straight line
FLOOR = 1e-3  # share of a wide normal density, whose tails end


@dataclass(frozen=True, slots=True)
class Simulator(Declaration):
    """Declaration of a synthesiser that is known by its runs alone.

    ``log p(phi | y*, y_-i)`` of features phi of the released files is learnt by contrastive neural
    ratio estimation with a linear network, from runs of the generator on tables in which a share of
    the records has other values.

    Parameters
    ----------
    generator : function
        ``generator(df, m, seed)`` returns m synthetic tables (of m = 1 perhaps the table itself):
        the columns of ``df`` that it replaces, and what it keeps as it was. ``df`` is like the
        original, with some values changed.
    command : list of str
        In place of a function: a program and its arguments, without a shell. ``{input}`` is a CSV
        of the table (no record labels), ``{output}`` an empty folder for m CSV files, ``{m}`` and
        ``{seed}`` are whole numbers.
    columns : list of str, optional
        Columns that the generator replaces; all of them by default.
    runs : int
        Runs of the generator, at least 8; two more show whether it uses its seed.
    share : float
        Share of the records whose values are drawn in each run, above 0 and below 1.
    seconds : float
        How long a command may take, in seconds.

    Raises
    ------
    InputError
        Neither a function nor a command, or both; a command that is not installed, or lacks
        ``{input}`` or ``{output}``; numbers out of range.

    Notes
    -----
    The evidence is that of an intruder who looks at these features: in expectation at most what the
    whole files disclose. The generator need not be private, random or fast. Cost: ``runs + 2``
    calls of the generator for each audit, and about .03 milliseconds for each record and run.

    References
    ----------
    Miller, Weniger & Forre (2022), Contrastive neural ratio estimation, NeurIPS 35. Delaunoy et al.
    (2022), Towards reliable simulation-based inference with balanced neural ratio estimation,
    NeurIPS 35. Houssiau et al. (2022), TAPAS: a toolbox for adversarial privacy auditing of
    synthetic data.

    Examples
    --------
    >>> import pandas as pd
    >>> def make(df, m, seed):
    ...     return [df.sample(frac=1, replace=True, random_state=seed + l) for l in range(m)]
    >>> Simulator(make, runs=20).runs
    20
    """

    generator: Callable[..., Any] | None = None
    command: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    runs: int = 30
    share: float = 0.1
    seconds: float = 3600.0

    def __post_init__(self) -> None:
        if (self.generator is None) == (self.command is None):
            raise InputError("give exactly one of generator, a function, and command, a list")
        if self.generator is not None and not callable(self.generator):
            cure = "give a list of texts as command" if is_sequence(self.generator) else "give one"
            raise InputError("generator", f"is not a function of (df, m, seed); {cure}")
        whole_number("runs", self.runs, FEWEST_RUNS)
        if in_range("share", self.share) <= 0:
            raise InputError("share", self.share, "must be above 0; give 0.1")
        positive("seconds", self.seconds)
        if self.command is not None:
            Command.of(self.command, self.seconds)
        if self.columns is not None and (isinstance(self.columns, str) or not self.columns):
            raise InputError("columns", self.columns, "; give a list of at least one column name")

    @property
    def calls(self) -> Generator:
        """What is called as ``generator(df, m, seed)``."""
        if self.command is not None:
            return Command.of(self.command, self.seconds)
        assert self.generator is not None
        return self.generator

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        """Columns that the generator replaces, of a table with these."""
        if self.columns is None:
            return list(columns)
        return known_columns("columns", list(self.columns), list(columns))

    def fit(
        self,
        df: pd.DataFrame | Microdata,
        *,
        weights: None = None,
        missing: str = "error",
        missing_numbers: Mapping[str, float] | None = None,
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
    ) -> "SimulatorFit":
        """Read the table; the generator is run by audits, and by ``synthesize``.

        Parameters
        ----------
        df : DataFrame or Microdata
            The confidential table; see `Microdata.from_frame` for ``missing``,
            ``missing_numbers``, ``levels`` and ``releases``, and for what it refuses.
        weights : None
            A generator takes no record weights.
        sample : bool
            False: a fit that never runs the generator, whose releases are the table itself; studies
            look at it before they begin.
        random_seed : int, Generator or None
            Accepted for uniformity; nothing is sampled.
        """
        no_weights(weights, "Simulator", "a generator knows of none")
        if not isinstance(df, Microdata):
            how: Any = {"levels": levels, "releases": releases, "missing": missing}
            df = microdata(df, None, missing_numbers=missing_numbers, near=True, **how)
        self.synthesizes(df.columns)
        return SimulatorFit(model=self, microdata=df, runs=sample)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatorFit(Fitted):
    """A table, and the generator that is run on tables like it; ``runs``: whether it ever is."""

    model: Simulator
    microdata: Microdata
    runs: bool = True
    weights: ClassVar[None] = None
    n_draws: ClassVar[int] = 0
    parameters: ClassVar[tuple[str, ...]] = tuple(sorted(PARAMETERS, key="independent".__ne__))
    records_differ: ClassVar[bool] = True  # row i of a release may be record i
    diagnostics: ClassVar[Mapping[str, Any]] = {}

    def mechanism(self, release: EncodedRelease) -> str:
        kind = "a function of Python" if self.model.command is None else "a command"
        phrase = "a record is expected as the margins of the others have it"
        return f"{kind}, known by its runs alone; {phrase}; {drawn_in_words(self, release)}"

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """Simulated evidence, of any rows, for who knows every other record."""
        known_columns("synthesized", release.synthesized, self.microdata.columns)
        if release.groups is not None:
            why = "groups= of totals are not offered by Simulator; give the release without them"
            return Capabilities([Offer("simulated", refusal=why)])
        offers = [Offer("simulated", compute=self.log_evidence, workers=True)]
        offers += [Offer(name, self) for name in ("log-prior", "point-masses", "left-out")]
        return Capabilities(offers, any_rows=True)

    def left_out(self, release: EncodedRelease, **how: Unpack[How]) -> LeftOut:
        runs, share = self.model.runs, self.model.share
        return left_out_factors(self.model.calls, release, runs=runs, share=share, **how)

    def log_prior(self, release: EncodedRelease, targets: Targets) -> Array:
        """Margins of the other records, a column by itself: the generator has no predictive."""
        return _log_margins(self.microdata.codes, self.microdata.n_levels, targets)

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        n: int | None = None,
        parameters: str | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        m = whole_number("m", m)
        if records is not None or n is not None:
            raise InputError("records and n are the generator's to choose; leave them out")
        if parameters not in (None, *self.parameters):
            raise InputError("parameters", parameters, f"; give one of {list(self.parameters)}")
        made = self.model.synthesizes(self.microdata.columns)
        if columns is not None and set(columns) != set(made):
            raise InputError(
                "columns",
                list(columns),
                f"are not those that the generator replaces, {made}; name these in "
                "`Simulator(columns=...)`",
            )
        rng = np.random.default_rng(random_seed)
        files = [self.microdata.decode(self.microdata.codes)] * m
        if self.runs:
            files = generated_tables(self.model.calls, files[0], m, seed_from(rng), made)
        seeds: Any = rng.bit_generator.seed_seq
        of: Any = {
            "synthesized": made,
            "seed_entropy": str(seeds.entropy),
            "parameters": parameters,
        }
        return Release(datasets=files, **of)

    def log_evidence(
        self,
        release: EncodedRelease,
        targets: Targets,
        *,
        rng: Rng,
        progress: Progress | None,
        n_jobs: int,
        budget: Budget,
    ) -> Simulated:
        """Log evidence (1, G, U) of what the features show, learnt from runs.

        ``n_jobs`` runs at a time; twice as many runs, and again, until the target of the
        budget is met by 95 % of (record, guess) pairs, or its doublings are spent.
        """
        runs, target = self.model.runs, budget.target_mcse
        plan = RedrawPlan.made(release, targets, self.model.share, runs)
        seeds = [_whole(child) for child in rng.spawn(3)]
        again = list[Ints]()  # of each run, who is drawn though it is not their turn

        def drawn(r: int) -> Redrawn:
            return plan.drawn(self.microdata.codes, seeds[0], r, again[r])

        def seed(r: int) -> int:
            return seed_from(np.random.default_rng([seeds[1], r]))

        def job(r: int, other: int | None = None) -> Callable[[], RunFiles]:
            given = self.model.calls, release.source, self.microdata, drawn(r).y
            return partial(run_of, *given, seed(r) if other is None else other)

        how, remark, most = None, "", max(1, MOST // runs)
        parts, others = list[Examples](), list[Examples]()
        copied = np.zeros((len(plan.pool), len(EFFECTS)))
        while True:
            total = max(runs, 2 * len(parts))
            while len(parts) < total:
                again += plan.again(copied, len(parts), total)
                which, waiting = range(len(parts), len(again)), list[RunFiles]()
                for r, files in zip(which, in_turn(job, which, n_jobs, progress), strict=True):
                    waiting.append(files)
                    if how is None:
                        rows = sum(f.Z.shape[0] * f.Z.shape[1] for f in waiting)
                        if rows < ROWS and r + 1 < which.stop:
                            continue
                        linked = release.corresponds and all(f.corresponds for f in waiting)
                        how = Features.of(self.microdata, targets.columns, linked=linked)
                        how.learn([(drawn(k).y, f.Z) for k, f in enumerate(waiting)])
                        first = waiting[0]
                    for k, files in enumerate(waiting, start=r + 1 - len(waiting)):
                        choosing = np.random.default_rng([seeds[2], k])
                        shown = plan.shown(how, drawn(k), files.Z, choosing, k, most)
                        parts.append(shown.turn)
                        others.append(shown.again)
                        copied += shown.copied
                    waiting = []
            assert how is not None
            if len(parts) == runs:  # last, so that runs are kept as they come
                once_more = partial(seeds_remark, lambda s: job(0, s)(), first, seed(0))
                remark = stage("seeds", once_more)
            examples = Examples.joined(parts)
            fit = fitted_ratio(examples, shown.behind)
            of: Any = {"runs": len(parts), "share": self.model.share, "remark": remark}
            learnt = Learnt.of(fit.log_p, examples.drawn, examples.run, fit.gain, **of)
            own = _effects(fit, Examples.joined([examples, *others]), plan)
            found = _evidence(fit, how, release, targets, own)
            error = _error(found.deviations, targets.guesses.truth)
            if error <= (target or np.inf) or len(parts) >= runs * 2**budget.max_doublings:
                return replace(found, learnt=learnt)


def _whole(rng: Rng) -> int:
    """A whole number that names a generator of which nothing has been drawn."""
    seed: Any = rng.bit_generator.seed_seq
    return int(seed.generate_state(1, np.uint64)[0])


def _effects(fit: RatioFit, examples: Examples, plan: RedrawPlan) -> Array:
    """Posterior of the effects of single records, one row a record of the table."""
    log_p = normalised(examples.features @ fit.weights + examples.log_share)
    of = examples.place, examples.exact, log_p, examples.drawn
    out = np.zeros((plan.n, len(EFFECTS)))
    out[:, 0] = 1.0
    out[plan.pool] = effects(likelihoods(*of, len(plan.pool)))
    return out


def _evidence(
    fit: RatioFit, how: Features, release: EncodedRelease, targets: Targets, own: Array
) -> Simulated:
    """Evidence of the release itself, block by block."""
    codes = targets.guesses.codes
    G, U, _ = codes.shape
    K, step = 2 * len(fit.directions) + 2, max(1, BLOCK // max(G, 1))
    log_p, deviations = np.empty((1, G, U)), np.empty((K, G, U))
    for begin in range(0, U, step):
        part = slice(begin, min(begin + step, U))
        rows = targets.record[part]
        made = how.made(release.microdata.codes, release.codes, rows, codes[:, part])
        shared = made.features @ fit.weights  # (block, G)
        counted = np.where(targets.guesses.counted[:, part].T, 0.0, -np.inf)
        added, moved = log_evidence(own[rows], made.exact, normalised(shared + counted))
        log_p[0, :, part] = (shared + added).T
        of = np.concatenate([made.features @ fit.directions.T, moved[..., None]], axis=2)
        deviations[:, :, part] = batches(of).swapaxes(1, 2)
    return replace(Simulated.exact(log_p), deviations=deviations)


def _error(deviations: Array, truth: Ints) -> float:
    """The 95 % quantile of the errors of the log evidence relative to the truth's."""
    own = deviations[:, truth, np.arange(len(truth))][:, None]
    K = len(deviations)
    variance = ((deviations - own) ** 2).sum(axis=0) / (K * (K - 1))
    return float(np.quantile(np.sqrt(variance), 0.95))


def _log_margins(y: Codes, n_levels: Ints, targets: Targets) -> Array:
    """Log p(y* | y_-i) of the guesses (G, U), columns by themselves.

    A category by its frequency among the others, with one added to every level; a number that many
    records share by its share, others by a kernel density of their values (Silverman's bandwidth).
    """
    out = np.zeros(targets.guesses.codes.shape[:2])
    for q, j in enumerate(map(int, targets.columns)):
        guesses, own = targets.guesses.codes[..., q], targets.profiles[:, j]
        if d := int(n_levels[j]):
            count = np.bincount(y[:, j].astype(np.int64), minlength=d)[guesses.astype(np.int64)]
            out += np.log((count - (guesses == own) + 1.0) / (len(y) - 1.0 + d))
        else:
            shared, values = targets.guesses.point_masses(q), y[:, j].astype(float)
            out += _log_numbers(values, guesses.astype(float), own.astype(float), shared)
    return out


def _log_numbers(values: Array, guesses: Array, own: Array, shared: PointMasses) -> Array:
    apart, n, of_all = np.isin(values, shared.values), len(values) - 1.0, 0.0
    rest = values if apart.all() else values[~apart]
    found = _log_density(rest, guesses, own, np.inf if apart.all() else n)
    if len(shared.values) and shared.held is not None and len(shared.held):
        nobody = np.full(len(shared.held), np.inf)
        of_all = float(log_sum(_log_density(rest, shared.held, nobody, float(len(rest)))))
    for value, log_width in zip(shared.values, shared.log_width, strict=True):
        count = (values == value).sum() - (own == value)
        mass = np.log(np.maximum(count, 1.0) / n) - log_width + of_all
        found = np.where(guesses == value, np.logaddexp(found, mass), found)
    return found


def _log_density(values: Array, guesses: Array, own: Array, of: float) -> Array:
    """Of values (n,), the target's own among them or not, as a part of so many."""
    n = len(values)
    low, high = np.quantile(values, [0.25, 0.75])
    spread = min(filter(None, (values.std(), (high - low) / 1.34)), default=1.0)
    width = 0.9 * float(spread) * n**-0.2
    ends = values.min() - 4 * width, values.max() + 4 * width
    line = np.linspace(*ends, POINTS)
    distinct, at = np.unique(values, return_counts=True)
    total = np.zeros(POINTS)
    for part in range(0, len(distinct), POINTS):
        some = slice(part, part + POINTS)
        total += _kernel((line[:, None] - distinct[some]) / width) @ at[some]
    found = np.interp(guesses, line, total, left=0.0, right=0.0)
    there = np.isin(own, values)
    found = found - np.where(there, _kernel((guesses - own) / width), 0.0)
    found = np.maximum(found, 0.0) / (of * width)
    far = ends[1] - ends[0]
    wide = (guesses - values.mean()) / far
    logs = np.log(FLOOR / far) - 0.5 * (wide**2 + np.log(2 * np.pi))
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log(found), logs))


def _kernel(x: Array) -> Array:
    return np.asarray(np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi))
