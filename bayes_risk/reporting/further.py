"""Membership, the full table and the loop of weights: for the screen, the report and the folder."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.table import Table

from bayes_risk._core.formats import PLUS_MINUS, factor, number, percent, two_errors
from bayes_risk.risk.exposure_result import exposure_of

from .of_exposure import exposure_line, exposure_summary
from .of_mechanism import mechanism_summary

if TYPE_CHECKING:
    from bayes_risk.app.run import StudyResult
    from bayes_risk.app.study.inherent import InherentBounds
    from bayes_risk.app.study.study import Study
    from bayes_risk.risk.full_table.result import FullTableRisk
    from bayes_risk.risk.membership.result import Membership
    from bayes_risk.risk.privacy_loss_result import PrivacyLoss
    from bayes_risk.studies.reweighting_result import Reweighting
    from bayes_risk.utilities.context_result import ContextMeasures
    from bayes_risk.utilities.result import Utility


def further_lines(result: "StudyResult") -> list[str]:
    """A line of each, for the screen."""
    said = []
    if result.attribute is not None and result.attribute.check is not None:
        check = result.attribute.check
        said.append(f"Model: {'rejected' if check.failed else 'not rejected'} ({check.compared()})")
    shown = exposure_of(result.identification, result.attribute)
    if shown is not None:
        said.append(exposure_line(shown))
    if result.utility is not None:
        said.append(f"Utility: {_kept(result.utility)}")
    if result.context is not None:
        said.append(f"Context: {_known_elsewhere(result.context)}")
    if result.bounds is not None:
        said.append(f"Bounds: {_on_the_scale(result.bounds)}")
    if result.privacy_loss is not None:
        said.append(f"Privacy loss: {_moved(result.privacy_loss)}{_doubtful(result.privacy_loss)}")
    if result.membership is not None:
        said.append(f"Membership: {_told_apart(result.membership)}{_doubtful(result.membership)}")
    if result.full_table is not None:
        said.append(f"Full table: {_among_all(result.full_table)}{_doubtful(result.full_table)}")
    return said


def _doubtful(found: "PrivacyLoss | Membership | FullTableRisk") -> str:
    """How many of its records are marked unreliable."""
    reliable = found.records["reliable"]
    doubtful = int((~reliable).sum())
    return f"; {doubtful:,} of {len(reliable):,} records unreliable" if doubtful else ""


def _kept(found: "Utility") -> str:
    value = found.summary()["value"]
    told = f"a tree tells the files apart {number(value['ratio_cart'])} times as well as by chance"
    if not len(found.pairs):
        return told
    (a, b), ratio = found.pairs.index[0], float(found.pairs["ratio"].iloc[0])
    return f"{told}; worst kept pair {a}, {b} ({number(ratio)})"


def _known_elsewhere(found: "ContextMeasures") -> str:
    """Replicated uniques, and DiSCO of the target for which it is largest."""
    value = found.summary()["value"]
    told = f"repU {percent(value['', 'repu'])} ({percent(value['', 'uio'])} unique in the original)"
    if not found.targets:
        return told
    worst = max(found.targets, key=lambda target: float(value[target, "disco"]))
    disco, dorig = (percent(float(value[worst, name])) for name in ("disco", "dorig"))
    most = ", the largest of its targets" if len(found.targets) > 1 else ""
    return f"{told}; DiSCO of {worst} {disco} ({dorig} in the original){most}"


def _on_the_scale(found: "InherentBounds") -> str:
    """The first measure between the ends."""
    from bayes_risk.app.study.inherent import words_of

    name = (found.headlines or found.measures)[0]
    row = found.summary().loc[name]
    return (
        f"{words_of(name)} {number(row['release'])}, between {number(row['minimum'])} (uniform "
        f"values) and {number(row['maximum'])} (redrawn within patterns)"
    )


def _moved(found: "PrivacyLoss") -> str:
    rows = found.summary()["value"]
    ruled = int(rows["with_guesses_ruled_out"])
    infinite = f"; infinite for {ruled:,}, of whom guesses are ruled out" if ruled else ""
    return (
        f"{number(rows['median_privacy_loss'], 2)} for the median record, at most "
        f"{number(rows['max_among_possible'], 2)} (0 without the release){infinite}"
    )


def _told_apart(found: "Membership") -> str:
    rows = found.summary().to_dict("index")
    with np.errstate(over="ignore"):
        top = float(np.exp(rows["max_log_bayes_factor"]["value"]))
    if not found.has_others:
        return (
            f"the odds that a member is in the data change by at most the factor {factor(top)} "
            "(1 without the release)"
        )
    auc = rows["auc"]
    spread = math.hypot(auc["standard_error"], auc["mcse"])
    return (
        f"the member of a pair is told {number(100 * auc['value'], 1)} times in 100 "
        f"({PLUS_MINUS} {two_errors(100 * spread, digits=1)}; 50 without the release)"
    )


def _among_all(found: "FullTableRisk") -> str:
    records = found.records
    first = int((records["rank"] < 1.5).sum()), int((records["prior_rank"] < 1.5).sum())
    return (
        f"of {len(records):,} records the truth is the likeliest of {int(found.n_values.max()):,} "
        f"values for {first[0]:,} ({first[1]:,} without the release), median place "
        f"{records['rank'].median():,.0f} ({records['prior_rank'].median():,.0f})"
    )


def rounds_table(loop: "Reweighting") -> Table:
    """Risk and utility before and after the loop of weights, for the screen."""
    rows = loop.summary()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    title = f"Reweighting ({len(rows) - 1} round{'s' if len(rows) != 2 else ''} after the first)"
    table.add_column(title, header_style="bold", min_width=36, no_wrap=True)
    above = "" if loop.until is None else f"above {loop.until:g}"
    for head in ("truth, mean", "worst", above, "pairs off by"):
        table.add_column(head, justify="right", header_style="dim", no_wrap=True)
    ends = [("before", rows.iloc[0])]
    if len(rows) > 1:
        ends.append((f"after: {loop.reason.partition(':')[0]}", rows.iloc[-1]))
    for words, row in ends:
        count = "" if pd.isna(row["above"]) else f"{int(row['above']):,}"
        risks = (number(float(row["mean_probability"])), number(float(row["max_probability"])))
        table.add_row(words, *risks, count, number(float(row["pairs"])))
    return table


def membership_sentence(found: "Membership", study: "Study") -> str:
    """The result, and of which release it is."""
    section = study.membership
    if section is None or section.held_out is None:
        return found.sentence()
    n = int((~found.member).sum())
    return (
        f"{found.sentence()} Measured on a release of its own, made without the "
        f"{n:,} records held out as people outside the data."
    )


def further_records(result: "StudyResult") -> dict[str, pd.DataFrame]:
    """Tables of records by the name of their file; no confidential value."""
    found = {
        "privacy_loss": result.privacy_loss,
        "context": result.context,
        "membership": result.membership,
        "full_table": result.full_table,
        "reweighting": result.reweighting,
    }
    return {name: part.records for name, part in found.items() if part is not None}


def further_tables(result: "StudyResult") -> dict[str, pd.DataFrame]:
    """Tables of measures by the name of their file."""
    found = {}
    if result.utility is not None:
        found["utility"] = utility_tables(result.utility)
    if result.context is not None:
        found["context_measures"] = context_table(result.context)
    if result.bounds is not None:
        found["bounds"] = result.bounds.summary().reset_index()
    return found


def further_summaries(result: "StudyResult") -> dict[str, Any]:
    """File-level numbers of each; None: not asked for."""
    parts = {
        "privacy_loss": result.privacy_loss,
        "membership": result.membership,
        "full_table": result.full_table,
        "utility": result.utility,
        "bounds": result.bounds,
    }
    shown = exposure_of(result.identification, result.attribute)
    check = None if result.attribute is None else result.attribute.check
    found: dict[str, Any] = {
        "mechanism": check and mechanism_summary(check),
        "exposure": shown and exposure_summary(shown),
    }
    found |= {name: part and _summarised(part) for name, part in parts.items()}
    if result.membership is not None:
        sentence = membership_sentence(result.membership, result.study)
        found["membership"] |= {"sentence": sentence}
    context = result.context
    found["context"] = context and {
        "sentence": context.sentence(),
        "keys": context.keys,
        "targets": context.targets,
        "measures": context_table(context).set_index("measure"),
    }
    loop = result.reweighting
    found["reweighting"] = loop and {
        "sentence": loop.sentence(),
        "reason": loop.reason,
        "until": loop.until,
        "rounds": loop.summary(),
    }
    return found


def context_table(found: "ContextMeasures") -> pd.DataFrame:
    """Context measures, one row each, named with their target: ``disco (job)``."""
    table = found.summary()
    names = [f"{measure} ({target})" if target else measure for target, measure in table.index]
    return table.set_axis(pd.Index(names, name="measure")).reset_index()


def _summarised(
    part: "PrivacyLoss | Membership | FullTableRisk | Utility | InherentBounds",
) -> dict[str, Any]:
    found = {"sentence": part.sentence(), "measures": part.summary()}
    return found | {"assumptions": getattr(part, "assumptions", {})}


def utility_tables(found: "Utility") -> pd.DataFrame:
    """Columns, pairs and estimates of utility in one long table.

    One row a number: ``kind`` ("column", "pair" or "estimate"), ``first`` and ``second`` (the two
    columns of a pair, or analysis and quantity), ``measure``, ``value``.
    """
    parts: list[pd.DataFrame] = []
    named = {"column": found.margins, "pair": found.pairs, "estimate": found.estimates}
    for kind, table in named.items():
        labels = [label if isinstance(label, tuple) else (label, "") for label in table.index]
        index = pd.MultiIndex.from_tuples(
            [(kind, *map(str, label)) for label in labels] or [("", "", "")][:0],
            names=["kind", "first", "second"],
        )
        long = pd.DataFrame(table.to_numpy(), index, table.columns).reset_index()
        parts.append(long.melt(["kind", "first", "second"], var_name="measure"))
    return pd.concat(parts, ignore_index=True)
