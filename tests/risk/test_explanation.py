"""Contributions of data sets and columns: they add up, and are those of closed forms and limits."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

import bayes_risk as br
from bayes_risk import InputError
from bayes_risk._core.formats import NONE
from bayes_risk._core.logspace import log_sum
from bayes_risk.app.output import output_folder, write_run
from bayes_risk.evidence import contract
from bayes_risk.risk.explanation import shared_out
from tests.app.test_cli import screen
from tests.evidence import test_by_column as models
from tests.helpers.edge_results import MARK, attribute, study_result
from tests.helpers.fits import fit_of, release_of
from tests.oracles.regression_oracle import guess_values, log_evidence

ROUNDING = 1e-8
FITS = {
    "regression": lambda: models.regression()[2],
    "forest": models.forest,
    "matching": models.matching,
    "plug-in": models.plug_in,
}


def with_sums(cells):
    """x (m + 1, k + 1, G) of cells (m, k, G)."""
    by_release = np.concatenate([cells, cells.sum(axis=1, keepdims=True)], axis=1)
    return np.concatenate([by_release, by_release.sum(axis=0, keepdims=True)])


def total(x, log_pi):
    return -log_sum(log_pi - x[-1, -1])


def drawn(m=3, k=2, G=5, scale=2.0, seed=1):
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(m, k, G)), np.log(rng.dirichlet(np.ones(G)))


# --- the sum, closed forms, limits, invariance -----------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0, 1e4])
def test_contributions_add_up(scale):
    cells, log_pi = drawn(scale=scale, G=40)
    found, ruled_out = shared_out(with_sums(cells), log_pi)
    assert not ruled_out.any()
    assert np.allclose(found[-1, -1], total(with_sums(cells), log_pi), rtol=ROUNDING)
    size = np.abs(found).max()
    assert np.allclose(found[:-1].sum(axis=0), found[-1], atol=ROUNDING * size)
    assert np.allclose(found[:, :-1].sum(axis=1), found[:, -1], atol=ROUNDING * size)


def test_a_belief_that_the_release_overturns_still_adds_up():
    """Priors of 1e-40 that the release brings to the front: the weights turn within t = 0.01."""
    cells, _ = drawn(G=3, scale=1000.0)
    log_pi = np.array([0.0, -90.0, -30.0])
    found, _ = shared_out(with_sums(cells), log_pi - log_sum(log_pi))
    assert np.allclose(found[-1, -1], total(with_sums(cells), log_pi - log_sum(log_pi)))


def test_against_one_other_guess_they_are_its_log_likelihood_ratios():
    cells, _ = drawn(G=1)
    found, _ = shared_out(with_sums(cells), np.zeros(1))
    assert np.allclose(found[:-1, :-1], cells[..., 0], atol=ROUNDING)


def test_against_two_they_have_a_closed_form():
    """w = 1 - (log(pi_1 e^{-d} + pi_2) - log 1) / ... integrates to a log, d = x_1 - x_2."""
    cells, log_pi = drawn(G=2)
    x_1, x_2 = cells.sum(axis=(0, 1))
    pi = np.exp(log_pi)
    # w_1(t) = pi_1 e^{-td} / (pi_1 e^{-td} + pi_2) = -1/d d/dt log(pi_1 e^{-td} + pi_2)
    w_1 = -np.log(pi[0] * np.exp(-(x_1 - x_2)) + pi[1]) / (x_1 - x_2)
    found, _ = shared_out(with_sums(cells), log_pi)
    assert np.allclose(found[:-1, :-1], cells @ [w_1, 1 - w_1], atol=ROUNDING)


def test_they_are_the_integrals_of_the_mean_log_ratio():
    cells, log_pi = drawn()
    found, _ = shared_out(with_sums(cells), log_pi)

    def mean(t, l, c):
        w = np.exp(log_pi - t * cells.sum(axis=(0, 1)))
        return w @ cells[l, c] / w.sum()

    for l, c in itertools.product(range(3), range(2)):
        assert found[l, c] == pytest.approx(quad(mean, 0, 1, args=(l, c))[0], abs=ROUNDING)


def test_guesses_ruled_out_are_the_limit_of_guesses_hardly_possible():
    """A guess in one data set by one column, another by both columns, a third in two data sets."""
    cells, log_pi = drawn(G=6)
    steep = cells.copy()
    K = 1e7
    for (l, c, g), share in {
        (0, 1, 0): 1.0,
        (1, 0, 1): 0.5,
        (1, 1, 1): 0.5,
        (0, 0, 2): 0.5,
        (2, 0, 2): 0.5,
    }.items():
        cells[l, c, g] = np.inf
        steep[l, c, g] = share * K
    found, ruled_out = shared_out(with_sums(cells), log_pi)
    limit, _ = shared_out(with_sums(steep), log_pi)
    assert np.allclose(found, limit, atol=1e-5)
    assert np.allclose(found[-1, -1], total(with_sums(cells), log_pi))
    pi = np.exp(log_pi)
    expected = [[pi[2] / 2, pi[0]], [pi[1] / 2, pi[1] / 2], [pi[2] / 2, 0.0]]
    assert np.allclose(ruled_out[:-1, :-1], expected)
    assert ruled_out[-1, -1] == pytest.approx(pi[:3].sum())


def test_order_does_not_matter():
    cells, log_pi = drawn()
    cells[1, 0, 2] = np.inf
    found, _ = shared_out(with_sums(cells), log_pi)
    rng = np.random.default_rng(3)
    l, c, g = rng.permutation(3), rng.permutation(2), rng.permutation(5)
    other, _ = shared_out(with_sums(cells[l][:, c][..., g]), log_pi[g])
    assert np.allclose(other[:-1, :-1], found[:-1, :-1][l][:, c], atol=ROUNDING)


# --- of audits -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("large", [False, True])
def test_of_an_audit_they_add_up_to_its_log_bayes_factor(name, large, monkeypatch):
    monkeypatch.setattr(contract, "CELLS", 1 if large else contract.CELLS)
    risk = FITS[name]().risk(warn=False)
    for label, row in risk.records.iterrows():
        found = risk.explain(label)
        parts = found.contributions.to_numpy()
        assert found.total == pytest.approx(row["log_bayes_factor"], abs=ROUNDING)
        assert np.isnan(parts[:-1, :-1]).all() == large
        if np.isfinite(found.total):
            assert parts[:-1, -1].sum() == pytest.approx(found.total, abs=ROUNDING)
            assert parts[-1, :-1].sum() == pytest.approx(found.total, abs=ROUNDING)
            if not large:
                assert np.allclose(parts[:-1].sum(axis=0), parts[-1], atol=ROUNDING)
                assert np.allclose(parts[:, :-1].sum(axis=1), parts[:, -1], atol=ROUNDING)
        assert (found.mcse == 0).all()


def test_of_normal_regressions_by_their_marginal_likelihoods():
    """One other guess for two columns: its log likelihood ratios, column by column."""
    df, release, evidence = models.regression()
    for other in (2, 9):
        prior = np.zeros(15)
        prior[[7, other]] = 0.3, 0.7  # the truth, in the middle of 5 x 3, and one other guess
        risk = evidence.risk(prior)
        for label, u in zip(risk.index, risk.case, strict=True):
            found, values = risk.explain(label).contributions, guess_values(risk, u)
            i = df.index.get_loc(label)
            for l, (name, part) in itertools.product(range(2), models.PARTS.items()):
                Z = [release.datasets[l]]
                truth, rival = (log_evidence([part], df, Z, i, values[g]) for g in (7, other))
                assert found.at[l + 1, name] == pytest.approx(truth - rival, abs=1e-6)


def test_of_margins_by_counts():
    """Dirichlet-multinomial: a guess adds 1 to its level, log (a + z) / a."""
    df = pd.DataFrame({"a": list("xxxyyz"), "b": list("ppqqqq")})
    fit = br.models.Marginals().fit(df)
    release = fit.synthesize(m=3, random_seed=1)
    i = 0
    risk = br.attribute_risk(
        fit, release, guesses={"a": br.Levels(), "b": br.Levels()}, prior="uniform", targets=[i]
    )
    found = risk.explain(i)
    others = list(itertools.product("xyz", "pq"))[1:]

    def ratio(l, c, level):
        out = []
        for one in (df[c][i], level):
            known = (df[c].drop(i) == one).sum() + fit.model.level_prior
            out.append(np.log1p((release.datasets[l][c] == one).sum() / known))
        return out[0] - out[1]

    cells = [
        [[ratio(l, c, g[j]) for g in others] for j, c in enumerate(("a", "b"))] for l in range(3)
    ]
    expected, _ = shared_out(with_sums(np.array(cells)), np.full(5, -np.log(5)))
    assert np.allclose(found.contributions.to_numpy(), expected, atol=ROUNDING)


@pytest.mark.check
@pytest.mark.parametrize("weights", [np.ones(15), np.arange(1.0, 16.0)])
def test_sampled_contributions_agree_with_exact_ones(weights):
    df, release, exact = models.regression()
    fit = models.REGRESSION.fit(df, draws=500, chains=2, random_seed=3)
    how = {"guesses": models.GRIDS, "targets": [0, 5, 8], "evidence": "predictive"}
    evidence = br.attribute_evidence(fit, release, random_seed=4, **how)
    given, risk = evidence.risk(weights), exact.risk(weights)
    for label in risk.index:
        found, true = given.explain(label), risk.explain(label)
        off = (found.contributions - true.contributions).abs()
        assert (off["all columns"] < 4 * found.mcse).all()
        assert (off.to_numpy() < 4 * found.mcse["all"]).all()
        assert found.mcse["all"] == given.records["mcse_log_bayes_factor"].loc[label]
        predictive = evidence.risk("predictive")
        parts = predictive.explain(label).contributions.iloc[:-1]["all columns"]
        expected = predictive.records["log_bayes_factor"].loc[label]
        assert parts.sum() == pytest.approx(expected, abs=ROUNDING)


def test_joint_models_are_told_by_data_set_alone():
    risk = br.attribute_risk(fit_of("DPMPM"), release_of("DPMPM"), targets=3, random_seed=1)
    found = risk.explain(risk.index[0])
    assert list(found.contributions) == ["all columns"]
    assert "Not by column: this evidence has no factor" in found.sentence()
    parts = found.contributions["all columns"]
    assert parts.iloc[:-1].sum() == pytest.approx(parts["all"], abs=ROUNDING)
    assert (found.mcse > 0).all()
    row = found.contributions.index[0]
    value, error = found.part(row).split(" +- ")
    assert float(value) == pytest.approx(parts[row], abs=0.005)
    assert float(error.removeprefix("< ")) == pytest.approx(2 * found.mcse[row], abs=0.01)


# --- refusals and words ----------------------------------------------------------------------


SETTLED = {
    "released unchanged": attribute(disclosed=[True] * 4),
    "the prior settles it": dataclasses.replace(
        attribute(), log_prior=np.repeat([[-np.inf], [0.0], [-np.inf]], 4, axis=1)
    ),
    "the release rules out its true values": dataclasses.replace(
        attribute(), log_probability=np.repeat([[-np.inf], [0.0], [-np.inf]], 4, axis=1)
    ),
}


@pytest.mark.parametrize("why", SETTLED)
def test_what_is_settled_has_no_parts(why):
    risk = SETTLED[why]
    with pytest.raises(InputError, match=f"nothing to explain of record 2: .*{why}"):
        risk.explain(2)
    several = dataclasses.replace(risk, log_evidence=np.repeat(risk.log_evidence, 2, axis=0))
    assert {row[1:] for row in several.tables()["explained"].rows} == {(NONE,) * 3}


def test_records_that_are_not_there_are_refused():
    with pytest.raises(InputError, match="record 9 is not among the 4 targets"):
        attribute().explain(9)


def test_where_nothing_else_is_possible_they_say_what_is_ruled_out():
    risk = models.matching().risk()
    found = risk.explain(15)
    assert np.isinf(found.total)
    assert found.ruled_out.at["all", "all columns"] == 1
    row, column = found.most()
    assert found.part(row) == f"{100 * found.ruled_out.at[row, 'all columns']:.1f} %"
    assert found.sentence().endswith("%): shares in excluding every other guess.")
    assert f"Mainly from data set {row} (" in found.sentence()
    assert column in found.ruled_out


def test_what_only_speaks_against_the_truth_gives_nothing_away():
    risk = models.regression()[2].risk()
    found = risk.explain(8)
    assert (found.contributions < 0).all(axis=None)
    assert found.most() == (None, None)
    assert "Mainly" not in found.sentence()


def several(**options):
    """Three data sets, of which the second says all."""
    risk = attribute(**options)
    zero = np.zeros_like(risk.log_evidence)
    return dataclasses.replace(
        risk, log_evidence=np.concatenate([zero, risk.log_evidence, zero]), factors="one of many"
    )


def test_the_report_names_what_gives_the_worst_records_away(tmp_path):
    risk = several(labels=["r1", "r2", "r3", "r4"], mcse=0.01)
    rows = risk.tables()["explained"].rows
    assert [row[0] for row in rows] == ["r3", "r2", "r4", "r1"]
    assert rows[0][-1] == "2 (0.29)"
    page = br.report(risk, tmp_path / "report.html").read_text()
    assert "Why they are at risk" in page and "2 (0.29)" in page
    assert MARK not in page
    assert risk.line() == "Worst record: mainly from data set 2 (0.29)"
    assert risk.line() in [line.rstrip() for line in screen(study_result(risk=risk), 80)]
    assert "away" not in str(br.redact(risk, min_count=3).table)


def test_one_data_set_of_a_joint_model_has_nothing_to_share_out():
    assert "explained" not in attribute().tables()


def test_a_run_writes_them(tmp_path):
    with output_folder(tmp_path / "out") as folder:
        write_run(folder, study_result(risk=several(labels=["=1", "b", "c", "d"])), command="")
    found = pd.read_csv(tmp_path / "out" / "explained.csv", index_col="record")
    assert (found["from_data_set"] != "").all()
    assert np.allclose(found["data_set_2"], found["log_bayes_factor"])
    assert "'=1" in found.index
