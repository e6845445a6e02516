"""Levels, priors, weights and draws of latent classes, made by hand as the kernels take them."""

import numpy as np

from bayes_risk.models.mixture.state import Draws, Prior, Rows

LEVELS = (3, 2, 4)
K = 3  # classes


def layout(n_classes, levels=LEVELS, level=0.8, concentration=(1.0, 1.0)):
    starts = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    return Prior(n_classes=n_classes, concentration=concentration, level=level, starts=starts)


def random_theta(rng, K, levels=LEVELS):
    pi = rng.dirichlet(np.ones(K))
    phi = [[rng.dirichlet(np.ones(d)) for d in levels] for _ in range(K)]
    rows = np.ones((sum(levels) + 1, K))
    for k in range(K):
        rows[:-1, k] = np.concatenate(phi[k])
    return pi, phi, rows


def rows_of(positions, numbers=None):
    """Rows of levels, and of counts, exposures and reals if there are any."""
    return Rows(positions, *(numbers or (np.empty((len(positions), 0)),) * 3))


def units_of(positions, *, numbers=None, power=None):
    """Distinct rows."""
    return rows_of(positions, numbers).units(power=power)


def draws_of(pi, phi):
    H, K = pi.shape
    return Draws(
        alpha=np.full(H, 0.7),
        log_left=np.zeros((H, K - 1)),
        pi=pi,
        phi=phi,
        n_occupied=np.zeros(H, np.int64),
        n_chains=1,
    )
