"""Runs of a generator on tables in which some records have other values, and what they show."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError
from bayes_risk._core.parallel import in_order
from bayes_risk._core.progress import Progress
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.evidence.contract import Targets
from bayes_risk.release.release import EncodedRelease, Release

from .features import Features
from .generator import Generator, generated_tables
from .leaks import likelihoods, suspects
from .ratio import Examples, normalised

ALTERNATIVES = 12  # guesses of an example, the one that was drawn among them
MOST = 12_000  # examples that a model is fitted to, about
NEXT = 5  # runs between two looks at copies of single records
MOST_AGAIN = 100  # records that are drawn again in a run
FEWEST = 60  # examples: of fewer nothing can be learnt


class RunFiles(NamedTuple):
    """Released files of a run: codes (m, N, p), and whether row i is record i."""

    Z: Codes
    corresponds: bool


class Redrawn(NamedTuple):
    """A table y (n, p) with values drawn, the places in the pool whose they are, which guess."""

    y: Codes
    places: Ints
    chosen: Ints


def per_run_of(n: int, share: float, runs: int) -> int:
    """How many of n records a share is; in all runs they must be enough to learn from."""
    each = max(1, round(share * n))
    if each * runs < FEWEST or each >= n - 1:
        raise InputError(
            "runs",
            runs,
            f"with share = {share:g} give {each * runs:,} examples ({each:,} of {n:,} records in "
            f"each run), and at least {FEWEST} of some records are needed; give more runs, or a "
            "larger share below 1",
        )
    return each


def run_of(
    generator: Generator, release: Release, microdata: Microdata, y: Codes, seed: int
) -> RunFiles:
    """One run: the generator on a table y (n, p) of the records, read as the release is."""
    data = replace(microdata, codes=y)
    tables = generated_tables(generator, data.decode(y), release.m, seed, release.synthesized)
    given = replace(release, datasets=tables, draw_index=None, groups=None, seed_entropy="run")
    try:
        found = EncodedRelease.of(given, data)
    except InputError as error:
        raise InputError(
            "generator", f"returned tables that do not fit the table it was given: {error.text}"
        ) from None
    return RunFiles(found.codes, found.corresponds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RedrawPlan:
    """Whose values are drawn in the runs of an audit, and from which guesses.

    ``pool`` (P,): records that may be drawn, and ``of`` (P,): the target whose guesses they have;
    ``codes`` (G, U, q), ``counted`` (G, U): guesses; ``per_run``: how many are drawn in a run.
    """

    columns: Ints
    pool: Ints
    of: Ints
    codes: Codes
    counted: Flags
    per_run: int
    n: int

    @classmethod
    def made(
        cls, release: EncodedRelease, targets: Targets, share: float, runs: int
    ) -> "RedrawPlan":
        """Targets with their guesses, all others with those of the target that is most like them.

        Where values can be impossible together, the targets alone.
        """
        codes, counted = targets.guesses.codes, targets.guesses.counted
        of = np.full(len(release.replaced), -1)
        of[targets.record] = np.arange(len(targets))
        others = np.flatnonzero(of < 0)
        if release.microdata.impossible is None and len(others):
            values = release.microdata.codes[:, targets.columns].astype(float)
            values = values / np.maximum(values.std(axis=0), 1e-12)
            of[others] = cKDTree(values[targets.record]).query(values[others])[1]
        pool = np.flatnonzero(release.replaced & (of >= 0))
        pool = pool[counted.sum(axis=0)[of[pool]] > 1]
        how: Any = {"columns": targets.columns, "codes": codes, "counted": counted, "n": len(of)}
        return cls(pool=pool, of=of[pool], per_run=per_run_of(len(pool), share, runs), **how)

    def guesses_of(self, places: Ints) -> tuple[Codes, Flags]:
        """Guesses (G, k, q) of some of the pool, and which of them count (G, k)."""
        return self.codes[:, self.of[places]], self.counted[:, self.of[places]]

    def again(self, copied: Array, done: int, total: int) -> list[Ints]:
        """Who is drawn again in the next runs: nobody until all had their turn; then suspects.

        ``copied``: log likelihoods of their effects, from the runs that are done.
        """
        if not done:
            return [np.zeros(0, dtype=np.int64)] * min(
                len(self.pool) // self.per_run, max(total // 2, 1)
            )
        each, runs = max(1, min(self.per_run // 4, MOST_AGAIN)), min(NEXT, total - done)
        found = suspects(copied)
        always, others = found[: each // 2], found[each // 2 :]  # the first always, others once
        return [np.r_[always, others[r::runs][: each - len(always)]] for r in range(runs)]

    def drawn(self, y: Codes, seed: int, r: int, again: Ints) -> Redrawn:
        """The table of run r, with values drawn: of those whose turn it is, and some again."""
        turn, at = divmod(r, len(self.pool) // self.per_run)  # each is drawn once in a turn
        order = np.random.default_rng([seed, 0, turn]).permutation(len(self.pool))
        own = order[at * self.per_run : (at + 1) * self.per_run]
        places = np.r_[own, np.setdiff1d(again, own)]
        codes, counted = self.guesses_of(places)
        rng = np.random.default_rng([seed, 1, r])
        chosen = (rng.random(counted.shape) * counted).argmax(axis=0)
        out = y.copy()
        out[np.ix_(self.pool[places], self.columns)] = codes[chosen, np.arange(len(places))]
        return Redrawn(out, places, chosen)

    def shown(
        self, how: Features, table: Redrawn, Z: Codes, rng: Rng, run: int, most: int
    ) -> "RunExamples":
        """What a run shows of the records drawn, with some of their guesses."""
        y, places, chosen = table
        codes, counted = self.guesses_of(places)
        at = np.arange(len(places))
        keys = np.where(counted, rng.random(counted.shape), 2.0)
        keys[chosen, at] = -1.0  # first
        kept = np.sort(np.argsort(keys, axis=0)[:ALTERNATIVES], axis=0)
        codes, counted = codes[kept, at], counted[kept, at]
        log_share = np.where(counted.T, 0.0, -np.inf)
        drawn = (kept == chosen).argmax(axis=0)
        exact = how.copies(y, Z, self.pool[places], codes)

        turn = at[: self.per_run]
        if len(turn) > most:
            turn = np.sort(rng.choice(turn, most, replace=False))
        some = np.r_[turn, at[self.per_run :]]
        made = how.made(y, Z, self.pool[places[some]], codes[:, some])

        def examples(part: slice) -> Examples:
            of = some[part]
            these = drawn[of], np.full(len(of), run), exact[of], places[of]
            return Examples(made.features[part], log_share[of], *these)

        copied = likelihoods(places, exact, normalised(log_share), drawn, len(self.pool))
        one, other = (examples(part) for part in (slice(len(turn)), slice(len(turn), None)))
        return RunExamples(one, other, copied, made.behind)


class RunExamples(NamedTuple):
    """What a run shows of records whose turn it was, and of those drawn again.

    ``copied``: log likelihoods of the effects of all; ``behind``: as in `Made`.
    """

    turn: Examples
    again: Examples
    copied: Array
    behind: Array


def in_turn(
    job: Callable[[int], Callable[[], RunFiles]],
    which: range,
    n_jobs: int,
    progress: Progress | None,
) -> Iterator[RunFiles]:
    """Runs as they are asked for, worked on ahead, each kept as a step of its own."""
    ahead: Iterator[tuple[int, RunFiles]] | None = None

    def computed(r: int) -> dict[str, Any]:
        nonlocal ahead
        if ahead is None:
            todo = range(r, which.stop)
            jobs = in_order([job(k) for k in todo], n_jobs=n_jobs, what="runs")
            ahead = zip(todo, jobs, strict=True)
        return next(found for k, found in ahead if k == r)._asdict()  # after those that are kept

    for r in which:
        yield RunFiles(**stage(f"run {r + 1}", partial(computed, r)))
        if progress is not None:
            progress("runs", r + 1, which.stop)


def seeds_remark(run: Callable[[int], RunFiles], first: RunFiles, seed: int) -> str:
    """Whether a generator heeds its seed, in words; nothing: it does.

    ``run``: the first run again, with a seed.
    """
    again, other = run(seed), run(seed ^ 1)
    if not np.array_equal(again.Z, first.Z, equal_nan=True):
        return "; the generator ignores its seed: the same seed gave other files"
    if np.array_equal(other.Z, first.Z, equal_nan=True):
        return "; the generator ignores its seed: another seed gave the same files"
    return ""
