"""Arguments of functions, by their signatures."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import isfunction, signature
from itertools import islice
from os import PathLike
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from .errors import InputError, of_type, with_article
from .validate import BOUNDS, RANGES, in_range, is_number, is_sequence, whole_number

Function = TypeVar("Function", bound=Callable[..., Any])

RAW = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
SOME = 1_000  # entries of a list that are looked at
NAMES = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "True or False",
    bytes: "bytes",
    type(None): "None",
    Hashable: "a label",
    np.ndarray: "an array",
}


def taken(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """What of some options a function takes; matching, say, draws nothing."""
    takes = signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in takes):
        return options
    return {one.name: options[one.name] for one in takes if one.name in options}


def check_options(name: str, options: Mapping[str, Any] | None, function: Any) -> None:
    """Refuse options that a function does not take, by the name of the argument that has them."""
    takes = signature(function).parameters
    if unknown := sorted(str(one) for one in {*(options or {})} - {*takes}):
        raise InputError(name, f"has {unknown}; give some of {sorted(takes)}")


def names_wrong_types(function: Function) -> Function:
    """A function whose failure is an InputError where an argument is not what is annotated.

    Nothing is checked before it fails: what works with other types goes on working.
    """
    if hasattr(function, "names_wrong_types"):
        return function

    @wraps(function)
    def call(*args: Any, **how: Any) -> Any:
        try:
            return function(*args, **how)
        except InputError:
            raise
        except RAW as error:
            refusal = _refusal(function, args, how)
            if refusal is None:
                raise
            refused: BaseException = refusal.with_traceback(error.__traceback__)
        raise refused from None

    call.names_wrong_types = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def public(value: Any) -> Any:
    """A public function that `names_wrong_types`; a class whose public methods and making do."""
    if isfunction(value):
        return names_wrong_types(value)
    if isinstance(value, type) and not issubclass(value, BaseException):
        for name, member in list(vars(value).items()):
            if isfunction(member) and (name == "__init__" or not name.startswith("_")):
                setattr(value, name, names_wrong_types(member))
    return value


def _refusal(function: Any, args: Any, how: Any) -> InputError | None:
    """The first argument that does not fit its annotation, or the bounds of its name."""
    try:
        given = signature(function).bind(*args, **how).arguments
        hints = get_type_hints(function)
    except (TypeError, NameError):  # another number of arguments; types of type checkers alone
        return None
    for name, value in given.items():
        if name not in hints or value is signature(function).parameters[name].default:
            continue
        if not _fits(value, hints[name]):
            entries = is_sequence(value) or isinstance(value, Mapping)
            kind = f"cannot be {of_type(value)}"
            wrong = "has entries that do not fit, or none" if entries else kind
            return InputError(name, f"{wrong}; give {_in_words(hints[name])}")
        if not is_number(value):
            continue
        try:
            if name in BOUNDS:
                whole_number(name, value)
            if name in RANGES:
                in_range(name, value)
            float(value)
        except InputError as refusal:
            return refusal
        except OverflowError:
            return InputError(name, "is larger than any number that a computer calculates with")
    return None


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; True for those that are not known here."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, Hashable) and value in parts
    if hint is bool or hint is int or hint is float:
        whole = hasattr(value, "__index__") and not getattr(value, "ndim", 0)
        flag = isinstance(value, bool | np.bool_)
        return flag if hint is bool else not flag and (whole if hint is int else is_number(value))
    kind = origin if origin is not None else hint
    if not isinstance(kind, type) or kind in (Any, object):
        return True
    if getattr(kind, "_is_protocol", False) and kind.__module__.startswith("bayes_risk"):
        return all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
    if kind is np.ndarray:
        return is_sequence(value)
    if issubclass(kind, Callable):  # type: ignore[arg-type]
        return callable(value)
    if issubclass(kind, Mapping):
        k, v = parts or (Any, Any)
        if not isinstance(value, Mapping):
            return False
        return all(_fits(a, k) and _fits(b, v) for a, b in islice(value.items(), SOME))
    if kind in (Sequence, Collection, Iterable, list, tuple):
        return _fits_entries(value, kind, parts)
    return isinstance(value, kind)


def _fits_entries(value: Any, kind: Any, parts: tuple[Any, ...]) -> bool:
    """Whether a list has entries of its kind; a table is no list."""
    if not is_sequence(value) or getattr(value, "ndim", 1) > 1:
        return kind is Iterable and isinstance(value, Iterable) and not isinstance(value, str)
    if kind is tuple and parts[-1:] != (...,):
        same = len(value) == len(parts)
        return same and all(_fits(a, p) for a, p in zip(value, parts, strict=True))
    return all(_fits(one, parts[0] if parts else Any) for one in islice(value, SOME))


def _in_words(hint: Any) -> str:
    """What an annotation allows."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        *first, last = dict.fromkeys(map(_in_words, parts))
        return f"{', '.join(first)} or {last}" if first else last
    if origin is Literal:
        return " or ".join(map(repr, parts))
    kind = origin if origin is not None else hint
    if kind in NAMES:
        return NAMES[kind]
    if not isinstance(kind, type):
        return "another value"
    if issubclass(kind, Mapping):
        return "a mapping" + (
            f" of {_in_words(parts[0])} to {_in_words(parts[1])}" if parts else ""
        )
    if kind in (Sequence, Collection, Iterable, list, tuple):
        inner = list(dict.fromkeys(_several(_in_words(p)) for p in parts if p is not ...))
        return "a list" + (f" of {' and '.join(inner)}" if inner else "")
    if kind is PathLike:
        return "a path"
    if issubclass(kind, Callable):  # type: ignore[arg-type]
        return "a function"
    return with_article(kind.__name__)


def _several(words: str) -> str:
    """Of many: "a number" as "numbers"."""
    article, _, noun = words.partition(" ")
    return f"{noun}s" if article in ("a", "an") and " or " not in noun else words
