"""A hundred thousand damaged files (``make soak``), and a few of each kind on every run."""

import pytest

from tests.soak.broken import KINDS, soaked
from tests.soak.test_soak import BLOCKS, SEED, shared

MANY = {".csv": 20_000, ".csv.gz": 26_000}  # of the others 2,400
APART = 4  # of each block are read as users read them, in another process


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_broken_files(kind, tmp_path, tally):
    tally.update(soaked(kind, range(20), 0, tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(BLOCKS), ids="block{}".format)
@pytest.mark.parametrize("kind", KINDS)
def test_broken_files(kind, block, tmp_path, tally):
    n = shared(MANY.get(kind, 2_400) // BLOCKS)
    first = 10**6 * (SEED + 1) + n * block
    tally.update(soaked(kind, range(first, first + n), APART, tmp_path))
