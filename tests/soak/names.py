"""A study in which columns and levels are called otherwise, all of them in the same order."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tests.soak.studies import Study

ARRAYS = {
    "attribute": ("log_evidence", "log_prior", "log_probability", "mcse", "khat", "ess", "truth"),
    "loss": ("loss", "mcse", "low", "ruled_out", "reliable"),
    "identification": ("c", "T", "K", "F", "pooled_c", "pooled_T"),
    "membership": ("log_bayes_factor", "mcse", "reliable"),
    "full table": ("log_probability", "rank", "entropy", "mcse", "reliable"),
}


def check_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """The same answers and refusals, and of each answer the same bytes."""
    assert one.keys() == other.keys()
    for result, names in ARRAYS.items():
        for name in names if result in one else ():
            first, second = (np.asarray(getattr(r[result], name)) for r in (one, other))
            assert first.tobytes() == second.tobytes(), (result, name)


def renamed(study: Study) -> Study:
    """Every column and every level with another name."""
    return replace(
        study,
        table=_table(study.table),
        model=_model(study.model),
        synthesis=_named(study.synthesis, "columns"),
        audit=_audit(study.audit),
        notes=[],
    )


def column_name(name: Any) -> str:
    """Another name of a column; one that formulas can have."""
    return f"k_{name}"


def _table(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({column_name(c): _column(table[c]) for c in table}, index=table.index)


def _column(column: pd.Series) -> pd.Series:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.rename_categories(_level)
    return column.map(_level) if column.dtype == object else column


def _level(value: Any) -> Any:
    return f"w{value}" if isinstance(value, str) else value + 10


def _model(model: Any) -> Any:
    changes: dict[str, Any] = {}
    for field in ("order", "identifying", "columns"):
        if getattr(model, field, None) is not None:
            changes[field] = [column_name(c) for c in getattr(model, field)]
    for field in ("cuts", "families", "formulas"):
        if getattr(model, field, None):
            changes[field] = {column_name(c): v for c, v in getattr(model, field).items()}
    if "formulas" in changes:
        changes["formulas"] = {
            c: re.sub(r"\bx(\d)", r"k_x\1", formula) for c, formula in changes["formulas"].items()
        }
    return replace(model, **changes) if changes else model


def _named(settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    if settings.get(key) is None:
        return dict(settings)
    return dict(settings) | {key: [column_name(c) for c in settings[key]]}


def _audit(audit: Mapping[str, Any]) -> dict[str, Any]:
    intruder, guesses = audit["intruder"], audit.get("guesses")
    largest = intruder.largest
    changed = replace(
        intruder,
        knows_columns=[column_name(c) for c in intruder.knows_columns],
        largest=None if largest is None else column_name(largest),
    )
    out = dict(audit) | {"intruder": changed}
    if isinstance(guesses, Mapping):
        out["guesses"] = {column_name(c): g for c, g in guesses.items()}
    return out
