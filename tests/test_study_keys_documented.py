"""The page on the study file against the sections: the same keys, with the same defaults."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from bayes_risk._core.validate import MOST
from bayes_risk.app.study.comparing import CandidateSection, CompareSection
from bayes_risk.app.study.contents import SECTIONS
from bayes_risk.app.study.identification import PopulationSection, RadiusSection
from bayes_risk.app.study.intruder import IntruderSection
from bayes_risk.app.study.keys import Section
from bayes_risk.app.study.models import KINDS, RegressionPriorSection
from bayes_risk.app.study.priors import (
    DistributionSection,
    PriorDensity,
    PriorFactor,
    PriorInterval,
    PriorMixture,
)
from bayes_risk.app.study.sections import GridSection
from bayes_risk.app.study.study import Study, parse_study

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "study-file.md").read_text()
SHARED = ("kind", "draws", "tune", "chains")  # told once, above the kinds of models
WORDS = {"none", "all", "not judged", "must be given", ""}  # of keys without a default in TOML
DECIDED_LATER = {(CompareSection, "utility"), (RadiusSection, "groups")}  # None stands for it
HEADED = {  # tables below the first of a section, by the head of their first column
    "key of a grid": GridSection,
    "key of a radius": RadiusSection,
    "key of `population`": PopulationSection,
    "key of `[compare.NAME]`": CandidateSection,
}


def parts():
    """Heading and text of every part of the page."""
    found = re.split(r"^##+ (.*)$", PAGE, flags=re.MULTILINE)
    return dict(zip(["", *found[1::2]], found[::2], strict=True))


def tables(text):
    """Keys and defaults of every table of keys, with the head of its first column."""
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        head, _, *rows = ([c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
                          for line in block.splitlines())  # fmt: skip
        if not head[0].startswith("key"):
            continue
        keys = {}
        for first, default, *_ in rows:
            names = re.findall(r"`([^`]+)`", first)
            given = default.split(", ") if len(names) > 1 else [default]
            keys |= dict(zip(names, given * (len(names) if len(given) == 1 else 1), strict=True))
        yield head[0], keys


def part(start):
    (text,) = [text for heading, text in parts().items() if heading.startswith(start)]
    return text


def first_table(start):
    return next(keys for head, keys in tables(part(start)) if head == "key")


OF = {
    **{f"`[{name}]`": section for name, section in SECTIONS.items()},
    "`[attribute.intruder]`": IntruderSection,
    **{f'`kind = "{name}"`': kind for name, kind in KINDS.items()},
}


@pytest.mark.parametrize("heading", OF)
def test_a_sections_table_has_its_keys_and_no_others(heading):
    fields, given = set(OF[heading].model_fields), set(first_table(heading))
    if "kind" in heading:
        fields, given = fields - set(SHARED), given - set(SHARED)
    assert given == fields


def test_keys_of_every_model_stand_above_the_kinds():
    assert set(first_table("`[model]`")) == set(SHARED)


def test_keys_above_all_sections_are_those_of_the_study():
    top = next(keys for head, keys in tables(parts()[""]) if head == "key")
    assert set(top) == set(Study.model_fields) - set(SECTIONS) - {"model"}


@pytest.mark.parametrize("head", HEADED)
def test_further_tables_have_their_keys_and_no_others(head):
    (keys,) = [keys for found, keys in tables(PAGE) if found == head]
    assert set(keys) == set(HEADED[head].model_fields)


def test_the_table_of_an_interval_has_its_keys():
    (keys,) = [keys for _, keys in tables(part("`[attribute]`")) if "interval" in keys]
    assert set(keys) == set(PriorInterval.model_fields)


@pytest.mark.parametrize(
    "section",
    [DistributionSection, PriorDensity, PriorFactor, PriorMixture, RegressionPriorSection],
    ids=lambda section: section.__name__,
)
def test_keys_told_in_the_text_are_there(section):
    shown = re.findall(r"`\{? ?(\w+)", PAGE) + re.findall(r"\b(\w+) = ", PAGE)
    assert set(section.model_fields) <= set(shown)


def defaults():
    """Every key whose default the page writes as a value."""
    named = [(heading, section, first_table(heading)) for heading, section in OF.items()]
    named += [(h, HEADED[h], k) for h, k in tables(PAGE) if h in HEADED and "[" not in h]
    for heading, section, keys in named:
        for key, told in keys.items():
            if heading == "`[sweep]`" or told in WORDS or key not in section.model_fields:
                continue
            yield pytest.param(section, key, told, id=f"{heading} {key}".replace("`", ""))


@pytest.mark.parametrize(("section", "key", "told"), list(defaults()))
def test_a_default_that_is_told_is_the_default(section, key, told):
    field = section.model_fields[key]
    try:
        value = tomllib.loads(f"x = {told.partition(', not judged')[0].replace('`', '')}")["x"]
    except tomllib.TOMLDecodeError:  # in words: the section has none, or decides by the others
        assert field.default is None or field.is_required() or field.default in ([], {}) or (
            key in ("prior", "folder", "file", "m")
        )  # fmt: skip
        return
    if (section, key) in DECIDED_LATER:
        assert field.default is None
        return
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    assert default == value


@pytest.mark.parametrize("heading", OF)
def test_a_key_without_a_told_default_has_none(heading):
    section, keys = OF[heading], first_table(heading)
    for key, told in keys.items():
        if heading == "`[sweep]`" or key in SHARED:
            continue
        field = section.model_fields[key]
        assert (told == "must be given") == field.is_required(), key
        if told in ("none", "not judged", "all", ""):
            assert field.is_required() or field.default in (None, {}, []), key


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
        assert name in MOST or not counts, name


def test_the_page_states_every_bound_of_a_key():
    told = re.findall(r"^\| ([\d,]+) \| (.*`.*) \|$", parts()[""], flags=re.MULTILINE)
    found = {
        key: int(n.replace(",", "")) for n, keys in told for key in re.findall(r"`(\w+)`", keys)
    }
    python = {"bins", "n_tables", "batch", "trials", "budget", "distance", "n_jobs", "random_seed"}
    assert found == {key: most for key, most in MOST.items() if key not in python}
