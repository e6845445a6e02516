"""What people do with files: read one, compare releases, match, hand over draws."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._compat import draws_of_posterior
from bayes_risk.release.alike import read_like
from bayes_risk.release.synthpop import read_releases
from tests.soak.choices import Choices, chance, generator, pick
from tests.soak.files import draws_table, written

COLUMNS = ["x0", "x1", "x2"]
ENDS = (".csv", ".csv", ".csv.gz", ".parquet", ".parquet")
LATER = (".dta", ".sav", ".xpt", ".sas7bdat", ".txt", ".xlsx")


def one_table(choices: Choices, folder: Path) -> None:
    """`read_table` with some of its options."""
    path = written(choices, folder / f"a{pick(choices, ENDS)}", COLUMNS)
    if chance(choices, 12):
        path = path.rename(folder / f"a{pick(choices, LATER)}")
    how: dict[str, Any] = pick(
        choices,
        [
            {},
            {"index": "x0"},
            {"columns": ["x2", "x0"]},
            {"levels": {"x0": ["a", "b", "c"]}},
            {"levels": {"x1": [0, 1, 2, 3]}},
            {"na": ["NA", "t1"]},
            {"missing": "blank"},
        ],
    )
    table = br.read_table(path, **how)
    assert isinstance(table, pd.DataFrame) and table.columns.is_unique


def releases(choices: Choices, folder: Path) -> None:
    """An original, releases read as it was, and what an intruder finds in them."""
    end = pick(choices, ENDS)
    original = br.read_table(written(choices, folder / f"a{end}", COLUMNS))
    paths = [
        written(choices, folder / f"r{l}{pick(choices, [end, *ENDS])}", COLUMNS) for l in range(2)
    ]
    if chance(choices, 2):  # the original again, so that records correspond
        paths = [folder / f"a{end}"] * 2
    tables = read_releases(paths, original)
    read_like(paths[0], original)
    keys = [[], ["x0"], ["x0", "x1"]][choices.whole(0, 2)]
    rest = [c for c in COLUMNS if c not in keys]
    radius = {"x2": 0.5} if chance(choices, 4) else None
    risk = br.identification_risk(original, tables, known=keys, synthesized=rest, radius=radius)
    found: Any = risk.summary().get("expected_match_risk")
    if found is None:  # rows do not correspond
        assert any(len(table) != len(original) for table in tables)
    else:
        assert 0 <= found["pooled"] <= len(original)


def synthpop(choices: Choices, folder: Path) -> None:
    """A folder as ``write.syn`` leaves it, or nearly."""
    names = pick(choices, [["s_1.csv", "s_2.csv"], ["s.csv"], ["s_1.txt"], ["s_2.csv"], []])
    for name in names:
        written(choices, folder / name, COLUMNS)
    if chance(choices, 2):
        info = written(choices, folder / "info.csv", COLUMNS)
        text = b"Number of synthetic data sets: 2\nOutput file(s): (csv)\nMethods used:\n"
        body = info.read_bytes()
        info.unlink()
        lines = pick(choices, [b'x0 x1\n"cart" ""\n', b'"\n', body])
        (folder / "synthesis_info_s.txt").write_bytes(pick(choices, [text + lines, body, b""]))
    found = br.read_synthpop(folder)
    assert found.datasets


def matched_files(choices: Choices, folder: Path) -> None:
    """`identification_risk_of_files` on Parquet."""
    original = written(choices, folder / "a.parquet", COLUMNS)
    if chance(choices, 2):
        release = folder / "r.parquet"
        release.write_bytes(original.read_bytes())
    else:
        release = written(choices, folder / "r.parquet", COLUMNS)
    risk = br.identification_risk_of_files(
        original,
        [release],
        known=["x0"],
        synthesized=["x1", "x2"],
        batch=pick(choices, [500_000, 3]),
        id=pick(choices, [None, None, "x2", "nobody"]) if chance(choices, 4) else None,
    )
    pooled: Any = risk.summary().loc["pooled", "expected_match_risk"]
    assert 0 <= pooled <= risk.n


def draws(choices: Choices, folder: Path) -> None:
    """`Regression.from_draws` on tables, on a CSV of them, and on NetCDF."""
    rng = generator(choices)
    data = pd.DataFrame({"x": rng.normal(size=20), "y": rng.normal(size=20)})
    model = br.models.Regression({"x": "1", "y": "1 + x"})
    tables = {
        "x": draws_table(choices, ["Intercept", "sigma"]),
        "y": draws_table(choices, ["Intercept", "x", "sigma"]),
    }
    given: Any = tables
    way = choices.whole(0, 5)
    if way in (1, 2):
        for name, table in tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)
        given = {name: br.read_table(folder / f"{name}.csv") for name in tables}
    elif way >= 4:
        given = _netcdf(choices, folder, tables)
    elif way == 3:
        given = pick(choices, [None, [], {}, {"x": 5, "y": tables["y"]}, "draws.csv", tables["x"]])
    fit = model.from_draws(data, given)
    release = fit.synthesize(m=2, random_seed=1)
    assert np.isfinite(release.datasets[0].to_numpy()).all()


def _netcdf(choices: Choices, folder: Path, tables: dict[str, pd.DataFrame]) -> Any:
    """Draws through a NetCDF file, some of whose variables have another shape."""
    import arviz as az

    chains, n = pick(choices, [1, 2, 3]), whole_draws(choices)
    posterior: dict[str, Any] = {}
    rng = generator(choices)
    for name, table in tables.items():
        for column in table.columns:
            shape = (chains, n) if not chance(choices, 12) else (chains, n, 2)
            values = np.abs(rng.normal(size=shape)) + 0.1
            if chance(choices, 12):
                values.flat[0] = pick(choices, [np.nan, np.inf, -1.0])
            posterior[f"{name}: {column}"] = values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ArviZ, of more chains than draws
        idata = draws_of_posterior(posterior)
    path = folder / "draws.nc"
    idata.to_netcdf(str(path), engine="h5netcdf")
    return az.from_netcdf(str(path), engine="h5netcdf")


def whole_draws(choices: Choices) -> int:
    """Number of draws of a chain."""
    return pick(choices, [10, 1, 2, 4])


WAYS: dict[str, Callable[[Choices, Path], None]] = {
    "one table": one_table,
    "releases": releases,
    "synthpop": synthpop,
    "matched files": matched_files,
    "draws": draws,
}
