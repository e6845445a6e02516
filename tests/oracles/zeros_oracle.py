"""Independent answers with structural zeros: quadrature over one class, draws from the prior.

Nothing here uses the library's kernels: densities over a small table are summed cell by cell, what
is impossible is set to zero, and the rest divided by its sum.
"""

import itertools

import numpy as np

Y = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0]])
Z = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0], [1, 0, 0]])
CELLS = np.array(list(itertools.product(range(2), repeat=3)))
ZERO = np.array([(c[0] and c[1]) or (c[1] and c[2]) for c in CELLS], dtype=bool)  # two rules


def cell(row):
    return int(np.ravel_multi_index(tuple(row), (2, 2, 2)))


def one_class(nodes):
    """Probabilities (H, 8) of all cells at nodes of three binary margins, and their weights."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    x, w = (x + 1) / 2, w / 2
    grid = np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1).reshape(-1, 3)
    weights = np.prod(np.stack(np.meshgrid(w, w, w, indexing="ij"), axis=-1), axis=-1).ravel()
    f = np.ones((len(grid), 8))
    for j in range(3):
        f *= np.where(CELLS[:, j] == 1, grid[:, j, None], 1 - grid[:, j, None])
    return f, weights


def from_prior(K, draws, rng, concentration=(0.5, 0.5)):
    """The same of draws from the prior of K classes; equal weights."""
    a, b = concentration
    alpha = rng.gamma(a, 1 / b, draws)
    V = np.stack([rng.beta(1, np.maximum(alpha, 1e-12)) for _ in range(K - 1)], axis=1)
    pi = np.concatenate([V, np.ones((draws, 1))], axis=1)
    pi[:, 1:] *= np.cumprod(1 - V, axis=1)
    phi = rng.random((draws, K, 3))
    f = np.zeros((draws, 8))
    for k in range(K):
        part = pi[:, k, None] * np.ones(8)
        for j in range(3):
            part = part * np.where(CELLS[:, j] == 1, phi[:, k, j, None], 1 - phi[:, k, j, None])
        f += part
    return f, np.full(draws, 1 / draws)


def possible(f):
    """p(cell | Theta): what is impossible cut off, the rest made to sum to one."""
    left = np.where(ZERO, 0.0, f)
    return left / left.sum(axis=1, keepdims=True)


def given(p, row, synthesized):
    """p(synthesised values of a row | its other values, Theta), shape (H,)."""
    us = [j for j in range(3) if j not in synthesized]
    slice_ = (CELLS[:, us] == np.array(row)[us]).all(axis=1)
    return p[:, cell(row)] / p[:, slice_].sum(axis=1)


def release_density(p, y, z, synthesized):
    """p(Z | y_us, Theta), shape (H,): synthetic rows hold their record's other values."""
    out = np.ones(len(p))
    for a, b in zip(y, z, strict=True):
        row = np.where([j in synthesized for j in range(3)], b, a)
        out *= given(p, row, synthesized)
    return out


def log_evidence(f, weights, i, guesses, synthesized):
    """log p(Z | y* , y_-i) relative to the first guess, and the error where draws are random."""
    p = possible(f)
    others = weights * np.prod([p[:, cell(y)] for j, y in enumerate(Y) if j != i], axis=0)
    seen = release_density(p, Y, Z, synthesized)
    values, influence = [], []
    for guess in guesses:
        w = others * p[:, cell(guess)]
        values.append(np.log((w * seen).sum() / w.sum()))
        influence.append(w * seen / (w * seen).sum() - w / w.sum())
    changes = np.array(influence) - influence[0]
    return np.array(values) - values[0], np.sqrt((changes**2).sum(axis=1))


def log_predictive(f, weights, i, synthesized=(), *, after=False):
    """log p(y_i | y_-i), or after a release log p(y_i,s | y_us,i, y_-i, Z), and its error."""
    p = possible(f)
    w = weights * np.prod([p[:, cell(y)] for j, y in enumerate(Y) if j != i], axis=0)
    density = p[:, cell(Y[i])]
    if after:
        w = w * release_density(p, Y, Z, synthesized)
        density = given(p, Y[i], synthesized)
        w = w * p[:, cell(Y[i])] / density  # p(y_us,i | Theta): the intruder knows these
    share = w / w.sum()
    value = (share * density).sum()
    error = np.sqrt((share**2 * (density - value) ** 2).sum())
    return np.log(value), error / value
