"""Names of columns, levels and records: whatever text they are, or refused before any work."""

from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console

import bayes_risk as br
from bayes_risk import models
from bayes_risk._compat import plain_name
from bayes_risk.app.output import write_run
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.terminal import print_result

TWICE = pd.DataFrame([["x", 1, "p"], ["y", 2, "q"], ["x", 3, "q"]], columns=["a", "n", "a"])
ONCE = TWICE.iloc[:, :2]
KEYS: dict[str, Any] = {"known": ["a"], "synthesized": ["n"]}

# Trouble of paths, markup, formats, encodings, and words of our own; no two are the same text.
NAMES = [
    "income/month", "//", "..", ".", "", " ", " x", "x ", "tab\tline\nend\r", "'\"`\\", "%s{}{0}",
    "[bold]", "[/bold]", "<b>&amp;", "\N{GRINNING FACE}", "e\N{COMBINING ACUTE ACCENT}",
    "\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{RIGHT-TO-LEFT OVERRIDE}abc", "long" * 100,
    "__class", "draw", "chain", "phi", "class", "index", "Index", "1", "1.5", "(missing)", "~",
]  # fmt: skip


@pytest.mark.parametrize(
    "use",
    [
        lambda: models.DPMPM().fit(TWICE),
        lambda: models.PoissonMixture().fit(TWICE),
        lambda: models.CART(["a"]).fit(TWICE),
        lambda: models.Forest(["a"]).fit(TWICE),
        lambda: models.PMM(["n"], identifying=["n"]).fit(TWICE),
        lambda: models.Regression({"n": "a"}).fit(TWICE),
        lambda: br.Release(datasets=[TWICE], synthesized=["n"]),
        lambda: br.identification_risk(TWICE, [ONCE], **KEYS),
        lambda: br.identification_risk(ONCE, [TWICE], **KEYS),
        lambda: br.utility(TWICE, [ONCE]),
        lambda: br.utility(ONCE, [TWICE]),
        lambda: br.context_measures(ONCE, [ONCE], keys=["a"], holdout=TWICE),
        lambda: br.compare({"as it is": [TWICE]}, ONCE, identification=KEYS, utility=None),
        lambda: br.release_bounds(TWICE, synthesized=["n"]),
        lambda: br.dominance(TWICE, "n", "a"),
        lambda: br.uniqueness(TWICE, ["a"], fraction=0.1),
    ],
)
def test_a_column_that_stands_there_twice_is_named(use):
    with pytest.raises(br.InputError, match="'a'.* more than once; rename or drop one"):
        use()


@pytest.mark.parametrize(
    ("column", "level", "label", "message"),
    [
        ("a\0b", "x", "i", r"column 'a\\x00b' holds a NUL character .*give it another name"),
        ("\ud800", "x", "i", r"column '\\ud800' holds .*half of a surrogate pair"),
        (3, "x", "i", r"column 3 is named by a int; give .*df.rename\(columns=str\)"),
        (("a", "b"), "x", "i", "is named by a tuple; give columns names that are text"),
        ("a/b", "x", "i", "differ in the kind of their slash alone"),
        ("v", "x\0", "i", "column 'v': level number 2 holds a NUL character"),
        ("v", "\udfff", "i", "column 'v': level number 2 holds"),
        ("v", "x", "\0", "record label number 1 holds a NUL character"),
    ],
)
def test_names_that_no_file_of_results_can_hold_are_refused(column, level, label, message):
    columns = pd.Index([column, "a\N{DIVISION SLASH}b"], dtype=object, tupleize_cols=False)
    values = [[level, "p"], ["u", "q"], ["u", "q"]]
    index = pd.Index([label, "j", "k"], dtype=object)
    with pytest.raises(br.InputError, match=message):
        br.Microdata.from_frame(pd.DataFrame(values, index, columns, dtype=object))


MADE = NAMES[:2]
KINDS = {
    "DPMPM": {"n_classes": 2, "draws": 20, "tune": 5, "chains": 2},
    "PoissonMixture": {"n_classes": 2, "draws": 20, "tune": 5, "chains": 2},
    "Regression": {"formulas": dict.fromkeys(MADE, "1"), "draws": 20},
    "CART": {"order": MADE},
    "Forest": {"order": MADE, "n_trees": 4},
    "PMM": {"order": MADE, "identifying": MADE, "threshold": 6},
}


@pytest.mark.parametrize(("key", "label"), [("a\0", "i"), ("a", "\ud800")])
def test_matching_refuses_them_too(key, label):
    table = ONCE.rename(columns={"a": key}).set_axis(pd.Index([label, "j", "k"], dtype=object))
    with pytest.raises(br.InputError, match="holds a NUL character or half of a surrogate pair"):
        br.identification_risk(table, [table], known=[key], synthesized=["n"])


def _table(numbers):
    """All names as columns and, where they are categories, as levels; labels of them too."""
    rng, levels = np.random.default_rng(1), [name for name in NAMES if name]
    n = 2 * len(levels)
    columns = {
        name: rng.integers(1, 4, n)
        if numbers
        else np.resize(levels if name in MADE else levels[j % 20 : j % 20 + 2 + j % 2], n)
        for j, name in enumerate(NAMES)
    }
    return pd.DataFrame(columns, index=pd.Index([f"{name} {i}" for i in (1, 2) for name in levels]))


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=pytest.mark.slow) if k in ("DPMPM", "Regression") else k for k in KINDS],
)
def test_every_model_runs_to_the_end_with_all_of_them(kind, tmp_path):
    numbers = kind in ("PoissonMixture", "PMM")
    table = _table(numbers)
    table.to_csv(tmp_path / "a.csv", index_label="who/is")
    content = {
        "random_seed": 1,
        "data": {"path": str(tmp_path / "a.csv"), "index": "who/is"},
        "model": {"kind": kind} | KINDS[kind],
        "release": {"m": 1, "columns": MADE}
        | ({"classes": "own"} if kind == "PoissonMixture" else {}),
        "attribute": {"targets": 3, "refit_budget": 0},
        "identification": {"known": NAMES[2:], "synthesized": MADE},
        "output": {"confidential": True, "release": True, "keep_labels": True},
    }
    if numbers:
        grid = {"values": [1, 2, 3]}
        content["attribute"] |= {"guesses": dict.fromkeys(MADE, grid)}
    result = run_study(parse_study(content))
    write_run(tmp_path, result)
    with xr.open_dataset(tmp_path / "risk.nc", group="attribute_risk", engine="h5netcdf") as held:
        assert held["variable"].values.tolist() == MADE
        assert set(held["record"].values) <= set(table.index)
    with StringIO() as shown:
        print_result(result, [], console=Console(file=shown))
    released = pd.read_csv(tmp_path / "synthetic-1.csv", index_col=0, keep_default_na=False)
    assert released.index.tolist() == table.index.tolist()


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
@pytest.mark.parametrize("kind", ["DPMPM", "Regression"])
def test_draws_are_written_whatever_columns_are_called(kind, tmp_path):
    table = _table(False)[MADE]
    model = models.DPMPM(n_classes=2) if kind == "DPMPM" else models.Regression({MADE[0]: "1"})
    fit = model.fit(table, draws=20, tune=5, chains=2, random_seed=1)
    fit.idata.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    assert (tmp_path / "draws.nc").stat().st_size


def test_names_that_pymc_would_take_for_paths_or_for_its_own():
    from bayes_risk.models.mixture.pymc_mixture import levels_name

    table = pd.DataFrame({"a/b": ["x", "y", "x"], "v": ["p", "q", "q"]})
    assert levels_name("a/b") == "levels_a\N{DIVISION SLASH}b"
    assert plain_name(levels_name("a/b")) == "levels_a/b"
    with pytest.raises(br.InputError, match="column '__class__' ends in two underscores.*rename"):
        models.DPMPM(n_classes=2).fit(table.rename(columns={"v": "__class__"}), draws=4, chains=2)
