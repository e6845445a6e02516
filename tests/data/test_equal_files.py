"""A release in any kind of file and any spelling: the same numbers, or an error that names why."""

import datetime as dt
import json
from collections import Counter

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from typer.testing import CliRunner

from bayes_risk.app.cli import app
from tests.helpers.spellings import WAYS, usual

n = 60
RNG = np.random.default_rng(11)
PEOPLE = {
    "sex": [str(v) for v in RNG.choice(["f", "m"], n)],
    "text": [str(v) for v in RNG.choice(["Köln", "Paris", "new york", "Zürich"], n)],
    "whole": [int(v) for v in RNG.integers(-50, 500, n)],
    "real": [float(v) for v in RNG.normal(0, 10, n)],
    "date": [dt.date(1950, 1, 1) + dt.timedelta(int(v)) for v in RNG.integers(0, 20_000, n)],
}
KINDS = ("text", "whole", "real", "date")


def in_nanoseconds(table):
    """Dates as pyreadstat writes them: it takes those of any other unit for nanoseconds."""
    if len(table.select_dtypes("datetimetz").columns):
        raise TypeError("such files have no zones, and other instants would be written")
    return table.astype({c: "datetime64[ns]" for c in table.select_dtypes("datetime")})


WRITERS = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "csv.gz": lambda table, path: table.to_csv(path, index=False),
    "parquet": lambda table, path: table.to_parquet(path, index=False),
    "dta": lambda table, path: table.to_stata(path, write_index=False, version=118),
    "xlsx": lambda table, path: table.to_excel(path, index=False),
    "sav": lambda table, path: pyreadstat.write_sav(in_nanoseconds(table), str(path)),
    "xpt": lambda table, path: pyreadstat.write_xport(in_nanoseconds(table), str(path)),
}
CANNOT: tuple[type[Exception], ...] = (TypeError, ValueError, ArithmeticError, AttributeError)
CANNOT += (NotImplementedError, pyreadstat.PyreadstatError)


def numbers_of(original, release, folder):
    """The measures that the command prints, or its error."""
    out = folder / "numbers.json"
    out.unlink(missing_ok=True)
    keys = ["--known", "sex", "--synthesized", ",".join(KINDS), "--json", str(out)]
    done = CliRunner().invoke(app, ["identify", str(original), str(release), *keys])
    if done.exit_code:
        return None, " ".join((done.output + done.stderr).split())
    return json.loads(out.read_text())["measures"], ""


@pytest.mark.check
@pytest.mark.parametrize(
    "ending",
    [w if w in ("csv", "parquet") else pytest.param(w, marks=pytest.mark.slow) for w in WRITERS],
)
def test_numbers_do_not_depend_on_the_file(ending, tmp_path):
    order = RNG.permutation(n)
    made = {name: [PEOPLE[name][i] for i in order] for name in KINDS}
    half = {c: [*PEOPLE[c][: n // 2], *made[c][n // 2 :]] for c in KINDS}
    half["sex"] = PEOPLE["sex"]
    plain = pd.DataFrame(PEOPLE)
    release = pd.DataFrame({name: usual(name, half[name]) for name in PEOPLE if name != "sex"})
    release.insert(0, "sex", PEOPLE["sex"])
    original = tmp_path / "original.csv"
    plain.to_csv(original, index=False)
    release.to_csv(tmp_path / "release.csv", index=False)
    want, _ = numbers_of(original, tmp_path / "release.csv", tmp_path)
    equal = Counter()
    for way, (kinds, write) in WAYS.items():
        for kind in (kind for kind in KINDS if kind in kinds):
            table, path = release.assign(**{kind: write(half[kind])}), tmp_path / f"r.{ending}"
            try:
                WRITERS[ending](table, path)
            except CANNOT:
                continue  # such a file cannot hold it
            found, error = numbers_of(original, path, tmp_path)
            if found is None:
                assert f"'{kind}'" in error, (way, kind, error)
            else:
                assert found == want, (way, kind)
                equal[way] += 1
    assert len(equal) >= 10
