"""What synthpop keeps of the trees that made its releases, as JSON: read, and checked for its form.

`docs/trees.md` has the R function that writes it, and the form.
"""

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

from bayes_risk._core.errors import InputError

from .kinds import check_unpacked, checked_file

CURE = "write it with the R function of docs/trees.md, from syn(..., models = TRUE)"
LEAF, ABSENT = "<leaf>", 2
MISSING = "NAtemp"  # synthpop's level for what is missing


class Rule(NamedTuple):
    """One primary or surrogate split.

    ``ncat`` -1: values below ``cut`` go left, +1: right; 2 and more: levels of ``variable`` go to
    the side of ``sides``, 1 left, 3 right, 2 neither.
    """

    variable: str
    ncat: int
    cut: float
    sides: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=True)
class Rpart:
    """One tree of rpart, its nodes in the order of its frame: each before those below it."""

    node: tuple[int, ...]  # rpart's numbers: the children of k are 2 k and 2 k + 1
    n: tuple[int, ...]  # records of each node
    rules: tuple[tuple[Rule, ...], ...]  # of each its primary split, then surrogates; leaves: none
    levels: Mapping[str, tuple[str, ...]]  # levels of the predictors that are categories
    outcome: tuple[str, ...] | None  # levels of the outcome; None: a number
    majority: bool  # whether rows that no split of a node sends go with most of its records


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SynthpopModels:
    """The trees that made a release of synthpop, and how they were used."""

    methods: Mapping[str, str]  # ``""`` for columns that were not synthesised
    visit_sequence: tuple[str, ...]  # order of synthesis
    proper: bool  # whether trees were grown on bootstrap samples of the records
    smoothing: Mapping[str, str]  # ``""``: none
    # By column; those of missing values of column x are called ``x.NA``. A text names another
    # method, whose models are no trees
    trees: tuple[Mapping[str, "Rpart | str | None"], ...]

    @property
    def m(self) -> int:
        """Number of releases."""
        return len(self.trees)

    @property
    def synthesized(self) -> list[str]:
        """Columns with a method, in the order of synthesis."""
        return [c for c in self.visit_sequence if self.methods.get(c)]

    @classmethod
    def of(cls, content: Any, source: str = "models") -> "SynthpopModels":
        """Read what a JSON file holds."""
        try:
            methods = {str(c): str(how or "") for c, how in content["method"].items()}
            smoothing = _by_column(content["smoothing"], methods)
            rules = _by_column(content.get("rules"), methods)
            order = tuple(str(c) for c in _listed(content["visit_sequence"]))
            found, proper = content["models"], bool(content["proper"])
            releases = [dict(one) for one in (_listed(found) if found else [])]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(
                f"{source} is the JSON of another object, or not all of what synthpop's models are "
                f"written as; {CURE}"
            ) from None
        if not releases:
            raise InputError(f"{source} holds no models: call syn(..., models = TRUE), and {CURE}")
        ruled = [c for c in methods if any(_listed(rules.get(c)))]
        if ruled:
            raise InputError(
                f"{source}: column {ruled[0]!r} was made under rules, by which some records are "
                "given a fixed value and their trees never see them; make the release without "
                "rules, or leave the column out of the audit"
            )
        trees = [
            {str(c): _model(one, f"{source}: {c!r} of release {l}") for c, one in release.items()}
            for l, release in enumerate(releases, start=1)
        ]
        return cls(
            methods=methods,
            visit_sequence=order,
            proper=proper,
            smoothing={str(c): str(how or "") for c, how in smoothing.items()},
            trees=tuple(trees),
        )


def _by_column(found: Any, columns: Mapping[str, str]) -> Mapping[str, Any]:
    """What stands by column: with their names, or in their order."""
    if isinstance(found, Mapping):
        return found
    return dict(zip(columns, _listed(found), strict=False))


def _model(found: Any, source: str) -> "Rpart | str | None":
    """One column's model."""
    try:
        if found is None or found == {}:
            return None
        return _rpart(found) if found["kind"] == "rpart" else str(found["kind"])
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError):
        raise InputError(f"{source} is not a complete tree of rpart; {CURE}") from None


def _rpart(found: Mapping[str, Any]) -> Rpart:
    frame, splits = _listed(found["frame"]), _listed(found["splits"])
    csplit = [tuple(int(side) for side in _listed(row)) for row in _listed(found["csplit"])]
    levels = {v: tuple(map(str, _listed(x))) for v, x in (found["xlevels"] or {}).items()}
    surrogates = int(found.get("usesurrogate", 2))
    rules: list[tuple[Rule, ...]] = []
    place = 0
    for node in frame:
        if node["var"] == LEAF:
            rules.append(())
            continue
        competing, replacing = int(node["ncompete"]), int(node["nsurrogate"])
        if splits[place]["var"] != node["var"]:
            raise ValueError("splits and frame disagree")
        first = place + 1 + competing
        rows = [splits[place], *(splits[first : first + replacing] if surrogates else [])]
        rules.append(tuple(_rule(row, csplit, levels) for row in rows))
        place = first + replacing
    numbers = tuple(int(node["node"]) for node in frame)
    _check_order(numbers, rules)
    if place != len(splits) or not frame or found["method"] not in ("class", "anova"):
        raise ValueError("splits and frame disagree, or a tree of another kind")
    classes = found["method"] == "class"
    return Rpart(
        node=numbers,
        n=tuple(int(node["n"]) for node in frame),
        rules=tuple(rules),
        levels=levels,
        outcome=tuple(map(str, _listed(found["ylevels"]))) if classes else None,
        majority=surrogates == 2,
    )


def _rule(
    row: Mapping[str, Any], csplit: list[tuple[int, ...]], levels: Mapping[str, tuple[str, ...]]
) -> Rule:
    variable, ncat = str(row["var"]), int(row["ncat"])
    if ncat in (-1, 1):  # of ordered categories by the number of the level, the first 1
        return Rule(variable, ncat, float(row["index"]), ())
    if ncat != len(levels[variable]) or int(row["index"]) < 1:
        raise ValueError("levels and split disagree")
    sides = csplit[int(row["index"]) - 1][:ncat]
    if len(sides) < ncat or not set(sides) <= {1, ABSENT, 3}:
        raise ValueError("no sides")
    return Rule(variable, ncat, 0.0, sides)


def _check_order(numbers: tuple[int, ...], rules: Sequence[tuple[Rule, ...]]) -> None:
    """Frames list each node, all below its left, then all below its right child."""
    expected = [1]
    for number, split in zip(numbers, rules, strict=True):
        if expected.pop() != number:
            raise ValueError("nodes in another order")
        expected += [2 * number + 1, 2 * number] if split else []
    if expected:
        raise ValueError("nodes are missing")


def _listed(found: Any) -> list[Any]:
    """R writes a vector (a list of models) of one value as the value, and one of none as null."""
    if found is None or found == {}:
        return []
    return list(found) if isinstance(found, list | tuple) else [found]


def read_models(source: str | PathLike[str]) -> SynthpopModels:
    """Read the models that ``syn(..., models = TRUE)`` keeps."""
    path = checked_file(source)
    if path.suffix.lower() in (".rds", ".rda", ".rdata"):
        raise InputError(f"{str(path)!r} is in a format of R alone; {CURE}")
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            parts = []
            while part := file.read(1 << 20):
                parts.append(part)
                if path.suffix.lower() == ".gz":
                    check_unpacked(file.tell(), path, ".json.gz")
        content = json.loads(b"".join(parts).decode("utf-8-sig"))
    except InputError:
        raise
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, ValueError, RecursionError):
        raise InputError(f"{str(path)!r} holds no JSON, or not all of it; {CURE}") from None
    return SynthpopModels.of(content, repr(str(path)))
