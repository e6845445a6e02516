"""Formulas: read, and kept from being programs.

formulaic hands what stands in a formula to Python. So a formula is taken apart first, and stops
here unless all of it is arithmetic on columns and calls of listed functions.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

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


def parse(response: str, formula: str) -> Any:
    """The formula's right-hand side, formulaic's own object; nothing of it was evaluated.

    Parameters
    ----------
    response : str
        The column that it is of, for messages.
    formula : str

    Returns
    -------
    formulaic.SimpleFormula

    Raises
    ------
    InputError
        A formula that cannot be read; with a left-hand side; with anything but columns, numbers,
        signs and listed functions.
    """
    from formulaic import Formula, SimpleFormula

    told = f"the formula of {response!r}, {formula!r},"
    if not isinstance(formula, str):
        raise InputError(f"{told} cannot be read; give text: '1 + x'")
    _check_size(formula, f"the formula of {response!r}")
    try:
        parsed = Formula(formula)
    except Exception as error:  # its text is made of the formula alone
        raise InputError(f"{told} cannot be read: {error}") from None
    if not isinstance(parsed, SimpleFormula):
        raise InputError(
            f"{told} has a left-hand side or several parts; "
            f'give one right-hand side alone: {{"{response}": "1 + ..."}}'
        )
    for factor in (factor for term in parsed for factor in term.factors):
        if factor.eval_method.value == "python":
            _check_term(str(factor.expr), response)
    return parsed


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


def _check_term(term: str, response: str) -> None:
    """Stop unless a term that Python would evaluate is arithmetic and listed functions."""
    try:
        parsed = ast.parse(_without_backticks(term), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise InputError(
            f"term {term!r} of the formula of {response!r} cannot be read; check its brackets"
        ) from None
    wrong = next(_refused(parsed), None)
    if wrong is not None:
        raise InputError(
            f"term {term!r} of the formula of {response!r} has {wrong}; formulas know columns, "
            f"numbers, signs, and {SHOWN}: compute anything else as a column of the table "
            "beforehand, and name that"
        )


def _without_backticks(term: str) -> str:
    """Names in backticks as plain ones, as formulaic takes them."""
    return re.sub(r"`([^`]*)`", lambda m: m[1] if m[1].isidentifier() else "_quoted", term)


def _refused(node: ast.AST) -> Iterator[str]:
    """What is not allowed in an expression, in words."""
    if isinstance(node, ast.Call):
        yield from _refused_call(node)
        return
    if isinstance(node, ast.Attribute) and ast.unparse(node) in CONTRASTS:
        return
    if isinstance(node, ast.Name) and node.id.startswith("__"):
        yield f"the name {node.id!r}"
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, int | float | str | bool | None):
            yield f"a {type(node.value).__name__}"
    elif isinstance(node, ast.BinOp):
        yield from _refused_arithmetic(node)
    elif not isinstance(node, ast.Name | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.List):
        if not isinstance(node, (*SIGNS, ast.Tuple)):
            yield WORDS.get(type(node), "Python that is no arithmetic")
    for child in ast.iter_child_nodes(node):
        yield from _refused(child)


def _refused_call(node: ast.Call) -> Iterator[str]:
    """A listed function, by its name, with arguments of its own."""
    name = ast.unparse(node.func)
    if name not in FUNCTIONS:
        yield f"the function {name!r}" if len(name) < 40 else "a function that is not listed"
    if any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords
    ):
        yield "arguments with stars"
    for argument in [*node.args, *(k.value for k in node.keywords)]:
        yield from _refused(argument)
        if name in SPREADING and isinstance(argument, ast.Constant):
            if isinstance(argument.value, int) and argument.value > WIDEST:
                yield f"an argument above {WIDEST}"


def _refused_arithmetic(node: ast.BinOp) -> Iterator[str]:
    """No text or list is multiplied, and no number raised: 9**9**9 would never end."""
    sides = (node.left, node.right)
    if any(isinstance(s, ast.List | ast.Tuple) or _is_text(s) for s in sides):
        yield "arithmetic on text or lists"
    if isinstance(node.op, ast.Pow) and not any(isinstance(x, ast.Name) for x in ast.walk(node)):
        yield "a power of a number"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


WORDS: dict[type, str] = {
    ast.Attribute: "an attribute",
    ast.Lambda: "a lambda",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.JoinedStr: "an f-string",
    ast.NamedExpr: "an assignment",
    ast.Subscript: "an index",
    ast.IfExp: "a condition",
}
