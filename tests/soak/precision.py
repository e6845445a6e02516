"""The same study with every number of single precision kept in double precision.

Deviations between batches of draws and walks through full tables are kept in single precision.
Where their modules take ``float32`` from NumPy, they are given ``float64``. Trees are left out:
there scikit-learn compares in single precision, and `check_descent` compares with that.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import bayes_risk as br

EPS = float(np.finfo(np.float32).eps)
OURS = (
    "bayes_risk.utilities",
    "bayes_risk.models.trees.tree",
    "bayes_risk.models.trees.forest_trees",
)


class Doubled:
    """NumPy, in which single precision is double precision."""

    float32 = np.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def modules() -> list[Any]:
    """Loaded modules that keep numbers in single precision by their own choice."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.startswith("bayes_risk.") and not name.startswith(OURS) and file:
            if "np.float32" in Path(file).read_text(encoding="utf-8") and hasattr(module, "np"):
                found.append(module)
    return found


@contextmanager
def doubled() -> Iterator[None]:
    """Double precision throughout."""
    with ExitStack() as stack:
        for module in modules():
            stack.enter_context(mock.patch.object(module, "np", Doubled()))
        yield


def check_attribute(single: br.AttributeEvidence, double: br.AttributeEvidence) -> None:
    """The same evidence to the bit; errors to the rounding of the deviations they come from."""
    assert single.found.log_evidence.tobytes() == double.found.log_evidence.tobytes()
    assert single.found.deviations.dtype == np.float32
    assert double.found.deviations.dtype == np.float64
    size = np.abs(double.found.deviations).max(axis=(0, 1))  # shape (G, U)
    F = len(double.found.deviations)
    raw = size + size.max(axis=0)  # before the truth's deviation was taken off
    moved = np.abs(single.found.mcse() - double.found.mcse())
    # a deviation is a difference of log evidence, whose own rounding double precision keeps
    own = 8 * F * np.finfo(float).eps * (1 + np.abs(double.found.log_evidence).max())
    assert (moved <= 8 * F * EPS * raw + EPS * double.found.mcse() + own).all()


def check_full_table(single: br.FullTableRisk, double: br.FullTableRisk) -> None:
    """Log probabilities to single precision, ranks where no two values are nearly tied."""
    one, other = single.records, double.records
    for name in ("probability", "prior", "within_1", "within_2", "best", "mcse"):
        a, b = one[name].to_numpy(), other[name].to_numpy()
        assert np.allclose(a, b, rtol=1e-3, atol=1e-6), (name, a, b)
    assert np.allclose(one["entropy"], other["entropy"], rtol=1e-3, atol=1e-5)
    assert (one["reliable"] == other["reliable"]).all()


def check_membership(single: br.Membership, double: br.Membership) -> None:
    """Bayes factors to the bit; errors to rounding."""
    assert single.log_bayes_factor.tobytes() == double.log_bayes_factor.tobytes()
    assert np.allclose(single.mcse, double.mcse, rtol=1e-3, atol=1e-5, equal_nan=True)
    assert (single.reliable == double.reliable).all()


def check_descent(fit: Any) -> None:
    """Every record comes to the leaf in which scikit-learn, in single precision, has put it."""
    for tree in fit.trees:
        leaf = tree.leaf(fit.microdata.codes)
        for k in np.flatnonzero(tree.left < 0):
            assert (leaf[tree.donors[tree.begin[k] : tree.end[k]]] == k).all()
