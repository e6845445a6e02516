"""Thousands of random studies (``make soak``), and a few of them on every run of the tests.

``SOAK_SEED=7 make soak`` tries others than those that are always tried,
``SOAK=0.1 make soak`` a tenth of them.
"""

import importlib
import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.soak.asking import asked
from tests.soak.choices import Drawn, Searched
from tests.soak.further import check_further
from tests.soak.invariance import check_invariant
from tests.soak.kills import gone_on, killed
from tests.soak.marks import check_outputs
from tests.soak.names import check_same, renamed
from tests.soak.orders import CLOSED, check_order
from tests.soak.precise import check_precision
from tests.soak.properties import check_every
from tests.soak.running import doubts_alone, results_of
from tests.soak.studies import MODELS, SAMPLED, study

pytestmark = pytest.mark.check

SEED = int(os.environ.get("SOAK_SEED", "0"))
SHARE = float(os.environ.get("SOAK", "1"))
BLOCKS = 8  # of examples, so that workers share them
EXACT = 1e-9
MANY = {  # examples of a block
    "DPMPM": 12,
    "CART": 110,
    "Forest": 30,
    "PMM": 80,
    "Regression": 50,
    "PoissonMixture": 12,
}
FEW = {"DPMPM": 2, "CART": 5, "Forest": 5, "PMM": 5, "Regression": 5, "PoissonMixture": 3}
ORDERED = {"CART": 3_200, "PMM": 300, "Regression": 300, "One class": 15}
NAMED = {"DPMPM": 8, "CART": 100, "Forest": 20, "PMM": 50, "Regression": 40, "PoissonMixture": 8}
HOW = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@pytest.fixture(scope="module", autouse=True)
def sampler():
    """PyTensor raises the recursion limit when it is imported, which hypothesis watches."""
    importlib.import_module("pymc")


def check_study(kind, choices, tally):
    """A random study gives results that keep to their definitions, or is refused by name."""
    one = study(choices, kind)
    with doubts_alone():
        results = results_of(one)
        tally.update(["studies", *results] if results else ["studies", "refused"])
        check_every(results)
        check_further(one, results)
        check_invariant(one, results)


def check_orders(kind, choices, tally):
    """Records, columns or levels in another order: the same risks."""
    one = study(choices, "DPMPM" if kind == "One class" else kind)
    if kind == "One class":  # closed form, unless records are imputed
        exact = replace(one.audit["intruder"], knows_records="all-but-target")
        model = replace(one.model, n_classes=1)
        one = replace(one, kind=kind, model=model, audit=one.audit | {"intruder": exact})
    with doubts_alone():
        tally.update(["studies", check_order(one, EXACT)])


def check_names(kind, choices, tally):
    """Columns and levels called otherwise: the same bytes."""
    one = study(choices, kind)
    with doubts_alone():
        results = results_of(one)
        tally.update(["studies", "compared" if results else "refused"])
        check_same(results, results_of(renamed(one)))


def shared(number):
    return max(round(SHARE * number), 1)


def many(check, kind, number, block, tally):
    """So many examples, found by hypothesis, which makes a failing one small."""

    @seed(1_000 * SEED + block)
    @settings(max_examples=shared(number), derandomize=False, **HOW)
    @given(st.data())
    def examples(data):
        check(kind, Searched(data), tally)

    examples()


@pytest.mark.parametrize("kind", MODELS)
def test_a_few_studies(kind, tally):
    @settings(max_examples=FEW[kind], derandomize=True, phases=[Phase.generate], **HOW)
    @given(st.data())
    def few(data):
        check_study(kind, Searched(data), tally)

    few()


@pytest.mark.parametrize("kind", CLOSED)
def test_a_few_orders(kind, tally):
    for number in range(4):
        check_orders(kind, Drawn(number), tally)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("DPMPM", 1),
        ("CART", 0),
        ("Forest", 5),
        ("PMM", 0),
        ("Regression", 0),
        ("PoissonMixture", 2),
    ],
)
def test_a_few_names(kind, number, tally):
    check_names(kind, Drawn(number), tally)
    assert tally["compared"]


@pytest.mark.soak
@pytest.mark.parametrize("block", range(BLOCKS), ids="block{}".format)
@pytest.mark.parametrize("kind", MODELS)
def test_studies(kind, block, tally):
    many(check_study, kind, MANY[kind], block, tally)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(2), ids="block{}".format)
@pytest.mark.parametrize("kind", SAMPLED)
def test_sampled_studies(kind, block, tally):
    for number in range(shared(5)):
        check_study(kind, Drawn(10**6 * SEED + 100 * block + number), tally)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(2), ids="block{}".format)
@pytest.mark.parametrize("kind", CLOSED)
def test_orders(kind, block, tally):
    many(check_orders, kind, ORDERED[kind], block, tally)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(2), ids="block{}".format)
@pytest.mark.parametrize("kind", MODELS)
def test_names(kind, block, tally):
    many(check_names, kind, NAMED[kind], block, tally)


# the last but one: a truth that is certain; the last: evidence without errors
@pytest.mark.parametrize("seed", [0, 3_000_009, 6_000_103])
def test_a_few_in_double_precision(seed, tally):
    check_precision(Drawn(seed), tally)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(4), ids="block{}".format)
def test_double_precision(block, tally):
    for number in range(shared(30)):
        check_precision(Drawn(10**6 * SEED + 100 * block + number), tally)


@pytest.mark.parametrize("seed", [8, 9])
def test_marks_of_a_few_runs(seed, tmp_path, tally):
    tally.update(["studies", check_outputs(Drawn(seed), tmp_path)])


@pytest.mark.soak
@pytest.mark.parametrize("block", range(4), ids="block{}".format)
def test_marks(block, tmp_path, tally):
    for number in range(shared(10)):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = check_outputs(Drawn(10**6 * SEED + 100 * block + number), folder)
        tally.update(["studies", done])


@pytest.mark.soak
@pytest.mark.parametrize(
    ("what", "model", "kills"),
    [("audit", "trees", 88), ("compare", "trees", 88), ("audit", "classes", 24)],
)
def test_kills(what, model, kills, tmp_path, tally):
    tally.update(killed(what, model, shared(kills), SEED, tmp_path))


@pytest.mark.parametrize("what", ["audit", "compare"])
def test_a_few_damaged_working_folders(what, tmp_path, tally):
    tally.update(gone_on(what, "trees", range(3), tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("what", "model", "folders"),
    [("audit", "trees", 40), ("audit", "classes", 40), ("compare", "trees", 20)],
)
def test_damaged_working_folders(what, model, folders, tmp_path, tally):
    first = 10**6 * SEED + 100
    tally.update(gone_on(what, model, range(first, first + shared(folders)), tmp_path))


def test_refusals_are_noted():
    """A study that is refused says why, and gives nothing."""
    one = study(Drawn(0), "CART")
    one.table.iloc[:, 0] = one.table.iloc[0, 0]
    assert asked(one, "fit", one.fit) is None or one.table.shape[1] > 1
