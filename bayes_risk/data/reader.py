"""Readers of other packages run in a process of their own, with bounds on memory and time.

They are compiled code, which a damaged file may stop by a memory fault. What they find comes back
as JSON and plain arrays. A process reads one file at a time, and further small ones.
"""

import atexit
import datetime as dt
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bayes_risk._core.errors import InputError

PLAIN = {type(None), bool, int, float, str}  # JSON keeps them exactly
NUMBERS = "biufmM"  # kinds of arrays that are sent as their bytes
TIMES = {kind.__name__: kind for kind in (dt.datetime, dt.date, dt.time)}


def message_parts(value: Any) -> list[Any]:
    """Parts of a message: sizes, JSON, and the bytes of arrays."""
    blobs: list[Any] = []
    head = json.dumps(_plain(value, blobs)).encode()
    blobs = [memoryview(blob).cast("B") for blob in (head, *blobs)]
    sizes = [len(blob) for blob in blobs]
    total = 8 * len(sizes) + sum(sizes)
    return [struct.pack(f"<{len(sizes) + 2}Q", total, len(sizes), *sizes), *blobs]


def message_value(message: Any, count: int) -> Any:
    """The value of a message of so many parts."""
    sizes = struct.unpack_from(f"<{count}Q", message)
    parts, start = [], 8 * count
    for size in sizes:
        parts.append(message[start : start + size])
        start += size
    return _value(json.loads(bytes(parts[0])), parts[1:])


def _plain(value: Any, blobs: list[Any]) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, tuple):
        every = PLAIN.issuperset(map(type, value))
        return list(value) if every else [_plain(part, blobs) for part in value]
    if kind is dict:
        return {"dict": [[_plain(k, blobs), _plain(v, blobs)] for k, v in value.items()]}
    return {kind.__name__: list(_parts(kind.__name__, value, blobs))}


def _parts(kind: str, value: Any, blobs: list[Any]) -> Iterator[Any]:
    """What makes a value of another kind than JSON's."""
    if kind in TIMES:
        yield value.isoformat()
    elif kind == "timedelta":
        yield from (value.days, value.seconds, value.microseconds)
    elif kind == "Decimal":
        yield str(value)
    elif kind == "Timestamp":
        yield from (str(value.tz or ""), value.unit, int(value.asm8.astype("int64")))
    elif kind == "Series":
        bare = getattr(value.dtype, "str", None)
        if bare is not None and value.dtype.kind in NUMBERS:
            yield from (bare, len(blobs))
            blobs.append(value.to_numpy().copy().view("u1"))
        else:
            yield from (str(value.dtype), _plain(value.tolist(), blobs))
    elif kind in ("bytes", "Buffer"):
        yield len(blobs)
        blobs.append(value)
    elif kind == "ndarray" and value.dtype.kind in NUMBERS:
        yield from (value.dtype.str, len(blobs))
        blobs.append(value.copy().view("u1"))
    elif kind not in ("NaTType", "NAType"):
        yield _plain(value.item(), blobs)  # of NumPy


def _value(plain: Any, blobs: list[Any]) -> Any:
    if isinstance(plain, list):
        every = PLAIN.issuperset(map(type, plain))
        return plain if every else [_value(part, blobs) for part in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, given),) = plain.items()
    if kind == "dict":
        return {_value(k, blobs): _value(v, blobs) for k, v in given}
    return _made(kind, given, blobs)


def _made(kind: str, given: list[Any], blobs: list[Any]) -> Any:
    if kind in TIMES:
        return TIMES[kind].fromisoformat(given[0])
    if kind == "timedelta":
        return dt.timedelta(*given)
    if kind == "Decimal":
        return Decimal(given[0])
    if kind in ("bytes", "Buffer"):
        return blobs[given[0]]
    if kind not in ("Timestamp", "Series", "NaTType", "NAType", "ndarray"):
        return _value(given[0], blobs)
    import numpy as np
    import pandas as pd

    if kind == "Timestamp":
        time = pd.Timestamp(np.datetime64(given[2], given[1]))
        return time.tz_localize("UTC").tz_convert(given[0]) if given[0] else time
    if kind in ("NaTType", "NAType"):
        return pd.NaT if kind == "NaTType" else pd.NA
    if isinstance(given[1], int):
        dtype = np.dtype(given[0])
        if dtype.kind not in NUMBERS:
            raise ValueError("no array of numbers")
        array = np.frombuffer(blobs[given[1]], dtype).copy()
        return array if kind == "ndarray" else pd.Series(array)
    return pd.Series(_value(given[1], blobs), dtype=given[0])


def send(parts: list[Any], stream: Any) -> None:
    """Write a message."""
    for part in parts:
        stream.write(part)
    stream.flush()


def received(stream: Any, most: int = sys.maxsize) -> Any:
    """Read a message of at most so many bytes; EOFError: there is none, or not all of it."""
    total, count = struct.unpack("<2Q", _exactly(stream, 16, most))
    return message_value(memoryview(_exactly(stream, total, most)), count)


def _exactly(stream: Any, size: int, most: int) -> bytes:
    found: bytes = stream.read(size) if size <= most else b""
    if len(found) < size or size == 0:
        raise EOFError
    return found


READERS = {  # what reads a kind of file, in which module, and what messages call it
    ".parquet": ("parquet", "Parquet"),
    ".xlsx": ("spreadsheet", "Excel"),
    ".dta": ("statistical", "Stata"),
    ".sas7bdat": ("statistical", "SAS"),
    ".xpt": ("statistical", "SAS transport"),
    ".sav": ("statistical", "SPSS"),
    ".zsav": ("statistical", "SPSS"),
    ".nc": ("kept", "NetCDF"),
}
PACKAGES = ("numpy", "pandas", "pyreadstat", "pyarrow", "openpyxl", "bayes_risk")
SMALL = 1_000_000  # bytes of files after which a process reads further ones
MEMORY = (4 * 2**30, 100)  # bytes that a process may hold: so many, and so many times the file
SECONDS = (60, 20)  # of processor time: so many, and so many for each MB of the file
IDLE = 4  # processes that wait for a further file
WAIT = 5  # times these seconds pass until a process is ended that does nothing
FAULTS = {"SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"}
NO_MESSAGE = (EOFError, OSError, ValueError, LookupError, TypeError, AttributeError, struct.error)

_idle: list[tuple[int, subprocess.Popen[bytes]]] = []  # processes, and who started them


def read_apart(file: Path, suffix: str, **how: Any) -> Any:
    """What ``stored`` of the module for a kind of file finds in a file, in another process."""
    keep = file.stat().st_size <= SMALL
    (found,) = read_in_parts(file, suffix, keep=keep, **how)
    return found


def read_in_parts(file: Path, suffix: str, *, keep: bool = True, **how: Any) -> Iterator[Any]:
    """The same of a file in parts; the process waits for who asks, is kept, or ends early."""
    if not starts_processes():
        found = _stored(str(file), suffix, how)
        yield from found if isinstance(found, Generator) else [found]
        return
    size = file.stat().st_size
    memory, seconds = (a + int(b * size / c) for (a, b), c in ((MEMORY, 1), (SECONDS, 10**6)))
    folder = ""
    with suppress(OSError):
        folder = os.getcwd()
    request = [folder, str(file), suffix, how, memory, seconds]
    with _process(keep=keep) as process:
        kind, found = _answer(process, request, memory, seconds)
        while kind == "part":
            yield found
            kind, found = _answer(process, None, memory, seconds)
        if kind not in ("found", "end"):  # a damaged file may have damaged the memory of its reader
            process.kill()
            process.wait()
    if kind == "found":
        yield found
        return
    if kind == "end":
        return
    if kind == "refused":
        raise InputError(found)
    bounds = {
        "time": f"it took more than {seconds:,} s",
        "memory": f"it needed more than {memory / 2**30:,.0f} GiB of memory",
    }
    raise InputError(
        f"{str(file)!r}: the reader of {READERS[suffix][1]} files stopped while reading it "
        f"({bounds.get(found, found)}); is the file whole? If it is, "
        f"{'run the study again' if suffix == '.nc' else 'save it as a CSV'}"
    )


def _answer(
    process: subprocess.Popen[bytes], request: list[Any] | None, memory: int, seconds: int
) -> Any:
    """Ask if there is something to be asked, and wait for an answer."""
    ended = threading.Event()

    def end() -> None:
        ended.set()
        process.kill()

    timer = threading.Timer(WAIT * seconds, end)
    timer.daemon = True
    timer.start()
    try:
        if request is not None:
            send(message_parts(request), process.stdin)
        return received(process.stdout, memory)
    except NO_MESSAGE:
        with suppress(subprocess.TimeoutExpired):
            process.wait(WAIT)
        code = process.poll()
        return "stopped", "time" if ended.is_set() else _reason(code or 0)
    finally:
        timer.cancel()


def starts_processes() -> bool:
    """Whether there is a Python to start: a program that holds its own has none."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def _reason(code: int) -> str:
    """Why a process ended, in words."""
    name = ""
    with suppress(ValueError):
        name = signal.Signals(-code).name
    if name in FAULTS or code in (0xC0000005, 0xC0000409, 0xC00000FD):  # the last ones of Windows
        return "memory fault"
    return {"SIGXCPU": "time", "SIGKILL": "the system ended it, perhaps for lack of memory"}.get(
        name, "unforeseen error"
    )


@contextmanager
def _process(keep: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that waits for a file; it ends afterwards unless it is to be kept."""
    process = None
    while process is None and _idle:
        with suppress(IndexError):  # another thread was faster
            owner, kept = _idle.pop()
            process = kept if owner == os.getpid() and kept.poll() is None else None
    process = process or _started()
    try:
        yield process
    except BaseException:
        keep = False
        raise
    finally:
        if keep and process.poll() is None and len(_idle) < IDLE:
            _idle.append((os.getpid(), process))
        else:
            _end(process)


def _started() -> subprocess.Popen[bytes]:
    """Start Python without the current folder, the user's site and any plant beside a script."""
    places = [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin:
            places.append(str(Path(spec.origin).absolute().parents[1]))
    code = "import json, sys; sys.path += json.loads(sys.argv[1]); "
    code += "from bayes_risk.data.reader import serve; serve()"
    utf8, paths = f"utf8={sys.flags.utf8_mode}", json.dumps([*dict.fromkeys(places)])
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    return subprocess.Popen(
        [sys.executable, "-I", "-X", utf8, "-c", code, paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("BAYES_RISK_TRACEBACK") else subprocess.DEVNULL,
        env=os.environ | single | {"MALLOC_ARENA_MAX": "2"},
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            stream and stream.close()


@atexit.register
def _end_all() -> None:
    for owner, process in _idle:
        if owner == os.getpid():
            _end(process)


# --- in the process --------------------------------------------------------------------------


def serve() -> None:
    """Read files until the process that asks is gone; nothing but messages reaches it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the process that asks
    _leave_no_trace()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            folder, file, suffix, how, memory, seconds = received(sys.stdin.buffer)
        except (EOFError, OSError):
            return
        _bound(memory, seconds)
        try:
            if folder:
                os.chdir(folder)
            found = _stored(file, suffix, how)
            if isinstance(found, Generator):
                for part in found:
                    send(message_parts(["part", part]), out)
                reply = message_parts(["end", None])
            else:
                reply = message_parts(["found", found])
        except InputError as error:
            reply = message_parts(["refused", str(error)])
        except MemoryError:
            reply = message_parts(["stopped", "memory"])
        os.chdir(os.path.abspath(os.sep))
        send(reply, out)


def _stored(file: str, suffix: str, how: dict[str, Any]) -> Any:
    module = import_module(f".{READERS[suffix][0]}", __package__)
    stored: Callable[..., Any] = module.stored
    return stored(Path(file), suffix, **how)


def _leave_no_trace() -> None:
    """Let a fault write no memory to the disk, and open no window."""
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        ctypes.windll.kernel32.SetErrorMode(0x8007)
        msvcrt.setmode(1, os.O_BINARY)
    else:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _bound(memory: int, seconds: int) -> None:
    """Bound memory and processor time where the system can."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds += int(used.ru_utime + used.ru_stime) + 1
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        hard = resource.getrlimit(kind)[1]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(OSError, ValueError):  # macOS does not know them all
            resource.setrlimit(kind, (soft, hard))
