"""The DPMPM and intruders who know some of the records: brute force, closed forms, limits."""

import numpy as np
import pytest

import bayes_risk as br
from tests.helpers.against import agree, each, gaps
from tests.oracles.kernel_twins import codes_of, simulate
from tests.oracles.label_sums import log_marginal, row
from tests.oracles.latent_oracle import exact_weaker, monte_carlo_weaker, one_column
from tests.oracles.three_records import (
    GUESSES,
    PRIOR,
    Z1,
    Z2,
    Y,
    fitted,
    of_cells,
    partly,
    released,
    table,
    whole,
)
from tests.oracles.weaker_calibration import KNOWS, calibration

CLOSE = 1e-3  # what draws from the prior leave
KNOWN = [[0], [1, 2], []]  # the records that are known, whether or not they are the target
pytestmark = [
    pytest.mark.check,
    pytest.mark.filterwarnings(
        "ignore::bayes_risk.TruncationWarning", "ignore::bayes_risk.UnreliableWeightsWarning"
    ),
]


@pytest.fixture(scope="module")
def fit():
    return fitted()


@pytest.fixture(scope="module")
def short():
    """A fit for what does not depend on the number of draws."""
    return fitted(draws=40, tune=50, thin=2)


def audit(fit, release, known, **options):
    mask = np.isin(np.arange(len(fit.microdata.codes)), known)
    intruder = br.Intruder(knows_records=mask if mask.any() else "none")
    options = {"guesses": br.Neighbourhood(2), "random_seed": 7} | options
    return br.attribute_risk(fit, release, intruder=intruder, **options)


def others(i, known):
    return [j for j in range(3) if j != i and j not in known]


def by_labels(Zs, known, *, own=False, columns=(0, 1)):
    """Exact log evidence of the guesses of a record."""

    def exact(i, guess):
        args = whole(i, guess, columns), others(i, known), 2, (2, 2)
        return exact_weaker(Y, Zs, i, *args, own=own, columns=list(columns), **PRIOR)

    return each(exact)


def by_draws(Zs, known, draws=200_000):
    """The same for x1 synthesised given x0: its error is far below that of an audit."""
    rng = np.random.default_rng(11)
    how = {"draws": draws, "rng": rng, "prior": PRIOR}
    of = [
        monte_carlo_weaker(Y, Zs, i, GUESSES[i], others(i, known), 2, (2, 2), [1], **how)[0]
        for i in range(3)
    ]
    return of_cells(of, [1])


# --- one release: exact ----------------------------------------------------------------------


@pytest.mark.parametrize("known", KNOWN)
def test_one_release_fresh_classes(fit, known):
    agree(audit(fit, released([Z1]), known), by_labels([Z1], known), CLOSE)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("columns", [[0, 1], [1]])
def test_one_release_own_classes(fit, known, columns):
    Z = partly(Z1, columns)
    exact = by_labels([Z], known, own=True, columns=columns)
    agree(audit(fit, released([Z], columns, classes="own"), known), exact, CLOSE)


@pytest.mark.parametrize("known", KNOWN)
def test_one_release_given_unsynthesized_columns(fit, known):
    Z = partly(Z1, [1])
    agree(audit(fit, released([Z], [1]), known), by_draws([Z], known), CLOSE)


# --- several releases ------------------------------------------------------------------------

SEVERAL = {
    "fresh, one known": ([0, 1], "new", [0]),
    "fresh, none known": ([0, 1], "new", []),
    "own, two known": ([0, 1], "own", [1, 2]),
    "own, some columns": ([1], "own", [0]),
    "given columns, two known": ([1], "new", [1, 2]),
    "given columns, none known": ([1], "new", []),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEVERAL)
def test_imputing_leaves_little_of_the_error_of_the_product(fit, name):
    """Two releases, three records: the hardest case for the base chains (docs)."""
    columns, classes, known = SEVERAL[name]
    Zs = [partly(Z, columns) for Z in (Z1, Z2)]
    if classes == "new" and columns == [1]:
        exact = by_draws(Zs, known)
    else:
        exact = by_labels(Zs, known, own=classes == "own", columns=columns)
    release = released(Zs, columns, classes=classes)
    left, mcse = gaps(audit(fit, release, known, evidence="imputed"), exact)
    wrong, _ = gaps(audit(fit, release, known, evidence="independent-releases"), exact)
    noise = (mcse**2).mean()
    assert (left**2).mean() < 0.2**2 * (wrong**2).mean() + 4 * noise
    assert (wrong**2).mean() > 16 * noise  # or there would be nothing to see


@pytest.mark.slow
def test_all_known_is_the_worst_case(fit):
    release = released([Z1, Z2])
    exact = by_labels([Z1, Z2], [0, 1, 2])
    agree(audit(fit, release, [0, 1, 2]), exact, CLOSE)
    how = {"guesses": br.Neighbourhood(2), "random_seed": 1}
    agree(br.attribute_risk(fit, release, **how), exact, CLOSE)


# --- one class: closed forms -----------------------------------------------------------------

BINARY_AND_THREE = (2, 3)
N = 24


def closed_form(y, Zs, i, known, levels):
    """log p(Z^(1..m) | y*, y_A) of one class by column, one array (d,) for each."""
    A = known & (np.arange(len(y)) != i)
    n_unknown = len(y) - 1 - int(A.sum())
    return [
        one_column(
            np.bincount(y[A, j], minlength=d),
            n_unknown,
            [np.bincount(Z[:, j], minlength=d) for Z in Zs],
            1.0,
        )
        for j, d in enumerate(levels)
    ]


@pytest.fixture(scope="module")
def one_class():
    table = simulate(N, BINARY_AND_THREE, seed=3)
    fit = br.models.DPMPM(n_classes=1).fit(
        table, draws=1000, tune=0, thin=2, chains=4, random_seed=1
    )
    return fit, codes_of(table)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("n_known", [N - 1, N // 2, 0])
def test_one_class(one_class, n_known, m):
    """Beta-binomial and Dirichlet-multinomial: without error for one release."""
    fit, y = one_class
    release = fit.synthesize(m, random_seed=2)
    Zs, known = [codes_of(Z) for Z in release.datasets], np.arange(N) < n_known
    risk = audit(fit, release, np.flatnonzero(known), guesses=br.Neighbourhood(1))
    for i in (0, 5, N - 1):
        u, exact = risk.case[i], np.zeros(risk.n_guesses)
        for j, log_e in enumerate(closed_form(y, Zs, i, known, BINARY_AND_THREE)):
            exact += (log_e - log_e[y[i, j]])[risk.guesses[:, u, j]]
        error = np.abs(risk.log_evidence[:, :, u].sum(axis=0) - exact)
        assert (error <= 4 * risk.mcse_log_evidence[:, u] + 1e-8).all()
        assert m > 1 or (risk.mcse_log_evidence[:, u] < 1e-6).all()


def test_records_released_unchanged_are_seen_by_everybody(one_class):
    fit, y = one_class
    replaced = np.arange(N) < 8
    release = fit.synthesize(1, records=replaced, random_seed=2)
    Z = codes_of(release.datasets[0])[replaced]
    risk = audit(fit, release, [], guesses=br.Neighbourhood(1))
    for i in range(8):
        u, exact = risk.case[risk.index.get_loc(i)], np.zeros(risk.n_guesses)
        for j, log_e in enumerate(closed_form(y, [Z], i, ~replaced, BINARY_AND_THREE)):
            exact += (log_e - log_e[y[i, j]])[risk.guesses[:, u, j]]
        assert np.allclose(risk.log_evidence[0, :, u], exact, atol=1e-8)


# --- before anything was published -----------------------------------------------------------


SEVEN = np.array([[1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]])


def believed(i, known, published):
    """p(truth of x2 | its x0, x1, y_A), with and without the others' x0, x1: sums over labels."""
    logs = []
    for x2 in (SEVEN[i, 2], 1 - SEVEN[i, 2]):
        units = [row([*SEVEN[i, :2], x2])]
        units += [row(SEVEN[j]) for j in known if j != i]
        others = [j for j in range(7) if j != i and j not in known]
        units += [row(SEVEN[j, :2], [0, 1]) for j in others if published]
        logs.append(log_marginal(units, 2, (2, 2, 2), **PRIOR))
    return 1 / (1 + np.exp(logs[1] - logs[0]))


@pytest.mark.parametrize("known", [[0, 1, 2], [0]])
def test_before_is_the_belief_without_published_columns_of_unknown_records(known):
    fit = fitted(y=SEVEN, draws=1000, thin=5)
    release = fit.synthesize(1, columns=["x2"], random_seed=6)
    how = {"guesses": br.Neighbourhood(1)}
    risk = audit(fit, release, known, before=True, **how)
    assert "leaves their x0, x1 as they are" in risk.assumptions["records"]
    assert 'known "without the release" too' in risk.assumptions["records"]
    records, apart = risk.records, []
    for i, at in records.iterrows():
        without, given = believed(i, known, published=False), believed(i, known, published=True)
        assert 0 <= at["mcse_before"] < 0.01
        assert abs(at["before"] - without) < 4 * at["mcse_before"] + 1e-3
        assert abs(at["prior_predictive"] - given) < 0.015
        apart.append(abs(given - without))
    assert max(apart) > 0.03
    assert risk.summary().loc["mean_before", "value"] == pytest.approx(records["before"].mean())
    assert "before any publication the model's predictive gave it" in risk.sentence()
    plain = audit(fit, release, known, **how)
    assert plain.before is None and "before" not in plain.records
    assert plain.log_evidence.tobytes() == risk.log_evidence.tobytes()


def test_before_leaves_out_records_released_unchanged(one_class):
    fit, y = one_class
    replaced = np.arange(N) < 8
    release = fit.synthesize(1, records=replaced, random_seed=2)
    risk = audit(fit, release, [0, 1], guesses=br.Neighbourhood(1), before=True)
    assert "leaves 16 of them whole as they are" in risk.assumptions["records"]
    for label, before in risk.records["before"].items():
        u, log_p = risk.case[risk.index.get_loc(label)], 0.0
        seen = y[[j for j in (0, 1) if j != label]]
        for j, d in enumerate(BINARY_AND_THREE):
            counts = np.bincount(seen[:, j], minlength=d) + 1.0
            log_p = log_p + np.log(counts / counts.sum())[risk.guesses[:, u, j]]
        p = np.exp(log_p)
        assert before == pytest.approx(p[risk.truth[u]] / p.sum())
    assert not np.allclose(risk.records["before"], risk.records["prior_predictive"], atol=0.01)


def test_before_is_the_predictive_prior_where_synthetic_values_alone_are_published(one_class):
    fit, _ = one_class
    release = fit.synthesize(2, random_seed=2)
    for options in ({}, {"intruder": br.Intruder(knows_records=0.5)}):
        risk = br.attribute_risk(fit, release, before=True, random_seed=3, **options)
        table = risk.records
        assert np.allclose(table["before"], table["prior_predictive"], atol=1e-10)
        assert "without the release" not in risk.assumptions["records"]


def test_before_wants_a_predictive(one_class):
    fit, _ = one_class
    release = fit.synthesize(1, parameters="independent", random_seed=2)
    with pytest.raises(br.InputError, match="'importance' has none; leave before out"):
        br.attribute_risk(fit, release, evidence="importance", before=True)


# --- invariance, errors ----------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "classes"), [([0, 1], "new"), ([1], "own"), ([1], "new")])
def test_threads_and_seeds(short, columns, classes):
    release = released([partly(Z, columns) for Z in (Z1, Z2)], columns, classes=classes)
    first, again = (
        audit(short, release, [1], n_jobs=n_jobs).log_probability.tobytes() for n_jobs in (1, 2)
    )
    assert first == again
    assert first != audit(short, release, [1], random_seed=8).log_probability.tobytes()


@pytest.mark.slow
def test_further_sampling_continues_the_chains(fit):
    release = released([Z1, Z2])
    more = audit(fit, release, [0], target_mcse=1e-9, max_doublings=2)
    agree(more, by_labels([Z1, Z2], [0]), CLOSE)
    once = audit(fit, release, [0])
    assert np.median(more.mcse_log_evidence) < np.median(once.mcse_log_evidence)


def test_what_is_approximate_is_said(short):
    words = audit(short, released([Z1, Z2]), [0]).assumptions["evidence"]
    assert "imputed" in words and "8 base chains" in words
    words = audit(short, released([Z1]), [0]).assumptions["evidence"]
    assert "integrated out" in words


def test_record_weights_are_refused():
    model = br.models.DPMPM(n_classes=1)
    fit = model.fit(table(Y), weights=np.full(3, 0.5), draws=10, tune=0, chains=2, random_seed=1)
    with pytest.raises(br.InputError, match="record weights"):
        audit(fit, fit.synthesize(1, random_seed=1), [0])


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("knows", KNOWS)
def test_probabilities_are_frequencies(knows, m):
    found, _ = calibration(KNOWS[knows], m, 60)
    assert (found["z"].abs() < 4).all(), found.to_string()
    assert found["error"]["probability of the truth"] < 0.03  # and the check is sharp
