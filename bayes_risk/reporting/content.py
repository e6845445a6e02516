"""What the report says, as the template wants it: headings, tables of text, figures."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bayes_risk._core.formats import NONE, PLUS_MINUS, error, number, percent, percent_error
from bayes_risk.evidence.by_column import in_words
from bayes_risk.intruder.guesses import how_many
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.reporting.verdicts.verdict import Verdict
from bayes_risk.risk.result import AttributeRisk

from . import plots
from .citing import citations
from .doubts import doubts
from .figures import Picture, picture
from .glossary import glossary
from .matching import assumed, matches_table, worst_matches
from .numbers import how_close
from .provenance import Origin
from .tables import Section, Table
from .unsampled import counting, is_exact, no_error
from .words import ASSUMPTIONS, COUNTS, DIAGNOSTICS, MEASURES, diagnostic


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
    further: Sequence[Section] = (),
) -> str:
    """Render the report; ``replaced`` says which records were, unless it was all of them.

    ``others`` are results beside the two risks, ``further`` their sections; ``origin`` says of the
    data and the files what is known. Without ``verdict`` no release is judged.
    """
    names = [section.name for section in further]
    risks = {"attribute": attribute, "identification": identification}
    rhat = None if verdict is None else verdict.thresholds.rhat
    names += [name for name, risk in risks.items() if risk is not None]
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
            attribute=None if attribute is None else _attribute(attribute),
            identification=None if identification is None else _identification(identification),
            further=further,
            diagnostics=_diagnostics(diagnostics, attribute),
            quality=None if attribute is None else _quality(attribute),
            exact=no_error(attribute),
            balance=None
            if attribute is None or attribute.balance is None
            else attribute.balance.sentence(),
            glossary=glossary(attribute, diagnostics, names),
            citations=citations(names),
            reproduction=_reproduction(reproduction),
        )
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
    said = [part.assumptions for part in (attribute, *others) if hasattr(part, "assumptions")]
    known = said[0] if said else {}
    pairs = [(words, known[key]) for key, words in ASSUMPTIONS.items() if known.get(key)]
    files = next((part for part in others if type(part).__name__ == "FileRisk"), None)
    matching = files if identification is None else identification
    return pairs + ([] if matching is None else assumed(matching))


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


def _doubts(*of: Any) -> Table | None:
    found = doubts(*of)
    if not found:
        return None
    caption = "Numbers to be read with care, or not at all."
    heads = ("Of what", "Why", "What would help")
    return Table(caption=caption, heads=heads, rows=found)


def _attribute(risk: AttributeRisk) -> dict[str, Any]:
    return {
        "sentence": f"{_of_which_model(risk)}{risk.sentence()}",
        "measures": measures_table(risk),
        "worst": worst_table(risk),
        "by_column": in_words(risk),
        "columns": _columns(risk),
        "close": _how_close(risk),
        "figures": [_distribution(risk), _ranks(risk), _worst(risk)],
    }


def _how_close(risk: AttributeRisk) -> dict[str, Any] | None:
    found = how_close(risk)
    if found is None:
        return None
    heads = ("Measure", "Value", "Error (2 s.e., at most)", "Without the release")
    tables = [
        Table(caption=f"{name}: means over {found['n']} records.", heads=heads, rows=rows)
        for name, rows in found["tables"]
    ]
    return {**found, "tables": tables}


def measures_table(risk: AttributeRisk) -> Table:
    """File-level measures: value, error, without the release."""
    table: dict[Any, Any] = risk.summary().to_dict("index")
    rows: list[tuple[str, ...]] = []
    for key, words in MEASURES.items():
        rows.append((words, *_cells(key, table[key])))
    for key, words in COUNTS.items():
        rows.append((words, number(int(table[key]["value"])), NONE, NONE))
    rows += [row for name in risk.priors for row in _under_prior(table, name)]
    caption = f"All {len(risk.index):,} audited records; {how_many(risk.guesses_each)} for each."
    heads = ("Measure", "Value", "Error (2 s.e.)", "Without the release")
    return Table(caption=caption, heads=heads, rows=rows)


def _under_prior(table: Mapping[str, Any], name: str) -> list[tuple[str, ...]]:
    """The measures that a second prior has beside those of the first."""
    rows: list[tuple[str, ...]] = []
    for key, words in MEASURES.items():
        found = table.get(f"{key}_{name}")
        if found is not None:
            rows.append((f"{words} ({name} prior)", *_cells(key, found)))
    return rows


def _cells(key: str, row: Mapping[str, float]) -> tuple[str, str, str]:
    """Value, error and baseline of a measure."""
    value, mcse, baseline = row["value"], row["mcse"], row["baseline"]
    if key == "share_ranked_first":
        return percent(value), percent_error(mcse), percent(baseline)
    return number(value), error(mcse, value), number(baseline)


def worst_table(risk: AttributeRisk, k: int = 10) -> Table:
    """The records at highest risk, by label; k-hat only where there were weights."""
    table = risk.records.assign(place=np.arange(len(risk.index)))
    worst = table.sort_values("probability", ascending=False, kind="stable").head(k)
    known = risk.certain()
    names = known.columns.astype(str)
    given_away = known.to_numpy()[worst["place"].to_numpy()]
    worst = worst.assign(known=[", ".join(names[row]) for row in given_away])
    columns: dict[str, Callable[[pd.Series], str]] = {
        "Probability of the truth": lambda row: number(float(row["probability"])),
        "Error (2 s.e.)": lambda row: error(float(row["mcse"]), float(row["probability"])),
        "Without the release": lambda row: number(float(row["prior"])),
        "Log Bayes factor": lambda row: number(float(row["log_bayes_factor"]), 2),
        "Place": _place,
        "k-hat": lambda row: number(float(row["khat"]), 2),
        "Remarks": _remarks,
    }
    if is_exact(risk):
        del columns["k-hat"]
    rows = [
        (str(label), *(form(row) for form in columns.values())) for label, row in worst.iterrows()
    ]
    caption = "Records are named by their label; values are not shown."
    return Table(caption=caption, heads=("Record", *columns), rows=rows)


def _columns(risk: AttributeRisk) -> Table | None:
    """The truth's probability without the evidence of each synthesised column."""
    if risk.by_column is None:
        return None
    heads = ("Column left out", "Mean probability", "Fall", "Largest probability", "Fall")
    names = ("mean_probability", "mean_fall", "max_probability", "max_fall")
    rows = [
        (str(column), *(number(float(row[name])) for name in names))
        for column, row in risk.by_column.iterrows()
    ]
    caption = (
        "Probability of the truth without what the release says by how the column's values came "
        "about; they still condition the columns drawn after it. A fall is against the figure with "
        "all columns. Falls do not add up: columns that say the same each fall little."
    )
    return Table(caption=caption, heads=heads, rows=rows)


def _place(row: pd.Series) -> str:
    return number(int(row["rank"])) + (f" (with {int(row['ties']):,} more)" if row["ties"] else "")


def _remarks(row: pd.Series) -> str:
    said = {
        "unreliable": not row["reliable"],
        "released unchanged": row["disclosed"],
        f"known for certain: {row['known']}": row["known"],
    }
    return "; ".join(remark for remark, holds in said.items() if holds) or NONE


def _distribution(risk: AttributeRisk) -> Picture:
    above = float((risk.records["probability"] > risk.records["prior"]).mean())
    caption = (
        f"Probability that the intruder gives to the true values, all {len(risk.index):,} records. "
        f"The dashed line is a random guess. For {percent(above)} of records the release raises "
        f"the probability."
    )
    return picture("distribution", plots.plot_attribute_risk, risk, caption)


def _ranks(risk: AttributeRisk) -> Picture:
    caption = (
        "Rank of the true values among the guesses, likeliest first. Level with the dashed line, "
        "the intruder does no better than guessing at random."
    )
    return picture("ranks", plots.plot_ranks, risk, caption)


def _worst(risk: AttributeRisk) -> Picture:
    errors = "" if is_exact(risk) else ", with two standard errors"
    caption = f"The records at highest risk{errors}, and what was believed beforehand."
    return picture("worst", plots.plot_worst, risk, caption, height=3.4)


def _quality(risk: AttributeRisk) -> Picture | None:
    if is_exact(risk):  # no weights, no error: nothing to see
        return None
    bad = int((~risk.records["reliable"]).sum())
    caption = (
        f"Tail of the importance weights and Monte Carlo error, one point a distinct case. "
        f"{bad:,} of {len(risk.index):,} records are marked unreliable."
    )
    return picture("quality", plots.plot_diagnostics, risk, caption)


def _identification(risk: IdentificationRisk) -> dict[str, Any]:
    caption = (
        "Chance that the match made for a record is right, releases pooled. Dashed: the same for "
        "an intruder who uses the unsynthesised keys alone."
    )
    return {
        "sentence": risk.sentence(),
        "measures": matches_table(risk),
        "worst": worst_matches(risk),
        "counting": "; ".join(counting(risk, alone=True)),
        "figures": [picture("matches", plots.plot_match_probabilities, risk, caption)],
    }


def _diagnostics(found: Mapping[str, Any], risk: AttributeRisk | None) -> Table | None:
    if not found:
        return None
    what = "log predictives" if "n_classes" in found else "parameters"
    names = {
        **{k: v.format(what=what) for k, v in DIAGNOSTICS.items() if k in found},
        **{k: k for k in found if k not in DIAGNOSTICS},
    }
    rows = [(words, diagnostic(key, found[key])) for key, words in names.items()]
    caption = "Of the fit to the confidential data."
    if risk is not None and risk.modes is not None:
        caption += (
            " The numbers above rest on other chains, which the release led: "
            f"{risk.modes.sentence()}."
        )
    return Table(caption=caption, heads=("Diagnostic", "Value"), rows=rows)


def _reproduction(found: Mapping[str, Any]) -> dict[str, Any]:
    versions = Table(
        caption="Packages that the numbers depend on.",
        heads=("Package", "Version"),
        rows=list(found["versions"].items()),
    )
    settings = found.get("settings")
    return {
        "seeds": found["seeds"],
        "command": found.get("command", ""),
        "versions": versions,
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
