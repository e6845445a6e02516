"""Records that an intruder does not know, imputed, against sums over tables, labels and zeros."""

import itertools

import numpy as np
import pytest
from scipy.special import betaln, gammaln, logsumexp

from bayes_risk.evidence.contract import Targets
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.models.mixture.columns import Columns, Mechanism
from bayes_risk.models.mixture.state import Draws, Prior
from bayes_risk.models.mixture.unknown import Imputed, UnknownRecords
from bayes_risk.models.mixture.unknown_kernels import log_power_of_mean
from tests.oracles.label_sums import every_labeling

pytestmark = pytest.mark.check

K, LEVELS, LEVEL = 2, 2, 0.7
CONCENTRATION = (1.5, 1.0)
SHAPE, RATE = 1.5, 0.4
REAL = (0.3, 0.5, 2.0, 1.5)


# --- by hand ----------------------------------------------------------------------------------


def level_mass(values):
    M = [sum((x == d) * 1.0 for x in values) for d in range(LEVELS)]
    out = gammaln(LEVELS * LEVEL) - gammaln(LEVELS * LEVEL + sum(M))
    return out + sum(gammaln(LEVEL + m) - gammaln(LEVEL) for m in M)


def count_mass(values, e, zeros):
    """With structural zeros: the sum over which of the zeros are."""
    terms = []
    for dead in itertools.product([0, 1] if zeros else [0], repeat=len(values)):
        alive = [(x, f) for x, f, s in zip(values, e, dead, strict=True) if not s]
        total, exposure = sum(x for x, _ in alive), sum(f for _, f in alive)
        term = SHAPE * np.log(RATE) - gammaln(SHAPE) + gammaln(SHAPE + total)
        term = term - (SHAPE + total) * np.log(RATE + exposure)
        term = term + sum(x * np.log(f) - gammaln(x + 1) for x, f in alive)
        if zeros:
            term = term + betaln(zeros[0] + sum(dead), zeros[1] + len(alive)) - betaln(*zeros)
            for x, s in zip(values, dead, strict=True):
                term = np.where(np.logical_and(s, np.asarray(x) != 0), -np.inf, term)
        terms.append(term)
    return logsumexp(np.stack(np.broadcast_arrays(*terms)), axis=0)


def real_mass(values):
    m, kappa, a, b = REAL
    n, total = len(values), sum(values)
    more = kappa + n
    mean = (kappa * m + total) / more
    left = b + 0.5 * (sum(x * x for x in values) + kappa * m * m - more * mean * mean)
    out = gammaln(a + n / 2) - gammaln(a) + a * np.log(b) - (a + n / 2) * np.log(left)
    return out + 0.5 * np.log(kappa / more) - n / 2 * np.log(2 * np.pi)


def log_marginal(kinds, units, e, zeros):
    """log p of units, by variable the values of each, of one class, at one exposure a unit."""
    labelings, prior = every_labeling(len(units), K, CONCENTRATION)
    sets = {}
    for members in itertools.product([False, True], repeat=len(units)):
        total = 0.0
        for v, kind in enumerate(kinds):
            pairs = [
                (x, f) for u, f, in_it in zip(units, e, members, strict=True) if in_it for x in u[v]
            ]
            if pairs:
                values = [x for x, _ in pairs]
                exposure = [f for _, f in pairs]
                total = total + {
                    "level": lambda x: level_mass(x),
                    "count": lambda x, exposure=exposure: count_mass(x, exposure, zeros),
                    "real": lambda x: real_mass(x),
                }[kind](values)
        sets[members] = total
    terms = [
        log_p + sum(sets[tuple((labels == k).tolist())] for k in range(K))
        for labels, log_p in zip(labelings, prior, strict=True)
    ]
    return logsumexp(np.stack(np.broadcast_arrays(*terms)), axis=0)


def every_value(kind):
    """Values of a variable, and log of the width of each."""
    if kind == "level":
        return np.arange(LEVELS), np.zeros(LEVELS)
    if kind == "count":
        return np.arange(40.0), np.zeros(40)
    t = np.linspace(-3.5, 3.5, 61)
    return REAL[0] + np.sinh(t), np.log(np.cosh(t) * (t[1] - t[0]))


def by_hand(case, i, guess):
    """log p(y_i = guess, y_A, Z^(1..m)), what the unknown records hold summed over."""
    kinds, made = case.kinds, np.flatnonzero(case.made)
    unknown = [r for r in range(len(case.y)) if r != i and not case.known[r]]
    axes = [every_value(kinds[v]) for _ in unknown for v in made]
    mesh = np.meshgrid(*[x for x, _ in axes], indexing="ij") if axes else []
    width = sum(np.meshgrid(*[w for _, w in axes], indexing="ij")) if axes else 0.0
    y = [list(row) for row in case.y]
    for c, v in enumerate(made):
        y[i][v] = guess[c]
        for place, r in enumerate(unknown):
            y[r][v] = np.ravel(mesh[place * len(made) + c])
    alone = [[[x] for x in row] for row in y]
    total = np.ravel(width) + (1 - len(case.zs)) * log_marginal(kinds, alone, case.e, case.zeros)
    for z in case.zs:
        if case.own:
            units = [
                [[x, *([z[r, v]] if case.made[v] else [])] for v, x in enumerate(row)]
                for r, row in enumerate(y)
            ]
            e = case.e
        else:
            units, e = alone + [[[x] for x in row] for row in z], [*case.e, *case.e]
        total = total + log_marginal(kinds, units, e, case.zeros)
    return logsumexp(total)


def by_draws(case, i, guesses, draws=100_000):
    """The same for kept columns and fresh classes, of each guess, by draws of Theta."""
    rng = np.random.default_rng(3)
    alpha = np.maximum(rng.gamma(CONCENTRATION[0], 1 / CONCENTRATION[1], draws), 1e-12)
    V = rng.beta(1, alpha)
    pi, theta = np.stack([V, 1 - V], axis=1), []
    for kind in case.kinds:
        if kind == "level":
            chances = rng.dirichlet(np.full(LEVELS, LEVEL), (draws, K))
            theta.append(np.log(np.maximum(chances, 1e-300)))
        elif kind == "count":
            theta.append(rng.gamma(SHAPE, 1 / RATE, (draws, K)))
        else:
            m, kappa, a, b = REAL
            precision = rng.gamma(a, 1 / b, (draws, K))
            theta.append((m + rng.normal(size=(draws, K)) / np.sqrt(kappa * precision), precision))

    def density(row, e, which):
        out = np.log(np.maximum(pi, 1e-300))
        for v in which:
            x, t = row[v], theta[v]
            if case.kinds[v] == "level":
                out = out + t[:, :, int(x)]
            elif case.kinds[v] == "count":
                out = out + x * np.log(e * t) - e * t - gammaln(x + 1)
            else:
                out = out + 0.5 * (np.log(t[1] / (2 * np.pi)) - t[1] * (x - t[0]) ** 2)
        return np.exp(out).sum(axis=1)

    every, kept = range(len(case.kinds)), np.flatnonzero(~case.made)
    made = np.flatnonzero(case.made)
    of_z = []
    for z in case.zs:
        p = np.ones(draws)
        for row, e in zip(z, case.e, strict=True):
            below = density(row, e, kept)
            p *= np.divide(density(row, e, every), below, out=np.zeros(draws), where=below > 0)
        of_z.append(p)
    unknown = [r for r in range(len(case.y)) if r != i and not case.known[r]]
    cells = list(itertools.product(*(every_value(case.kinds[v])[0][:25] for v in made)))

    def with_cell(r, cell):
        row = np.array(case.y[r], float)
        row[made] = cell
        return density(row, case.e[r], every)

    of_unknown = {(r, cell): with_cell(r, cell) for r in unknown for cell in cells}
    seen = np.ones(draws)
    for r in range(len(case.y)):
        if r != i and case.known[r]:
            seen = seen * density(case.y[r], case.e[r], every)
    out = []
    for guess in guesses:
        here, total = seen * with_cell(i, guess), 0.0
        for filling in itertools.product(cells, repeat=len(unknown)):
            w = here.copy()
            for r, cell in zip(unknown, filling, strict=True):
                w *= of_unknown[r, cell]
            total += w.mean() ** (1 - len(case.zs)) * np.prod([(w * p).mean() for p in of_z])
        out.append(np.log(total))
    return np.array(out)


# --- by the module ----------------------------------------------------------------------------


class Case:
    """A table whose variables are counts, reals, levels, in this order, and its releases."""

    def __init__(
        self, kinds, y, zs, known, *, made=None, own=False, e=None, zeros=None, missing=False
    ):
        self.kinds, self.y, self.known = kinds, np.array(y, float), np.array(known, bool)
        self.made = np.array(made or [1] * len(kinds), bool)
        self.zs = [np.where(self.made, z, self.y) for z in np.array(zs, float)]
        self.own, self.zeros, self.missing = own, zeros, missing
        self.e = np.ones(len(y)) if e is None else np.array(e, float)

    @property
    def prior(self):
        p, r, q = (self.kinds.count(kind) for kind in ("count", "real", "level"))
        return Prior(
            n_classes=K,
            concentration=CONCENTRATION,
            level=LEVEL,
            starts=2 * (p + r) + np.arange(q + self.missing + 1) * LEVELS,
            shape=np.full(p, SHAPE),
            rate=np.full(p, RATE),
            inflation=self.zeros,
            reals=np.tile(REAL, (r, 1)),
        )

    @property
    def columns(self):
        at = {
            k: [v for v, x in enumerate(self.kinds) if x == k] for k in ("count", "real", "level")
        }
        return Columns.of(
            counts=at["count"], reals=at["real"], levels=at["level"], exposure=len(self.kinds),
            missing=np.full(len(at["count"] + at["real"]), MISSING if self.missing else np.nan),
        )  # fmt: skip

    def codes(self, values):
        return np.column_stack([values, self.e])

    def problem(self):
        prior, columns = self.prior, self.columns
        hows = [
            Mechanism(
                y=columns.rows(self.codes(self.y), prior),
                z=columns.rows(self.codes(z), prior),
                synthesized=self.made[columns.order],
                replaced=np.ones(len(self.y), bool),
                rows=np.ones(len(z), bool),
                own=self.own,
                padding=prior.width - 1,
                exposure=columns.exposures(self.codes(self.y)),
            )
            for z in self.zs
        ]
        return UnknownRecords(prior=prior, columns=columns, hows=hows, known=self.known)

    def start(self, chains=4, draws=40):
        rng, prior = np.random.default_rng(1), self.prior
        H, p, r = chains * draws, prior.n_counts, prior.n_reals
        phi = np.ones((H, prior.width, K))
        phi[:, :p] = rng.gamma(4.0, 1.0, (H, p, K))
        phi[:, p : 2 * p] = rng.beta(2, 3, (H, p, K)) if self.zeros else 0.0
        phi[:, 2 * p : 2 * p + r] = rng.normal(size=(H, r, K))
        for begin in prior.starts[:-1]:
            phi[:, begin : begin + LEVELS] = rng.dirichlet(np.ones(LEVELS), (H, K)).swapaxes(1, 2)
        V = rng.uniform(0.2, 0.8, H)
        return Draws(
            alpha=rng.gamma(1.0, 1.0, H),
            log_left=np.log1p(-V)[:, None],
            pi=np.stack([V, 1 - V], axis=1),
            phi=phi,
            n_occupied=np.zeros(H, np.int64),
            n_chains=chains,
        )

    def sampled(self, draws=600, thin=5, **how):
        options = {"tune": 100, "rng": np.random.default_rng(7), "n_jobs": 2} | how
        return Imputed.sampled(self.problem(), self.start(), draws=draws, thin=thin, **options)

    def targets(self, i, guesses):
        codes = np.array(guesses, float)[:, None]
        G = len(codes)
        truth = np.zeros(1, np.int64)
        found = GuessSet(codes, truth, np.ones((G, 1), bool), np.zeros((G, codes.shape[2]), int))
        return Targets(
            profiles=self.codes(self.y)[[i]],
            record=np.array([i]),
            columns=np.flatnonzero(self.made),
            guesses=found,
            known=self.known,
        )


def evidence(posterior, targets):
    """log p(y*, rest) - log p(y_i, rest) of each guess, and its error between batches."""
    (predictive,), block = posterior.predictives(targets, rng=None), slice(0, 1)
    weights = predictive.log_truth(block)
    if predictive.known[0]:
        weights = np.zeros_like(weights)
    sums = predictive.log_sums(block, weights)[:, :, 0]
    below = np.array([logsumexp(weights[predictive.batch == b]) for b in range(len(sums))])
    found = logsumexp(sums, axis=0) - logsumexp(below)
    shares = np.exp(below - logsumexp(below))[:, None]
    ratio = np.exp(sums - below[:, None] - found) - 1  # of each batch, around 0
    return found, np.sqrt((shares**2 * ratio**2).sum(axis=0))


def check(case, guesses, *, exact=None, tolerance=0.01, **how):
    posterior = case.sampled(**how)
    gaps, z = [], []
    for i in range(len(case.y)):
        truth = case.y[i, case.made]
        asked = [truth, *(g for g in guesses if not np.array_equal(g, truth))]
        if exact is None:
            wanted = np.array([by_hand(case, i, g) for g in asked])
        else:
            wanted = exact(case, i, asked)
        found, error = evidence(posterior, case.targets(i, asked))
        gaps.append((found - (wanted - wanted[0]))[1:])
        z.append(gaps[-1] / np.hypot(error[1:], tolerance))
        assert abs(found[0]) < 1e-9
    gaps, z = np.concatenate(gaps), np.concatenate(z)
    assert np.abs(z).max() < 5, (gaps, z)
    return gaps


FOUR = [[0, 0], [0, 1], [1, 0], [1, 1]]
Y = [[0, 0], [0, 1], [1, 1]]
Z = [[[1, 1], [0, 0], [1, 1]], [[0, 0], [0, 0], [1, 0]]]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("known", [(1, 0, 0), (0, 0, 0), (1, 1, 1)], ids=str)
def test_levels(known, own):
    check(Case(["level", "level"], Y, Z, known, own=own), FOUR)


def test_some_levels_of_own_classes():
    check(Case(["level", "level"], Y, Z, (1, 0, 0), made=[0, 1], own=True), [[0], [1]])


@pytest.mark.parametrize("known", [(0, 1, 1), (0, 0, 0)], ids=str)
def test_levels_given_kept_levels(known):
    case = Case(["level", "level"], Y, Z, known, made=[0, 1])
    check(case, [[0], [1]], exact=by_draws, tolerance=0.02)


@pytest.mark.parametrize("kinds", [("count", "level"), ("real", "level"), ("level", "count")])
def test_given_kept_columns_of_other_families(kinds):
    """Metropolis denominators of counts, reals and levels; one count or one level imputed."""
    place = {"count": 0, "real": 1, "level": 2}
    order = sorted(range(2), key=lambda v: place[kinds[v]])  # counts, reals, levels
    values = {"count": [3.0, 0.0, 6.0], "real": [0.2, -1.4, 1.1], "level": [0.0, 1.0, 1.0]}
    released = {"count": [[5, 1, 2], [0, 4, 3]], "level": [[1, 0, 1], [1, 1, 0]]}
    y = np.array([values[kinds[v]] for v in order]).T
    zs = np.zeros((2, 3, 2))
    zs[:, :, order.index(1)] = released[kinds[1]]
    made = [int(v == 1) for v in order]
    case = Case([kinds[v] for v in order], y, zs, (1, 0, 1), made=made, e=[1.0, 2.0, 1.0])
    guesses = [[0], [1]] if kinds[1] == "level" else [[0], [2], [5]]
    check(case, guesses, exact=by_draws, tolerance=0.03)


COUNTS = [[0.0], [2.0], [9.0]]
RELEASED = [[[7.0], [1.0], [3.0]], [[0.0], [11.0], [2.0]], [[4.0], [4.0], [8.0]]]
ASKED = [[0], [1], [3], [6], [12]]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("known", "m"), [((1, 0, 0), 2), ((0, 1, 1), 3)], ids=str)
def test_counts_at_exposures(known, m, own):
    check(Case(["count"], COUNTS, RELEASED[:m], known, own=own, e=[1.0, 0.5, 2.0]), ASKED)


def test_counts_with_structural_zeros():
    """Nor known, nor of one class: zeros of both kinds in every set of sums."""
    case = Case(["count"], COUNTS, RELEASED[:2], (1, 0, 1), zeros=(1.0, 2.0))
    check(case, ASKED)


@pytest.mark.parametrize("own", [False, True])
def test_reals(own):
    y, zs = [[0.1], [-1.2], [2.0]], [[[0.5], [-0.3], [1.4]], [[-0.9], [0.2], [2.2]]]
    check(Case(["real"], y, zs, (1, 0, 1), own=own), [[-2.0], [-0.5], [0.4], [1.5], [3.0]])


@pytest.mark.parametrize("own", [False, True])
def test_all_families_in_one_table(own):
    y = [[2, 0.3, 0], [0, -1.0, 1], [5, 1.2, 1]]
    zs = [[[1, 0.8, 1], [3, -0.2, 0], [4, 1.0, 1]], [[0, -0.7, 0], [1, -1.1, 1], [6, 0.6, 0]]]
    guesses = [[1, 0.3, 0], [0, -1.0, 0], [4, 0.9, 1], [2, 1.0, 1]]
    check(Case(["count", "real", "level"], y, zs, (1, 0, 1), own=own), guesses)


def test_kept_counts_and_levels_beside_own_classes():
    """What is shown of a row: kept values, then synthetic ones, each in the order of families."""
    y, zs = (
        [[2, 0, 0, 1], [0, 3, 1, 1], [4, 1, 1, 0]],
        [[[0, 2, 0, 0], [0, 0, 0, 1], [0, 5, 0, 1]]] * 2,
    )
    zs[1] = [[0, 1, 0, 1], [0, 4, 0, 0], [0, 2, 0, 0]]
    case = Case(["count", "count", "level", "level"], y, zs, (1, 0, 1), made=[0, 1, 0, 1], own=True)
    check(case, [[0, 1], [3, 0], [1, 1], [1, 0]])


MISSING = -9.0


def by_hand_missing(case, i, guesses):
    """Of an amount that may be missing: whether it is, a level, and if not its value."""
    unknown = [r for r in range(len(case.y)) if r != i and not case.known[r]]
    x, width = every_value("real")

    def unit(value):
        return [[], [1]] if np.ndim(value) == 0 and value == MISSING else [[value], [0]]

    out = []
    for guess in guesses:
        total = []
        for filling in itertools.product([False, True], repeat=len(unknown)):
            rows = [unit(row[0]) for row in case.y]
            rows[i] = unit(guess[0])
            for r, gone in zip(unknown, filling, strict=True):
                rows[r] = unit(MISSING if gone else x)
            log_p = sum(0.0 if gone else width for gone in filling)
            alone = log_marginal(["real", "level"], rows, case.e, None)
            log_p = log_p + (1 - len(case.zs)) * alone
            for z in case.zs:
                both = [*rows, *(unit(row[0]) for row in z)]
                log_p = log_p + log_marginal(["real", "level"], both, [*case.e, *case.e], None)
            total.append(logsumexp(log_p))
        out.append(logsumexp(total))
    return np.array(out)


def test_amounts_that_may_be_missing():
    y, zs = [[0.4], [MISSING], [1.5]], [[[MISSING], [0.1], [1.2]], [[0.3], [MISSING], [2.0]]]
    case = Case(["real"], y, zs, (1, 0, 1), missing=True)
    check(case, [[MISSING], [0.4], [1.5], [-1.0]], exact=by_hand_missing)


# --- what does not depend on the law -----------------------------------------------------------


def test_workers_seeds_and_further_sampling():
    case = Case(
        ["count", "level"], [[3, 0], [0, 1], [5, 1]], [[[1, 1], [2, 0], [4, 0]]] * 2, (1, 0, 0)
    )
    how = {"draws": 20, "thin": 2, "tune": 5}
    posterior, again = case.sampled(**how), case.sampled(**how, n_jobs=1)
    assert all((a == b).all() for a, b in zip(posterior.kept, again.kept, strict=True))
    other = case.sampled(**how, rng=np.random.default_rng(8))
    assert (posterior.kept.alpha != other.kept.alpha).any()
    more = posterior.doubled(rng=np.random.default_rng(3), n_jobs=1)
    assert more.n_draws == posterior.n_draws and more.thin == 2 * posterior.thin == 4
    assert (more.kept.alpha[:10] == posterior.kept.alpha[1:20:2]).all()


def test_one_row_stands_for_all_that_nothing_tells_apart():
    zs = [[[1, 1], [0, 0], [1, 1]]] * 2
    assert len(Case(["level", "level"], Y, zs, (0, 0, 0)).problem().tracked) == 1
    assert len(Case(["level", "level"], Y, zs, (0, 0, 0), own=True).problem().tracked) == 3
    assert len(Case(["level", "level"], Y, zs, (0, 0, 0), made=[0, 1]).problem().tracked) == 3
    assert len(Case(["count"], COUNTS, RELEASED, (0, 0, 0), e=[1, 1, 2]).problem().tracked) == 3


def test_negative_powers_of_a_mean_without_their_bias():
    """E[x^-k] p^k is 1.00 with the correction, where it would be 1 + k (k + 1) v / 2 W."""
    rng, W, k, spread = np.random.default_rng(1), 8, 2, 0.3
    logs = rng.normal(-0.5 * spread**2, spread, (200_000, W))
    corrected = np.exp([-log_power_of_mean(x, k) for x in logs])
    plain = np.exp(logs).mean(axis=1) ** -float(k)
    bias = 0.5 * k * (k + 1) * np.expm1(spread**2) / W
    error = plain.std() / np.sqrt(len(logs))
    assert plain.mean() - 1 > 0.8 * bias
    assert abs(corrected.mean() - 1) < 0.1 * bias + 4 * error
