"""Matches of an intruder in words and in a table: record by record, and of whole files."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bayes_risk._core.formats import NONE, error, number, percent
from bayes_risk.matching.file_risk import FileRisk
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.words import tables_searched

from .tables import Section, Table
from .words import MATCHES

if TYPE_CHECKING:
    import pandas as pd

EXPECTED = "expected_match_risk"
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
    rows[0] = (words, *first, rows[0][3])
    without = by_kept_keys(risk)
    rows = [(*row, without.get(key, NONE)) for key, row in zip(MATCHES, rows, strict=True)]
    what = f"{_table_word(risk)}s"
    heads = ("Measure", "Pooled", f"Mean of {what}", f"Over {what}", "Without the release")
    caption = f"{risk.n:,} records, {_searched(risk)}; in brackets two standard errors."
    return Table(caption=caption, heads=heads, rows=rows)


def _measures(risk: Matches) -> list[tuple[str, ...]]:
    table = risk.summary()
    ends, each = table.to_dict("index"), table.iloc[: risk.m]
    rows = []
    for key, words in MATCHES.items():
        form = percent if key.endswith("rate") else _sum if key == EXPECTED else _count
        rows.append(
            (words, *(form(ends[k][key]) for k in ("pooled", "mean")), _span(each[key], form))
        )
    return rows


def by_kept_keys(risk: Matches) -> dict[str, str]:
    """What an intruder without synthetic values has, by measure: where known, as text."""
    found = {EXPECTED: number(risk.baseline_expected_match_risk, 1)}
    alone = risk.baseline_true_matches if isinstance(risk, IdentificationRisk) else None
    if alone is None:
        return found
    return found | {
        "true_matches": number(alone),
        "true_match_rate": percent(alone / risk.n),
        "unique_matches": number(alone),
        "false_match_rate": percent(0.0) if alone else NONE,
        "no_match": number(0),
    }


def worst_matches(risk: IdentificationRisk, k: int = 10) -> Table:
    """The records at highest identification risk, by label.

    Of those level first the ones that the unsynthesised keys alone give away least.
    """
    table = risk.records.assign(unique=risk.K.sum(axis=1), place=range(risk.n))
    order = ["probability", "baseline", "unique", "place"]
    worst = table.sort_values(order, ascending=[False, True, False, True]).head(k)
    rows = [
        (
            str(label),
            number(float(row["probability"])),
            error(float(row["mcse"]), float(row["probability"])),
            number(float(row["baseline"])),
            number(int(row["candidates"])),
            number(int(row["unique"])),
        )
        for label, row in worst.iterrows()
    ]
    level = int((table["probability"] == table["probability"].max()).sum())
    among = f" {level:,} records share the largest." if level > 1 else ""
    caption = (
        f"Probability that the intruder's match is the record, {tables_in_words(risk)} pooled."
        f"{among} Records are named by their label."
    )
    heads = (
        *("Record", "Probability", "Error (2 s.e.)", "Without the release", "Best candidates"),
        f"Matched uniquely and correctly (of {risk.m:,})",
    )
    return Table(caption=caption, heads=heads, rows=rows)


def tables_in_words(risk: Matches) -> str:
    """How many releases, or tables, are searched."""
    word = _table_word(risk)
    return f"1 {word}" if risk.m == 1 else f"{risk.m:,} {word}s"


def _span(values: "pd.Series[float]", form: Callable[[float], str]) -> str:
    low, high = form(float(values.min())), form(float(values.max()))
    return low if low == high else f"{low} to {high}"


def _table_word(risk: Matches) -> str:
    return risk.table_word if isinstance(risk, IdentificationRisk) else "release"


def _searched(risk: Matches) -> str:
    if isinstance(risk, IdentificationRisk) and risk.release_of is not None:
        return tables_searched(risk.m, risk.release_of)
    return tables_in_words(risk)


def _sum(value: float) -> str:
    """A sum of probabilities, with the decimals of its error."""
    return number(value, 1)


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
