"""Checks of public arguments: one small function a rule, every message says what would be right."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from difflib import get_close_matches
from numbers import Real
from typing import Any, NamedTuple
from unicodedata import combining, normalize

from .errors import FILE, Argument, InputError, shown

# The least and most that a whole number of this name may be: as an argument, as the key of a study
# file, on its page. Above it nothing could be finished, or counted to tell how long it takes.
BOUNDS: Mapping[str, tuple[int, int]] = (
    {"max_doublings": (0, 20), "chains": (1, 100), "splits": (0, 100), "distance": (1, 9_999)}
    | dict.fromkeys(
        ("m", "n_classes", "n_members", "thin", "rounds", "n_jobs", "members"), (1, 1_000)
    )
    | dict.fromkeys(("groups", "permutations"), (2, 10_000))
    | dict.fromkeys(("bins", "replicates"), (1, 10_000))
    | {"n_trees": (1, 100_000), "alternatives": (2, 100_000), "comparisons": (1, 100_000)}
    | dict.fromkeys(("draws", "n", "keep", "steps", "n_tables"), (1, 1_000_000))
    | {"tune": (0, 1_000_000)}
    | dict.fromkeys(("budget", "guess_budget"), (16, 10_000_000))
    | dict.fromkeys(("targets", "records", "lookups"), (1, 1_000_000_000))
    | dict.fromkeys(("min_leaf", "threshold", "donors"), (1, 1_000_000_000))
    | dict.fromkeys(("batch", "trials", "binomial"), (1, 1_000_000_000))
    | {"refit_budget": (0, 1_000_000_000), "min_count": (3, 1_000_000_000)}
    | {"size": (1, 100_000_000_000), "random_seed": (0, 2**128 - 1)}
)


class NumberRange(NamedTuple):
    """Ends of an interval, and whether they are left out of it."""

    low: float
    high: float
    above: bool = False
    below: bool = False

    def in_words(self) -> str:
        """What a number may be."""
        first = f"a number {'above' if self.above else 'from'} {self.low:g}"
        words = {(False, False): " to", (True, True): " and below", (True, False): ", at most"}
        return f"{first}{words.get(self[2:], ', below')} {self.high:g}"


RANGES: Mapping[str, NumberRange] = (  # the same of numbers
    {"level_prior": NumberRange(1e-9, 1e9)}  # beyond it sums of counts and it lose their digits
    | dict.fromkeys(("confidence", "until", "quantile"), NumberRange(0, 1, above=True, below=True))
    | dict.fromkeys(("mass", "probability", "fraction", "in_file"), NumberRange(0, 1, above=True))
    | {"share": NumberRange(0, 1, below=True)}
)

WORDS: Mapping[str, tuple[str, ...]] = {  # and the words that a text may be
    "shape": ("box", "ellipse"),
    "how": ("bootstrap", "permute"),
    "classes": ("new", "own"),
    "bootstrap": ("bayesian", "none"),
    "smoothing": ("kde",),
    "votes": ("all", "out-of-bag"),
    "chain": ("all-others", "earlier-only"),
    "later": ("genuine", "filled"),
    "selection": ("known", "hidden"),
    "spread": ("uniform", "log-uniform"),
    "truth": ("error", "add", "nearest"),
    "groups": ("known", "inferred"),
    "household": ("all but the target", "unknown", "composition"),
}


def is_number(value: Any) -> bool:
    """Whether a value is a number: truth values and text that reads as one are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_sequence(value: Any) -> bool:
    """Whether it has entries in an order: a list, array or column; no text, mapping or set."""
    ordered = isinstance(value, Collection) and not isinstance(value, str | bytes)
    ordered = ordered and not isinstance(value, Mapping | Set)
    return ordered and getattr(value, "ndim", 1) > 0


def whole_number(name: Argument, value: Any, least: int | None = None) -> int:
    """Return `value` as an int within the bounds of its name; ``least``: where it is another."""
    low, most = BOUNDS.get(name if isinstance(name, str) else name[0], (0, None))
    low = low if least is None else least
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(name, value, f"is not a whole number; give an integer >= {low}")
    found = int(value)
    if found < low:
        raise InputError(name, found, f"is too small; give an integer >= {low}")
    if most is not None and found > most:
        raise InputError(name, found, f"is too large; give an integer <= {most:,}")
    return found


def real_number(name: Argument, value: Any, right: str = "a number") -> Any:
    """Return `value` if it is a number, of any size."""
    if not is_number(value):
        raise InputError(name, value, f"is not a number; give {right}")
    return value


def positive(name: Argument, value: Any) -> float:
    """Return `value` as a finite float above zero."""
    real_number(name, value, "a positive number")
    try:
        found = float(value)
    except OverflowError:  # a whole number that no float holds
        found = float("inf")
    if not 0 < found < float("inf"):
        raise InputError(name, value, "must be positive and finite")
    return in_range(str(name), value) if name in RANGES else found


def in_range(name: str, value: Any) -> float:
    """Return `value` as a float in the range of its name."""
    low, high, above, below = RANGES[name]
    right = RANGES[name].in_words()
    real_number(name, value, right)
    if not low <= value <= high or (above and value == low) or (below and value == high):
        raise InputError(name, value, f"is outside; give {right}")
    return float(value)


def positives(name: Argument, values: Any, example: Sequence[float]) -> tuple[float, ...]:
    """Return as many finite floats above zero as the example has."""
    given = isinstance(values, Sequence) and not isinstance(values, str)
    if not given or len(values) != len(example):
        raise InputError(name, values, f"; give {len(example)} positive numbers: {example}")
    return tuple(positive(name, value) for value in values)


def one_of(name: Argument, value: Any, allowed: Collection[str] = ()) -> str:
    """Return `value` if it is one of the allowed words, or of those of its name."""
    allowed = allowed or WORDS[str(name)]
    if not isinstance(value, str) or value not in allowed:
        raise InputError(name, value, f"is not known; give one of {sorted(allowed)}")
    return value


def near(column: Hashable, present: Sequence[Any]) -> str:
    """The column that was meant, as it seems: of other case or accents, or nearly so spelt."""

    def plain(name: Any) -> str:
        parts = normalize("NFKD", str(name)).casefold()
        return "".join(c for c in parts if not combining(c))

    names = {plain(name): name for name in present}
    found = get_close_matches(plain(column), names, n=1, cutoff=0.75)
    return f"; did you mean {shown(names[found[0]])}?" if found else ""


def known_columns(
    name: Argument,
    wanted: Iterable[Any],
    present: Any,
    source: str = "the table",
    *,
    least: int = 0,
) -> list[str]:
    """Return `wanted` as a list of distinct columns, all of them in `present`, names or a table."""
    if hasattr(present, "columns"):
        source, present = getattr(present, "attrs", {}).get(FILE, source), list(present.columns)
    if isinstance(wanted, str):
        raise InputError(name, wanted, "is a single string; give a list of column names")
    if hasattr(wanted, "iloc"):
        raise InputError(name, wanted, "holds data; give a list of column names")
    columns, available = list(wanted), set(present)
    if len(columns) < least:
        raise InputError(name, "is empty; name at least one column")
    for column in columns:
        if not isinstance(column, Hashable) or column not in available:
            raise InputError(
                name,
                f"names column {shown(column)}, which {source} does not have; it has "
                f"{list(present)}{near(column, present)}",
            )
    repeated = sorted(str(c) for c, times in Counter(columns).items() if times > 1)
    if repeated:
        raise InputError(name, f"names {repeated} more than once; name each column once")
    return columns
