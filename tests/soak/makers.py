"""Of each model a random table, a declaration that suits it (mostly), and how it is fitted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.soak.choices import Choices, chance, generator, pick, some, whole_power
from tests.soak.schemas import category, count, number, numbered, rows

Made = tuple[pd.DataFrame, Any, dict[str, Any], dict[str, Any]]


def weights(choices: Choices, n: int) -> dict[str, Any]:
    """Record weights in (0, 1], once in five times."""
    if not chance(choices, 5):
        return {}
    alpha = 1 - generator(choices).random(n) ** pick(choices, [1, 20])
    return {"weights": np.maximum(alpha, pick(choices, [0.5, 1e-9]))}


def is_number(column: pd.Series) -> bool:
    """Whether models take it for a number."""
    numeric = pd.api.types.is_numeric_dtype(column.dtype)
    return bool(numeric and not pd.api.types.is_bool_dtype(column.dtype))


def _some_but_one(choices: Choices, table: pd.DataFrame) -> list[str]:
    """Columns to synthesise; mostly one is left as a predictor."""
    names = list(table.columns)
    return some(choices, names if chance(choices, 8) else names[: max(len(names) - 1, 1)])


def _categories(choices: Choices, most: int, columns: int = 6) -> pd.DataFrame:
    n = rows(choices, most)
    return numbered([category(choices, n) for _ in range(2 + choices.whole(0, columns))], choices)


def _mixed(choices: Choices, most: int) -> pd.DataFrame:
    n, p = rows(choices, most), 1 + whole_power(choices, 7)
    kinds = [pick(choices, [category, number]) for _ in range(p)]
    return numbered([kind(choices, n) for kind in kinds], choices)


def dpmpm(choices: Choices) -> Made:
    """Latent classes; now and then a large table."""
    table = _categories(choices, 2_000 if chance(choices, 12) else 200, 4)
    model = br.models.DPMPM(
        n_classes=whole_power(choices, 5),
        concentration_prior=pick(choices, [(0.25, 0.25), (1e-3, 1e3), (50.0, 0.1)]),
        level_prior=pick(choices, [1.0, 1e-6, 100.0]),
    )
    fitting = {
        "draws": choices.whole(4, 8),
        "tune": choices.whole(0, 5),
        "thin": 1,
        "chains": pick(choices, [2, 2, 3]),
    }
    synthesis: dict[str, Any] = {}
    if chance(choices, 2):
        synthesis["columns"] = some(choices, list(table.columns))
    if chance(choices, 5):
        synthesis["classes"] = "own"
    return table, model, fitting | weights(choices, len(table)), synthesis


def cart(choices: Choices) -> Made:
    """Trees of either kind of column."""
    table = _mixed(choices, 2_000 if chance(choices, 4) else 300)
    model = br.models.CART(
        _some_but_one(choices, table),
        min_leaf=whole_power(choices, 20),
        bootstrap=pick(choices, ["bayesian", "none"]),
        smoothing=pick(choices, [None, None, None, "kde"]),
    )
    how = {} if model.smoothing and not chance(choices, 8) else weights(choices, len(table))
    return table, model, how, {}


def forest(choices: Choices) -> Made:
    """Forests, with trees enough that every record is left out by one."""
    table = _categories(choices, 500)
    votes = pick(choices, ["all", "out-of-bag"])
    more = 40 if votes == "out-of-bag" and not chance(choices, 8) else 0
    model = br.models.Forest(
        _some_but_one(choices, table),
        n_trees=more + whole_power(choices, 12),
        min_leaf=whole_power(choices, 5),
        votes=votes,
        dirichlet=pick(choices, [0.0, 0.5, 1e-12]),
        chain=pick(choices, ["all-others", "earlier-only"]),
    )
    return table, model, {}, {}


def pmm(choices: Choices) -> Made:
    """Matching, mostly with cells on either side of the threshold."""
    table = _mixed(choices, 300)
    names = list(table.columns)
    identifying = some(choices, names[:2] if len(names) > 2 else names)
    cuts = {c: [float(table[c].median())] for c in identifying if is_number(table[c])}
    sizes = np.unique(_cells(table, identifying, cuts))
    if len(sizes) < 2:
        identifying = names
        cuts = {c: [float(table[c].median())] for c in names if is_number(table[c])}
        sizes = np.unique(_cells(table, identifying, cuts))
    fitting = int(sizes[choices.whole(0, max(len(sizes) - 2, 0))])
    model = br.models.PMM(
        identifying if chance(choices, 2) else some(choices, names),
        identifying=identifying,
        threshold=whole_power(choices, 20) if chance(choices, 8) else fitting,
        cuts=cuts,
        donors=whole_power(choices, 4),
        later=pick(choices, ["genuine", "filled"]),
        selection=pick(choices, ["known", "known", "hidden"]),
    )
    return table, model, {}, {}


def _cells(table: pd.DataFrame, names: list[str], cuts: dict[str, Any]) -> pd.Series:
    """Numbers of records in the cells of a cross-classification."""
    keys = [table[c] > cuts[c][0] if c in cuts else table[c].astype(str) for c in names]
    return table.groupby(keys, observed=True).size()


def regression(choices: Choices) -> Made:
    """Normal and log-normal regressions in sequence."""
    n, p = rows(choices, 2_000 if chance(choices, 4) else 300), choices.whole(1, 4)
    kinds = [pick(choices, [number, category]) if j else number for j in range(p)]
    table = numbered([kind(choices, n) for kind in kinds], choices)
    modelled = [name for name, kind in zip(table, kinds, strict=True) if kind is number]
    formulas: dict[str, str] = {}
    for name in modelled:
        others = [c for c in table if c != name and (c in formulas or c not in modelled)]
        formulas[str(name)] = " + ".join(["1", *some(choices, others, 0)])
    positive = [str(c) for c in modelled if chance(choices, 8) or (table[c] > 0).all()]
    families = {name: "lognormal" for name in positive if not chance(choices, 3)}
    model = br.models.Regression(formulas, families)
    synthesis = {"columns": some(choices, modelled)}
    return table, model, {"draws": 8, **weights(choices, n)}, synthesis


def poisson(choices: Choices) -> Made:
    """Mixtures of counts."""
    n = rows(choices, 100)
    table = numbered([count(choices, n) for _ in range(choices.whole(1, 3))], choices)
    kind = pick(choices, ["MP", "MP", "MP", "MM"])
    zeros = pick(choices, [None, None, (1.0, 1.0)]) if kind == "MP" else None
    model = br.models.PoissonMixture(n_classes=whole_power(choices, 4), kind=kind, zeros=zeros)
    fitting: dict[str, Any] = {"draws": 4, "tune": choices.whole(0, 5), "chains": 2, "thin": 1}
    if zeros is None or chance(choices, 8):
        fitting |= weights(choices, n)
    return table, model, fitting, {}


MAKERS: dict[str, Callable[[Choices], Made]] = {
    "DPMPM": dpmpm,
    "CART": cart,
    "Forest": forest,
    "PMM": pmm,
    "Regression": regression,
    "PoissonMixture": poisson,
}
