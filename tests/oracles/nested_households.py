"""Households of a small world, all of them, and what a nested mixture makes of them, by hand."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaln, gammaln, logsumexp
from scipy.stats import gamma

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


def possible(household: Any, of_tenure: bool = True) -> bool:
    """The rules in Python; household is (tenure, head's age, ((relation, age), ...))."""
    tenure, head, members = household
    partners = [age for relation, age in members if relation == "spouse"]
    if head == 10 or len(partners) > 1 or (of_tenure and tenure == "rent" and head == 70):
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
        np.ascontiguousarray(np.concatenate([shares(2, F), shares(4, F)])),
        rng.dirichlet(np.ones(M), F),
        np.ascontiguousarray(np.concatenate([shares(3, F, M), shares(4, F, M)])),
    )


def log_marginal(households: list[Any], F: int = 2, M: int = 2) -> float:
    """log p(households) without rules: all labels summed, sticks and levels integrated out."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    alpha = gamma.ppf((nodes + 1) / 2, 0.25, scale=4.0)
    share = weights / 2
    sizes = [len(members) for _, _, members in households]
    member = [(i, *one) for i, (_, _, members) in enumerate(households) for one in members]

    @cache
    def stick(counts: tuple[int, ...]) -> Any:
        """E of the weights' powers at each concentration, by the sticks' beta integrals."""
        out = np.zeros(len(alpha))
        for k in range(len(counts) - 1):
            after = sum(counts[k + 1 :])
            out += betaln(1 + counts[k], alpha + after) - betaln(1, alpha)
        return out

    @cache
    def levels(counts: tuple[int, ...]) -> float:
        d, n = len(counts), sum(counts)
        return float(gammaln(d) - gammaln(d + n) + sum(gammaln(1 + np.array(counts))))

    def tallied(values: Any, d: int) -> tuple[int, ...]:
        return tuple(np.bincount(np.array(list(values), int), minlength=d).tolist())

    logs = []
    for G in product(range(F), repeat=len(households)):
        own, of_pi = 0.0, np.zeros(len(alpha))
        for g in range(F):
            mine = [h for h, k in zip(households, G, strict=True) if k == g]
            own += levels(tallied((TENURE.index(h[0]) for h in mine), 2))
            own += levels(tallied((AGES.index(h[1]) for h in mine), 4))
        for size in set(sizes):
            of_pi += stick(tallied((k for k, s in zip(G, sizes, strict=True) if s == size), F))
        first = own + np.log(share @ np.exp(of_pi))
        for labels in product(range(M), repeat=len(member)):
            inner, within = 0.0, np.zeros(len(alpha))
            for g in range(F):
                here = [(m, x) for m, x in zip(labels, member, strict=True) if G[x[0]] == g]
                within += stick(tallied((m for m, _ in here), M))
                for k in range(M):
                    some = [x for m, x in here if m == k]
                    inner += levels(tallied((RELATE.index(x[1]) - 1 for x in some), 3))
                    inner += levels(tallied((AGES.index(x[2]) for x in some), 4))
            logs.append(first + inner + np.log(share @ np.exp(within)))
    return float(logsumexp(logs))


class PriorDraws:
    """Draws of the prior with two classes of each kind: integrals over theta, with the rules."""

    def __init__(self, n: int, sizes: tuple[int, ...], rng: np.random.Generator) -> None:
        alpha, beta = rng.gamma(0.25, 4.0, (2, n))
        V, W = rng.beta(1, alpha[:, None], (n, len(sizes))), rng.beta(1, beta[:, None], (n, 2))
        self.pi = {s: np.stack([V[:, k], 1 - V[:, k]], 1) for k, s in enumerate(sizes)}
        omega = np.stack([W, 1 - W], axis=2)  # (n, F, M)
        tenure, head = (rng.dirichlet(np.ones(d), (n, 2)) for d in (2, 4))
        self.own = tenure[:, :, :, None] * head[:, :, None]  # (n, F, tenure, age)
        relate, age = (rng.dirichlet(np.ones(d), (n, 2, 2)) for d in (3, 4))
        self.psi = np.einsum("nfm,nfmr,nfma->nfra", omega, relate, age)
        self.log_possible = {s: np.log(self._possible(s)) for s in sizes}

    def _possible(self, size: int) -> Any:
        total = np.zeros(len(self.psi))
        for one in every(size):
            total += self.plain(one) if possible(one) else 0.0
        return total

    def plain(self, household: Any) -> Any:
        """p(household | theta) before the rules, of each draw."""
        tenure, head, members = household
        p = self.pi[1 + len(members)] * self.own[:, :, TENURE.index(tenure), AGES.index(head)]
        for relation, age in members:
            p = p * self.psi[:, :, RELATE.index(relation) - 1, AGES.index(age)]
        return p.sum(axis=1)

    def log_p(self, households: list[Any]) -> Any:
        """log p(households | theta), given sizes, of each draw."""
        return sum(np.log(self.plain(h)) - self.log_possible[1 + len(h[2])] for h in households)
