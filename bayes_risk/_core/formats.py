"""How numbers are written: one rule for sentences, tables, pictures and the screen.

A number has three decimals, fewer from 10 upwards, and two significant digits below 0.01; none is
written with an exponent, none as ``-0.00``, and what is not zero never as zero. Its error has the
same decimals. Counts have thousands separators.
"""

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from numbers import Integral
from typing import Any

from .shown import visible

NONE = "\N{EN DASH}"
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
MOST_DECIMALS = 6


def number(value: Any, digits: int | None = None) -> str:
    """A number for people; a dash for one that does not exist.

    >>> [number(x) for x in (0.19325, 0.0004, 1e-9, 0.0, 12.3456, 10560, 10560.4)]
    ['0.193', '0.0004', 'below 0.000001', '0', '12.35', '10,560', '10,560']
    >>> number(-0.001, 2), number(float("nan")), number(True)
    ('0.00', '–', 'yes')
    """
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if math.isinf(value):
        return "\N{INFINITY}" if value > 0 else "-\N{INFINITY}"
    if isinstance(value, Integral) or value == 0:
        return f"{int(value):,}"
    if digits is not None:
        return _fixed(value, digits)
    if abs(value) < 0.5 * 10**-MOST_DECIMALS:
        smallest = f"{10**-MOST_DECIMALS:.6f}"
        return f"below {smallest}" if value > 0 else f"above -{smallest}"
    text = _fixed(value, decimals(value))
    return text.rstrip("0") if abs(value) < 0.01 else text


def signed(value: float) -> str:
    """`number` with its sign, for a difference."""
    return f"+{number(value)}" if value > 0 else number(value)


def decimals(value: float) -> int:
    """Decimals that a number is written with, and its error beside it."""
    size = abs(value)
    if size == 0 or not math.isfinite(size):
        return 3
    if size >= 10:
        return max(4 - len(str(int(size))), 0)
    return 3 if size >= 0.01 else min(1 - math.floor(math.log10(size)), MOST_DECIMALS)


def two_errors(mcse: float, beside: float = 0.0, digits: int | None = None) -> str:
    """Two standard errors, with the decimals of the number they stand beside."""
    if math.isnan(mcse):
        return NONE
    if mcse == 0:
        return "0"
    if math.isinf(mcse):
        return "\N{INFINITY}"
    places = decimals(beside) if digits is None else digits
    smallest = 10.0**-places
    if 2 * mcse < smallest / 2:
        return f"< {_fixed(smallest, places)}"
    return _fixed(2 * mcse, places)


def plus_minus(mcse: float, beside: float = 0.0, digits: int | None = None) -> str:
    """`two_errors` in a sentence: ``+- 0.005``, or ``error < 0.001``."""
    text = two_errors(mcse, beside, digits)
    return f"{'error' if text.startswith('<') else '+-'} {text}"


def ends_of_share(mcse: float, share: float) -> str:
    """From where to where a share may be, if two errors would leave [0, 1]; else nothing."""
    low, high = share - 2 * mcse, share + 2 * mcse
    left = low < 0 or high > 1
    return f"{number(max(low, 0.0))} to {number(min(high, 1.0))}" if left else ""


def beside_share(mcse: float, share: float) -> str:
    """`plus_minus` behind a share: `` +- 0.005``, or `` (0.6 to 1)``."""
    ends, text = ends_of_share(mcse, share), plus_minus(mcse, share)
    return f" {text}" if not ends and text.startswith("+") else f" ({ends or text})"


def error(
    mcse: float, beside: float = 0.0, digits: int | None = None, *, share: bool = False
) -> str:
    """`two_errors` with their sign, for a cell of a table; of a share both ends, if need be."""
    if share and (ends := ends_of_share(mcse, beside)):
        return ends
    text = two_errors(mcse, beside, digits)
    return text if text in ("0", NONE) or text.startswith("<") else f"{PLUS_MINUS} {text}"


def in_brackets(
    mcse: float, beside: float = 0.0, digits: int | None = None, *, share: bool = False
) -> str:
    """`plus_minus` behind a number of a sentence, `` (+- 0.005)``; nothing where there is none."""
    if share and (ends := ends_of_share(mcse, beside)):
        return f" ({ends})"
    return f" ({plus_minus(mcse, beside, digits)})" if mcse > 0 else ""


def percent(share: float) -> str:
    """A share as per cent, one decimal; a dash for one that does not exist."""
    if math.isnan(share):
        return NONE
    return "< 0.1 %" if 0 < share < 0.001 else f"{_fixed(100 * share, 1)} %"


def percent_error(mcse: float) -> str:
    """Two standard errors of a share, for a cell of a table."""
    text = error(100 * mcse, digits=1)
    return text if text in ("0", NONE) else f"{text} %"


def at_most(bound: float) -> str:
    """An upper bound of an error, or a dash."""
    if math.isnan(bound):
        return NONE
    return f"\N{LESS-THAN OR EQUAL TO} {plain(bound, 2)}" if bound else "0"


def factor(value: float) -> str:
    """What odds are multiplied by: three significant digits, no decimals from 100 upwards."""
    return significant(value, 3) if value < 100 else number(value, 0)


def significant(value: float, digits: int) -> str:
    """A number to so many significant digits, at most nine decimals: on a variable's own scale."""
    if not math.isfinite(value) or value == 0:
        return number(value)
    return _fixed(value, min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 9))


def plain(value: float, digits: int = 4) -> str:
    """A number to so many significant digits without the zeros at its end: a setting, a label.

    >>> plain(0.1), plain(10560.0), plain(0.000012345)
    ('0.1', '10,560', '0.00001234')
    """
    if not math.isfinite(value):
        return number(value)
    whole = len(str(int(abs(value))))
    return f"{Decimal(f'{value:.{max(digits, min(whole, 15))}g}'):,f}"


def counted(count: int, what: str) -> str:
    """So many of something: ``1 release``, ``1,200 releases``."""
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


def ends_in_words(low: str, high: str) -> str:
    """From one end to the other; one number where both are the same."""
    return low if low == high else f"{low} to {high}"


def begun(words: str) -> str:
    """Words as the beginning of a sentence; names such as pMSE and repU stay as they are."""
    return words[0].upper() + words[1:] if words.partition(" ")[0].islower() else words


def _fixed(value: float, places: int) -> str:
    """So many decimals; zero has no sign."""
    text = f"{value:,.{places}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def toml_key(name: str) -> str:
    """A key as TOML has it."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_pair(key: str, value: Any) -> str:
    """A key and its value as TOML has them."""
    return f"{toml_key(key)} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    """A value as TOML has it; of a table the keys that have a value."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(toml_pair(k, v) for k, v in value.items() if v is not None)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    # strings, numbers, true: the same in TOML, and escaped what JSON leaves as it is
    return visible(json.dumps(value, ensure_ascii=False))
