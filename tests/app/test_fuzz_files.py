"""Tables and draws gone wrong: always a result, or an error that names what is wrong."""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk.app.cli import app
from tests.soak.choices import Drawn
from tests.soak.damaged import kept
from tests.soak.files import many_levels, written
from tests.soak.reading import COLUMNS, WAYS

# what the reader says of files that are not plain ones
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(so it is text|a field more|blanks for|is read (with|as))"
)

ROOT = Path(__file__).resolve().parents[2]
SEED = 10**6 * int(os.environ.get("SOAK_SEED", "0"))
SHARE = float(os.environ.get("SOAK", "1"))
SECONDS = 10.0  # for one example, of files of at most 0.5 MB
FEW = {"one table": 30, "releases": 12, "synthpop": 25, "matched files": 12, "draws": 6}
MANY = {"one table": 1_500, "releases": 600, "synthpop": 4_000, "matched files": 800}
BLOCKS = 4


def check(way, seeds, folder, seconds=float("inf")):
    """Every example ends, in time if that is asked, and never in anything but a named error."""
    for seed in seeds:
        inside = folder / str(seed)
        inside.mkdir()
        started = time.process_time()
        try:
            WAYS[way](Drawn(seed), inside)
        except (br.InputError, br.ModelError) as error:
            assert 10 < len(str(error)) <= 2_000
        assert time.process_time() - started < seconds, seed


@pytest.mark.check
@pytest.mark.parametrize("way", WAYS)
def test_a_few_files(way, tmp_path):
    check(way, range(FEW[way]), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("way", WAYS)
def test_many_files(way, block, tmp_path):
    n = round(SHARE * MANY.get(way, 600) / BLOCKS)
    check(way, range(SEED + 1_000 + block * n, SEED + 1_000 + (block + 1) * n), tmp_path, SECONDS)


@pytest.mark.parametrize("seed", range(10))
def test_a_few_damaged_steps(seed, tmp_path):
    kept(Drawn(seed), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(BLOCKS))
def test_many_damaged_steps(block, tmp_path):
    first = SEED + 1_000 + 100 * block
    for seed in range(first, first + round(100 * SHARE)):
        (tmp_path / str(seed)).mkdir()
        kept(Drawn(seed), tmp_path / str(seed))


@pytest.mark.soak
def test_damaged_files_of_draws_in_a_process_of_their_own(tmp_path):
    """A reader that crashes on a file would take the tests with it."""
    program = [
        sys.executable,
        "-m",
        "tests.soak.damaged",
        str(SEED),
        str(SEED + round(160 * SHARE)),
    ]
    done = subprocess.run(
        [*program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert json.loads(done.stdout)["read"] > 0


@pytest.mark.check
def test_a_hundred_thousand_levels_in_time_and_memory(tmp_path):
    """3 MB of text: read within seconds and 500 MB, and refused as a key by name."""
    path = tmp_path / "a.csv"
    path.write_bytes(many_levels(100_000))
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    table = br.read_table(path)
    assert table["x0"].nunique() == 100_000
    with pytest.raises(br.InputError, match="x0"):
        br.models.DPMPM(n_classes=2).fit(table, draws=4, tune=0, chains=2)
    risk = br.identification_risk(table, [table], known=["x1"], synthesized=["x0", "x2"])
    assert risk.summary().loc["pooled", "expected_match_risk"] == 100_000
    assert time.process_time() - started < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


@pytest.mark.parametrize("seed", range(10))
def test_command_line_ends_with_nought_or_two(seed, tmp_path):
    choices = Drawn(seed)
    original = written(choices, tmp_path / "a.csv", COLUMNS)
    release = written(choices, tmp_path / "r.csv", COLUMNS)
    keys = ["--known", "x0", "--synthesized", "x1,x2"]
    told = CliRunner().invoke(app, ["identify", str(original), str(release), *keys])
    assert told.exit_code in (0, 2), told.output
    if told.exit_code == 2:
        errors = [line.startswith("bayes-risk: ") for line in told.stderr.splitlines()]
        assert errors[-1] and sum(errors) == 1  # below what reading the files said
        assert "Traceback" not in told.output


# --- found by such files ---------------------------------------------------------------------


def parquet(tmp_path, column, **more):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    table = pa.table({"x": column, **more})
    pq.write_table(table, path)
    return path, table


def test_lists_in_cells_are_refused_by_name(tmp_path):
    path, _ = parquet(tmp_path, [[1], [2]])
    with pytest.raises(br.InputError, match="'x'.*lists"):
        br.read_table(path)
    with pytest.raises(br.InputError, match="'x' of the original is stored as list"):
        br.identification_risk_of_files(path, [path], known=[], synthesized=["x"])


def test_decimals_are_numbers_and_keep_their_values_as_levels(tmp_path):
    import decimal

    path, _ = parquet(tmp_path, [decimal.Decimal("1.00"), decimal.Decimal("2.00")])
    assert br.read_table(path)["x"].tolist() == [1.0, 2.0]
    table = br.read_table(path, levels={"x": [0, 1, 2]})
    assert table["x"].tolist() == [1, 2]


def test_levels_of_another_type_do_not_become_missing(tmp_path):
    path, _ = parquet(tmp_path, [True, False])
    with pytest.raises(br.InputError, match="'x'"):
        br.read_table(path, levels={"x": ["True", "False"]})


def test_broken_metadata_of_pandas_is_refused(tmp_path):
    import pyarrow.parquet as pq

    path, table = parquet(tmp_path, [1, 2])
    for text in (b"{}", b"not json", b'{"columns": 5, "index_columns": ["x"]}'):
        pq.write_table(table.replace_schema_metadata({b"pandas": text}), path)
        with pytest.raises(br.InputError, match="not a readable Parquet"):
            br.read_table(path)


@pytest.mark.parametrize(
    ("values", "why"), [(["a", "b"], "finite numbers"), ([1e308, 1.0], r"at most 1e\+30")]
)
def test_draws_of_text_or_beyond_reason_are_refused_by_name(values, why):
    draws = pd.DataFrame({"Intercept": values, "sigma": [1.0, 1.0]})
    model = br.models.Regression({"x": "1"})
    with pytest.raises(br.InputError, match=f"'Intercept' of 'x' must be {why}"):
        model.from_draws(pd.DataFrame({"x": [1.0, 2.0, 4.0]}), {"x": draws})
