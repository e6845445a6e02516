"""Writes the tables of keys in study-file.md from the sections; ``make docs`` runs it."""

import json
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

from bayes_risk import models
from bayes_risk._core.validate import MOST
from bayes_risk.app.study.contents import SECTIONS
from bayes_risk.app.study.keys import Section
from bayes_risk.app.study.measures import PopulationSection, RadiusSection
from bayes_risk.app.study.models import ModelSection, in_file, part_of, section_of
from bayes_risk.app.study.sections import GRID, IntruderSection, PriorInterval
from bayes_risk.app.study.study import Study
from bayes_risk.app.study.sweep import CandidateSection

PAGE = Path(__file__).with_name("study-file.md")
TABLE = re.compile(r"(?<=^<!--keys:)(\S+)(-->\n)(?:\|.*\n)*", re.MULTILINE)
TABLES: dict[str, type[Section]] = {
    "study": Study,
    **SECTIONS,
    **{f"model.{kind}": section_of(kind) for kind in models.BUILT_IN},
    "model.prior": part_of(models.RegressionPrior),
    "attribute.guesses": GRID,
    "attribute.prior": PriorInterval,
    "attribute.intruder": IntruderSection,
    "identification.radius": RadiusSection,
    "identification.population": PopulationSection,
    "compare.NAME": CandidateSection,
}
SHORTER = {
    ", or leave it out": "",
    "a list of column names": "columns",
    " or leave it out": "",
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
AS_DPMPM = ("concentration_prior", "level_prior", "impossible", "thin", "splits")
SHARED = ("kind", "draws", "tune", "chains")  # of models, on the page above their tables


ARGUMENT = re.compile(r"^(\w[\w, ]*) : (.*)\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)
LONG = 13  # words
CHOICES = re.compile(r"\{(.*)\}")
TYPES = {"sequence of str": "columns", "str": "a column name"}
IN_FILES = {  # what stands in a file in another form than in a script
    "build": "makes a PyMC model of a table; the file is run",
    "constraints": "functions, likewise: each says of every row of a table whether it is possible",
    "draws": "files of draws brought from elsewhere, instead of a number",
    "families": '`"normal"`, `"lognormal"`, `"student"`, `"bernoulli"`, `"poisson"`, '
    '`"negative-binomial"`, `"ordered"`, `"categorical"`, or `{ binomial = "trials" }`',
    "impossible": "a table has one rule a row, empty fields for any value",
    "missing_numbers": "beside `models`: numbers that stand for missing values",
    "models": "trees that synthpop grew; no key for growing goes with it",
    "slopes": "the same, of the slopes",
    "intercept": "standard deviation of its normal prior, on standardised predictors",
    "priors": "of one regression, instead of `prior`: `[model.priors.COLUMN]`",
}
OF_MIXTURES = {
    "families": '`"count"`, `"normal"` or `"lognormal"`; others are categories',
    "missing_numbers": "numbers that stand for missing values",
}


def arguments(declares: Any) -> dict[str, tuple[str, str]]:
    """Type and meaning of each argument of a declaration and its fit, of its numpydoc."""
    found: dict[str, tuple[str, str]] = {}
    brought = [getattr(declares, name) for name in dir(declares) if name.startswith("from_")]
    for place in [declares, getattr(declares, "fit", None), *brought]:
        text = cleandoc(getattr(place, "__doc__", None) or "") + "\n"
        for names, kind, said in ARGUMENT.findall(text.partition("Parameters\n")[2]):
            first, *more = re.split(r"(?<=[A-Za-z)`\]0-9])[.;](?= |$)", " ".join(said.split()))
            short = len(first.split()) < 5 and more and more[0]
            words = (f"{first}.{more[0]}" if short else first).replace("``", "`").replace("|", "")
            if len(words.split()) > LONG:
                words = re.sub(r" *\([^()]*\)", "", words).partition(":")[0]
            words = words[:1].lower() + words[1:] if words[1:2].islower() else words
            for name in names.split(", "):
                found.setdefault(in_file(name), (kind, words))
    return found


def meanings(section: type[Section]) -> dict[str, str]:
    """What each key means: lines ``key: meaning`` of its section, or the library's docstring."""
    declares = getattr(section, "declares", None)
    if declares is not None:
        said = arguments(models.DPMPM) | arguments(declares)  # "as in `DPMPM.fit`"
        other = {models.PMM: {}, models.Mixture: {**IN_FILES, **OF_MIXTURES}}.get(
            declares, IN_FILES
        )
        return {key: other.get(key) or said[key][1] for key in keys(section)}
    text = re.sub(r"\n +", " ", cleandoc(section.__doc__ or ""))
    return dict(re.findall(r"^(\w+): (.*)$", text, re.MULTILINE))


def choices(section: type[Section]) -> dict[str, str]:
    """What the library's docstring lists, or calls a column, by key."""
    declares, found = getattr(section, "declares", None), {}
    for key, (kind, _) in arguments(declares).items() if declares is not None else ():
        listed, plain = CHOICES.search(kind), kind.removesuffix(", optional")
        if listed is not None and ":" not in kind:
            found[key] = f"by column: {listed[1]}" if kind.startswith("mapping") else listed[1]
        elif plain in TYPES and key not in ("build", "nuts_sampler"):
            found[key] = TYPES[plain]
    return found


def keys(section: type[Section]) -> Iterator[str]:
    """Keys of a section's table: those that are no sections themselves."""
    own = {"model", *SECTIONS} if section is Study else set()
    own |= {*SHARED} if issubclass(section, ModelSection) else set()
    if getattr(section, "declares", None) in (models.Mixture, models.PoissonMixture):
        own |= {*AS_DPMPM}
    if issubclass(section, ModelSection) and set(section.ways) > {"fit"}:
        own -= {"draws"}
    return (key for key in section.model_fields if key not in own)


def table(section: type[Section]) -> str:
    """Markdown with a row for each key: key, value, default, meaning."""
    said, rows = meanings(section), ["|key|value|default|meaning|", "|---|---|---|---|"]
    kinds = choices(section)
    for key in keys(section):
        field = section.model_fields[key]
        right = _value(key, kinds.get(key) or field.description or "")
        default = "required" if field.is_required() else _shown(field.default)
        cells = (f"`{key}`", right, default, said[key])
        rows.append("|" + "|".join(cell.replace("|", r"\|") for cell in cells) + "|")
    return "\n".join(rows) + "\n"


def _value(key: str, right: str) -> str:
    """What a key may be, as messages say it but shorter, with the bound of whole numbers."""
    if key != "random_seed" and key in MOST:
        right = re.sub(
            r"a whole number(?: >= (\d+))?",
            lambda n: (f"{n[1]}\N{EN DASH}" if n[1] else "at most ") + f"{MOST[key]:,}",
            right,
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
