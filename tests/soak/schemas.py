"""Random tables: levels no record has, constants, duplicates, numbers of any size, one record."""

from typing import Any

import numpy as np
import pandas as pd

from tests.soak.choices import Choices, chance, generator, pick, whole_power

NUMBERS = (
    "whole",
    "normal",
    "positive",
    "negative",
    "apart",
    "large whole",
    "equal",
    "huge",
    "tiny",
    "subnormal",
)
ORDINARY = 5  # that models can work with


def rows(choices: Choices, most: int) -> int:
    """Number of records: few are as likely as many."""
    return whole_power(choices, most) if chance(choices, 10) else 1 + whole_power(choices, most - 1)


def category(choices: Choices, n: int) -> pd.Series:
    """1 to 60 levels, some of them held by nobody, of several types of values."""
    d = whole_power(choices, 60) if chance(choices, 15) else 1 + whole_power(choices, 59)
    rng, kind = generator(choices), pick(choices, ["category", "text", "whole", "bool", "ordered"])
    least = 1 if chance(choices, 15) else min(d, 2)
    held = rng.permutation(d)[: rng.integers(least, d + 1)] if chance(choices, 4) else np.arange(d)
    share = rng.dirichlet(np.full(len(held), pick(choices, [1.0, 0.1, 10.0])))
    codes = held[rng.choice(len(held), size=n, p=share)]
    if d > 1 and n > 1 and not chance(choices, 15):
        codes[rng.permutation(n)[:2]] = held[[0, -1]]
    if kind == "bool":
        return pd.Series(codes > codes.min())
    if kind == "whole":
        return pd.Series(codes).astype("category")
    names = [f"v{k}" for k in range(d)]
    if kind == "text":
        return pd.Series([names[c] for c in codes], dtype=object)
    levels: Any = pd.Index(names)
    return pd.Series(pd.Categorical.from_codes(codes, levels, ordered=kind == "ordered"))


def number(choices: Choices, n: int, kinds: tuple[str, ...] = NUMBERS) -> pd.Series:
    """Numbers of any size: tied, equal, tiny, huge, far apart."""
    rng = generator(choices)
    z = rng.normal(size=n)
    return pd.Series(
        {
            "whole": lambda: rng.integers(-3, 9, size=n),
            "normal": lambda: z,
            "positive": lambda: np.exp(z),
            "equal": lambda: np.full(n, 2.5),
            "negative": lambda: -1e3 - np.abs(z),
            "huge": lambda: z * 1e300,
            "tiny": lambda: z * 1e-300,
            "apart": lambda: np.where(rng.random(n) < 0.5, z, 1e12 + z),
            "subnormal": lambda: z * 5e-320,
            "large whole": lambda: 2**53 + rng.integers(0, 5, size=n),
        }[pick(choices, kinds if chance(choices, 6) else kinds[:ORDINARY])]()
    )


def count(choices: Choices, n: int) -> pd.Series:
    """Counts: none at all, small, large, one far above all others."""
    rng = generator(choices)
    y = rng.poisson(pick(choices, [3.0, 0.0, 0.2, 1e3, 1e6]), size=n)
    if chance(choices, 5) and n:
        y[rng.integers(n)] = 10 ** int(rng.integers(3, 10))
    return pd.Series(y)


def numbered(columns: list[pd.Series], choices: Choices) -> pd.DataFrame:
    """A table of them, some of its records twice, labelled as people label them."""
    table = pd.DataFrame({f"x{j}": column for j, column in enumerate(columns)})
    if chance(choices, 5) and len(table) > 1:
        twice = generator(choices).integers(len(table), size=len(table))
        table = table.iloc[twice].reset_index(drop=True)
    if chance(choices, 4):
        table.index = pd.Index([f"r{k}" for k in range(len(table))])
    return table
