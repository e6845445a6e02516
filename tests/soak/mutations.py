"""Study files gone wrong: some values, keys or bytes of a good one replaced at random."""

import copy
import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from tests.soak.choices import Choices, chance, pick, whole_power

VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 10**30, -(10**30), 10**4000, 10**6000, 2**63),
    *(0.0, 0.5, -0.5, 1e308, -1e-308, 5e-324, float("nan"), float("inf"), float("-inf")),
    *(True, False),
    *("", " ", "x", "age", "uniform", "DPMPM", "none", "all", "[sweep]", "a\x00b", "../..", "/"),
    *("é", "\U0001f98a", "\u202e", "\ud7ff", "ﬁ", "K" * 100_000, "1 + age", "__import__('os')"),
    *("1", "1e400", "NaN", "null", "%s", "{0}", "{age}", "C:\\x"),
    *([], [[]], [1, "a"], ["age", "age"], [float("nan")], ["x"] * 1_000, [{}], list(range(100))),
    *({}, {"kind": "DPMPM"}, {"": 1}, {"a": {"b": {"c": 1}}}, {"x" * 1_000: 1}),
    *(datetime.date(2020, 1, 1), datetime.datetime(1, 1, 1), datetime.time(1)),
)


DEEPEST = 20  # where a change is made


def nested(depth: int) -> Any:
    """A value inside so many tables and lists."""
    value: Any = 1
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values stand in nested tables and lists."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list) and len(path) < DEEPEST:
            yield from places(inner, (*path, key))


def mutated(choices: Choices, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a study file with one to four places changed."""
    out = copy.deepcopy(dict(content))
    for _ in range(whole_power(choices, 4)):
        found = list(places(out))
        if found:
            _change(choices, out, found[choices.whole(0, len(found) - 1)], content)
    return out


def _change(choices: Choices, out: Any, path: tuple[Any, ...], original: Any) -> None:
    """Replace, delete, rename, add, wrap or swap one value."""
    inside = out
    for step in path[:-1]:
        inside = inside[step]
    key, way = path[-1], choices.whole(0, 7)
    if way <= 2:
        inside[key] = value(choices)
    elif way == 3:
        del inside[key]
    elif way == 4 and isinstance(inside, dict):
        inside[pick(choices, ["", "x", str(key) + "s", str(key).upper(), "sweep"])] = inside[key]
    elif way == 5 and isinstance(inside, dict):
        inside[pick(choices, ["x", "kind", "columns", "m", "prior", "targets"])] = value(choices)
    elif way == 6:
        inside[key] = [inside[key]] if chance(choices, 2) else {"x": inside[key]}
    else:
        other = list(places(original))
        found = original
        for step in other[choices.whole(0, len(other) - 1)]:
            found = found[step]
        inside[key] = copy.deepcopy(found)


def value(choices: Choices) -> Any:
    """One of the values, or one deep inside others."""
    if chance(choices, 15):
        return nested(pick(choices, [3, 50, 2_000]))
    return copy.deepcopy(pick(choices, VALUES))  # what follows may change it


PIECES = (
    *(b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"[", b"]", b'"', b"'''", b"=", b"#"),
    *(
        b"[data]\n",
        b"x = 1\n",
        b"x = " + b"[" * 3_000,
        b"x = " + b"{a=" * 3_000,
        b"a." * 3_000,
        b"1" * 5_000,
        b"9" * 400,
    ),
    *(b"\xe9", b"\xed\xa0\x80", b"1e999", b"nan", b"-inf", b"{" * 2_000, b"2020-13-45", b"\\u00"),
    *(b"k = '" + b"v" * 1_000_000 + b"'\n", b"\n[a.b.c]\n[a.b.c]\n", b"\xff\xfe"),
)


def garbled(choices: Choices, content: bytes) -> bytes:
    """Bytes with one to eight cuts, insertions, repetitions and flips."""
    out = content
    for _ in range(whole_power(choices, 8)):
        at = choices.whole(0, len(out))
        to = min(at + whole_power(choices, 64) - 1, len(out))
        way = choices.whole(0, 5)
        if way <= 1:
            out = out[:at] + pick(choices, PIECES) + out[at:]
        elif way == 2:
            out = out[:at] + out[to:]
        elif way == 3:
            out = out[:at] + out[at:to] * pick(choices, [2, 20]) + out[to:]
        elif way == 4:
            out = out[:at] + bytes([choices.whole(0, 255)]) + out[at + 1 :]
        else:
            out = out[:at] if chance(choices, 4) else out[to:] + out[:at]
    return out
