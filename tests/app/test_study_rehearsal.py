"""What a run would refuse after its fit is refused before, by the run and by its dry run."""

import numpy as np
import pandas as pd
import pytest

from bayes_risk import InputError
from bayes_risk.app.run import run_compare, run_study, run_sweep
from bayes_risk.app.run.audit import unsampled
from bayes_risk.app.run.runner import estimate
from bayes_risk.app.study.declare import fit_model, synthesis_options
from bayes_risk.app.study.study import parse_study
from bayes_risk.intruder.intruder import Intruder
from tests.helpers.fits import encoded, offered

RUNS = {"audit": run_study, "sweep": run_sweep, "compare": run_compare}
KEYS = {"identification": {"known": [], "synthesized": ["a", "b"]}}
AUDIT = {"attribute": {"targets": 5}}
SWEEP = AUDIT | {"sweep": {"knows_columns": [["nope"]]}}
CODE = "def fails(df):\n    return df['no']\n\n\ndef no_model(df):\n    return 1\n"
COMPARE = {
    "release": {"m": 1},
    "compare": {"one": {}, "two": {"model": {"kind": "CART", "order": ["a"]}}, "bounds": True},
}


@pytest.fixture
def begins(tmp_path, monkeypatch):
    """A study of a small file, and its runs, which may not come as far as a fit."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, (40, 3))
    table = pd.DataFrame({c: [f"{c}{v}" for v in codes[:, k]] for k, c in enumerate("abc")})
    table["x"] = np.arange(40)
    table.to_csv("data.csv", index=False)
    table.assign(a="a9").to_csv("others.csv", index=False)
    (tmp_path / "code.py").write_text(CODE)

    def fitted(*given, **how):
        if how.get("sample", True):
            pytest.fail("a fit was begun")
        return fit_model(*given, **how)

    for room in ("run.audit", "study.declare"):
        monkeypatch.setattr(f"bayes_risk.app.{room}.fit_model", fitted)

    def begin(sections, kind, dry):
        data = {"path": "data.csv", "columns": sections.get("columns", ["a", "b", "c"])}
        given = {"data": data, "model": {"kind": "DPMPM", "draws": 8, "tune": 4, "chains": 2}}
        study = parse_study(given | {k: v for k, v in sections.items() if k != "columns"})
        if dry:
            estimate(study, kind=kind)
        else:
            RUNS[kind](study.with_output(tmp_path / "out"))

    return begin


LATE = {
    "known key synthesised": (
        {"identification": {"known": ["a"], "synthesized": ["b"]}},
        r"\[identification\] known names 'a', which the release synthesised; put it under",
    ),
    "radius of text": (
        {"identification": {"known": [], "synthesized": ["a"], "radius": {"a": 0.1}}},
        r"\[identification\].*'a'",
    ),
    "no population": (
        {"identification": KEYS["identification"] | {"population": {"file": "none.csv"}}},
        r"none\.csv",
    ),
    "known column": (
        {"attribute": {"knows_columns": ["nope"]}},
        r"\[attribute\] knows_columns names column 'nope'",
    ),
    "nothing guessed": (
        {"attribute": {"knows_columns": ["a", "b", "c"]}},
        r"\[attribute\] knows_columns names every synthesised column",
    ),
    "analysis fails": (
        KEYS | {"utility": {"analyses": ["code.py:fails"]}},
        r"\[utility\] analyses: line 2 of 'code\.py' fails with KeyError",
    ),
    "analysis of another kind": (
        KEYS | {"utility": {"analyses": ["code.py:no_model"]}},
        r"\[utility\] analysis 'no_model' gives a int",
    ),
    "numbers of utility": (
        KEYS | {"utility": {"numbers": ["a"]}},
        r"\[utility\] .*'a'",
    ),
    "utility of kept columns": (
        {"release": {"columns": ["a"]}, "identification": {"known": ["b"], "synthesized": ["a"]},
         "utility": {"columns": ["b"]}},
        r"\[utility\] none of the columns compared was synthesised",
    ),
    "no holdout": (
        {"context": {"keys": ["a"], "holdout": "none.csv"}},
        r"none\.csv",
    ),
    "holdout of other levels": (
        {"context": {"keys": ["a"], "holdout": "others.csv"},
         "data": {"path": "data.csv", "levels": {"a": ["a0", "a1", "a2"]}}},
        r"a9|others\.csv",
    ),
    "patterns synthesised": (
        KEYS | {"bounds": {"patterns": ["a"]}},
        r"\[bounds\] patterns names 'a', which is synthesised",
    ),
    "no others": (
        {"membership": {"others": "none.csv"}},
        r"none\.csv",
    ),
    "too large a table": (
        {"columns": ["a", "b", "x"], "full_table": {"targets": 3}},
        r"\[full_table\] the unknown columns have 360 combinations",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sections", "told", "dry"),
    [pytest.param(*late, at % 2 == 0, id=name) for at, (name, late) in enumerate(LATE.items())],
)
def test_an_audit_is_refused_before_its_fit(begins, monkeypatch, sections, told, dry):
    monkeypatch.setattr("bayes_risk.risk.full_table.risk.MAX_CELLS", 100)
    with pytest.raises(InputError, match=told):
        begins(sections, "audit", dry)


@pytest.mark.parametrize("dry", [False, True], ids=["run", "dry run"])
@pytest.mark.parametrize(
    ("kind", "sections", "told"),
    [
        ("sweep", SWEEP, r"\[sweep\] knows_columns names column 'nope'"),
        ("compare", COMPARE | KEYS | {"bounds": {"patterns": ["c"]}}, r"\[bounds\] .*'c'"),
        ("compare", COMPARE | KEYS | {"utility": {"analyses": ["code.py:fails"]}},
         r"\[compare.one\]: \[utility\] .*KeyError"),
    ],
    ids=["sweep", "ends", "analysis"],
)  # fmt: skip
def test_sweeps_and_comparisons_likewise(begins, kind, sections, told, dry):
    with pytest.raises(InputError, match=told):
        begins(sections, kind, dry)


def test_keys_of_a_candidate_are_sorted_by_what_it_synthesises(begins):
    """Known beside one candidate, synthesised by the other: no reason to refuse."""
    keys = {"identification": {"known": ["b"], "synthesized": ["a"]}}
    model = {"model": {"kind": "CART", "order": ["a"]}}
    with pytest.raises(pytest.fail.Exception, match="a fit was begun"):
        begins(model | COMPARE | keys | {"compare": {"all": {"model": {"kind": "DPMPM"}}}},
               "compare", False)  # fmt: skip


# --- the evidence that is promised before the fit, and offered after ------------------------------

SHORT = {"draws": 8, "tune": 4, "chains": 2}
LATENT = {"kind": "DPMPM", "n_classes": 3} | SHORT
ZEROS = LATENT | {"impossible": [{"a": ["a0"], "b": ["b0"]}]}
NORMAL = {"kind": "Regression", "formulas": {"x": "1 + b", "y": "1 + x"}} | SHORT
TREES = {"kind": "CART", "order": ["a", "x"]}
COUNTS = {"kind": "PoissonMixture", "n_classes": 3} | SHORT
SAMPLED = {"kind": "Regression", "formulas": {"b": "1 + x", "k": "1 + x"},
           "families": {"k": "poisson"}} | SHORT  # fmt: skip
CHECKED = {"marks": pytest.mark.check}  # NUTS is compiled
OFFERED = [
    pytest.param(LATENT, "abc", "abc", id="classes"),
    pytest.param(LATENT, "abc", "ab", id="classes, some kept"),
    pytest.param(ZEROS, "abc", "abc", id="zeros"),
    pytest.param(ZEROS, "abc", "ab", id="zeros, some kept"),
    pytest.param(NORMAL, "bxy", "xy", id="normal"),
    pytest.param(NORMAL, "bxy", "y", id="normal, one kept"),
    pytest.param(NORMAL, "bxy", "x", id="normal, what depends on it kept"),
    pytest.param(TREES, "abx", "ax", id="trees"),
    pytest.param(TREES | {"smoothing": "kde"}, "abx", "ax", id="smoothed"),
    pytest.param(TREES | {"smoothing": "kde"}, "abx", "a", id="smoothed, categories alone"),
    pytest.param(TREES | {"smoothing": "kde", "bootstrap": "none"}, "abx", "ax", id="not drawn"),
    pytest.param({"kind": "Forest", "order": ["a"], "n_trees": 5}, "abc", "a", id="forest"),
    pytest.param({"kind": "PMM", "order": ["y"], "identifying": ["a"], "threshold": 19}, "aby",
                 "y", id="matching"),
    pytest.param(COUNTS, "kl", "kl", id="counts"),
    pytest.param(COUNTS | {"synthesizer": "MM"}, "kl", "kl", id="dealt counts"),
    pytest.param(SAMPLED, "bkx", "k", id="Poisson", **CHECKED),
    pytest.param(SAMPLED, "bkx", "bk", id="other families", **CHECKED),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")  # short fits
@pytest.mark.parametrize(
    ("model", "columns", "made", "m"),
    [
        pytest.param(*of.values, m, id=f"{of.id}-{m}", marks=of.marks)
        for at, of in enumerate(OFFERED)
        for m in ((1, 2) if at < 4 else (2,))
    ],
)
def test_fits_promise_before_their_draws_what_they_offer_after(model, columns, made, m):
    rng = np.random.default_rng(1)
    df = pd.DataFrame({c: rng.integers(0, 3, 60) for c in "abckl"})
    df = df.assign(**{c: rng.normal(size=60) for c in "xy"})[list(columns)]
    df = df.assign(**{c: [f"{c}{v}" for v in df[c]] for c in "abc" if c in columns})
    if "impossible" in model:
        df = df[(df["a"] != "a0") | (df["b"] != "b0")].reset_index(drop=True)
    named = {} if model is COUNTS or "synthesizer" in model else {"columns": list(made)}
    study = parse_study(
        {"data": {"path": "data.csv"}, "model": model, "release": {"m": m} | named}
        | {"identification": {"known": [], "synthesized": [made[0]]}}
    )
    declaration = study.model.declared(df)
    begun = unsampled(study, declaration, df)
    fit = fit_model(study, declaration, df, random_seed=1)
    release = fit.synthesize(random_seed=2, **synthesis_options(study))
    assert begun is not None and begun.parameters == fit.parameters
    assert (
        begun.synthesize(random_seed=2, **synthesis_options(study)).synthesized
        == release.synthesized
    )
    assert offered(begun, release) == offered(fit, release)
    knowing = [
        can.methods if "knowing" in can else set()
        for one in (begun, fit)
        for can in [one.capabilities(encoded(one, release), Intruder(knows_records="none"))]
    ]
    assert knowing[0] == knowing[1]


@pytest.mark.parametrize("dry", [False, True], ids=["run", "dry run"])
@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"attribute": {"intruder": {"knows_records": 0.5}}},
         r"\[attribute\] .* no evidence for this release and intruder"),
        ({"membership": {"knows_records": "none"}},
         r"\[membership\] columns .'c'. are released as they are"),
        ({"attribute": {}, "sweep": {"knows_records": ["none"]}},
         r"\[sweep\] .* no evidence for this release and intruder"),
    ],
    ids=["intruder", "membership", "sweep"],
)  # fmt: skip
def test_zeros_beside_kept_columns_are_refused_before_the_fit(begins, sections, told, dry):
    release = {"release": {"m": 1, "columns": ["a", "b"]}}
    model = {"model": LATENT | {"impossible": [{"a": ["a0"], "b": ["b9"]}]}}
    levels = {"path": "data.csv", "columns": ["a", "b", "c"],
              "levels": {"b": ["b0", "b1", "b2", "b9"]}}  # fmt: skip
    with pytest.raises(InputError, match=told):
        begins(model | sections | release | {"data": levels}, "audit", dry)
