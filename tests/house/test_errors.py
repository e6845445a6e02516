"""Messages say what was given, what would be right, what to do; docstrings name the cure."""

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core import errors, validate
from bayes_risk._core.errors import (
    DisplacedRiskWarning,
    InputError,
    MemoryCeilingError,
    ModelError,
    TruncationWarning,
    UnreliableWeightsWarning,
)
from bayes_risk.app.cli import OfCommand
from bayes_risk.app.study.keys import Keys

CLASSES = [
    c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, BaseException)
]


def test_three_errors_and_three_warnings_are_all_there_is():
    warnings = {DisplacedRiskWarning, TruncationWarning, UnreliableWeightsWarning}
    assert set(CLASSES) == {InputError, MemoryCeilingError, ModelError} | warnings


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (InputError, ValueError),
        (MemoryCeilingError, MemoryError),
        (ModelError, RuntimeError),
        (DisplacedRiskWarning, UserWarning),
        (TruncationWarning, UserWarning),
        (UnreliableWeightsWarning, UserWarning),
    ],
)
def test_they_can_be_caught_as_what_they_are(error, base):
    assert issubclass(error, base)


def test_an_old_name_is_an_error_that_names_the_new():
    with pytest.raises(AttributeError, match="is now bayes_risk.DisplacedRiskWarning"):
        br.RiskRoseWarning  # noqa: B018


@pytest.mark.parametrize("warning", [c for c in CLASSES if issubclass(c, Warning)])
def test_the_docstring_of_a_warning_names_a_cure(warning):
    assert "Fix:" in (warning.__doc__ or "")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError, "what would be right"),
        (MemoryCeilingError, "Give the same command"),
        (ModelError, "Choose another"),
    ],
)
def test_the_docstring_of_an_error_names_a_way_out(error, words):
    assert words in " ".join((error.__doc__ or "").split())


@pytest.mark.parametrize(
    ("check", "arguments", "given", "right"),
    [
        (validate.whole_number, ("m", 0, 1), "m=0", "integer >= 1"),
        (validate.whole_number, ("m", 2.5, 1), "m=2.5", "integer >= 1"),
        (validate.whole_number, ("m", True, 1), "m=True", "integer >= 1"),
        (validate.whole_number, ("m", 10**9, 1), "m=1000000000", "integer <= 1,000"),
        (
            validate.whole_number,
            (("groups", "age"), 2**63, 2),
            "']=9223372036854775808",
            "<= 10,000",
        ),
        (validate.positive, ("gamma", "x"), "gamma='x'", "positive number"),
        (validate.positive, ("gamma", "5"), "gamma='5'", "positive number"),
        (validate.positive, ("gamma", True), "gamma=True", "positive number"),
        (validate.positive, ("gamma", np.True_), "gamma=np.True_", "positive number"),
        (validate.positive, ("gamma", 10**400), "gamma=1", "positive and finite"),
        (validate.positive, ("gamma", 0), "gamma=0", "positive and finite"),
        (validate.positive, ("gamma", float("nan")), "gamma=nan", "positive and finite"),
        (validate.one_of, ("missing", "drop", ("error", "level")), "'drop'", "['error', 'level']"),
        (validate.known_columns, ("known", ["ag"], ["age", "sex"]), "'ag'", "['age', 'sex']"),
        (validate.known_columns, ("known", "age", ["age"]), "'age'", "list of column names"),
        (validate.known_columns, ("known", ["age", "age"], ["age"]), "['age']", "once"),
    ],
)
def test_messages_name_what_was_given_and_what_would_be_right(check, arguments, given, right):
    with pytest.raises(InputError) as caught:
        check(*arguments)
    message = str(caught.value)
    assert arguments[0] == caught.value.argument
    assert given in message
    assert right in message


def test_right_arguments_pass():
    assert validate.whole_number("m", 3, 1) == 3
    assert validate.positive("gamma", np.float32(0.5)) == 0.5
    assert validate.whole_number("m", validate.BOUNDS["m"][1]) == validate.BOUNDS["m"][1]
    assert validate.whole_number("k", 10**12, 1) == 10**12
    assert validate.one_of("missing", "level", ("error", "level")) == "level"
    assert validate.known_columns("known", ("sex",), ["age", "sex"]) == ["sex"]


# --- one error, worded by where its argument was given -------------------------------------------

LINES = ("[release]", 'files = ["a.csv"]', "m = 0")


@pytest.mark.parametrize(
    ("said", "python", "study", "command"),
    [
        (("m", 0, "is too small"), "m=0 is", "line 3: [release] m = 0 is", "m=0 is"),
        (
            ("known", ["a"], "; no"),
            "known=['a'];",
            '[identification] known = ["a"];',
            "--known ['a']",
        ),
        (("index", "is empty"), "index is", "[data] index is", "--index is"),
        ((("radius", "age"), 2.5, "is"), "radius['age']=2.5", "radius.age = 2.5", "--radius age=2"),
        (("closed", False, ": no"), "closed=False:", "closed = false:", "--open-ends:"),
        (("corresponds", False, ": no"), "corresponds=False:", "= false:", "--no-corresponds:"),
        (("files are equal",), "files are equal", "[release] files are equal", "files are equal"),
    ],
)
def test_an_error_is_worded_by_its_surface(said, python, study, command):
    surfaces = (errors.Surface(), Keys("release", lines=LINES), OfCommand())
    for surface, words in zip(surfaces, (python, study, command), strict=True):
        error = InputError(*said)
        error.surface = surface
        again = pickle.loads(pickle.dumps(error))
        assert words in str(error) == str(again)
        assert (again.argument, again.text) == (error.argument, said[-1])


def test_warnings_point_at_the_line_of_the_user():
    """Those of audits stood at a line of the package, behind its own functions."""
    rng = np.random.default_rng(1)
    df = pd.DataFrame({c: rng.choice(list("abc"), 40) for c in "gh"})
    with pytest.warns(br.TruncationWarning) as truncated:
        fit = br.models.DPMPM(n_classes=2).fit(df, draws=10, tune=5, chains=2, random_seed=1)
    release = fit.synthesize(m=1, random_seed=1)
    with pytest.warns(br.UnreliableWeightsWarning) as unreliable:
        kept = br.attribute_evidence(fit, release, evidence="importance", random_seed=1)
        kept.risk()
        br.attribute_risk(fit, release, evidence="importance", random_seed=1)
    found = [w for w in (*truncated, *unreliable) if w.category.__module__.startswith("bayes_risk")]
    assert len(found) >= 3 and {w.filename for w in found} == {__file__}
