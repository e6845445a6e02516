"""A nested mixture as a PyMC model: classes of households and of members are summed out.

Its variables are ``concentration``, ``member_concentration``, ``stick`` (S, F - 1),
``member_stick`` (F, M - 1), and the levels of each column, of households (F, d) and of members
(F, M, d). NUTS samples it as it stands, for small tables.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_risk._compat import group
from bayes_risk._core.arrays import Ints

from .rules import Layout, Persons, Rules
from .sampler import Model, NestedDraws

NAMES = "pi", "lam", "omega", "phi"


def pymc_of_nested(model: Model, persons: Persons, *, transformed: bool) -> pm.Model:
    """The joint density of parameters and households; see `pymc_of_mixture` for ``transformed``."""
    prior, layout, rules = model
    (F, M), plain = prior[:2], {} if transformed else {"default_transform": None}
    with pm.Model() as declared:
        alpha = pm.Gamma("concentration", *prior.concentration, **plain)
        beta = pm.Gamma("member_concentration", *prior.concentration, **plain)
        log_pi = _log_weights("stick", alpha, (len(layout.sizes), F), plain)
        log_omega = _log_weights("member_stick", beta, (F, M), plain)
        levels = []
        for name, starts, shape in (
            ("levels", layout.of_household, (F,)),
            ("member_levels", layout.of_member, (F, M)),
        ):
            each = [
                pm.Dirichlet(f"{name}_{k}", np.full((*shape, end - begin), prior.level), **plain)
                for k, (begin, end) in enumerate(pairwise(starts))
            ]
            levels.append(pt.moveaxis(pt.concatenate(each, axis=-1), -1, 0))
        lam, phi = levels
        for name, value in zip(NAMES, (pt.exp(log_pi), lam, pt.exp(log_omega), phi), strict=True):
            pm.Deterministic(name, value)
        log_members = pt.log(phi)[persons.member].sum(axis=1) + log_omega
        of = np.repeat(np.arange(len(persons.size)), np.diff(persons.first))
        logs = log_pi[persons.size] + pt.log(lam)[persons.household].sum(axis=1)
        logs = pt.inc_subtensor(logs[of], _log_sum(log_members, 2))
        total = _log_sum(logs, 1).sum()
        if rules.bind:
            n = np.bincount(persons.size, minlength=len(layout.sizes))
            possible = _possible(rules, layout, pt.exp(log_pi), lam, pt.exp(log_omega), phi)
            total = total - (n * pt.log(possible)).sum()
        pm.Potential("log_likelihood", total)
    return declared


def draws_of_nested(idata: Any) -> NestedDraws:
    """ArviZ's posterior, chain after chain."""
    posterior = group(idata, "posterior")
    alpha = [posterior[name] for name in ("concentration", "member_concentration")]
    found = [posterior[name].to_numpy() for name in NAMES]
    found = [x.reshape(-1, *x.shape[2:]).astype(np.float32) for x in found]
    both = np.stack([np.ravel(x.to_numpy()) for x in alpha], axis=1)
    return NestedDraws.of([*found, both], len(alpha[0]))


def _log_sum(x: Any, axis: int) -> Any:
    top = x.max(axis=axis, keepdims=True)
    return pt.log(pt.exp(x - top).sum(axis=axis)) + top.squeeze(axis)


def _log_weights(name: str, alpha: Any, shape: tuple[int, int], plain: dict[str, Any]) -> Any:
    """Logs of weights by sticks, along the last axis."""
    rows, K = shape
    if K == 1:
        return pt.zeros(shape)
    stick = pm.Beta(name, 1.0, alpha, shape=(rows, K - 1), **plain)
    rest = pt.cumsum(pt.log1p(-stick), axis=1)
    none = pt.zeros((rows, 1))
    return pt.concatenate([none, rest], axis=1) + pt.concatenate([pt.log(stick), none], axis=1)


def _possible(rules: Rules, layout: Layout, pi: Any, lam: Any, omega: Any, phi: Any) -> Any:
    """P(possible | size), (S,), by the sum over cells of heads and partners; see `masses`."""

    def product(cells: Any, levels: Any) -> Any:
        at: Ints = cells.levels() + cells.begin
        return levels[at].prod(axis=1)  # an empty product is 1

    head = product(rules.heads, lam) * rules.head[:, None]
    psi = (product(rules.members, phi) * omega).sum(axis=2)
    fits = pt.tensordot(rules.other.astype(float), psi, 1)  # (E + 1, B, F)
    partners = [
        pt.dot((rules.spouse & (rules.of_spouse == e)).astype(float), psi)
        for e in range(1, len(rules.other))
    ]
    each = []
    for s, size in enumerate(layout.sizes):
        r = int(size) - 1
        found = fits[0] ** r
        for e, one in enumerate(partners, start=1):
            found = found + (r * one * fits[e] ** (r - 1) if r else 0.0)
        each.append((pi[s] * head * found).sum())
    return pt.stack(each)
