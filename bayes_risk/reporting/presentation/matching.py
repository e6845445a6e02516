"""How matching reads: measures, the records at highest risk, counts of rows, uniqueness."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.formats import (
    begun,
    counted,
    ends_in_words,
    error,
    in_brackets,
    number,
    percent,
    plus_minus,
)
from bayes_risk.data.base_result import Public, Table, count_column, some, span, spread, value
from bayes_risk.data.measures import IDENTIFICATION, MATCH_COUNTS, UNIQUENESS
from bayes_risk.matching.file_risk import FileRisk
from bayes_risk.matching.result import (
    EXPECTED,
    NOBODYS,
    PERSONS,
    IdentificationRisk,
    MatchCounts,
    Matching,
)
from bayes_risk.matching.uniqueness import Uniqueness

from .faces import screen, sentence, tables
from .groups import shown_groups

SCREEN = (EXPECTED, "mcse", "true_match_rate", PERSONS, "false_match_rate")


@screen.register
def _(risk: Matching) -> Table:
    """Expected matches with their error, and match rates."""
    heads = {"pooled": "pooled", "mean": f"mean of {risk.m}", "without": "without release"}
    return Table(
        frame=_by_measure(risk),
        head=f"Identification risk ({risk.n:,} records)",
        labels={
            k: IDENTIFICATION[k].words if k in IDENTIFICATION else "  +- 2 s.e." for k in SCREEN
        },
        columns=[(head, partial(_written, column)) for column, head in heads.items()],
    )


@tables.register
def _of_matches(risk: Matching) -> dict[str, Table]:
    """Match measures: pooled, averaged, over releases, and without synthetic values."""
    rows, n, what = _by_measure(risk), risk.n, f"{risk.table_word}s"
    pooled = rows["pooled"]
    return {
        "measures": Table(
            frame=rows,
            caption=f"{risk.how_many()}, {risk.searched()}; in brackets two standard errors.",
            labels={name: begun(of.words) for name, of in IDENTIFICATION.items()},
            columns=[
                ("Pooled", partial(_with_error, "pooled", rows)),
                (f"Mean of {what}", partial(_with_error, "mean", rows)),
                (f"Over {what}", _between),
                ("Without the release", partial(_written, "without")),
            ],
            public=Public.of(IDENTIFICATION[EXPECTED], pooled[EXPECTED], n, pooled["baseline"]),
        )
    }


def _by_measure(risk: Matching) -> pd.DataFrame:
    """A row per measure; last, of an intruder without synthetic values, where it is known."""
    table, alone = risk.summary(), risk.baseline_true_matches
    each, without = table.iloc[: risk.m], {EXPECTED: risk.baseline_expected_match_risk}
    if alone is not None:
        without |= dict.fromkeys(("true_matches", "unique_matches"), alone)
        without |= {"true_match_rate": alone / risk.n, "no_match": 0}
        without |= {"false_match_rate": 0.0 if alone else np.nan}
    return table.T.assign(low=each.min(), high=each.max(), without=pd.Series(without))


@sentence.register
def _(risk: Matching) -> str:
    """Say the result in plain words."""
    rows = risk.summary().to_dict("index")
    pooled, mean = rows["pooled"], rows["mean"]
    one = f" With one {risk.table_word} only: {number(mean[EXPECTED], 1)} on average."
    s, true = int(pooled["unique_matches"]), int(pooled["true_matches"])
    singles = "No record has a unique match."
    if s:
        singles = f"{counted(s, 'record')} {'has' if s == 1 else 'have'} a unique match; "
        singles += f"{true:,} of these {'is' if true == 1 else 'are'} right ({percent(true / s)})."
    if PERSONS in pooled:
        found, persons = int(pooled[PERSONS]), counted(risk.n_persons, "person")
        share = percent(found / risk.n_persons)
        singles += f" Of {persons} {found:,} have such a record ({share})."
    return (
        f"An intruder who {_knowledge(risk)} is expected to match "
        f"{number(pooled[EXPECTED], 1)}{_errors(risk)} of {_whom(risk)} "
        f"({percent(pooled[EXPECTED] / risk.n)}); without the release "
        f"{number(risk.baseline_expected_match_risk, 1)}.{one * (risk.m > 1)} {singles}"
    )


def _knowledge(risk: Matching) -> str:
    """Say what the intruder knows, and what he looks for in which tables."""
    known, sought = (", ".join(risk.in_words(k)) for k in (risk.known, risk.synthesized))
    where = risk.searched()
    if risk.release_of is None:
        where = "the release" if risk.m == 1 else f"the {risk.m} releases together"
    knows = f"searches for the true values of {sought} in {where}"
    if known:
        knows = f"knows {known} of everyone and {knows}"
    if not sought:
        knows = f"knows {known} (not synthesised) of everyone"
    if risk.population != "in the file":
        knows += f", not knowing who is in the file ({risk.population})"
    rules = f" ({'; '.join(risk.rules())})" if risk.rules() else ""
    return "".join([knows, rules, *(f", and {claims}," for claims in risk.claims())])


def _whom(risk: Matching) -> str:
    if not isinstance(risk, IdentificationRisk) or risk.in_file.all():
        return risk.how_many()
    inside = f"({int(risk.in_file.sum()):,} of them in the file)"
    return f"{risk.n:,} targets{risk.of_persons()} {inside}"


def _errors(risk: Matching) -> str:
    """Two standard errors in brackets; nothing where the releases are too few for one."""
    if risk.release_of is None:
        return in_brackets(risk.pooled_mcse, digits=1)
    known = [
        "unknown" if np.isnan(mcse) else plus_minus(mcse, digits=1)
        for mcse in (risk.pooled_mcse, risk.pooled_draws_mcse)
    ]
    releases = f"{known[0]} between releases; " if risk.release_of.any() else ""
    return f" ({releases}{known[1]} from the drawing alone)"


def _written(column: str, row: Mapping[str, Any]) -> str:
    """A measure: sums of probabilities with the decimals of their error, rates, counts."""
    measure, value = row["label"], float(row[column])
    if measure == "mcse":
        return error(value, digits=1)
    if IDENTIFICATION[measure].kind == "share":
        return percent(value)
    return number(value, 1) if measure == EXPECTED else some(value)


def _with_error(column: str, rows: pd.DataFrame, row: Mapping[str, Any]) -> str:
    mcse = float(rows[column]["mcse"])
    known = row["label"] == EXPECTED and not np.isnan(mcse)
    return _written(column, row) + (f" ({error(mcse, digits=1)})" if known else "")


def _between(row: Mapping[str, Any]) -> str:
    return ends_in_words(_written("low", row), _written("high", row))


@tables.register
def _(risk: IdentificationRisk) -> dict[str, Table]:
    """Match measures, and the records at highest risk, by label.

    Of those level first the ones that the unsynthesised keys alone give away least.
    """
    table = risk.records.assign(unique=risk.K.sum(axis=1), place=range(risk.n))
    order = ["probability", "baseline", "unique", "place"]
    level = int((table["probability"] == table["probability"].max()).sum())
    among = f" {level:,} records share the largest." if level > 1 else ""
    searched = counted(risk.m, risk.table_word)
    worst = Table(
        title="The ten records at highest risk",
        caption=(
            f"Probability that the intruder's match is the record, {searched} pooled.{among} "
            "Records are named by their label."
        ),
        frame=table.sort_values(order, ascending=[False, True, False, True]).head(10),
        head="Record",
        columns=[
            ("Probability", value("probability")),
            ("Error (2 s.e.)", spread("mcse", "probability", share=True)),
            ("Without the release", value("baseline")),
            ("Best candidates", count_column("candidates")),
            (f"Matched uniquely and correctly (of {risk.m:,})", count_column("unique")),
        ],
    )
    groups = shown_groups(risk.groups, "identification_groups")
    by_group = {} if groups is None else {"groups": groups}
    return _of_matches(risk) | by_group | {"worst": worst}


@screen.register
def _(counts: MatchCounts) -> Table:
    """The table, without what explains it."""
    return replace(counts.tables()["measures"], caption="")


@tables.register
def _(counts: MatchCounts) -> dict[str, Table]:
    """Targets by how many rows match them, of each release and of the other records."""
    rows = counts.summary()
    table = Table(
        note=NOBODYS,
        caption=(
            f"{counts.n:,} targets{counts.of_persons()} by number of matching rows; the average; "
            "and targets whose single row matches no other original record. Thinned: at most "
            f"{counts.drawn:,} rows at random; others: as many other records."
        ),
        frame=rows,
        head="Release",
        columns=[(of.short, value(name, some)) for name, of in MATCH_COUNTS.items()],
        public=Public.of(MATCH_COUNTS["unique_matches"], rows["unique_matches"]["mean"], counts.n),
    )
    return {"measures": table}


@sentence.register
def _(counts: MatchCounts) -> str:
    """Say the counts in plain words."""
    rows, keys = counts.summary(), [*counts.in_words(counts.synthesized), *counts.rules()]
    found, thinned, others = (
        f"no row matches {some(none)}, a single one {some(one)}, and {some(many)} on average"
        for none, one, many in rows.iloc[[-4, -2, -1], [0, 1, 3]].to_numpy()
    )
    return (
        f"{NOBODYS} Of {counted(counts.n, 'target')}{counts.of_persons()}, by {', '.join(keys)}, "
        f"in {counts.searched()}: {found}. Thinned to at most {counts.drawn:,} rows, "
        f"{thinned}; of as many of the other records of the original, {others}."
    )


@tables.register
def _(risk: FileRisk) -> dict[str, Table]:
    """Match measures; sums over all records, no record."""
    note = (
        f"Counted over the whole file, {risk.n_profiles:,} distinct profiles of {risk.n:,} "
        "records; single records are not stored."
    )
    found = _of_matches(risk)
    return found | {"measures": replace(found["measures"], note=note)}


@sentence.register
def _(uniqueness: Uniqueness) -> str:
    """Say the result in plain words."""
    found = (
        f"By {', '.join(map(str, uniqueness.keys))}, {uniqueness.sample_uniques:,} of "
        f"{uniqueness.n:,} records "
        f"({percent(uniqueness.sample_uniques / uniqueness.n)}) are unique in the sample"
    )
    if uniqueness.totals.empty:
        return f"{found}; uniqueness in the population was not requested."
    one, two = (uniqueness.totals.loc[name] for name in ("population_uniques", "unique_matches"))
    return (
        f"{found}; {_number(one)} of them would be unique in the population, and an "
        f"intruder who searches for them there would be right {_number(two)} times "
        f"({uniqueness.population})."
    )


@tables.register
def _(uniqueness: Uniqueness) -> dict[str, Table]:
    """Records, share, error, interval; last for an intruder who knows who is in the file."""
    table, n = uniqueness.summary(), uniqueness.n
    people = f" Population: {uniqueness.population}." if uniqueness.population else ""
    rare = Table(
        note=("For the confidential file alone, without a release."),
        caption=f"{n:,} records; keys: {', '.join(map(str, uniqueness.keys))}.{people}",
        frame=table,
        head="Records",
        labels={name: begun(of.words) for name, of in UNIQUENESS.items()},
        columns=[
            ("Number", value("value", some)),
            ("Share of all", value("share", percent)),
            ("Error (2 s.e.)", spread("error", digits=1)),
            ("95 % interval", span("low", "high", partial(number, digits=0))),
            ("If known to be in the file", value("without", some)),
        ],
        public=Public.of(UNIQUENESS["sample_uniques"], table["value"]["sample_uniques"], n),
    )
    return {"measures": rare}


def _number(t: Any) -> str:
    known = "" if np.isnan(t["low"]) else f" ({number(t['low'], 0)} to {number(t['high'], 0)})"
    return some(t["value"]) + known
