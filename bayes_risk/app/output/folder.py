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

from filelock import lock_descriptor

from bayes_risk._core.checkpoint import Store, opened, private_folder
from bayes_risk._core.errors import InputError

MANIFEST = "manifest.json"


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Stop before any work if `folder` cannot become the output folder.

    Only a folder that an earlier run wrote (it holds a manifest) or an empty one is ever replaced.
    """
    check_name(folder)
    if not folder.absolute().parent.is_dir():
        raise InputError(
            f"the output folder {folder} has no parent folder; create {folder.parent} first"
        )
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise InputError(f"output {str(folder)!r} exists and is not a folder; give another name")
    if not overwrite:
        raise InputError(
            f"the output folder {str(folder)!r} exists; give another name, or --overwrite to "
            f"replace it"
        )
    if any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise InputError(
            f"the folder {str(folder)!r} was not written by bayes-risk (it has no {MANIFEST}), so "
            f"it is not overwritten; give another name"
        )


def check_name(folder: Path) -> None:
    """Stop if no folder can have the name of `folder`, or lie beside it while it is written."""
    if "\0" in str(folder) or folder.absolute().name in ("", ".."):
        raise InputError(
            f"the output folder {str(folder)!r} is no name of a new folder; give one such as "
            "'study-risk'"
        )


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
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.partial-", dir=aside or folder.parent))
    try:
        yield partial
        for file in partial.iterdir():
            file.chmod(0o600)
        check_target(folder, overwrite=overwrite)  # it may have come to be meanwhile
        _swap(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _swap(partial: Path, folder: Path) -> None:
    """Put `partial` in the place of `folder`; put the old one back if that fails."""
    if not folder.exists():
        partial.rename(folder)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old-", dir=folder.parent))
    old = aside / folder.name
    try:
        folder.rename(old)
        partial.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    finally:
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)


# --- where a run works --------------------------------------------------------------------------


RUN, LOCK, STEPS = "run.json", "lock", "steps"
MOST_BYTES = 10_000_000  # of the note of a run
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

    It is ``.NAME.work`` beside the output folder. ``run`` says what the run is, JSON; the seed is
    that of a new run. A place where another run is writing, with steps of a different run, or that
    may be somebody else's, is refused and left as it is; ``restart`` throws finished steps away.
    """
    folder = output.absolute().with_name(f".{output.name}.work")
    with _locked(folder, output):
        if restart:
            _emptied(folder)
        seed = _same_run(folder, json.loads(json.dumps(run)), random_seed)
        store = Store(folder / STEPS)
        try:
            yield Workplace(folder, store, seed)
        except BaseException as error:
            if len(store) == 0:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                steps = (
                    "1 finished step is" if len(store) == 1 else f"{len(store)} finished steps are"
                )
                error.add_note(f"{steps} kept in {folder}; the same command goes on from there")
            raise
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path, output: Path) -> Iterator[None]:
    """One run at a time; the system frees the lock of a run that dies."""
    while True:
        private_folder(folder, "the working folder")
        with suppress(FileNotFoundError, FileExistsError):  # another run began or ended meanwhile
            try:
                handle = opened(folder / LOCK, os.O_RDWR | os.O_CREAT)
            except OSError:  # a folder in which there is no room for a lock does not stay
                with suppress(OSError):
                    folder.rmdir()
                raise
            if not lock_descriptor(handle, blocking=False):
                os.lseek(handle, 1, os.SEEK_SET)  # on Windows nobody else reads what is locked
                holder = os.read(handle, 20).decode() or "unknown"
                os.close(handle)
                raise InputError(
                    f"another run (process {holder}) is writing {str(output)!r}; wait for it, or "
                    "give another --output"
                )
            if os.fstat(handle).st_nlink:  # still the file in the folder
                break
            os.close(handle)
    try:
        with suppress(OSError):  # no room for the number; what follows tells it
            os.truncate(handle, 0)
            os.write(handle, f" {os.getpid()}".encode())
        yield
    except KeyboardInterrupt:
        if not (folder / STEPS).exists():  # stopped before the first step could be kept
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(handle)
        if os.name == "nt" and not (folder / STEPS).exists():  # what is open cannot be removed
            shutil.rmtree(folder, ignore_errors=True)


def _emptied(folder: Path) -> None:
    shutil.rmtree(folder / STEPS, ignore_errors=True)
    (folder / RUN).unlink(missing_ok=True)


def _same_run(folder: Path, run: Mapping[str, Any], random_seed: int) -> int:
    """The seed of the run that was begun here; a new run is written down."""
    path = folder / RUN
    try:
        then, seed = _begun(path)
    except FileNotFoundError:
        _emptied(folder)
        begun = {"random_seed": random_seed, "run": run, "sha256": _hash(run, random_seed)}
        try:
            handle, aside = tempfile.mkstemp(dir=folder)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(begun, file)
            os.replace(aside, path)
        except OSError:  # without room for the whole of it nothing stays
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return random_seed
    found = differences(then, run)
    if found:
        raise InputError(
            f"{str(folder)!r} holds finished steps of another run: {'; '.join(found[:SHOWN])}"
            f"{' ...' if len(found) > SHOWN else ''}. Put that back, or throw the steps away with "
            "--restart"
        )
    return seed


def _begun(path: Path) -> tuple[Any, int]:
    """What a run is, and its seed, as they were written down."""
    handle = opened(path, os.O_RDONLY)
    try:
        with os.fdopen(handle, encoding="utf-8") as file:
            if os.fstat(handle).st_size > MOST_BYTES:
                raise ValueError("too large")
            begun = json.load(file)
        then, seed = begun["run"], begun["random_seed"]
        if begun["sha256"] != _hash(then, seed):
            raise ValueError("changed")
        return then, int(seed)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"{str(path)!r} is damaged: it is not what a stopped run writes. Throw its steps away "
            f"with --restart, or remove the folder {str(path.parent)!r}"
        ) from None


def _hash(run: Any, random_seed: int) -> str:
    """Of what a run is: a bit that flips in the file must not become another seed."""
    return hashlib.sha256(json.dumps([random_seed, run], sort_keys=True).encode()).hexdigest()


def differences(then: Any, now: Any, name: str = "") -> list[str]:
    """What differs between two nested mappings, in words."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        names = [*then, *(k for k in now if k not in then)]
        return [
            text
            for k in names
            for text in differences(then.get(k), now.get(k), f"{name} {k}".strip())
        ]
    if then == now:
        return []
    if "sha256" in name:
        return [f"{name.replace(' sha256', '')} has changed"]
    was, is_ = (t if len(t) <= 60 else t[:57] + "..." for t in map(json.dumps, (then, now)))
    return [f"{name} was {was}, is {is_}"]
