"""Where people work: what notebooks and terminals show of a thing, and while it is made."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numba
import pandas as pd
import pytest
from numba.core import event

import bayes_risk as br
from bayes_risk._core import progress
from bayes_risk._core.shown import MOST_ROWS, Shown, as_html
from bayes_risk.data.microdata import Microdata
from bayes_risk.models.fits.synthesis import Synthesis
from tests.helpers.every_result import MARK, every, people

DECLARED = [
    br.models.DPMPM(),
    br.models.Mixture(families={"pay": "normal"}),
    br.models.PoissonMixture(),
    br.models.Regression({"pay": "1 + age"}),
    br.models.CART(order=["job"]),
    br.models.Forest(order=["job"]),
    br.models.Marginals(),
    br.models.PMM(order=["pay"], identifying=["sex"]),
    br.Intruder(),
    br.Impossible([{"age": "child", "job": "pilot"}]),
]


@pytest.mark.parametrize("kind", ["evidence", "attribute", "identification", "membership"])
def test_a_result_shows_its_text_and_numbers_and_no_record(kind):
    found = every()[kind]
    shown = found._repr_html_()
    assert type(found).__name__ in shown
    assert MARK not in shown and "P00" not in shown
    if isinstance(found, pd.DataFrame) or not hasattr(found, "sentence"):
        return
    assert "<table>" in shown and found.sentence().split(",")[0] in shown.replace("&#x27;", "'")


def test_every_kind_of_result_can_be_shown():
    for kind, found in every().items():
        if kind == "diagnostics":  # a plain mapping
            continue
        shown = found._repr_html_()
        assert MARK not in shown and len(shown) < 50_000, kind


@pytest.mark.parametrize("declared", DECLARED, ids=lambda d: type(d).__name__)
def test_declarations_are_shown(declared):
    assert type(declared).__name__ in declared._repr_html_()


def test_releases_and_coded_tables_are_shown_without_rows():
    table = people()
    release = br.Release(datasets=[table, table], synthesized=["job"], parameters="shared")
    for shown in (repr(release), release._repr_html_()):
        assert MARK not in shown and "P00" not in shown
        assert "m = 2 data sets of 60 rows and 3 columns" in shown
        assert "synthesised: job" in shown and "all from one draw of the parameters" in shown
    coded = Microdata.from_frame(table)
    assert repr(coded) == ("Microdata: 60 records; levels of columns:\n  sex (2), age (3), job (3)")
    assert issubclass(Synthesis, Shown) and isinstance(br.models.DPMPM(), Shown)


def test_names_cannot_become_markup_and_long_tables_end():
    shown = as_html("<b>", "a & b", ["<i>"], [["<script>"]] * (MOST_ROWS + 3))
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "&lt;b&gt;" in shown
    assert shown.count("<tr>") == MOST_ROWS + 2 and "... and 3 rows" in shown


# --- progress -----------------------------------------------------------------------------------


@progress.shows_progress
def work(*, progress=None):
    inner = deeper()
    if progress is not None:
        progress("work", 1, 1)
    return progress is not None, inner


@progress.shows_progress
def deeper(*, progress=None):
    return progress is not None


@pytest.fixture
def watching(monkeypatch):
    monkeypatch.setattr(progress, "_running", [])
    monkeypatch.setattr(progress, "watched", lambda: True)


def test_the_outermost_call_has_a_bar_where_somebody_watches(watching, capsys):
    assert work() == (True, False)
    assert work(progress=False) == (False, False)
    assert "work: done in" in capsys.readouterr().err
    told = []
    assert work(progress=lambda *step: told.append(step)) == (True, False)
    assert told == [("work", 1, 1)]


def test_nobody_watches_here_and_the_command_line_has_bars_of_its_own(monkeypatch):
    assert not progress.watched()
    monkeypatch.setattr(progress, "_running", [])
    assert work() == (False, False)
    assert work(progress=True) == (True, False)
    monkeypatch.setattr(progress, "watched", lambda: True)
    progress.no_bars()
    assert work() == (False, False)


def test_an_error_ends_the_bar(watching):
    @progress.shows_progress
    def fails(*, progress=None):
        raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert progress._running == []


def compiling(module="bayes_risk.models.mixture.sampler"):
    """What numba says of a loop that it compiles."""
    loop = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
    return event.trigger_event("numba:compile", data={"dispatcher": loop})


def test_compiling_is_told_of_loops_of_ours_and_not_of_those_they_call():
    told, tell = [], lambda *step: told.append(step)
    with progress.reports_compilation(tell):
        with compiling("numba.np.arraymath"), compiling("elsewhere"):
            pass
        assert told == []
        with compiling(), compiling("bayes_risk.models.mixture.sweep"), compiling("numba.np"):
            assert told == [("compiling (once)", 0, 1)]
    with compiling():
        pass
    assert told == [("compiling (once)", 0, 1), ("compiling (once)", 1, 1)]


def test_an_interruption_waits_until_a_loop_is_compiled():
    """Else later calls would find a loop that is half compiled."""

    @numba.njit
    def inner(x):
        return x * 2

    @numba.njit
    def loop(x):
        return inner(x) + 1

    class Stop(event.Listener):
        def on_start(self, event):
            os.kill(os.getpid(), signal.SIGINT)

        def on_end(self, event):
            pass

    with pytest.raises(KeyboardInterrupt):
        with (
            progress.reports_compilation(lambda *step: None),
            event.install_listener("numba:compile", Stop()),
        ):
            loop(1.0)
    assert len(loop.signatures) == len(inner.signatures) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert loop(2.0) == 5.0


def test_a_call_says_that_it_compiles_unless_no_bar_is_wanted(watching, capsys):
    @progress.shows_progress
    def compiles(*, progress=None):
        with compiling():
            pass

    compiles(progress=False)
    assert capsys.readouterr().err == ""
    compiles()
    assert "compiling (once): done in" in capsys.readouterr().err


def test_a_notebook_has_a_bar_that_goes(watching, monkeypatch):
    shown = []

    class ZMQInteractiveShell: ...

    place = SimpleNamespace(update=shown.append)
    notebook = SimpleNamespace(get_ipython=ZMQInteractiveShell)
    tools = SimpleNamespace(HTML=str, display=lambda html, display_id: place)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", tools)
    assert work() == (True, False)
    assert shown == ['<div><progress value="1" max="1"></progress> work</div>', ""]


@pytest.mark.parametrize("call", [br.attribute_risk, br.models.DPMPM.fit, br.compare])
def test_library_calls_take_part(call):
    assert call.__wrapped__.__name__ == call.__name__


@pytest.mark.check
def test_python_m_is_the_command():
    call = [sys.executable, "-m", "bayes_risk", "--version"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("bayes-risk ")
