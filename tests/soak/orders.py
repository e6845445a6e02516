"""A study with its records, its columns or the levels of its categories in another order.

Only where the evidence is in closed form, for then it must be the same. Two splits of a tree that
separate equally well are chosen between by their place: such trees are left out (`same_trees`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.soak.asking import asked
from tests.soak.studies import Study

CLOSED = ("CART", "PMM", "Regression", "One class")
OWN_ROWS = 4  # a study in so many is tested for own rows, half of the time of an audit
Files = tuple[pd.DataFrame, list[pd.DataFrame]]


def check_order(study: Study, rtol: float) -> str:
    """The same risk of each record; says what was changed, or why nothing could be compared."""
    rng = np.random.default_rng(study.seed)
    ways = [w for w in CHANGES if w != "levels" or study.kind in ("CART", "One class")]
    way = str(rng.choice(ways))
    fit = asked(study, "fit", lambda: study.fit())
    release = None if fit is None else asked(study, "release", lambda: study.release(fit))
    if release is None:
        return "refused"
    how = _exact(study, release)
    ask = br.attribute_risk
    if study.seed % OWN_ROWS:
        ask = mock.patch("bayes_risk.release.links.own_rows", lambda _: [])(ask)
    before = asked(study, "risk", lambda: ask(fit, release, **how))
    if before is None:
        return "refused"
    errors = before.mcse, before.mcse_log_evidence  # a probability near one has hardly any
    if any((error > rtol).any() for error in errors):  # records imputed, smoothed leaves simulated
        return "sampled"
    if (before.records["left_out"] > 0).any():  # the order decides between equal guesses at the end
        return "searched"
    other, changed = _changed(study, release, way, rng)
    again = other.fit()
    if not same_trees(fit, again):
        return "tie of splits"
    if splits_of(fit) != splits_of(again):  # the same leaves, but for rows that lie elsewhere
        return "tie of splits"
    after = ask(again, changed, **how)
    compare(before, after, rtol)
    return way


def _exact(study: Study, release: br.Release) -> dict[str, Any]:
    """Named targets, a prior and an intruder that depend on no order."""
    made = study.table.index[release.replaced(len(study.table))]
    how = dict(study.audit) | {"targets": list(made[:5]), "random_seed": study.seed}
    if not isinstance(how["prior"], str) or how["prior"] == "predictive":
        how["prior"] = "uniform"
    if not isinstance(how["intruder"].knows_records, str):
        how["intruder"] = replace(how["intruder"], knows_records="all-but-target")
    return how


def compare(one: br.AttributeRisk, other: br.AttributeRisk, rtol: float) -> None:
    """Probabilities, priors and factors to rounding; of the order of records nothing is left."""
    before, after = one.records, other.records.loc[one.records.index]
    for name in ("prior", "probability", "log_bayes_factor"):
        x, y = before[name].to_numpy(), after[name].to_numpy()
        assert np.allclose(x, y, rtol=rtol, atol=rtol, equal_nan=True), (name, x, y)
    assert (before["disclosed"] == after["disclosed"]).all()


def same_trees(one: Any, other: Any) -> bool:
    """Whether the leaves of all trees hold the same records."""
    if not hasattr(one, "trees"):
        return True
    return all(
        _leaves(a, one.microdata.index) == _leaves(b, other.microdata.index)
        for a, b in zip(one.trees, other.trees, strict=True)
    )


def splits_of(fit: Any) -> list[list[tuple[Any, ...]]]:
    """Columns of all trees' splits, and where numbers are split."""
    names, found = fit.microdata.columns, []
    for tree in getattr(fit, "trees", ()):
        some = np.flatnonzero(tree.feature >= 0)
        splits = zip(tree.predictors[tree.feature[some]], tree.threshold[some], strict=True)
        found.append(sorted((names[j], "" if j in tree.ranks else str(t)) for j, t in splits))
    return found


def _leaves(tree: Any, index: pd.Index) -> set[frozenset[Any]]:
    ends = np.flatnonzero(tree.left < 0)
    return {frozenset(index[tree.donors[tree.begin[k] : tree.end[k]]]) for k in ends}


def _changed(
    study: Study, release: br.Release, way: str, rng: np.random.Generator
) -> tuple[Study, br.Release]:
    table, datasets = CHANGES[way](study.table, list(release.datasets), rng)
    place = study.table.index.get_indexer(table.index)
    fitting = dict(study.fitting)
    if "weights" in fitting:
        fitting["weights"] = fitting["weights"][place]
    marked = None if release.records is None else release.records[place]
    return (
        replace(study, table=table, fitting=fitting),
        replace(release, datasets=datasets, records=marked, draw_index=None),
    )


def records(table: pd.DataFrame, Z: list[pd.DataFrame], rng: np.random.Generator) -> Files:
    """Records of the original and of each release alike."""
    order = rng.permutation(len(table))
    return table.iloc[order], [z.iloc[order] for z in Z]


def columns(table: pd.DataFrame, Z: list[pd.DataFrame], rng: np.random.Generator) -> Files:
    """Columns of the original, and of each release."""
    names = np.array(list(table), dtype=object)
    return table[list(rng.permutation(names))], [
        z[list(rng.permutation(np.array(list(z), dtype=object)))] for z in Z
    ]


def levels(table: pd.DataFrame, Z: list[pd.DataFrame], rng: np.random.Generator) -> Files:
    """Levels of categories without an order, declared in another order."""
    orders = {
        str(c): list(rng.permutation(np.array(table[c].cat.categories, dtype=object)))
        for c in table
        if isinstance(table[c].dtype, pd.CategoricalDtype) and not table[c].cat.ordered
    }

    def changed(data: pd.DataFrame) -> pd.DataFrame:
        return data.assign(
            **{
                c: data[c].cat.set_categories(order)
                for c, order in orders.items()
                if c in data and isinstance(data[c].dtype, pd.CategoricalDtype)
            }
        )

    return changed(table), [changed(z) for z in Z]


CHANGES: dict[str, Callable[[pd.DataFrame, list[pd.DataFrame], np.random.Generator], Files]] = {
    "records": records,
    "columns": columns,
    "levels": levels,
}
