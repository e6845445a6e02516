"""Files gone wrong: CSV of every dialect, Parquet of every type, draws of every shape."""

import datetime
import decimal
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.soak.choices import Choices, chance, generator, pick, some, whole_power
from tests.soak.mutations import garbled

ENCODINGS = ("utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-32", "cp1252")
FIELDS: tuple[str, ...] = (
    *("1", "0", "-1", "1.5", "a", "b", "", "NA", "null", "nan", "inf", "-inf", "1e400", "1e-400"),
    *("01", "007", "1,234", "1.234,5", "1 234", "12'000", "$5", "5%", "+7", "0x1F", "1_000"),
    *("2020-01-31", "31.01.2020", "1/2/20", "43831", "Jan-20", "12:30", "TRUE", "true", "#REF!"),
    *('"', '""', '"a,b"', '"a""b"', '"line\nbreak"', '"open', "tab\there", "a\x00b", "\x1a", " a "),
    *("é", "Ω", "\U0001f98a", "\u202e", "\u00a0", "\ufeff", "9" * 400, "9223372036854775808"),
    *("x" * 200_000, "=1+1", "\\", "\\N", "#", "//", "é" * 999),
)


def csv_bytes(choices: Choices, columns: list[str]) -> bytes:
    """A CSV file: often nearly a good one, sometimes nothing like it."""
    rows = _rows(choices, len(columns))
    header = _header(choices, columns)
    ends = pick(choices, [["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r"]])
    separator = pick(choices, [","] * 6 + [";", "\t", "|"])
    rng = generator(choices)
    lines = [separator.join(row) for row in [header, *rows]]
    text = "".join(line + str(rng.choice(ends)) for line in lines)
    text = text if not chance(choices, 8) else text.rstrip("\r\n")
    encoding = pick(choices, ["utf-8"] * 8 + list(ENCODINGS))
    content = text.encode(encoding, errors="replace")
    return _spoiled(choices, content)


def _rows(choices: Choices, p: int) -> list[list[str]]:
    """Rows of plain fields, in which some are replaced, added or left out."""
    n, rng = whole_power(choices, 40), generator(choices)
    kinds = [pick(choices, ["few", "number", "date", "text"]) for _ in range(p)]
    values: dict[str, Callable[[], str]] = {
        "few": lambda: str(rng.choice(["a", "b", "c"])),
        "number": lambda: f"{rng.normal():.3f}",
        "date": lambda: f"20{rng.integers(10, 24)}-0{rng.integers(1, 9)}-11",
        "text": lambda: f"t{rng.integers(5)}",
    }
    rows = [[values[kind]() for kind in kinds] for _ in range(n)]
    for _ in range(choices.whole(0, 3)):
        row, field = rows[choices.whole(0, n - 1)], pick(choices, FIELDS)
        if row and not chance(choices, 4):
            row[choices.whole(0, len(row) - 1)] = field
        elif chance(choices, 2):
            row.append(field)
        else:
            del row[-1:]
    return rows


def _header(choices: Choices, columns: list[str]) -> list[str]:
    names = list(columns)
    if chance(choices, 6):
        names[choices.whole(0, len(names) - 1)] = pick(choices, [*FIELDS, names[-1], *columns])
    return names


def _spoiled(choices: Choices, content: bytes) -> bytes:
    way = choices.whole(0, 19)
    if way == 19:
        return garbled(choices, content)
    if way == 18:
        return content[: choices.whole(0, len(content))]
    if way == 17:
        return pick(
            choices, [b"", b"\n", b"\n\n\n", b"\xef\xbb\xbf", b"\x00" * 100, b",,,\n", b"\r"]
        )
    if way == 16:
        return content.split(b"\n")[0]
    return content


def many_levels(n: int) -> bytes:
    """A column in which every value is another one."""
    return b"x0,x1,x2\n" + b"".join(b"a%d,%d,%d\n" % (k, k % 2, k % 3) for k in range(n))


def parquet_bytes(choices: Choices, columns: list[str], folder: Path) -> bytes:
    """A Parquet file of columns of any type, sometimes cut, flipped or renamed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n, rng = whole_power(choices, 40) - 1, generator(choices)
    arrays = [_array(choices, n, rng) for _ in columns]
    names = _header(choices, columns)
    if chance(choices, 6):
        keep = choices.whole(0, len(columns))
        names, arrays = names[:keep], arrays[:keep]
    table = pa.Table.from_arrays(arrays, names=names)
    if arrays and chance(choices, 12):
        table = table.append_column("nothing", pa.nulls(n))
    if chance(choices, 6):
        table = table.replace_schema_metadata(_metadata(choices))
    path = folder / "made.parquet"
    pq.write_table(table, path, row_group_size=max(n // 2, 1))
    return _damaged(choices, path.read_bytes())


def _metadata(choices: Choices) -> dict[bytes, bytes]:
    return pick(
        choices,
        [
            {b"pandas": b"{}"},
            {b"pandas": b"not json"},
            {b"pandas": b'{"columns": [{}]}'},
            {b"pandas": b'{"columns": 5, "index_columns": ["x0"]}'},
            {b"pandas": b'{"columns": [], "index_columns": [{"kind": "range"}]}'},
            {b"pandas": b'{"index_columns": ["nobody"], "column_indexes": [], "columns": []}'},
            {b"k": b"v" * 5_000_000},
        ],
    )


def _array(choices: Choices, n: int, rng: np.random.Generator) -> Any:
    import pyarrow as pa

    words = [None if rng.random() < 0.1 else f"t{rng.integers(4)}" for _ in range(n)]
    whole = rng.integers(0, 4, size=n)
    made: list[Callable[[], Any]] = [
        lambda: pa.array(words),
        lambda: pa.array(whole),
        lambda: pa.array(whole.astype(float)),
        lambda: pa.array(words, pa.string()).dictionary_encode(),
        lambda: pa.array(whole).dictionary_encode(),
        lambda: pa.array(whole > 1),
        lambda: pa.array([decimal.Decimal(int(k)) / 4 for k in whole], pa.decimal128(20, 4)),
        lambda: pa.array([datetime.datetime(2020, 1, 1 + int(k)) for k in whole]),
        lambda: pa.array([datetime.date(2020, 1, 1 + int(k)) for k in whole]),
        lambda: pa.array(whole.astype(np.int32), pa.time32("s")),
        lambda: pa.array(whole, pa.duration("us")),
        lambda: pa.array(whole, pa.timestamp("ns", tz="Europe/Berlin")),
        lambda: pa.array([[int(k)] for k in whole], pa.list_(pa.int64())),
        lambda: pa.array([{"a": int(k)} for k in whole], pa.struct([("a", pa.int64())])),
        lambda: pa.array([[("k", int(k))] for k in whole], pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([b"\xff\x00" * int(k) for k in whole], pa.binary()),
        lambda: pa.array(whole * 2**60, pa.uint64()),
        lambda: pa.array(np.where(whole > 2, np.nan, whole.astype(float))),
        lambda: pa.array(np.where(whole > 2, np.inf, whole.astype(float))),
        lambda: pa.array(whole.astype(np.float16)),
        lambda: pa.array(words, pa.large_string()),
        lambda: pa.array(whole.astype(float)).dictionary_encode(),
    ]
    return made[
        choices.whole(0, 2) if not chance(choices, 3) else choices.whole(0, len(made) - 1)
    ]()


def _damaged(choices: Choices, content: bytes) -> bytes:
    way = choices.whole(0, 9)
    if way == 9:
        return content[: choices.whole(0, len(content))]
    if way == 8:
        return garbled(choices, content)
    if way == 7:
        return pick(choices, [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + b"\xff" * 64 + b"PAR1"])
    if way == 6:
        at = choices.whole(0, len(content) - 1)
        return content[:at] + bytes([choices.whole(0, 255)]) + content[at + 1 :]
    return content


def written(choices: Choices, path: Path, columns: list[str]) -> Path:
    """One file of the kind that its name says, or that another name says."""
    kind = path.suffix
    made = parquet_bytes if kind == ".parquet" else lambda c, names, _: csv_bytes(c, names)
    content = made(choices, columns, path.parent)
    if path.name.endswith(".gz"):
        content = gzip.compress(content) if not chance(choices, 6) else content
        content = content if not chance(choices, 6) else content[: len(content) // 2]
    path.write_bytes(content)
    return path


def draws_table(choices: Choices, names: list[str]) -> pd.DataFrame:
    """Draws of coefficients that are nearly right."""
    rng = generator(choices)
    table = pd.DataFrame(rng.normal(size=(whole_power(choices, 40) - 1, len(names))), columns=names)
    if "sigma" in table:
        table["sigma"] = table["sigma"].abs() + 0.1
    for _ in range(choices.whole(0, 2)):
        _wrong(choices, table)
    return table if not chance(choices, 6) else table[some(choices, list(table.columns), 0)]


def _wrong(choices: Choices, table: pd.DataFrame) -> None:
    column = pick(choices, list(table.columns))
    bad: list[Any] = [
        float("nan"),
        float("inf"),
        -1.0,
        0.0,
        1e308,
        1e-308,
        "text",
        None,
        "1.5",
        True,
        "1e400",
    ]
    if not len(table) or chance(choices, 3):
        table[column] = pick(choices, bad)
    else:
        table[column] = table[column].astype(object)
        table.loc[choices.whole(0, len(table) - 1), column] = pick(choices, bad)
