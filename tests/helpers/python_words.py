"""Words of Python that no message of a study or of a command may hold."""

import inspect
import re
from functools import cache

import bayes_risk as br
from bayes_risk import models
from bayes_risk.app.study.known_keys import KEYS

KINDS = (*models.registered(), *(kind for kind in dir(models) if kind in br.__all__))
OTHERS = ("DataFrame", "Series", "pandas", "numpy", "None", "True", "False")


def parameters(of: object) -> set[str]:
    """Names of the arguments of a function, or of a class and its public methods."""
    calls = [of, *(getattr(of, n) for n in dir(of) if inspect.isclass(of) and n[:1] != "_")]
    found = set[str]()
    for call in filter(callable, calls):
        try:
            found |= {*inspect.signature(call).parameters}
        except (TypeError, ValueError):  # of C code
            continue
    return found


@cache
def _pattern() -> re.Pattern[str]:
    public = [getattr(br, name) for name in br.__all__]
    public += [getattr(models, kind) for kind in models.registered()]
    arguments = set().union(*map(parameters, public)) - {"m", "n"}
    keys = {key for of in KEYS.values() for key in of}
    alone = {name for name in arguments if "_" in name.strip("_") and name not in keys}
    classes = {one.__name__ for one in public if inspect.isclass(one)} - {*KINDS}
    words = "|".join(sorted(classes | {*OTHERS} | alone))
    return re.compile(rf"\b(?:{'|'.join(sorted(arguments))})=|(?<![\w-])(?:{words})\b|`")


def python_words(message: str) -> list[str]:
    """Arguments with an equals sign, classes, names that are no keys, and backticks."""
    return _pattern().findall(re.sub(r"'[^']*'", "''", message))
