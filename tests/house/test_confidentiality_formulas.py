"""Formulas are arithmetic on columns: no program comes through one, and none takes for ever."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from numba.core.compiler_lock import global_compiler_lock

import bayes_risk as br
from bayes_risk.app.study.study import parse_study
from bayes_risk.models.regression import formulas
from bayes_risk.models.regression.formulas import Expression, parse

RNG = np.random.default_rng(1)
DF = pd.DataFrame({"x": RNG.uniform(1, 2, 30), "k": np.arange(30) % 3, "s": list("abc") * 10})
DF = DF.assign(y=DF["x"] + RNG.normal(size=30), **{"a b": DF["x"] ** 2})
RUN = "__import__('os').system('touch run')"
ATTACKS = {
    "system": f"I({RUN})",
    "bare": RUN,
    "braces": f"{{{RUN}}}",
    "quoted in braces": "{open('run', 'w')}",
    "eval": "I(eval('1'))",
    "exec": 'I(exec("import os"))',
    "nested": "C(C(I(eval('x'))))",
    "open": "I(open('run', 'w'))",
    "dunder name": "I(__builtins__)",
    "reserved name": "I(__FORMULAIC_STATE__)",
    "attribute chain": "I(x.__class__.__base__.__subclasses__())",
    "method": "I(x.to_csv('run'))",
    "pickle": "I(x.to_pickle('run'))",
    "pandas eval": "I(x.to_frame().eval('x'))",
    "module of numpy": "np.ctypeslib.load_library('run', '.')",
    "files of numpy": "np.save('run', x)",
    "pickles of numpy": "np.load('run', allow_pickle=True)",
    "sources of numpy": "np.fromfile('run')",
    "attribute of a function": "I(log.__globals__)",
    "call of a call": "I(log(x)(x))",
    "attribute alone": "{np.core}",
    "lambda": "I((lambda: 1)())",
    "lambda alone": "{lambda: x}",
    "comprehension": "I([t for t in x])",
    "generator": "I(sum(t for t in x))",
    "dict": "I({'a': x})",
    "f-string": "I(f'{x}')",
    "f-string with a call": "C(x, f\"{open('run')}\")",
    "format": "I('{0.__class__}'.format(x))",
    "walrus": "I((t := x))",
    "index": "I(x[0])",
    "condition": "I(x if k else k)",
    "star": "poly(*x)",
    "stars": "C(x, **k)",
    "backticks of a call": "`__import__`('os')",
    "backticks in a call": "I(`__import__`('os'))",
    "backticks of an attribute": "`x`.to_csv('run')",
    "backticks with code": f"I(`a b`.map({RUN}))",
    "keyword": f"C(s, levels={RUN})",
    "contrasts": f"C(s, contr.treatment({RUN}))",
    "contrast attribute": "C(s, contr.__class__)",
    "quoting": "Q('x')",
    "other rows": "lag(x)",
    "unknown": "nothing(x)",
    "power of numbers": "I(9**9**9**9)",
    "power of signs": "I(x + 9**(9**9))",
    "text many times": "I('a' * 10**9)",
    "list many times": "C(s, levels=['a'] * 1000000000)",
    "shift": "I(1 << 9999999999)",
    "await": "I(await x)",
    "bytes": "C(s, levels=[b'a'])",
    "many columns": "poly(x, 1000000000)",
    "many knots": "bs(x, df=1000000000)",
    "power of terms": "(x + k)**100000000",
    "power of terms, other sign": "(x + k)^100000000",
    "deep": "I(" * 300 + "x" + ")" * 300,
    "deep brackets": "(" * 5000 + "x" + ")" * 5000,
    "long": " + ".join(["x"] * 20000),
    "two lines": "I(x\n); import os",
    "statement": "{import os}",
}


@pytest.mark.parametrize("formula", ATTACKS.values(), ids=ATTACKS)
def test_what_is_no_arithmetic_is_refused_and_not_run(formula, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for declare in (
        lambda: br.models.Regression({"y": f"1 + {formula}"}),
        lambda: br.models.Regression({"y": formula}),
    ):
        with pytest.raises(br.InputError, match="formula of 'y'"):
            declare()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("formula", ["I(x.max())", "nothing(x)", "np.save('f', x)"])
def test_a_refusal_names_the_term_and_the_cure(formula):
    with pytest.raises(br.InputError) as caught:
        parse("y", f"1 + k + {formula}")
    message = str(caught.value)
    assert f"term {formula!r}" in message and "column of the table beforehand" in message


def test_formulas_of_a_study_file_are_looked_at_before_the_data_are(tmp_path):
    from bayes_risk.app.run import run_study

    content = {
        "data": {"path": str(tmp_path / "none.csv")},
        "model": {"kind": "Regression", "formulas": {"y": ATTACKS["system"]}},
        "attribute": {},
    }
    with pytest.raises(br.InputError, match="has the function .__import__"):
        run_study(parse_study(content))


GOOD = {
    "1 + x + C(s)": None,
    "x*k + x:k - 1": None,
    "(x + k)**2": None,
    "I(x**2) + I(x > 1.5) + I((x > 1) & ~(k == 2))": None,
    "log(x) + exp(-x) + np.sqrt(x) + np.log1p(x)": None,
    "center(x) + scale(k) + standardize(x)": None,
    "poly(x, 2) + bs(x, df=4) + cr(x, df=3)": None,
    "C(s, contr.treatment('b')) + C(k, Treatment(1))": None,
    "C(s, contr.sum) + C(k, Sum)": None,
    "C(s, levels=['a', 'b', 'c']) + I(s == 'a')": None,
    "`a b` + I(`a b` * 2) + {x / 2}": None,
}


@pytest.mark.parametrize("formula", GOOD)
def test_arithmetic_and_listed_functions_pass(formula):
    model = br.models.Regression({"y": formula})
    fit = model.fit(DF, draws=4, chains=2, random_seed=1)
    assert np.isfinite(fit.synthesize(1, random_seed=2).datasets[0]["y"]).all()


@pytest.mark.parametrize("formula", ["log(s)", "I(s * 2.5)", "poly(x, -1)", "np.sqrt(s)"])
def test_what_goes_wrong_in_a_term_is_told_without_values(formula):
    table = DF.assign(s=["Zwiebelschneider", "open", "shut"] * 10)
    with pytest.raises(br.InputError, match="cannot be evaluated") as caught:
        br.models.Regression({"y": f"1 + {formula}"}).fit(table, draws=4, chains=2, random_seed=1)
    assert "Zwiebel" not in str(caught.value) and formula.split("(")[0] in str(caught.value)


def test_a_term_is_told_without_the_levels_that_it_makes():
    """Names of coefficients hold levels of the data: ``s[T.Zwiebelschneider]``."""
    table = DF.assign(s=["Zwiebelschneider", "open", "shut"] * 10)
    Regression = br.models.Regression
    with pytest.raises(br.InputError, match=r"term 's:log\(x - x\)' .* is not finite") as caught:
        Regression({"y": "1 + s:log(x - x)"}).fit(table, draws=4, chains=2, random_seed=1)
    assert "Zwiebel" not in str(caught.value)
    draws = pd.DataFrame({"Intercept": [1.0, 2.0], "sigma": [1.0, 1.0], "s[T.shut]": [0.0, 0.1]})
    draws["s[T.open]"] = draws["s[T.Zwiebelschneider]"] = np.nan
    few = draws.iloc[:, :2]
    for given, told in ((draws, "'s' of 'y' must be"), (few, "coefficient 's' of one of")):
        with pytest.raises(br.InputError, match=told) as caught:
            Regression({"y": "1 + s"}).from_draws(table, {"y": given})
        assert "Zwiebel" not in str(caught.value) and "T." not in str(caught.value)


def test_a_value_between_backticks_is_not_told(monkeypatch):
    def fails(*args, **kwargs):
        raise ValueError("factor `log(s)` fails for `Zwiebelschneider`")

    table = DF.assign(s=1.0)
    monkeypatch.setattr(Expression, "value", fails)
    with pytest.raises(br.InputError, match=r"'log\(s\)' fails with") as caught:
        br.models.Regression({"y": "1 + log(s)"}).fit(table, draws=4, chains=2, random_seed=1)
    assert "Zwiebel" not in str(caught.value)


ODD = ["class", "None", "log", "it's", 'say "x"', "a/b", "a.b", "\u2163", "e\u0301t\xe9", "1 + 2"]


@pytest.mark.parametrize("name", ODD)
def test_a_column_may_have_any_name_in_backticks(name):
    """Also those that Python does not read as they are written: keywords, numerals, accents."""
    found = []
    for column in ("plain", name):
        frame = pd.DataFrame({"x": DF["x"], column: DF["x"] * 2 + DF["k"]})
        quoted = f"`{column}`"
        formula = f"x:{quoted} + C(2 * {quoted} > 6) + poly({quoted}, 2) + exp(-{quoted})"
        reading = parse("y", formula)
        assert reading.columns == sorted({"x", column})
        coding, matrix = reading.learnt(frame)
        found += [matrix, coding.matrix(frame), pickle.loads(pickle.dumps(coding)).matrix(frame)]
    assert all(np.array_equal(found[0], other) for other in found)
    assert any(column in name for name in coding.names)


@pytest.mark.parametrize("name", ["class", "if", "lambda", "\u2163", "x"])
def test_words_need_no_backticks(name):
    terms = [[str(f) for f in term.factors] for term in parse("y", f"C({name}) + {name}").terms]
    assert terms == [["1"], [f"C({name})"], [name]]
    bare, quoted = (parse("y", f"1 + {n} + C({n}, levels=['if'])") for n in (name, f"`{name}`"))
    assert list(bare.terms) == list(quoted.terms) and bare.columns == quoted.columns == [name]


REFUSED = {
    "I('x')": "names no column",
    "C(None)": "names no column",
    "exp(log)": "backticks",
    "": "'1' for a constant alone",
    " ": "'1' for a constant alone",
    "1 + .": "C\\(group\\)",
    "1 + x +": "C\\(group\\)",
    "I(x if k else k)": "C\\(group\\)",
    "C(`a b)": "C\\(group\\)",
}


@pytest.mark.parametrize("formula", REFUSED, ids=range(len(REFUSED)))
def test_a_formula_that_says_nothing_is_refused_in_one_line(formula):
    with pytest.raises(br.InputError, match=REFUSED[formula]) as caught:
        br.models.Regression({"y": formula})
    assert "of 'y'" in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize("term", [f"I({'-' * 3000}x)", f"I({'+'.join('x' * 900)})"])
def test_a_term_deeper_than_python_goes_is_refused(term):
    before = sys.getrecursionlimit()  # PyTensor raises it
    sys.setrecursionlimit(1000)
    try:
        with pytest.raises(br.InputError, match="of 'y'.*cannot be read"):
            parse("y", term)
    finally:
        sys.setrecursionlimit(before)


def test_nobody_else_parses_meanwhile(monkeypatch):
    monkeypatch.setattr(formulas, "_compiled", lambda text: (global_compiler_lock.is_locked(), 0))
    assert Expression("x", {})._code and not global_compiler_lock.is_locked()
