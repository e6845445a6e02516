"""What the files show without a model: a section of the report, and a line for the screen."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.formats import NONE, number, percent

from .tables import Section, Table

if TYPE_CHECKING:
    from bayes_risk.risk.exposure_result import Exposure

Reals = npt.NDArray[np.float64]

HEADS = ("What is counted", "Fewest in a file", "Most in a file", "Of", "Share", "Fresh sample")
COUNTS = {
    "identical": ("Records identical to the original, same row", "records"),
    "identical_any_row": ("Records identical to the original, any row", "records"),
    "identical_alone": ("Records without a double in the original, found", "original_alone"),
    "replicated_uniques": ("Replicated uniques", "uniques"),
}
VALUES = {
    "genuine": "Values of {} that are genuine",
    "unique": "Values of {} that occur once in the original",
}


def of_exposure(found: "Exposure") -> Section:
    """Identical records, replicated uniques and genuine values, fewest and most over the files."""
    return Section(
        name="exposure",
        short="Without a model",
        title="What the files show without a model",
        sentence=found.sentence(),
        tables=[_counted(found)],
        note=(
            "Counted in the files themselves, whatever the intruder knows or believes. Shares are "
            "those of the file that shows most; the last column is what a fresh sample of the same "
            f"population would show.{_not_judged(found)}"
        ),
    )


def exposure_line(found: "Exposure") -> str:
    """Identical records, replicated uniques and unique values of the file that shows most."""
    most = found.most()
    said = [
        f"{_count(most['identical_records'])} identical records",
        f"{_count(most['replicated_uniques'])} of {int(found.unique.sum()):,} uniques",
    ]
    if not np.isnan(most["genuine_unique_values"]):
        said.append(f"{_count(most['genuine_unique_values'])} unique values")
    if found.same_as_original.any():
        said.insert(0, "the original itself")
    return f"The file{'s show at most' if found.m > 1 else ' shows'}: {', '.join(said)}"


def exposure_summary(found: "Exposure") -> dict[str, Any]:
    """Sentence, keys, and counts by file and by column, for JSON."""
    return {
        "sentence": found.sentence(),
        "keys": found.keys,
        "keys_synthesized": found.keys_synthesized,
        "left_out": found.left_out,
        "files": found.files,
        "columns": {name: found.columns.xs(name, level="column") for name in found.values.names},
    }


def _counted(found: "Exposure") -> Table:
    files = found.files
    expected = {"identical_any_row": float(files["expected_any_row_share"].iloc[0])}
    rows = [
        _row(words, files[name].to_numpy(float), files[of].to_numpy(float), expected.get(name))
        for name, (words, of) in COUNTS.items()
    ]
    for column in judged(found):
        table = found.columns.xs(column, level="column")
        for name, words in VALUES.items():
            share = float(table[f"expected_{name}_share"].iloc[0])
            counts, of = (table[c].to_numpy(float) for c in (name, "values"))
            rows.append(_row(words.format(column), counts, of, share))
    keys = f" Keys of uniques: {', '.join(map(str, found.keys))}." if found.keys else ""
    one = "1 file" if found.m == 1 else f"{found.m} files"
    return Table(caption=f"{one}, {found.n:,} records.{keys}", heads=HEADS, rows=rows)


def judged(found: "Exposure") -> list[str]:
    """Synthesised numbers whose genuine values say something."""
    table = found.columns
    return [c for c in found.values.names if table.xs(c, level="column")["judged"].iloc[0]]


def _not_judged(found: "Exposure") -> str:
    names = [str(c) for c in found.values.names if c not in judged(found)]
    if not names:
        return ""
    return f" Not judged, as nearly every value is shared by many: {', '.join(names)}."


def _row(
    words: str,
    counts: Reals,
    of: Reals,
    expected: float | None,
) -> tuple[str, ...]:
    if np.isnan(counts).all():
        return (words, NONE, NONE, _count(of.max()), NONE, NONE)
    share = np.nanmax(counts / np.where(of > 0, of, np.nan)) if (of > 0).any() else np.nan
    ends = (_count(np.nanmin(counts)), _count(np.nanmax(counts)))
    fresh = NONE if expected is None else percent(expected)
    return (words, *ends, _count(of.max()), percent(float(share)), fresh)


def _count(value: float) -> str:
    return number(int(value))
