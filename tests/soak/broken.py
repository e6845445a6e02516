"""Files of every kind that is read, damaged: each is a table, or one line says why it is none.

Readers of other packages may die of such files: a worker reads on where the last one died, and what
it died of is read again as users read it, in the process of the reader.
"""

import csv
import gzip
import io
import json
import resource
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

import bayes_risk as br
from bayes_risk.data import reader
from bayes_risk.data.rpart_file import read_models
from bayes_risk.data.spelling import MISSING_WORDS
from bayes_risk.release.alike import read_like
from tests.data.test_readers import statistical
from tests.models.test_rpart import CONTENT, PEOPLE, STAND_IN
from tests.soak.choices import Choices, Drawn, chance, pick
from tests.soak.damaged import damaged, within
from tests.soak.files import parquet_bytes
from tests.soak.mutations import garbled, mutated
from tests.soak.schemas import category, count, number, numbered

FOREIGN = tuple(kind for kind in reader.READERS if kind != ".nc")  # tables
ORDINARY = ("whole", "normal", "positive", "negative")  # numbers that all formats hold
GOOD = ("read", "refused", "stopped, and told")  # what may come of a file
TOLD = "told"
BATCH = 3_600  # seconds that a worker may take for its files
LONG = 10  # seconds of processor time that a reader may take for one of them
# pyreadstat writes no such files, though ReadStat does: 12 records of a number with labels, a text,
# a number with declared missing codes and a date; the catalog of the labels
SAS = Path(__file__).with_name("sas.zip")
INFO = """Date saved: Sat May 3 10:20:30 2025
Data frame with original data: people
Number of synthetic data sets: {m}
Output file(s): ({kind})
Methods used:
    x0     x1     x2
"cart" "cart" ""
Seed used: 2025
"""


@cache
def wholes(kind: str, folder: Path) -> list[bytes]:
    """Undamaged files of a kind."""
    if kind.startswith(".sas"):
        with zipfile.ZipFile(SAS) as files:
            return [files.read(f"a{kind}")]
    path, found = folder / f"whole{kind}", []
    for seed in range(4):
        table, other = people(seed), seed == 3
        if kind in (".csv", ".csv.gz"):
            table.to_csv(path, index=False, sep=",;"[other], decimal=".,"[other])
        elif kind == ".parquet":
            table.to_parquet(path, index=False, compression=None if seed % 2 else "snappy")
        elif kind == ".xlsx":
            table.to_excel(path, index=False)
        elif other:
            statistical(path)
        else:
            import pyreadstat

            write = {".dta": "dta", ".xpt": "xport"}.get(kind, "sav")
            packed = {"compress": True} if kind == ".zsav" else {}
            getattr(pyreadstat, f"write_{write}")(table, str(path), **packed)
        found.append(path.read_bytes())
    return found


def people(seed: int) -> pd.DataFrame:
    """A small table of whole numbers, numbers and texts."""
    choices = Drawn(seed)
    columns = [category(choices, 30), number(choices, 30, ORDINARY * 2), count(choices, 30)]
    table = numbered(columns, choices).reset_index(drop=True)
    return table.astype({"x0": str})


def spoiled(choices: Choices, content: bytes) -> bytes:
    """Bytes with some fault; of some formats the structure stands at the end."""
    way = choices.whole(0, 3)
    if way == 3:
        return garbled(choices, content)
    return damaged(choices, content[::-1])[::-1] if way == 2 else damaged(choices, content)


def inside(choices: Choices, kind: str, content: bytes) -> bytes:
    """What is packed is spoiled, and packed again."""
    if kind == ".csv.gz":
        return gzip.compress(spoiled(choices, gzip.decompress(content)), 1)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        bad = pick(choices, [*names, *[n for n in names if "sheet" in n or "Strings" in n] * 4])
        for name in names:
            part = old.read(name)
            new.writestr(name, spoiled(choices, part) if name == bad else part)
    return out.getvalue()


# --- what is asked ---------------------------------------------------------------------------


def read(choices: Choices, kind: str, folder: Path) -> None:
    """A table of a damaged file, and what a command does with it."""
    path = folder / f"a{kind}"
    whole = pick(choices, wholes(kind, folder))
    if kind == ".parquet" and chance(choices, 2):
        whole = parquet_bytes(choices, ["x0", "x1", "x2"], folder)
    deep = kind in (".csv.gz", ".xlsx") and chance(choices, 2)
    content = inside(choices, kind, whole) if deep else spoiled(choices, whole)
    path.write_bytes(content)
    if kind == ".sas7bdat":
        catalog = wholes(".sas7bcat", folder)[0]
        if chance(choices, 4):  # the catalog is damaged, and not the table
            path.write_bytes(whole)
            catalog = spoiled(choices, catalog)
        (folder / "a.sas7bcat").write_bytes(catalog)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        table = br.read_table(path, missing=pick(choices, ["error", "level", "blank"]))
    assert table.columns.is_unique and table.index.equals(pd.RangeIndex(len(table)))
    if kind in (".csv", ".csv.gz") and not told:
        check_fields(gzip.decompress(content) if kind == ".csv.gz" else content, table)
    if kind in (".csv.gz", ".xlsx") and not deep and content != whole:
        path.write_bytes(whole)
        pd.testing.assert_frame_equal(table, br.read_table(path))
        path.write_bytes(content)
    way = choices.whole(0, 9)
    if way == 0:
        br.study_of(path)
    elif way == 1:
        names = list(table.columns)
        how: Any = {"known": names[:1], "synthesized": names[1:]}
        risk = br.identification_risk(table, [read_like(path, table)], **how)
        pooled: Any = risk.summary().loc["pooled", "expected_match_risk"]
        assert 0 <= pooled <= len(table)


def check_fields(content: bytes, table: pd.DataFrame) -> None:
    """What another reader finds in plain CSV: the same texts, or numbers equal to them."""
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    header, *rows = [row for row in csv.reader(text) if row]
    assert header == list(table.columns) and len(rows) == len(table)
    for j, name in enumerate(header):
        for field, value in zip((row[j] for row in rows), table[name].tolist(), strict=True):
            if pd.isna(value):
                assert field == "" or field.strip().lower() in MISSING_WORDS
            elif isinstance(value, str | bool):
                assert field == value or field.lower() == str(value).lower()
            else:
                assert float(field) == float(value)


def synthpop(choices: Choices, folder: Path) -> None:
    """What ``write.syn`` leaves, one of whose files is damaged."""
    kind, m = pick(choices, ["csv", "tab", "txt"]), choices.whole(1, 2)
    separator = {"csv": ",", "tab": "\t", "txt": " "}[kind]
    names = ["s"] if m == 1 else ["s_1", "s_2"]
    files = {
        f"{name}.{kind}": people(k).to_csv(index=False, sep=separator).encode()
        for k, name in enumerate(names)
    }
    files["synthesis_info_s.txt"] = INFO.format(m=m, kind=kind).encode()
    bad = pick(choices, ["synthesis_info_s.txt", *files])
    for name, content in files.items():
        (folder / name).write_bytes(spoiled(choices, content) if name == bad else content)
    original = people(0) if chance(choices, 2) else None
    found = br.read_synthpop(folder, original=original)
    assert len(found.datasets) == m or bad == "synthesis_info_s.txt"


def models(choices: Choices, folder: Path) -> None:
    """Trees of synthpop, whose JSON is changed or damaged."""
    path = folder / pick(choices, ["m.json", "m.json.gz"])
    text = json.dumps(CONTENT).encode()
    if chance(choices, 3):
        text = spoiled(choices, text)
    else:
        with suppress(ValueError, RecursionError):  # of the writer
            text = json.dumps(mutated(choices, CONTENT), default=str).encode()
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
    if chance(choices, 8):
        path.write_bytes(spoiled(choices, path.read_bytes()))
    fit = br.models.CART.from_rpart(read_models(path), PEOPLE, missing_numbers=STAND_IN)
    release = fit.synthesize(m=2, random_seed=1)
    assert len(release.datasets[0]) == len(PEOPLE)


@cache
def results(folder: Path) -> list[bytes]:
    """Evidence of trees and of levels, and its risk, as they are kept."""
    table, found = people(0), list[bytes]()
    for fit in (br.models.Marginals().fit(table[["x0"]]), br.models.CART(["x1"]).fit(table)):
        evidence = br.attribute_evidence(fit, fit.synthesize(1, random_seed=1), targets=5)
        for one in (evidence, evidence.risk("uniform", warn=False)):
            path = one.save(folder / f"{len(found)}.nc")
            found.append(path.read_bytes())
            path.unlink()
    return found


def saved(choices: Choices, folder: Path) -> None:
    """A result that was kept, damaged: it reads back the same, or is refused."""
    kind, path = choices.whole(0, 3), folder / "a.nc"
    path.write_bytes(spoiled(choices, results(folder)[kind]))
    assert shown(kind, path) == whole_shown(kind, folder)


def shown(kind: int, path: Path) -> str:
    """What a kept result says of itself."""
    return repr((br.open_result if kind % 2 else br.open_evidence)(path))


@cache
def whole_shown(kind: int, folder: Path) -> str:
    """The same of the undamaged file."""
    path = folder / "whole.nc"
    path.write_bytes(results(folder)[kind])
    return shown(kind, path)


KINDS = {kind: partial(read, kind=kind) for kind in (".csv", ".csv.gz", *FOREIGN)} | {
    "synthpop": synthpop,
    "models": models,
    "saved": saved,
}


APART = (*FOREIGN, "saved")  # what is read in another process


# --- the worker ------------------------------------------------------------------------------


def one(kind: str, seed: int, folder: Path) -> str:
    """What comes of one file, in a word; of a fault, where it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            KINDS[kind](Drawn(seed), folder=folder)
    except (br.InputError, br.ModelError) as error:
        said = str(error)
        good = 10 < len(said) <= 2_000 and "unforeseen" not in said
        return said if not good else "stopped, and told" if "stopped" in said else "refused"
    except MemoryError:
        return "no memory"
    except Exception as error:
        at = [f for f in traceback.extract_tb(error.__traceback__)]
        own = [f"{Path(f.filename).name}:{f.lineno}" for f in at if "/soak/" in f.filename]
        return f"fault {type(error).__name__} {' '.join(own[-3:])} {str(error)[:300]!r}"
    return "read"


def many(kind: str, seeds: range, folder: Path, apart: bool = False) -> str:
    """Files of some seeds: one line each of what came of it; `apart`, read as users read them."""
    bare = reader._stored

    def passed(found: Any) -> Any:  # through the message that a process sends
        return reader.received(io.BytesIO(b"".join(reader.message_parts(found))))

    def sent(*how: Any) -> Any:
        found = bare(*how)
        return (passed(p) for p in found) if isinstance(found, Generator) else passed(found)

    if not apart:
        reader.starts_processes, reader._stored = lambda: False, sent  # type: ignore[assignment]
    reader.SECONDS = (LONG, reader.SECONDS[1])  # the files are small
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with (folder / TOLD).open("a") as told:
        for seed in seeds:
            reader._bound(held + reader.MEMORY[0], reader.SECONDS[0])
            told.write(f"{one(kind, seed, folder)}\n")
            told.flush()
    return "done"


def soaked(kind: str, seeds: range, apart: int, folder: Path) -> Counter[str]:
    """How often what came of a file; the first ones are read as users read them.

    Whatever is no table and no error of one line, in a worker of its own too, is a fault.
    """
    counts, told = Counter[str](files=len(seeds)), folder / TOLD
    if kind == "saved":  # workers are bounded, and find them made
        [whole_shown(k, folder) for k in range(4)]
    parts, faults = [(seeds[:apart], True), (seeds[apart:], False)], list[str]()
    while parts:
        part, users = parts.pop(0)
        told.write_text("")
        ended = within(BATCH, partial(many, kind, part, folder, users))
        said = told.read_text().splitlines()
        rest = part[len(said) :]
        if ended != "done":
            said.append(f"a worker: {ended}")
            parts.insert(0, (rest[1:], users))
        for seed, what in zip(part, said, strict=False):
            if what not in GOOD and not (users and kind in APART):
                counts[f"again ({' '.join(what.split()[:2])})"] += 1
                told.write_text("")
                ended = within(BATCH, partial(many, kind, range(seed, seed + 1), folder, True))
                what = told.read_text().strip() or ended
            faults += [] if what in GOOD else [f"{kind}, file {seed}: {what}"]
            counts[what if what in GOOD else "faults"] += 1
    assert not faults, "\n".join(faults[:20])
    return counts
