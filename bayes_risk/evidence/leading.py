"""Audits led by the release: starts are led to its mode, told apart, and carried on.

The derivation stands in `docs/modes.md`.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk.data.microdata import Microdata
from bayes_risk.intruder.guesses import Neighbourhood, possible
from bayes_risk.release.release import EncodedRelease

from .contract import Led, Progress, Targets
from .leave_one_out import Reading, ratio_of_fit
from .modes import Modes, told_apart

Array = npt.NDArray[np.float64]
PROBES = 64  # targets by whose guesses starts are told apart
SCORED = 50  # draws of a start, about, that the release is weighed with


def probed(data: Microdata, cases: Targets) -> Targets:
    """Some of the targets, evenly spread, with all guesses that differ from them in one variable.

    By what they say of these starts are told apart, whatever is asked of the targets.
    """
    some = np.unique(np.linspace(0, len(cases) - 1, min(len(cases), PROBES)).astype(np.int64))
    few = cases.only(some)
    guesses = Neighbourhood(1).of(data, few.profiles, few.columns)
    return few.with_guesses(possible(guesses, data, few.profiles, few.columns))


def within_mode(
    fit: Led,
    release: EncodedRelease,
    probes: Targets,
    *,
    read: Reading,
    remember: Callable[[tuple[Hashable, ...], Callable[[], Led]], Led],
    rngs: Sequence[np.random.Generator],
    n_jobs: int,
    progress: Progress | None,
) -> tuple[Led, Modes]:
    """The fit with chains in the mode that the release has led them to.

    ``read`` gives the predictives of a posterior, ``remember`` makes a fit unless it is known.

    Notes
    -----
    Cost: that of a fit on the table and all data sets, stacked; log ratios of the probes.
    """
    lead, score, carry = rngs
    how: dict[str, Any] = {"n_jobs": n_jobs, "progress": progress}

    led = remember(("starts",), lambda: fit.led(release, rng=lead, **how))
    base = led.informed(release)
    ratios = []
    for c, rng in enumerate(score.spawn(led.n_chains)):
        one = partial(led.of_chains, base, np.array([c]))
        ratios.append(ratio_of_fit(one, probes, rng, n_jobs, read))
    value = np.stack([r.value for r in ratios])
    error = np.stack([0.5 * (r.deviation[0] - r.deviation[1]) for r in ratios]).astype(float)
    found = told_apart(value, error, _scores(led, release), fit.led_chains)

    key = ("carried", found.used.tobytes())
    return remember(key, lambda: led.carried(found.used, rng=carry, **how)), found


def _scores(fit: Led, release: EncodedRelease) -> Array:
    """Mean log p(Z | Theta_h) of the halves of each chain, shape (C, 2); some draws will do."""
    C = fit.n_chains
    size = fit.n_draws // C
    few = np.unique(np.linspace(0, size - 1, min(size, SCORED)).astype(np.int64))
    draws = (size * np.arange(C)[:, None] + few).ravel()
    log_p = fit.log_release(release, draws).sum(axis=0).reshape(C, len(few))
    half = max(log_p.shape[1] // 2, 1)
    return np.stack([log_p[:, :half].mean(axis=1), log_p[:, -half:].mean(axis=1)], axis=1)
