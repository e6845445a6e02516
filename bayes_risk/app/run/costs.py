"""What a study will cost: a bound on memory by arithmetic, time from small runs on its own data.

With ``GU`` pairs of a guess and a distinct case, m releases, ``F`` fits (m + 1, or 1 for trees) and
``B`` batches of draws, what counts in large files is the evidence, ``(8 m + 4 F B) GU`` bytes; the
other parts grow with the records alone. The derivation stands in ``docs/reliability.md``.
"""

import logging
import math
import time as clocks
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.console import Console

from bayes_risk._core.errors import InputError
from bayes_risk._core.memory import bytes_of, in_words, resident
from bayes_risk._core.validate import at_least
from bayes_risk.app.output.folder import check_name
from bayes_risk.app.process import compile_beside
from bayes_risk.app.study.candidates import candidate_study
from bayes_risk.app.study.checks import stand_in, unsampled
from bayes_risk.app.study.declare import (
    attribute_options,
    declare,
    placed_anywhere,
    sweep_options,
)
from bayes_risk.app.study.prepare import (
    Clock,
    candidates_of,
    checked_inputs,
    fit_and_release,
    needs_fit,
)
from bayes_risk.app.study.reading import read_data, read_release
from bayes_risk.app.study.sections import AttributeSection
from bayes_risk.app.study.study import Study
from bayes_risk.data.microdata import Microdata, same_records
from bayes_risk.evidence.leave_one_out import BLOCK, ROOM
from bayes_risk.evidence.methods import EVIDENCE
from bayes_risk.intruder.grids import as_guesses
from bayes_risk.release.release import EncodedRelease, Release
from bayes_risk.risk.membership.computation import ROOM as PLACES
from bayes_risk.studies.sensitivity import HYPER, swept

from .audit import alone, audits, seeds_of

CURES = "audit fewer targets, weigh fewer guesses, keep fewer draws, or make fewer releases"
NEW_FITS = ("knows_records", "knows_columns", "classes", "parameters", HYPER)  # factors of a sweep
MiB = 2**20
CODE, SAMPLER, PROCESS = 250 * MiB, 200 * MiB, 150 * MiB  # compiled, and of those that sample more
PAIR = 160  # bytes of a guess of a case: priors, posteriors, their order, what a model reads
TOGETHER, DISTANCES = 2**19, 2**21  # pairs of a guess and a case at a time; and of these and rows


class Fitted(NamedTuple):
    """What a fit holds, asked of it before its draws.

    Bytes; draws and chains, if the evidence comes of them; terms of a mixture; bytes of its
    evidence besides; distinct cases among all records.
    """

    size: int
    draws: int
    chains: int
    classes: int
    evidence: int
    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run will take.

    Attributes
    ----------
    records, cases, guesses, draws, releases : int
        Of the audit that takes most: n, U, G, H, m.
    memory : mapping of str to int
        Bytes by part, each at its most; their sum is the bound.
    workers : int
    max_memory : int or None
        The ceiling in bytes.
    seconds : mapping of str to float
        CPU time by stage, rough: within a factor of two or so. Empty: not asked for.
    settings : int
        Audits that are made one after another: settings of a sweep, replicates of candidates.
    """

    records: int
    cases: int
    guesses: int
    draws: int
    releases: int
    memory: Mapping[str, int]
    workers: int
    max_memory: int | None = None
    seconds: Mapping[str, float]
    settings: int = 1

    @property
    def peak(self) -> int:
        """Bytes that are needed at most."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether the bound lies beneath the ceiling."""
        return self.max_memory is None or self.peak <= self.max_memory

    def check(self) -> None:
        """Stop where the ceiling cannot be promised.

        Raises
        ------
        InputError
            The bound, its largest part, and what would help.
        """
        if self.fits:
            return
        most = max((p for p in self.memory if p != "program"), key=lambda p: self.memory[p])
        raise InputError(
            f"the study needs up to {in_words(self.peak)}, and max_memory is "
            f"{in_words(self.max_memory or 0)}; most of it is {most}, "
            f"{in_words(self.memory[most])}: {CURES}, or raise max_memory"
        )

    def __repr__(self) -> str:
        audits = f"{self.settings:,} audits, the largest of " if self.settings > 1 else ""
        lines = [
            f"{audits}{self.records:,} records, {self.cases:,} distinct cases, {self.guesses:,} "
            f"guesses each, {self.draws:,} draws, {self.releases} releases; {self.workers} workers",
            f"memory: up to {in_words(self.peak)}:",
            *(f"  {part:32s} {in_words(size):>10s}" for part, size in self.memory.items() if size),
        ]
        if self.seconds:
            total = sum(self.seconds.values())
            lines += [f"CPU time: about {total:,.0f} s, within a factor of two or so:"]
            lines += [f"  {stage:32s} {took:8,.0f} s" for stage, took in self.seconds.items()]
        if self.max_memory is not None:
            holds = "holds" if self.fits else f"does not hold; {CURES}"
            lines.append(f"ceiling of {in_words(self.max_memory)}: {holds}")
        return "\n".join(lines)


def estimate(
    study: Study,
    *,
    kind: str = "audit",
    n_jobs: int = 2,
    backend: str | None = None,
    max_memory: str | int | None = None,
    time: bool = True,
) -> Cost:
    """Memory and time that a study will take, before it is run; nothing is written.

    Parameters
    ----------
    study : Study
    kind : {"audit", "sweep", "compare"}
        What is run of it. A sweep holds the evidence of one setting, the fits of all settings, and
        the posterior of every prior; a comparison one candidate at a time.
    n_jobs, backend, max_memory
        As in `run_study`: workers, what they are, and the ceiling.
    time : bool
        Whether to run the study on a few thousand of its records, to tell how long it takes.

    Returns
    -------
    Cost

    Raises
    ------
    InputError
        Data or settings that do not fit.

    Notes
    -----
    Memory is a bound, counted from the data (records, distinct cases, guesses) and the settings; of
    a `PyMCModel` what its own graph holds is left out. Time is that of three small runs, extended
    in a straight line in records, targets and draws, times the settings of a sweep or the
    replicates of each candidate.
    """
    at_least("n_jobs", n_jobs, 1)
    ceiling = None if max_memory is None else bytes_of(max_memory)
    df, _ = read_data(study.data)
    audits = _audits(study, df, kind)
    processes = n_jobs if backend in ("loky", "dask") and n_jobs > 1 else 0
    costs = {
        name: _cost(one, df, kind, n_jobs, processes, times)
        for name, (one, times) in audits.items()
    }
    seconds: dict[str, float] = {}
    for name, cost in costs.items() if time else ():
        found = seconds_of(audits[name][0], df, cost)
        if kind == "sweep" and not seconds:  # the other settings are like the study's own
            once = {stage: took for stage, took in found.items() if stage != "attribute risk"}
            seconds = once | {"sweep": cost.settings * found["attribute risk"]}
        elif kind == "compare":
            seconds[name] = cost.settings * sum(found.values())
        elif kind == "audit":
            seconds = found
    largest = max(costs.values(), key=lambda cost: cost.peak)
    settings = sum(cost.settings for cost in costs.values())
    return replace(largest, max_memory=ceiling, seconds=seconds, settings=settings)


def print_costs(study: Study, kind: str, **how: Any) -> None:
    """Print the estimate of a command; stop where no ceiling holds it.

    Raises
    ------
    InputError
        As `estimate`; more memory than the ceiling.
    """
    folder = Path(study.output.folder or ".").absolute()
    check_name(folder)
    compile_beside(folder)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        cost = estimate(study, kind=kind, **how)
    finally:
        logging.disable(before)
    Console().print(repr(cost), highlight=False, markup=False, soft_wrap=True)
    cost.check()


# --- the audits of a run ----------------------------------------------------------------------


def _audits(study: Study, df: pd.DataFrame, kind: str) -> dict[str, tuple[Study, int]]:
    """Every audit of a run that differs in size, checked against the table; how often it is made.

    Of a sweep the first is the study's own.
    """
    if kind == "compare" and (compare := study.compare) is not None:
        candidates_of(study, df)
        found = {}
        for name in compare.candidates:
            one = candidate_study(study, name)
            update = {"bounds": study.bounds} if compare.bounds else {}
            times = compare.replicates if one.release.files is None else 1
            found[name] = one.model_copy(update=update), times
        return found
    section, own = study.sweep, study.attribute
    if kind != "sweep" or section is None or own is None:
        checked_inputs(study, df)
        return {"": (study, 1)}
    study = alone(study)
    checked_inputs(study, df)
    found = {"": (study, 1)}
    for key in ("guesses", "knows_columns"):
        for k, value in enumerate(section.values(key)):
            audit = own.model_copy(update={key: value})
            found[f"{key} {k}"] = study.model_copy(update={"attribute": audit}), 0
    return found


def _settings(study: Study, fit: Any, release: Release) -> tuple[int, int]:
    """Settings of a sweep, those that differ in priors or m counted once; how many need fits."""
    options = sweep_options(study, fit, release)
    over, base, alone = (options.pop(key) for key in ("over", "base", "one_at_a_time"))
    if not over.keys() - {"m"}:
        return 1, 1
    for given in (over, base):
        given.pop("m", None)
    settings = swept(fit, release, over, base, options).settings(one_at_a_time=alone)
    named = [[pair for pair in one.items() if pair[0].startswith(NEW_FITS)] for one in settings]
    return len(settings), len(set(map(tuple, named)))


# --- memory -----------------------------------------------------------------------------------


def _cost(
    study: Study, df: pd.DataFrame, kind: str, n_jobs: int, processes: int, times: int
) -> Cost:
    """The bound of one audit."""
    fit = unsampled(study, declare(study, df) if needs_fit(study) else None, df)
    release, made = stand_in(study, df, fit), study.synthesized_in(df)
    data = _coded(fit, df)
    (n, p), m = df.shape, study.m
    U, G, q = _guessed(study, data, made)
    model = _fitted(study, fit, release, U, G)
    U = min(U, model.cases)
    F, B = (m + 1, 2 * model.chains) if model.draws else (1, 2)
    sets, priors = 1, 1
    if kind == "sweep" and study.sweep is not None and fit is not None:
        settings, sets = _settings(study, fit, release)
        times = min(times, 1) * settings
        priors += len(study.sweep.values("priors"))
    rounds = 0 if study.reweight is None else study.reweight.rounds
    tables = int(df.memory_usage(deep=True).sum()) + n * p * (12 * m + 40)
    evidence = U * G * (8 * m + 4 * F * B + 8 * q)
    pairs = U * G * (PAIR + 5 * q + 16 * priors)
    code = CODE + (SAMPLER if fit is not None and fit.n_draws else 0)
    block = min(U, max(BLOCK, ROOM // max(model.draws, 1)))
    further = _further(study, data, made, model, n_jobs)
    targets = _targets(study, n) if study.output.folder is not None and kind == "audit" else 0
    memory = {
        "program": resident() + code,
        "table and releases": tables,
        "fits": model.size * (sets * F + 1),
        "evidence": evidence + evidence // F + model.evidence,
        "guesses, priors and posteriors": pairs,
        "blocks at work": n_jobs * block * (80 * model.draws + 40 * G * B) if model.draws else 0,
        "arrays for the report": 8 * (2 * m + 4) * G * targets,
        "earlier rounds": rounds * (U * G * (8 * m + 30 + 5 * q) + 12 * m * n * p),
        max(further, key=lambda part: further[part]): max(further.values()),
        "processes of workers": processes * (PROCESS + code + tables + evidence // F),
    }
    sizes = {"records": n, "cases": U, "guesses": G, "draws": model.draws, "releases": m}
    return Cost(**sizes, memory=memory, workers=n_jobs, seconds={}, settings=times)


def _coded(fit: Any, df: pd.DataFrame) -> Microdata:
    """The table as the model codes it; without a model numbers are numbers."""
    if fit is not None:
        return cast(Microdata, fit.microdata)
    numbers = [str(c) for c in df if df[c].dtype.kind in "iuf"]
    return Microdata.from_frame(df, numbers=numbers, missing="level")


def _guessed(study: Study, data: Microdata, made: list[str]) -> tuple[int, int, int]:
    """Targets, guesses of each, and guessed columns."""
    section = study.attribute
    if section is None:
        return 0, 0, 0
    names = study.guessed or [c for c in made if c not in section.knows_columns]
    columns = np.array([data.columns.index(c) for c in names])
    numbers = [c for c in names if c in data.numbers]
    weighed = as_guesses(attribute_options(placed_anywhere(section))["guesses"], numbers)
    guesses = len(weighed.of(data, data.codes[:2], columns).codes)
    return _targets(study, len(data.codes)), guesses, len(names)


def _targets(study: Study, n: int) -> int:
    section = study.attribute
    if section is None or section.largest is not None:
        return int(section is not None)
    given = section.targets
    return min(n if given == "all" else given if isinstance(given, int) else len(given), n)


def _fitted(study: Study, fit: Any, release: Release, U: int, G: int) -> Fitted:
    """What a fit of the study's model holds, and what its evidence needs besides."""
    if fit is None:
        return Fitted(0, 0, 1, 1, 0, max(U, 1))
    data, section = fit.microdata, study.attribute
    apart = fit.records_differ or release.classes == "own"
    cases = len(data.codes) if apart else len(np.unique(data.codes, axis=0))
    U = min(U, cases)
    one_tree = getattr(fit.model, "n_trees", 1)  # stands for so many
    size = one_tree * sum(held(getattr(fit, f.name)) for f in fields(fit) if f.name not in SHARED)
    chains, classes = getattr(study.model, "chains", 1), getattr(study.model, "n_classes", 1)
    if not fit.n_draws or (section is not None and _closed(section, fit, release)):
        n, p = data.codes.shape
        looked_up = min(U * G, TOGETHER) * (12 * p + 48) + 20 * min(U * G * n, DISTANCES)
        return Fitted(size, 0, 1, classes, 32 * U * G + looked_up + size, cases)
    drawn = 2 * fit.n_draws * U + size  # labels of the cases, and the draws as they are read
    return Fitted(size, fit.n_draws, chains, classes, drawn, cases)


SHARED = ("model", "microdata", "idata", "files")  # among all fits, or counted with the table


def held(value: Any) -> int:
    """Bytes of the arrays in a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Mapping):
        return sum(map(held, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(held, value))
    if is_dataclass(value) and not isinstance(value, Microdata):
        return sum(held(getattr(value, f.name)) for f in fields(value))
    return 0


def _closed(section: AttributeSection, fit: Any, release: Release) -> bool:
    """Whether the model computes the evidence itself."""
    intruder = attribute_options(section)["intruder"]
    can = fit.capabilities(EncodedRelease.of(release, fit.microdata), intruder)
    usual = [way for way in EVIDENCE if way in can.methods]
    return intruder.is_competitor or (section.evidence or [*usual, ""][0]) in can.computed


def _further(
    study: Study, data: Microdata, made: list[str], model: Fitted, n_jobs: int
) -> dict[str, int]:
    """Bytes of the other audits, of which one is at work at a time."""
    (n, p), m = data.codes.shape, study.m
    widths = {c: max(int(d), 1) for c, d in zip(data.columns, data.n_levels, strict=True)}
    F, B = m + 1, 2 * model.chains
    found = {"other audits": 0}
    if (keys := study.identification) is not None:
        numeric = max(len(keys.radius or {}), 1)
        each = 8 * (32 + 6 * m + 2 * m * numeric) + 4 * (m + 1) * len(widths)
        found["identification"] = n * each
    if (utility := study.utility) is not None:
        found["utility"] = _designs(data, utility.columns or data.columns, m, n_jobs)
    if (context := study.context) is not None:
        near = data.columns if context.distances is True else context.distances or []
        known = len(context.keys) + len(context.target or [])
        coordinates = sum(3 + 3 * widths[c] for c in near)
        found["context measures"] = 8 * n * (known * (m + 1) + 10 + coordinates)
    if study.bounds is not None:
        ends = 3 * (study.bounds.m or m) * n * p * 12
        found["bounds"] = max(found.values()) + ends
    if (membership := study.membership) is not None:
        asked = membership.alternatives + membership.comparisons + 1
        records = membership.records
        places = records if isinstance(records, int) else n
        pairs = min(max(PLACES, 64 * asked), places * asked)
        found["membership"] = pairs * (2 * F * (8 + 4 * B) + 8 * p + 224)
    if (table := study.full_table) is not None:
        cells = math.prod(widths[c] for c in study.guessed or made)
        draws = min(table.draws or model.draws, model.draws)
        terms = 2 * draws * max(model.classes, 1) * int(cells**0.5)
        sums = F * (8 * terms + 24 * B * min(cells, 2**18))
        found["full table"] = n_jobs * (12 * cells + sums)
    return found


def _designs(data: Microdata, columns: Sequence[str], m: int, n_jobs: int) -> int:
    """Columns of all files, and designs of propensity models with products of two columns."""
    places = [data.columns.index(c) for c in columns]
    levels, n = data.n_levels[places], len(data.codes)
    d = np.maximum(levels - 1, 1)
    cells = math.prod(levels.tolist()) if levels.all() else math.inf
    rows = int(min(len(np.unique(data.codes[:, places], axis=0)) + n, cells))
    products = int(d.sum() + (d.sum() ** 2 - (d**2).sum()) // 2)
    most = min(products, 100_000_000 // max(rows, 1)) if products <= 1_000 else 0
    design = 8 * rows * (4 * max(int(d.sum()), most) + 2 * len(d))
    return 16 * (m + 1) * n * len(d) + n_jobs * design


# --- time -------------------------------------------------------------------------------------

RECORDS, TARGETS, DRAWS, WARM_UP = (600, 1_800), (20, 120), 20, 10
BY_TARGET = ("attribute risk", "reweighting")
BY_DRAW = (*BY_TARGET, "membership", "full table")
LARGEST = 5  # records of a count's largest values


def seconds_of(study: Study, df: pd.DataFrame, cost: Cost) -> dict[str, float]:
    """CPU seconds by stage of small runs, extended to all records, targets and draws.

    Each stage is a straight line in the records, and the attribute audit also in its targets, both
    with slopes in proportion to the draws: nothing has to be known of the machine.
    """
    few, many = (min(n, len(df)) for n in RECORDS)
    cases = max(cost.cases, 1)
    less, more = (min(u, cases) for u in TARGETS)
    release = read_release(study, df)
    if release is not None and needs_fit(study) and not cost.draws:
        # only what a fit made can be audited with it
        made = study.release.model_copy(update={"files": None, "m": study.m})
        study, release = study.model_copy(update={"release": made}), None
    _one(study, df, release, few, less)  # compiles
    base, wide, long = (
        _one(study, df, release, n, u) for n, u in ((few, less), (many, less), (few, more))
    )
    out = {}
    for stage, took in base.items():
        further = max(wide[stage] - took, 0.0) / max(many - few, 1) * (len(df) - few)
        if stage in BY_TARGET:
            further += max(long[stage] - took, 0.0) / max(more - less, 1) * (cases - less)
        out[stage] = _times(study, cost.draws, stage) * (took + max(further, 0.0))
    return out


def _times(study: Study, draws: int, stage: str) -> float:
    """How many times the draws of the small runs; of a fit also those to warm up; rounds."""
    model: Any = study.model
    if stage == "fit" and isinstance(getattr(model, "draws", None), int):
        return float(model.draws + model.tune) / (_draws(study) + WARM_UP)
    scale = draws / (_draws(study) * model.chains) if draws and stage in BY_DRAW else 1.0
    rounds = (1 + study.reweight.rounds) / 2 if study.reweight and stage == "reweighting" else 1
    return scale * rounds


def _draws(study: Study) -> int:
    """Draws of each chain of a small run: few, but one for each data set of the release."""
    model: Any = study.model
    return max(DRAWS, -(-study.m // getattr(model, "chains", 1)))


def _small(study: Study, targets: int) -> Study:
    """The study with few draws, rounds and targets, and no folder.

    The targets are others than the study's, for whom its grids may have no place.
    """
    changes: dict[str, Any] = {"output": study.output.model_copy(update={"folder": None})}
    if isinstance(getattr(study.model, "draws", None), int):
        few = {"draws": _draws(study), "tune": WARM_UP}
        changes["model"] = study.model.model_copy(update=few)
    if study.attribute is not None:
        update: dict[str, Any] = {"refit_budget": 0, "target_mcse": None}
        update |= {"targets": targets} if study.attribute.largest is None else {}
        changes["attribute"] = placed_anywhere(study.attribute).model_copy(update=update)
    if study.reweight is not None:
        changes["reweight"] = study.reweight.model_copy(update={"rounds": 1})
    return study.model_copy(update=changes)


def _few_rows(study: Study, df: pd.DataFrame, n: int) -> npt.NDArray[np.int64]:
    """Rows at random, and those of the largest values of a column of which they are asked."""
    rows = np.random.default_rng(0).choice(len(df), n, replace=False)
    if study.attribute is not None and study.attribute.largest is not None:
        top = df[study.attribute.largest].to_numpy().argsort()[-LARGEST:]
        rows = np.union1d(rows, top)
    return np.sort(rows)


def _one(
    study: Study, df: pd.DataFrame, release: Release | None, n: int, targets: int
) -> dict[str, float]:
    """CPU seconds by stage of one small run; its levels are those of all records."""
    whole = df.apply(lambda c: c.astype("category") if c.dtype.kind not in "iufb" else c)
    rows = _few_rows(study, df, n)
    small, part = _small(study, targets), whole.iloc[rows]
    given = None if release is None else _rows_of(release, df.index, rows)
    clock, seeds = Clock(clocks.process_time), seeds_of(0)
    how: dict[str, Any] = {"n_jobs": 1, "progress": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ready = fit_and_release(small, declare(small, part), part, given, clock, seeds=seeds, **how)
        audits(small, ready, clock, seeds[2:], how)
    return clock.seconds


def _rows_of(release: Release, index: pd.Index, rows: npt.NDArray[np.int64]) -> Release:
    """The same records of files that were brought; as many of files of other records."""
    if len(release.datasets[0]) != len(index):
        n = min(len(rows), len(release.datasets[0]))
        return replace(release, datasets=[t.iloc[:n] for t in release.datasets])
    tables = [same_records(index, t, f"release {l}") for l, t in enumerate(release.datasets, 1)]
    return replace(release, datasets=[t.iloc[rows] for t in tables])
