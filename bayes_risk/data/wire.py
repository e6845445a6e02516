"""Values that one process sends to another: JSON and plain arrays, so that nothing runs there."""

import datetime as dt
import json
import struct
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

PLAIN = {type(None), bool, int, float, str}  # JSON keeps them exactly
NUMBERS = "biufmM"  # kinds of arrays that are sent as their bytes
TIMES = {kind.__name__: kind for kind in (dt.datetime, dt.date, dt.time)}


def packed(value: Any) -> list[Any]:
    """Parts of a message: sizes, JSON, and the bytes of arrays."""
    blobs: list[Any] = []
    head = json.dumps(_plain(value, blobs)).encode()
    blobs = [memoryview(blob).cast("B") for blob in (head, *blobs)]
    sizes = [len(blob) for blob in blobs]
    total = 8 * len(sizes) + sum(sizes)
    return [struct.pack(f"<{len(sizes) + 2}Q", total, len(sizes), *sizes), *blobs]


def unpacked(message: Any, count: int) -> Any:
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
    return unpacked(memoryview(_exactly(stream, total, most)), count)


def _exactly(stream: Any, size: int, most: int) -> bytes:
    found: bytes = stream.read(size) if size <= most else b""
    if len(found) < size or size == 0:
        raise EOFError
    return found
