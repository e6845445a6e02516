"""How exposure, links, rows and the check of the assumed model read."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bayes_risk._core.formats import NONE, begun, counted, ends_in_words, number, percent
from bayes_risk.data.base_result import Table, count_column, value
from bayes_risk.data.measures import EXPOSURE, EXPOSURE_OF_VALUES
from bayes_risk.evidence.mechanism_check import LEVEL, MechanismCheck
from bayes_risk.release.correspondence import RowCorrespondence
from bayes_risk.release.exposure import Exposure
from bayes_risk.release.links_result import LEVEL as SEEN
from bayes_risk.release.links_result import Links

from .faces import line, sentence, tables

MAX_SENTENCES = 10  # columns that have a sentence each


@tables.register
def _(exposure: Exposure) -> dict[str, Table]:
    """What is counted, fewest and most over the files; and by file, column and record."""
    judged = exposure.judged
    names = [str(c) for c in exposure.by_column() if c not in judged]
    left = f" Not judged, as nearly every value is shared by many: {', '.join(names)}."
    keys = f" Keys of uniques: {', '.join(map(str, exposure.keys))}." if exposure.keys else ""
    shown = {name: begun(of.words) for name, of in EXPOSURE.items() if of.words}
    for column in judged:
        values = EXPOSURE_OF_VALUES.items()
        shown |= {f"{n}[{column}]": begun(of.words.format(column)) for n, of in values}
    table = Table(
        note=(
            "Counted in the files, without assumptions about the intruder. Shares are those of the "
            "file with the largest share. The last column is the share expected in a fresh sample "
            f"of the same population.{left if names else ''}"
        ),
        caption=f"{counted(exposure.m, 'file')}, {exposure.n:,} records.{keys}",
        frame=exposure.summary(),
        head="What is counted",
        labels=shown,
        columns=[
            ("Fewest in a file", count_column("least")),
            ("Most in a file", count_column("most")),
            ("Of", count_column("of")),
            ("Share", value("share", percent)),
            ("Fresh sample", value("fresh", percent)),
        ],
    )
    by = {"files": exposure.files, "columns": exposure.columns, "records": exposure.records}
    return {"counted": table} | {name: Table(frame=frame) for name, frame in by.items()}


@line.register
def _(exposure: Exposure) -> str:
    """Identical records, replicated uniques and unique values of the file that shows most."""
    most = {name: f"{int(n):,}" for name, n in exposure.most().items() if n == n}
    phrases = [
        f"{most['identical_records']} records equal in all columns",
        f"{most['replicated_uniques']} of {int(exposure.unique.sum()):,} uniques",
    ]
    if "genuine_unique_values" in most:
        phrases.append(f"{most['genuine_unique_values']} unique values")
    if exposure.same_as_original.any():
        phrases.insert(0, "the original itself")
    file = "At most, one file shows" if exposure.m > 1 else "The file shows"
    return f"{file}: {', '.join(phrases)}"


@sentence.register
def _(exposure: Exposure) -> str:
    """Say the counts in plain words."""
    which = ", ".join(map(str, np.flatnonzero(exposure.same_as_original) + 1))
    parts = []
    if which:
        name = "The file" if exposure.m == 1 else f"Release {which}"
        parts.append(f"{name} is the original itself: every record is equal.")
    found, of = _range(exposure.any_row), _range(exposure.n_released)
    text = f"{found} of {of} records equal one of the original's in all columns (rows do not "
    text += "correspond)"
    if exposure.corresponds.all():
        own = _range(exposure.identical.sum(axis=0))
        text = f"{own} of {of} records are identical to their own original record, "
        text += f"{found} to some original record"
    kept = f"; {exposure.not_replaced:,} were released unchanged" if exposure.not_replaced else ""
    parts.append(
        f"{'In each file ' if exposure.m > 1 else ''}{text} (expected by chance: "
        f"{percent(1 - exposure.alone.mean())}){kept}."
    )
    judged = {name: t for name, t in exposure.by_column().items() if t["judged"].iloc[0]}
    beyond = {n: (t["unique_share"] - t["expected_unique_share"]).max() for n, t in judged.items()}
    most = sorted(judged, key=lambda name: -beyond[name])[:MAX_SENTENCES]
    for name in (name for name in judged if name in most):
        table = judged[name]
        fresh = table.loc[1, ["expected_genuine_share", "expected_unique_share"]]
        parts.append(
            f"Of {_range(table['values'])} released values of {name} "
            f"{_range(table['genuine'])} occur in the original, {_range(table['unique'])} once "
            f"(expected by chance: {' and '.join(map(percent, fresh))})."
        )
    if len(judged) > len(most):
        parts.append(
            f"{len(judged) - len(most):,} further numbers, which show fewer such values beyond "
            "a fresh sample, are in the table of columns."
        )
    if exposure.keys:
        design = "" if exposure.keys_synthesized else "; none of these keys was synthesised"
        parts.append(
            f"Of {int(exposure.unique.sum()):,} records unique on {', '.join(exposure.keys)} "
            f"{_range(exposure.replicated.sum(axis=0))} are replicated by a record that is unique "
            f"in the file{design}."
        )
    if exposure.left_out:
        parts.append(f"Not compared: {', '.join(map(str, exposure.left_out))}.")
    for name, why in exposure.identifiers.items():
        parts.append(f"{name or 'The column without a name'} is not an amount: {why}.")
    parts += [f"{begun(note)}." for note in exposure.notes]
    return " ".join(parts)


def _range(counts: Any) -> str:
    """Counts of several files in words."""
    return ends_in_words(f"{int(counts.min()):,}", f"{int(counts.max()):,}")


@sentence.register
def _(links: Links) -> str:
    """What is beyond chance, in plain words."""
    seen = [one for one in links.worst().values() if one.seen]
    parts = [f"{begun(links.sentence_of(one))}." for one in seen]
    if not seen and links.tests:
        parts.append(f"None of {counted(len(links.tests), 'test')} shows a person beyond chance.")
    if not links.tests:
        parts.append("There are too few records or values to test.")
    if alone := [f"{name} ({n:,})" for name, n in links.unchanged.items() if n]:
        text = "Unchanged columns, with persons unique in them"
        parts.append(f"{text}: {', '.join(alone)}.")
    if links.outside:
        parts.append(f"Columns that the original does not have: {', '.join(links.outside)}.")
    return " ".join(parts)


@tables.register
def _(links: Links) -> dict[str, Table]:
    """The tests, one row a kind."""
    table = Table(
        caption=f"{counted(links.m, 'file')}, {links.n:,} persons, {len(links.tests):,} tests. For "
        "each kind, the test that shows most persons.",
        note="These tests use no model. By chance at most half of all pairs of equal or nearest "
        "records join an original person and a released record, more among few records with equal "
        "unchanged values. For rows, the number by chance is that of rows in random order. Persons "
        "are stated where the test shows more than chance.",
        frame=links.summary(),
        head="Test",
        labels=begun,
        columns=[
            ("Found", value("found", _counted)),
            ("Of", count_column("of")),
            ("By chance", value("by_chance", _counted)),
            ("p, all tests", value("p", lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}")),
            ("Persons beyond chance", _beyond("persons")),
            ("At least", _beyond("low")),
        ],
    )
    return {"tests": table}


def _beyond(name: str) -> Callable[[Any], str]:
    """A number of persons, where its test is beyond chance."""
    return lambda row: _counted(row[name]) if row["p"] <= SEEN else NONE


def _counted(count: float) -> str:
    """A number of pairs or persons, whole or with one decimal."""
    return number(count, 0 if count % 1 == 0 else 1)


@sentence.register
def _(rows: RowCorrespondence) -> str:
    """Say it in plain words."""
    fewest = min(len(names) for names in rows.kept)
    if not fewest and not rows.doubts():
        return "Released rows are stated to be the original's records; no kept column confirms it."
    return " ".join(rows.doubts().values()) or (
        f"Released rows are the original's {rows.n:,} records, as kept columns show, at least "
        f"{fewest:,} in each."
    )


@sentence.register
def _(check: MechanismCheck) -> str:
    """What was found, in plain words."""
    among = check.compared()
    if not check.failed:
        how = "The synthesis model is assumed, not verified"
        if check.kept_models:
            how = "The files are audited under the models kept from their synthesis"
        return f"{how}: the check found no contradiction ({among})."
    phrases = []
    if check.impossible:
        phrases.append(f"it cannot produce values that they show ({check.cannot()})")
    if check.p_value <= LEVEL:
        phrases.append(f"they differ from files that it produces ({among}) in {check.differs()}")
    return f"The synthesis model assumed did not make these files: {'; and '.join(phrases)}."


@tables.register
def _(check: MechanismCheck) -> dict[str, Table]:
    """By column: p-value, the measure that differs most, values that the model cannot make."""
    files = "1 released file" if check.m == 1 else f"{check.m} released files"
    found = Table(
        note=(
            "p: how often files that the model made differ as much in any of "
            f"{len(check.measures)} measures; below {LEVEL:g} the model is rejected. The check "
            "can reject a model, never confirm it."
        ),
        caption=f"{files} among {check.n_simulated} simulated from the model.",
        frame=check.table,
        head="Column",
        labels=lambda name: str(name or "All columns jointly"),
        columns=[
            ("p", value("p_value")),
            ("Differs most in", lambda row: str(row["measure"])),
            ("By standard deviations", value("difference", digits=1)),
            ("Values it cannot produce", count_column("impossible")),
        ],
    )
    return {"columns": found}


@line.register
def _(check: MechanismCheck) -> str:
    """Whether the model is rejected."""
    return f"{'rejected' if check.failed else 'not rejected'} ({check.compared()})"
