"""Thousands of random studies (``make soak``), and a few of them on every run of the tests.

``SOAK_SEED=7 make soak`` tries others than those that are always tried.
"""

import importlib
import os

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.soak.choices import Searched
from tests.soak.invariance import check_invariant
from tests.soak.properties import check_every
from tests.soak.running import doubts_alone, results_of
from tests.soak.studies import MODELS, study

SEED = int(os.environ.get("SOAK_SEED", "0"))
BLOCKS = 8  # of examples, so that workers share them
MANY = {  # examples of a block: about 20 minutes in all on two cores
    "DPMPM": 12,
    "CART": 90,
    "Forest": 90,
    "PMM": 90,
    "Regression": 90,
    "PoissonMixture": 40,
}
FEW = {"DPMPM": 2, "CART": 5, "Forest": 5, "PMM": 5, "Regression": 5, "PoissonMixture": 3}
HOW = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@pytest.fixture(scope="module", autouse=True)
def sampler():
    """PyTensor raises the recursion limit when it is imported, which hypothesis watches."""
    importlib.import_module("pymc")


def check_study(kind, data):
    """A random study gives results that keep to their definitions, or is refused by name."""
    one = study(Searched(data), kind)
    with doubts_alone():
        results = results_of(one)
        check_every(results)
        check_invariant(one, results)


@pytest.mark.parametrize("kind", MODELS)
def test_a_few_studies(kind):
    @settings(max_examples=FEW[kind], derandomize=True, phases=[Phase.generate], **HOW)
    @given(st.data())
    def few(data):
        check_study(kind, data)

    few()


@pytest.mark.soak
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("kind", MODELS)
def test_thousands_of_studies(kind, block):
    @seed(1_000 * SEED + block)
    @settings(max_examples=MANY[kind], derandomize=False, **HOW)
    @given(st.data())
    def many(data):
        check_study(kind, data)

    many()
