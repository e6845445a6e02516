"""The output folder: complete or not there at all, and readable by its owner only."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayes_risk._core.errors import InputError

from .manifest import MANIFEST


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

    Whatever goes wrong, Ctrl-C included, the hidden folder is removed and an older output is left
    (or put back) as it was.

    Parameters
    ----------
    folder : Path
        Where the output shall lie.
    overwrite : bool
        Replace an older output, once the new one is complete.
    aside : Path, optional
        A folder of the same file system for the hidden one; by default that of `folder`.

    Yields
    ------
    Path
        The folder to write in, with owner-only permissions.

    Raises
    ------
    InputError
        The folder exists (and may not be overwritten), or its parent does not.
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
