"""Keeps the tables of keys in study-file.md, and names of keys in a module, as they are."""

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayes_risk import models
from bayes_risk._core.validate import RANGES
from bayes_risk.app.study import known_keys
from bayes_risk.app.study.keys import Section
from bayes_risk.app.study.sections import GRID, INTRUDER, CandidateSection, PopulationSection
from bayes_risk.app.study.signatures import ModelSection, members, model_section, part_of, ways_of
from bayes_risk.app.study.study import Study
from bayes_risk.intruder.priors import Interval

PAGE = Path(__file__).with_name("study-file.md")
MODULE = Path(known_keys.__file__)
NAMES = re.compile(r'(?<=TEXT = """\\\n).*?(?=""")', re.DOTALL)
TABLE = re.compile(r"(?<=^<!--keys:)(\S+)(-->\n)((?:\|.*\n)*)", re.MULTILINE)
BOUNDS = re.compile(r"a whole number from (\S+) to (\S+)")
SHOWN_BOUNDS = re.compile(r"\d[\d,]*–\d[\d,]*|a whole number from \S+ to \S+")
WORDS = re.compile(r'("[^"]*"( or |, )?)+')
MOST_WORDS = 45  # of a cell without words of its own
CELL = re.compile(r"(?<!\\)\|")
SECTIONS: dict[str, Any] = {
    name: members(field.annotation)[0]
    for name, field in Study.model_fields.items()
    if name not in ("title", "random_seed", "model")
}
TABLES: dict[str, type[Section]] = {
    "study": Study,
    **SECTIONS,
    **{f"model.{kind}": model_section(kind) for kind in models.BUILT_IN},
    "model.prior": part_of(models.RegressionPrior),
    "attribute.guesses": GRID,
    "attribute.prior": part_of(Interval),
    "attribute.intruder": INTRUDER,
    "identification.population": PopulationSection,
    "compare.NAME": CandidateSection,
}
AS_DPMPM = ("concentration_prior", "level_prior", "impossible", "thin", "splits")
SHARED = ("kind", "draws", "tune", "chains", "weights")  # of models, on the page above their tables


def keys(section: type[Section]) -> Iterator[str]:
    """Keys of a section's table: those that are no sections themselves."""
    own = {"model", *SECTIONS} if section is Study else set()
    own |= {*SHARED} if issubclass(section, ModelSection) else set()
    if getattr(section, "declares", None) in (models.Mixture, models.PoissonMixture):
        own |= {*AS_DPMPM}
    if issubclass(section, ModelSection) and ways_of(section.__name__.removesuffix("Section")):
        own -= {"draws"}
    return (key for key in fields(section) if key not in own)


def fields(section: type[Section]) -> dict[str, Any]:
    """Fields of a section, of a model those too that go with files which are brought."""
    found: dict[str, Any] = dict(section.model_fields)
    if issubclass(section, ModelSection) and section is not ModelSection:
        kind = section.__name__.removesuffix("Section")
        for way in ways_of(kind):
            found = model_section(kind, way).model_fields | found
    return {key: found[key] for key in dict.fromkeys([*section.model_fields, *found])}


def words(rows: str) -> dict[str, tuple[str, str]]:
    """Value and meaning of each key, as the page has them."""
    cells = (CELL.split(row)[1:-1] for row in rows.splitlines()[2:])
    return {key.strip("`"): (value, meaning) for key, value, _, meaning in cells}


def table(section: type[Section], rows: str) -> str:
    """Markdown with a row for each key: key, value, default, meaning."""
    said, found = words(rows), ["|key|value|default|meaning|", "|---|---|---|---|"]
    for key in keys(section):
        field = fields(section)[key]
        value, meaning = said.get(key, ("", ""))
        right = (field.description or "").removesuffix(" or leave it out")
        if not value and len(right) < MOST_WORDS:
            value = re.sub(r'("[^"]*")', r"`\1`", right)
        if WORDS.fullmatch(right):
            value = "/".join(f"`{word}`" for word in re.findall('"[^"]*"', right))
        if key in RANGES and right == RANGES[key].in_words():
            low, high, above, below = RANGES[key]
            value = f"{'(' if above else '['}{low:g}, {high:g}{')' if below else ']'}"
        if bounds := BOUNDS.search(right):  # those that are checked
            value = SHOWN_BOUNDS.sub(f"{bounds[1]}–{bounds[2]}", value)
        default = "required" if key in section.model_fields else ""
        default = default if field.is_required() else _shown(field.default)
        found.append(f"|`{key}`|{value}|{default}|{meaning}|")
    return "\n".join(found) + "\n"


def _shown(default: Any) -> str:
    """A default as TOML has it; nothing for what may be left out."""
    if default is None or default in ({}, []) or isinstance(default, Section):
        return ""
    plain = isinstance(default, str | bool | int | float | list | tuple)
    return f"`{json.dumps(default) if plain else default}`"


def generated(page: str) -> str:
    """The page with the keys and defaults that the sections have."""
    return TABLE.sub(lambda of: f"{of[1]}{of[2]}{table(TABLES[of[1]], of[3])}", page)


def module() -> str:
    """`bayes_risk.app.study.known_keys`: names of keys by section, and of models by kind."""
    models = {name: of for name, of in TABLES.items() if name.startswith("model.")}
    sections = {"study": Study, **SECTIONS, "attribute.intruder": INTRUDER, **models}
    rows = [
        textwrap.fill(f"{name}: {' '.join(fields(of))}", 96, subsequent_indent="    ")
        for name, of in sections.items()
        if name not in ("compare", "model.prior")  # candidates have names of their own
    ]
    code = MODULE.read_text(encoding="utf-8")
    return NAMES.sub("\n".join([*rows, ""]), code)


if __name__ == "__main__":
    if (code := module()) != MODULE.read_text(encoding="utf-8"):  # else tests may be reading it
        MODULE.write_text(code, encoding="utf-8")
    PAGE.write_text(generated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
