"""What the report says, as the template wants it: assumptions, doubts, diagnostics, settings."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from bayes_risk._core.formats import PLUS_MINUS, counted, number, toml_key, toml_pair, toml_value
from bayes_risk._core.shown import visible
from bayes_risk.matching.odds import GIVEN
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.words import Matching
from bayes_risk.release.release import Release
from bayes_risk.reporting.verdicts.reason import named
from bayes_risk.reporting.verdicts.reasons import (
    DRAWS_A_CHAIN,
    of_chains,
    of_the_audit,
    standard_errors,
)
from bayes_risk.reporting.verdicts.verdict import Verdict
from bayes_risk.risk.posterior import MAX_LEFT_OUT, MAX_MCSE
from bayes_risk.risk.result import AttributeRisk

from . import plots
from .glossary import citations, glossary
from .plots import GOOD_KHAT
from .provenance import Origin
from .sections import Drawing, Picture, TextTable, head_of, in_order, section_of

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
DOUBTS = "Numbers to be read with care, or not at all."
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
    **drawn: Any,
) -> str:
    """Render the report of results, one of a kind; None among them: there is no such result.

    ``replaced`` says which records were, unless it was all of them; ``origin`` says of the data and
    the files what is known; ``drawn`` goes to the sections. Without ``verdict`` none is judged.
    """
    parts = in_order(parts)
    of = {type(part).__name__: part for part in parts}
    attribute = of.get("AttributeRisk")
    matching = next((part for part in parts if isinstance(part, Matching)), None)
    sections = [section_of(part, **drawn) for part in parts]
    if attribute is not None and attribute.check is not None and attribute.check.failed:
        first = sections[0]  # whose numbers they are
        only = f"{attribute.check.sentence()} The numbers below hold for files of that model alone."
        sections[0] = first._replace(sentence=f"{only} {first.sentence}")
    names = [section.name for section in sections]
    caveats = [caveat for part in parts for caveat in of_result(part)]
    rhat = None if verdict is None else verdict.thresholds.rhat
    caveats += of_fit(of_the_audit(attribute, diagnostics), rhat)
    balance, settings = attribute and attribute.balance, reproduction.get("settings")
    packages = list(reproduction["versions"].items())
    versions = TextTable("Packages that the numbers depend on.", ("Package", "Version"), packages)
    return template("report.html.j2").render(
        title=title,
        verdict=verdict,
        assumptions=[
            *_assumptions(parts, matching),
            *([("Records replaced", replaced)] if replaced else []),
        ],
        origin=origin,
        doubts=caveats and TextTable(DOUBTS, ("Of what", "Why", "What would help"), caveats),
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


def template(name: str) -> Template:
    """A page of this folder, with places for what it says."""
    return Environment(
        loader=PackageLoader("bayes_risk.reporting", package_path="."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_typeset,
    ).get_template(name)


def _typeset(value: Any) -> Any:
    """Keep numbers and their units on one line; show what moves or hides text as `visible` does."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    value = visible(value, "\n").replace("+- ", f"{PLUS_MINUS}\N{NO-BREAK SPACE}")
    return value.replace(" %", "\N{NO-BREAK SPACE}%")


def _assumptions(parts: Iterable[Any], matching: Any) -> list[tuple[str, str]]:
    """What A, S, the prior, guesses and keys are, in words; of the first result that says so."""
    told = [getattr(part, "assumptions", None) for part in parts]
    known: Mapping[str, str] = next((said for said in told if said is not None), {})
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
    return Drawing("quality", plots.plot_diagnostics, caption).of(risk)


def _diagnostics(found: Mapping[str, Any], risk: AttributeRisk | None) -> TextTable | None:
    if not found:
        return None
    what = "log predictives" if "n_classes" in found else "parameters"
    order = dict.fromkeys([*(k for k in DIAGNOSTICS if k in found), *found])
    words = {key: DIAGNOSTICS.get(key, key).replace("{what}", what) for key in order}
    rows = [(words[key], _diagnostic(key, found[key])) for key in order]
    caption = "Of the fit to the confidential data."
    if risk is not None and risk.modes is not None:
        led = "The numbers above rest on other chains, which the release led"
        caption += f" {led}: {risk.modes.sentence()}."
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


def of_result(part: Any) -> list[Caveat]:
    """What a result objects to by itself; records that it marks unreliable."""
    if isinstance(part, AttributeRisk):
        return _of_attribute(part)
    if isinstance(part, IdentificationRisk):
        return _of_identification(part)
    _, name, _ = head_of(part)
    if why := part.doubt():
        return [Caveat(name, why, CURES[type(part).__name__])]
    if not hasattr(part, "reliable") or part.records["reliable"].all():
        return []
    why = "k-hat, effective number of draws or error are beyond what can be trusted"
    bad = part.records.index[~part.records["reliable"]]
    return [Caveat(_records(name, bad), why, "take more draws, or refit")]


def _of_attribute(risk: AttributeRisk) -> list[Caveat]:
    """Records marked unreliable, by the first thing that is wrong with their numbers."""
    bad = risk.records[~risk.records["reliable"]]
    draws = "take more draws (target_mcse, max_doublings)"
    other = "the effective number of draws is small, or the error of the log odds large"
    if risk.modes is not None:
        other += ", or chains of one mode disagree about these records"
    left_out = (
        f"more than {100 * MAX_LEFT_OUT:g} % of the posterior lies outside the guesses searched"
    )
    found = []
    for why, cure, wrong in (
        (
            f"k-hat is above {GOOD_KHAT}: a few draws decide",
            "fit again for these records alone (refit_budget), or take more draws",
            bad["khat"] > GOOD_KHAT,
        ),
        (f"the error of the probability is above {MAX_MCSE}", draws, ~(bad["mcse"] <= MAX_MCSE)),
        (left_out, "search more guesses (guess_budget)", bad["left_out"] > MAX_LEFT_OUT),
        (other, draws, bad["khat"] == bad["khat"]),
    ):
        here = wrong.loc[bad.index]
        if here.any():
            found.append(Caveat(_records("Attribute risk", bad.index[here]), why, cure))
        bad = bad[~here]
    return found


def _of_identification(risk: IdentificationRisk) -> list[Caveat]:
    """Errors that cannot be told, and counts of the population that are not counted."""
    found = []
    if risk.n_releases < 3 and np.isnan(risk.pooled_mcse):
        words = counted(risk.n_releases, "release")
        why = f"{words}: pooled, the error between releases cannot be told"
        cure = "make at least 3 releases; of files made elsewhere, ask their maker for more"
        found.append(Caveat("Identification risk, pooled", why, cure))
    if risk.estimated or risk.population == GIVEN:
        why = f"population counts are not counted here ({risk.population})"
        cure = "vary them, or give counts of the population"
        found.append(Caveat("Identification risk", why, cure))
    return found


CURES = {
    "Utility": "name fewer columns, or rely on the tree",
    "Sensitivity": "take more draws, or read these settings as rough",
    "Comparison": "take more draws for these candidates, or read their risk as rough",
}


def of_fit(diagnostics: Mapping[str, Any], rhat: float | None) -> list[Caveat]:
    """What the sampler's diagnostics object to; of the chains in the verdict's own sentence."""
    chains, ess = (float(diagnostics.get(k, "nan")) for k in ("chains", "min_ess"))
    longer = "sample longer (draws, tune), or with more chains"
    disagree = standard_errors(diagnostics, rhat) > 2
    said = [r.sentence for r in of_chains(diagnostics, rhat) if r.cure or disagree]
    found = [Caveat("Fit", sentence.rstrip("."), longer) for sentence in said]
    if not disagree and ess < DRAWS_A_CHAIN * chains:
        wanted = f"{DRAWS_A_CHAIN * chains:,.0f}, {DRAWS_A_CHAIN} a chain"
        why = f"the smallest effective sample size is {ess:,.0f}, below {wanted}"
        found.append(Caveat("Fit", why, longer))
    if diagnostics.get("divergences"):
        why = f"{int(diagnostics['divergences']):,} divergent transitions: the sampler got stuck"
        found.append(Caveat("Fit", why, "use tighter priors, or another parametrisation"))
    if diagnostics.get("truncation_binds"):
        found.append(Caveat("Fit", "all latent classes are occupied", "allow more (n_classes)"))
    return found


def _records(what: str, labels: Any) -> str:
    """Of which records, by label."""
    return f"{what}, {counted(len(labels), 'record')}: {named(labels)}"
