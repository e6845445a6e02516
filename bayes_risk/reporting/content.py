"""What the report says, as the template wants it: assumptions, doubts, diagnostics, settings."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from bayes_risk._core.formats import (
    PLUS_MINUS,
    counted,
    number,
    plain,
    toml_key,
    toml_pair,
    toml_value,
)
from bayes_risk._core.shown import visible
from bayes_risk.matching.result import Matching
from bayes_risk.release.release import Release
from bayes_risk.reporting.verdicts.doubts import (
    CURES,
    doubts_of,
    of_fit,
    of_the_audit,
    settings_that_settle,
)
from bayes_risk.reporting.verdicts.reason import named_records
from bayes_risk.reporting.verdicts.verdict import Verdict
from bayes_risk.risk.result import AttributeRisk

from .glossary import citations, glossary
from .provenance import Origin
from .sections import (
    Drawing,
    Picture,
    TextTable,
    head_of,
    of_kind,
    parts_in_order,
    plotted,
    section_of,
)

ASSUMPTIONS = {
    "records": "What the intruder knows of the records (A)",
    "columns": "Target variables",
    "synthesis": "What the intruder knows of the synthesis (S)",
    "prior": "Belief before the release (prior)",
    "guesses": "Values considered (guesses)",
    "releases": "Release (Z)",
    "evidence": "How the evidence was computed",
}
DIAGNOSTICS = {
    "chains": "Chains",
    "draws": "Draws per chain",
    "max_rhat": "Largest R-hat of the {what}",
    "median_rhat": "Median R-hat of the {what}",
    "min_ess": "Smallest effective sample size",
    "median_ess": "Median effective sample size",
    "divergences": "Divergent transitions",
    "n_classes": "Latent classes allowed",
    "n_occupied_mean": "Latent classes occupied, mean",
    "n_occupied_max": "Latent classes occupied, maximum",
    "profiles_diagnosed": "Profiles with compared log predictives",
    "parameters": "Parameters",
    "parameters_diagnosed": "Parameters compared",
    "truncation_binds": "All classes occupied (truncation binds)",
    "vulnerable": "Records replaced: those in sensitive cells",
    "kept": "Records not replaced",
    "sensitive_cells": "Sensitive cells",
    "redraws": "Nearest donors refused by constraints",
    "notes": "Messages of the fits of the prediction models",
}
DOUBTS = "Warnings."
WHOLE = ("vulnerable", "kept", "sensitive_cells", "redraws")


def page(
    parts: Iterable[Any],
    *,
    title: str,
    verdict: Verdict | None,
    diagnostics: Mapping[str, Any],
    reproduction: Mapping[str, Any],
    origin: Origin | None = None,
    replaced: str | None = None,
    pages: Mapping[str, str] | None = None,
    **drawn: Any,
) -> str:
    """Render the report of results, one of a kind; None among them: there is no such result.

    ``replaced`` says which records were, unless it was all of them; ``origin`` says of the data and
    the files what is known; ``pages`` are those of candidates, by name; ``drawn`` goes to the
    sections. Without ``verdict`` none is judged.
    """
    parts = parts_in_order(parts)
    attribute, matching = of_kind(AttributeRisk, parts), of_kind(Matching, parts)
    sections = [section_of(part, **drawn) for part in parts]
    if attribute is not None and attribute.check is not None and attribute.check.failed:
        first = sections[0]  # whose numbers they are
        only = f"{attribute.check.sentence()} The numbers below hold only for files of that model."
        sections[0] = first._replace(sentence=f"{only} {first.sentence}")
    names = [section.name for section in sections]
    rhat = None if verdict is None else verdict.thresholds.rhat
    caveats = caveats_of(parts, diagnostics, rhat)
    balance, settings = attribute and attribute.balance, reproduction.get("settings")
    packages = list(reproduction["versions"].items())
    versions = TextTable("Package versions used.", ("Package", "Version"), packages)
    return template("report.html.j2").render(
        title=title,
        verdict=verdict,
        pages=pages,
        assumptions=[
            *_assumptions(parts, matching),
            *([("Records replaced", replaced)] if replaced else []),
        ],
        origin=origin,
        doubts=caveats and TextTable(DOUBTS, ("Result", "Why", "What would help"), caveats),
        assumed=_assumed(attribute),
        sections=sections,
        diagnostics=_diagnostics(diagnostics, attribute),
        quality=attribute and _quality(attribute),
        exact=attribute and no_error(attribute),
        counting=matching and "; ".join(matching.counting(alone=True)),
        balance=balance and balance.sentence(),
        glossary=glossary(attribute, diagnostics, names),
        citations=citations(names),
        reproduction={
            "seeds": reproduction["seeds"],
            "command": reproduction["command"],
            "versions": versions,
            "settings": "" if settings is None else as_toml(settings),
        },
    )


def replaced(release: Release) -> str | None:
    """How many records were replaced, or None if it was all of them."""
    if release.records is None:
        return None
    n = len(release.records)
    return f"{int(release.records.sum()):,} of {n:,}; the others are released unchanged"


def no_error(risk: AttributeRisk) -> str | None:
    """Why there is no Monte Carlo error, or None if there is one."""
    if not risk.is_exact:
        return None
    refitted = risk.assumptions.get("evidence", "").startswith("refit")
    how = "from models refitted for each guess" if refitted else "in closed form"
    return (
        f"The evidence was computed {how}: it has no Monte Carlo error and uses no "
        f"importance weights. The assumptions are listed above."
    )


def template(name: str) -> Template:
    """A page of this folder, with places for what it says."""
    environment = Environment(
        loader=PackageLoader("bayes_risk.reporting", package_path="."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_typeset,
    )
    environment.globals |= {"bar_ends": bar_ends, "times_allowed": times_allowed}
    return environment.get_template(name)


BAR_WIDTH, TWICE = 120.0, 2.0  # width of a bar, which ends at twice what is allowed


def bar_ends(of: Sequence[float]) -> list[float]:
    """Low end, value and high end of a number over what is allowed, in units of the picture."""
    return [round(BAR_WIDTH * min(max(x, 0.0), TWICE) / TWICE, 1) for x in of]


def times_allowed(of: Sequence[float]) -> str:
    """A number over what is allowed, in words."""
    _, value, _ = of
    return "more than" if math.isinf(value) else f"{plain(value, 2)} times"


def _typeset(value: Any) -> Any:
    """Keep numbers and their units on one line; show what moves or hides text as `visible` does."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    value = visible(value, "\n").replace("+- ", f"{PLUS_MINUS} ")
    for pair in (" %", f"{PLUS_MINUS} "):
        value = value.replace(pair, pair.replace(" ", "\N{NO-BREAK SPACE}"))
    return value


def _assumptions(parts: Iterable[Any], matching: Any) -> list[tuple[str, str]]:
    """What A, S, the prior, guesses and keys are, in words; of the first result that says so."""
    every = [getattr(part, "assumptions", None) for part in parts]
    known: Mapping[str, str] = next((one for one in every if one is not None), {})
    pairs = [(words, known[key]) for key, words in ASSUMPTIONS.items() if known.get(key)]
    return pairs + ([] if matching is None else list(matching.assumed().items()))


def _assumed(risk: AttributeRisk | None) -> str:
    """What is known of an assumed synthesis model; empty: it is known."""
    if risk is None or not risk.assumed:
        return ""
    if risk.check is not None and risk.check.failed:
        return "and did not make these files"
    return "" if risk.check is not None and risk.check.kept_models else "not verified"


def _quality(risk: AttributeRisk) -> Picture | None:
    if risk.is_exact:  # no weights, no error: nothing to see
        return None
    bad = int((~risk.records["reliable"]).sum())
    caption = (
        f"Tail of the importance weights and Monte Carlo error, one point a distinct case. "
        f"{bad:,} of {len(risk.index):,} records are marked unreliable."
    )
    return Drawing("quality", plotted("plot_diagnostics"), caption).of(risk)


def _diagnostics(found: Mapping[str, Any], risk: AttributeRisk | None) -> TextTable | None:
    if not found:
        return None
    what = "log predictives" if "n_classes" in found else "parameters"
    order = dict.fromkeys([*(k for k in DIAGNOSTICS if k in found), *found])
    words = {key: DIAGNOSTICS.get(key, key).replace("{what}", what) for key in order}
    rows = [(words[key], _diagnostic(key, found[key])) for key in order]
    caption = "Of the fit to the confidential data."
    if risk is not None and risk.modes is not None:
        opening = "The numbers above rest on other chains, which start from the release"
        caption += f" {opening}: {risk.modes.sentence()}."
    return TextTable(caption, ("Diagnostic", "Value"), rows)


def _diagnostic(name: str, value: Any) -> str:
    """A diagnostic of the fit: R-hat to three digits, sizes to one, counts whole."""
    if isinstance(value, list):
        return "; ".join(value) or "nothing"
    if name in WHOLE:
        return number(int(value))
    return number(value, 3 if "rhat" in name else 1)


def as_toml(settings: Mapping[str, Any]) -> str:
    """Settings as a study file; keys without a value and the output folder are left out.

    Declared levels are data: what is said of them is a comment.
    """
    tables = {k: v for k, v in settings.items() if isinstance(v, Mapping)}
    lines = [toml_pair(k, v) for k, v in settings.items() if v is not None and k not in tables]
    for name, section in tables.items():
        lines += _table(name, {k: v for k, v in section.items() if k != "folder"})
    return "\n".join(lines)


def _table(name: str, section: Mapping[str, Any]) -> list[str]:
    """A table of the file: its values, then the tables in it."""
    kept = {k: v for k, v in section.items() if v not in (None, {})}
    levels = kept.pop("levels", None)
    lines = ["", f"[{name}]"]
    lines += [toml_pair(k, v) for k, v in kept.items() if not isinstance(v, Mapping)]
    if levels:
        lines.append(f"# declared levels, not shown: {toml_value(levels)}")
    for key, value in kept.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{name}.{toml_key(key)}]"]
            lines += [toml_pair(k, v) for k, v in value.items() if v is not None]
    return lines


class Caveat(NamedTuple):
    """Of what, why, and what would help."""

    what: str
    why: str
    cure: str


def caveats_of(
    parts: Sequence[Any], diagnostics: Mapping[str, Any], rhat: float | None
) -> list[Caveat]:
    """Doubts of the verdict about numbers of the page, and those of results it does not judge."""
    risk = of_kind(AttributeRisk, parts)
    settings = settings_that_settle(risk, diagnostics)
    chains = of_fit(of_the_audit(risk, diagnostics), rhat)
    found = [("Fit", one.sentence, one.cure) for one in chains if one.cure]
    return [
        Caveat(what, why.rstrip("."), CURES[cure].format_map(settings))
        for what, why, cure in (*(one for part in parts for one in _doubts(part)), *found)
    ]


def _doubts(part: Any) -> Iterator[tuple[str, str, str]]:
    """Doubts of a result, by its name and of which records, by label."""
    _, name, _ = head_of(part)
    for labels, why, cure in doubts_of(part):
        of = (
            "" if labels is None else f", {counted(len(labels), 'record')}: {named_records(labels)}"
        )
        yield f"{name}{of}", why, cure
