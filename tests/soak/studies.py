"""Random studies: a table, a model, a release of it or of somebody else's making, an intruder."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.soak.choices import Choices, chance, generator, pick, some, whole_power
from tests.soak.schemas import category, count, number, numbered, rows

MODELS = ("DPMPM", "CART", "Forest", "PMM", "Regression", "PoissonMixture")
EXACT = ("CART", "Forest", "Regression")  # audits without a draw
PRIORS = ("uniform", "marginal", "predictive", "release", "release-joint")


@dataclass
class Study:
    """What one run needs; `fit` and `release` are made when asked for."""

    kind: str
    table: pd.DataFrame
    model: Any
    fitting: dict[str, Any]
    synthesis: dict[str, Any]
    change: str
    audit: dict[str, Any]
    seed: int
    notes: list[str] = field(default_factory=list)

    def fit(self, table: pd.DataFrame | None = None) -> Any:
        how = dict(self.fitting)
        if self.kind != "PMM":
            how["random_seed"] = self.seed
        return self.model.fit(self.table if table is None else table, **how)

    def release(self, fit: Any) -> br.Release:
        made = fit.synthesize(**self.synthesis, random_seed=self.seed + 1)
        return changed(made, self.table, self.change, np.random.default_rng(self.seed))


def changed(
    release: br.Release, table: pd.DataFrame, change: str, rng: np.random.Generator
) -> br.Release:
    """The release as it is, as somebody else has made it, unchanged, or with unseen values."""
    if change == "own":
        return release
    datasets = [data.copy() for data in release.datasets]
    for l, data in enumerate(datasets):
        for name in release.synthesized:
            if change == "unchanged":
                data[name] = table[name].to_numpy() if l % 2 else table[name]
            elif change == "shuffled":
                data[name] = data[name].iloc[rng.permutation(len(data))].to_numpy()
            else:
                data[name] = unseen(data[name], rng)
    return br.Release(datasets=datasets, synthesized=release.synthesized)


def unseen(column: pd.Series, rng: np.random.Generator) -> pd.Series:
    """A column in which one value is none that the original has."""
    at = int(rng.integers(len(column)))
    numeric = pd.api.types.is_numeric_dtype(column.dtype)
    bool_ = pd.api.types.is_bool_dtype(column.dtype)
    values = column.to_numpy(dtype=object).copy()
    values[at] = "never seen" if not numeric or bool_ else rng.choice([-1.5, 1e308, 7e5])
    return pd.Series(values, index=column.index).infer_objects()


def study(choices: Choices, kind: str) -> Study:
    """A study of one kind of model."""
    table, model, fitting, synthesis = _MAKERS[kind](choices)
    columns = synthesis.get("columns") or list(getattr(model, "order", table.columns))
    synthesis["m"] = choices.whole(1, 5)
    return Study(
        kind=kind,
        table=table,
        model=model,
        fitting=fitting,
        synthesis=synthesis,
        change=pick(choices, ["own"] * 4 + ["shuffled", "unchanged", "unseen"]),
        audit=_audit(choices, kind, table, columns, weighted="weights" in fitting),
        seed=choices.whole(0, 2**31),
    )


def _weights(choices: Choices, n: int) -> dict[str, Any]:
    if not chance(choices, 5):
        return {}
    alpha = 1 - generator(choices).random(n) ** pick(choices, [1, 20])
    return {"weights": np.maximum(alpha, pick(choices, [0.5, 1e-9]))}


def _some_but_one(choices: Choices, table: pd.DataFrame) -> list[str]:
    """Columns to synthesise; mostly one is left as a predictor."""
    names = list(table.columns)
    return some(choices, names if chance(choices, 8) else names[: max(len(names) - 1, 1)])


def _categories(choices: Choices, most: int = 2_000) -> pd.DataFrame:
    n = rows(choices, most)
    return numbered([category(choices, n) for _ in range(2 + choices.whole(0, 6))], choices)


def _mixed(choices: Choices, most: int = 2_000) -> pd.DataFrame:
    n, p = rows(choices, most), 1 + whole_power(choices, 7)
    kinds = [pick(choices, [category, number]) for _ in range(p)]
    return numbered([kind(choices, n) for kind in kinds], choices)


def _dpmpm(choices: Choices) -> Any:
    table = _categories(choices)
    model = br.models.DPMPM(
        n_classes=whole_power(choices, 8),
        concentration_prior=pick(choices, [(0.25, 0.25), (1e-3, 1e3), (50.0, 0.1)]),
        level_prior=pick(choices, [1.0, 1e-6, 100.0]),
    )
    fitting = {"draws": choices.whole(4, 8), "tune": choices.whole(0, 5), "thin": 1}
    synthesis: dict[str, Any] = {"columns": some(choices, list(table.columns))}
    if chance(choices, 5):
        synthesis["classes"] = "own"
    return table, model, fitting | _weights(choices, len(table)), synthesis


def _cart(choices: Choices) -> Any:
    table = _mixed(choices)
    model = br.models.CART(
        _some_but_one(choices, table),
        min_leaf=whole_power(choices, 20),
        bootstrap=pick(choices, ["bayesian", "none"]),
        smoothing=pick(choices, [None, None, "kde"]),
    )
    return table, model, _weights(choices, len(table)), {}


def _forest(choices: Choices) -> Any:
    table = _categories(choices, 500)
    model = br.models.Forest(
        _some_but_one(choices, table),
        n_trees=whole_power(choices, 12),
        min_leaf=whole_power(choices, 5),
        votes=pick(choices, ["all", "out-of-bag"]),
        dirichlet=pick(choices, [0.0, 0.5, 1e-12]),
        chain=pick(choices, ["all-others", "earlier-only"]),
    )
    return table, model, {}, {}


def _pmm(choices: Choices) -> Any:
    table = _mixed(choices, 300)
    names = list(table.columns)
    model = br.models.PMM(
        some(choices, names),
        identifying=some(choices, names),
        threshold=whole_power(choices, 20),
        donors=whole_power(choices, 4),
        later=pick(choices, ["genuine", "filled"]),
        selection=pick(choices, ["known", "hidden"]),
    )
    return table, model, {}, {}


def _regression(choices: Choices) -> Any:
    n, p = rows(choices, 2_000), choices.whole(1, 4)
    kinds = [pick(choices, [number, category]) if j else number for j in range(p)]
    table = numbered([kind(choices, n) for kind in kinds], choices)
    modelled = [name for name, kind in zip(table, kinds, strict=True) if kind is number]
    formulas: dict[str, str] = {}
    for name in modelled:
        others = [c for c in table if c != name and (c in formulas or c not in modelled)]
        formulas[str(name)] = " + ".join(["1", *some(choices, others, 0)])
    families = {str(name): "lognormal" for name in modelled if chance(choices, 3)}
    model = br.models.Regression(formulas, families)
    synthesis = {"columns": some(choices, modelled)}
    return table, model, {"draws": 8, **_weights(choices, n)}, synthesis


def _poisson(choices: Choices) -> Any:
    n = rows(choices, 300)
    table = numbered([count(choices, n) for _ in range(choices.whole(1, 3))], choices)
    kind = pick(choices, ["MP", "MP", "MM"])
    model = br.models.PoissonMixture(
        n_classes=whole_power(choices, 5),
        kind=kind,
        zeros=pick(choices, [None, None, (1.0, 1.0)]) if kind == "MP" else None,
    )
    fitting = {"draws": 4, "tune": choices.whole(0, 5), "thin": 1}
    return table, model, fitting | _weights(choices, n), {}


_MAKERS: dict[str, Callable[[Choices], Any]] = {
    "DPMPM": _dpmpm,
    "CART": _cart,
    "Forest": _forest,
    "PMM": _pmm,
    "Regression": _regression,
    "PoissonMixture": _poisson,
}


def _audit(
    choices: Choices, kind: str, table: pd.DataFrame, columns: list[str], *, weighted: bool
) -> dict[str, Any]:
    """Guesses, prior, targets and intruder."""
    known = some(choices, columns[1:], 0) if chance(choices, 6) else []
    guessed = [c for c in columns if c not in known]
    numbers = [c for c in guessed if _is_number(table[c])]
    unweakened = kind in ("Forest", "PMM") or weighted
    knowledge: Any = pick(choices, ["all-but-target"] * 4 + ["none", 0.5])
    if unweakened and not chance(choices, 20):
        knowledge = "all-but-target"
    out: dict[str, Any] = {
        "prior": _prior(choices, bool(numbers), sampled=kind not in EXACT),
        "targets": pick(choices, [5, 1, None]) if len(table) < 50 else 5,
        "refit_budget": choices.whole(0, 1),
        "intruder": br.Intruder(knows_records=knowledge, knows_columns=known),
    }
    if numbers:
        out["guesses"] = {c: _grid(choices, table[c]) for c in numbers} | {
            c: br.Levels() for c in guessed if c not in numbers
        }
    elif chance(choices, 3):
        out["guesses"] = br.Neighbourhood(2)
    return out


def _is_number(column: pd.Series) -> bool:
    numeric = pd.api.types.is_numeric_dtype(column.dtype)
    return bool(numeric and not pd.api.types.is_bool_dtype(column.dtype))


def _prior(choices: Choices, numbers: bool, *, sampled: bool) -> Any:
    kind = choices.whole(0, 12)
    if kind < len(PRIORS):
        named = PRIORS[kind]
        return named if sampled or named != "predictive" else "uniform"
    if kind == 5:
        return br.TruthFactor(pick(choices, [10.0, 1e-300, 1e300]))
    if kind == 6:
        return br.Mixture([(0.01, "uniform"), (0.99, "marginal")])
    if kind == 7:
        return lambda guesses: np.arange(len(guesses)) + 1e-8
    if kind == 8 and numbers:
        return br.Interval(-5, 5, pick(choices, [0.9, 1.0, 1e-12]))
    return "uniform"


def _grid(choices: Choices, column: pd.Series) -> br.Grid:
    """Around the truth, or the same for all."""
    n, way = pick(choices, [3, 11, 2]), choices.whole(0, 3)
    truth = pick(choices, ["add", "nearest", "add", "nearest", "error"])
    if way == 0:
        return br.Grid(percent=pick(choices, [10.0, 1e-6, 500.0]), n=n, truth=truth)
    if way == 1:
        return br.Grid(additive=pick(choices, [2.5, 1e-9, 1e300]), n=n, truth=truth)
    if way == 2:
        return br.Grid(bounds=pick(choices, [(-5.0, 5.0), (0.0, 1e300)]), n=n, truth=truth)
    values = sorted({float(v) for v in column.unique()[:5]} | {0.0, 1.0})
    return br.Grid(values=values, truth=truth)
