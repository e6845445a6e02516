"""The output folder, complete or not there at all, and the place of the run that writes it.

A run works in a hidden folder with a lock, what the run is, and its finished steps. It lies beside
the output folder and goes when the run ends well. While it holds finished steps it stays otherwise,
so that the same command goes on where it was. All is readable by its owner only.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from bayes_risk._core.checkpoint import Store, opened, private_folder
from bayes_risk._core.errors import InputError

from .numbers import plain

MANIFEST = "manifest.json"


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Stop before any work if `folder` cannot become the output folder.

    Only a folder that an earlier run wrote (it holds a manifest) or an empty one is ever replaced.
    """
    if "\0" in str(folder) or folder.absolute().name in ("", ".."):
        why = "is no name of a new folder; give one such as 'study-risk'"
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
        check_target(folder, overwrite=overwrite)  # it may have come to be meanwhile
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(hidden, ignore_errors=True)


# --- where a run works --------------------------------------------------------------------------


RUN, LOCK, STEPS = "run.json", "lock", "steps"
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

    It is ``.NAME.work`` beside the output folder. ``run`` says what the run is; the seed is that of
    a new run. A place where another run is writing, with steps of a different run, or that may be
    somebody else's, is refused and left as it is; ``restart`` throws finished steps away.
    """
    folder, store = output.absolute().with_name(f".{output.name}.work"), None
    with _locked(folder, output):
        try:
            if restart:
                _emptied(folder)
            seed = _seed_of(folder, plain(run), random_seed)
            store = Store(folder / STEPS)
            yield Workplace(folder, store, seed)
        except BaseException as error:
            kept = len([*(folder / STEPS).glob("*.npz")])
            refused = store is None and isinstance(error, InputError)
            if kept and not refused:
                found = "1 finished step is" if kept == 1 else f"{kept} finished steps are"
                error.add_note(f"{found} kept in {folder}; the same command goes on from there")
            elif not refused:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path, output: Path) -> Iterator[None]:
    """One run at a time; the system frees the lock of a run that dies."""
    private_folder(folder, "the working folder")
    lock = FileLock(folder / LOCK, timeout=0, fallback_to_soft=False)
    try:
        os.close(opened(folder / LOCK, os.O_RDWR | os.O_CREAT))
        lock.acquire()
    except (Timeout, FileExistsError, FileNotFoundError):  # it begins or ends in this moment
        raise InputError(
            f"another run is writing {str(output)!r}; wait for it, or give another --output"
        ) from None
    except OSError:  # a folder in which there is no room for a lock does not stay
        with suppress(OSError):
            folder.rmdir()
        raise
    try:
        yield
    finally:
        lock.release()
        if os.name == "nt" and not (folder / STEPS).exists():  # what is open cannot be removed
            shutil.rmtree(folder, ignore_errors=True)


def _emptied(folder: Path) -> None:
    shutil.rmtree(folder / STEPS, ignore_errors=True)
    (folder / RUN).unlink(missing_ok=True)


def _seed_of(folder: Path, run: Any, random_seed: int) -> int:
    """The seed of the run that was begun here; a new run is written down."""
    path = folder / RUN
    try:
        then, seed = _begun(path)
    except FileNotFoundError:
        _emptied(folder)
        begun = {"random_seed": random_seed, "run": run, "sha256": _hash(run, random_seed)}
        handle, aside = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(begun, file)
        os.replace(aside, path)
        return random_seed
    if found := differences(then, run):
        more = " ..." if len(found) > SHOWN else ""
        raise InputError(
            f"{str(folder)!r} holds finished steps of another run: {'; '.join(found[:SHOWN])}"
            f"{more}. Put that back, or throw the steps away with --restart"
        )
    return seed


def _begun(path: Path) -> tuple[Any, int]:
    """What a run is, and its seed, as they were written down."""
    with os.fdopen(opened(path, os.O_RDONLY), encoding="utf-8") as file:
        try:
            begun = json.load(file)
            then, seed = begun["run"], int(begun["random_seed"])
            if begun["sha256"] == _hash(then, seed):
                return then, seed
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            pass
    raise InputError(
        f"{str(path)!r} is damaged: it is not what a stopped run writes. Throw its steps away with "
        f"--restart, or remove the folder {str(path.parent)!r}"
    )


def _hash(run: Any, random_seed: int) -> str:
    """Of what a run is: a bit that flips in the file must not become another seed."""
    return hashlib.sha256(json.dumps([random_seed, run], sort_keys=True).encode()).hexdigest()


def differences(then: Any, now: Any, name: str = "") -> list[str]:
    """What differs between two nested mappings, in words."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        pairs = [(k, then.get(k), now.get(k)) for k in dict.fromkeys([*then, *now])]
        return [text for k, *both in pairs for text in differences(*both, f"{name} {k}".strip())]
    if then == now:
        return []
    if "sha256" in name:
        return [f"{name.replace(' sha256', '')} has changed"]
    was, is_ = (t if len(t) <= 60 else t[:57] + "..." for t in map(json.dumps, (then, now)))
    return [f"{name} was {was}, is {is_}"]
