"""Membership under any generator: runs in which a random share of the records is left out.

What the files show of a record that was left out is compared with what they show of one that was
not: a logistic regression on counts of rows that agree with the whole record, on sets of columns,
in Z and in the records known. Its log odds less those of the shares is a log Bayes factor.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.progress import Progress
from bayes_risk.evidence.contract import LeftOut
from bayes_risk.release.release import EncodedRelease

from .features import Features
from .generator import Generator, seed_from
from .ratio import Examples, batches, fitted_ratio
from .runs import MOST, RunFiles, in_turn, per_run_of, run_of

HALF = np.log(0.5)


def left_out_factors(
    generator: Generator,
    release: EncodedRelease,
    *,
    runs: int,
    share: float,
    rng: Rng,
    n_jobs: int,
    progress: Progress | None,
) -> LeftOut:
    """Log Bayes factors of all records in the release, and of those in and out of each run."""
    data, n = release.microdata, len(release.microdata.codes)
    each = per_run_of(n, share, runs)
    seeds = [int(child.integers(2**62)) for child in rng.spawn(3)]
    how = Features.of(data, np.arange(len(data.columns)), linked=False, whole=False)

    def chosen(r: int) -> tuple[Ints, Ints]:
        order = np.random.default_rng([seeds[0], r]).permutation(n)
        most = min(each, n - each, max(1, MOST // (2 * runs)))
        return order[:each], np.concatenate([order[:most], order[each : each + most]])

    def present(r: int) -> Flags:
        there = np.ones(n, dtype=bool)
        there[chosen(r)[0]] = False
        return there

    def job(r: int) -> Callable[[], RunFiles]:
        part = replace(data, codes=data.codes[present(r)], index=data.index[present(r)])
        seed = seed_from(np.random.default_rng([seeds[1], r]))
        return partial(run_of, generator, release.source, part, part.codes, seed)

    parts, centre = list[Examples](), np.zeros(0)
    records = list[Ints]()
    for r, files in enumerate(in_turn(job, range(runs), n_jobs, progress)):
        rows, there = chosen(r)[1], present(r)
        if not r:
            how.learn([(data.codes[there], files.Z)])
        found = how.made(data.codes, files.Z, rows, data.codes[rows][None], there)
        centre = found.features[:, 0].mean(axis=0) if not r else centre
        features = _against(found.features[:, 0] - centre)
        drawn, half = there[rows].astype(int), np.full((len(rows), 2), HALF)
        parts.append(Examples(features, half, drawn, np.full(len(rows), r)))
        records.append(rows)
    examples = Examples.joined(parts)
    fit = fitted_ratio(examples)
    every = how.made(data.codes, release.codes, np.arange(n), data.codes[None]).features[:, 0]
    shown = _against(every - centre)[:, 1]  # where a record was not there all is 0
    return LeftOut(
        log_bayes_factor=shown @ fit.weights,
        deviations=batches(shown @ fit.directions.T),
        held_out=fit.log_p[:, 1] - fit.log_p[:, 0],
        inside=examples.drawn == 1,
        run=examples.run,
        record=np.concatenate(records),
    )


def _against(found: Array) -> Array:
    """Features (N, 2, d + 1) of a record that was not there, all 0, and of one that was."""
    one = np.concatenate([found, np.ones((len(found), 1))], axis=1)
    return np.stack([np.zeros_like(one), one], axis=1)
