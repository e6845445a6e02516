"""Is an intruder who knows some of the records calibrated? Tables, releases and what is compared.

Theta from its prior, y from Theta, each Z^(l) from p(Z | Theta^l) with Theta^l ~ p(Theta | y). An
intruder whose prior is the model's own p(y_i | y_A) has a posterior of which the truth is one draw:
ranks are uniform, probabilities are frequencies. Records of one table depend on one another, so
every standard error is taken between tables.
"""

import itertools

import numpy as np
import pandas as pd

import bayes_risk as br
from tests.oracles.kernel_twins import categories

LEVELS, N, K = (3, 2, 3), 30, 3
CONCENTRATION = (2.0, 2.0)
KNOWS = {"all but one": "all-but-target", "half": 0.5, "none": "none"}
BINS = (0.0, 0.05, 0.15, 0.3, 1.0)


def table_from_the_prior(rng, K=K):
    """Concentration, sticks, levels, classes, records."""
    alpha = rng.gamma(CONCENTRATION[0], 1 / CONCENTRATION[1])
    V = np.append(rng.beta(1, alpha, K - 1), 1.0)
    pi = V * np.concatenate([[1.0], np.cumprod(1 - V[:-1])])
    z = rng.choice(K, N, p=pi / pi.sum())
    columns = {}
    for j, d in enumerate(LEVELS):
        phi = rng.dirichlet(np.ones(d), K)
        columns[f"x{j}"] = categories(np.array([rng.choice(d, p=phi[k]) for k in z]), d)
    return pd.DataFrame(columns)


def replicate(seed, knows, m, **options):
    """Posterior of all records over all values, shape (G, N), and which of them is true."""
    rng = np.random.default_rng(seed)
    table = table_from_the_prior(rng)
    model = br.models.DPMPM(n_classes=K, concentration_prior=CONCENTRATION)
    # releases must come from draws far apart: docs/evidence.md, releases of a short fit
    fit = model.fit(table, draws=200, tune=300, chains=2, thin=60, random_seed=rng)
    release = fit.synthesize(m, random_seed=rng)
    cells = itertools.product(*(table[c].cat.categories for c in table))
    risk = br.attribute_risk(
        fit,
        release,
        intruder=br.Intruder(knows_records=knows),
        guesses=br.Listed(pd.DataFrame(list(cells), columns=list(table))),
        prior="predictive",
        random_seed=rng,
        **options,
    )
    return np.exp(risk.log_probability)[:, risk.case], risk.truth[risk.case], rng


def ranks(p, truth, rng):
    """Posterior mass of likelier values, ties at random: uniform on (0, 1), shape (N,)."""
    mine = p[truth, np.arange(N)]
    above = (p * (p > mine + 1e-12)).sum(axis=0)
    level = (p * (np.abs(p - mine) <= 1e-12)).sum(axis=0)
    return above + rng.random(N) * level


def statistics(p, truth, rank):
    """Averages over records that are zero in expectation if the truth is a draw from p."""
    mine = p[truth, np.arange(N)]
    hit = np.arange(len(p))[:, None] == truth
    logs = np.log(np.maximum(p, 1e-300))
    out = {
        "probability of the truth": (mine - (p**2).sum(axis=0)).mean(),
        "log probability of the truth": (np.log(mine) - (p * logs).sum(axis=0)).mean(),
        "rank": rank.mean() - 0.5,
        "spread of the rank": ((rank - 0.5) ** 2 - 1 / 12).mean(),
    }
    for low, high in itertools.pairwise(BINS):
        inside = (p > low) & (p <= high)
        out[f"bin up to {high}"] = ((hit - p) * inside).sum(axis=0).mean()
    return out


def calibration(knows, m, n_tables, **options):
    """Mean and standard error of every statistic over tables; ranks (n_tables, N)."""
    rows, u = [], []
    for r in range(n_tables):
        p, truth, rng = replicate([m, r], knows, m, **options)
        u.append(ranks(p, truth, rng))
        rows.append(statistics(p, truth, u[-1]))
    table = pd.DataFrame(rows)
    found = pd.DataFrame({"mean": table.mean(), "error": table.std() / np.sqrt(n_tables)})
    return found.assign(z=found["mean"] / found["error"]), np.array(u)
