"""The leaves of a model's graph: constants and shared variables, where a table's values stand.

Also how to put symbols in their places. Leaves are told by where they enter the graph, in an order
that only the structure of the graph decides, so the leaves of two tables' models correspond.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType

SAME = 1e-9  # relative: vectorised logarithms may differ in the last digits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Leaf:
    """A constant or shared variable where it enters a graph.

    ``node``, ``slot``: which input of which node, or root number ``slot`` itself if node is -1;
    ``inner`` if it lies inside another op, where it cannot be replaced.
    """

    node: int
    slot: int
    variable: Any
    value: npt.NDArray[Any]
    inner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opened:
    """One model, its nodes in order and its leaves; ``words`` tell one structure from another."""

    roots: list[Any]
    nodes: list[Any]
    leaves: list[Leaf]
    words: list[str]

    @classmethod
    def of(cls, roots: Sequence[Any]) -> "Opened":
        """Open the graphs of some variables."""
        nodes = list(_in_order(roots))
        leaves = [
            Leaf(node=k, slot=i, variable=x, value=value)
            for k, node in enumerate(nodes)
            for i, x in enumerate(node.inputs)
            if (value := tensor_value(x)) is not None
        ]
        leaves += [
            Leaf(node=-1, slot=r, variable=x, value=value)
            for r, x in enumerate(roots)
            if (value := tensor_value(x)) is not None
        ]
        leaves += [leaf for node in nodes for leaf in _inner(node.op)]
        return cls(roots=list(roots), nodes=nodes, leaves=leaves, words=[_word(n) for n in nodes])


def _in_order(roots: Sequence[Any]) -> Iterator[Any]:
    """Nodes of a graph, inputs first, in an order that only its structure decides."""
    seen: set[int] = set()
    for root in roots:
        stack = [(root.owner, False)]
        while stack:
            node, done = stack.pop()
            if node is None or id(node) in seen:
                continue
            if done:
                seen.add(id(node))
                yield node
                continue
            stack.append((node, True))
            stack.extend((x.owner, False) for x in reversed(node.inputs))


def tensor_value(x: Any) -> npt.NDArray[Any] | None:
    """Value of a tensor constant or shared tensor; of random generators and the rest, none."""
    if not isinstance(getattr(x, "type", None), TensorType):
        return None
    if isinstance(x, Constant):
        return np.asarray(x.data)
    if isinstance(x, SharedVariable):
        return np.asarray(x.get_value(borrow=True))
    return None


def _inner(op: Any) -> Iterator[Leaf]:
    """Constants within ops that hold a graph of their own."""
    graph = getattr(op, "fgraph", None)
    for node in [] if graph is None else _in_order(graph.outputs):
        for x in node.inputs:
            if (value := tensor_value(x)) is not None:
                yield Leaf(node=-1, slot=-1, variable=x, value=value, inner=True)
        yield from _inner(node.op)


def _word(node: Any) -> str:
    """An op and its kinds of input; addresses, which differ from build to build, are left out."""
    kinds = ",".join(
        f"{getattr(x.type, 'dtype', '')}{getattr(x.type, 'ndim', '')}" for x in node.inputs
    )
    return re.sub("0x[0-9a-f]+", "", f"{node.op}({kinds})")


def with_symbols(opened: Opened, which: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """The same graph with a symbol in the place of each of the leaves: symbols, and roots."""
    data, at = [], {}
    for k in which:
        leaf = opened.leaves[k]
        kind = TensorType(leaf.value.dtype, shape=leaf.value.shape)
        data.append(kind(name=f"table_{k}"))
        at[leaf.node, leaf.slot] = data[-1]
    new = _rebuilt(opened.nodes, {}, at)
    return data, [at.get((-1, r), new.get(x, x)) for r, x in enumerate(opened.roots)]


def substituted(outputs: Sequence[Any], given: Mapping[Any, Any]) -> list[Any]:
    """The same graphs with some variables replaced, whether they occur or not."""
    new = _rebuilt(list(_in_order(outputs)), given, {})
    return [new.get(x, x) for x in outputs]


def _rebuilt(
    nodes: Sequence[Any], given: Mapping[Any, Any], at: Mapping[tuple[int, int], Any]
) -> dict[Any, Any]:
    """New variables for old: ``given`` ones, inputs ``at`` places, and all that lies behind."""
    new = dict(given)
    for k, node in enumerate(nodes):
        inputs = [at.get((k, i), new.get(x, x)) for i, x in enumerate(node.inputs)]
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            clone = node.clone_with_new_inputs(inputs, strict=False)
            for old, x in zip(node.outputs, clone.outputs, strict=True):
                new.setdefault(old, x)
    return new


def enters(leaf: Leaf, roots: Sequence[Any], opened: Opened) -> bool:
    """Whether a leaf is among the ancestors of some variables."""
    if leaf.node < 0:
        return any(opened.roots[leaf.slot] is root for root in roots)
    node = opened.nodes[leaf.node]
    return any(x.owner is node for x in ancestors(list(roots)))


def equal(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Whether values are the same, numbers but for the last digits."""
    if "f" not in (a.dtype.kind, b.dtype.kind):
        return bool(np.array_equal(a, b))
    return np.allclose(a, b, rtol=SAME, atol=0.0, equal_nan=True)


def differ(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> str:
    """The first values that differ, in words."""
    at = int(np.argmax(~np.isclose(a, b, rtol=SAME, atol=0.0, equal_nan=True)))
    return f"{a.ravel()[at]:.6g} from one table and {b.ravel()[at]:.6g} from another"
