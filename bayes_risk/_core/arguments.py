"""Arguments of functions, by their signatures."""

from collections.abc import Callable
from inspect import signature
from typing import Any


def taken(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """What of some options a function takes; matching, say, draws nothing."""
    takes = signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in takes):
        return options
    return {one.name: options[one.name] for one in takes if one.name in options}
