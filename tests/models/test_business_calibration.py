"""The intruder's intervals are frequencies: files drawn from the prior, releases from the files.

The Theta that made a file is itself a draw of p(Theta | file), so it makes the release. Target and
known record are drawn beforehand, and files in which the target has less are thrown away.
"""

import numpy as np
import pytest

from bayes_risk.models.mixture.business.competitors import (
    Groups,
    Pair,
    Question,
    dealt,
    further,
    pair_masses,
)
from tests.oracles.business_oracle import (
    CONCENTRATION,
    learnt,
    nothing,
    prior_of,
    relative,
    rows_of,
)

PRIOR, N = prior_of(3), 8


def file(rng):
    """Counts, labels, rates and weights of a file drawn from the prior."""
    alpha, K = rng.gamma(*CONCENTRATION), PRIOR.n_classes
    V = np.append(rng.beta(1, alpha, size=K - 1), 1.0)
    pi = V * np.cumprod(np.append(1.0, 1 - V[:-1]))
    rates = rng.gamma(PRIOR.shape[0], 1 / PRIOR.rate[0], size=K)
    label = rng.choice(K, size=N, p=pi / pi.sum())
    return rng.poisson(rates[label]), label, rates, pi / pi.sum()


def question(y):
    return Question(
        column=0,
        guesses=np.arange(float(y[1]), max(400.0, 2.0 * y.max())),
        exposure=1.0,
        target=nothing(),
        second=rows_of([y[1]]),
    )


def drawn(y, label, rates, pi, seed):
    """MP."""
    rng = np.random.default_rng(seed)
    z = rng.poisson(rates[rng.choice(len(pi), size=N, p=pi)])
    known = learnt([*z, y[1]], PRIOR, seed=seed, draws=250, chains=2)
    asked = question(y)
    return asked.guesses, known.averaged(further(known, asked)).value


def deal(y, label, rng):
    z = np.zeros(N)
    for k in np.unique(label):
        mine = label == k
        z[mine] = rng.multinomial(y[mine].sum(), np.ones(mine.sum()) / mine.sum())
    return z


def dealt_known(y, label, rates, pi, seed):
    """MM, groups known."""
    z, asked = deal(y, label, np.random.default_rng(seed)), question(y)
    return asked.guesses, dealt(groups_of(z, label[None]), asked)[0]


def dealt_inferred(y, label, rates, pi, seed):
    """MM, groups inferred."""
    z, asked = deal(y, label, np.random.default_rng(seed)), question(y)
    known = learnt(z, PRIOR, seed=seed, draws=250, chains=2)
    return asked.guesses, known.averaged(dealt(groups_of(z, known.label), asked)).value


def groups_of(z, label):
    return Groups.of(rows_of(z), label, np.ones(N), np.ones(N))


def all_but_two(y, label, rates, pi, seed):
    """MP, all but two known, and their sum."""
    rng, total = np.random.default_rng(seed), float(y[0] + y[1])
    z = rng.poisson(rates[rng.choice(len(pi), size=N, p=pi)])
    known = learnt([*z, *y[2:]], PRIOR, seed=seed, draws=250, chains=2)
    guesses = np.arange(np.ceil(total / 2), total + 1)
    pair = Pair(
        columns=np.array([0]),
        guesses=guesses[:, None],
        totals=np.array([total]),
        exposure=np.ones((2, 1)),
        first=nothing(),
        second=nothing(),
    )
    return guesses, known.averaged(pair_masses(known, pair)).value


@pytest.mark.parametrize(
    ("intruder", "files"),
    [
        (dealt_known, 400),
        pytest.param(drawn, 60, marks=pytest.mark.check),
        pytest.param(dealt_inferred, 100, marks=pytest.mark.check),
        pytest.param(all_but_two, 100, marks=pytest.mark.check),
        *(
            pytest.param(i, 600, marks=pytest.mark.slow)
            for i in (drawn, dealt_inferred, all_but_two)
        ),
    ],
)
def test_shares_of_truths_within_stated_intervals(intruder, files):
    rng, ranks = np.random.default_rng(11), []
    while len(ranks) < files:
        y, *rest = file(rng)
        if y[0] < y[1]:
            continue
        guesses, log_p = intruder(y, *rest, seed=len(ranks))
        p = relative(log_p)
        ranks.append(p[guesses < y[0]].sum() + rng.random() * p[guesses == y[0]].sum())
    ranks = np.array(ranks)
    for mass in (0.5, 0.9):
        share = (np.abs(ranks - 0.5) <= mass / 2).mean()
        assert abs(share - mass) < 3.5 * np.sqrt(mass * (1 - mass) / files)
    assert abs(ranks.mean() - 0.5) < 3.5 * np.sqrt(1 / 12 / files)
