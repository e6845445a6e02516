"""Reasons of the verdict from what files show of the original without any model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_risk._core.formats import percent

from .reason import Reason, Thresholds, against, no_objection

if TYPE_CHECKING:
    from bayes_risk.risk.exposure_result import Exposure


ORIGINAL = "original released"


def of_exposure(
    exposure: "Exposure | None", limits: Thresholds, moved: Sequence[tuple[int, str]] = ()
) -> list[Reason]:
    """Originals, identical records, values of single records, replicated uniques; exact counts.

    ``moved``: file, counted from 1, and column that were kept and stand in another order.
    """
    if exposure is None:
        return []
    return [
        *_originals(exposure),
        *_identical(exposure, limits.identical_records),
        *_unique_values(exposure, limits.unique_values, moved),
        *_replicated(exposure, limits.replicated_uniques),
    ]


def _originals(found: "Exposure") -> list[Reason]:
    which = np.flatnonzero(found.same_as_original)
    text = "{} is the original itself: all of its {:,} records are equal."
    return [
        against(ORIGINAL, text.format(_file(found, l), int(found.n_released[l])))
        for l in map(int, which)
    ]


def _identical(found: "Exposure", limit: float) -> list[Reason]:
    """Records equal to that of their own row which nobody else equals; doubles say nothing.

    Records that were not replaced are known to be equal: they are left out of both numbers.
    """
    if not found.corresponds.any():
        return []
    alone = (found.identical & found.alone[:, None]).sum(axis=0) - found.not_replaced
    counts = np.where(found.corresponds, np.maximum(alone, 0), -1)
    l, among = int(counts.argmax()), found.n - found.not_replaced
    equal = int(found.identical[:, l].sum()) - found.not_replaced
    text = (
        f"{int(counts[l]):,} of the {among:,} replaced records of {_file(found, l).lower()} are "
        f"identical to the original's record of their row, which nobody else there equals "
        f"({percent(counts[l] / max(among, 1))}; with doubles {equal:,} are)"
    )
    return [_within(counts[l] / max(among, 1), limit, "identical records", text)]


def _unique_values(
    found: "Exposure", limit: float, moved: Sequence[tuple[int, str]]
) -> list[Reason]:
    """Released values that a single record of the original has, beyond those of a fresh sample."""
    table = found.columns
    table = table[table["judged"].astype(bool) & (table["values"] > 0)]
    table = table.drop(index=[at for at in moved if at in table.index])
    reasons = []
    for name, rows in table.groupby(level="column", sort=False):
        beyond = rows["unique_share"] - rows["expected_unique_share"]
        at = int(np.argmax(beyond.to_numpy()))
        row, l = rows.iloc[at], int(rows.index[at][0]) - 1
        text = (
            f"{int(row['unique']):,} of the {int(row['values']):,} released values of {name} in "
            f"{_file(found, l).lower()} are genuine values of a single "
            f"record ({percent(row['unique_share'])}; a fresh sample would show "
            f"{percent(row['expected_unique_share'])})"
        )
        words = f"{percent(limit)} more than a fresh sample are allowed"
        measure = f"unique values of {name}"
        reasons.append(_within(float(beyond.iloc[at]), limit, measure, text, words))
    return reasons


def _replicated(found: "Exposure", limit: float) -> list[Reason]:
    """Uniques on the keys that stay so; by design all of them where no key was synthesised."""
    if not found.keys_synthesized:
        return []
    counts = found.replicated.sum(axis=0)
    l = int(counts.argmax())
    text = (
        f"{int(counts[l]):,} of the {int(found.unique.sum()):,} records that are unique on "
        f"{', '.join(map(str, found.keys))} stay so in {_file(found, l).lower()}: "
        f"{percent(counts[l] / found.n)} of all {found.n:,} records"
    )
    return [_within(counts[l] / found.n, limit, "replicated uniques", text)]


def _within(share: float, limit: float, measure: str, text: str, allowed: str = "") -> Reason:
    allowed = allowed or f"{percent(limit)} are allowed"
    return (against if share > limit else no_objection)(measure, f"{text}; {allowed}.")


def _file(found: "Exposure", l: int) -> str:
    """How file l is named: those of several by number."""
    return "The file" if found.m == 1 else f"File {l + 1} of {found.m}"
