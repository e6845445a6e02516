"""How utility and context measures read."""

from collections.abc import Callable, Hashable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.formats import NONE, begun, number, percent, plain
from bayes_risk.data.base_result import Public, Table, for_file, span, value
from bayes_risk.data.measures import CONTEXT, UTILITY, measure_in_words
from bayes_risk.utilities.context_result import ContextMeasures
from bayes_risk.utilities.propensity import MAX_PREDICTORS, MODELS
from bayes_risk.utilities.result import Utility

from .faces import doubt_in_words, line, sentence, tables

ROWS = 10  # pairs, columns and estimates, the worst first

UNSAID = ("pmse", "standardized")  # in reports

HOW_TO_READ = (
    "Utility stands beside risk because a file without information is safe and useless. "
    "Compare a number with its neighbour: the mean for a release drawn from the truth."
)

GOOD = 3.0  # Raab, Nowok & Dibben (2021): S_pMSE of tables below 3 needs no more tuning


@tables.register
def _(utility: Utility) -> dict[str, Table]:
    """Propensity scores, columns and pairs, analyses; and all of them in one long table."""
    rows = utility.summary()
    what = "1 release" if utility.m == 1 else f"Means over {utility.m} releases"
    of_all = int(utility.n_records[0])
    found = {
        "measures": Table(
            note=HOW_TO_READ,
            caption=f"{what}, {of_all:,} records of the original.",
            frame=rows.dropna(subset="value"),
            labels={k: begun(v.words) for k, v in UTILITY.items() if not k.startswith(UNSAID)},
            columns=[
                ("Value", value()),
                ("By chance alone", value("null")),
                ("Over releases", span("lowest", "highest") if utility.m > 1 else lambda _: NONE),
            ],
        )
    }
    of_tables = {
        "columns": ("Columns", "Column", utility.margins),
        "pairs": ("Pairs of columns", "Pair", utility.pairs),
    }
    for name, (what, head, table) in of_tables.items():
        if len(table):
            found[name] = Table(
                caption=f"{what} ({_which(table)}), worst preserved first.",
                frame=table.head(ROWS),
                head=head,
                labels=_named,
                columns=[
                    ("pMSE over chance", value("ratio")),
                    ("Total variation", value("total_variation")),
                    ("By chance", value("null_total_variation")),
                    ("Hellinger", value("hellinger")),
                    ("By chance", value("null_hellinger")),
                ],
            )
    if len(utility.estimates):
        table = utility.estimates.sort_values("interval_overlap", kind="stable")
        found["estimates"] = Table(
            caption=(
                f"Estimates ({_which(table)}) with {utility.confidence:.0%} intervals, lowest "
                "overlap first."
            ),
            frame=table.head(ROWS),
            head="Estimate",
            labels=lambda name: ": ".join(map(str, name)),
            columns=[
                ("Original", lambda row: _interval(row, "original", "_original")),
                ("Releases", lambda row: _interval(row, "release", "")),
                ("Standardised difference", value("standardized_difference", digits=2)),
                ("Interval overlap", value("interval_overlap", digits=2)),
            ],
        )
    return found | {"long": Table(frame=_long(utility), file="utility")}


def _long(utility: Utility) -> pd.DataFrame:
    """Columns, pairs and estimates in one long table, a row a number."""
    parts, names = [], ["kind", "first", "second"]
    named = {"column": utility.margins, "pair": utility.pairs, "estimate": utility.estimates}
    for kind, table in named.items():
        both = [name if isinstance(name, tuple) else (name, "") for name in table.index]
        labels = {"kind": kind, "first": [a for a, _ in both], "second": [b for _, b in both]}
        long = table.reset_index(drop=True).assign(**labels).astype(dict.fromkeys(names, str))
        parts.append(long.melt(names, var_name="measure"))
    return pd.concat(parts, ignore_index=True).set_index("kind")


@line.register
def _(utility: Utility) -> str:
    """How well a tree tells the files apart, and the pair worst kept: mean of each file's worst."""
    ratio = number(utility.summary().at["ratio_cart", "value"])
    text = f"the pMSE of a tree is {ratio} times that by chance"
    if not len(utility.pairs):
        return text
    worst, (a, b) = utility.summary().at["pairs_worst_ratio", "value"], utility.pairs.index[0]
    if utility.m == 1:
        return f"{text}; worst pair {a}, {b} ({number(worst)})"
    return f"{text}; worst pairs {number(worst)} ({a}, {b})"


@doubt_in_words.register
def _(utility: Utility) -> str:
    """A model that was left out."""
    value = utility.summary()["value"].get("ratio_interactions", 0.0)
    out = "the logistic model with interactions has too many predictors and was left out"
    return out if np.isnan(value) else ""


@sentence.register
def _(utility: Utility) -> str:
    ratio, specks = utility.summary().loc[["ratio_cart", "specks_cart"], "value"]
    which = "the release" if utility.m == 1 else f"each of {utility.m} releases"
    text = f"A tree cannot distinguish {which} from the original."
    if ratio > 0:
        text = (
            f"The pMSE of a tree that distinguishes {which} from the original is {number(ratio)} "
            f"times that of a release drawn from the truth (SPECKS {number(specks)}, 0 to 1)."
        )
    if utility.pair_names:
        table = utility.pairs
        a, b = table.index[0]
        text += (
            f" Worst preserved pair: {a} and {b} (ratio {number(table['ratio'].iloc[0])}"
            f"{', the mean of all files' * (utility.m > 1)}); "
            f"{int((table['ratio'] > GOOD).sum()):,} of {len(table):,} pairs have a ratio above "
            f"{GOOD:g}; the mean ratio of a release drawn from the truth is 1."
        )
    if utility.estimate_names:
        overlap = utility.estimates["interval_overlap"]
        text += (
            f" Over {len(overlap)} estimates, {utility.confidence:.0%} intervals overlap by "
            f"{number(overlap.mean())} on average and {number(overlap.min())} at worst (1: the "
            "same; below 0: a gap)."
        )
    if np.isnan(utility.scores[:, MODELS.index("interactions"), 0]).any():
        text += (
            f" The logistic model with interactions was left out: it has more than "
            f"{MAX_PREDICTORS:,} predictors or too many records for them."
        )
    if utility.left_out:
        text += f" Not compared, as a release lacks them: {', '.join(map(str, utility.left_out))}."
    return text


def _which(table: pd.DataFrame) -> str:
    return f"the worst {ROWS} of {len(table):,}" if len(table) > ROWS else f"{len(table):,}"


def _named(label: Hashable) -> str:
    times = " \N{MULTIPLICATION SIGN} "
    return times.join(map(str, label)) if isinstance(label, tuple) else str(label)


def _interval(row: Mapping[str, Any], name: str, side: str) -> str:
    return f"{plain(row[name])} ({plain(row[f'low{side}'])} to {plain(row[f'high{side}'])})"


@tables.register
def _(context: ContextMeasures) -> dict[str, Table]:
    """Each measure with its denominator, what it is and is not; the records."""
    rows = context.summary()
    what = "1 release" if context.m == 1 else f"Means over {context.m:,} releases"
    keys = ", ".join(map(str, context.keys))
    names = [f"{measure} ({target})" if target else measure for target, measure in rows.index]
    of_holdout = ""
    if context.held_out:
        error = percent(float(rows["standard_error"].max()))
        of_holdout = f" Closer than holdout: {context.held_out:,} records held out, "
        of_holdout += f"standard error up to {error}."
    return {
        "measures": Table(
            caption=f"Keys: {keys}. {what}. Shares are of so many records.{of_holdout}",
            frame=rows,
            labels=lambda row: measure_in_words(f"{row[1]} ({row[0]})" if row[0] else row[1]),
            columns=[
                ("Value", lambda row: _form(row)(row["value"])),
                ("Over releases", _range if context.m > 1 else lambda _: NONE),
                ("To read against", _beside),
                ("Records", lambda row: number(round(row["of"]))),
            ],
            public=_public(context),
        ),
        "meanings": Table(
            caption="Meaning of the measures.",
            frame=context.meanings(),
            labels=lambda name: CONTEXT[name].short,
            columns=[("What it is", _definition), ("Not to be read as", itemgetter("is_not"))],
        ),
        "file": Table(
            frame=rows.set_axis(pd.Index(names, name="measure")), file="context_measures"
        ),
        "records": for_file(context.records, "context"),
    }


def _public(context: ContextMeasures) -> Public | None:
    """The measure that may leave, of the first target."""
    for (_, name), row in zip(context.rows, context.summary().to_dict("records"), strict=True):
        if CONTEXT[name].public:
            return Public.of(CONTEXT[name], float(row["of"] * row["value"]), round(row["of"]))
    return None


@line.register
def _(context: ContextMeasures) -> str:
    """Replicated uniques, and DiSCO of the target for which it is largest."""
    share = context.summary()["value"]
    repu, uio = (percent(share["", name]) for name in ("repu", "uio"))
    text = f"repU {repu} ({uio} unique in the original)"
    if not context.targets:
        return text
    worst = max(context.targets, key=lambda target: float(share[target, "disco"]))
    disco, dorig = (percent(float(share[worst, name])) for name in ("disco", "dorig"))
    most = ", the largest of its targets" if len(context.targets) > 1 else ""
    return f"{text}; DiSCO of {worst} {disco} ({dorig} in the original){most}"


@sentence.register
def _(context: ContextMeasures) -> str:
    share = dict(zip(context.rows, context.value.mean(axis=0).tolist(), strict=True))
    text = [
        f"By {', '.join(map(str, context.keys))}, {percent(share['', 'repu'])} of the original's "
        f"records are unique there and in the release (repU; {percent(share['', 'uio'])} are "
        "unique in the original)."
    ]
    for target in context.targets:
        disco, dorig, tcap = (share[target, name] for name in ("disco", "dorig", "tcap"))
        text.append(
            f"For {percent(disco)} the key leaves one value of {target} in the release, and "
            f"the right one (DiSCO; {percent(dorig)} in the original; TCAP {percent(tcap)})."
        )
    text.append("None of these is a probability that a person is identified or a value learnt.")
    return " ".join(text)


def _form(row: Mapping[str, Any]) -> Callable[[float], str]:
    """How a measure is written: a share of records, or a distance."""
    return percent if CONTEXT[row["label"][1]].kind == "share" else number


def _range(row: Mapping[str, Any]) -> str:
    return span("lowest", "highest", _form(row))(row)


def _beside(row: Mapping[str, Any]) -> str:
    """What a measure is compared with: the number, and which it is."""
    measure, value = row["label"][1], _form(row)(row["compare"])
    if value == NONE:
        return NONE
    if beside := CONTEXT[measure].baseline:
        return f"{value} ({CONTEXT[beside].short})"
    return value if measure == "closer_than_holdout" else f"{value} (original)"


def _definition(row: Mapping[str, Any]) -> str:
    """The definition, and what it is a share of."""
    of = f" A share of: {row['share_of']}." * (CONTEXT[row["label"]].kind == "share")
    return f"{begun(row['is'])}.{of}"
