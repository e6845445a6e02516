"""Folders and files in which nobody else had a hand: made new, or as private as new ones."""

import os
import stat
import tempfile
from pathlib import Path

from bayes_risk._core.errors import InputError

CURE = "remove it, or give another output folder"


def private_folder(folder: Path, what: str) -> None:
    """Make a folder for its owner alone, or take one that is as private as a new one would be.

    Parameters
    ----------
    folder : Path
    what : str
        What it is for, in a refusal.

    Raises
    ------
    InputError
        A link, a file, a folder of somebody else, or one that is open to others: what lies there
        may be planted. Where the file system knows no owners and modes, they cannot be told.
    """
    while True:
        try:
            folder.mkdir(mode=0o700)
            return
        except FileExistsError:
            try:
                found = folder.lstat()
                break
            except FileNotFoundError:  # gone meanwhile
                continue
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    usual = new.lstat()
    new.rmdir()
    if not stat.S_ISDIR(found.st_mode):
        why = "is no folder" if not stat.S_ISLNK(found.st_mode) else "is a link"
    elif found.st_uid != usual.st_uid:
        why = "belongs to somebody else"
    elif found.st_mode & ~usual.st_mode & 0o077:
        why = "is open to others"
    else:
        return
    raise InputError(f"{what} {str(folder)!r} {why}, and is not used; {CURE}")


def opened(path: Path, flags: int) -> int:
    """Open a file of a private folder, a new one for its owner alone; no link is followed.

    Raises
    ------
    InputError
        A link or another thing that is no file; to write, a file that has a second name.
    FileNotFoundError, FileExistsError
        It went, or came to be, meanwhile.
    """
    flags |= getattr(os, "O_BINARY", 0)
    try:
        found = path.lstat()
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        return os.open(path, flags | os.O_EXCL, 0o600)  # which follows no link
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    if stat.S_ISREG(found.st_mode) and not (writes and found.st_nlink > 1):
        handle = os.open(path, flags & ~os.O_CREAT)
        if os.path.samestat(found, os.fstat(handle)):
            return handle
        os.close(handle)
    raise InputError(f"{str(path)!r} is a link or no file of a run, and is not used; {CURE}")
