"""What to change in a study whose file is above its thresholds: keys, and what each would do.

Steps change the file that is released, never what the intruder is assumed to know. What a step is
expected to do is counted in the confidential table; only another audit shows what it does.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Ints
from bayes_risk._core.formats import (
    begun,
    beside_share,
    counted,
    number,
    percent,
    toml_pair,
)
from bayes_risk.app.study.known_keys import KEYS
from bayes_risk.app.study.study import Study
from bayes_risk.data.coarsening import (
    coarsened,
    coarser_keys,
    proposed,
    share_alone,
    share_unique,
    without_point,
)
from bayes_risk.data.variables import is_numeric
from bayes_risk.release.release import Release
from bayes_risk.reporting.verdicts.attribute import ALL
from bayes_risk.reporting.verdicts.doubts import CURES, PUBLIC
from bayes_risk.reporting.verdicts.groups import MATCHED_GROUPS
from bayes_risk.reporting.verdicts.reason import ABOVE, GAINED, RISK, USE, NextStep, Reason
from bayes_risk.reporting.verdicts.reasons import CERTAIN, LIMITS, MATCHES, TOGETHER
from bayes_risk.reporting.verdicts.verdict import Verdict
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.utilities.tables import mutual_information

SLOW = 4  # times as long: another file is audited sooner
MOST_COMBINATIONS = 5_000  # of values of all columns, as guesses
EVERY = "Guess every combination of values"
BANDS = 10  # of a number, to see how far it is related to another column
LOOKED_AT = 5_000  # records, at most, to see it
SMALLEST = 1e-9  # entropy beyond chance of a column that varies
SECTION_OF = {  # of keys that cures name
    **dict.fromkeys(("targets", "target_mcse", "refit_budget", "evidence"), "attribute"),
    **dict.fromkeys(("chains", "draws"), "model"),
    "accept_simulated": "thresholds",
    "parameters": "release",
    "permutations": "utility",
    "corresponds": "identification",
}
SHOW_VALUES = ("CART", "Forest", "PMM")  # models whose files hold values of the data


def next_steps(study: Study, df: pd.DataFrame, verdict: Verdict) -> tuple[NextStep, ...]:
    """Steps in the order in which to take them.

    Of a verdict that is above: what lowers the risk. Otherwise what settles the doubts; where more
    draws take long, what lowers the risk too. Of one that is within: the files.
    """
    above = {reason.measure for reason in verdict.reasons if reason.outcome == ABOVE}
    if not above:  # a file that is not useful enough is made anew; then what takes least first
        open_ = [r for r in verdict.reasons if r.outcome in (*RISK[1:3], USE[1]) and r.cure]
        keys = {r.cure: {*lines_of_cure(r.cure).splitlines()} for r in open_}
        found: dict[tuple[str, str], list[Reason]] = {}
        for r in open_:  # a cure with the same keys and more does for both
            cures = [c for c in keys if keys[r.cure] and keys[r.cure] < keys[c]] or [r.cure]
            found.setdefault((cures[0], r.column), []).append(r)
        slow = {r.measure for r in open_ if _times(study, r.cure) >= SLOW}
        gains = {measure for measure in slow if measure.startswith(GAINED)}
        doubts = [step for of in found.items() for step in _settling(study, df, *of)]
        doubts += [*_coarser(study, df, gains, 1.0), *_model(study, df, gains)]
        every = (*_useful(study, df, verdict), *sorted(doubts, key=lambda step: step.times))
        if not every and verdict.outcome == RISK[-1]:
            return (*_single(study, df), *_written(study))
        lines = [step.lines for step in every]  # the same lines are one step
        return tuple(s for k, s in enumerate(every) if not s.lines or s.lines not in lines[:k])
    shown = [r for r in verdict.reasons if r.outcome == ABOVE and r.column]
    steps = [
        *(_left_out(study, df, r.column, r.sentence.rstrip(".")) for r in shown),
        *_coarser(study, df, above, _too_many(verdict)),
        *_model(study, df, above),
        *_related(study, df, above),
    ]
    return (*dict.fromkeys(steps), *_useful(study, df, verdict))


def _useful(study: Study, df: pd.DataFrame, verdict: Verdict) -> tuple[NextStep, ...]:
    """What may make the file useful enough."""
    change, made = "Compare other models: run bayes-risk compare", study.synthesized_in(df)
    leaf = getattr(study.model, "min_leaf", 0)
    other = {"min_leaf": max(leaf // 2, 1)} if leaf else {"kind": "CART", "order": made}
    lines = pasted({"compare.other": {"model": other}})
    poor = [r.sentence.rstrip(".") for r in verdict.reasons if r.outcome == USE[0]]
    return tuple(NextStep(change, text, lines) for text in poor[:1])


def pasted(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Keys of sections as lines of a study file."""
    parts = (
        "\n".join([f"[{name}]", *(toml_pair(*pair) for pair in keys.items())])
        for name, keys in sections.items()
    )
    return "\n\n".join(parts)


def lines_of_cure(cure: str) -> str:
    """The keys that a cure names, each as it is first given, as lines of a study file."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in re.findall(r'(\w+) = ("\w+"|true|[\d.e-]*\d)', cure):
        if key in SECTION_OF:
            found.setdefault(SECTION_OF[key], {}).setdefault(key, json.loads(value))
    return pasted(found)


def finer_grids(study: Study, df: pd.DataFrame) -> str:
    """Guesses of numbers at half the distance, as lines of the study; empty: there are none.

    In the place of guesses that differ in few columns, every combination, if there are few.
    """
    given = study.attribute.guesses if study.attribute is not None else None

    def finer(grid: Any) -> Any:
        if grid in (None, "predictive"):
            return {"predictive": True, "n": 21}
        if isinstance(grid, str):  # levels
            return grid
        return grid.model_dump(exclude_defaults=True) | {"n": 2 * grid.n - 1}

    if isinstance(given, dict):
        found = {name: finer(grid) for name, grid in given.items()}
        same = all(isinstance(grid, str) and grid == found[name] for name, grid in given.items())
        return "" if same else pasted({"attribute.guesses": found})
    if _near(study):
        names = study.synthesized_in(df)
        every = math.prod(df[name].nunique(dropna=False) for name in names)
        levels = {name: "levels" for name in names if is_numeric(df[name].dtype)}
        levels = levels or dict.fromkeys(names[:1], "levels")
        return pasted({"attribute": {"guesses": levels}}) if every <= MOST_COMBINATIONS else ""
    return pasted({"attribute": {"guesses": finer(given)}})


def _settling(
    study: Study, df: pd.DataFrame, of: tuple[str, str], reasons: list[Reason]
) -> Iterator[NextStep]:
    """What settles doubts ``of`` one cure, and of one column or of all that are kept, if any."""
    (cure, column), effect = of, f"It settles: {'; '.join(r.measure for r in reasons)}"
    if column:
        yield _left_out(study, df, column, f"{effect}; if it is public anyway: {PUBLIC}")
        return
    if reasons[0].measure == TOGETHER:
        kept = [c for c in map(str, df) if c not in study.synthesized_in(df)]
        steps = [*_fewer_unique(study, df, kept, 0.5, "the unchanged columns together")]
        for step in steps:
            text = f"{effect}. {step.effect}; if these columns are public anyway: {PUBLIC}"
            yield replace(step, effect=text)
        if steps:
            return
    if (times := _times(study, cure)) > 1 and cure.startswith("targets"):
        long = number(times, 1).removesuffix(".0")
        effect += f"; the attribute risk takes at most {long} times as long"
    grids = cure in (CURES["grid coarse"], CURES["grid narrow"])
    lines = finer_grids(study, df) if grids else lines_of_cure(cure)
    yield NextStep(EVERY if grids and _near(study) and lines else cure, effect, lines, times)


def _single(study: Study, df: pd.DataFrame) -> Iterator[NextStep]:
    """What judges single columns, where guesses differ from the truth in few of several."""
    if _near(study) and len(study.synthesized_in(df)) > 1 and (lines := finer_grids(study, df)):
        yield NextStep(EVERY, "Single columns were not judged; this judges them too", lines)


def _written(study: Study) -> Iterator[NextStep]:
    """The files of a release that was made in the run, if they are not kept."""
    if study.release.files is None and not study.output.release:
        effect = "The same random_seed makes the same files; manifest.json has their SHA-256"
        yield NextStep("Write the files", effect, pasted({"output": {"release": True}}))


def _near(study: Study) -> bool:
    """Whether guesses differ from the truth in few columns."""
    given = study.attribute.guesses if study.attribute is not None else None
    return isinstance(given, str) and given != "predictive"


def _times(study: Study, cure: str) -> float:
    """How many times as long the attribute risk may take; 1 of other cures."""
    now = study.attribute.targets if study.attribute is not None else None
    if (more := re.match(r"targets = (\d+)", cure)) and isinstance(now, int):
        return int(more[1]) / now
    more = re.search(r"\(about (\d+) times as long\)", cure)
    return float(more[1]) if more else 1.0


def _too_many(verdict: Verdict) -> float:
    """How many times as many records are matched as are allowed; at least 1."""
    matched = [r.of_allowed for r in verdict.reasons if r.measure in (MATCHES, MATCHED_GROUPS)]
    return max([1.0, *(found[1] for found in matched if found is not None)])


def _coarser(
    study: Study, df: pd.DataFrame, above: Collection[str], too_many: float
) -> Iterator[NextStep]:
    """Numbers of which many values belong to one record, and keys of which many are unique.

    The keys are to be `too_many` times less often unique: the synthesised values match as well.
    """
    df, numbers = _as_numbers(study, df), dict[str, tuple[dict[str, Any], str]]()
    if any(measure.startswith(GAINED) or measure in (CERTAIN, *LIMITS) for measure in above):
        for name in map(str, study.release.columns or df.columns):
            keep = _codes(study, name)
            if is_numeric(df[name].dtype) and (found := proposed(df[name], keep)):
                those = (
                    c[c.notna() & ~c.isin(keep)] for c in (df[name], coarsened(df[name], **found))
                )
                now, then = ((f"{c.nunique():,}", percent(share_alone(c))) for c in those)
                numbers[name] = (
                    found,
                    f"{name} has {now[0]} values now, and {now[1]} of the records have a value of "
                    f"their own; coarsened, it has {then[0]}, and the share is {then[1]}",
                )
    keys = _keys(study, above)
    limit = min(study.thresholds.made().true_match_rate, share_unique(df[keys]) / too_many)
    why = ", as synthesised values match as well"
    yield from _fewer_unique(study, df, keys, limit, "the keys", why, numbers)


def _as_numbers(study: Study, df: pd.DataFrame) -> pd.DataFrame:
    """The table with numbers in coarsened columns, whose multiples may be levels."""
    return df.assign(**{c: df[c].astype(float) for c in study.data.coarsen if c in df})


def _fewer_unique(
    study: Study,
    df: pd.DataFrame,
    columns: list[str],
    limit: float,
    what: str,
    why: str = "",
    numbers: Mapping[str, tuple[dict[str, Any], str]] = MappingProxyType({}),
) -> Iterator[NextStep]:
    """Numbers made coarser, those given too, and columns left out until few records are unique."""
    how = {name: given for name, (given, _) in numbers.items()}
    effects = [effect for _, effect in numbers.values()]
    df, without = _as_numbers(study, df), dict[str, str]()
    now = [f"{percent(share_unique(df[columns]))} of the records are unique in {what} now"]
    for name, found, left in coarser_keys(df, columns, limit, study.data.coarsen):
        if found:
            how |= {name: found}
            effects += [*now, f"with {name} coarsened, {percent(left)} are"]
        else:
            text = f"without {name}{' too' * (not now)}, {percent(left)} are; at most"
            without[name] = begun("; ".join([*now, f"{text} {percent(limit)} should be{why}"]))
        now = []
    if how:
        current, change, lines = _as_they_are(study), "Make numbers coarser", ""
        every = current | {name: current.get(name, {}) | found for name, found in how.items()}
        if study.release.files is None:
            lines = pasted({"data": {"coarsen": every}})
        else:
            units = (f"{name} to multiples of {number(of['unit'])}" for name, of in how.items())
            change = f"{change} before the files are made: {', '.join(units)}"
        yield NextStep(change, "; ".join(effects), lines)
    for name, effect in without.items():
        yield _left_out(study, df, name, effect)


def _left_out(study: Study, df: pd.DataFrame, name: str, effect: str) -> NextStep:
    """A column that is not to be released as it is; the lines leave it out where it is listed."""
    change, kept = f"Leave {name} out of the file, or synthesise it", study.record_columns
    if study.release.files is not None:  # which have it
        return NextStep(change, effect)
    every = study.data.columns or [*map(str, df), *([] if kept is None else map(str, kept))]
    lines: dict[str, dict[str, Any]] = {"data": {"columns": [c for c in every if c != name]}}
    without = list[str]()
    for section, keys in study.model_dump(mode="json", exclude={"compare"}).items():
        for key, value in keys.items() if isinstance(keys, dict) else ():
            if isinstance(value, dict) and name in value:
                without.append(f"[{section}.{key}] {name}")
            elif isinstance(value, list) and name in value and key not in ("columns", "na"):
                lines.setdefault(section, {})[key] = [c for c in value if c != name]
    change += f"; remove {', '.join(without)}" * bool(without)
    return NextStep(change, effect, pasted(lines))


def _model(study: Study, df: pd.DataFrame, above: Collection[str]) -> Iterator[NextStep]:
    """Another model, or another setting of it."""
    kind, gained = study.model.kind, any(measure.startswith(GAINED) for measure in above)
    leaf = getattr(study.model, "min_leaf", None)
    if study.release.files is not None:  # which no key changes
        if study.m > 1 and gained:
            yield NextStep(
                "Release one of the files", f"Each of the {study.m} adds to the evidence"
            )
        return
    if kind in SHOW_VALUES and CERTAIN in above:
        numbers = {str(c): "held" for c in df if is_numeric(df[c].dtype)}
        effect = (
            f"{kind} releases original values: one that only the target can have is disclosed with "
            "certainty; latent classes (DPMPM) give every level a positive probability"
        )
        others = study.model.model_fields_set - {*KEYS["model.DPMPM"]}
        without = [f"[model] {key}" for key in type(study.model).model_fields if key in others]
        if numbers and study.identification is not None and study.identification.radius:
            without.append("[identification] radius")
        change = "Use latent classes" + f"; remove {', '.join(without)}" * bool(without)
        keys = {"model": {"kind": "DPMPM"}} | ({"data.levels": numbers} if numbers else {})
        yield NextStep(change, effect, pasted(keys))
    elif leaf is not None and gained:
        effect = f"A released value is drawn from at least {2 * leaf} records, now {leaf}"
        yield NextStep("Use larger leaves", effect, pasted({"model": {"min_leaf": 2 * leaf}}))
    if study.m > 1 and gained:
        effect = f"Each of the {study.m} files adds to the evidence"
        yield NextStep("Release one file", effect, pasted({"release": {"m": 1}}))


def _as_they_are(study: Study) -> dict[str, dict[str, Any]]:
    """Columns that the study makes coarser."""
    found = study.data.coarsen.items()
    keys = {name: section.model_dump(exclude_defaults=True) for name, section in found}
    return {
        name: {key: x if isinstance(x, list) else without_point(x) for key, x in how.items()}
        for name, how in keys.items()
    }


def _related(study: Study, df: pd.DataFrame, above: Collection[str]) -> Iterator[NextStep]:
    """The unchanged column that says most of a synthesised one, where a probability rose.

    By the mutual information beyond chance, as a share of the entropy beyond chance (Vinh, Epps &
    Bailey 2010): a column of nearly as many values as records explains little.
    """
    made = [c for c in study.release.columns or () if c in df]
    kept = [str(c) for c in df if c not in made]
    if not (made and kept) or not any(measure.startswith(GAINED) for measure in above):
        return
    some = df.iloc[:: -(-len(df) // LOOKED_AT)]
    cells = {str(c): _cells(some[c]) for c in some}
    found = {(one, other): _explained(cells[one], cells[other]) for one in made for other in kept}
    one, other = max(found, key=lambda pair: found[pair])
    effect = (
        f"{other} is the unchanged column that is most informative about a synthesised one: it "
        f"explains {percent(found[one, other])} of the entropy of {one}"
    )
    yield _left_out(study, df, other, effect)


def _explained(one: Ints, other: Ints) -> float:
    """How much of the entropy of one column another explains, beyond chance."""
    from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

    table = contingency_matrix(one, other, sparse=True).astype(np.int64)
    chance = expected_mutual_information(table, len(one))
    information = mutual_information(one * (int(other.max()) + 1) + other, table.shape)
    most = mutual_information(one * (int(one.max()) + 1) + one, (table.shape[0],) * 2) - chance
    return (information - chance) / most if most > SMALLEST else 0.0


def _cells(column: pd.Series) -> Ints:
    """Levels by number; numbers of many values in bands of equally many records."""
    if is_numeric(column.dtype) and column.nunique() > BANDS:
        ranks = column.astype(float).rank()  # those that are infinite too
        column = pd.qcut(ranks, BANDS, duplicates="drop", labels=False)
    return np.asarray(pd.factorize(column, use_na_sentinel=False)[0], dtype=np.int64)


def _keys(study: Study, above: Collection[str]) -> list[str]:
    """Keys that are released unchanged, where too many records are matched."""
    if not {MATCHES, MATCHED_GROUPS} & {*above} or study.identification is None:
        return []
    made = {*(study.identification.synthesized or ()), *(study.release.columns or ())}
    return [c for c in study.identification.known if c not in made]


def _codes(study: Study, name: str) -> list[float]:
    """Codes of missing numbers, which stay as they are."""
    codes = getattr(study.model, "missing_numbers", None) or {}
    return [codes[name]] if name in codes else []


# --- records at highest risk ---------------------------------------------------------------------


def at_risk(
    risk: AttributeRisk | None, df: pd.DataFrame, release: Release | None, verdict: Verdict
) -> tuple[str, ...]:
    """The records of which the event that decided rises most, and why, in words; no values.

    None where the verdict is within, or no attribute was audited.
    """
    if risk is None or release is None or verdict.outcome == RISK[-1] or not df.index.is_unique:
        return ()
    reason = next((r for r in verdict.reasons if r.worst), None)
    if reason is None:
        return ()
    found, certain = list[str](), risk.certain()
    together = "all true values together" if len(risk.variables) > 1 else "the true value"
    for label, what, before, after, error in reason.worst:
        ends = f"{number(before)} to {number(after)}{beside_share(error, after) if error else ''}"
        found.append(
            f"Record {label}: the probability of {together if what == ALL else what} rises from "
            f"{ends} ({reason.prior or 'flat'} prior){_why(certain.loc[label], df, release, label)}"
        )
    return tuple(found)


def _why(certain: pd.Series, df: pd.DataFrame, release: Release, label: Any) -> str:
    """What is certain of a record, and which of its values no other record has."""
    alone, parts = list[str](), list[str]()
    for name in map(str, release.synthesized):
        true: Any = df.at[label, name]
        if not pd.isna(true) and int((df[name] == true).sum()) == 1:
            files = [l for l, z in enumerate(release.datasets, 1) if (z[name] == true).any()]
            again = f" and appears in {counted(len(files), 'file')}" if files else ""
            parts.append(f"its value of {name} occurs once in the original{again}")
        elif name in certain.index and certain[name]:
            alone.append(name)
    if alone:
        parts.append(f"the release leaves only its true value of {' and of '.join(alone)} possible")
    return f"; {'; '.join(parts)}" if parts else ""
