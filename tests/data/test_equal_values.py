"""The same value is equal everywhere: in whatever spelling, storage and reader.

Oracles count plain Python values with dictionaries, before anything is stored.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.matching.file_risk import identification_risk_of_files
from tests.helpers.spellings import WAYS, Plain, frame, tables_of
from tests.oracles.all_pairs import Rules, Task

FAST, MANY, ALL = range(20), range(20, 560), range(560, 1_060)


def rows_of(table: Plain, names: list[str]) -> list[tuple[object, ...]]:
    return list(zip(*(table[name] for name in names), strict=True))


def as_rows(table: Plain) -> list[dict[str, object]]:
    return [dict(zip(table, row, strict=True)) for row in rows_of(table, list(table))]


def counted(original: Plain, release: Plain, keys: list[str]) -> dict[str, int]:
    """Counts of exposure of one file, from plain values."""
    y, z = (rows_of(table, list(original)) for table in (original, release))
    d, s = (Counter(rows_of(table, keys)) for table in (original, release))
    once, shown = {q for q in d if d[q] == 1}, set(z)
    of = Counter(y)
    return {
        "identical": sum(a == b for a, b in zip(y, z, strict=True)),
        "identical_any_row": sum(row in set(y) for row in z),
        "original_alone": sum(count == 1 for count in of.values()),
        "identical_alone": sum(of[row] == 1 and row in shown for row in of),
        "uniques": len(once),
        "replicated_uniques": sum(s[q] == 1 for q in once),
    }


def matched(
    original: Plain, releases: list[Plain], known: list[str], synthesized: list[str]
) -> dict[str, float]:
    """Pooled numbers of identification, everyone against everyone."""
    rows = as_rows(original)
    task = Task(
        rules=Rules(rows, {}, {}, closed=True, round=False),
        releases=[as_rows(release) for release in releases],
        targets=list(enumerate(rows)),
        known=known,
        synthesized=synthesized,
        population=None,
        strategy="always",
        fallback=True,
    )
    found = [task.pooled(i) for i in range(len(rows))]
    return {
        "expected_match_risk": float(sum(one.risk for one in found)),
        "true_matches": sum(one.T and one.c == 1 for one in found),
        "unique_matches": sum(one.c == 1 for one in found),
        "no_match": sum(one.no_match for one in found),
    }


def kept(original: Plain, releases: list[Plain], name: str) -> list[Plain]:
    """Releases in which a column is the original's."""
    return [{**release, name: original[name]} for release in releases]


def checked(seed: int, folder: Path | None = None) -> None:
    """Every count of a random table, in memory and, with a folder, of Parquet files."""
    rng = np.random.default_rng(seed)
    kinds, original, releases = tables_of(rng, m=int(rng.integers(1, 4)))
    names = list(kinds)
    known, synthesized = names[:1], names[1:]
    releases = kept(original, releases, names[0])
    df, tables = frame(kinds, original), [frame(kinds, release) for release in releases]
    exposed = br.exposure(df, tables, keys=synthesized)
    assert exposed.compared == tuple(names)
    for l, release in enumerate(releases):
        shown = counted(original, release, synthesized)
        assert exposed.files.loc[l + 1, list(shown)].to_dict() == shown
    once = Counter(rows_of(original, names))
    unique = br.uniqueness(df, names)
    assert unique.summary().loc["sample_uniques", "value"] == sum(v == 1 for v in once.values())
    want = matched(original, releases, known, synthesized)
    risk = br.identification_risk(df, tables, known=known, synthesized=synthesized)
    assert risk.summary().loc["pooled", list(want)].to_dict() == pytest.approx(want, abs=1e-9)
    if folder is not None:
        paths = [folder / f"{seed}-{l}.parquet" for l in range(len(tables) + 1)]
        for path, table in zip(paths, [df, *tables], strict=True):
            table.to_parquet(path, index=False)
        of_files = identification_risk_of_files(
            paths[0], paths[1:], known=known, synthesized=synthesized, batch=7
        )
        both = of_files.summary()
        pd.testing.assert_frame_equal(both, risk.summary()[both.columns])
        read = br.read_table(paths[0])
        again = br.exposure(read, [br.read_table(path) for path in paths[1:]], keys=synthesized)
        pd.testing.assert_frame_equal(again.files, exposed.files)


@pytest.mark.check
def test_counts_are_those_of_plain_values(tmp_path):
    for seed in FAST:
        checked(seed, tmp_path)


@pytest.mark.slow
def test_counts_of_many_tables_are_those_of_plain_values(tmp_path):
    for seed in MANY:
        checked(seed, tmp_path)


@pytest.mark.slow
def test_counts_of_a_thousand_tables_are_those_of_plain_values(tmp_path):
    for seed in ALL:
        checked(seed, tmp_path)


def respelled(seed: int) -> Iterator[str]:
    """Put every column into every form, in the release, the original and both: which were equal.

    Anything but the same numbers, a named error, or a column that is said not to be compared fails.
    """
    rng = np.random.default_rng(seed)
    kinds, original, (release,) = tables_of(rng)
    df, table = frame(kinds, original), frame(kinds, release)
    want = br.exposure(df, table, keys=list(kinds))
    match = partial(br.identification_risk, known=[], synthesized=list(kinds))
    risk = match(df, table).summary()
    for way, (fits, write) in WAYS.items():
        for name in (name for name, kind in kinds.items() if kind in fits):
            y, z = write(original[name]), write(release[name])
            if y is None or z is None:
                continue
            written = df.assign(**{name: y}), table.assign(**{name: z})
            for pair in ((df, written[1]), (written[0], table), written):
                try:
                    found = br.exposure(*pair, keys=list(kinds))
                    if found.left_out:
                        assert name in found.why_left_out
                        continue
                    pd.testing.assert_frame_equal(found.files, want.files, obj=f"{way} {name}")
                    if "digits" not in way and "decimals" not in way:  # a group of its own
                        again = match(*pair).summary()
                        pd.testing.assert_frame_equal(again, risk, obj=f"{way} {name}")
                except InputError as error:
                    assert name in str(error)
                    continue
                yield way


@pytest.mark.check
def test_no_spelling_changes_a_number():
    equal = Counter(way for seed in range(8, 12) for way in respelled(seed))  # with dates
    assert set(equal) > {"float32", "capitals", "padded", "ISO dates", "numbers as text", "UTC"}


@pytest.mark.slow
def test_no_spelling_changes_a_number_of_many_tables():
    for seed in (*range(8), *range(12, 60)):
        assert sum(1 for _ in respelled(seed))
