"""Matches of an intruder in words and in a table: record by record, and of whole files."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bayes_risk.formats import NONE, error, number, percent
from bayes_risk.identification.file_risk import FileRisk
from bayes_risk.identification.result import IdentificationRisk
from bayes_risk.identification.words import tables_searched
from bayes_risk.reporting.tables import Section, Table
from bayes_risk.reporting.words import MATCHES

if TYPE_CHECKING:
    import pandas as pd

Matches = IdentificationRisk | FileRisk


def assumed(risk: Matches) -> list[tuple[str, str]]:
    """What the intruder who matches holds and does, under the heads of the assumptions."""
    pairs = [
        ("unsynthesised", risk.held),
        ("matched against synthetic values", risk.sought),
    ]
    held = "; ".join(f"{what}: {', '.join(map(str, names))}" for what, names in pairs if names)
    return [
        ("Keys held by the matching intruder", held),
        ("Who is in the file: the intruder", risk.presence()),
        ("When nothing matches, the intruder", _otherwise(risk)),
    ]


def _otherwise(risk: Matches) -> str:
    if isinstance(risk, IdentificationRisk) and risk.population != "in the file":
        return "takes the target to be outside the file"
    if risk.fallback:
        return "chooses among all who share the unsynthesised keys"
    return "gives up"


def matches_table(risk: Matches) -> Table:
    """Match measures: pooled, averaged, without synthetic values, and the range over releases."""
    rows = _measures(risk)
    errors = risk.expected_match_risk_mcse
    words, *values = rows[0][:3]
    brackets = [
        f" ({error(errors[k], digits=1)})" if errors[k] == errors[k] else ""
        for k in ("pooled", "mean")
    ]
    first = [v + e for v, e in zip(values, brackets, strict=True)]
    rows[0] = (words, *first, rows[0][3], number(risk.baseline_expected_match_risk, 1))
    what = f"{_table_word(risk)}s"
    heads = ("Measure", "Pooled", f"Mean of {what}", f"Over {what}", "Without the release")
    caption = f"{risk.n:,} records, {_searched(risk)}; in brackets two standard errors."
    return Table(caption=caption, heads=heads, rows=rows)


def _measures(risk: Matches) -> list[tuple[str, ...]]:
    table = risk.summary()
    ends, each = table.to_dict("index"), table.iloc[: risk.m]
    rows = []
    for key, words in MATCHES.items():
        form = percent if key.endswith("rate") else _count
        rows.append(
            (words, *(form(ends[k][key]) for k in ("pooled", "mean")), _span(each[key], form), NONE)
        )
    return rows


def _span(values: "pd.Series[float]", form: Callable[[float], str]) -> str:
    low, high = form(float(values.min())), form(float(values.max()))
    return low if low == high else f"{low} to {high}"


def _table_word(risk: Matches) -> str:
    return risk.table_word if isinstance(risk, IdentificationRisk) else "release"


def _searched(risk: Matches) -> str:
    if isinstance(risk, IdentificationRisk) and risk.release_of is not None:
        return tables_searched(risk.m, risk.release_of)
    word = _table_word(risk)
    return f"1 {word}" if risk.m == 1 else f"{risk.m:,} {word}s"


def _count(value: float) -> str:
    return number(float(value), 0 if float(value).is_integer() else 1)


def of_files(risk: FileRisk) -> Section:
    """Matching of a file that was read in pieces: sums over all records, no record."""
    return Section(
        name="identification-of-files",
        short="Identification risk of files",
        title="Identification risk of files: whether the intruder finds the record",
        sentence=risk.sentence(),
        tables=[matches_table(risk)],
        note=(
            f"Counted over the whole file, {risk.n_profiles:,} distinct profiles of {risk.n:,} "
            "records; no record is kept, so that none can be named."
        ),
    )
