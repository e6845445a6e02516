"""What a run leaves on disk: its folder, the place where it works, and the files in both.

The output folder is complete or not there at all. A run works in a hidden folder beside it, with a
lock, what the run is, and its finished steps; it goes when the run ends well, or was stopped before
there was a step. All is readable by its owner only.
"""

import json
import math
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pandas as pd
import xarray as xr
from filelock import FileLock, Timeout
from markupsafe import Markup

from bayes_risk._core import __version__
from bayes_risk._core.checkpoint import Store, opened, private_folder
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import signals_wait
from bayes_risk._core.shown import visible
from bayes_risk.data.kept import GROUP, kept, write_arrays
from bayes_risk.data.writing import (
    WrittenColumn,
    form_of,
    in_quotes,
    write_rows,
    write_tables,
)
from bayes_risk.release.provenance import written_files
from bayes_risk.reporting.content import page, replaced, template
from bayes_risk.reporting.provenance import origin, versions
from bayes_risk.reporting.redaction import arrays_of, records_table, redact
from bayes_risk.reporting.sections import result_parts

MANIFEST = "manifest.json"


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Stop before any work if `folder` cannot become the output folder.

    Only a folder that an earlier run wrote (it holds a manifest) or an empty one is ever replaced.
    """
    if "\0" in str(folder) or folder.absolute().name in ("", ".."):
        why = "is not the name of a new folder; give one such as 'study-risk'"
    elif not folder.absolute().parent.is_dir():
        why = f"has no parent folder; create {str(folder.parent)!r} first"
    elif not os.path.lexists(folder):
        return
    elif folder.is_symlink() or not folder.is_dir():
        why = "exists and is not a folder; give another name"
    elif not overwrite:
        why = "exists; give another name, or --overwrite to replace it"
    elif any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        why = f"was not written by bayes-risk (it has no {MANIFEST}), and stays; give another name"
    else:
        return
    raise InputError(f"the output folder {str(folder)!r} {why}")


@contextmanager
def output_folder(
    folder: Path, *, overwrite: bool = False, aside: Path | None = None
) -> Iterator[Path]:
    """Give a hidden folder to write in, and rename it to `folder` when all went well.

    Whatever goes wrong, Ctrl-C included, an older output is left (or put back) as it was.
    ``aside`` is a folder of the same file system for the hidden one.
    """
    folder = folder.absolute()
    check_target(folder, overwrite=overwrite)
    hidden = Path(tempfile.mkdtemp(prefix=f".{folder.name}.partial-", dir=aside or folder.parent))
    new, old = hidden / "new", hidden / "old"
    try:
        new.mkdir(mode=0o700)
        yield new
        for file in new.iterdir():
            file.chmod(0o600)
            on_disk(file)
        on_disk(new)
        check_target(folder, overwrite=overwrite)  # it may have come to be meanwhile
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        on_disk(folder.parent)  # before the steps go
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(hidden, ignore_errors=True)


def on_disk(path: Path) -> None:
    """Wait until the system has written a file or folder; where it offers that of folders."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- where a run works --------------------------------------------------------------------------


RUN, LOCK, STEPS = ("run",), "lock", "steps"
SHOWN = 3  # differences that a refusal names


class Workplace(NamedTuple):
    """A folder of one run, the store of its finished steps, the seed with which it was begun."""

    folder: Path | None
    store: Store | None
    random_seed: int


@contextmanager
def workplace(
    output: Path, run: Mapping[str, Any], random_seed: int, *, restart: bool = False
) -> Iterator[Workplace]:
    """Lock the place of an output folder, and find the steps that an earlier run finished.

    It is ``.NAME.work`` beside the output folder. ``run`` says what the run is; the seed is that
    of a new run. A place where another run is writing, with steps of a different
    run, or that may be somebody else's, is refused and left; ``restart`` throws steps away.
    """
    folder, store = output.absolute().with_name(f".{output.name}.work"), None
    with _locked(folder, output):
        try:
            seed = _seed_of(folder, as_json(run), random_seed, restart)
            store = Store(folder / STEPS)
            yield Workplace(folder, store, seed)
        except BaseException as error:
            kept = len([*(folder / STEPS).glob("*.npz")])
            refused = store is None and isinstance(error, InputError)
            if kept and not refused:
                place = f"finished steps ({kept}) are kept in {folder}"
                error.add_note(f"{place}; the same command goes on from there")
            elif not refused:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path, output: Path) -> Iterator[None]:
    """One run at a time; the system frees the lock of a run that dies."""
    lock = FileLock(folder / LOCK, timeout=0, fallback_to_soft=False)
    try:
        with signals_wait():  # an interruption finds no folder, or one with a lock
            _acquire(lock, folder, output)
        yield
    except KeyboardInterrupt:
        if lock.is_locked and not (folder / STEPS).exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        lock.release()
        if os.name == "nt" and not (folder / STEPS).exists():  # what is open cannot be removed
            shutil.rmtree(folder, ignore_errors=True)


def _acquire(lock: FileLock, folder: Path, output: Path) -> None:
    """Make the folder and lock it; a folder in which there is no room for a lock does not stay."""
    private_folder(folder, "the working folder")
    try:
        os.close(opened(folder / LOCK, os.O_RDWR | os.O_CREAT))
        lock.acquire()
    except (Timeout, FileExistsError, FileNotFoundError):  # it begins or ends in this moment
        raise InputError(
            f"another run is writing {str(output)!r}; wait for it, or give another --output"
        ) from None
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        raise


def _seed_of(folder: Path, run: Any, random_seed: int, restart: bool) -> int:
    """The seed of the run that was begun here; a new run is written down, as a step is."""
    note = Store(folder)
    if restart or not note.found:
        for path in [*folder.glob("*.npz"), folder / STEPS]:
            path.unlink() if path.is_file() else shutil.rmtree(path, ignore_errors=True)
        note.put(RUN, [run, random_seed])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            then, seed = note.get(RUN)
    except KeyError:
        raise InputError(
            f"the working folder {str(folder)!r} is damaged: it does not name the run that was "
            "stopped here. Throw its steps away with --restart, or remove it"
        ) from None
    if found := differences(then, run):
        raise InputError(
            f"{str(folder)!r} holds finished steps of another run: {'; '.join(found[:SHOWN])}. Put "
            "that back, or throw the steps away with --restart"
        )
    return int(seed)


def differences(then: Any, now: Any, name: str = "") -> list[str]:
    """What differs between two nested mappings, in words."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        return [
            text
            for k in dict.fromkeys([*then, *now])
            for text in differences(then.get(k), now.get(k), f"{name} {k}".strip())
        ]
    if then == now:
        return []
    if "sha256" in name or name.startswith("file "):  # changed, new or gone
        return [f"{name.replace(' sha256', '')} has changed"]
    was, is_ = (t if len(t) <= 60 else t[:57] + "..." for t in map(json.dumps, (then, now)))
    return [f"{name} was {was}, is {is_}"]


# --- what lies in it ----------------------------------------------------------------------------


DPI = 150
HEADS = ["Result", "Measure", "Records", "With the release", "Without it"]

# What a spreadsheet would compute: text that begins with such a sign, in any width, and is no
# number, or goes on with it after what separates cells somewhere; an apostrophe goes before it
SIGNS = (
    "=+@\uff1d\uff0b\uff20\ufe66\ufe62\ufe6b\u207c\u208c\u207a\u208a\ufb29\u2a75\u2a76"
    "\uff0d\ufe63\u207b\u208b\u2212-"
)
CELL = r"[;,|\t\r\n]"
NUMBER = rf"[+-]([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?(?={CELL}|\Z)"
UNSEEN = r"\s\x00-\x20\x7f-\xa0\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
BEFORE = rf"[{UNSEEN}\"']*"  # which readers leave out
FORMULA = re.compile(
    rf"(?:\A|(?<={CELL}))(?!{NUMBER})(?={BEFORE}[{SIGNS}])|\A(?='*[\t\r\n])", re.IGNORECASE
)


def write_run(folder: Path, result: Any, *, command: str = "") -> None:
    """Write report.html, manifest.json, and what there is of an audit, sweep or comparison.

    Confidential values appear in ``risk.nc`` of an audit alone, and only if the study asks.
    """
    record, output = manifest_of(result, command), result.study.output
    kind = next(iter(parts_by_name(result)))
    if output.release and kind == "attribute_risk":
        data, tables = result.study.data, result.release.datasets
        form = form_of(data.path, tables[0], days=data.days, **data.written)
        write_tables(folder, tables, labels=output.keep_labels, form=form)
        record["files"] += map(asdict, written_files(folder, result.release))
    page_text = render_study(result, record=record)
    files = {"sensitivity": of_sweep, "comparison": of_comparison}.get(kind, of_audit)(result)
    for name, content in {"report.html": page_text, **files, MANIFEST: record}.items():
        WRITERS[Path(name).suffix](folder / name, content)


def parts_by_name(result: Any) -> dict[str, Any]:
    """The results of a run, by the names that they have in its summary; None: not asked for."""
    for name in ("sensitivity", "comparison"):
        if hasattr(result, name):
            return {name: getattr(result, name)}
    risks = {"attribute_risk": result.attribute, "identification_risk": result.identification}
    return {**risks, **result_parts(result), "correspondence": result.correspondence}


def of_audit(result: Any) -> dict[str, Any]:
    """Files of an audit: numbers, tables and arrays; a redacted page if it is asked for."""
    output, risks = result.study.output, (result.attribute, result.identification)
    parts = [part for part in parts_by_name(result).values() if part is not None]
    found = [table for part in parts for table in part.tables().values()]
    files: dict[str, Any] = {f"{table.file}.csv": table.frame for table in found if table.file}
    files["summary.json"] = summary(result)
    if any(risk is not None for risk in risks):
        files["records.csv"] = records_table(*risks)
        if not result.alone:
            files["risk.nc"] = {
                "attribute_risk": risks[0]
                and arrays_of(risks[0], confidential=output.confidential),
                "identification_risk": risks[1] and risks[1].dataset,
            }
            if output.confidential and risks[0] is not None:
                files["risk.nc"][GROUP] = _kept(risks[0], result.evidence)
        else:  # the records at highest risk first
            records = files["records.csv"]
            by = {"by": records.columns[0], "ascending": False, "kind": "stable"}
            files["records.csv"] = records.sort_values(**by)
    return files | (redacted_files(result) if output.redact else {})


def _kept(risk: Any, evidence: Any) -> xr.Dataset | None:
    """What `open_result` and `open_evidence` read, as far as it can be kept."""
    for of in (evidence, None):  # whose search may have been guided by a function
        with suppress(InputError):
            return kept({"risk": risk, "evidence": of})
    return None


def of_sweep(result: Any) -> dict[str, Any]:
    """Files of a sweep: pictures, tables and what programs read; no confidential value."""
    found = result.sensitivity
    text = {  # which is what NetCDF knows
        name: (name, found.dataset[name].to_numpy().astype(str))
        for name in map(str, found.dataset.dims)
        if found.dataset[name].dtype.kind not in "iuf"
    }
    along = [factor for factor in found.factors if found.dataset.sizes[factor] > 1]
    names = {f"along-{re.sub(r'[^A-Za-z0-9_]+', '-', factor)}.png": factor for factor in along}
    return {
        "sensitivity.nc": {None: found.dataset.assign_coords(text)},
        "summary.csv": found.summary(),
        "tornado.csv": found.tornado().rename_axis("factor"),
        "tornado.png": found.plot(),
        "tornado-gain.png": found.plot(measure="gain"),
        **{name: found.plot(factor) for name, factor in names.items()},
        "summary.json": {
            "study": {"title": result.study.title, "random_seed": result.random_seed},
            "base": found.base,
            "at_base": found.dataset.sel(dict(found.base)).to_pandas().to_dict(),
            "worst": found.worst(),
            "tornado": found.tornado(),
            "diagnostics": result.diagnostics,
        },
    }


def of_comparison(result: Any) -> dict[str, Any]:
    """Files of a comparison: the map, tables and what programs read; no confidential value."""
    found, drawn = result.comparison, _map_of(result)
    axes = drawn.pop("axes")
    return {
        "risk-utility-map.png": found.plot(*axes, **drawn),
        "comparison.nc": {None: found.dataset},
        "comparison.csv": found.summary(),
        "replicates.csv": found.replicates.join(found.seed_table.add_suffix("_seed")),
        "front.csv": found.pareto(*axes),
        **({} if found.verdicts.empty else {"verdicts.csv": found.verdicts}),
    }


def _map_of(result: Any) -> dict[str, Any]:
    """How the risk-utility map of a comparison is drawn."""
    found, section = result.comparison, result.study.compare
    axes = found.axes(section.risk, section.utility)
    bounds = found.bounds is not None and set(axes) <= set(found.bounds.columns)
    return {"axes": axes, "kind": section.kind, "bounds": bounds}


def _pages(result: Any) -> dict[str, str]:
    """Reports of candidates that were audited into folders of their names, beside this one."""
    folder = result.study.output.folder
    if folder is None:
        return {}
    named = {name: Path(folder).absolute().parent / name for name in result.comparison.names}
    return {
        name: f"../{quote(name)}/report.html"
        for name, one in named.items()
        if name not in ("", ".", "..") and "/" not in name and (one / "report.html").is_file()
    }


def summary(result: Any) -> dict[str, Any]:
    """File-level numbers, by the name of what was measured; ``study``, ``diagnostics``."""
    study = {"title": result.study.title, "random_seed": result.random_seed}
    judged = asdict(result.verdict)
    study |= {"verdict": judged.pop("outcome"), **judged}
    parts = parts_by_name(result)
    rows = parts.pop("correspondence")
    found = {name: None if part is None else part.to_dict() for name, part in parts.items()}
    if rows is not None:
        found["correspondence"] = rows.summary()
    return {"study": study, **found, "diagnostics": result.diagnostics}


def manifest_of(result: Any, command: str) -> dict[str, Any]:
    """How to do it again, when it was done, how long it took, and which files were read."""
    read = () if result.provenance is None else result.provenance.files
    return {
        "command": command,
        "random_seed": result.random_seed,
        "data_sha256": result.data_sha256,
        "model_sha256": dict(result.model_sha256),
        "files": [asdict(file) for file in read],
        "versions": versions(),
        "settings": result.study.settings(),
        "seconds": result.seconds,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def render_study(result: Any, *, command: str = "", record: Mapping[str, Any] | None = None) -> str:
    """HTML of a run, with what it takes to do it again; ``record``: its manifest."""
    record = manifest_of(result, command) if record is None else record
    release, own = getattr(result, "release", None), dict[str, Any]()
    if hasattr(result, "comparison"):
        own = _map_of(result) | {"pages": _pages(result)}
    elif hasattr(result, "verdict"):
        own = {"replaced": release and replaced(release)}
    if result.provenance is not None:
        files = record["files"]
        there = any(str(file["role"]).startswith("release") for file in files)
        own["origin"] = origin(
            result.provenance,
            files=files,
            finished=record["finished"],
            synthesised=() if release is None else release.synthesized,
            not_written=0 if there or release is None else release.m,
        )
    return page(
        parts_by_name(result).values(),
        title=result.study.title,
        verdict=getattr(result, "verdict", None),
        diagnostics=result.diagnostics,
        reproduction={
            "command": record["command"],
            "seeds": [("Random seed", str(result.random_seed))],
            "versions": record["versions"],
            "settings": result.study.settings(),
        },
        **own,
    )


def redacted_files(result: Any) -> dict[str, Any]:
    """What `redact` leaves of an audit, without settings, seed, hash or labels: two files.

    Matches come first: they are what a page can state that says most.
    """
    names = ("identification", "attribute", "membership", "utility", "context", "bounds")
    named = [getattr(result, n) for n in (*names, "privacy_loss", "full_table", "reweighting")]
    parts = [part for part in named if part is not None]
    found = redact(*parts, min_count=result.study.output.min_count)
    content = {
        "title": result.study.title,
        "rule": found.sentence(),
        "min_count": found.min_count,
        "numbers": found.table.to_dict("records"),
        "left_out": found.left_out,
        "bayes_risk": __version__,
    }
    summary = found.summary().set_axis(HEADS, axis=1)
    with pd.option_context("display.max_colwidth", None):
        html = summary.to_html(index=False, border=0, justify="left")
    table = Markup(visible(html, "\n"))
    page_text = template("public.html.j2").render(content, table=table)
    return {"public.json": content, "public.html": page_text}


# --- writers: tables as CSV, numbers as JSON, arrays as NetCDF


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table that people open: text in quotes, and none that a spreadsheet would compute.

    Cells, labels and names alike; numbers, dates and missing cells stand without quotes.
    """
    index = [table.index.get_level_values(k) for k in range(table.index.nlevels)]
    labels = [WrittenColumn("" if one.name is None else one.name, one) for one in index]
    columns = [WrittenColumn(name, table.iloc[:, j]) for j, name in enumerate(table)]
    write_rows(path, [*labels, *columns], quoted)


def quoted(value: Any) -> str:
    """A cell of a table: a number as it is, anything else as text in quotes, guarded."""
    if isinstance(value, int | float | np.number):
        return str(value)
    return in_quotes(FORMULA.sub("'", str(value)))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON into a new file, its owner's alone; nothing that is there is written over.

    Numbers that do not exist are null, infinities the text ``"inf"`` or ``"-inf"``.
    """
    text = json.dumps(as_json(content), indent=2, allow_nan=False) + "\n"
    own = partial(os.open, mode=0o600)
    with open(path, "x", encoding="utf-8", opener=own) as file:
        file.write(text)


def as_json(value: Any) -> Any:
    """Turn tables, arrays, paths and mappings into what JSON knows."""
    if isinstance(value, pd.DataFrame):
        return {str(k): as_json(row.to_dict()) for k, row in value.iterrows()}
    if isinstance(value, Mapping):
        return {str(k): as_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray | pd.Index):
        return [as_json(v) for v in value]
    if isinstance(value, np.generic):
        return as_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


WRITERS: dict[str, Callable[[Path, Any], Any]] = {
    ".html": partial(Path.write_text, encoding="utf-8"),
    ".csv": write_csv,
    ".json": write_json,
    ".nc": write_arrays,
    ".png": lambda path, axes: axes.figure.savefig(path, dpi=DPI),
}
