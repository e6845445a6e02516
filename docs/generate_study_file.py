"""Writes the tables of keys in study-file.md from the sections; ``make docs`` runs it."""

import json
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

from bayes_risk._core.validate import MOST
from bayes_risk.app.study.contents import SECTIONS
from bayes_risk.app.study.keys import Section
from bayes_risk.app.study.measures import PopulationSection, RadiusSection
from bayes_risk.app.study.models import KINDS, RegressionPriorSection
from bayes_risk.app.study.sections import GridSection, IntruderSection, PriorInterval
from bayes_risk.app.study.study import Study
from bayes_risk.app.study.sweep import CandidateSection

PAGE = Path(__file__).with_name("study-file.md")
TABLE = re.compile(r"(?<=^<!--keys:)(\S+)(-->\n)(?:\|.*\n)*", re.MULTILINE)
TABLES: dict[str, type[Section]] = {
    "study": Study,
    **SECTIONS,
    **{f"model.{kind}": section for kind, section in KINDS.items()},
    "model.prior": RegressionPriorSection,
    "attribute.guesses": GridSection,
    "attribute.prior": PriorInterval,
    "attribute.intruder": IntruderSection,
    "identification.radius": RadiusSection,
    "identification.population": PopulationSection,
    "compare.NAME": CandidateSection,
}
SHORTER = {
    ", or leave it out": "",
    "a list of column names": "columns",
    "a column name": "column",
    "a number from 0 to 1": "0\N{EN DASH}1",
    "a number above 0 and below 1": "0\N{EN DASH}1",
    "a number above 0 and at most 1": "0\N{EN DASH}1",
    "a number above 0": "> 0",
    "a number >=": ">=",
    "true or false": "",
    "a table of column = ": "by column: ",
    "the path of ": "path of ",
    ", two numbers": "",
}
SHARED = ("kind", "draws", "tune", "chains")  # of models, on the page above their tables


def meanings(section: type[Section]) -> dict[str, str]:
    """What each key means, as the docstring of its section says: lines ``key: meaning``."""
    text = re.sub(r"\n +", " ", cleandoc(section.__doc__ or ""))
    return dict(re.findall(r"^(\w+): (.*)$", text, re.MULTILINE))


def keys(section: type[Section]) -> Iterator[str]:
    """Keys of a section's table: those that are no sections themselves."""
    own = {"model", *SECTIONS} if section is Study else set()
    own |= {*SHARED} if section in KINDS.values() else set()
    own -= {"draws"} if "draws" in meanings(section) else set()
    return (key for key in section.model_fields if key not in own)


def table(section: type[Section]) -> str:
    """Markdown with a row for each key: key, value, default, meaning."""
    said, rows = meanings(section), ["|key|value|default|meaning|", "|---|---|---|---|"]
    for key in keys(section):
        field = section.model_fields[key]
        right = _value(key, field.description or "")
        default = "required" if field.is_required() else _shown(field.default)
        cells = (f"`{key}`", right, default, said[key])
        rows.append("|" + "|".join(cell.replace("|", r"\|") for cell in cells) + "|")
    return "\n".join(rows) + "\n"


def _value(key: str, right: str) -> str:
    """What a key may be, as messages say it but shorter, with the bound of whole numbers."""
    if key != "random_seed" and key in MOST:
        right = re.sub(
            r"a whole number(?: >= (\d+))?", lambda n: f"{n[1] or 1}\N{EN DASH}{MOST[key]:,}", right
        )
    for long, short in SHORTER.items():
        right = right.replace(long, short)
    return re.sub(r'(?<!`)("[^"]*")(?!`)', r"`\1`", re.sub(r'(?<="),? (?:or )?(?=")', "/", right))


def _shown(default: Any) -> str:
    """A default as TOML has it; nothing for what may be left out."""
    if default is None or default in ({}, []) or isinstance(default, Section):
        return ""
    plain = isinstance(default, str | bool | int | float | list | tuple)
    return f"`{json.dumps(default) if plain else default}`"


def generated(page: str) -> str:
    """The page with its tables as the declarations have them."""
    return TABLE.sub(lambda found: f"{found[1]}{found[2]}{table(TABLES[found[1]])}", page)


if __name__ == "__main__":
    PAGE.write_text(generated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
