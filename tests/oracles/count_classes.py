"""Mixtures of Poissons by hand: a prior, units, draws, and the collapsed predictive in NumPy."""

import functools
import itertools

import numpy as np
from scipy.special import betaln, gammaln, logsumexp

from bayes_risk.models.mixture.state import Draws, Prior, Rows, Units
from tests.oracles.label_sums import log_label_prior

LEVELS = (3, 2)  # of two covariates


def count_prior(K, shape, rate, *, zeros=None, levels=(), concentration=(1.0, 1.0), **how):
    starts = 2 * len(shape) + np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    return Prior(
        n_classes=K,
        concentration=concentration,
        shape=np.array(shape, float),
        rate=np.array(rate, float),
        inflation=zeros,
        level=0.8,
        starts=starts,
        **how,
    )


def count_units(counts, exposure=None, positions=None):
    counts = np.asarray(counts, float)
    n = len(counts)
    data = Rows(
        positions=np.zeros((n, 0), np.int32) if positions is None else positions,
        counts=counts,
        exposure=np.ones(counts.shape) if exposure is None else np.asarray(exposure, float),
        reals=np.zeros((n, 0)),
    )
    return Units(data=data, multiplicity=np.ones(n, np.int64), unit=np.arange(n))


def random_draws(rng, prior, scale, H):
    """Draws of Theta near nothing in particular."""
    K, p = prior.n_classes, prior.n_counts
    phi = np.ones((H, prior.width, K))
    phi[:, :p] = scale * rng.gamma(2.0, 0.5, (H, p, K))
    if prior.inflation is not None:
        phi[:, p : 2 * p] = rng.beta(2, 3, (H, p, K))
    for begin, end in zip(prior.starts[:-1], prior.starts[1:], strict=True):
        phi[:, begin:end] = rng.dirichlet(np.ones(end - begin), (H, K)).swapaxes(1, 2)
    return Draws(
        alpha=rng.gamma(1.0, 1.0, H),
        log_left=np.zeros((H, K - 1)),
        pi=rng.dirichlet(np.ones(K), H),
        phi=phi,
        n_occupied=np.zeros(H, np.int64),
        n_chains=2,
    )


def log_poisson(x, mean):
    return x * np.log(mean) - mean - gammaln(x + 1)


def log_gamma_poisson(x, A, B, e):
    mass = gammaln(A + x) - gammaln(A) - gammaln(x + 1)
    return mass + A * np.log(B / (B + e)) + x * np.log(e / (B + e))


def log_class_weights(n, alpha):
    """E[pi_k | labels], sticks one by one."""
    weights, rest = [], 1.0
    for k in range(len(n) - 1):
        after = n[k + 1 :].sum()
        weights.append(rest * (1 + n[k]) / (1 + alpha + n[k] + after))
        rest *= (alpha + after) / (1 + alpha + n[k] + after)
    return np.log([*weights, rest])


def predictive_by_hand(prior, units, alpha, labels, structural, i, rows):
    """log p(row | labels and zeros of the others) for rows of counts (R, p), record i left out.

    ``units`` hold every individual once. Rows are read at the exposure and covariates of record i.
    """
    K, p, others = prior.n_classes, prior.n_counts, np.arange(len(labels)) != i
    n = np.array([(others & (labels == k)).sum() for k in range(K)])
    out = np.repeat(log_class_weights(n, alpha)[None], len(rows), axis=0)
    for k in range(K):
        here = others & (labels == k)
        for j in range(p):
            e = units.data.exposure[i, j]
            if e == 0:
                continue
            alive = here & ~structural[:, j] & (units.data.exposure[:, j] > 0)
            A = prior.shape[j] + units.data.counts[alive, j].sum()
            B = prior.rate[j] + units.data.exposure[alive, j].sum()
            mass = log_gamma_poisson(rows[:, j], A, B, e)
            if prior.inflation is not None:
                zeros = (here & structural[:, j]).sum() + prior.inflation[0]
                psi = zeros / (zeros + alive.sum() + prior.inflation[1])
                mass = np.log1p(-psi) + mass
                mass = np.where(rows[:, j] == 0, np.logaddexp(np.log(psi), mass), mass)
            out[:, k] += mass
        for q, (begin, end) in enumerate(zip(prior.starts[:-1], prior.starts[1:], strict=True)):
            level = units.data.positions[:, q]
            counted = np.array([(here & (level == r)).sum() for r in range(begin, end)])
            chances = (counted + prior.level) / (counted + prior.level).sum()
            out[:, k] += np.log(chances[level[i] - begin])
    return logsumexp(out, axis=1)


def mixture_by_hand(prior, draws, h, rows, exposure, positions=None):
    """log p(row | theta_h) for rows of counts (R, p), all at the same exposure (p,)."""
    p = prior.n_counts
    out = np.repeat(np.log(draws.pi[h])[None], len(rows), axis=0)
    for j in range(p):
        mass = log_poisson(rows[:, j : j + 1], exposure[j] * draws.phi[h, j])
        if prior.inflation is not None:
            psi = draws.phi[h, p + j]
            mass = np.log1p(-psi) + mass
            mass = np.where(rows[:, j : j + 1] == 0, np.logaddexp(np.log(psi), mass), mass)
        out += mass
    for row in () if positions is None else positions:
        out += np.log(draws.phi[h, row])
    return logsumexp(out, axis=1)


def log_marginal(prior, units, exposure=None):
    """log p(data), summed over all K^N labelings and structural zeros, alpha by quadrature.

    ``units``: lists of rows of counts, the rows of a unit sharing its class; ``exposure`` of each
    row, alike shaped, by default 1 (with structural zeros: always).
    """
    columns = []
    for j in range(prior.n_counts):
        x = [[row[j] for row in rows] for rows in units]
        columns.append((x, [[1.0] * len(v) for v in x] if exposure is None else exposure))
    return log_of_columns(prior, columns)


def log_of_columns(prior, columns):
    """log p(data), by column the values and the exposures of each unit: what it shows there.

    A class is a set of units, so the marginal mass of each of the 2^N sets is asked for once.
    """
    K, N = prior.n_classes, len(columns[0][0])
    labelings, log_p = labelled(N, K, *prior.concentration)
    log_p = log_p.copy()
    sets = list(itertools.product((False, True), repeat=N))
    place = 2 ** np.arange(N)[::-1]
    for j, (x, e) in enumerate(columns):
        mass = []
        for inside in sets:
            values = tuple(float(v) for r in itertools.compress(x, inside) for v in r)
            exposures = tuple(float(v) for r in itertools.compress(e, inside) for v in r)
            mass.append(
                log_column(values, exposures, prior.shape[j], prior.rate[j], prior.inflation)
            )
        for k in range(K):
            log_p += np.array(mass)[(labelings == k) @ place]
    return logsumexp(log_p)


@functools.cache
def labelled(N, K, a, b):
    """All labelings of N units, shape (K^N, N), and the log of their prior chances."""
    labelings = np.array(list(itertools.product(range(K), repeat=N)))
    counts = np.stack([(labelings == k).sum(axis=1) for k in range(K)], axis=1)
    return labelings, log_label_prior(counts, a, b)


@functools.lru_cache(maxsize=100_000)
def log_column(x, e, shape, rate, zeros):
    """log p(counts of one class), the rate integrated out, and the chance of a structural zero.

    Values and exposures are tuples of floats: an enumeration asks for the same again and again.
    """

    def poissons(x, e):
        A, B = shape + x.sum(), rate + e.sum()
        mass = gammaln(A) - gammaln(shape) + shape * np.log(rate) - A * np.log(B)
        return mass + (x * np.log(e) - gammaln(x + 1)).sum()

    x, e = np.array(x), np.array(e)
    if zeros is None:
        return poissons(x, e)
    a, b = zeros
    order = np.argsort(-x, kind="stable")
    terms = []
    for s in range((x == 0).sum() + 1):  # so many of the zeros are structural
        kept = order[: len(x) - s]
        ways = gammaln((x == 0).sum() + 1) - gammaln(s + 1) - gammaln((x == 0).sum() - s + 1)
        chance = betaln(a + s, b + len(x) - s) - betaln(a, b)
        terms.append(ways + chance + poissons(x[kept], e[kept]))
    return logsumexp(terms)


def exact_log_evidence(prior, y, Z, i, guess, *, own=False, columns=None, exposure=None):
    """log p(Z | y_i = guess, y_-i) for one data set, fresh classes or (``own``) the records'.

    ``columns``: those synthesised; the others are kept, with classes of the records' own only.
    """
    y = np.array(y, float)
    y[i] = guess
    alone = [[row] for row in y]
    e = None if exposure is None else [[v] for v in exposure]
    if not own:
        both = alone + [[row] for row in Z]
        twice = None if e is None else e + e
        return log_marginal(prior, both, twice) - log_marginal(prior, alone, e)
    tied = [[row, z] for row, z in zip(y, Z, strict=True)]
    if e is not None:
        return log_marginal(prior, tied, [v * 2 for v in e]) - log_marginal(prior, alone, e)
    if columns is None:
        return log_marginal(prior, tied) - log_marginal(prior, alone)
    return _partly_tied(prior, y, Z, columns) - log_marginal(prior, alone)


def _partly_tied(prior, y, Z, columns):
    """log p(y, Z): kept columns show their values once."""
    shown = []
    for j in range(prior.n_counts):
        x = [[row[j], z[j]] if j in columns else [row[j]] for row, z in zip(y, Z, strict=True)]
        shown.append((x, [[1.0] * len(v) for v in x]))
    return log_of_columns(prior, shown)


BATCHES = 20


def theta_from_prior(prior, draws, rng):
    """Weights (draws, K), and by row of phi but for padding (D - 1, draws, K)."""
    (a, b), K, p = prior.concentration, prior.n_classes, prior.n_counts
    alpha = rng.gamma(a, 1 / b, draws)
    V = [rng.beta(1, np.maximum(alpha, 1e-12)) for _ in range(K - 1)]
    pi = np.stack([*V, np.ones(draws)], axis=1)
    pi[:, 1:] *= np.cumprod(1 - pi[:, :-1], axis=1)
    phi = np.zeros((prior.width - 1, draws, K))
    for j in range(p):
        phi[j] = rng.gamma(prior.shape[j], 1 / prior.rate[j], (draws, K))
        if prior.inflation is not None:
            phi[p + j] = rng.beta(*prior.inflation, (draws, K))
    for begin, end in itertools.pairwise(prior.starts):
        levels = rng.dirichlet(np.full(end - begin, prior.level), (draws, K))
        phi[begin:end] = np.moveaxis(levels, 2, 0)
    return pi, phi


def class_masses(prior, theta, counts, levels, columns, exposure):
    """pi_k p(a record's counts in these columns, and its levels | k), (draws, K)."""
    pi, phi = theta
    out = pi.copy()
    for j in columns:
        alive = np.exp(log_poisson(counts[j], exposure * phi[j]))
        psi = phi[prior.n_counts + j]
        out *= psi * (counts[j] == 0) + (1 - psi) * alive
    for row in levels:
        out *= phi[row]
    return out


def monte_carlo_log_evidence(
    prior, y, levels, releases, i, guesses, synthesized, *, exposure=None, powers=None, draws, rng
):
    """Log evidence (m, G) relative to the first guess, and its error, by draws from the prior.

    Fresh classes given the counts and levels that stay: p(z | y_us, Theta) row by row. ``powers``
    of the records in a pseudo-posterior, sum_k [pi_k f_k(y_i)]^power.
    """
    theta = theta_from_prior(prior, draws, rng)
    n, p = y.shape
    exposure, powers = (np.ones(n) if x is None else x for x in (exposure, powers))
    us = [j for j in range(p) if j not in synthesized]

    def masses(row, k, columns):
        return class_masses(prior, theta, row, levels[k], columns, exposure[k])

    made = []
    for Z in releases:
        p_z = np.ones(draws)
        for k in range(n):
            whole, part = (masses(Z[k], k, c).sum(axis=1) for c in (range(p), us))
            p_z *= np.divide(whole, part, out=np.zeros(draws), where=part > 0)
        made.append(p_z)
    alone = np.ones(draws)
    for k in range(n):
        if k != i:
            alone *= (masses(y[k], k, range(p)) ** powers[k]).sum(axis=1)
    batch, log_e = np.arange(draws) % BATCHES, []
    for guess in guesses:
        row = y[i].astype(float)
        row[list(synthesized)] = guess
        w = alone * (masses(row, i, range(p)) ** powers[i]).sum(axis=1)
        below = np.bincount(batch, w)
        above = np.stack([np.bincount(batch, w * p_z) for p_z in made])
        every = above.sum(axis=1) / below.sum()
        log_e.append(np.log(np.column_stack([above / below, every])))
    relative = np.array(log_e) - log_e[0]  # shape (G, m, batches + 1)
    error = relative[..., :-1].std(axis=-1, ddof=1) / np.sqrt(BATCHES)
    return relative[..., -1].T, error.T
