"""The evidence of forests by hand: nothing but loops over the structure, on small tables."""

from functools import cache

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.evidence.contract import Targets
from tests.helpers import fits

CHAINS = ["all-others", "earlier-only"]
VOTES = ["all", "out-of-bag"]
MASK = np.arange(24) % 4 > 0


def table(n=24, seed=0):
    """Three categories (one with a level that no record has) and a number."""
    rng = np.random.default_rng(seed)
    a = rng.integers(3, size=n)
    b = (a + rng.integers(2, size=n)) % 2
    c = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])
    return pd.DataFrame(
        {
            "a": pd.Categorical.from_codes(a, list("xyz")),
            "b": pd.Categorical.from_codes(b, ["no", "yes"]),
            "c": pd.Categorical.from_codes(c, list("pqrst")),  # no record has "t"
            "number": np.round(rng.normal(size=n) + a, 1),
        },
        index=[f"r{i}" for i in range(n)],
    )


def targets_of(fit, release, rows, guesses=None):
    """Targets, one for each row, as an audit would have them; all combinations by default."""
    data = fit.microdata
    columns = np.array([data.columns.index(c) for c in release.synthesized])
    profiles = data.codes[rows]
    guesses = guesses or br.Neighbourhood(len(columns))
    return Targets(
        profiles=profiles,
        record=np.asarray(rows),
        columns=columns,
        guesses=guesses.of(data, profiles, columns),
    )


def evidence(fit, release, targets, how="exact"):
    rng = np.random.default_rng(0)
    found = fit.closed_form(how, fits.encoded(fit, release), targets, rng=rng, progress=None)
    return found.log_p


@cache
def path(trees, t, x):
    """Nodes from the root to the leaf; x is a tuple."""
    first, node, nodes = trees.start[t], 0, [0]
    while trees.feature[first + node] >= 0:
        f = trees.feature[first + node]
        node = node + 1 if x[f] <= trees.threshold[first + node] else trees.right[first + node]
        nodes.append(int(node))
    return np.array(nodes)


def encoded(trees, codes):
    return list(map(tuple, trees.encoded(codes[trees.rows]).tolist()))


def relabelled(trees, genuine):
    """Level that every node of every tree would vote for, given genuine values; shape (nodes,)."""
    X, y = encoded(trees, genuine), genuine[trees.rows, trees.column].astype(int)
    labels = []
    for t in range(len(trees)):
        held = np.zeros((trees.start[t + 1] - trees.start[t], trees.K))
        for x, v, b in zip(X, y, trees.bags[t], strict=True):
            if b:
                held[path(trees, t, x), v] += b
        labels.append(np.where(held.any(axis=1), held.argmax(axis=1), -1))
    return labels


def votes_by_hand(trees, labels, rows, out_of_bag):
    """Votes (r, K) for rows; a node without a record (-1) leaves it to the one above."""
    shown = encoded(trees, rows)
    votes = np.zeros((len(shown), trees.K), dtype=int)
    for t in range(len(trees)):
        for k, x in enumerate(shown):
            if not (out_of_bag and trees.bags[t, k]):
                above = labels[t][path(trees, t, x)]
                votes[k, above[above >= 0][-1]] += 1
    return votes


def log_p_by_hand(fit, release, genuine):
    """log p(Z^(l) | y) of a whole table given the structure, shape (m,)."""
    a, total = fit.model.dirichlet, np.zeros(release.m)
    tables, z = [genuine.copy() for _ in range(release.m)], release.codes(fit.microdata)
    for trees in fit.forests:
        if fit.microdata.columns[trees.column] not in release.synthesized:
            continue
        labels = relabelled(trees, genuine)
        for l, rows in enumerate(tables):
            votes = votes_by_hand(trees, labels, rows, fit.model.votes == "out-of-bag")
            share = (votes + a) / (votes + a).sum(axis=1, keepdims=True)
            released = z[l][trees.rows, trees.column].astype(int)
            with np.errstate(divide="ignore"):
                total[l] += np.log(share[np.arange(len(share)), released]).sum()
            rows[trees.rows, trees.column] = released
    return total


def evidence_by_hand(fit, release, targets):
    """Relative to the truth, shape (m, G, U)."""
    out = np.empty((release.m, *targets.guesses.codes.shape[:2]))
    for u, record in enumerate(targets.record):
        for g, guess in enumerate(targets.guesses.codes[:, u]):
            genuine = fit.microdata.codes.copy()
            genuine[record, targets.columns] = guess
            out[:, g, u] = log_p_by_hand(fit, release, genuine)
        out[:, :, u] -= log_p_by_hand(fit, release, fit.microdata.codes)[:, None]
    return out


def check(fit, release, targets):
    found, wanted = evidence(fit, release, targets), evidence_by_hand(fit, release, targets)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)
    return found
