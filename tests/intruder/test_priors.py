"""Priors against numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln

import bayes_risk as br
from bayes_risk.evidence.contract import Targets
from bayes_risk.intruder import priors
from bayes_risk.release.release import EncodedRelease
from tests.helpers.numeric_results import log_prior

TABLE = pd.DataFrame({"a": list("xxxyz"), "b": list("uuvvv")})
DATA = br.Microdata.from_frame(TABLE)
COLUMNS = np.array([0, 1])


def prior(how, guesses=None):
    guesses = br.Neighbourhood(1) if guesses is None else guesses
    found = guesses.of(DATA, DATA.codes, COLUMNS)
    cases = Targets(
        profiles=DATA.codes, record=np.arange(len(DATA.codes)), columns=COLUMNS, guesses=found
    )
    return found, np.exp(log_prior(how, DATA, cases))


def test_uniform():
    _, p = prior("uniform")
    assert np.allclose(p, 1 / 4)


def test_marginal_leaves_the_target_out_and_adds_one():
    """Record 0 is (x, u); without it a = x2 y1 z1 and b = u1 v3."""
    found, p = prior("marginal", br.Neighbourhood(2))
    a, b = np.array([3, 2, 2]) / 7, np.array([2, 4]) / 6
    for g, (j, k) in enumerate(found.codes[:, 0]):
        assert np.isclose(p[g, 0], a[j] * b[k])
    assert np.allclose(p.sum(axis=0), 1)


def test_truth_factor():
    found, p = prior(br.TruthFactor(10.0))
    mine = np.take_along_axis(p, found.truth[None], axis=0)[0]
    assert np.allclose(mine, 10 / 13) and np.allclose(p.sum(axis=0), 1)


def test_array_of_weights():
    _, p = prior([1.0, 0.0, 2.0, 5.0])
    assert np.allclose(p, np.array([1.0, 0.0, 2.0, 5.0])[:, None] / 8)


def test_function_sees_values_not_codes():
    seen = []

    def leaning(table):
        seen.append(table)
        return np.where(table["a"] == "y", 3.0, 1.0)

    found, p = prior(leaning)
    assert len(seen) == 5 and list(seen[0].columns) == ["a", "b"]
    for u in range(5):
        w = np.where(found.codes[:, u, 0] == 1, 3.0, 1.0)
        assert np.allclose(p[:, u], w / w.sum())


def test_guesses_that_are_not_counted_get_nothing():
    listed = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"]})
    found, p = prior("uniform", br.Listed(listed, add_truth=True))
    assert (p[~found.counted] == 0).all()
    assert np.allclose(p.sum(axis=0), 1)
    assert np.allclose(
        p[found.counted], (1 / found.counted.sum(axis=0) * found.counted)[found.counted]
    )


def test_they_say_what_they_are():
    assert priors.prior_in_words("uniform") == "every guess equally probable"
    assert "3 times as probable" in priors.prior_in_words(br.TruthFactor(3))
    assert priors.prior_in_words([1, 2]) == "given by the user"


# --- from the model, from the release, mixtures ------------------------------------------------

SHOWN = [
    pd.DataFrame({"a": list("xyyyz"), "b": list("uvvvv")}),
    pd.DataFrame({"a": list("xxyzz"), "b": list("uuvvu")}),
]
RELEASE = EncodedRelease.of(br.Release(datasets=SHOWN, synthesized=["a", "b"]), DATA)


def prior_with(how, guesses, **grounds):
    found = guesses.of(DATA, DATA.codes, COLUMNS)
    cases = Targets(
        profiles=DATA.codes, record=np.arange(len(DATA.codes)), columns=COLUMNS, guesses=found
    )
    return found, np.exp(log_prior(how, DATA, cases, **grounds))


def test_release_counts_the_released_values_and_adds_one():
    """Mean counts over the two files: a = x 1.5, y 2, z 1.5; b = u 2, v 3."""
    found, p = prior_with("release", br.Neighbourhood(2), release=RELEASE)
    a, b = np.array([2.5, 3.0, 2.5]) / 8, np.array([3.0, 4.0]) / 7
    for g in range(len(found.codes)):
        for u in range(5):
            j, k = found.codes[g, u]
            assert np.isclose(p[g, u], a[j] * b[k])


def test_release_joint_counts_the_values_together():
    found, p = prior_with("release-joint", br.Neighbourhood(2), release=RELEASE)
    _, margins = prior_with("release", br.Neighbourhood(2), release=RELEASE)
    both = pd.concat(SHOWN)
    for g in range(len(found.codes)):
        for u in range(5):
            a, b = "xyz"[found.codes[g, u, 0]], "uv"[found.codes[g, u, 1]]
            together = ((both["a"] == a) & (both["b"] == b)).sum() / 2
            assert np.isclose(p[g, u], (together + margins[g, u]) / 6)


def test_release_of_numbers_counts_by_cell_of_the_grid():
    """Cells of the guesses 1, 2, 4 end at 0.5, 1.5, 3 and 5."""
    data = br.Microdata.from_frame(pd.DataFrame({"w": [1.0, 2.0, 4.0]}), numbers=["w"])
    columns, grid = np.array([0]), br.JointGrid({"w": br.Grid(values=[1.0, 2.0, 4.0])})
    cases = Targets(
        profiles=data.codes,
        record=np.arange(3),
        columns=columns,
        guesses=grid.of(data, data.codes, columns),
    )
    shown = br.Release(datasets=[pd.DataFrame({"w": [1.4, 3.5, 4.9]})], synthesized=["w"])
    p = np.exp(log_prior("release", data, cases, EncodedRelease.of(shown, data)))
    assert np.allclose(p, np.array([2, 1, 3])[:, None] / 6)
    far = br.Release(datasets=[pd.DataFrame({"w": [50.0, 60.0, 70.0]})], synthesized=["w"])
    with pytest.raises(br.InputError, match="no released value of 'w' lies in the grid"):
        log_prior("release", data, cases, EncodedRelease.of(far, data))
    with pytest.raises(br.InputError, match="'w' is a number"):
        log_prior("release-joint", data, cases, EncodedRelease.of(shown, data))


def test_predictive_is_the_base_fit_normalised_over_the_guesses():
    base = np.random.default_rng(0).normal(size=(6, 5))
    _, p = prior_with("predictive", br.Neighbourhood(2), base=base)
    assert np.allclose(p, np.exp(base) / np.exp(base).sum(axis=0))


@pytest.mark.parametrize("as_list", [True, False])
def test_mixture_is_linear_in_its_parts(as_list):
    weights = {"uniform": 1.0, "marginal": 2.0, br.TruthFactor(5.0): 5.0}
    parts = [(w, how) for how, w in weights.items()] if as_list else weights
    _, p = prior(br.MixedPrior(parts))
    each = [prior(how)[1] for how in weights]
    assert np.allclose(p, sum(w / 8 * q for w, q in zip(weights.values(), each, strict=True)))


def test_mixtures_nest_and_keep_what_is_ruled_out_possible():
    sure = [1.0, 0.0, 0.0, 0.0]
    _, p = prior(br.MixedPrior([(0.9, br.MixedPrior([(1, sure)])), (0.1, "uniform")]))
    assert np.allclose(p, np.array([0.925, 0.025, 0.025, 0.025])[:, None])


def test_densities_that_are_infinite_on_the_grid_are_improper():
    data = br.Microdata.from_frame(pd.DataFrame({"w": [0.0, 1.0, 2.0]}), numbers=["w"])
    columns, grid = np.array([0]), br.JointGrid({"w": br.Grid(values=[0.0, 1.0, 2.0])})
    found = grid.of(data, data.codes, columns)
    cases = Targets(profiles=data.codes, record=np.arange(3), columns=columns, guesses=found)
    with pytest.raises(br.InputError, match="improper on this grid"):
        log_prior(br.Density({"w": stats.gamma(0.5)}), data, cases)


def test_new_priors_say_what_they_are():
    assert "without the release" in priors.prior_in_words("predictive")
    assert "used twice" in priors.prior_in_words("release")
    said = priors.prior_in_words(br.MixedPrior({"uniform": 1, "marginal": 3}))
    assert said.startswith("a mixture: 0.25 of [every guess") and "0.75 of [product" in said


# --- what the intruder does not know has no part in it -------------------------------------------

PEOPLE = pd.DataFrame(
    {
        "a": pd.Categorical(list("xxxyzxy"), list("xyzt")),  # nobody is t
        "b": list("uuvvvuv"),
        "w": [1.0, 2.0, 4.0, 3.0, 2.0, 5.0, 1.0],
    }
)
SOME = np.array([True, False, True, True, False, False, True])
# Counts of the known records' levels of a (x, y, z, t), the target's own left out:
# of all seven x 4, y 2, z 1; of those named x 2, y 2.
COUNTED = {
    "all": (np.ones(7, dtype=bool), {0: (3, 2, 1, 0), 1: (3, 2, 1, 0), 3: (4, 1, 1, 0)}),
    "some": (SOME, {0: (1, 2, 0, 0), 1: (2, 2, 0, 0), 3: (2, 1, 0, 0)}),
    "none": (np.zeros(7, dtype=bool), {0: (0, 0, 0, 0), 1: (0, 0, 0, 0), 3: (0, 0, 0, 0)}),
}


def intruder(known):
    return br.Intruder(knows_records=known if known.any() else "none")


@pytest.mark.check
@pytest.mark.parametrize("knows", COUNTED)
def test_margins_count_the_known_records_alone(knows):
    """Prior and posterior by hand, whoever is known: (n_A(v) + 1) / (n_A + 4)."""
    known, counted = COUNTED[knows]
    fit = br.models.CART(["a"], min_leaf=2).fit(PEOPLE[["b", "a"]], random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    risk = br.attribute_risk(fit, release, intruder=intruder(known), prior="marginal")
    for i, counts in counted.items():
        u = risk.case[i]
        prior = [(counts[v] + 1) / (sum(counts) + 4) for v in risk.guesses[:, u, 0]]
        assert np.allclose(np.exp(risk.log_prior[:, u]), prior)
        posterior = prior * np.exp(risk.log_evidence[:, :, u].sum(axis=0))
        assert np.allclose(np.exp(risk.log_probability[:, u]), posterior / posterior.sum())
        assert np.isclose(risk.records["prior"][i], prior[risk.truth[u]])


@pytest.mark.parametrize("knows", COUNTED)
def test_margins_are_predictives_of_a_flat_dirichlet(knows):
    """The same formula as a ratio of B(n + 1): p(y*, y_A) / p(y_A) of each column by itself."""
    known, _ = COUNTED[knows]
    data = br.Microdata.from_frame(PEOPLE[["a", "b"]])
    guesses = br.Neighbourhood(2).of(data, data.codes, COLUMNS)
    cases = Targets(
        profiles=data.codes, record=np.arange(7), columns=COLUMNS, guesses=guesses, known=known
    )
    p = np.exp(log_prior("marginal", data, cases))

    def log_b(values, d):
        return gammaln(np.bincount(values, minlength=d) + 1.0).sum() - gammaln(len(values) + d)

    for i in range(7):
        others = data.codes[known & (np.arange(7) != i)]
        for g, guess in enumerate(guesses.codes[:, i]):
            ratios = [
                log_b(np.append(others[:, j], guess[j]), d) - log_b(others[:, j], d)
                for j, d in enumerate((4, 2))
            ]
            assert np.isclose(p[g, i], np.exp(sum(ratios)))


def test_columns_that_the_intruder_knows_are_not_said_to_be_guessed():
    fit = br.models.CART(["a", "b"], min_leaf=2).fit(PEOPLE, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    risk = br.attribute_risk(fit, release, intruder=br.Intruder(knows_columns=["b"]))
    assert risk.assumptions["columns"] == "guessed: a"


def with_other_values(known, column):
    """The unknown records' values exchanged among themselves and, if levels, for others."""
    out, unknown = PEOPLE.copy(), np.flatnonzero(~known)
    if column == "a":
        out.loc[unknown, "a"] = ["t", "z", "x", "t", "t", "z", "t"][: len(unknown)]
    else:
        out.loc[unknown, column] = PEOPLE[column].to_numpy()[np.roll(unknown, 1)]
    return out


@pytest.mark.parametrize("known", [np.zeros(7, dtype=bool), SOME], ids=["none", "some"])
@pytest.mark.parametrize("name", sorted(priors.NAMED))
def test_records_that_are_not_known_do_not_matter(name, known):
    """A normal regression has a predictive; centre and scale, known to all, stay as they are."""
    if name == "predictive":
        column, model = "w", br.models.Regression({"w": "1 + b"})
        how = {"guesses": br.Grid(values=[1.0, 2.0, 3.0, 4.0, 5.0]), "evidence": "predictive"}
        how |= {"refit_budget": 0}
    else:
        column, model, how = "a", br.models.CART(["a"], min_leaf=4), {"guesses": None}
    options = {"draws": 20, "chains": 2} if column == "w" else {}
    release, found = None, []
    for table in (PEOPLE, with_other_values(known, column)):
        fit = model.fit(table[["b", column]], random_seed=1, **options)
        release = fit.synthesize(m=1, random_seed=2) if release is None else release
        evidence = br.attribute_evidence(
            fit, release, intruder=intruder(known), random_seed=3, **how
        )
        risk = evidence.risk(name, warn=False)
        by_value = np.argsort(risk.guesses[:, :, 0], axis=0)
        found.append(np.take_along_axis(risk.log_prior, by_value, axis=0)[:, risk.case])
    assert np.allclose(*found, atol=1e-12)
