import json
import logging
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import warnings
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

import bayes_risk
from bayes_risk.app import cli
from bayes_risk.app import output as output_study
from bayes_risk.app.cli import app
from bayes_risk.app.run import runner as run
from bayes_risk.app.study.study import parse_study, read_study
from bayes_risk.demo import STUDIES
from bayes_risk.reporting import terminal
from bayes_risk.reporting.terminal import Bars, print_result
from tests.helpers.edge_results import (
    MARK,
    attribute,
    confidential,
    identification,
    numbers,
    study_result,
)
from tests.helpers.programs import python
from tests.helpers.study_files import shown

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Run the command line in an empty folder; terminal width 100."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return lambda *words: CliRunner().invoke(app, [str(w) for w in words])


@pytest.fixture
def files(tmp_path):
    """An original and two releases of it, as CSV files."""
    df = confidential(30)
    df.to_csv(tmp_path / "original.csv", index_label="id")
    for l in (1, 2):
        released = df.assign(job=np.roll(df["job"].to_numpy(), l))
        released.to_csv(tmp_path / f"syn{l}.csv", index_label="id")
    return [tmp_path / name for name in ("original.csv", "syn1.csv", "syn2.csv")]


def fake_run(monkeypatch, result=None, doing=lambda: None):
    """Put a ready result in the place of the work, and a line in that of the report."""

    def ready(study, what, seed, read, progress, n_jobs):
        read()
        progress("fit", 1, 1)
        doing()
        return result or study_result(study)

    monkeypatch.setattr(run, "result_of", ready)
    monkeypatch.setattr(output_study, "render_study", lambda *_, **__: "<!doctype html>")


def plain_stderr(result):
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stderr)


# --- light and helpful -----------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom bayes_risk.app.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = python("-c", code)
    heavy = {"numpy", "pandas", "pymc", "xarray", "matplotlib", "scipy", "numba"}
    assert "Commands" in done.stdout
    assert heavy & set(done.stderr.split()) == set()


@pytest.mark.check
@pytest.mark.parametrize("command", ["demo", "audit", "sweep", "identify"])
def test_every_command_explains_itself(call, command):
    result = call(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


@pytest.mark.check
def test_version(call):
    assert call("--version").output == f"bayes-risk {bayes_risk.__version__}\n"


# --- audit and demo --------------------------------------------------------------------------


def test_demo_writes_its_folder_and_prints_the_verdict(call, monkeypatch, tmp_path):
    fake_run(monkeypatch)
    result = call("demo", "--output", "out", "--seed", 3)
    assert result.exit_code == 0, result.output
    assert "Above your thresholds" in result.output
    assert "Report: out/report.html" in result.output
    assert "fit: done in" in result.stderr
    settings = json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]
    assert settings["random_seed"] == 3
    assert settings["release"] | STUDIES["fair"]["release"] == settings["release"]
    trees = json.loads((tmp_path / "out-trees" / "manifest.json").read_text())["settings"]
    assert trees["model"]["kind"] == "CART" and trees["attribute"] == settings["attribute"]
    assert trees["random_seed"] == 3 and trees["model"]["order"] == settings["release"]["columns"]


def test_a_quiet_run_writes_its_folder_and_says_nothing(call, monkeypatch, tmp_path):
    fake_run(monkeypatch)
    result = call("demo", "--data", "italy", "--output", "out", "--quiet")
    assert result.exit_code == 0 and (tmp_path / "out" / "summary.json").is_file()
    assert result.output == ""


def test_audit_puts_the_folder_beside_and_names_it_after_the_study(call, monkeypatch, tmp_path):
    fake_run(monkeypatch)
    (tmp_path / "my.toml").write_text('[data]\ndemo = "italy"\n[attribute]\n')
    assert call("audit", "my.toml").exit_code == 0
    assert (tmp_path / "my-risk" / "report.html").exists()


@pytest.mark.check
def test_an_existing_folder_is_an_error_before_any_work(call, monkeypatch, tmp_path):
    fake_run(monkeypatch, doing=lambda: pytest.fail("worked"))
    (tmp_path / "bayes-risk-demo").mkdir()
    result = call("demo")
    assert not (tmp_path / "bayes-risk-demo-trees").exists()
    assert result.exit_code == 2
    assert "'bayes-risk-demo' exists; give another name, or --overwrite" in plain_stderr(result)


def test_overwrite_replaces_an_earlier_run(call, monkeypatch):
    fake_run(monkeypatch)
    assert call("demo", "--data", "italy").exit_code == 0
    assert call("demo", "--data", "italy").exit_code == 2
    assert call("demo", "--data", "italy", "--overwrite").exit_code == 0


def one_line(result):
    lines = plain_stderr(result).strip().splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.check
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[data]\ndemo = 'fair'\n[atribute]\n", "did you mean 'attribute'?"),
        ("[data\n", "s.toml is not a readable TOML file"),
        ("[data]\npath = 'no.csv'\n[attribute]\n", "there is no file 'no.csv'"),
    ],
)
def test_errors_are_one_line_and_no_traceback(call, tmp_path, content, message):
    (tmp_path / "s.toml").write_text(content)
    result = call("audit", "s.toml")
    assert result.exit_code == 2
    assert message in one_line(result)
    assert os.listdir(tmp_path) == ["s.toml"]


@pytest.mark.check
def test_model_errors_and_full_disks_are_one_line_too(call, monkeypatch, tmp_path):
    for error in (bayes_risk.ModelError("the sampler\nfailed"), OSError("disk full")):

        def fail(error=error):
            raise error

        fake_run(monkeypatch, doing=fail)
        result = call("demo")
        assert result.exit_code == 2
        assert "bayes-risk: " in plain_stderr(result)
        assert "Traceback" not in result.output
    assert os.listdir(tmp_path) == []


@pytest.mark.check
def test_an_interruption_says_that_nothing_is_left(call, monkeypatch, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    fake_run(monkeypatch, doing=interrupt)
    result = call("demo")
    assert result.exit_code == 130
    assert "stopped; nothing was left behind" in plain_stderr(result)
    assert os.listdir(tmp_path) == []


@pytest.mark.check
@pytest.mark.parametrize("then", [None, ValueError("not enough samples")])
def test_an_interruption_that_a_sampler_swallowed_still_stops(call, monkeypatch, tmp_path, then):
    def swallowed():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if then:
                raise then from None

    fake_run(monkeypatch, doing=swallowed)
    assert call("demo").exit_code == 130
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forked workers here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of threads, which sleep
def test_forked_workers_end_in_silence_when_their_pool_ends_them(capfd):
    context = multiprocessing.get_context("fork")
    begun, never = context.Event(), context.Event()

    def work():
        begun.set()
        never.wait()

    with cli.interrupts():
        worker = context.Process(target=work)
        worker.start()
        begun.wait()  # Python forgets the signals that come while it forks
        worker.terminate()
        worker.join()
    assert worker.exitcode == cli.INTERRUPTED
    assert capfd.readouterr().err == ""


def test_an_interruption_in_a_callback_is_raised_later_without_a_traceback(capfd):
    class Watched:
        pass

    watched = Watched()
    called = weakref.ref(watched, lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), cli.interrupts() as (stop, _):
        del watched  # Python goes on after an error in a callback
        assert called() is None and capfd.readouterr().err == ""
        stop()
    assert capfd.readouterr().err == ""


def test_handlers_and_logging_are_as_before(call, monkeypatch):
    logging.disable(logging.NOTSET)

    def state():
        hook = sys.unraisablehook
        return signal.getsignal(signal.SIGTERM), logging.root.manager.disable, hook

    before = state()
    fake_run(monkeypatch)
    call("demo", "--data", "italy")
    assert state() == before


@pytest.mark.check
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_real_interruption_leaves_no_folder(tmp_path, name):
    """In a process of its own, in the middle of the fit."""
    study = '[data]\ndemo = "italy"\n[model]\ndraws = 1000000\n[attribute]\n'
    (tmp_path / "s.toml").write_text(study)
    process = subprocess.Popen(
        [sys.executable, "-m", "bayes_risk.app.cli", "audit", str(tmp_path / "s.toml")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        while process.poll() is None and not list(tmp_path.glob(".*.work")):
            time.sleep(0.1)
        process.send_signal(getattr(signal, name))
        _, errors = process.communicate()
    finally:
        process.kill()
    # where the signal falls into an exec(), Python ends itself by it, which a shell calls 130 too
    assert process.returncode in (130, -signal.SIGINT), errors
    assert "stopped; nothing was left behind" in errors
    assert [p.name for p in tmp_path.rglob("*")] == ["s.toml"], errors


@pytest.mark.slow
def test_compiling_is_said_in_the_first_run_alone(files, tmp_path):
    """With nothing compiled, then with what the first run compiled."""
    model = "[model]\nn_classes = 2\ndraws = 20\ntune = 20\n[release]\nm = 1\n[attribute]\n"
    (tmp_path / "s.toml").write_text(f'[data]\npath = "original.csv"\nindex = "id"\n{model}')
    said = []
    for more in ([], ["--overwrite"]):
        loops = {"cwd": tmp_path, "NUMBA_CACHE_DIR": str(tmp_path / "loops")}
        done = python("-m", "bayes_risk.app.cli", "audit", "s.toml", *more, **loops)
        assert done.returncode == 0, done.stderr
        said.append(done.stderr.count("compiling (once)"))
    assert said == [1, 0]


def test_what_is_unreliable_in_many_audits_has_its_cure(capsys):
    found = SimpleNamespace(doubt=lambda: "Marked unreliable: a (up to 3 records).")
    terminal._ends("On the front: a.", found, "replicates.csv", Console(width=100))
    said = capsys.readouterr().out
    assert "records); see replicates.csv. To settle it: more draws of the" in said


def test_warnings_come_once_at_the_end_in_plain_words(call, monkeypatch):
    def doubt():
        for _ in range(3):
            warnings.warn(
                "12 records are unreliable", bayes_risk.UnreliableWeightsWarning, stacklevel=1
            )
        warnings.warn("some library is old", DeprecationWarning, stacklevel=1)

    fake_run(monkeypatch, doing=doubt)
    result = call("demo", "--data", "italy")
    assert result.output.count("Note: 12 records are unreliable") == 1
    assert "some library" not in result.output


# --- sweep -----------------------------------------------------------------------------------

SWEEP = (
    'random_seed = 1\n[data]\npath = "original.csv"\nindex = "id"\n'
    '[model]\nkind = "CART"\norder = ["job"]\n[release]\nm = 2\n[attribute]\n'
    '[sweep]\npriors = ["uniform", "marginal"]\nm = [1, 2]\n'
)


@pytest.mark.check
def test_sweep_writes_a_folder_of_its_own_and_prints_what_moves(call, files, tmp_path):
    (tmp_path / "s.toml").write_text(SWEEP)
    result = call("sweep", "s.toml", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "One factor at a time" in result.output and "data sets (m)" in result.output
    assert "Report: s-sweep/report.html" in result.output
    assert "settings: done in" in result.stderr
    manifest = json.loads((tmp_path / "s-sweep" / "manifest.json").read_text())
    assert manifest["settings"]["sweep"]["m"] == [1, 2]
    leaks = [f for f in (tmp_path / "s-sweep").iterdir() if MARK.encode() in f.read_bytes()]
    assert leaks == [] and MARK not in result.output
    assert call("audit", "s.toml", "--jobs", 1).exit_code == 0
    again = call("sweep", "s.toml")
    assert again.exit_code == 2 and "'s-sweep' exists; give another name" in one_line(again)
    assert call("sweep", "s.toml", "--overwrite").exit_code == 0


@pytest.mark.check
def test_sweep_never_takes_the_folder_of_the_audit(call, files, tmp_path):
    (tmp_path / "s.toml").write_text(SWEEP + '[output]\nfolder = "found"\n')
    assert call("sweep", "s.toml").exit_code == 0
    assert (tmp_path / "found-sweep" / "tornado.png").exists()
    assert not (tmp_path / "found").exists()


# --- identify --------------------------------------------------------------------------------


@pytest.mark.check
def test_identify_gives_the_numbers_of_the_library(call, files, tmp_path):
    keys = ["--known", "age", "--synthesized", "job", "--index", "id"]
    result = call("identify", *files, *keys, "--json", "out.json")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out.json").read_text())
    direct = identification(n=30).summary()
    assert found["measures"]["pooled"]["expected_match_risk"] == pytest.approx(
        direct.loc["pooled", "expected_match_risk"]
    )
    assert set(found["measures"]) == {"1", "2", "mean", "pooled"}
    assert "expected correct matches" in result.output


@pytest.mark.check
def test_identify_takes_names_with_commas_and_no_fallback(call, files):
    both = call("identify", *files, "--synthesized", "age,job", "--no-fallback", "--index", "id")
    assert both.exit_code == 0, both.output
    assert "searches for the true values of age, job" in " ".join(both.output.split())


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--output", "/"],
            "the output folder '/' is not the name of a new folder; give one such as",
        ),
        (["--jobs", 2**31], "or equal to 1000"),
    ],
)
def test_what_no_run_could_do_is_refused_at_once(call, tmp_path, dry, words, message):
    smallest = '[data]\ndemo = "italy"\n[identification]\nknown = []\nsynthesized = ["AREA"]\n'
    (tmp_path / "s.toml").write_text(smallest)
    result = call("audit", "s.toml", *dry, *words)
    assert result.exit_code == 2
    assert message in " ".join(plain_stderr(result).replace("│", " ").split())


@pytest.mark.check
@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--known", "agee"], "--known names column 'agee', which '"),
        ([], "--known and --synthesized are empty"),
        (["--known", "job"], "syn1.csv' differs from the original"),
        (["--known", "age", "--index", "no"], "index names column 'no', which"),
    ],
)
def test_identify_names_what_does_not_fit(call, files, extra, message):
    result = call("identify", *files, *extra)
    assert result.exit_code == 2
    assert message in one_line(result)


@pytest.mark.check
def test_identify_never_writes_over_a_file(call, files):
    before = files[0].read_bytes()
    result = call("identify", *files, "--known", "age", "--json", files[0])
    assert result.exit_code == 2
    assert "give a new name to --json" in one_line(result)
    assert files[0].read_bytes() == before


# --- the screen ------------------------------------------------------------------------------


def screen(result, width, notes=()):
    return shown(print_result, result, notes, width).splitlines()


WORST = attribute(
    [0.9, 0.5, 0.3, 0.2], reliable=[True, True, False, False], disclosed=[False, False, True, False]
)


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("risk", [attribute(), WORST, numbers()])
def test_the_result_fits_on_one_screen(width, risk):
    study = parse_study(STUDIES["fair"]).with_output(Path("bayes-risk-demo"))
    notes = ["770 of 6366 records are unreliable " * 4, "every class is occupied " * 6, "third"]
    lines = screen(study_result(study, risk=risk), width, notes)
    assert len(lines) <= 29  # facts, two reasons of two lines, a cure, and what the files show
    assert max(map(len, lines)) <= width


def test_the_screen_says_how_close_the_intruder_comes_to_two_numbers():
    lines = screen(study_result(risk=numbers(["income", "tax", "rent"])), 100)
    found = [line for line in lines if line.startswith("distance from true")]
    assert len(found) == 2
    assert re.fullmatch(r"distance from true \w+ +[\d.]+ +≤ [\d.]+ +[\d.]+ *", found[0])
    assert any("(1 more number)" in line for line in lines)


def test_the_screen_has_every_number_with_its_error_and_baseline():
    text = "\n".join(screen(study_result(), 100))
    assert re.search(r"truth's probability, worst +0\.400 +± 0\.020 +0\.333", text)
    assert re.search(r"expected correct matches +[\d.]+ +[\d.]+ +[\d.]+", text)
    assert "Under these assumptions:" in text
    assert "0 of 4 records unreliable" in text


def test_bars_are_plain_lines_where_nobody_watches(capsys):
    with Bars(Console(stderr=True, force_terminal=False, width=80)) as bars:
        bars("fit", 0, 2)
        bars("fit", 2, 2)
        bars("fit", 2, 2)
        bars("evidence", 1, 2)
    assert re.fullmatch(r"fit: done in \d+\.\d s\n", capsys.readouterr().err)


def test_what_lasts_is_told_again_where_nobody_watches(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "SILENT", 0.05)
    with Bars(Console(stderr=True, force_terminal=False, width=80)) as bars:
        bars("data", 1, 1)
        bars("fit", 1, 4)
        time.sleep(0.3)
    said = capsys.readouterr().err
    assert len(re.findall(r"after 0 s: fit 25 %\n", said)) > 1 and "data 100 %" not in said


def test_between_two_stages_a_line_names_the_one_that_is_done(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "SILENT", 0.05)
    with Bars(Console(stderr=True, force_terminal=False, width=80)) as bars:
        bars("in all", 0, 100)
        bars("utility", 1, 1)
        bars("in all", 98, 100)
        time.sleep(0.3)
    assert "after 0 s: in all 98 %, utility is done\n" in capsys.readouterr().err


def test_bars_show_stages_on_a_terminal(capsys):
    with Bars(Console(stderr=True, force_terminal=True, width=80)) as bars:
        bars("fit", 1, 2)
        assert [t.description for t in bars.tasks] == ["fit"]
        assert bars.tasks[0].percentage == 50


def test_errors_name_the_lines_of_their_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        'title = "x"\ndata = { demo = "fair", misssing = "level" }\n\n[model]  # trees\n'
        'kind = "CART"\norder = ["job"]\nmin_leaf = 0.5\n[attribute]\n'
    )
    said = " ".join(CliRunner().invoke(app, ["audit", "s.toml"]).stderr.split())
    assert "line 2: [data] has no key 'misssing'" in said  # before anything else is looked at
    with pytest.raises(
        bayes_risk.InputError, match=r"(?s)misssing.*line 7: \[model\] min_leaf = 0.5"
    ):
        read_study(tmp_path / "s.toml")
    text = (tmp_path / "s.toml").read_text().replace(", misssing", ", columns")
    for given in ("0.5", "0"):
        whole = text.replace('"level"', '["age", "job"]').replace("0.5", given)
        (tmp_path / "s.toml").write_text(whole)
        said = " ".join(CliRunner().invoke(app, ["audit", "s.toml"]).stderr.split())
        assert f"line 7: [model] min_leaf = {given} does not fit" in said


def test_an_interruption_while_text_is_executed_ends_with_130(tmp_path):
    """Python would die of SIGINT at its end, though the interruption was handled."""
    (tmp_path / "interrupted.py").write_text(
        "import sys, typer\nfrom bayes_risk.app.cli import _plain_errors, _say\n"
        "_say('first')\n"  # what it imports executes text too
        "try:\n    with _plain_errors():\n        exec('raise KeyboardInterrupt')\n"
        "except typer.Exit as stop:\n    sys.exit(stop.exit_code)\n"
    )
    done = python("-m", "interrupted", cwd=tmp_path)
    assert done.returncode == 130 and "stopped; nothing was left behind" in done.stderr


@pytest.mark.check
def test_files_that_are_exchanged_are_noted(call, files, tmp_path):
    """The first was taken as the original, without a word."""
    few = pd.read_csv(tmp_path / files[0]).drop(columns="age")
    few.to_csv(tmp_path / "few.csv", index=False)
    found = call("identify", "few.csv", files[0], "--known", "job", "--index", "id")
    assert found.exit_code == 0, found.output
    assert "exchanged, name the original first" in " ".join(found.output.split())
