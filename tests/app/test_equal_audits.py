"""Whole audits of one release in any spelling, storage and file: the same numbers, or an error."""

import datetime as dt
import json
from collections import Counter
from functools import cache

import numpy as np
import pytest
from typer.testing import CliRunner

from bayes_risk.app.cli import app
from tests.data.test_equal_files import CANNOT, WRITERS
from tests.helpers.spellings import WAYS, Plain, frame

n = 60
RNG = np.random.default_rng(3)
PEOPLE: Plain = {
    "sex": [str(v) for v in RNG.choice(["f", "m"], n)],
    "text": [str(v) for v in RNG.choice(["Köln", "Paris", "new york", "Zürich"], n)],
    "code": [str(v) for v in RNG.choice(["007", "012", "A1"], n)],
    "truth": [bool(v) for v in RNG.random(n) < 0.5],
    "whole": [int(v) for v in RNG.integers(1, 400, n)],
    "amount": [round(float(v), 2) for v in RNG.lognormal(7, 1, n)],
    "date": [dt.date(1950, 1, 1) + dt.timedelta(int(v)) for v in RNG.integers(0, 20_000, n)],
}
KINDS = {name: "text" if name == "sex" else name for name in PEOPLE}
ORDER = {
    c: RNG.permutation(np.arange(n // 2, n)) if c != "sex" else np.arange(n // 2, n) for c in PEOPLE
}
MADE = {c: [*v[: n // 2], *(v[i] for i in ORDER[c])] for c, v in PEOPLE.items()}
STUDIES = {
    "trees": """
random_seed = 1
[data]
path = "people.csv"
days = ["date"]
[model]
kind = "CART"
order = ["text", "code", "truth", "whole", "amount", "date"]
bootstrap = "none"
floor = 1e-5
[release]
files = ["{file}"]
columns = ["text", "code", "truth", "whole", "amount", "date"]
[attribute]
targets = 4
knows_columns = ["whole", "amount", "date"]
[identification]
known = ["sex"]
synthesized = ["text", "whole", "amount", "date"]
radius = {{ amount = 0.1 }}
[utility]
[context]
keys = ["sex", "text"]
target = "truth"
""",
    "classes": """
random_seed = 1
[data]
path = "people.csv"
columns = ["sex", "text", "code", "truth"]
[model]
kind = "DPMPM"
n_classes = 3
draws = 40
tune = 40
[release]
files = ["{file}"]
columns = ["text", "code", "truth"]
[attribute]
targets = 4
[identification]
known = ["sex"]
synthesized = ["text", "code"]
[utility]
[context]
keys = ["sex", "text"]
target = "truth"
""",
}


def audited(study, file, folder):
    """All numbers of the summary, or the error."""
    (folder / "study.toml").write_text(STUDIES[study].format(file=file))
    done = CliRunner().invoke(
        app, ["audit", str(folder / "study.toml"), "-o", str(folder / "out"), "--overwrite"]
    )
    if done.exit_code:
        return None, " ".join((done.output + done.stderr).split())
    found = json.loads((folder / "out" / "summary.json").read_text())
    return numbers_in({**found, "study": None}), ""


def numbers_in(found):
    """A summary without sentences, and without the notes of how files were read."""
    if isinstance(found, dict):
        kept = {key: of for key, of in found.items() if key not in ("sentence", "notes")}
        return {key: numbers_in(of) for key, of in kept.items()}
    return [numbers_in(of) for of in found] if isinstance(found, list) else found


def writable(ending, path, table):
    """By column the ways in which such a file can hold it."""
    found = {}
    for name in MADE:
        found[name] = []
        for way, (kinds, write) in WAYS.items():
            if KINDS[name] in kinds and name != "sex":
                try:
                    WRITERS[ending](table.assign(**{name: write(MADE[name])}), path)
                except CANNOT:
                    continue
                found[name].append(way)
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What the study finds in the files as they are, once for all spellings of them."""
    folder = tmp_path_factory.mktemp("plain")
    frame(KINDS, PEOPLE).to_csv(folder / "people.csv", index=False)
    frame(KINDS, MADE).to_csv(folder / "plain.csv", index=False)
    return cache(lambda study: audited(study, "plain.csv", folder))


def respelled(plain, study, ending, rounds, folder):
    """Audit releases whose columns are all in another form: how many were equal, by form."""
    table, path = frame(KINDS, MADE), folder / f"r.{ending}"
    frame(KINDS, PEOPLE).to_csv(folder / "people.csv", index=False)
    want, error = plain(study)
    assert want is not None, error
    ways, equal = writable(ending, path, table), Counter()
    for turn in rounds:
        left = {name: of[turn % len(of)] for name, of in ways.items() if of}
        found = None
        while found is None and left:
            made = {name: WAYS[way][1](MADE[name]) for name, way in left.items()}
            WRITERS[ending](table.assign(**made), path)
            found, error = audited(study, path.name, folder)
            if found is None:  # a named column goes back to its plain form
                named = [name for name in left if f"'{name}'" in error]
                assert named, (left, error)
                left = {name: way for name, way in left.items() if name not in named}
        assert found is None or found == want, left
        equal.update(left.values())
    return equal


@pytest.mark.check
@pytest.mark.parametrize("study", STUDIES)
def test_an_audit_does_not_depend_on_the_spelling(plain, study, tmp_path):
    assert respelled(plain, study, "csv", range(1), tmp_path)


@pytest.mark.check
@pytest.mark.parametrize(
    "ending",
    [
        e if e in ("csv", "dta", "parquet") else pytest.param(e, marks=pytest.mark.slow)
        for e in WRITERS
    ],
)
def test_no_audit_depends_on_spelling_and_file(plain, ending, tmp_path):
    start = list(WRITERS).index(ending)
    assert len(respelled(plain, "trees", ending, range(start, start + 1), tmp_path)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("ending", WRITERS)
def test_no_audit_depends_on_many_spellings_and_files(plain, ending, tmp_path):
    start = 3 * list(WRITERS).index(ending)
    equal = respelled(plain, "trees", ending, range(start, start + 3), tmp_path)
    equal += respelled(plain, "classes", ending, range(start, start + 1), tmp_path)
    assert len(equal) >= 10
