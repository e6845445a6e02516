"""What a study will cost: a bound on memory by arithmetic, time from small runs on its own data.

With ``GU`` pairs of a guess and a distinct case, m releases, ``F`` fits (m + 1, or 1 for trees) and
``B`` batches of draws, what counts in large files is the evidence, ``(8 m + 4 F B) GU`` bytes; the
other parts grow with the records alone. The derivation stands in ``docs/reliability.md``.
"""

import math
import time as clocks
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.memory import bytes_of, in_words, resident
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import at_least
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.study import Study, candidate_study
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import CELLS
from bayes_risk.evidence.leave_one_out import BLOCK, ROOM
from bayes_risk.evidence.methods import EVIDENCE
from bayes_risk.intruder.grids import as_guesses
from bayes_risk.release.release import EncodedRelease, Release
from bayes_risk.risk.membership.computation import ROOM as PLACES
from bayes_risk.studies.grid import HYPER

from .audit import (
    Clock,
    alone,
    audits,
    candidates_of,
    checked_inputs,
    factors_of,
    fit_and_release,
    needs_fit,
    seeds_of,
    stand_in,
    unsampled,
)

CURES = "audit fewer targets, weigh fewer guesses, keep fewer draws, or make fewer releases"
NEW_FITS = ("knows_records", "knows_columns", "classes", "parameters", HYPER)  # factors of a sweep
MiB = 2**20
CODE, SAMPLER, PROCESS = 250 * MiB, 200 * MiB, 150 * MiB  # compiled, and of those that sample more
PAIR = 160  # bytes of a guess of a case: priors, posteriors, their order, what a model reads
TOGETHER, DISTANCES = 2**19, 2**21  # pairs of a guess and a case at a time; and of these and rows
SHARED = ("model", "microdata", "idata", "files")  # among all fits, or counted with the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Shown):
    """What a run will take, of the audit that takes most."""

    records: int
    cases: int  # distinct ones
    guesses: int
    draws: int  # 0: evidence in closed form
    releases: int
    memory: Mapping[str, int]  # bytes by part, each at its most; their sum is the bound
    workers: int
    max_memory: int | None = None
    seconds: Mapping[str, float]  # CPU time by stage, rough; empty: not asked for
    settings: int = 1  # of a sweep, or replicates of candidates: made one after another

    @property
    def peak(self) -> int:
        """Bytes that are needed at most."""
        return sum(self.memory.values())

    def check(self) -> None:
        """Stop where the ceiling cannot be promised; the error names the largest part."""
        if self.max_memory is None or self.peak <= self.max_memory:
            return
        most = max((p for p in self.memory if p != "program"), key=lambda p: self.memory[p])
        raise InputError(
            f"the study needs up to {in_words(self.peak)}, and max_memory is "
            f"{in_words(self.max_memory)}; most of it is {most}, "
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
            holds = "holds" if self.peak <= self.max_memory else f"does not hold; {CURES}"
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

    Of an audit, sweep or comparison (`kind`), with workers and a ceiling as in `run_study`. A sweep
    holds the evidence of one setting, the fits of all settings, and the posterior of every prior; a
    comparison one candidate at a time. ``time`` runs the study four times on a few thousand of its
    records, and extends this in a straight line in records, targets and draws, times the settings
    of a sweep or the replicates of each candidate.

    Raises
    ------
    InputError
        Data or settings that do not fit.
    """
    at_least("n_jobs", n_jobs, 1)
    study.check_says(kind)
    ceiling = None if max_memory is None else bytes_of(max_memory)
    df, _ = read_data(study.data)
    processes = n_jobs if backend in ("loky", "dask") and n_jobs > 1 else 0
    costs: list[Cost] = []
    seconds: dict[str, float] = {}
    for name, one, times in _audits(study, df, kind):
        cost = _cost(one, df, kind, n_jobs, processes, times)
        costs.append(cost)
        if not time or not times:  # other settings of a sweep are like the study's own
            continue
        found = seconds_of(one, df, cost)
        if kind == "sweep":
            found["sweep"] = cost.settings * found.pop("attribute risk")
        seconds |= {name: cost.settings * sum(found.values())} if kind == "compare" else found
    largest = max(costs, key=lambda cost: cost.peak - cost.memory["program"])
    settings = sum(cost.settings for cost in costs)
    return replace(largest, max_memory=ceiling, seconds=seconds, settings=settings)


def _audits(study: Study, df: pd.DataFrame, kind: str) -> Iterator[tuple[str, Study, int]]:
    """Every audit of a run that differs in size, checked against the table; how often it is made.

    Of a sweep the first is the study's own.
    """
    if kind == "compare":
        candidates_of(study, df)
        update = {"bounds": study.bounds} if study.compare.bounds else {}
        for name in study.compare.candidates:
            one = candidate_study(study, name, df).model_copy(update=update)
            yield name, one, study.compare.replicates if one.release.files is None else 1
        return
    study = alone(study) if kind == "sweep" else study
    checked_inputs(study, df)
    yield "", study, 1
    for key in ("guesses", "knows_columns") if kind == "sweep" else ():
        for value in study.sweep.values(key):
            audit = study.attribute.model_copy(update={key: value})
            yield "", study.model_copy(update={"attribute": audit}), 0


def _settings(study: Study, fit: Any, release: Release) -> tuple[int, int]:
    """Settings of a sweep, those that differ in priors or m counted once; how many need fits."""
    factors, _, alone = factors_of(study, fit, release)
    every = [
        [p for p in one.items() if p[0] != "m"] for one in factors.settings(one_at_a_time=alone)
    ]
    fits = [[pair for pair in one if pair[0].startswith(NEW_FITS)] for one in every]
    return len(set(map(tuple, every))), len(set(map(tuple, fits)))


# --- memory -----------------------------------------------------------------------------------


def _cost(
    study: Study, df: pd.DataFrame, kind: str, n_jobs: int, processes: int, times: int
) -> Cost:
    """The bound of one audit."""
    fit: Any = unsampled(study, study.model.declared(df) if needs_fit(study) else None, df)
    release = stand_in(study, df, fit)
    numbers = [str(c) for c in df if df[c].dtype.kind in "iuf"]
    data = fit.microdata if fit else Microdata.from_frame(df, numbers=numbers, missing="level")
    (n, p), m, H, chains = df.shape, study.m, 0, getattr(study.model, "chains", 1)
    U, G, q = _guessed(study, data, study.synthesized_in(df))
    written = U if study.output.folder is not None and kind == "audit" else 0
    held = beside = by_column = 0
    if fit is not None:
        apart = fit.records_differ or release.classes == "own"
        U = min(U, n if apart else len(np.unique(data.codes, axis=0)))
        one_tree = getattr(fit.model, "n_trees", 1)  # stands for so many
        held = one_tree * sum(
            _held(getattr(fit, f.name)) for f in fields(fit) if f.name not in SHARED
        )
        H = fit.n_draws
        if (audit := study.attribute) is not None:
            shown = EncodedRelease.of(release.first(2), fit.microdata)
            can = fit.capabilities(shown, audit.knows)
            if can.factored is not None:
                by_column = 8 * len(study.synthesized_in(df)) * min(m * U * G, CELLS)
            usual = [*(way for way in EVIDENCE if way in can.methods), ""][0]
            if audit.knows.is_competitor or (audit.evidence or usual) in can.computed:
                H = 0  # the model computes the evidence itself
            chains = chains if can.led is None else can.led.led_chains
        looked_up = min(U * G, TOGETHER) * (12 * p + 48) + 20 * min(U * G * n, DISTANCES)
        beside = held + (2 * H * U if H else 32 * U * G + looked_up)  # labels of cases; or leaves
    F, B = (m + 1, 2 * chains) if H else (1, 2)
    sets, priors = 1, 1
    if kind == "sweep" and fit is not None:
        settings, sets = _settings(study, fit, release)
        times = min(times, 1) * settings
        priors += len(study.sweep.values("priors"))
    rounds = 0 if study.reweight is None else study.reweight.rounds
    tables = int(df.memory_usage(deep=True).sum()) + n * p * (12 * m + 40)
    evidence = U * G * (8 * m + 4 * F * B + 8 * q)
    code = CODE + (SAMPLER if fit is not None and fit.n_draws else 0)
    block = min(U, max(BLOCK, ROOM // max(H, 1)))
    memory = {
        "program": resident() + code,
        "table and releases": tables + rounds * 12 * m * n * p,
        "fits": held * (sets * F + 1),
        "evidence": evidence + evidence // F + beside + 2 * by_column,
        "guesses, priors and posteriors": U * G * (PAIR + 5 * q + 16 * priors),
        "blocks at work": n_jobs * block * (80 * H + 40 * G * B) if H else 0,
        "arrays for the report": 8 * (2 * m + 4) * G * written,
        "earlier rounds": rounds * (U * G * (8 * m + 30 + 5 * q) + by_column),
        "other audits": max(_others(study, data, F, B, H, n_jobs)),
        "processes of workers": processes * (PROCESS + code + tables + evidence // F),
    }
    sizes = {"records": n, "cases": U, "guesses": G, "draws": H, "releases": m}
    return Cost(**sizes, memory=memory, workers=n_jobs, seconds={}, settings=times)


def _guessed(study: Study, data: Microdata, made: list[str]) -> tuple[int, int, int]:
    """Targets, guesses of each, and guessed columns."""
    section, n = study.attribute, len(data.codes)
    if section is None:
        return 0, 0, 0
    names = study.guessed or [c for c in made if c not in section.knows_columns]
    columns = np.array([data.columns.index(c) for c in names])
    numbers = [c for c in names if c in data.numbers]
    weighed = as_guesses(section.placed_anywhere().options["guesses"], numbers)
    given = 1 if section.knows.largest is not None else section.targets
    targets = n if given == "all" else given if isinstance(given, int) else len(given)
    return min(targets, n), len(weighed.of(data, data.codes[:2], columns).codes), len(names)


def _held(value: Any) -> int:
    """Bytes of the arrays in a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value) and not isinstance(value, Microdata):
        return sum(_held(getattr(value, f.name)) for f in fields(value))
    parts = value.values() if isinstance(value, Mapping) else value
    return sum(map(_held, parts)) if isinstance(value, Mapping | list | tuple) else 0


def _others(study: Study, data: Microdata, F: int, B: int, H: int, n_jobs: int) -> Iterator[int]:
    """Bytes of each other audit, of which one is at work at a time."""
    (n, p), m = data.codes.shape, study.m
    widths = {c: max(int(d), 1) for c, d in zip(data.columns, data.n_levels, strict=True)}
    yield 0
    if study.identification or study.context or study.bounds:
        yield 8 * n * (32 + 8 * m + (m + 1) * p + sum(widths.values()))
    if (utility := study.utility) is not None:
        yield _designs(data, utility.columns or data.columns, m, n_jobs)
    if (membership := study.membership) is not None:
        asked = membership.alternatives + membership.comparisons + 1
        places = membership.records if isinstance(membership.records, int) else n
        pairs = min(max(PLACES, 64 * asked), places * asked)
        yield pairs * (2 * F * (8 + 4 * B) + 8 * p + 224)
    if (table := study.full_table) is not None:
        cells = math.prod(widths[c] for c in study.guessed or data.columns)
        terms = 2 * min(table.draws or H, H) * getattr(study.model, "n_classes", 1)
        sums = F * (8 * terms * int(cells**0.5) + 24 * B * min(cells, 2**18))
        yield n_jobs * (12 * cells + sums)


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
DEPTH = 4  # times as many draws, to tell what they take from what does not depend on them
LARGEST = 5  # records of a count's largest values


def seconds_of(study: Study, df: pd.DataFrame, cost: Cost) -> dict[str, float]:
    """CPU seconds by stage of small runs, extended to all records, targets and draws.

    Each stage is a straight line in the records, and the attribute audit also in its targets, both
    in proportion to the draws, beside what does not depend on these: nothing has to be known of the
    machine.
    """
    few, many = (min(n, len(df)) for n in RECORDS)
    cases = max(cost.cases, 1)
    less, more = (min(u, cases) for u in TARGETS)
    _one(study, df, few, less)  # compiles
    base, wide, long = (_one(study, df, *of) for of in ((few, less), (many, less), (few, more)))
    deep = _one(study, df, few, less, DEPTH) if _is_sampled(study) else None
    out = {}
    for stage, took in base.items():
        further = max(wide[stage] - took, 0.0) / max(many - few, 1) * (len(df) - few)
        if stage in BY_TARGET:
            further += max(long[stage] - took, 0.0) / max(more - less, 1) * (cases - less)
        more_draws = took if deep is None else (deep[stage] - took) / (DEPTH - 1)
        by_draw = min(max(more_draws, 0.0), took)
        out[stage] = took - by_draw + _times(study, cost.draws, stage) * (by_draw + further)
        if study.reweight is not None and stage == "reweighting":
            out[stage] *= (1 + study.reweight.rounds) / 2
    return out


def _is_sampled(study: Study) -> bool:
    """Whether the draws are the study's, and no files."""
    return isinstance(getattr(study.model, "draws", None), int)


def _times(study: Study, draws: int, stage: str) -> float:
    """How many times the draws of the small runs; of a fit also those to warm up."""
    model: Any = study.model
    if stage == "fit" and _is_sampled(study):
        return float(model.draws + model.tune) / (_draws(study) + WARM_UP)
    return draws / (_draws(study) * model.chains) if draws and stage in BY_DRAW else 1.0


def _draws(study: Study) -> int:
    """Draws of each chain of a small run: few, but one for each data set of the release."""
    return max(DRAWS, -(-study.m // getattr(study.model, "chains", 1)))


def _small(study: Study, targets: int, depth: int = 1) -> Study:
    """The study with few draws, rounds and targets, and no folder.

    The targets are others than the study's, for whom its grids may have no place.
    """
    parts: dict[str, Any] = {"output": study.output.model_copy(update={"folder": None})}
    if _is_sampled(study):
        few = {"draws": depth * _draws(study), "tune": depth * WARM_UP}
        parts["model"] = study.model.model_copy(update=few)
    if (audit := study.attribute) is not None:
        update: dict[str, Any] = {"refit_budget": 0, "target_mcse": None}
        update |= {"targets": targets} if audit.knows.largest is None else {}
        parts["attribute"] = audit.placed_anywhere().model_copy(update=update)
    if study.reweight is not None:
        parts["reweight"] = study.reweight.model_copy(update={"rounds": 1})
    return study.model_copy(update=parts)


def _one(study: Study, df: pd.DataFrame, n: int, targets: int, depth: int = 1) -> dict[str, float]:
    """CPU seconds by stage of one small run; its levels are those of all records.

    The table stands in the place of releases made elsewhere.
    """
    whole = df.apply(lambda c: c.astype("category") if c.dtype.kind not in "iufb" else c)
    rows = np.random.default_rng(0).choice(len(df), n, replace=False)
    largest = None if study.attribute is None else study.attribute.knows.largest
    if largest is not None:
        rows = np.union1d(rows, df[largest].to_numpy().argsort()[-LARGEST:])
    rows = np.sort(rows)
    small, part = _small(study, targets, depth), whole.iloc[rows]
    given = None if study.release.files is None else stand_in(small, part, None)
    clock, seeds = Clock(clocks.process_time), seeds_of(0)
    how: dict[str, Any] = {"n_jobs": 1, "progress": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        declared = small.model.declared(part)
        ready = fit_and_release(small, declared, part, given, clock, seeds=seeds, **how)
        audits(small, ready, clock, seeds[2:], how)
    return clock.seconds
