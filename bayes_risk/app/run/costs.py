"""What a study will take: memory by arithmetic, time from two small runs of it on its own data.

The evidence of G guesses of U distinct cases takes ``(8 m + 4 F B) G U`` bytes, with m releases,
``F`` fits (m + 1, or 1 in closed form) and ``B`` batches of draws.
"""

import time as clocks
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.memory import bytes_of, in_words, resident
from bayes_risk._core.validate import at_least
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.study import Study, candidate_study
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import CELLS
from bayes_risk.evidence.leave_one_out import BLOCK, ROOM
from bayes_risk.evidence.methods import EVIDENCE
from bayes_risk.intruder.grids import as_guesses
from bayes_risk.release.release import EncodedRelease

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
    stages_of,
    stand_in,
    unsampled,
)

PROGRAM, SAMPLER = 100 * 2**20, 100 * 2**20  # code that is compiled later, and of samplers
SHARED = ("model", "microdata", "idata", "files")  # among all fits, or counted with the table
SMALL = ((600, 20), (1_800, 60))  # records and draws of the small runs
BY_DRAW = ("fit", "attribute risk", "reweighting", "membership", "full table")
LARGEST = 5  # records of a count's largest values


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run will take: of its largest audit the size and the bytes, and all CPU seconds."""

    stages: Sequence[str]
    records: int
    cases: int  # distinct ones
    guesses: int
    draws: int  # 0: evidence in closed form
    releases: int
    program: int  # bytes of code and whatever is in memory already
    data: int  # bytes of the run
    settings: int  # of a sweep, or replicates of candidates: made one after another
    seconds: Mapping[str, float]  # by stage or candidate; empty: not asked for

    @property
    def peak(self) -> int:
        """Bytes that are needed at most."""
        return self.program + self.data

    def check(self, max_memory: str | int | None) -> None:
        """Stop where the ceiling cannot be promised."""
        if max_memory is not None and self.peak > bytes_of(max_memory):
            raise InputError(
                f"the study needs up to {in_words(self.peak)}, and max_memory is "
                f"{in_words(bytes_of(max_memory))}; audit fewer targets, weigh fewer guesses, keep "
                "fewer draws, make fewer releases, or raise max_memory"
            )

    def __str__(self) -> str:
        several = f"{self.settings:,} audits, the largest of " if self.settings > 1 else ""
        seconds = sum(self.seconds.values())
        return (
            f"stages: {', '.join(self.stages)}\n"
            f"{several}{self.records:,} records, {self.cases:,} distinct cases, {self.guesses:,} "
            f"guesses each, {self.draws:,} draws, {self.releases} releases\n"
            f"memory: up to {in_words(self.peak)}\n"
            f"CPU time: about {seconds:,.0f} s, within a factor of two or so"
        )


def estimate(
    study: Study,
    *,
    kind: str = "audit",
    n_jobs: int = 2,
    backend: str | None = None,
    time: bool = True,
) -> Cost:
    """Memory and time that a study will take, before it is run; nothing is written.

    Of an audit, sweep or comparison (`kind`), with workers as in `run_study`. ``time`` runs the
    study three times on some of its records, and extends this in a straight line in records, with
    targets in proportion, times draws.

    Raises
    ------
    InputError
        Data or settings that do not fit.
    """
    at_least("n_jobs", n_jobs, 1)
    study.check_says(kind)
    df, _ = read_data(study.data)
    if kind == "compare":
        candidates_of(study, df)
        runs = {name: candidate_study(study, name, df) for name in study.compare.candidates}
    else:
        runs = {"": alone(study) if kind == "sweep" else study}
        checked_inputs(runs[""], df)
    sizes, seconds = [], {}
    for name, one in runs.items():
        size = _size(one, df, study, kind, n_jobs, backend in ("loky", "dask"))
        took = _seconds(one, df, size["cases"]) if time else {}
        if time and kind == "sweep":  # fit and release are made once
            took["sweep"] = size["settings"] * took.pop("attribute risk")
        seconds |= {name: size["settings"] * sum(took.values())} if time and name else took
        sizes.append(size)
    settings = sum(size["settings"] for size in sizes)
    largest = max(sizes, key=lambda size: size["data"]) | {"settings": settings}
    return Cost(stages=stages_of(study, kind), seconds=seconds, **largest)


# --- memory -----------------------------------------------------------------------------------


def _size(
    one: Study, df: pd.DataFrame, study: Study, kind: str, n_jobs: int, processes: bool
) -> dict[str, int]:
    """Sizes of one audit, and a bound on its bytes."""
    fit: Any = unsampled(one, one.model.declared(df) if needs_fit(one) else None, df)
    release = stand_in(one, df, fit)
    numbers = [str(c) for c in df if df[c].dtype.kind in "iuf"]
    table = fit.microdata if fit else Microdata.from_frame(df, numbers=numbers, missing="level")
    (n, p), m, H, chains = df.shape, one.m, 0, getattr(one.model, "chains", 1)
    U = G = q = held = 0
    settings, posteriors = 1, 2
    if kind == "compare" and one.release.files is None:
        settings = study.compare.replicates
    if fit is not None:
        H, trees = fit.n_draws, getattr(fit.model, "n_trees", 1)  # one stands for so many
        held = trees * sum(_held(getattr(fit, f.name)) for f in fields(fit) if f.name not in SHARED)
    if fit is not None and (audit := one.attribute) is not None:
        section = study.sweep if kind == "sweep" else None
        U, G, q = _guessed(
            one, table, one.synthesized_in(df), section.values("guesses") if section else []
        )
        if not fit.records_differ and release.classes != "own":
            U = min(U, len(np.unique(table.codes, axis=0)))
        can = fit.capabilities(EncodedRelease.of(release.first(2), table), audit.knows)
        usual = next((way for way in EVIDENCE if way in can.methods), "")
        if audit.knows.is_competitor or (audit.evidence or usual) in can.computed:
            H = 0  # the model computes the evidence itself
        chains = chains if can.led is None else can.led.led_chains
        if section:
            factors, _, one_by_one = factors_of(one, fit, release)
            every = factors.settings(one_at_a_time=one_by_one)
            settings = len({tuple(p for p in setting.items() if p[0] != "m") for setting in every})
            posteriors += len(section.values("priors"))
    F, B = (m + 1, 2 * chains) if H else (2, 2)
    block = min(U, max(BLOCK, ROOM // max(H, 1))) * (80 * H + 40 * G * B)
    levels = int(np.maximum(table.n_levels - 1, 1).sum())
    design = n * levels * (levels if levels < 45 else 1) if one.utility else 0  # of two columns
    tables = int(df.memory_usage(deep=True).sum()) + n * p * (20 * m + 40) + 8 * n * levels
    program = PROGRAM + (SAMPLER if fit is not None and fit.n_draws else 0)
    pairs = U * G * (16 * m + 8 * F * B + 160 + 24 * posteriors)
    if not H:  # distances, and factors of each guessed column
        pairs += min(20 * U * G * n, 40 * 2**20) + 16 * q * min(m * U * G, CELLS)
    data = tables + held * (settings + m + 1) + pairs
    each = block + 32 * design + (program + tables + pairs // F if processes else 0)
    sizes = {"records": n, "cases": U, "guesses": G, "draws": H, "releases": m}
    sizes |= {"program": resident() + program, "data": data + n_jobs * each}
    return sizes | {"settings": settings}


def _guessed(
    study: Study, data: Microdata, made: list[str], further: list[Any]
) -> tuple[int, int, int]:
    """Targets, the most guesses of each, and guessed columns."""
    section, n = study.attribute, len(data.codes)
    names = study.guessed or [c for c in made if c not in section.knows_columns]
    columns = np.array([data.columns.index(c) for c in names])
    most = 0
    for guesses in [section.guesses, *further]:
        one = section.model_copy(update={"guesses": guesses}).placed_anywhere()
        weighed = as_guesses(one.options["guesses"], [c for c in names if c in data.numbers])
        most = max(most, len(weighed.of(data, data.codes[:2], columns).codes))
    given = 1 if section.knows.largest is not None else section.targets
    targets = n if given == "all" else given if isinstance(given, int) else len(given)
    return min(targets, n), most, len(names)


def _held(value: Any) -> int:
    """Bytes of the arrays in a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value) and not isinstance(value, Microdata):
        return sum(_held(getattr(value, f.name)) for f in fields(value))
    parts = value.values() if isinstance(value, Mapping) else value
    return sum(map(_held, parts)) if isinstance(value, Mapping | list | tuple) else 0


# --- time -------------------------------------------------------------------------------------


def _seconds(study: Study, df: pd.DataFrame, cases: int) -> dict[str, float]:
    """CPU seconds by stage of small runs, extended to all records and draws: a straight line."""
    draws = getattr(study.model, "draws", None)
    whole = (len(df), draws if isinstance(draws, int) else 1)  # of files: as they are
    least = study.m if whole[1] > 1 else 1  # draws of a chain, one for each data set
    sizes = [(min(n, whole[0]), min(max(d, least), whole[1])) for n, d in SMALL]
    _one(study, df, sizes[0], cases)  # compiles
    few, many = (_one(study, df, size, cases) for size in sizes)
    found = {}
    for stage, took in few.items():
        low, high, all_of_it = (n * (d if stage in BY_DRAW else 1) for n, d in [*sizes, whole])
        each = max(many[stage] - took, 0.0) / max(high - low, 1)
        rounds = (1 + study.reweight.rounds) / 2 if stage == "reweighting" else 1
        found[stage] = rounds * (took + each * (all_of_it - low))
    return found


def _one(study: Study, df: pd.DataFrame, size: tuple[int, int], cases: int) -> dict[str, float]:
    """CPU seconds by stage of one small run; its levels are those of all records.

    The targets are others than the study's, for whom its grids may have no place, and the table
    stands in the place of releases made elsewhere.
    """
    (n, draws), parts = size, {"output": study.output.model_copy(update={"folder": None})}
    if draws > 1:
        tune = max(study.model.tune * draws // study.model.draws, 1)
        parts["model"] = study.model.model_copy(update={"draws": draws, "tune": tune})
    rows = np.random.default_rng(0).choice(len(df), n, replace=False)
    if (audit := study.attribute) is not None:
        update: dict[str, Any] = {"refit_budget": 0, "target_mcse": None}
        if audit.knows.largest is None:
            update["targets"] = max(cases * n // len(df), 2)
        else:
            rows = np.union1d(rows, df[audit.knows.largest].to_numpy().argsort()[-LARGEST:])
        parts["attribute"] = audit.placed_anywhere().model_copy(update=update)
    if study.reweight is not None:
        parts["reweight"] = study.reweight.model_copy(update={"rounds": 1})
    small = study.model_copy(update=parts)
    whole = df.apply(lambda c: c.astype("category") if c.dtype.kind not in "iufb" else c)
    part = whole.iloc[np.sort(rows)]
    given = None if study.release.files is None else stand_in(small, part, None)
    clock, seeds = Clock(clocks.process_time), seeds_of(0)
    how: dict[str, Any] = {"n_jobs": 1, "progress": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        declared = small.model.declared(part)
        ready = fit_and_release(small, declared, part, given, clock, seeds=seeds, **how)
        audits(small, ready, clock, seeds[2:], how)
    return clock.seconds
