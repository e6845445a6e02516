"""Several releases of Poisson regressions and an intruder who knows some records: imputation.

For each regression on published predictors chains over the unknown counts and the coefficients of
each data set. Coefficients are integrated out of p(y) = prod_i 1 / y_i! I(t), t = sum_i x_i y_i,
with psi = log I by Laplace's approximation and the next term of the series: `docs/regression.md`.

``design``: distinct rows X (n, k), how many there are of each w (n,), prior centre and precision
(k,). Of a release's rows w counts once more; data sets differ in t alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.batches import batch_of_draws
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Targets

from .imputed import RowsPredictive
from .kernels import TINY, invert_root, lower_root, product
from .part import Part
from .posterior import SampledPart

NEWTON = 100
CLOSE = 1e-11  # squared Newton decrement
NU = 6.0  # degrees of freedom of proposals
TRIES = 2
LARGEST_ETA = 30.0  # proposals beyond exp of this are not made
NEAR = 0.1  # change of the linear predictor up to which its cumulants serve
LOG_NOTHING = -14.0


@numba.njit(cache=True, nogil=True)
def log_posterior(design, t, beta, mu):
    """t'b - sum of means - prior; means are filled in, with their multiplicity."""
    X, w, centre, precision = design
    out, k = 0.0, X.shape[1]
    for a in range(k):
        out += t[a] * beta[a] - 0.5 * precision[a] * (beta[a] - centre[a]) ** 2
    for u in range(X.shape[0]):
        eta = 0.0
        for a in range(k):
            eta += X[u, a] * beta[a]
        mu[u] = w[u] * math.exp(min(eta, 700.0))
        out -= mu[u]
    return out


@numba.njit(cache=True, nogil=True)
def slope(design, t, beta, mu, gradient, H):
    """Gradient and curvature, given the means."""
    X, _, centre, precision = design
    k = X.shape[1]
    gradient[:], H[:] = t - precision * (beta - centre), np.diag(precision)
    for u in range(X.shape[0]):
        for a in range(k):
            part = mu[u] * X[u, a]
            gradient[a] -= part
            for b in range(a + 1):
                H[a, b] += part * X[u, b]
    for a in range(k):
        for b in range(a):
            H[b, a] = H[a, b]


@numba.njit(cache=True, nogil=True)
def invert(H, root, V):
    """Lower root of H and its inverse; returns the log of its determinant."""
    k, log_det = H.shape[0], 0.0
    root[:] = H
    lower_root(root, -np.inf)
    for a in range(k):
        log_det += 2.0 * math.log(root[a, a])
    invert_root(root, V)  # V's lower half, of which the product takes the place
    for a in range(k):
        for b in range(a, k):
            total = 0.0
            for c in range(b, k):
                total += V[c, a] * V[c, b]
            V[a, b] = total
    for a in range(k):
        for b in range(a):
            V[a, b] = V[b, a]
    return log_det


@numba.njit(cache=True, nogil=True)
def mode(design, t, beta, mu, V):
    """Move beta to the mode, fill V with the inverse curvature; log of Laplace's integral."""
    k = beta.shape[0]
    gradient, new, fresh = np.empty(k), np.empty(k), np.empty(mu.shape[0])
    H, root, step = np.empty((k, k)), np.zeros((k, k)), np.empty(k)
    value, log_det = log_posterior(design, t, beta, mu), 0.0
    for _ in range(NEWTON):
        slope(design, t, beta, mu, gradient, H)
        log_det = invert(H, root, V)
        if not product(V, gradient, step) > CLOSE:
            break
        size = 1.0
        while True:
            new[:] = beta + size * step
            then = log_posterior(design, t, new, fresh)
            if then >= value or size < 1e-6:
                break
            size *= 0.5
        beta[:], mu[:], value = new, fresh, then
    return value - 0.5 * log_det


@numba.njit(cache=True, nogil=True)
def log_series(X, mu, V, T, tau, R):
    """What the next term of the series adds to the log of Laplace's integral.

    Fills in third derivatives T, tau = T:V and R = fourth derivatives:V.
    """
    k, fourth = X.shape[1], 0.0
    T[:], tau[:], R[:] = 0.0, 0.0, 0.0
    for u in range(X.shape[0]):
        h = 0.0
        for a in range(k):
            for b in range(k):
                h += X[u, a] * V[a, b] * X[u, b]
        fourth += mu[u] * h * h
        for a in range(k):
            one = mu[u] * X[u, a]
            tau[a] += one * h
            for b in range(a + 1):
                two = one * X[u, b]
                R[a, b] += two * h
                for c in range(b + 1):
                    T[a, b, c] += two * X[u, c]
    for a in range(k):
        for b in range(a + 1):
            R[b, a] = R[a, b]
            for c in range(b + 1):
                x = T[a, b, c]
                T[a, c, b], T[b, a, c], T[b, c, a], T[c, a, b], T[c, b, a] = x, x, x, x, x
    turned = np.empty((k, k))
    out = product(V, tau, np.empty(k)) / 8.0 - fourth / 8.0
    for a in range(k):  # sum of T_abc T_def V_ad V_be V_cf
        for b in range(k):
            for c in range(k):
                turned[b, c] = 0.0
                for d in range(k):
                    turned[b, c] += V[a, d] * T[d, b, c]
        for b in range(k):
            for c in range(k):
                total = 0.0
                for d in range(k):
                    for e in range(k):
                        total += V[b, d] * turned[d, e] * V[c, e]
                out += total * T[a, b, c] / 12.0
    return out


@numba.njit(cache=True, nogil=True)
def psi(design, t, beta, V):
    """log I(t), up to a constant; beta starts near the mode and is moved there."""
    k, mu = beta.shape[0], np.empty(design[0].shape[0])
    value = mode(design, t, beta, mu, V)
    return value + log_series(design[0], mu, V, np.empty((k, k, k)), np.empty(k), np.empty((k, k)))


@numba.njit(cache=True, nogil=True)
def cumulants(design, t, beta, V, mean, C, T):
    """psi, its gradient `mean`, second derivatives C and -third derivatives at V's ends, T."""
    k = beta.shape[0]
    mu, tau, R = np.empty(design[0].shape[0]), np.empty(k), np.empty((k, k))
    value = mode(design, t, beta, mu, V) + log_series(design[0], mu, V, T, tau, R)
    pull, inner = V @ tau, -R
    for a in range(k):
        Ta = np.ascontiguousarray(T[a])
        inner[a] += Ta @ pull
        both = V @ Ta @ V
        for b in range(k):
            inner[a, b] += (both * T[b]).sum()
    mean[:] = beta - 0.5 * pull
    C[:] = V + 0.5 * (V @ inner @ V)
    return value


@numba.njit(cache=True, nogil=True)
def draw_coefficients(rng, design, t, centre, beta):
    """Metropolis draws of coefficients from around the mode, proposals a Student t's."""
    k, mu = beta.shape[0], np.empty(design[0].shape[0])
    V, new = np.empty((k, k)), np.empty(k)
    mode(design, t, centre, mu, V)
    root, H = np.linalg.cholesky(V), np.linalg.inv(V)
    gap = beta - centre
    now = log_posterior(design, t, beta, mu) + 0.5 * (NU + k) * math.log1p(gap @ (H @ gap) / NU)
    for _ in range(TRIES):
        scale = math.sqrt(NU / (2.0 * rng.standard_gamma(0.5 * NU)))
        for a in range(k):
            new[a] = scale * rng.standard_normal()
        new[:] = centre + root @ new
        gap = new - centre
        then = log_posterior(design, t, new, mu)
        then += 0.5 * (NU + k) * math.log1p(gap @ (H @ gap) / NU)
        if math.log(max(rng.random(), TINY)) < then - now:
            beta[:], now = new, then


@numba.njit(cache=True, nogil=True)
def sweep(rng, designs, totals, x, n_blocks, y, beta, centres):
    """Coefficients of every data set, then all unknown rows once.

    ``designs``: of the table, and with a release. ``totals[m + 1, k]``: t of the known rows, of
    these with each data set last. ``x[R, k]`` and ``y[R]`` are the unknown rows, ``centres`` modes
    from which to start.
    """
    (m, k), R = beta.shape, x.shape[0]
    of_rows, middle, D = np.zeros(k), np.zeros(k), np.empty(k)
    for i in range(R):
        of_rows += x[i] * y[i]
    for l in range(m):
        draw_coefficients(rng, designs[1], totals[l + 1] + of_rows, centres[l + 1], beta[l])
        middle += beta[l] / m
    order, new = np.arange(R), np.empty(R)
    for i in range(R - 1, 0, -1):  # any order, all alike
        j = int(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]
    V, V_then, mode_then = np.empty((k, k)), np.empty((k, k)), centres[0].copy()
    t = totals[0] + of_rows
    now = psi(designs[0], t, centres[0], V)
    for c in range(n_blocks):
        block = order[c * R // n_blocks : (c + 1) * R // n_blocks]
        D[:] = 0.0
        for i in block:
            eta = 0.0
            for a in range(k):
                eta += x[i, a] * middle[a]
            new[i] = rng.poisson(math.exp(min(eta, LARGEST_ETA)))
            D += x[i] * (new[i] - y[i])
        mode_then[:] = centres[0] + V @ D
        then = psi(designs[0], t + D, mode_then, V_then)
        if math.log(max(rng.random(), TINY)) < (m - 1) * (D @ middle - then + now):
            t += D
            now, centres[0], V[:] = then, mode_then, V_then
            for i in block:
                y[i] = new[i]


@numba.njit(cache=True, nogil=True)
def log_g(y, now, at):
    """log g(y), up to what y does not change: -log y! and the change of all psi from y = now.

    Along a series where y is near, else by new modes, the sum over data sets of powers times
    psi(t + x (y - now)) - psi(t).
    """
    designs, (ts, points, Vs, values), powers, x, (b1, b2, b3, leverage), (start, t, V) = at
    by, moved = y - now, 0.0
    if abs(by) * leverage <= NEAR:
        return by * (b1 + by * (b2 / 2.0 + by * b3 / 6.0)) - math.lgamma(y + 1.0)
    for s in range(powers.shape[0]):
        v = product(Vs[s], x, start)
        size = math.log1p(max(by * v, -0.95)) / v  # where the mode of a lone coefficient is
        start[:], t[:] = points[s] + size * start, ts[s] + by * x
        moved += powers[s] * (psi(designs[min(s, 1)], t, start, V) - values[s])
    return moved - math.lgamma(y + 1.0)


@numba.njit(cache=True, nogil=True)
def series_of(powers, mean, C, V, T, x):
    """First three derivatives of sum of powers times psi along x, and the leverage over a mean."""
    k, b1, b2, b3 = x.shape[0], 0.0, 0.0, 0.0
    for s in range(powers.shape[0]):
        b1 += powers[s] * (x @ mean[s])
        b2 += powers[s] * (x @ (C[s] @ x))
        along = V[s] @ x
        cubic = 0.0
        for a in range(k):
            for b in range(k):
                for c in range(k):
                    cubic += T[s, a, b, c] * along[a] * along[b] * along[c]
        b3 -= powers[s] * cubic
    return b1, b2, b3, x @ (V[0] @ x)


@numba.njit(cache=True, nogil=True)
def log_normaliser(now, at):
    """log sum over y = 0, 1, .. of g(y); every so many counts where g is wide."""
    b1, b2, _, _ = at[4]
    centre = math.exp(min(b1, LARGEST_ETA))
    spread = math.sqrt(centre + max(b2, 0.0) * centre * centre)
    stride = max(1.0, math.floor(spread / 4.0))
    first = float(math.floor(centre))
    top = log_g(first, now, at)
    total, best = 1.0, top
    for side in range(2):
        y, last = first, top
        while True:
            y += stride if side == 0 else -stride
            if y < 0.0:
                break
            found = log_g(y, now, at)
            total += math.exp(found - top)
            best = max(best, found)
            if not (found > best + LOG_NOTHING or found > last):
                break
            last = found
    return top + math.log(total * stride)


@numba.njit(cache=True, nogil=True)
def fill_tables(designs, totals, x, y, centre, tables):
    """Modes, psi and its derivatives of every draw's table, alone and with each data set."""
    ts, points, Vs, values, mean, C, T = tables
    beta = centre.copy()
    for h in range(y.shape[0]):
        for s in range(totals.shape[0]):
            ts[h, s] = totals[s]
            for i in range(x.shape[0]):
                ts[h, s] += x[i] * y[h, i]
            if h > 0:
                beta[:] = points[h - 1, s]
            values[h, s] = cumulants(
                designs[min(s, 1)], ts[h, s], beta, Vs[h, s], mean[h, s], C[h, s], T[h, s]
            )  # fmt: skip
            points[h, s] = beta


@numba.njit(cache=True, nogil=True)
def predict(designs, tables, powers, x, now, asked, normed, out, norm):
    """out[h, g, u] = log g of asked counts (G, U), -1: none; norm[h, u] its normaliser's log."""
    ts, points, Vs, values, mean, C, T = tables
    (H, G, U), k = out.shape, x.shape[1]
    work = (np.empty(k), np.empty(k), np.empty((k, k)))
    for h in range(H):
        here = (ts[h], points[h], Vs[h], values[h])
        for u in range(U):
            series = series_of(powers, mean[h], C[h], Vs[h], T[h], x[u])
            at = (designs, here, powers, x[u], series, work)
            for g in range(G):
                out[h, g, u] = -np.inf
                if asked[g, u] >= 0.0:
                    out[h, g, u] = log_g(asked[g, u], now[h, u], at)
            if normed:
                norm[h, u] = log_normaliser(now[h, u], at)


WARM_UP = 100
# Unknown counts (n_U,), coefficients of each data set (m, k), modes to start from (m + 1, k)
State = tuple[Array, Array, Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnknownCounts:
    """One regression: what its chains work on, in standardised predictors."""

    part: Part
    # of the table, and with a data set: distinct rows (u, k), how many there are of each (u,),
    # prior centre and precision (k,)
    designs: tuple[tuple[Array, Array, Array, Array], ...]
    totals: Array  # shape (m + 1, k): sum of x y over the known rows; over these and each data set
    rows: Array  # shape (n, k): predictors of all records
    seen: Flags  # shape (n,)
    starts: Array  # shape (m, n_U): counts of the unknown records in each data set

    @classmethod
    def of(
        cls, whole: SampledPart, seen: Flags, replaced: Flags, tables: Sequence[Codes]
    ) -> "UnknownCounts":
        """Regression of all records; ``tables`` of released rows."""
        part, X = whole.part, whole.rows.X
        z = np.stack([codes[:, part.column].astype(float) for codes in tables])
        distinct, which = np.unique(X, axis=0, return_inverse=True)
        table = np.bincount(which.reshape(-1), minlength=len(distinct)).astype(float)
        released = np.bincount(which.reshape(-1)[replaced], minlength=len(distinct))
        prior = part.centre(), part.scales() ** -2.0
        known = X[seen].T @ whole.rows.y[seen]
        return cls(
            part=part,
            designs=((distinct, table, *prior), (distinct, table + released, *prior)),
            totals=np.vstack([known, known + z @ X[replaced]]),
            rows=X,
            seen=seen,
            starts=z[:, ~seen[replaced]],
        )

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.starts)

    @property
    def x(self) -> Array:
        """Predictors of the unknown records, (n_U, k)."""
        return np.ascontiguousarray(self.rows[~self.seen])

    @property
    def n_blocks(self) -> int:
        """Of unknown rows, each taken or left as a whole, most of them taken."""
        R, k = self.x.shape
        return int(min(R, k * (self.m - 1) ** 2))

    def start(self, c: int) -> State:
        """Unknown counts as data set c shows them, coefficients at their prior's centre."""
        centre = self.designs[0][2]
        one = self.starts[c % self.m]
        return one, np.tile(centre, (self.m, 1)), np.tile(centre, (self.m + 1, 1))

    def sweep(self, state: State, rng: np.random.Generator) -> None:
        """All coefficients, then all unknown counts; about (m + k (m - 1)^2) modes."""
        if state[0].size:
            sweep(rng, self.designs, self.totals, self.x, self.n_blocks, *state)

    def drawn(self, state: State) -> Array:
        """Counts as they are."""
        return state[0].copy()

    def concerns(self, guessed: set[int]) -> bool:
        """Regressions are independent of one another."""
        return self.part.column in guessed

    def predictive(self, draws: list[Array], n_chains: int, targets: Targets) -> "CountsPredictive":
        """Integrate the coefficients out of every draw."""
        y, column = np.stack(draws), self.part.column
        H, S, k = len(y), self.m + 1, self.rows.shape[1]
        shapes: list[tuple[int, ...]] = [(k,), (k,), (k, k), (), (k,), (k, k), (k, k, k)]
        tables = tuple(np.empty((H, S, *shape)) for shape in shapes)
        fill_tables(self.designs, self.totals, self.x, y, self.designs[0][2], tables)
        known, place = self.seen[targets.record], np.cumsum(~self.seen) - 1
        now = np.repeat(targets.profiles[None, :, column].astype(float), H, axis=0)
        now[:, ~known] = y[:, place[targets.record[~known]]]
        batch = batch_of_draws(H, n_chains)
        how: Any = {"targets": targets, "batch": batch, "now": now, "tables": tables}
        return CountsPredictive(unknown=self, parts=[self.part], **how)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountsPredictive(RowsPredictive):
    """Of one Poisson regression."""

    # shape (H, U): count that stands in the table for the target: its own where known, else as
    # imputed
    now: Array
    # of each draw's table, alone and with each data set: t (H, m + 1, k), modes, inverse
    # curvatures, psi, its first, second and (turned) third derivatives
    tables: tuple[Array, ...]

    def _masses(
        self, block: slice, guesses: Sequence[Codes], *, normed: bool
    ) -> tuple[list[Array], Array]:
        asked = guesses[0][:, :, self.unknown.part.column].astype(float)  # shape (G, U)
        possible = (asked >= 0) & (asked == np.floor(asked))
        x = np.ascontiguousarray(self.unknown.rows[self.targets.record[block]])
        (H, _), (G, U), m = self.now.shape, asked.shape, self.unknown.m
        out, norm = np.empty((H, G, U)), np.zeros((H, U))
        powers: Any = np.array([1.0 - m] + [1.0] * m)
        now, wanted = np.ascontiguousarray(self.now[:, block]), np.where(possible, asked, -1.0)
        predict(self.unknown.designs, self.tables, powers, x, now, wanted, normed, out, norm)
        return [out], norm
