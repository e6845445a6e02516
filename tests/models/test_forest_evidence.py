"""Random forests: the evidence of a release against brute force."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.models.trees.forest import Forest
from tests.oracles.forest_by_hand import (
    CHAINS,
    MASK,
    VOTES,
    check,
    evidence,
    evidence_by_hand,
    log_p_by_hand,
    relabelled,
    table,
    targets_of,
)


@pytest.mark.check
@pytest.mark.parametrize("dirichlet", [0.0, 0.7])
@pytest.mark.parametrize("votes", VOTES)
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize(("records", "min_leaf"), [(None, 4), (MASK, 1)])
def test_evidence_is_that_of_the_whole_product(chain, votes, dirichlet, records, min_leaf):
    model = Forest(
        ["b", "a", "c"],
        n_trees=25,
        min_leaf=min_leaf,
        votes=votes,
        dirichlet=dirichlet,
        chain=chain,
    )
    fit = model.fit(table(), records=records, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    listed = pd.DataFrame(
        [("no", "x", "p"), ("yes", "x", "t"), ("no", "z", "q"), ("yes", "y", "r")],
        columns=list("bac"),
    )
    guesses = br.Listed(listed, add_truth=True)
    found = check(fit, release, targets_of(fit, release, [5, 6, 10], guesses))
    assert np.unique(found).size > 4


def test_evidence_of_single_columns_each_guess():
    fit = Forest(["b", "a", "c"], n_trees=25).fit(table(seed=3), random_seed=1)
    for columns in (["a"], ["c", "b"]):
        release = fit.synthesize(m=2, columns=columns, random_seed=2)
        assert list(release.synthesized) == sorted(columns, key=["b", "a", "c"].index)
        check(fit, release, targets_of(fit, release, [0, 7], br.Neighbourhood(1)))


@pytest.mark.parametrize("votes", VOTES)
def test_evidence_where_every_column_is_synthesised(votes):
    df = table()[["a", "b", "c"]]
    fit = Forest(["c", "a", "b"], n_trees=25, votes=votes).fit(df, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    check(fit, release, targets_of(fit, release, [0, 7], br.Neighbourhood(1)))


def test_evidence_where_columns_are_replaced_for_different_records():
    masks = {"a": MASK, "b": np.arange(24) < 20}
    fit = Forest("amount", n_trees=25).fit(table(), records=masks, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    targets = targets_of(fit, release, [1, 4, 21, 22])
    found = evidence(fit, release, targets)
    wanted = evidence_by_hand(fit, release, targets)
    truth = fit.microdata.codes[targets.record][:, targets.columns]
    differs = targets.guesses.codes != truth  # shape (G, U, q)
    kept = ~np.column_stack([masks[c] for c in ("b", "a")])[targets.record]
    disclosed = (differs & kept[:, [0, 1] if release.synthesized[0] == "b" else [1, 0]]).any(axis=2)
    assert disclosed.any() and not disclosed.all()
    assert np.isneginf(found[:, disclosed]).all()
    np.testing.assert_allclose(found[:, ~disclosed], wanted[:, ~disclosed], rtol=0, atol=1e-9)


def test_a_leaf_that_the_guess_empties_votes_as_the_node_above():
    """Most leaves of full trees hold one record; a guess as predictor takes it out of them."""
    df = table(n=12, seed=5)
    fit = Forest(["a", "b"], n_trees=12).fit(df, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    targets = targets_of(fit, release, np.arange(12))
    codes, emptied = fit.microdata.codes, 0
    for trees in fit.forests:
        for u, record in enumerate(targets.record):
            genuine = codes.copy()
            genuine[record, targets.columns] = targets.guesses.codes[-1, u]
            for before, after in zip(
                relabelled(trees, codes), relabelled(trees, genuine), strict=True
            ):
                emptied += int(((before >= 0) & (after < 0)).sum())
    assert emptied > 20
    check(fit, release, targets)


def test_a_value_that_only_the_target_can_have_given_is_certain_disclosure():
    rng = np.random.default_rng(0)
    df = pd.DataFrame(
        {
            "rare": ["common"] * 59 + ["rare"],
            "x": rng.permutation(60),
            "w": rng.integers(3, size=60),
        }
    )
    fit = Forest(["rare"], n_trees=200).fit(df, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    shown = fit.microdata.decode(fit.microdata.codes)
    neighbour = int(np.argmax(rare_votes(fit)[:-1, 1]))
    for records, disclosed in [([], False), ([59], True), ([neighbour], True)]:
        z = shown.copy()
        z["rare"] = "common"
        z.loc[records, "rare"] = "rare"
        found = evidence(
            fit,
            replace(release, datasets=[z]),
            targets_of(fit, release, [59, 3]),
        )
        assert np.isneginf(found[0, 1, 0]) == disclosed
        assert found[0, 0].tolist() == [0.0, 0.0]
        assert np.isfinite(found[0, :, 1]).all()
        risk = br.attribute_risk(
            fit, replace(release, datasets=[z]), targets=[59], evidence="exact"
        )
        assert (risk.records["probability"].iloc[0] == 1.0) == disclosed


def rare_votes(fit):
    trees = fit.forests[0]
    return trees.votes(trees.encoded(fit.microdata.codes), out_of_bag=False)


def test_smoothed_votes_prove_nothing():
    df = table()
    fit = Forest(["a", "b"], n_trees=25, dirichlet=0.01).fit(df, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    assert np.isfinite(evidence(fit, release, targets_of(fit, release, np.arange(24)))).all()


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_blocks_and_threads_change_nothing(monkeypatch, n_jobs):
    import bayes_risk.models.trees.forest as chunks
    import bayes_risk.models.trees.forest_trees as threads

    model, df = Forest(["a", "b"], n_trees=25), table(n=40)
    fit = model.fit(df, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    targets = targets_of(fit, release, np.arange(40))
    wanted = evidence(fit, release, targets)
    monkeypatch.setattr(chunks, "BLOCK", 7)
    monkeypatch.setattr(chunks, "SHOWN_BYTES", 1)
    monkeypatch.setattr(threads, "MIN_ROWS", 3)
    parallel = model.fit(df, random_seed=1, n_jobs=n_jobs)
    again = parallel.synthesize(m=3, random_seed=2)
    for one, other in zip(release.datasets, again.datasets, strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert evidence(parallel, again, targets).tobytes() == wanted.tobytes()


def test_refit_is_a_forest_grown_on_the_guess():
    df = table(n=40)
    model = Forest(["b", "a"], n_trees=15, dirichlet=0.5)
    fit = model.fit(df, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    targets = targets_of(fit, release, [3, 9], br.Neighbourhood(1))
    found = evidence(fit, release, targets, "refit")
    for u, record in enumerate(targets.record):
        for g, guess in enumerate(targets.guesses.codes[:, u]):
            codes = fit.microdata.codes.copy()
            codes[record, targets.columns] = guess
            guessed = fit.microdata.decode(codes)
            again = model.fit(guessed, random_seed=1)
            wanted = log_p_by_hand(again, release, codes)
            np.testing.assert_allclose(found[:, g, u], wanted, rtol=0, atol=1e-9)


def test_refit_and_exact_agree_where_the_structure_does_not_depend_on_the_target():
    """Trees that cannot be split: every leaf is the root."""
    df = table(n=40)
    fit = Forest(["b", "a"], n_trees=30, min_leaf=40).fit(df, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    targets = targets_of(fit, release, [3, 9])
    exact, refit = (evidence(fit, release, targets, how) for how in ("exact", "refit"))
    np.testing.assert_allclose(exact, refit - refit[:, :1], rtol=0, atol=1e-9)


def test_risk_is_the_posterior_of_the_evidence():
    df = table(n=40)
    fit = Forest(["a", "b"], n_trees=50, dirichlet=0.1).fit(df, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    found = evidence(fit, release, targets_of(fit, release, [4], br.Neighbourhood(1))).sum(axis=0)
    risk = br.attribute_risk(fit, release, targets=["r4"], evidence="exact")
    p = np.exp(found[:, 0] - found.max())
    assert risk.records["probability"].iloc[0] == pytest.approx(p[0] / p.sum())


def test_records_with_equal_values_have_their_own_evidence():
    df = table(n=40)
    df["number"] = 0.5 * (df["a"] == "x")
    fit = Forest(["a", "b"], n_trees=50, dirichlet=0.1).fit(df, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    codes = fit.microdata.codes
    twins = np.flatnonzero((codes == codes[0]).all(axis=1))
    found = evidence(fit, release, targets_of(fit, release, twins, br.Neighbourhood(1)))[0]
    p = np.exp(found[0] - np.logaddexp.reduce(found, axis=0))
    assert len(twins) > 1 and np.ptp(p) > 0.01
    risk = br.attribute_risk(fit, release, targets=df.index[twins].tolist(), evidence="exact")
    np.testing.assert_allclose(risk.records["probability"], p)
