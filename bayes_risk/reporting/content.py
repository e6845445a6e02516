"""What the report says, as the template wants it: assumptions, sections, diagnostics, settings."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bayes_risk._core.formats import PLUS_MINUS, number
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.release.release import Release
from bayes_risk.reporting.verdicts.verdict import Verdict
from bayes_risk.risk.result import AttributeRisk

from . import plots
from .caveats import doubts
from .figures import Picture, picture
from .glossary import citations, glossary
from .provenance import Origin
from .sections import TextTable, section_of

ASSUMPTIONS = {
    "records": "What the intruder knows of the records (A)",
    "columns": "Target variables",
    "synthesis": "What is known of the synthesis (S)",
    "prior": "Belief before the release (prior)",
    "guesses": "Values considered (guesses)",
    "releases": "What is released (Z)",
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
    "n_occupied_max": "Latent classes occupied, most",
    "profiles_diagnosed": "Profiles whose log predictives were compared",
    "parameters": "Parameters",
    "parameters_diagnosed": "Parameters that were compared",
    "truncation_binds": "All classes occupied (truncation binds)",
    "vulnerable": "Records replaced: those in sensitive cells",
    "kept": "Records released as they are",
    "sensitive_cells": "Sensitive cells",
    "redraws": "Nearest donors refused by constraints",
    "notes": "What the fits of the prediction models said",
}
WHOLE = ("vulnerable", "kept", "sensitive_cells", "redraws")


def page(
    *,
    title: str,
    verdict: Verdict | None,
    attribute: AttributeRisk | None,
    identification: IdentificationRisk | None,
    diagnostics: Mapping[str, Any],
    reproduction: Mapping[str, Any],
    origin: Origin | None = None,
    replaced: str | None = None,
    others: Sequence[Any] = (),
    said: Mapping[str, str] | None = None,
    **drawn: Any,
) -> str:
    """Render the report; ``replaced`` says which records were, unless it was all of them.

    ``others`` are results beside the two risks; ``said`` holds other sentences than theirs, by name
    of the section; ``origin`` says of the data and the files what is known; ``drawn`` goes to the
    sections of ``others``. Without ``verdict`` no release is judged.
    """
    risks = [part for part in (attribute, identification) if part is not None]
    sections = [section_of(part) for part in risks]
    sections += [section_of(part, **drawn) for part in others]
    sections = [one._replace(sentence=(said or {}).get(one.name, one.sentence)) for one in sections]
    if attribute is not None:
        at = [one.name for one in sections].index("attribute")
        told = f"{_of_which_model(attribute)}{sections[at].sentence}"
        sections[at] = sections[at]._replace(sentence=told)
    names = [section.name for section in sections]
    rhat = None if verdict is None else verdict.thresholds.rhat
    balance = None if attribute is None else attribute.balance
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            title=title,
            verdict=verdict,
            assumptions=[
                *_assumptions(attribute, identification, others),
                *([("Records replaced", replaced)] if replaced else []),
            ],
            origin=origin,
            doubts=_doubts(attribute, identification, others, diagnostics, rhat),
            assumed=_assumed(attribute),
            sections=sections,
            diagnostics=_diagnostics(diagnostics, attribute),
            quality=None if attribute is None else _quality(attribute),
            exact=None if attribute is None else no_error(attribute),
            counting=identification and "; ".join(identification.counting(alone=True)),
            balance=balance and balance.sentence(),
            glossary=glossary(attribute, diagnostics, names),
            citations=citations(names),
            reproduction=_reproduction(reproduction),
        )
    )


def replaced(release: Release) -> str | None:
    """How many records were replaced, or None if it was all of them."""
    if release.records is None:
        return None
    n = len(release.records)
    return f"{int(release.records.sum()):,} of {n:,}; the others are released as they are"


def no_error(risk: AttributeRisk) -> str | None:
    """Why there is no Monte Carlo error, or None if there is one."""
    if not risk.is_exact:
        return None
    refitted = risk.assumptions.get("evidence", "").startswith("refit")
    how = "from models fitted anew for each guess" if refitted else "in closed form"
    return (
        f"The evidence was computed {how}: it has no Monte Carlo error and rests on no weights. "
        "What it takes to be known stands above, under the assumptions."
    )


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("bayes_risk.reporting", package_path="."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_typeset,
    )


def _typeset(value: Any) -> Any:
    """Keep numbers and their units on one line."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    value = value.replace("+- ", f"{PLUS_MINUS}\N{NO-BREAK SPACE}")
    return value.replace(" %", "\N{NO-BREAK SPACE}%")


def _assumptions(
    attribute: AttributeRisk | None,
    identification: IdentificationRisk | None,
    others: Sequence[Any],
) -> list[tuple[str, str]]:
    """What A, S, the prior, guesses and keys are, in words; of the first result that says so."""
    told = [getattr(part, "assumptions", None) for part in (attribute, *others)]
    known: Mapping[str, str] = next((said for said in told if said is not None), {})
    pairs = [(words, known[key]) for key, words in ASSUMPTIONS.items() if known.get(key)]
    files = next((part for part in others if type(part).__name__ == "FileRisk"), None)
    matching = files if identification is None else identification
    return pairs + ([] if matching is None else list(matching.assumed().items()))


def _assumed(risk: AttributeRisk | None) -> str:
    """What is known of an assumed synthesis model; empty: it is known."""
    if risk is None or not risk.assumed:
        return ""
    failed = risk.check is not None and risk.check.failed
    if risk.check is not None and risk.check.kept_models and not failed:
        return ""
    return "and did not make these files" if failed else "not verified"


def _of_which_model(risk: AttributeRisk) -> str:
    """Before the numbers of a model that did not make the files: that they are that model's."""
    if risk.check is None or not risk.check.failed:
        return ""
    return f"{risk.check.sentence()} The numbers below hold for files of that model alone. "


def _doubts(*of: Any) -> TextTable | None:
    found = doubts(*of)
    if not found:
        return None
    caption = "Numbers to be read with care, or not at all."
    return TextTable(caption, ("Of what", "Why", "What would help"), found)


def _quality(risk: AttributeRisk) -> Picture | None:
    if risk.is_exact:  # no weights, no error: nothing to see
        return None
    bad = int((~risk.records["reliable"]).sum())
    caption = (
        f"Tail of the importance weights and Monte Carlo error, one point a distinct case. "
        f"{bad:,} of {len(risk.index):,} records are marked unreliable."
    )
    return picture("quality", plots.plot_diagnostics, risk, caption)


def _diagnostics(found: Mapping[str, Any], risk: AttributeRisk | None) -> TextTable | None:
    if not found:
        return None
    what = "log predictives" if "n_classes" in found else "parameters"
    names = {
        **{k: v.format(what=what) for k, v in DIAGNOSTICS.items() if k in found},
        **{k: k for k in found if k not in DIAGNOSTICS},
    }
    rows = [(words, _diagnostic(key, found[key])) for key, words in names.items()]
    caption = "Of the fit to the confidential data."
    if risk is not None and risk.modes is not None:
        caption += (
            " The numbers above rest on other chains, which the release led: "
            f"{risk.modes.sentence()}."
        )
    return TextTable(caption, ("Diagnostic", "Value"), rows)


def _diagnostic(name: str, value: Any) -> str:
    """A diagnostic of the fit: R-hat to three digits, sizes to one, counts whole."""
    if isinstance(value, list):
        return "; ".join(value) or "nothing"
    if name in WHOLE:
        return number(int(value))
    return number(value, 3 if "rhat" in name else 1)


def _reproduction(found: Mapping[str, Any]) -> dict[str, Any]:
    caption, settings = "Packages that the numbers depend on.", found.get("settings")
    return {
        "seeds": found["seeds"],
        "command": found.get("command", ""),
        "versions": TextTable(caption, ("Package", "Version"), list(found["versions"].items())),
        "settings": "" if settings is None else as_toml(settings),
    }


def as_toml(settings: Mapping[str, Any]) -> str:
    """Settings as a study file; keys without a value and the output folder are left out.

    Declared levels are data: what is said of them is a comment.
    """
    tables = {k: v for k, v in settings.items() if isinstance(v, Mapping)}
    lines = [_pair(k, v) for k, v in settings.items() if v is not None and k not in tables]
    for name, section in tables.items():
        lines += _table(name, {k: v for k, v in section.items() if k != "folder"})
    return "\n".join(lines)


def _table(name: str, section: Mapping[str, Any]) -> list[str]:
    """A table of the file: its values, then the tables in it."""
    kept = {k: v for k, v in section.items() if v not in (None, {})}
    levels = kept.pop("levels", None)
    lines = ["", f"[{name}]"]
    lines += [_pair(k, v) for k, v in kept.items() if not isinstance(v, Mapping)]
    if levels:
        lines.append(f"# declared levels, not shown: {_toml(levels)}")
    for key, value in kept.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{name}.{_key(key)}]", *(_pair(k, v) for k, v in _given(value).items())]
    return lines


def _given(table: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in table.items() if v is not None}


def _pair(key: str, value: Any) -> str:
    return f"{_key(key)} = {_toml(value)}"


def _key(name: str) -> str:
    bare = re.fullmatch("[A-Za-z0-9_-]+", name)
    return name if bare else json.dumps(name, ensure_ascii=False)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_pair(k, v) for k, v in _given(value).items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers, lists, true: the same in TOML
