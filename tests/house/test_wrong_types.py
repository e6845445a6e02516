"""Whatever is given for an argument, a public function works or names the argument.

Every argument of every public function, declaration and method of a result is given each of some
thirty values of other types. What is raised is an InputError or a ModelError, and holds nothing of
the table. Functions that read a path or a folder are left out: their refusals have tables. The
second tier gives a quarter of the values.
"""

import inspect
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

PATHS = ("read_study", "run_study", "run_sweep", "run_compare", "parse_study", "demo")
SECRET = "Zanzibar"


@cache
def made():
    rng, n = np.random.default_rng(1), 40
    df = pd.DataFrame(
        {
            "sex": rng.choice(list("fm"), n),
            "job": rng.choice(["x", "y", SECRET], n),
            "income": rng.integers(20, 26, n),
            "region": rng.choice(list("pqr"), n),
        },
        index=[f"r{i}" for i in range(n)],
    )
    model = br.models.CART(["job", "income"], min_leaf=5)
    fit = model.fit(df, random_seed=1)
    release = fit.synthesize(2, random_seed=2)
    risk = br.attribute_risk(fit, release, targets=4, random_seed=3, progress=False)
    return {"df": df, "model": model, "fit": fit, "release": release, "risk": risk}


def odd():
    own = made()
    numbers = [5, -1, 1.5, np.nan, np.inf, 10**400, 1j, True, np.zeros(3)]
    texts = ["x", "", pd.NA, None, object(), [b"x"]]
    lists = [[], ["x"], [["x"]], [None], [{}], set(), range(3), np.zeros((2, 2))]
    mappings = [{}, {"x": 1}, {1: 2}, {"job": None}, {"income": "x"}]
    ours = [own["df"], own["df"]["job"], own["fit"], own["release"], own["model"]]
    return [*numbers, *texts, *lists, *mappings, *ours, lambda *of, **how: 0]


def public():
    """Name, callable and arguments that work, of all that is public."""
    own = made()
    by_name = {
        **{name: own[name] for name in ("fit", "release", "risk", "model")},
        "releases": own["release"],
        **dict.fromkeys(("df", "original", "data", "table"), own["df"]),
        **{"known": ["sex"], "keys": ["sex"], "by": ["sex"], "m": 2, "variable": "income"},
        **{"label": "r1", "targets": ["r1", "r2"]},
    }
    found = [(f"br.{name}", getattr(br, name)) for name in br.__all__ if name not in PATHS]
    found += [(f"br.models.{n}", getattr(br.models, n)) for n in br.models.__all__]
    for of in ("risk", "fit", "model", "release"):
        names = [n for n in dir(own[of]) if not n.startswith("_")]
        found += [(f"{of}.{n}", getattr(own[of], n)) for n in names]
    for name, call in found:
        exception = inspect.isclass(call) and issubclass(call, BaseException)
        if callable(call) and not exception and not inspect.ismodule(call):
            takes = inspect.signature(call).parameters.values()
            needed = [p.name for p in takes if p.default is p.empty and p.name in by_name]
            yield name, call, {n: by_name[n] for n in needed}


@pytest.mark.parametrize(
    "few",
    [pytest.param(True, marks=pytest.mark.check), pytest.param(False, marks=pytest.mark.slow)],
)
def test_whatever_is_given_works_or_is_named(few, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    faults, tried = [], 0
    for name, call, right in public():
        if name in ARRAYS:
            continue
        for one in inspect.signature(call).parameters.values():
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) or one.name in LEFT_OUT:
                continue
            for value in odd()[:: 4 if few else 1]:
                tried += 1
                said = what_is_said(call, right | {one.name: value})
                if said is not None:
                    faults.append(f"{name}({one.name}={type(value).__name__}): {said}")
    assert tried > (1_500 if few else 6_000)
    assert not faults, "\n".join(faults)


# called as steps go on; written to, or shown
LEFT_OUT = ("progress", "ax", "axes", "path", "folder")
ARRAYS = ("risk.decoded", "risk.given_away", "risk.by_target")  # of the arrays within a result


def what_is_said(call, given):
    """The fault of a refusal, if it is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(**given)
        except (br.InputError, br.ModelError) as error:
            return "names a value of the table" if SECRET in str(error) else None
        except TypeError as error:
            missing = "required" in str(error) or "positional" in str(error)
            return None if missing else repr(error)
        except Exception as error:
            return repr(error)
    return None
