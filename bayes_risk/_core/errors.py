"""What can go wrong, and what statistical doubt looks like.

Three exceptions and three warnings are all there is. Each docstring names the cure.
"""

import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from .shown import visible

MOST_CHARACTERS = 2_000
FILE = "file"  # attribute of a table: the file that it was read from, as messages name it
IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
ASIDE = re.compile(r" \((?:[^()`]|`[^`\n]+`)+\)")

PACKAGE = __name__.partition(".")[0]

Argument = str | tuple[str, Any]  # a name; of a table its name and the key in it


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line outside the package from which it was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(f"{PACKAGE}."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def of_type(value: Any) -> str:
    """The type of a value, with its article."""
    return with_article(type(value).__name__.replace("ndarray", "array"))


def with_article(name: str) -> str:
    """One of its name."""
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


def shown(value: Any) -> str:
    """A value as Python writes it; of a table or an array its type, for it may hold data."""
    if getattr(value, "ndim", 0):
        return of_type(value)
    try:
        return repr(value)
    except (ValueError, RecursionError):  # a number of too many digits, lists in lists
        return f"a {type(value).__name__} that is too long to be shown"


def place_of(l: int, table: Any = None) -> str:
    """Table l in messages: the file that it was read from; else 0 is the original."""
    file: str | None = getattr(table, "attrs", {}).get(FILE)
    return file or ("the original" if l == 0 else f"release {l}")


class Surface:
    """How errors name an argument and what was given: in Python ``m=0``; others are in `app`.

    What stands in backticks in a text, further arguments and calls, is Python: other surfaces name
    it in their own words, and leave out an aside in parentheses that has none there.
    """

    def head(self, argument: Argument, given: Sequence[Any]) -> str:
        """The argument, and its value if there is one."""
        name, *keys = [argument] if isinstance(argument, str) else argument
        place = name + "".join(f"[{key!r}]" for key in keys)
        return "=".join([place, *map(shown, given)])

    def named(self, code: str) -> str:
        """What stands in backticks in a text; nothing: there are no words for it."""
        return code

    def text(self, text: str) -> str:
        """A text of an error or a warning."""

        def aside(found: re.Match[str]) -> str:
            return found[0] * all(map(self.named, IN_BACKTICKS.findall(found[0])))

        return IN_BACKTICKS.sub(
            lambda found: self.named(found[1]) or found[1], ASIDE.sub(aside, text)
        )

    def worded(self, error: "InputError") -> str:
        """The whole message."""
        head = self.head(error.argument, error.given) if error.argument else ""
        text = self.text(error.text)
        space = " " if head and text[:1] not in {*";:,"} else ""
        return f"{error.within}{self.place(error)}{head}{space}{text}"

    def place(self, error: "InputError") -> str:
        """Where the argument stands, in front of it."""
        return ""


class InputError(ValueError):
    """Something given does not fit.

    The message names the column or argument, the value, and what would be right. Of a message of
    more than 2,000 characters (names of thousands of columns) the middle is left out.

    ``InputError("m", 0, "is too small; give an integer >= 1")`` names an argument, what was given,
    and what would be right; the value may be left out, or both. Its `surface` words it.
    """

    surface = Surface()
    within = ""  # of what it is part, in front of the message

    def inside(self, part: str) -> "InputError":
        """The same error, of a part."""
        self.within = f"{part}: {self.within}"
        return self

    @property
    def argument(self) -> Argument:
        """The argument that does not fit, or nothing."""
        name: Argument = self.args[0] if len(self.args) > 1 else ""
        return name

    @property
    def given(self) -> tuple[Any, ...]:
        """The value of the argument, if it is shown."""
        return self.args[1:-1]

    @property
    def text(self) -> str:
        """What is wrong, and what would be right."""
        return str(self.args[-1]) if self.args else ""

    def __str__(self) -> str:
        text = visible(self.surface.worded(self), "\n")
        long = len(text) > MOST_CHARACTERS
        return f"{text[: MOST_CHARACTERS - 520]} ... {text[-500:]}" if long else text


class ModelError(RuntimeError):
    """A model cannot do what was requested.

    Raised when a fit lacks a capability (``evidence="exact"`` on a model without closed form) or
    when a sampler failed. Choose another evidence, or fit the model again with other settings.
    """


class MemoryCeilingError(MemoryError):
    """A run has taken more memory than it was allowed.

    It stops between two steps; those that are finished are kept. Give the same command a larger
    ``max_memory``, and it goes on from there; or audit fewer targets, use fewer guesses.
    """


class UnreliableWeightsWarning(UserWarning):
    """Importance weights rest on too few draws, so the risk they give is not to be trusted.

    The Pareto k-hat of the weights exceeds ``min(1 - 1/log10(H), 0.7)`` (Vehtari et al. 2024), or
    their effective sample size is below 100 for the published estimator. Fix: use
    ``evidence="predictive"`` instead of ``"importance"``; more draws; or a larger
    ``refit_budget`` so that the records concerned are fitted again without the target.
    """


class DisplacedRiskWarning(UserWarning):
    """Smaller weights for records at risk have exposed records of moderate risk ("whack-a-mole").

    Clearly more of them rose than chance explains, or some above the threshold. Fix: more rounds
    of `reweight`, whose weights then follow the records that rose; a lower threshold; or fewer
    columns in the release.
    """


class TruncationWarning(UserWarning):
    """Every latent class is occupied, so the truncation of the mixture binds.

    Fix: fit again with more classes (``n_classes``).
    """
