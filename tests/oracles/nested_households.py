"""Households of a small world, all of them, and what a nested mixture makes of them, by hand."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

RELATE = ("head", "spouse", "child", "grandchild")
AGES, TENURE = (10, 30, 50, 70), ("own", "rent")
RULES = [
    {"relate": ["head"], "age": [10]},
    {"relate": ["spouse"], "age": [10]},
    {"relate": ["spouse"], "age - head.age": [40, float("inf")]},
    {"relate": ["child"], "age - head.age": [-19, float("inf")]},
    {"relate": ["grandchild"], "age": [50, 70]},
    {"relate": ["grandchild"], "head.age": [10, 30]},
    {"relate": ["grandchild"], "spouse.age": [30]},
    {"tenure": ["rent"], "head.age": [70]},
]


def possible(household: Any) -> bool:
    """The rules in Python: household is (tenure, head's age, ((relation, age), ...))."""
    tenure, head, members = household
    partners = [age for relation, age in members if relation == "spouse"]
    if head == 10 or len(partners) > 1 or (tenure == "rent" and head == 70):
        return False
    for relation, age in members:
        if relation == "spouse" and (age == 10 or age - head >= 40):
            return False
        if relation == "child" and age - head >= -19:
            return False
        if relation == "grandchild" and (age >= 50 or head <= 30 or 30 in partners):
            return False
    return True


def every(size: int) -> list[Any]:
    """All households of so many persons."""
    cells = list(product(RELATE[1:], AGES))
    return [
        (tenure, head, members)
        for tenure, head in product(TENURE, AGES)
        for members in product(cells, repeat=size - 1)
    ]


def table(households: list[Any]) -> pd.DataFrame:
    """One row a person."""
    rows = [
        (i, tenure, relation, age)
        for i, (tenure, head, members) in enumerate(households)
        for relation, age in (("head", head), *members)
    ]
    made = pd.DataFrame(rows, columns=["hid", "tenure", "relate", "age"])
    categories = {"tenure": TENURE, "relate": RELATE, "age": AGES}
    return made.assign(**{c: pd.Categorical(made[c], v) for c, v in categories.items()})


def probability(household: Any, theta: Any, size: int) -> float:
    """p(household | theta) before the rules; ``size``: place of its number of persons."""
    tenure, head, members = household
    total = 0.0
    for g in range(theta.pi.shape[1]):
        p = theta.pi[size, g]
        p *= theta.lam[TENURE.index(tenure), g] * theta.lam[2 + AGES.index(head), g]
        for relation, age in members:
            r, a = RELATE.index(relation) - 1, 3 + AGES.index(age)
            p *= sum(
                theta.omega[g, m] * theta.phi[r, g, m] * theta.phi[a, g, m]
                for m in range(theta.omega.shape[1])
            )
        total += p
    return total


def mass(size: int, theta: Any, s: int, with_rules: bool) -> float:
    """Sum of the probabilities of all possible households of a size, one after another."""
    cells, total = list(product(RELATE[1:], AGES)), 0.0
    psi = np.array(
        [
            (theta.omega * theta.phi[RELATE.index(r) - 1] * theta.phi[3 + AGES.index(a)]).sum(
                axis=1
            )
            for r, a in cells
        ]
    )
    for t, b in product(range(len(TENURE)), range(len(AGES))):
        own = theta.pi[s] * theta.lam[t] * theta.lam[2 + b]
        for chosen in product(range(len(cells)), repeat=size - 1):
            members = tuple(cells[c] for c in chosen)
            if with_rules:
                good = possible((TENURE[t], AGES[b], members))
            else:
                good = sum(relation == "spouse" for relation, _ in members) < 2
            if good:
                total += float((own * psi[list(chosen)].prod(axis=0)).sum())
    return total


def drawn_theta(rng: np.random.Generator, sizes: int, F: int = 2, M: int = 2) -> Any:
    """Arrays of a draw of the prior, uniform."""
    from bayes_risk.models.nested.masses import Theta

    def shares(d: int, *shape: int) -> Any:
        return np.moveaxis(rng.dirichlet(np.ones(d), shape), -1, 0)

    return Theta(
        rng.dirichlet(np.ones(F), sizes),
        np.concatenate([shares(2, F), shares(4, F)]),
        rng.dirichlet(np.ones(M), F),
        np.concatenate([shares(3, F, M), shares(4, F, M)]),
    )
