"""Where a random study takes its choices from: a generator of numbers, or hypothesis."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    """Whole numbers at random, the lower end the simplest."""

    def whole(self, low: int, high: int) -> int: ...


class Drawn:
    """By a seed: for thousands of studies in a loop."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def whole(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))


class Searched:
    """By hypothesis, which makes a failing study as small as it can."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def whole(self, low: int, high: int) -> int:
        return int(self._data.draw(st.integers(low, high)))


def pick(choices: Choices, options: Sequence[T]) -> T:
    """One of several; the first is the simplest."""
    return options[choices.whole(0, len(options) - 1)]


def chance(choices: Choices, one_in: int) -> bool:
    """True once in so many times."""
    return choices.whole(0, one_in - 1) == one_in - 1


def some(choices: Choices, options: Sequence[Any], least: int = 1) -> list[Any]:
    """At least so many of several, in their order."""
    chosen = [option for option in options if choices.whole(0, 1)]
    rest = [option for option in options if option not in chosen]
    return chosen + rest[: max(least - len(chosen), 0)]


def generator(choices: Choices) -> np.random.Generator:
    """A generator for what need not be made small value by value."""
    return np.random.default_rng(choices.whole(0, 2**32 - 1))


def whole_power(choices: Choices, most: int) -> int:
    """1 to `most`, each power of two as likely as the next."""
    upper = 2 ** choices.whole(1, most.bit_length())
    return choices.whole(1, min(upper, most))
