"""How attribute risk reads: measures, worst records, what gives them away, how close it comes."""

from collections.abc import Iterable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.formats import NONE, at_most, counted, in_brackets, number, percent, plain
from bayes_risk.data.base_result import (
    HEADS,
    Form,
    Public,
    Table,
    measure_table,
    span,
    spread,
    value,
)
from bayes_risk.data.measures import ATTRIBUTE, CLOSENESS, Measure
from bayes_risk.evidence.by_column import first_column, shown_by_column
from bayes_risk.intruder.guesses import how_many
from bayes_risk.risk.claims import varied_records
from bayes_risk.risk.closeness import GuessPosterior
from bayes_risk.risk.explanation import ALL, ALL_COLUMNS, Explanation, explanation, settled
from bayes_risk.risk.posterior import at_truth
from bayes_risk.risk.result import DISTANCE, MEASURED, AttributeRisk

from .faces import line, screen, sentence, tables
from .groups import shown_groups

RANGE = "Another audit (95 %)"

ON_SCREEN = 2  # numbers whose distance stands on the screen


@sentence.register
def _(risk: AttributeRisk) -> str:
    table, rows = risk.records, risk.summary()["value"]
    worst = table.iloc[int(np.argmax(table["probability"]))]
    error, before = in_brackets(worst["mcse"], worst["probability"], share=True), ""
    least = "" if risk.learnt is None else "at least "  # others may see more in the same files
    if risk.before is not None:
        mean = number(float(risk.before[0, risk.case].mean()))
        before = f"; before any publication the model's predictive gave it {mean}"
    return (
        f"{risk.assumptions['records']} Choosing among {how_many(risk.guesses_each)} for each "
        f"of {len(table):,} records, the intruder gives the true values a probability of {least}"
        f"{number(rows['mean_probability'])} on average ({number(table['prior'].mean())} "
        f"without the release{before}) and "
        f"{number(worst['probability'])}{error} in the worst case; the truth "
        f"ranks first for {percent(rows['share_ranked_first'])} of records.{_remarks(risk)}"
    )


def _remarks(risk: AttributeRisk) -> str:
    """What else is to be said, each a sentence."""
    excluded = np.isneginf(at_truth(risk.log_prior, risk.truth)) & ~risk.disclosed
    known, most = risk.certain(), float(risk.left_out.max())
    kept, bad, never = (
        int(those[risk.case].sum()) for those in (risk.disclosed, ~risk.reliable, excluded)
    )
    given = int(known.any(axis=1).sum())
    names = ", ".join(map(str, known.columns[known.any(axis=0)]))
    remarks = {
        f" {kept:,} records were not replaced and are known with certainty.": kept,
        f" {counted(bad, 'record') if bad else 'No record'} {'is' if bad < 2 else 'are'} marked "
        "unreliable.": True,
        f" The prior excludes the true values of {counted(never, 'record')}: their "
        "probability stays 0.": never,
        f" Values of {'1 record is' if given == 1 else f'{given:,} records are'} disclosed "
        f"with certainty ({names}): no other value is possible.": given,
        f" The joint grid was searched coarse to fine; up to {plain(100 * most, 2)} % of a "
        "posterior was left out.": 0 < most < 1,
        " The joint grid was searched coarse to fine; how much of a posterior was left out is not "
        "known.": most == 1,
    }
    return "".join(words for words, holds in remarks.items() if holds)


@tables.register
def _(risk: AttributeRisk) -> dict[str, Table]:
    """Measures, worst records, what each column gives away, how close to each number."""
    found: dict[str, Table | None] = {
        "measures": _measures(risk),
        "history": _history(risk),
        "variables": _by_variable(risk),
        "claims": _claims(risk),
        "groups": shown_groups(risk.shown.groups, "attribute_groups", _under(risk)),
        "modes": None if risk.modes is None else risk.modes.shown(risk.means_by_mode),
        "calibration": None if risk.learnt is None else risk.learnt.shown(),
        "worst": _worst(risk),
        "explained": shown_explained(risk.shown, risk.shown.most_gained()),
        "by-column": shown_by_column(risk.by_column, risk.not_by_column),
        **closeness_tables(risk),
    }
    return {name: table for name, table in found.items() if table is not None}


@line.register
def _(risk: AttributeRisk) -> str:
    """What gives most away: the column in all, else of the worst record; or nothing."""
    if risk.by_column is None:
        worst = explained_in_words(risk.shown, int(risk.shown.most_gained()[0]))
        return f"Worst record: mainly from {worst}" * bool(worst)
    column, without, full = first_column(risk.by_column)
    if not column:
        return f"No single column is disclosive (mean {full}, without any one {without})"
    return f"Most disclosive column: {column} (mean {full}, without its evidence {without})"


def _under_priors(risk: AttributeRisk) -> dict[str, Measure]:
    """The measures that other priors have beside those of the first."""
    return {
        f"{m.name}_{prior}": m._replace(
            words=f"{m.words} ({prior} prior)",
            short=f"  worst, {prior} prior" * (m.name == "max_probability"),
        )
        for prior in risk.priors
        for m in ATTRIBUTE.values()
        if m.name in MEASURED and m.kind != "count"
    }


def _measures(risk: AttributeRisk) -> Table:
    n, rows = len(risk.index), risk.summary()
    return measure_table(
        rows,
        ATTRIBUTE | _under_priors(risk),
        HEADS if risk.modes is None else (*HEADS, RANGE),
        caption=f"All {n:,} audited records; {how_many(risk.guesses_each)} for each.",
        public=Public.of(ATTRIBUTE["disclosed"], rows["value"]["disclosed"], n),
    )


@screen.register
def _(risk: AttributeRisk) -> Table:
    """The measures that say most, and the distances from the closest numbers."""
    found, rows = risk.closest(), [risk.summary()]
    close = found.head(ON_SCREEN).rename(index=CLOSENESS[DISTANCE].short.format)
    if len(close):
        own = [f", {r:,.0f} records" * (r < len(risk.index)) for r in close["records"]]
        close.index = close.index + own
        sides = {"": "value", "_mcse_bound": "bound", "_prior": "baseline"}
        names = {f"{DISTANCE}{side}": name for side, name in sides.items()}
        rows.append(close[list(names)].rename(columns=names))
    more = len(found) - ON_SCREEN
    return measure_table(
        pd.concat(rows),
        ATTRIBUTE
        | _under_priors(risk)
        | {name: CLOSENESS[DISTANCE]._replace(short=name) for name in close.index},
        ("value", "+- 2 s.e.", "without release"),
        short=True,
        head=f"Attribute risk ({len(risk.index):,} records)",
        caption=f"  ({counted(more, 'more number')})" if more > 0 else "",
    )


def _under(risk: AttributeRisk) -> str:
    """The prior whose numbers are shown, where it is not the first."""
    return f", under the {risk.worst_under} prior" * bool(risk.worst_under)


STEPS = {
    "before": "Before this release",
    "alone": "This release alone",
    "after": "After this release",
    "added": "What this release adds",
}


def _history(risk: AttributeRisk) -> Table | None:
    """Risk before a release, of it alone and after it; None: nothing was published before."""
    if risk.history is None:
        return None
    behind = f"_{risk.worst_under}" * bool(risk.worst_under)
    mean, mcse = f"mean_probability{behind}", f"mcse{behind}"
    largest = f"max_probability{behind}"
    return Table(
        title="What this release adds",
        caption=(
            f"Probability of the true values given the {risk.history.releases} released before, "
            f"this release, and all of them{_under(risk)}. The verdict is on all of them."
        ),
        frame=risk.history.table,
        head="Published",
        labels=STEPS,
        columns=[
            ("Mean", value(mean)),
            ("Error (2 s.e.)", spread(mcse, mean, share=True)),
            ("Largest", lambda row: NONE if np.isnan(row[largest]) else number(row[largest])),
        ],
        file="history",
    )


def history_in_words(risk: AttributeRisk) -> str:
    """The same in one line; empty: nothing was published before."""
    table = _history(risk)
    if table is None:
        return ""
    before, alone, after, added = (row[1] for row in table.rows)
    return (
        f"Mean before this release {before}, alone {alone}, after it {after}: adds {added} "
        f"(+- {table.rows[-1][2]})"
    )


def _by_variable(risk: AttributeRisk) -> Table | None:
    """Of each variable beside all together; None: there is one, or they have no marginals."""
    found = risk.shown.by_variable()
    if len(found) < 2:
        return None
    return Table(
        title="By variable",
        caption=(
            "Mean probability of the true values: all together, and each variable by "
            f"itself{_under(risk)}."
        ),
        frame=found,
        head="True values",
        columns=[
            ("Value", value("probability")),
            ("Error (2 s.e., at most)", lambda row: at_most(2 * row["mcse_bound"])),
            ("Without the release", value("prior")),
        ],
    )


def _claims(risk: AttributeRisk) -> Table:
    """Claims at stated confidence: a row for the values, two columns for each confidence."""
    found = risk.shown.claims()
    columns: list[tuple[str, Form]] = []
    for one in found.index.unique("confidence"):
        columns.append((f"Claims at {plain(100 * one)} %", partial(_claimed, one)))
        columns.append(("Without", partial(_claimed_without, one)))
    return Table(
        title="What the intruder claims",
        caption=(
            f"A claim is a guess that reaches the stated probability{_under(risk)}. Number of "
            f"claims for {len(risk.index):,} records (in brackets, the range within Monte Carlo "
            "error), and the share that is right (95 % interval)."
        ),
        frame=pd.DataFrame(found.unstack("confidence", sort=False)),
        head="Values",
        columns=columns,
    )


def claims_in_words(risk: AttributeRisk, confidence: float = 0.95) -> str:
    """Claims of all values together, in one line; empty: there is none, nor without the release."""
    row = risk.claims([confidence]).unstack("confidence").iloc[0].to_dict()
    with_release, without = _claimed(confidence, row), _claimed_without(confidence, row)
    if with_release == without == "0":
        return ""
    return f"Claims at {plain(100 * confidence)} %: {with_release}; without the release {without}"


def _claimed(confidence: float, row: Mapping[Any, Any]) -> str:
    """So many claims, and how many of them are right."""
    count, low, high, right, *ends = (
        row[name, confidence]
        for name in ("claims", "low", "high", "right", "right_low", "right_high")
    )
    between = f" ({int(low):,} to {int(high):,})" if low < high else ""
    if not count:
        return f"0{between}"
    of = " to ".join(f"{100 * end:.0f}" for end in ends)
    return f"{int(count):,}{between}; {percent(right)} right ({of} %)"


def _claimed_without(confidence: float, row: Mapping[Any, Any]) -> str:
    count, right = row["claims_without", confidence], row["right_without", confidence]
    return f"{int(count):,}" + f"; {percent(right)} right" * bool(count)


def _worst(risk: AttributeRisk, k: int = 10) -> Table:
    """The records at highest risk, by label; k-hat only where there were weights."""
    known = risk.given_away(risk.shown.most_gained(k))
    columns = [
        ("Probability of the truth", value("probability")),
        ("Error (2 s.e.)", spread("mcse", "probability", share=True)),
        *([] if risk.modes is None else [(RANGE, span("low", "high"))]),
        ("Without the release", value("prior")),
        ("Log Bayes factor", value("log_bayes_factor", digits=2)),
        ("Rank", _place),
        ("k-hat", value("khat", digits=2)),
        ("Remarks", _marks),
    ]
    return Table(
        title="The ten records at highest risk",
        caption=(
            f"Records whose true values gain most probability{_under(risk)}. Records are named by "
            "their label; values are not shown."
        ),
        frame=risk.shown.worst(k).assign(known=known),
        head="Record",
        columns=[c for c in columns if c[0] != "k-hat" or not risk.is_exact],
    )


def _place(row: Mapping[str, Any]) -> str:
    return number(int(row["rank"])) + (f" (with {int(row['ties']):,} more)" if row["ties"] else "")


def _marks(row: Mapping[str, Any]) -> str:
    marks = {
        "unreliable": not row["reliable"],
        "released unchanged": row["disclosed"],
        f"known for certain: {row['known']}": row["known"],
    }
    return "; ".join(remark for remark, holds in marks.items() if holds) or NONE


FROM = ("from_data_set", "from_column")


@sentence.register
def _(found: Explanation) -> str:
    error, sources = in_brackets(float(found.mcse[ALL]), found.total, 2), found.most_in_words()
    shares = ": shares in excluding every other guess" * bool(np.isinf(found.total))
    most = f" Mainly from {sources}{shares}." * bool(sources)
    why = f" Not by column: {found.no_columns}." * bool(found.no_columns)
    return (
        f"Record {found.label}: the log Bayes factor of its true values is "
        f"{number(found.total, 2)}{error}.{most}{why}"
    )


def shown_explained(risk: Any, positions: Iterable[int]) -> Table | None:
    """Data set and column that give most of some targets away; None: there is one of each."""
    m, factors = len(risk.log_evidence), risk.factors
    by_column = not isinstance(factors, str)
    if m == 1 and not by_column:
        return None
    rows = [_explained(risk, int(i)) for i in positions]
    columns: list[tuple[str, Form]] = [
        ("Log Bayes factor", value("log_bayes_factor", digits=2)),
        ("Error (2 s.e.)", spread("mcse", "log_bayes_factor", digits=2)),
        *([("Data set", itemgetter("from_data_set"))] if m > 1 else []),
        *([("Column", itemgetter("from_column"))] if by_column else []),
    ]
    return Table(
        title="Why they are at risk",
        caption=(
            "The data set and the column that contribute most to the log Bayes factor, with the "
            "contribution in brackets; if the factor is infinite, the share in excluding every "
            "other guess. Contributions add up over data sets, and over columns; "
            "risk.explain(label) has them all. A dash: no contribution, or nothing to explain."
        ),
        frame=pd.DataFrame(rows, index=risk.index[list(positions)].rename("record")),
        head="Record",
        columns=columns,
        file="explained",
    )


def explained_in_words(risk: Any, position: int) -> str:
    """What gives most of a target away; empty: nothing does, or it is not told."""
    if settled(risk, int(risk.case[position])):
        return ""
    return explanation(risk, position).most_in_words()


def _explained(risk: Any, position: int) -> dict[str, Any]:
    if settled(risk, int(risk.case[position])):
        return dict.fromkeys(("log_bayes_factor", "mcse"), np.nan) | dict.fromkeys(FROM, NONE)
    found = explanation(risk, position)
    row, column = found.most()
    table = found.contributions
    return {
        "log_bayes_factor": found.total,
        "mcse": found.mcse[ALL],
        "from_data_set": NONE if row is None else f"{row} ({found.part(row)})",
        "from_column": NONE if column is None else f"{column} ({found.part(column=column)})",
        **{f"data_set_{l}": x for l, x in table[ALL_COLUMNS].iloc[:-1].items()},
        **{f"column_{c}": x for c, x in table.loc[ALL].iloc[:-1].items()},
    }


NEARLY = (
    "A guess close to a number is nearly as good as the truth. Distances are in the "
    "unit of the variable and averaged over records; only the difference from the last column is "
    "attributable to the release."
)


def closeness_tables(risk: GuessPosterior) -> dict[str, Table]:
    """How close the intruder comes to each number."""
    tables = {}
    # the likeliest of the truth's neighbours is the truth
    centred = len(risk.variables) > 1 and not varied_records(risk).any()
    for place, (name, row) in enumerate(risk.closeness_summary().iterrows(), start=1):
        row = row.mask(row.index.str.contains("_mode_.*_prior") & centred)
        n, own = len(risk.index), int(row["records"])
        those = f"; distances: over the {own:,} who have one" if own < n else ""
        sides = {"value": "", "bound": "_mcse_bound", "baseline": "_prior"}
        columns = {
            c: row.reindex([f"{k}{s}" for k in CLOSENESS]).to_numpy() for c, s in sides.items()
        }
        tables[f"closeness-{place}"] = measure_table(
            pd.DataFrame(columns, index=list(CLOSENESS)),
            CLOSENESS,
            ("Value", "Error (2 s.e., at most)", "Without the release"),
            title="How close the intruder comes to numbers" if place == 1 else "",
            note=NEARLY if place == 1 else "",
            caption=f"{name}: means over {n:,} records{those}.",
        )
    return tables
