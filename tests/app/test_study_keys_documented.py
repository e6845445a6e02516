"""The page on the study file has the keys and defaults of the sections; numbers have bounds."""

import re
import runpy
import tomllib
from datetime import date
from math import inf, nextafter
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from bayes_risk import models
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import BOUNDS, WORDS
from bayes_risk.app.study import keys, known_keys
from bayes_risk.app.study.keys import Section, problems, written
from bayes_risk.app.study.sections import (
    HISTORY,
    OPTIONS,
    PRIORS,
    CoarserSection,
    DataSection,
    DistributionSection,
    ReleaseSection,
    SampledSection,
)
from bayes_risk.app.study.signatures import DeclaredPart, ModelSection, model_section, part_of
from bayes_risk.app.study.study import SETTINGS, Study, parse_study
from bayes_risk.data.households import Households
from bayes_risk.matching.radii import SD, Absolute, Quantile
from tests.helpers.programs import python

MODELS = [model_section(kind).declares for kind in models.BUILT_IN]
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "study-file.md").read_text(encoding="utf-8")
GENERATOR = runpy.run_path(str(DOCS / "generate_study_file.py"))
IN_THE_TEXT = {
    *(CoarserSection, DistributionSection, SampledSection, *PRIORS[1:]),
    *(part_of(kind) for kind in (Absolute, SD, Quantile, models.Binomial)),
}
# no tables of keys: what others are made of, and what `[data]` names
BASES = {ModelSection, DeclaredPart, HISTORY, OPTIONS, SETTINGS, part_of(Households)}


def test_the_page_is_what_the_declarations_give():
    assert GENERATOR["generated"](PAGE) == PAGE, "run python docs/generate_study_file.py"


def test_names_of_keys_are_those_of_the_sections():
    module = Path(known_keys.__file__).read_text(encoding="utf-8")
    assert GENERATOR["module"]() == module, "run python docs/generate_study_file.py"
    assert known_keys.KEYS["data"] == [*DataSection.model_fields]
    assert known_keys.KEYS["study"] == [*Study.model_fields]


HEAVY = ("pandas", "scipy", "sklearn", "numba", "pymc")


def test_an_unknown_key_is_named_before_anything_is_imported(tmp_path):
    """In the words of the whole check."""
    path = tmp_path / "s.toml"
    path.write_text("[data]\ndemo = 'italy'\n[model]\ndrawz = 4\n[outputs]\n[release]\nq = 1\n")
    program = (
        "import sys; from bayes_risk.app import cli; sys.argv[1:] = ['audit', 's.toml']\n"
        "try: cli.main()\n"
        f"finally: print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = python("-c", program, cwd=tmp_path)
    assert done.stdout == "[]\n"
    assert done.stderr == (
        "bayes-risk: s.toml: the study has no key 'outputs'; did you mean 'output'?; "
        "line 4: [model] has no key 'drawz'; did you mean 'draws'?; line 7: [release] has no key "
        f"'q'; it knows {', '.join(ReleaseSection.model_fields)}\n"
    )


def test_every_section_has_a_table_or_is_in_the_text():
    shown = re.findall(r"^<!--keys:(\S+)-->$", PAGE, flags=re.MULTILINE)
    assert sorted(shown) == sorted(GENERATOR["TABLES"])
    ours = {one for one in subclasses() if one.__module__.startswith("bayes_risk.")}
    others = {s for s in ours if issubclass(s, ModelSection) and s.declares not in MODELS}
    told = {section.__name__ for section in {*GENERATOR["TABLES"].values(), *IN_THE_TEXT}}
    assert told == {section.__name__ for section in ours - others - BASES}
    for section in IN_THE_TEXT:
        assert [key for key in section.model_fields if f"{key} = " not in PAGE] == []


def test_every_key_has_a_meaning():
    for name, _, rows in GENERATOR["TABLE"].findall(PAGE):
        said = GENERATOR["words"](rows)
        assert [key for key, (_, meaning) in said.items() if not meaning] == [], name
        assert list(said) == list(GENERATOR["keys"](GENERATOR["TABLES"][name]))


def test_the_smallest_study_of_the_page_is_one():
    block = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    assert parse_study(tomllib.loads(block)).attribute is not None


# --- numbers: types and bounds --------------------------------------------------------------------


def subclasses(section: Any = Section):
    for sub in section.__subclasses__():
        yield from (sub, *subclasses(sub))


def schemas(schema):
    """All types of a core schema, but for those of sections in it."""
    if isinstance(schema, dict):
        if schema.get("type") == "model":
            return
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, dict | list | tuple):
            yield from schemas(part)


@pytest.mark.parametrize("section", sorted(set(subclasses()), key=str))
def test_numbers_are_strict_and_whole_ones_have_a_bound(section):
    for name, field in section.model_fields.items():
        alone = TypeAdapter(Annotated[field.annotation, None, *field.metadata]).core_schema
        types = [s for s in schemas(alone) if s.get("type") in ("int", "float", "bool")]
        values = name in ("levels", "impossible")  # of data, which may be anything
        assert values or all(s.get("strict") for s in types), name
        counts = [s for s in types if s["type"] == "int" and "ge" in s]
        assert name in BOUNDS or not counts, name


FROM = re.compile(r"a (?:whole )?number (from|above) ([\d.e,+-]*\d)")
TO = re.compile(r"(to|at most|below) ([\d.e,+-]*\d)(?!\^|\S*\^)")
CHOICE = re.compile(r'"[\w-]+"(,? (or )?"[\w-]+")*( or leave it out)?')


def misfits(words):
    """Values that are not what these words ask for: of another type, beyond bounds, other words."""
    wrong = [date(2026, 1, 1)]
    if found := FROM.match(words):
        whole = "whole" in words
        low, *most = (
            int(text.replace(",", "")) if whole else float(text)
            for text in [found[2], *(end[2] for end in TO.finditer(words))]
        )
        before, after = (
            (lambda x, by=by: x + by if whole else nextafter(x, by * inf)) for by in (-1, 1)
        )
        wrong += [True, low if found[1] == "above" else before(low)] + ["5"] * ("text" not in words)
        wrong += [high if "below" in words else after(high) for high in most]
    wrong += [1, "true"] * words.startswith("true or false")
    wrong += ["zz", 1] * bool(CHOICE.fullmatch(words))
    wrong += [[1]] * words.startswith("a list of texts") + ["a"] * (words == "a list of texts")
    wrong += ["a", [1], [1, 2, 3]] * words.startswith("[number, number]")
    return wrong


@pytest.mark.parametrize("section", sorted(set(subclasses()) - BASES, key=str))
def test_a_key_that_is_none_or_does_not_fit_is_named_with_what_would(section):
    def said(**given):
        with pytest.raises(ValidationError) as found:
            section.model_validate(given)
        return str(problems(found.value, above=["here"]))

    known = [*section.model_fields]
    assert f"[here] has no key 'zzzz'; it knows {', '.join(known)}" in said(zzzz=1)
    for key, field in section.model_fields.items():
        assert key not in WORDS or not re.match("a text", field.description or ""), key
        if len(key) > 3:
            assert f"[here] has no key '{key}{key[-1]}'; did you mean" in said(**{key + key[-1]: 1})
        for wrong in misfits(field.description or ""):
            words = f"[here] {key} = {written(wrong)} does not fit; give {field.description or ''}"
            assert words in said(**{key: wrong})


def test_many_unknown_keys_are_read_once_and_counted(tmp_path, monkeypatch):
    """Work in proportion to the file: its lines are read once, ten keys are named."""
    path, read = tmp_path / "s.toml", []
    path.write_text("[data]\n" + "".join(f"q{k} = 1\n" for k in range(20_000)))
    lines_of = keys.lines_of
    monkeypatch.setattr(keys, "lines_of", lambda p: read.append(p) or lines_of(p))
    with pytest.raises(InputError, match="line 11: .*; and 19,990 more$") as caught:
        keys.check_keys(path)
    assert len(read) == 1 and len(str(caught.value)) < 10_000
