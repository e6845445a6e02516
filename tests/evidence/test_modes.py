"""Audits led by the release: evidence within a mode against enumeration of a table with two.

Columns a to d are alike, and so are e to h, independent of the others; two classes. A split by the
former or by the latter explains as much, and what lies between is millions of times less probable.
Basins are cut by hand.
"""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, gammaln, logsumexp

import bayes_risk as br
from bayes_risk._core.batches import chains_disagree, standard_error
from bayes_risk.evidence.evidence import Evidence
from bayes_risk.evidence.prior_weights import PriorWeights
from bayes_risk.models.mixture import modes as chains_led
from bayes_risk.models.mixture.modes import (
    FOUND_ON,
    Lengths,
    chains_below,
    draws_beside,
    group_modes,
    least,
    lengthened,
    scores,
)
from bayes_risk.models.mixture.state import Rows
from bayes_risk.risk.attribute import attribute_evidence
from bayes_risk.risk.posterior import Limits, error_over_modes, reliable, weigh
from tests.helpers.against import agree, gaps
from tests.helpers.fits import encoded

COPIES = 4
ALPHA = np.exp(np.linspace(-40, 4, 1500))  # the gamma prior of the concentration, on a grid
PRIOR = 0.25 * np.log(ALPHA) - 0.25 * ALPHA


def log_labels(first, second):
    """log p(z) of two classes with so many records, the concentration integrated out."""
    with np.errstate(divide="ignore"):
        logs = PRIOR + betaln(1.0 + first[:, None], ALPHA + second[:, None]) - betaln(1.0, ALPHA)
    top = logs.max(axis=1)
    return top + np.log(np.exp(logs - top[:, None]).sum(axis=1))


def log_total(rows, basin):
    """log sum over labels in a basin of p(rows, labels), rows (n, 8) of 0 and 1.

    ``basin``: whether the classes differ more in the first four columns ("first"), or in the last;
    None: all labels. Ties belong to neither.
    """
    cells, copies = np.unique(rows, axis=0, return_counts=True)
    states = np.array(list(product(*(range(c + 1) for c in copies))))  # of each, in class one
    log_w = (gammaln(copies + 1) - gammaln(states + 1) - gammaln(copies - states + 1)).sum(axis=1)
    n = states.sum(axis=1), (copies - states).sum(axis=1)
    ones = states @ cells, (copies - states) @ cells
    table = {pair: log_labels(*map(np.atleast_1d, pair))[0] for pair in set(zip(*n, strict=True))}
    log_w = log_w + np.array([table[pair] for pair in zip(*n, strict=True)])
    for size, one in zip(n, ones, strict=True):
        log_w = log_w + betaln(1.0 + one, 1.0 + size[:, None] - one).sum(axis=1)
    if basin is not None:
        share = [one / np.maximum(size, 1)[:, None] for size, one in zip(n, ones, strict=True)]
        by = np.abs(share[0] - share[1])
        more = by[:, :4].sum(axis=1) - by[:, 4:].sum(axis=1)
        log_w = log_w[more > 1e-9] if basin == "first" else log_w[more < -1e-9]
    return log_w.max() + np.log(np.exp(log_w - log_w.max()).sum())


def log_evidence(y, z, i, guesses, basin):
    """Exact log p(Z | y*, y_-i, basin) of guesses, relative to the first."""
    rest = np.delete(y, i, axis=0)
    out = []
    for guess in guesses:
        whole = np.vstack([rest, guess])
        out.append(log_total(np.vstack([whole, z]), basin) - log_total(whole, basin))
    return np.array(out) - out[0]


def table():
    cells = np.array([(a,) * 4 + (c,) * 4 for a in (0, 1) for c in (0, 1)])
    return np.repeat(cells, COPIES, axis=0)


FILE = pd.DataFrame(table(), columns=list("abcdefgh")).astype(str)


def fitted(seed, **length):
    length = {"draws": 60, "tune": 50, "chains": 4, "thin": 1, "splits": 2} | length
    with pytest.warns(br.TruncationWarning):
        return br.models.DPMPM(n_classes=2).fit(FILE, random_seed=seed, **length)


def audited(rows, seed, draws=400, made=False, **options):
    """The fit, and the audit of one record of a release of half the records, in all one file."""
    z, replaced = FILE.copy(), np.zeros(len(FILE), bool)
    replaced[::2] = True
    z.iloc[replaced] = np.asarray(rows).astype(str)
    fit = fitted(seed, draws=draws, tune=100, thin=2, splits=2 * (not made))
    release = br.Release(datasets=[z], synthesized=list(z), records=replaced, parameters="one-mode")
    if made:  # as if a draw in the mode that the release chooses had made it
        h = int(fit.log_release(encoded(fit, release)).argmax())
        release = replace(release, draw_index=(h,), maker=fit.digest)
    how = {"targets": [0], "prior": "uniform", "random_seed": seed, **options}
    return br.attribute_risk(fit, release, **how)


def agrees_with_first(risk, rows):
    """Log evidence of the first mode within 3.5 errors; that of both lies far from it."""
    assert risk.modes.kept == (0,)

    def exact(basin):
        return lambda i, guesses: log_evidence(table(), rows, i, guesses, basin)

    gap, error = agree(risk, exact("first"), most=3.5)
    assert np.abs(gaps(risk, exact(None))[0] - gap).max() > 10 * error.max()


def of_truth(risk, rows):
    """Probability of the truth under equal priors, in the first mode and the last."""
    logs = [
        log_evidence(table(), rows, 0, risk.guesses[:, 0], basin) for basin in ("first", "last")
    ]
    return [np.exp(log - logsumexp(log))[risk.truth[0]] for log in logs]


CHOOSES = np.array([(a,) * 4 + (c, c, d, d) for a in (0, 1) for c in (0, 1) for d in (0, 1)])
LEAVES_OPEN = table()[::2]


@pytest.mark.check
@pytest.mark.parametrize(("found_on", "made"), [(FOUND_ON, False), (12, False), (12, True)])
def test_evidence_is_that_of_the_mode_that_the_release_chooses(monkeypatch, found_on, made):
    """Whether it is found on all 24 rows of table and release or, at first, on some of them.

    Or chains start in it, at draws beside the one that made the release; cold ones beside them go
    uncounted here.
    """
    monkeypatch.setattr(chains_led, "FOUND_ON", found_on)
    if made:
        monkeypatch.setattr(Lengths, "starts", lambda self, own: (1, self.chains))
    risk = audited(CHOOSES, seed=3, made=made)
    assert len(risk.modes.mode) == 8 + made
    agrees_with_first(risk, CHOOSES)


def test_draws_of_the_fit_that_made_a_release_are_starts_and_those_of_another_are_not():
    one, other = (fitted(k, draws=24, tune=20, chains=2, splits=None) for k in (1, 2))
    release = one.synthesize(2, random_seed=3)
    assert release.maker == one.digest != other.digest
    rng = np.random.default_rng
    files = replace(release, maker=None, draw_index=None)
    for fit, given, made, chains in (
        (one, release, 6, 9),
        (other, release, 0, 6),
        (one, files, 0, 6),
    ):
        started = chains_led.ReleaseModes(fit).started(encoded(fit, given), rng=rng(4))
        assert (started[2], started[0].n_chains) == (made, chains)


def test_some_rows_of_a_stack_are_any_of_them():
    rng, positions = np.random.default_rng(1), np.repeat(np.arange(4), [1, 50, 300, 2000])
    rows = Rows(positions[:, None].astype(np.int32), *(np.empty((len(positions), 0)),) * 3)
    units = rows.units(power=0.5 + positions)
    assert units.thinned(len(positions), rng) is units
    held = np.zeros((500, 4))
    for k in range(500):
        some = units.thinned(235, rng)
        held[k, some.data.positions[:, 0]] = some.multiplicity
        assert (some.multiplicity > 0).all()
        assert (some.power == 0.5 + some.data.positions[:, 0]).all()
    expected, p = units.multiplicity, 235 / len(positions)
    error = np.sqrt(expected * p * (1 - p) / 500)
    assert (np.abs(held.mean(axis=0) - expected * p) < 4 * error).all()


def test_a_wanted_error_is_met_by_more_chains_of_the_mode():
    few = audited(CHOOSES, seed=6)
    wanted = 0.9 * np.quantile(few.mcse_log_evidence, 0.95)
    more = audited(CHOOSES, seed=6, target_mcse=wanted)
    assert np.quantile(more.mcse_log_evidence, 0.95) <= wanted
    first, chains = len(few.modes.used), len(more.modes.used)
    assert 4 <= first <= 8 < chains and more.deviations.shape[1] == 2 * chains
    assert more.modes.used[:first].tolist() == few.modes.used.tolist()  # and others beside them
    assert len(set(more.modes.used)) == chains
    agrees_with_first(more, CHOOSES)


@pytest.mark.parametrize(
    ("strays", "starts", "chains"), [(4, 8, 4), (5, 16, 8), (21, 24, 2), (23, 24, 8)]
)
def test_while_fewer_than_half_are_in_the_mode_more_start(monkeypatch, strays, starts, chains):
    def apart(value, error, log_release, *how):
        gone = np.arange(len(value)) < strays
        value, log_release = value.copy(), log_release.copy()
        value[gone] += 0.5 + np.arange(len(value))[gone].reshape(-1, *[1] * (value.ndim - 1))
        log_release[gone] -= 60.0 * (strays - np.arange(len(value))[gone])[:, None, None]
        return group_modes(value, error, log_release, *how)

    monkeypatch.setattr(chains_led, "group_modes", apart)
    modes = audited(CHOOSES, seed=6, draws=60).modes
    assert len(modes.mode) == starts
    assert len(modes.used) == chains
    assert modes.settled == (strays < 23)


def test_more_chains_span_the_modes_that_stay_open():
    how = {"draws": 60, "target_mcse": 1e-9, "max_doublings": 1}
    with pytest.warns(br.UnreliableWeightsWarning):  # the error wanted is not met
        risk = audited(LEAVES_OPEN, seed=4, **how)
    assert len(risk.modes.used) == 16 and len(risk.modes.kept) == 2
    low, high = risk.records.loc[0, ["low", "high"]]
    assert all(low <= p <= high for p in of_truth(risk, LEAVES_OPEN))


def test_refits_start_from_all_the_chains(monkeypatch):
    monkeypatch.setattr("bayes_risk.evidence.runner.khat_threshold", lambda n_draws: 0.0)
    how = {"draws": 250, "target_mcse": 1e-9, "max_doublings": 1}
    with pytest.warns(br.UnreliableWeightsWarning):
        risk = audited(CHOOSES, seed=6, **how)
    assert risk.khat.tolist() == [0] and risk.deviations.shape[1] == 2 * len(risk.modes.used)
    assert len(risk.modes.used) > 8
    agrees_with_first(risk, CHOOSES)


def fit_that_keeps_its_basins():
    """A fit whose chains stay in either basin, and a release of all records that chooses one."""
    z = pd.DataFrame(np.tile(CHOOSES, (2, 1)), columns=FILE.columns).astype(str)
    fit = fitted(2, draws=240, chains=8, splits=0)
    return fit, encoded(fit, br.Release(datasets=[z], synthesized=list(z)))


def test_a_chain_that_leaves_the_mode_goes_back_to_where_it_was():
    fit, coded = fit_that_keeps_its_basins()
    first, last = basin_of(fit.posterior) == 1, basin_of(fit.posterior) == -1
    assert first.any() and last.any()
    rng = np.random.default_rng
    tables = fit.posterior.tables(coded)
    said = scores(fit.posterior, tables, rng(2))[0]
    limit = least(said[first])
    assert np.array_equal(chains_below(said, limit), last)
    mixed = fit.posterior.of_chains(np.array([first.argmax(), last.argmax()]))
    told = []
    longer = lengthened(
        mixed, coded, limit, 4, rng=rng(3), progress=lambda *step: told.append(step[1:])
    )
    done = [done for done, _ in told]
    assert done == sorted(done) and done[-1] == told[-1][1]  # the whole, with tries that failed
    assert done[-1] > told[0][1] >= 3 * mixed.n_draws
    again = lengthened(mixed.of_chains(np.array([0])), coded, limit, 4, rng=rng(4))
    assert longer.n_draws == mixed.n_draws == 2 * again.n_draws
    assert (basin_of(again) == 1).all() and not chains_below(
        scores(again, tables, rng(5))[0], limit
    ).any()
    assert chains_below(scores(longer, tables, rng(6))[0], limit).tolist() == [False, True]
    size = mixed.n_draws // 2  # the other never stayed: it stands where it was
    assert np.isin(longer.draws.alpha[size:], mixed.draws.alpha[size:]).all()
    assert not np.isin(longer.draws.alpha[size // 4 : size], mixed.draws.alpha[:size]).any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ["fresh", "kept", "own", "zeros", "zeros, kept"])
def test_data_sets_together_are_as_probable_as_one_by_one(case):
    rng = np.random.default_rng(8)
    df = pd.DataFrame(rng.integers(0, 3, (60, 4)), columns=list("abcd")).astype(str)
    df.loc[df["a"] == "0", "b"] = "0"
    rules = [{"a": "0", "b": ["1", "2"]}] if "zeros" in case else []
    how = {"impossible": br.Impossible(rules)} if rules else {}
    fit = br.models.DPMPM(n_classes=4, **how).fit(df, draws=12, tune=10, chains=2, random_seed=1)
    kept = ["b", "c"] if "kept" in case else None
    classes = "own" if "own" in case else "new"
    release = encoded(fit, fit.synthesize(3, kept, classes=classes, random_seed=2))
    posterior = fit.posterior
    each = posterior.log_release(release, None)
    (tables,) = posterior.tables(release, together=True)
    together = posterior.log_tables([tables], posterior.draws)
    assert each.shape == (3, posterior.n_draws) and together.shape == (1, posterior.n_draws)
    assert together[0] == pytest.approx(each.sum(axis=0), rel=1e-12)
    by_row = fit.log_release(release.first(1), np.array([5]))
    assert by_row[0, 0] == pytest.approx(each[0, 5], rel=1e-12)


def test_a_chain_is_outside_that_was_there_for_a_quarter():
    inside = np.random.default_rng(2).normal(-300, 5, (5, 24))
    limit = least(inside)
    for begin in range(0, 24, 6):
        quarter = inside[:, begin : begin + 6].copy()
        assert not chains_below(quarter, limit).any()
        quarter[1, 4] -= 20  # one low draw is none
        assert not chains_below(quarter, limit).any()
        quarter[3, 3:] -= 100
        assert chains_below(quarter, limit).tolist() == [False, False, False, True, False]


def basin_of(posterior):
    """1 where the classes of a chain differ more in the first four columns, -1 in the last."""
    phi = posterior.draws.phi[:, :16].reshape(posterior.n_draws, 8, 2, 2)
    by = np.abs(phi[:, :, 1, 0] - phi[:, :, 1, 1])
    more = by[:, :4].sum(axis=1) - by[:, 4:].sum(axis=1)
    return np.sign(np.median(more.reshape(posterior.n_chains, -1), axis=1)).astype(int)


def test_data_sets_of_one_mode_come_from_draws_that_find_the_first_as_probable():
    rng = np.random.default_rng(3)
    said = np.concatenate([rng.normal(-500, 5, 60), rng.normal(-300, 5, 40)])
    said[70] = -100.0  # the draw that made it finds it more probable than all others

    def log_release(release, which):
        assert which.tolist() == list(range(100, 200))
        return np.stack([said - 1, np.ones(100)])

    chain = SimpleNamespace(n_draws=300, n_chains=3, log_release=log_release)
    found = draws_beside(chain, None, 170, 4)
    assert set(found) <= set(range(160, 200)) - {170} and len(found) >= 36
    lone = SimpleNamespace(n_draws=10, n_chains=1, log_release=lambda release, which: -9.0 * EDGE)
    assert sorted(draws_beside(lone, None, 0, 9)) == list(range(1, 10))


EDGE = np.array([[0.0, 1, 1, 1, 1, 1, 1, 1, 1, 900]])


def test_chains_put_back_are_counted(monkeypatch):
    def once(*args, **kwargs):
        return replace(lengthened(*args, **kwargs), put_back=1)

    monkeypatch.setattr(chains_led, "lengthened", once)
    risk = audited(CHOOSES, seed=3, draws=60)
    assert risk.modes.put_back >= 1
    assert "chains that left their mode were restarted" in risk.assumptions["evidence"]
    assert "10 nats plus three standard errors excludes a mode" in risk.tables()["modes"].caption


def test_where_the_release_leaves_the_mode_open_the_interval_spans_both():
    risk = audited(LEAVES_OPEN, seed=4)
    low, high = risk.records.loc[0, ["low", "high"]]
    both = of_truth(risk, LEAVES_OPEN)
    assert len(risk.modes.kept) == 2 and "does not distinguish" in risk.assumptions["evidence"]
    assert low <= min(both) and max(both) <= high
    assert np.abs(np.sort(risk.by_mode[:, 0]) - np.sort(both)).max() < 0.01
    assert risk.reliable.tolist() == [np.ptp(both) <= 0.05]
    rows = risk.summary()["value"]
    assert rows[["modes", "modes_open"]].tolist() == [len(risk.modes.table), 2]
    p, error = risk.records.loc[0, ["probability", "mcse_log_bayes_factor"]]
    changes = np.log(both) - np.log1p(-np.array(both)) - np.log(p / (1 - p))
    assert np.abs(changes).max() <= 2.5 * error


def test_privacy_loss_has_the_errors_of_led_chains_and_reaches_open_modes():
    fit = fitted(4)
    release = br.Release(datasets=[FILE], synthesized=list(FILE), parameters="one-mode")
    evidence = attribute_evidence(fit, release, targets=[0], random_seed=4)
    loss = br.privacy_loss(evidence)
    losses = [np.ptp(one.log_evidence.sum(axis=0)[:, 0]) for one in evidence.found.apart]
    assert len(losses) == 2
    assert np.abs(losses - loss.loss[0]).max() <= 2 * loss.mcse[0]
    alone = replace(evidence, found=replace(evidence.found, apart=()))
    total = evidence.found.log_evidence.sum(axis=0)[:, 0]
    pair = evidence.found.deviations[:, :, [total.argmax(), total.argmin()], 0].astype(float)
    led = standard_error(pair[..., 0] - pair[..., 1], few=True)
    assert br.privacy_loss(alone).mcse[0] == pytest.approx(float(led))


def test_the_first_of_two_data_sets_is_spanned_by_itself():
    fit = fitted(4)
    release = br.Release(datasets=[FILE] * 2, synthesized=list(FILE), parameters="one-mode")
    both = attribute_evidence(fit, release, targets=[0], random_seed=4)
    one = both.first(1)
    assert len(both.found.apart) == len(one.found.apart) == 2
    for of_both, of_one in zip(both.found.apart, one.found.apart, strict=True):
        assert np.array_equal(of_one.log_evidence, of_both.log_evidence[:1])
    low, high = one.risk("uniform", warn=False).records.loc[0, ["low", "high"]]
    for mode in one.found.apart:
        p = np.exp(mode.log_evidence[0, :, 0])
        assert low <= p[one.cases.guesses.truth[0]] / p.sum() <= high


def starts(modes, noise, seed=0):
    """What starts in these modes say of 200 guesses, and their errors."""
    rng = np.random.default_rng(seed)
    said = rng.normal(0, 1, (max(modes) + 1, 200))[list(modes)]
    error = rng.normal(0, noise, said.shape)
    return said + rng.normal(0, noise, said.shape), error


def test_strays_are_told_from_the_mode_that_the_release_favours():
    value, error = starts((0, 1, 0, 0), noise=0.05)
    favoured = np.array([[-100.0, -101], [-160, -161], [-102, -100], [-101, -102]])
    found = group_modes(value, error, favoured[:, None], chains=4)
    assert found.mode.tolist() == [0, 1, 0, 0] and found.kept == (0,)
    assert found.discarded.tolist() == [1] and found.used.tolist() == [0, 2, 3]
    assert found.distance[0, 1] > 0.5 > 0.07 > found.distance[0, 2]
    assert found.sentence().startswith("3 of 4 chains") and "1 discarded" in found.sentence()


def test_starts_that_say_the_same_are_of_two_modes_if_the_release_says_so():
    value, error = starts((0, 0, 0, 0), noise=0.05)
    favoured = np.array([[-100.0, -101], [-160, -161], [-102, -100], [-101, -102]])
    found = group_modes(value, error, favoured[:, None], chains=4)
    assert found.mode.tolist() == [0, 1, 0, 0] and found.kept == (0,)


def test_a_start_whose_halves_differ_joins_no_others():
    value, error = starts((0, 0, 1, 1, 2), noise=0.02)
    value[4], error[4] = 0.5 * (value[0] + value[2]), 0.5 * (value[0] - value[2])
    found = group_modes(value, error, np.full((5, 1, 2), -100.0), chains=4)
    assert len(set(found.mode[[0, 2, 4]])) == 3


def test_the_favoured_mode_need_not_be_the_commonest():
    value, error = starts((0, 0, 0, 1), noise=0.02)
    favoured = np.array([[-160.0, -161], [-162, -160], [-161, -162], [-100, -101]])
    found = group_modes(value, error, favoured[:, None], chains=4)
    assert found.mode.tolist() == [1, 1, 1, 0] and found.used.tolist() == [3]


def test_modes_within_the_error_of_the_release_stay_and_take_turns():
    value, error = starts((0, 0, 0, 1, 1, 1), noise=0.02)
    favoured = -100.0 + np.array([[0, 3], [2, 1], [1, 0], [-3, -1], [-2, 1], [0, -2]])
    found = group_modes(value, error, favoured[:, None], chains=4)
    assert found.kept == (0, 1) and found.used.tolist() == [0, 1, 3, 4]
    assert [chains.tolist() for chains in found.chains_by_mode] == [[0, 1], [2, 3]]


def test_of_more_modes_than_chains_those_that_chains_are_in_are_spanned():
    value, error = starts(tuple(range(6)), noise=0.02)
    found = group_modes(value, error, np.full((6, 1, 2), -100.0), chains=3)
    assert len(found.kept) == 6 and [len(c) for c in found.chains_by_mode] == [1, 1, 1]


def test_which_mode_made_which_data_set_is_told():
    value, error = starts((0, 0, 1, 1), noise=0.02)
    first, second = np.array([-100.0, -101.0]), np.array([-140.0, -141.0])
    favoured = np.array([[first, first, second], [first, first, second]])  # of three data sets
    favoured = np.concatenate([favoured, favoured[:, [2, 1, 0]]])
    favoured[:, 1] = first  # says nothing
    favoured[2:, 0] -= 20
    found = group_modes(value, error, favoured, chains=4)
    assert found.mode.tolist() == [0, 0, 1, 1] and found.chosen.tolist() == [0, -1, 1]
    assert found.kept == (0,) and "considered alone, data set 3 chooses another" in found.sentence()
    table = found.table
    assert table["starts"].tolist() == [2, 2] and table["chains"].tolist() == [2, 0]
    assert table["log_release"].tolist() == [0, -20] and table["open"].tolist() == [True, False]
    assert table["data_sets"].tolist() == ["1", "3"] and table.index.tolist() == [1, 2]


def test_of_more_chains_those_carried_on_before_stay_unless_they_have_strayed():
    value, error = starts((0, 0, 1, 0, 1, 1), noise=0.02)
    level = np.full((6, 1, 2), -100.0)
    carried = np.array([2, 0])
    found = group_modes(value, error, level, chains=4, resumed=carried)
    assert found.used.tolist() == [2, 0, 1, 4]
    ruled_out = level - 60.0 * np.array([0, 0, 1, 0, 1, 1])[:, None, None]
    found = group_modes(value, error, ruled_out, chains=4, resumed=carried)
    assert found.used.tolist() == [0, 1, 3] and found.discarded.tolist() == [2, 4, 5]


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_noise_alone_makes_no_modes(noise):
    value, error = starts((0,) * 8, noise=noise)
    found = group_modes(value, error, np.zeros((8, 1, 2)), chains=4)
    assert found.mode.tolist() == [0] * 8 and len(found.used) == 4


def weighed(deviations, odds=0.0, led=True):
    """One record, a truth and another guess: what chains (F, B) say, from this log odds."""
    found = Evidence(
        log_evidence=np.array([0.0, -odds])[None, :, None],
        deviations=np.stack([np.zeros_like(deviations), deviations], axis=2)[..., None],
        khat=np.zeros(1),
        ess=np.full(1, np.inf),
        base=np.zeros((2, 1)),
        modes=group_modes(*starts((0,) * 4, 0.0), np.zeros((4, 1, 2)), 4) if led else None,
    )
    prior = PriorWeights(log_p=np.log(np.full((2, 1), 0.5)))
    truth, none = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=bool)
    return found, weigh(found, prior, truth, np.full(1, -np.inf), none)


LIMITS = Limits(log_odds=10.0, khat=0.7, ess=0.0)


def trusted(main, *apart):
    """Whether the record is, of what is found in all chains and in those of each mode."""
    of_modes = [weights for _, weights in apart]
    found = reliable(*main, LIMITS, of_modes)
    return bool(found[0])


@pytest.mark.parametrize(
    ("odds", "expected"),
    [
        ((0.0, 0.1), True),  # 0.50 and 0.525
        ((0.0, 0.3), False),  # 0.50 and 0.57
        ((-7.0, -5.0), True),  # seven times as much, and both below 0.01
        ((-4.0, -2.0), False),  # 0.02 and 0.12
    ],
)
def test_modes_make_a_record_unreliable_where_their_range_matters_and_not_elsewhere(odds, expected):
    quiet = np.zeros((1, 8))
    apart = np.repeat([[0.0, 1.0]], 4, axis=0).T.reshape(1, 8) * (odds[0] - odds[1])
    both = weighed(apart - apart.mean(), sum(odds) / 2)
    assert trusted(both, *(weighed(quiet, one) for one in odds)) is expected


def test_modes_say_the_same_of_records_released_unchanged():
    one, other = (
        SimpleNamespace(log_truth=np.log([1.0, p]), mcse_log_bayes_factor=np.array([0.0, 0.1]))
        for p in (0.5, 0.25)
    )
    assert error_over_modes([one, other]) == pytest.approx([0.0, 0.5 * np.log(3) + 0.1])


@pytest.mark.parametrize("led", [True, False])
def test_chains_that_disagree_about_a_record_are_not_only_printed(led):
    """Whether or not the release has led them: R-hat, record by record."""
    rng = np.random.default_rng(3)
    noise = 0.02 * rng.normal(size=(2, 8))
    apart = noise.copy()
    apart[0] += np.repeat([0.4, -0.4, 0.3, -0.3], 2)
    assert trusted(weighed(noise, -2.0, led))
    assert not trusted(weighed(apart, -2.0, led))


@pytest.mark.parametrize(
    ("odds", "led", "target", "expected"),
    [
        (-7.0, True, 1.0, True),  # 0.001: the interval is narrow whatever chains say of the odds
        (-7.0, True, 0.5, False),  # but the error of the odds was asked for
        (-7.0, False, 1.0, False),  # errors of chains of modes unknown say less
        (-1.0, True, 1.0, False),  # 0.27: the interval is wide
    ],
)
def test_rough_odds_make_a_record_unreliable_where_its_interval_is_wide(
    odds, led, target, expected
):
    chains = np.repeat([2.0, -2.0, 1.5, -1.5], 2)[None]
    found, weights = weighed(chains, odds, led)
    assert weights.disagreed[0] and weights.mcse_log_odds[0] > 0.9
    limits = LIMITS._replace(log_odds=target)
    assert bool(reliable(found, weights, limits, [])[0]) is expected


def factor(deviations):
    """By how much errors of chains of one mode are wider."""
    plain = standard_error(deviations, few=False)
    return standard_error(deviations, few=True) / np.where(plain > 0, plain, 1.0)


def test_errors_of_few_chains_have_students_factor():
    rng = np.random.default_rng(1)
    chains = np.repeat(rng.normal(size=(1, 4, 500)), 2, axis=1)  # halves alike: three degrees
    assert factor(chains) == pytest.approx(3.18245 / 1.95996, rel=1e-3)
    many = np.concatenate([chains, np.zeros((3, 8, 500))])  # fits without error bring none
    assert factor(many) == pytest.approx(3.18245 / 1.95996, rel=1e-3)
    assert (standard_error(np.zeros((2, 8, 3)), few=True) == 0).all()


def test_chains_that_differ_beyond_their_halves_are_marked_and_seldom_others():
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(4, 8, 20_000))
    false = chains_disagree(noise).mean()
    assert false < 0.001 + 3 * np.sqrt(0.001 / 20_000)
    apart = noise + 30 * np.repeat(rng.normal(size=(4, 4, 20_000)), 2, axis=1)
    assert chains_disagree(apart).mean() > 0.95


def test_starts_that_the_release_finds_less_and_less_probable_are_not_one_mode():
    """Each is near the one before, the last is far below the first."""
    rng = np.random.default_rng(3)
    value = np.cumsum(rng.normal(0, 0.05, (8, 200)), axis=0)
    error = rng.normal(0, 0.01, value.shape)
    favoured = -100.0 - 30.0 * np.arange(8.0)[:, None] + rng.normal(0, 3.0, (8, 2))
    found = group_modes(value, error, favoured[:, None], chains=3)
    assert not found.settled and found.kept == (0, 1, 2) and found.used.tolist() == [0, 1, 2]
    assert "better ones may remain" in found.sentence()
    assert (np.diff(found.mode) > 0).all()
    made = np.arange(8) == 0  # a draw of the fit that made the release
    for know in ({"made": made}, {}):
        if not know:  # or the best is found again
            value[1], favoured[1] = value[0], favoured[0]
        found = group_modes(value, error, favoured[:, None], chains=3, **know)
        assert found.settled and found.kept == (0,)
        assert found.used.tolist() == ([0] if know else [0, 1])
