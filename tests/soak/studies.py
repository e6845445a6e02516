"""Random studies: a table, a model, a release of it or of somebody else's making, an intruder."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.soak import sampled
from tests.soak.choices import Choices, chance, pick, some
from tests.soak.makers import MAKERS, is_number

MODELS = tuple(MAKERS)
SAMPLED = {"Regression by NUTS": sampled.regression, "PyMCModel": sampled.own_model}
EXACT = ("CART", "Forest", "Regression")  # audits without a draw
PRIORS = ("uniform", "marginal", "predictive", "release", "release-joint")


@dataclass
class Study:
    """What one run needs; `fit` and `release` make the rest, `made` is the latest release."""

    kind: str
    table: pd.DataFrame
    model: Any
    fitting: dict[str, Any]
    synthesis: dict[str, Any]
    change: str
    audit: dict[str, Any]
    seed: int
    notes: list[str] = field(default_factory=list)
    made: Any = None

    def fit(self, table: pd.DataFrame | None = None) -> Any:
        how = dict(self.fitting)
        if self.kind != "PMM":
            how["random_seed"] = self.seed
        return self.model.fit(self.table if table is None else table, **how)

    def release(self, fit: Any) -> br.Release:
        made = fit.synthesize(**self.synthesis, random_seed=self.seed + 1)
        made = changed(made, self.table, self.change, np.random.default_rng(self.seed))
        self.made = made
        return made


def changed(
    release: br.Release, table: pd.DataFrame, change: str, rng: np.random.Generator
) -> br.Release:
    """The release as it is, as somebody else has made it, unchanged, or with unseen values."""
    if change == "own":
        return release
    datasets = [data.copy() for data in release.datasets]
    made = release.replaced(len(table))
    for l, data in enumerate(datasets):
        for name in release.synthesized:
            if change == "unchanged":
                other = table[name].to_numpy() if l % 2 else table[name]
            elif change == "shuffled":
                other = data[name].iloc[rng.permutation(len(data))].to_numpy()
            else:
                other = unseen(data[name], rng)
            data[name] = other if made.all() else _where(made, other, data[name])
    return replace(release, datasets=datasets, draw_index=None)


def _where(made: Any, other: Any, column: pd.Series) -> pd.Series:
    """Others where they were made, as the column holds them if it can."""
    values = np.where(made, np.asarray(other, dtype=object), column.to_numpy(dtype=object))
    found = pd.Series(values, index=column.index).infer_objects()
    known = (
        isinstance(column.dtype, pd.CategoricalDtype) and found.isin(column.cat.categories).all()
    )
    return found.astype(column.dtype) if known else found


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
    table, model, fitting, synthesis = (MAKERS | SAMPLED)[kind](choices)
    columns = synthesis.get("columns") or list(getattr(model, "order", table.columns))
    synthesis["m"] = choices.whole(1, 2 if kind in SAMPLED else 5)
    return Study(
        kind=kind,
        table=table,
        model=model,
        fitting=fitting,
        synthesis=synthesis,
        change=pick(choices, ["own"] * 6 + ["shuffled", "unchanged", "unseen"]),
        audit=_audit(choices, kind, table, columns, model, weighted="weights" in fitting),
        seed=choices.whole(0, 2**31),
    )


def _audit(
    choices: Choices,
    kind: str,
    table: pd.DataFrame,
    columns: list[str],
    model: Any,
    *,
    weighted: bool,
) -> dict[str, Any]:
    """Guesses, prior, targets and intruder."""
    known = some(choices, columns[1:], 0) if chance(choices, 6) else []
    guessed = [c for c in columns if c not in known]
    numbers = [c for c in guessed if is_number(table[c])]
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
    if kind == "PoissonMixture" and model.kind == "MM" and not chance(choices, 8):
        out["intruder"] = br.Intruder(knows_records="second-largest", largest=guessed[0])
        out["guesses"], out["targets"] = {guessed[0]: _grid(choices, table[guessed[0]])}, None
    elif numbers:
        out["guesses"] = {c: _grid(choices, table[c]) for c in numbers} | {
            c: br.Levels() for c in guessed if c not in numbers
        }
    elif chance(choices, 3):
        out["guesses"] = br.Neighbourhood(2)
    return out


def _prior(choices: Choices, numbers: bool, *, sampled: bool) -> Any:
    kind = choices.whole(0, 12)
    if kind < len(PRIORS):
        named = PRIORS[kind]
        return named if sampled or named != "predictive" else "uniform"
    if kind == 5:
        return br.TruthFactor(pick(choices, [10.0, 1e-300, 1e300]))
    if kind == 6:
        return br.MixedPrior([(0.01, "uniform"), (0.99, "marginal")])
    if kind == 7:
        return lambda guesses: np.arange(len(guesses)) + 1e-8
    if kind == 8 and numbers:
        return br.Interval(-5, 5, pick(choices, [0.9, 1.0, 1e-12]))
    return "uniform"


def _grid(choices: Choices, column: pd.Series) -> br.Grid:
    """Around the truth, or the same for all."""
    n, way = pick(choices, [3, 11, 5]), choices.whole(0, 3)
    truth = pick(choices, ["add", "nearest", "add", "nearest", "error"])
    if chance(choices, 20):
        n, truth = 2, "error"
    whole, wild = pd.api.types.is_integer_dtype(column.dtype), chance(choices, 12)
    if way == 0:
        percent = pick(choices, [500.0, 1_000.0] if whole else [10.0, 1e-6, 500.0])
        return br.Grid(percent=1e-6 if wild else percent, n=n, truth=truth)
    if way == 1:
        additive = pick(choices, [2.5, 30.0] if whole else [2.5, 1e-9])
        return br.Grid(additive=1e300 if wild else additive, n=n, truth=truth)
    if way == 2:
        bounds = (0.0, 1e300) if wild else pick(choices, [(-5.0, 5.0), (0.0, 1e4)])
        return br.Grid(bounds=bounds, n=n, truth=truth)
    values = sorted({float(v) for v in column.unique()[:5]} | {0.0, 1.0})
    return br.Grid(values=values, truth=truth)
