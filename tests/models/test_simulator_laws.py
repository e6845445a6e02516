"""Laws of counts and odds of copies, learnt from files of runs: against closed forms."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import dirichlet_multinomial, multinomial, norm

import bayes_risk as br
from bayes_risk.models.simulator.features import Features
from bayes_risk.models.simulator.laws import Law, Tallies, likeliest_law, likeliest_odds
from tests.oracles.generator_exact import Cells, posterior

pytestmark = pytest.mark.filterwarnings("ignore")  # few runs, many levels


def table(n, seed, groups=60):
    rng = np.random.default_rng(seed)
    x = rng.choice(groups, n, p=rng.dirichlet(np.full(groups, 0.5)))
    shares = rng.dirichlet(np.full(5, 0.4), groups)
    return x, np.array([rng.choice(5, p=shares[k]) for k in x])


def columns(x, s):
    """With all levels."""
    levels = [range(int(x.max()) + 1), range(5)]
    return pd.DataFrame(
        {c: pd.Categorical(v, categories=d) for c, v, d in zip("xs", (x, s), levels, strict=True)}
    )


def learnt(x, s, files, **how):
    data = br.Microdata.from_frame(columns(x, s))
    features = Features.of(data, np.array([1]), linked=True)
    y = np.column_stack([x, s])
    features.learn([(y, np.column_stack([x, z])[None]) for z in files])
    return features


@pytest.mark.parametrize("a", [0.25, 1.0, 3.0])
def test_the_constant_of_a_law_is_found(a):
    x, s = table(1000, 1)
    cells, rng = Cells(x, 5, a), np.random.default_rng(2)
    law = learnt(x, s, [cells.draw(s, rng) for _ in range(10)]).laws[1, 1, 0.0]
    assert law.drawn and abs(np.log(law.added / a)) < 0.25


def test_shares_that_are_not_drawn_are_told_from_those_that_are():
    x, s = table(1000, 1)
    rng, files = np.random.default_rng(2), []
    for _ in range(10):
        z = s.copy()
        for cell in np.unique(x):
            z[x == cell] = rng.choice(s[x == cell], (x == cell).sum())
        files.append(z)
    law = learnt(x, s, files).laws[1, 1, 0.0]
    assert not law.drawn and law.added < 0.05


@pytest.mark.parametrize("drawn", [True, False])
def test_evidence_is_what_one_record_more_does_to_the_likelihood(drawn):
    """Of every guess, up to a constant."""
    rng, a = np.random.default_rng(3), 0.7
    k, z = rng.integers(0, 6, 4), rng.integers(0, 6, (2, 4))
    exact = np.zeros(4)
    for g in range(4):
        alpha = k + a + (np.arange(4) == g)
        for file in z:
            if drawn:
                exact[g] += dirichlet_multinomial.logpmf(file, alpha, file.sum())
            else:
                exact[g] += multinomial.logpmf(file, file.sum(), alpha / alpha.sum())
    found = Law(a, drawn).evidence(k.astype(float), z[:, None].astype(float))[0]
    assert np.allclose(found - found[0], exact - exact[0])


def test_a_law_of_nothing_has_no_error():
    law, log_p = likeliest_law([Tallies(np.zeros((2, 1), int), np.zeros((2, 1), int), 1)])
    assert np.isfinite([*law, log_p]).all()


def test_odds_of_noisy_copies_are_found():
    rng, n = np.random.default_rng(4), 4000
    y, kept = rng.normal(0, 5, n), rng.random(n) < 0.3
    z = np.where(kept, y + rng.normal(0, 0.1, n), rng.normal(0, 5, n))
    copy, other = norm.pdf(z, y, 0.1), norm.pdf(z, 0, 5)
    assert likeliest_odds(copy / other)[1] == pytest.approx(0.3 / 0.7, rel=0.3)
    assert likeliest_odds(np.zeros(n))[1] == pytest.approx(1e-3)


@pytest.mark.check
@pytest.mark.parametrize("a", [0.25, 1.0, 3.0])
def test_the_exact_posterior_is_found_whatever_the_constant(a):
    """500 records in 150 cells, 10 runs; mean over three tables."""
    off = []
    for seed in (1, 3, 4):
        x, s = table(500, seed, groups=150)
        cells, df = Cells(x, 5, a), columns(x, s)

        def make(df, m, seed, cells=cells):
            s, rng = df["s"].to_numpy().astype(int), np.random.default_rng(seed)
            drawn = [cells.draw(s, rng) for _ in range(m)]
            return [df.assign(s=pd.Categorical(z, categories=range(5))) for z in drawn]

        fit = br.models.Simulator(make, columns=["s"], runs=10).fit(df)
        release = fit.synthesize(1, random_seed=seed)
        p = br.attribute_risk(fit, release, random_seed=seed).records["probability"]
        z = release.datasets[0]["s"].to_numpy().astype(int)
        exact = posterior(cells.log_evidence(s, z))[np.arange(len(s)), s]
        off.append(np.sqrt(((p - exact) ** 2).mean()))
    assert np.mean(off) <= 0.02
