"""Small audits of every kind, as bytes: what must not depend on workers and blocks."""

import dataclasses
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br

STUDY = {
    "title": "workers",
    "random_seed": 5,
    "data": {"demo": "italy"},
    "model": {"n_classes": 8, "draws": 40, "tune": 20, "chains": 2},
    "release": {"m": 2},
    "attribute": {"targets": 60, "refit_budget": 2},
    "identification": {"known": [], "synthesized": ["AGE", "EDU", "PRO"]},
    "utility": {"permutations": 4},
}
N = 60


def people() -> pd.DataFrame:
    """Three categories, an income that goes with them, and a count."""
    rng = np.random.default_rng(2)
    sex, age = rng.choice(["f", "m"], N), rng.choice(["young", "middle", "old"], N)
    job = np.where(rng.random(N) < 0.6, np.where(sex == "f", "clerk", "pilot"), "cook")
    income = 20.0 + 8.0 * (age == "old") + 5.0 * (job == "pilot") + rng.normal(0, 4, N)
    visits = rng.poisson(1.0 + 3.0 * (age == "old"))
    frame = {"sex": sex, "age": age, "job": job, "income": income.round(2), "visits": visits}
    return pd.DataFrame(frame)


def digest(found: Any) -> Any:
    """All numbers of a result, as bytes."""
    if isinstance(found, np.ndarray):
        return (found.dtype.str, found.shape, found.astype(str).tobytes() if found.dtype == object
                else found.tobytes())  # fmt: skip
    if dataclasses.is_dataclass(found):
        return {f.name: digest(getattr(found, f.name)) for f in dataclasses.fields(found)}
    if isinstance(found, list | tuple):
        return [digest(part) for part in found]
    return found.hex() if isinstance(found, float) else None


CATEGORIES = ["sex", "age", "job"]
SHORT: dict[str, Any] = {"draws": 60, "tune": 30, "chains": 2, "random_seed": 1}
HALF = br.Intruder(knows_records=np.arange(N) % 2 == 0)
GRID = {"income": br.Grid(additive=5.0, n=5)}
COUNTS = br.Grid(values=list(range(8)))


@cache
def classes(m: int = 2) -> Any:
    """A mixture of categories and its release."""
    fit = br.models.DPMPM(n_classes=4).fit(people()[CATEGORIES], **SHORT)
    return fit, fit.synthesize(m, random_seed=2)


@cache
def counts(m: int = 2) -> Any:
    """A mixture of counts and its release."""
    table = people()[["visits"]].assign(more=np.arange(N) % 5)
    fit = br.models.PoissonMixture(3, kind="MP").fit(table, **SHORT)
    return fit, fit.synthesize(m, random_seed=2)


@cache
def regressions(family: str) -> Any:
    """Regressions of the income or of the visits, and a release."""
    formulas = {"income": "1 + age + C(job)"} if family == "normal" else {"visits": "1 + age"}
    model = br.models.Regression(formulas, dict.fromkeys(formulas, family))
    fit = model.fit(people(), **SHORT)
    return fit, fit.synthesize(2, random_seed=2)


def of_classes(n_jobs: int) -> list[Any]:
    """Attribute risk with refits, membership, utility."""
    fit, release = classes()
    how: dict[str, Any] = {"random_seed": 3, "n_jobs": n_jobs}
    risk = br.attribute_risk(fit, release, refit_budget=2, target_mcse=0.01, **how)
    members = br.membership(fit, release, records=20, comparisons=10, refit_budget=1, **how)
    useful = br.utility(people()[CATEGORIES], release, permutations=3, **how)
    return [risk, members, useful]


def refitted(n_jobs: int) -> list[Any]:
    """Every target left out in turn; and the published estimator."""
    fit, release = classes()
    how: dict[str, Any] = {"random_seed": 3, "n_jobs": n_jobs}
    return [
        br.attribute_risk(fit, release, evidence="refit", targets=6, **how),
        br.attribute_risk(fit, release, evidence="importance", **how),
    ]


def tables(n_jobs: int) -> list[Any]:
    """The full table, and the likeliest values."""
    fit, release = classes(1)
    how: dict[str, Any] = {"random_seed": 3, "n_jobs": n_jobs}
    return [
        br.full_table_risk(fit, release, targets=8, **how),
        br.likeliest(fit, release, targets=8, k=5, **how),
    ]


def forest(n_jobs: int) -> list[Any]:
    """Forests grown, synthesised from and audited."""
    model = br.models.Forest(order=["age", "job"], n_trees=12)
    fit = model.fit(people()[CATEGORIES], random_seed=1, n_jobs=n_jobs)
    release = fit.synthesize(2, random_seed=2)
    return [release.datasets[0].to_numpy(), _risk((fit, release), n_jobs)]


def cart(n_jobs: int) -> list[Any]:
    """Trees, audited."""
    fit = br.models.CART(order=["job", "income"]).fit(people(), random_seed=1)
    release = fit.synthesize(2, random_seed=2)
    useful = br.utility(people(), release, permutations=3, random_seed=3, n_jobs=n_jobs)
    return [_risk((fit, release), n_jobs, guesses=GRID), useful]


def pmm(n_jobs: int) -> list[Any]:
    """Predictive mean matching, audited."""
    model = br.models.PMM(["income"], identifying=["age", "income"], cuts={"income": [15, 20, 25]},
                          threshold=12)  # fmt: skip
    fit = model.fit(people())
    return [_risk((fit, fit.synthesize(2, random_seed=2)), n_jobs, guesses=GRID)]


def knows_half(n_jobs: int) -> list[Any]:
    """Two releases and an intruder who knows half of the records: the others are imputed."""
    out = []
    for fit, release in (classes(), counts(), regressions("normal"), regressions("poisson")):
        grid: Any = None if release is classes()[1] else COUNTS
        grid = GRID if "income" in release.synthesized else grid
        guesses = {} if grid is None else {"guesses": grid}
        out.append(_risk((fit, release), n_jobs, intruder=HALF, targets=[0, 1, 30, 31], **guesses))
    return out


def _risk(made: Any, n_jobs: int, **how: Any) -> Any:
    fit, release = made
    return br.attribute_risk(fit, release, random_seed=3, n_jobs=n_jobs, **how)


AUDITS = {
    "DPMPM": of_classes,
    "refits": refitted,
    "tables": tables,
    "Forest": forest,
    "CART": cart,
    "PMM": pmm,
    "normal": lambda n: [_risk(regressions("normal"), n, guesses=GRID)],
    "normal refits": lambda n: [
        _risk(regressions("normal"), n, guesses=GRID, evidence="refit", targets=4)
    ],
    "normal, knows half": lambda n: [
        _risk(regressions("normal"), n, guesses=GRID, intruder=HALF, targets=[0, 1])
    ],
    "poisson": lambda n: [_risk(regressions("poisson"), n, guesses=COUNTS)],
    "PoissonMixture": lambda n: [_risk(counts(), n, guesses=COUNTS)],
    "knows half": knows_half,
    "fits": lambda n: [
        br.models.DPMPM(n_classes=4).fit(people()[CATEGORIES], **SHORT, n_jobs=n).posterior
    ],
}


@cache
def alone(name: str) -> Any:
    """What it finds with one worker and blocks of the usual size."""
    return found(name, n_jobs=1)


def found(name: str, *, n_jobs: int) -> Any:
    """What an audit finds, as bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return digest(AUDITS[name](n_jobs))


# --- what is read in threads -----------------------------------------------------------------

_listening: list[list[str]] = []  # to whom to tell; a hook cannot be taken off again
_hooked: list[bool] = []


@contextmanager
def read_in_threads() -> Iterator[list[str]]:
    """Within the block, what any thread but the main one parses, compiles or imports: stacks.

    CPython 3.11 before 3.11.8 may die when two threads parse at once. numba's compiler is left out:
    it parses too, but never two threads at once, for it has a lock.
    """
    if not _hooked:
        sys.addaudithook(_heard)
        _hooked.append(True)
    found: list[str] = []
    _listening.append(found)
    try:
        yield found
    finally:
        _listening.remove(found)


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if not _listening or event not in ("compile", "import"):
        return
    if threading.current_thread() is not threading.main_thread():
        stack = traceback.extract_stack()
        if not any(at.filename.endswith("compiler_lock.py") for at in stack):
            ours = "".join(traceback.format_list(stack[-6:-1]))
            _listening[-1].append(f"{event} {args[0] if event == 'import' else ''}\n{ours}")
