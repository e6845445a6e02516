"""How many audits read: comparison, sensitivity, a sweep of matching, reweighting, bounds."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.formats import (
    PLUS_MINUS,
    begun,
    counted,
    error,
    in_brackets,
    number,
    percent,
    percent_error,
    signed,
    significant,
)
from bayes_risk.data.base_result import (
    Table,
    count_column,
    for_file,
    some,
    spread,
    value,
    with_error,
)
from bayes_risk.data.measures import IDENTIFICATION, JUDGED, MEASURES, measure_in_words
from bayes_risk.studies.bounds import InherentBounds
from bayes_risk.studies.comparison import Comparison, mean_of
from bayes_risk.studies.first_study import FirstStudy
from bayes_risk.studies.grid import value_in_words
from bayes_risk.studies.identification_sweep import RATES, RISK, IdentificationSweep
from bayes_risk.studies.reweighting import Reweighting
from bayes_risk.studies.sensitivity import Sensitivity, name_of
from bayes_risk.utilities.bounds import PLACES

from .faces import doubt_in_words, line, screen, sentence, tables

SHOWN = (
    *("mean_probability", "max_probability", "expected_match_risk", "true_match_rate"),
    *("ratio_cart", "pmse_cart", "pairs_worst_ratio", "interval_overlap"),
)


@sentence.register
def _(comparison: Comparison, risk: str | None = None, utility: str | None = None) -> str:
    """The result in plain words, of measures as in `pareto`; by default the usual."""
    if not comparison.has_map:
        return f"{comparison.in_words()}."
    of = comparison.axes(risk, utility)
    table, words = comparison.pareto(*of), "; ".join(MEASURES[name].words for name in of)
    front = [str(name) for name in table.index[table["on_front"]]]
    if len(table) == 1:
        text = f"A single candidate, {front[0]}: no other to compare it with ({words})."
    else:
        text = f"No other candidate is better in both measures ({words}) than: {'; '.join(front)}."
        if len(front) == len(table):
            text = f"No candidate is better than another in both measures ({words})."
        if doubt := [str(name) for name in table.index[table["in_doubt"]]]:
            text += f" The errors leave this open for: {'; '.join(doubt)}."
    base = np.array([mean_of(x) for x in comparison.beside[:, :, comparison.measures.index(of[0])]])
    base = base[~np.isnan(base)]
    if not len(base) or np.allclose(base, base[0], rtol=0.01):
        return text
    return (
        f"{text} Without the release this risk is {number(base.min())} to "
        f"{number(base.max())}, because the candidates leave different values to be "
        f"guessed: compare each with its baseline."
    )


@doubt_in_words.register
def _(comparison: Comparison) -> str:
    """Candidates with records whose attribute risk is unreliable, and how many; or nothing."""
    if "unreliable" not in comparison.measures:
        return ""
    most = comparison.replicates["unreliable"].groupby(level="candidate", sort=False).max()
    some = [f"{name} (up to {count:,.0f} records)" for name, count in most.items() if count > 0]
    return f"Marked unreliable: {'; '.join(some)}." if some else ""


@tables.register
def _(
    comparison: Comparison, risk: str | None = None, utility: str | None = None
) -> dict[str, Table]:
    """Measures of the candidates, those of the map (as in `pareto`) among them."""
    table, most = comparison.summary(), max(comparison.replicates_of)
    wanted = {*SHOWN, risk, utility}
    found = Table(
        caption=(
            f"Means over {counted(most, 'replicate')} (fits and releases with other seeds). "
            "Compare risks with their value without the release, utility with a release "
            "drawn from the truth."
        ),
        frame=table.assign(against=table["baseline"].fillna(table["null"]))[
            [measure in wanted for _, measure in table.index]
        ],
        head="Candidate and measure",
        labels=lambda of: f"{of[0]}: {measure_in_words(of[1])}",
        columns=[
            ("Mean", lambda row: _forms(row)[0](row["mean"])),
            ("Error (2 s.e.)", lambda row: _forms(row)[1](row["mcse"], row["mean"])),
            ("To read against", lambda row: _forms(row)[0](row["against"])),
        ],
    )
    judged = _verdicts(comparison, risk, utility)
    return ({} if judged is None else {"verdicts": judged}) | {"measures": found}


def _verdicts(comparison: Comparison, risk: str | None, utility: str | None) -> Table | None:
    """Verdict, certain values, what is allowed, and utility of each candidate."""
    rows = comparison.verdicts
    if rows.empty:
        return None
    columns: list[tuple[str, Any]] = [
        ("Verdict", lambda row: row["verdict"].split(" your")[0]),
        ("Replicates with it", lambda row: f"{row['replicates']} of {row['of']}"),
        (f"{begun(JUDGED['certain_values'].words)}, mean", value("certain_values", some)),
        (begun(JUDGED["over_allowed"].words), with_error("over_allowed", "mcse")),
    ]
    if rows["usefulness"].any():
        columns.append(("Verdict on utility", itemgetter("usefulness")))
    if comparison.has_map:
        name = comparison.axes(risk, utility)[1]
        found = comparison.summary().xs(name, level="measure")
        rows = rows.assign(useful=found["mean"], useful_mcse=found["mcse"])
        columns.append((begun(MEASURES[name].words), with_error("useful", "useful_mcse")))
    return Table(
        title="Verdict on each candidate",
        caption=(
            "The worst verdicts over the replicates; utility is judged if [thresholds] utility is "
            "set. A risk divided by its threshold is above 1 if it is too high; no value may be "
            "disclosed with certainty. An audit of more records can give another verdict."
        ),
        frame=rows,
        head="Candidate",
        columns=columns,
        file="verdicts",
    )


def verdicts_in_words(comparison: Comparison) -> str:
    """Candidates by verdict, and values disclosed with certainty; empty: none was judged."""
    rows = comparison.verdicts
    groups = {
        str(verdict): "; ".join(
            f"{name}{_certain(row)}" for name, row in of.to_dict("index").items()
        )
        for verdict, of in rows.groupby("verdict", sort=False)
    }
    return " ".join(f"{begun(verdict)}: {names}." for verdict, names in groups.items())


def _certain(row: Mapping[Any, Any]) -> str:
    n, useful = row["certain_values"], row["usefulness"]
    remarks = [f"{some(n)} values certain"] * bool(n > 0) + [useful] * bool(useful)
    return f" ({', '.join(remarks)})" if remarks else ""


@screen.register
def _(comparison: Comparison, risk: str | None = None, utility: str | None = None) -> Table:
    """One row a candidate: risk and utility with two standard errors, baseline, front."""
    rows, most = comparison.pareto(risk, utility), max(comparison.replicates_of)
    baseline = comparison.summary()["baseline"].xs(
        comparison.axes(risk, utility)[0], level="measure"
    )
    return Table(
        frame=rows.assign(baseline=baseline.reindex(rows.index)),
        head=f"{most} replicates" if most > 1 else "Candidate",
        columns=[
            (f"risk {PLUS_MINUS} 2 s.e.", with_error("risk", "risk_mcse", " {}")),
            ("without", lambda row: number(float(row["baseline"]))),
            (f"utility {PLUS_MINUS} 2 s.e.", with_error("utility", "utility_mcse", " {}")),
            ("front", _placed),
        ],
    )


def _forms(row: Mapping[str, Any]) -> tuple[Callable[[float], str], Callable[..., str]]:
    """How a measure and its error are written: rates as per cent."""
    rate = MEASURES[row["label"][1]].kind == "share"
    return (percent, lambda mcse, _: percent_error(mcse)) if rate else (number, error)


def _placed(row: Mapping[str, Any]) -> str:
    """Whether a candidate is on the front, and how sure that is."""
    word = "yes" if row["on_front"] else "no"
    if np.isnan(row["probability"]):
        return f"{word} (?)"
    return f"{word} ({number(100 * row['probability'], 0)} %)" if row["in_doubt"] else word


@sentence.register
def _(sensitivity: Sensitivity) -> str:
    """The risk of the base setting, and the setting of the largest mean."""
    return f"{sensitivity.base_sentence()} {sensitivity.worst_sentence()}"


@doubt_in_words.register
def _(sensitivity: Sensitivity) -> str:
    """Settings with unreliable records, and the one that has most; empty: there are none."""
    table = sensitivity.summary()["unreliable"].reset_index()
    some = table[table["unreliable"] > 0]
    if some.empty:
        return ""
    worst = some.sort_values("unreliable", kind="stable").iloc[-1].to_dict()
    moved = [n for n in sensitivity.factors if n != "prior" and worst[n] != sensitivity.base[n]]
    where = "; ".join(f"{name_of(n)}: {value_in_words(n, worst[n])}" for n in moved)
    return (
        f"Records are marked unreliable at {len(some):,} of {len(table):,} settings, the most "
        f"({worst['unreliable']:,.0f} records) at {where or 'the base'}"
    )


@screen.register
def _(sensitivity: Sensitivity) -> Table:
    """How far each factor by itself moves the risk, and the most that the release adds."""
    return Table(
        frame=sensitivity.tornado(),
        head="One factor at a time",
        labels=lambda name: name_of(str(name)),
        columns=[
            ("lowest", lambda row: number(row["low"])),
            ("at", lambda row: value_in_words(row["label"], row["at_low"])),
            ("highest", lambda row: number(row["high"])),
            ("at", lambda row: value_in_words(row["label"], row["at_high"])),
            (
                "adds at most",
                lambda row: signed(float(sensitivity.along(row["label"])["gain"].max())),
            ),
        ],
    )


@tables.register
def _(sensitivity: Sensitivity) -> dict[str, Table]:
    """How far each factor by itself moves the risk."""
    found = Table(
        frame=sensitivity.tornado(),
        head="Factor",
        caption=(
            "Probability of the truth, mean over records, in brackets the same without the "
            "release; one factor at a time, widest first."
        ),
        labels=lambda name: name_of(str(name)),
        columns=[
            ("Lowest", lambda row: _end(sensitivity, row, "low")),
            ("At", lambda row: value_in_words(row["label"], row["at_low"])),
            ("Highest", lambda row: _end(sensitivity, row, "high")),
            ("At", lambda row: value_in_words(row["label"], row["at_high"])),
            ("Error (2 s.e.)", spread("mcse", "low")),
        ],
    )
    return {"tornado": found}


def _end(sensitivity: Sensitivity, row: Mapping[str, Any], side: str) -> str:
    """The lowest or highest risk along a factor, beside what holds without the release."""
    name = row["label"]
    without = float(sensitivity.along(name)["baseline"].sel({name: row[f"at_{side}"]}))
    return f"{number(float(row[side]))} ({number(without)})"


SWEPT = {
    "fallback": "Without a match, chooses among the rest",
    "known": "Unsynthesised keys",
    "synthesized": "Synthesised keys",
    "m": "Data sets released (m)",
    "strategy": "Claims a match",
}


@sentence.register
def _(sweep: IdentificationSweep) -> str:
    worst = sweep.worst()
    at = "; ".join(f"{_swept(name)}: {_setting(worst[name])}" for name in sweep.swept)
    return (
        f"The expected number of correct matches is largest, {number(worst[RISK], 1)}"
        f"{in_brackets(worst['mcse'], digits=1)} against {number(worst['baseline'], 1)} "
        f"without the release, at {at}."
    )


@tables.register
def _(sweep: IdentificationSweep) -> dict[str, Table]:
    """Expected matches over the settings."""
    table, most = sweep.summary(), sweep.MOST_ROWS
    more = f"; the first {most} of {len(table):,} settings" if len(table) > most else ""
    rows = Table(
        frame=table.head(most),
        caption=f"Releases pooled, {int(sweep.dataset['n'].max()):,} records{more}.",
        head=", ".join(map(_swept, sweep.swept)),
        labels=_setting,
        columns=[
            ("Expected matches", value(RISK, digits=1)),
            ("Error (2 s.e.)", spread(digits=1)),
            ("Without the release", value("baseline", digits=1)),
            *((begun(IDENTIFICATION[k].words), value(k, percent)) for k in RATES),
        ],
    )
    return {"settings": rows}


def _swept(name: str) -> str:
    """What was varied, in words."""
    return begun(SWEPT.get(name, name))


def _setting(value: Any) -> str:
    """A setting in words, or several."""
    values = value if isinstance(value, tuple) else (value,)
    return ", ".join(value_in_words("", one) for one in values)


@sentence.register
def _(reweighting: Reweighting) -> str:
    rows = reweighting.summary()
    first, last = rows.iloc[0], rows.iloc[-1]
    names = ("mean_probability", "max_probability", "margins", "pairs")
    risk, worst, margins, pairs = ((number(first[k]), number(last[k])) for k in names)
    above = ""
    if reweighting.until is not None:
        counts = f"{first['above']:.0f} records, then {last['above']:.0f}"
        above = f"; above {reweighting.until:g}: {counts}"
    return (
        f"Stopped after round {len(rows) - 1}: {reweighting.reason}. The truth's probability went "
        f"from {risk[0]} to {risk[1]} on average and from {worst[0]} to {worst[1]} in the "
        f"worst case{above}. The distance from the original went from {margins[0]} to "
        f"{margins[1]} for margins, and from {pairs[0]} to {pairs[1]} for pairwise tables. "
        f"{reweighting.moderate_in_words()}"
    )


@screen.register
def _(reweighting: Reweighting) -> Table:
    """Risk and utility before and after."""
    rows = reweighting.summary()
    n, above = len(rows) - 1, "" if reweighting.until is None else f"above {reweighting.until:g}"
    ends = {0: "before"} | ({n: f"after: {reweighting.reason.partition(':')[0]}"} if n else {})
    return Table(
        frame=rows,
        head=f"Reweighting ({n} round{'s' if n != 1 else ''} after the first)",
        labels=ends,
        columns=[
            ("truth, mean", value("mean_probability")),
            ("worst", value("max_probability")),
            (above, lambda row: "" if pd.isna(row["above"]) else f"{int(row['above']):,}"),
            ("pairs off by", value("pairs")),
        ],
    )


@tables.register
def _(reweighting: Reweighting) -> dict[str, Table]:
    """Risk and utility, round by round; the records."""
    rows = reweighting.summary()
    above = "above" if reweighting.until is None else f"above {reweighting.until:g}"
    without = float(reweighting.risk.records["prior"].mean())
    return {
        "rounds": Table(
            frame=rows,
            note=(
                "All other statements of a report on attribute and identification risk are about "
                "the last release."
            ),
            caption=(
                "Probability of the truth, mean over records and in the worst case, two "
                f"standard errors in brackets ({number(without)} on average without the "
                "release); then how far one-way and two-way tables are from the original's "
                "(total variation, 0 to 1)."
            ),
            head="Round",
            labels=lambda r: f"{r} (all weights 1)" if r == 0 else str(r),
            columns=[
                ("Truth, mean", with_error("mean_probability", "mcse", share=True)),
                ("Truth, worst", with_error("max_probability", "mcse_max", share=True)),
                (f"Records {above}", count_column("above")),
                ("Mean weight", value("mean_weight")),
                ("Least weight", value("min_weight")),
                ("Margins off by", value("margins")),
                ("Pairs off by", value("pairs")),
            ],
        ),
        "records": for_file(reweighting.records, "reweighting"),
    }


@sentence.register
def _(bounds: InherentBounds) -> str:
    by = f"with the same {', '.join(bounds.patterns)}" if bounds.patterns else "of the whole file"
    text = [
        "The scale goes from values drawn uniformly (minimum) to values redrawn among records "
        f"{by} (maximum; {bounds.alone:,} of {bounds.n:,} records are unique there and keep "
        f"theirs)."
    ]
    for name in bounds.headlines:
        row = bounds.found.loc[name]
        low, release, high, same = (number(row[place]) for place in PLACES)
        words = f"{begun(measure_in_words(name))}: {release}, between {low} and {high}"
        if not pd.isna(row["position"]):
            words += f", at {number(row['position'], 2)} of the way"
        text.append(f"{words} ({same} unchanged).")
    return " ".join(text)


@line.register
def _(bounds: InherentBounds) -> str:
    """The first measure between the ends."""
    name = [*bounds.headlines, *bounds.found.index][0]
    low, release, high, _ = (number(bounds.found.at[name, place]) for place in PLACES)
    between = f"between {low} (uniform values) and {high} (redrawn within patterns)"
    return f"{measure_in_words(name)} {release}, {between}"


@tables.register
def _(bounds: InherentBounds) -> dict[str, Table]:
    """Each measure at both ends, of the release between them, and unchanged."""
    found = Table(
        note=(
            "The ends bound synthesis given the patterns on average. A model that "
            "knows more columns, or copies records, can be above the maximum, which is a "
            "finding. Where the ends are close the position is noise."
        ),
        caption=f"Means over {bounds.m:,} data sets each.",
        frame=bounds.found,
        labels=lambda name: begun(measure_in_words(str(name))),
        columns=[
            *((begun(place), value(place, significant, digits=4)) for place in PLACES),
            ("Release, 2 s.e.", spread("mcse", "release")),
            ("Position (0 to 1)", value("position", digits=2)),
        ],
        file="bounds",
    )
    return {"measures": found}


@sentence.register
def _(study: FirstStudy) -> str:
    """How many columns there are of what."""
    counts = study.columns["role"].value_counts(sort=False)
    return f"{study.n:,} records: " + ", ".join(f"{n} {what}" for what, n in counts.items())
