"""Formulas: read once, and kept from being programs.

formulaic would hand what stands in a formula to Python, anew for each table. So a formula is taken
apart first, and stops here unless all of it is arithmetic on columns and calls of listed functions;
and its terms are compiled, so that workers, which may be threads, read nothing.
"""

import ast
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd
from formulaic import Formula, SimpleFormula
from formulaic.materializers.types import FactorValues
from formulaic.parser.types import Factor, Term
from formulaic.transforms import TRANSFORMS
from numba.core.compiler_lock import global_compiler_lock

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError

CONTRASTS = frozenset(
    f"contr.{name}" for name in ("treatment", "SAS", "sum", "helmert", "diff", "poly")
)
FUNCTIONS = CONTRASTS | frozenset(
    {
        *("C", "I", "center", "scale", "standardize", "poly", "bs", "cr", "cs", "cc"),
        *("exp", "exp2", "exp10", "log", "log2", "log10"),
        *("Treatment", "Sum", "Helmert", "Diff", "Poly"),
        *(f"np.{name}" for name in ("log", "log1p", "log2", "log10", "exp", "expm1", "sqrt")),
        *(f"np.{name}" for name in ("abs", "sign", "floor", "ceil", "round", "clip")),
        *(f"np.{name}" for name in ("minimum", "maximum", "sin", "cos", "tan", "tanh")),
    }
)
SHOWN = "C, I, log, exp, np.sqrt, poly, bs, cr, cc, center, scale and standardize"
SIGNS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr),
    *(ast.UAdd, ast.USub, ast.Invert, ast.Not, ast.And, ast.Or, ast.Load, ast.keyword),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
SPREADING = {"poly", "bs", "cr", "cs", "cc"}  # one column becomes as many as an argument says
LONGEST, DEEPEST, HIGHEST, WIDEST = 10_000, 50, 10, 100
POWER = re.compile(r"(?:\*\*|\^)\s*\(?\s*(\d+)")
WORD = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|%\w+%|`([^`]*)`|(\b[^\W\d]\w*)""")
OPERATORS = {"and", "or", "not", "True", "False", "None"}  # columns of these names need backticks
RESERVED = {"np", "contr", *FUNCTIONS}  # so do these
States = Mapping[str, list[dict[str, Any]]]


class Expression:
    """A term as Python evaluates it, compiled when it is made; ``n_states`` calls learn."""

    def __init__(self, text: str, columns: Mapping[str, str]) -> None:
        self.text, self.columns = text, columns
        with global_compiler_lock:  # it may arrive in any thread
            self._code, self.n_states = _compiled(text)

    def __reduce__(self) -> Any:
        """Code cannot be sent: it is compiled where the expression arrives."""
        return Expression, (self.text, self.columns)

    def value(self, frame: pd.DataFrame, states: list[dict[str, Any]]) -> Any:
        """Of the rows of a frame; the first time the states are learnt."""
        columns = {name: frame[column] for name, column in self.columns.items()}
        learnt = {str(k): state for k, state in enumerate(states)}
        return eval(self._code, {"__builtins__": {}, **TRANSFORMS, **columns, **learnt})


def _compiled(text: str) -> tuple[CodeType, int]:
    """Code, and how many of its calls learn: these are given states, called 0, 1, ..."""
    tree, n_states = ast.parse(text, mode="eval"), 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if hasattr(TRANSFORMS.get(node.func.id), "__is_stateful_transform__"):
                node.keywords.append(ast.keyword("_state", ast.Name(str(n_states), ast.Load())))
                n_states += 1
    return compile(ast.fix_missing_locations(tree), "<formula>", "eval"), n_states


class UnseenLevels(Exception):
    """A term, and of how many rows it makes levels that were not learnt."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A formula's right-hand side: terms of factors, which are columns, expressions or numbers."""

    terms: SimpleFormula
    expressions: Mapping[str, Expression]
    numbers: Mapping[str, float]
    states: States = field(default_factory=dict)  # of the calls, as was learnt from a frame
    spec: Any = None  # formulaic's

    @property
    def factors(self) -> set[str]:
        """All factors, by name."""
        return {str(factor.expr) for term in self.terms for factor in term.factors}

    @property
    def columns(self) -> list[str]:
        """The columns that the formula uses, in alphabetical order."""
        names = self.factors - self.expressions.keys() - self.numbers.keys()
        return sorted(names.union(*(e.columns.values() for e in self.expressions.values())))

    def learnt(self, frame: pd.DataFrame) -> tuple["Reading", Array]:
        """Learn from a frame, and give its matrix."""
        states: States = {
            name: [{} for _ in range(e.n_states)] for name, e in self.expressions.items()
        }
        new = replace(self, states=states, spec=self.terms)
        found = new._evaluated(frame, new._values(frame), output="pandas")
        new = replace(new, spec=found.model_spec)
        return new, np.asarray(found, dtype=float).reshape(len(frame), -1)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of matrices."""
        return tuple(str(name) for name in self.spec.column_names)

    @property
    def written(self) -> tuple[str, ...]:
        """The same for messages: the formula's term in place of a name that holds a level."""
        slices = self.spec.term_slices.items()
        terms = [str(term) for term, at in slices for _ in range(at.start, at.stop)]
        pairs = zip(self.names, terms, strict=True)
        return tuple(term if "[" in name else name for name, term in pairs)

    def matrix(self, frame: pd.DataFrame) -> Array:
        """Matrix of the rows of a frame, coded as was learnt; `UnseenLevels` where it cannot be."""
        values = self._values(frame)
        for term, (_, state) in self.spec.encoder_state.items():
            column = values[term] if term in values else frame.get(term.strip("`"))
            if "categories" in state and not isinstance(column.dtype, pd.CategoricalDtype):
                if n := int((~pd.Series(column).isin(state["categories"])).sum()):
                    raise UnseenLevels(str(term), n)
        found = self._evaluated(frame, values, output="numpy")
        return np.asarray(found, dtype=float).reshape(len(frame), -1)

    def _values(self, frame: pd.DataFrame) -> dict[str, Any]:
        """What formulaic cannot look up in a frame, by name."""
        found: dict[str, Any] = {
            name: FactorValues(number, kind=Factor.Kind.CONSTANT)
            for name, number in self.numbers.items()
        }
        with np.errstate(all="ignore"):  # what is not finite is found by who asked
            for name, expression in self.expressions.items():
                try:
                    found[name] = expression.value(frame, self.states[name])
                except Exception as error:
                    raise ValueError(f"factor `{name}`") from error
        return found

    def _evaluated(self, frame: pd.DataFrame, values: dict[str, Any], **how: Any) -> Any:
        """By formulaic."""
        with np.errstate(all="ignore"):
            return self.spec.get_model_matrix(frame, context=values, na_action="ignore", **how)


def parse(response: str, formula: str) -> Reading:
    """The formula's right-hand side, compiled; nothing of it was evaluated."""
    where = f"the formula of {response!r}, {formula!r},"
    if not isinstance(formula, str) or not formula.strip():
        raise InputError(f"{where} cannot be read; give text: '1 + x', or '1' for a constant alone")
    _check_size(formula, f"the formula of {response!r}")
    # numba parses under this lock, and two that parse at once fail on CPython 3.11.0 to 3.11.7
    with global_compiler_lock:
        return _read(where, response, formula)


def _read(where: str, response: str, formula: str) -> Reading:
    names = _Names(formula)
    try:
        parsed = Formula(names.text)
    except Exception as error:  # its text is made of the formula alone
        why = re.split(r"\n|\. |\(<", names.restored(str(error)))[0].strip(" .")
        raise InputError(
            f"{where} cannot be read: {why}; write '1 + x + C(group)', and names that are not "
            "plain words in backticks"
        ) from None
    if not isinstance(parsed, SimpleFormula):
        raise InputError(
            f"{where} has a left-hand side or several parts; "
            f'give one right-hand side alone: {{"{response}": "1 + ..."}}'
        )
    expressions, numbers, terms = {}, {}, []
    for term in parsed:
        factors = []
        for factor in term.factors:
            python = factor.eval_method is Factor.EvalMethod.PYTHON
            name = names.restored(factor.expr, quoted=python)
            if python:
                expressions[name] = _expression(factor.expr, names, response)
            elif factor.eval_method is Factor.EvalMethod.LITERAL:
                numbers[name] = float(name)
            factors.append(Factor(name))
        terms.append(Term(factors))
    return Reading(SimpleFormula(dict.fromkeys(terms), _ordering="none"), expressions, numbers)


class _Names:
    """A formula with plain words for columns that Python would not read as they are written."""

    def __init__(self, formula: str) -> None:
        self._sign = "_q"
        while self._sign in formula:
            self._sign += "q"
        self.columns: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self.text = WORD.sub(self._plain, formula)

    def _plain(self, found: re.Match[str]) -> str:
        quoted, word = found.groups()
        if quoted is None and (word is None or word in OPERATORS or _is_plain(word)):
            return found[0]
        column = word if quoted is None else quoted
        if _is_plain(column) and column not in RESERVED:
            return f" {column} "
        bare = column.isidentifier() and column not in OPERATORS | RESERVED
        written = column if bare else f"`{column}`"
        known = {text: alias for alias, text in self._written.items()}
        alias = known.get(written, f"{self._sign}{len(known)}")
        self.columns[alias], self._written[alias] = column, written
        return f" {alias} " if word is None else alias

    def restored(self, text: str, quoted: bool = True) -> str:
        """A text about the formula, with the names as they were written."""
        names = self._written if quoted else self.columns
        return re.sub(f"{self._sign}\\d+", lambda found: names.get(found[0], found[0]), text)


def _is_plain(word: str) -> bool:
    """Whether Python reads a word as a name, and as this name."""
    return word.isidentifier() and not keyword.iskeyword(word) and normalize("NFKC", word) == word


def _expression(text: str, names: _Names, response: str) -> Expression:
    """A term that Python evaluates, checked and compiled."""
    where = f"term {names.restored(text)!r} of the formula of {response!r}"
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval").body))
        wrong = next((w for node in nodes for w in _refused(node)), None)
        if wrong is None:
            _compiled(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise InputError(f"{where} cannot be read; check its brackets and arguments") from None
    if wrong is not None:
        raise InputError(
            f"{where} has {names.restored(wrong)}; formulas know columns, numbers, signs, and "
            f"{SHOWN}: compute anything else as a column of the table beforehand, and name that"
        )
    words = {node.id for node in nodes if isinstance(node, ast.Name)} - RESERVED
    if not words:
        raise InputError(
            f"{where} names no column; name one, in backticks if a function is called so, or leave "
            "the term out"
        )
    return Expression(text, {word: names.columns.get(word, word) for word in sorted(words)})


def _check_size(formula: str, what: str) -> None:
    """Formulas that take for ever to expand stop before they do."""
    opened = deepest = 0
    for sign in formula:
        opened += (sign in "([{") - (sign in ")]}")
        deepest = max(deepest, opened)
    if len(formula) > LONGEST or deepest > DEEPEST:
        raise InputError(
            f"{what} is longer than {LONGEST:,} characters or has brackets deeper than {DEEPEST}; "
            "compute columns beforehand, and name them"
        )
    powers = POWER.findall(formula)
    if any(len(power) > 2 or int(power) > HIGHEST for power in powers) or len(powers) > HIGHEST:
        raise InputError(
            f"{what} has a power above {HIGHEST}, or more than {HIGHEST} powers; compute such a "
            "column beforehand, and name it"
        )


def _refused(node: ast.AST) -> Iterator[str]:
    """What is not allowed in one node of an expression, in words."""
    if isinstance(node, ast.Call):
        yield from _refused_call(node)
    elif isinstance(node, ast.Attribute):
        if ast.unparse(node) not in FUNCTIONS:
            yield "an attribute"
    elif isinstance(node, ast.Name):
        if node.id.startswith("__"):
            yield f"the name {node.id!r}"
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, int | float | str | bool | None):
            yield f"a {type(node.value).__name__}"
    elif isinstance(node, ast.BinOp):  # no text or list is multiplied, and no number raised
        texts = (x.value if isinstance(x, ast.Constant) else x for x in (node.left, node.right))
        if any(isinstance(x, str | ast.List | ast.Tuple) for x in texts):
            yield "arithmetic on text or lists"
        named = any(isinstance(x, ast.Name) for x in ast.walk(node))
        if isinstance(node.op, ast.Pow) and not named:  # 9**9**9 would never end
            yield "a power of a number"
    elif not isinstance(node, (*SIGNS, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.List, ast.Tuple)):
        yield WORDS.get(type(node), "Python that is not arithmetic")


def _refused_call(node: ast.Call) -> Iterator[str]:
    """A listed function, by its name, with arguments of its own."""
    name = ast.unparse(node.func)
    if name not in FUNCTIONS:
        yield f"the function {name!r}" if len(name) < 40 else "a function that is not listed"
    if any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords
    ):
        yield "arguments with stars"
    for known in node.keywords:  # NumPy would write to a column, or leave what memory held
        if known.arg in ("out", "where", "_state"):
            yield f"the argument {known.arg!r}"
    for argument in [*node.args, *(k.value for k in node.keywords)]:
        if name in SPREADING and isinstance(argument, ast.Constant):
            if isinstance(argument.value, int) and argument.value > WIDEST:
                yield f"an argument above {WIDEST}"


WORDS: dict[type, str] = {ast.JoinedStr: "an f-string", ast.Subscript: "an index"}
