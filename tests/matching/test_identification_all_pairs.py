"""Every option of identification risk, in every mix, against the definition."""

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bayes_risk._core.errors import InputError
from bayes_risk.matching.question import MatchingOptions
from bayes_risk.matching.radii import SD, Absolute, Quantile, Relative
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.risk import matched
from tests.oracles.all_pairs import Rules, Task

KNOWN = {"k": "text", "a": "number"}
SYNTHESIZED = {"s": "text", "v": "number", "w": "number"}
VALUES = {
    "text": st.sampled_from(["p", "p", "q", None]),
    # -11 is no code that means missing, which would be equal to None
    "number": st.sampled_from([0, 0, 3, 4, 4, 5, 6, 8, 10, -11, None]),
}
RADII = [
    *(Relative(0), Relative(0.5), Relative(0.25), Relative(3.0)),
    *(Absolute(0), Absolute(1), Absolute(5), Absolute(5)),
    *(SD(1), SD(0.5, groups=2), Quantile(0), Quantile(0.25), Quantile(0.5)),
]
COUNTS = st.sampled_from([1, 2, 3, 4, 6, 12, 0.5, 2.5, 7.5, 1.37, 1e6, 1e20])


def rows_of(draw: st.DrawFn, kinds: dict[str, str], n: int) -> list[dict[str, Any]]:
    return [{name: draw(VALUES[kind]) for name, kind in kinds.items()} for _ in range(n)]


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Task, dict[str, Any]]:
    """A task, and the same as arguments of `identification_risk`."""
    n, m = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    keys = draw(st.lists(st.sampled_from([*KNOWN, *SYNTHESIZED]), min_size=1, unique=True))
    kinds = KNOWN | SYNTHESIZED
    original = rows_of(draw, kinds, n)
    releases = [
        [z | {name: row[name] for name in KNOWN} for z, row in zip(table, original, strict=True)]
        for table in (rows_of(draw, SYNTHESIZED, n) for _ in range(m))
    ]
    kept = draw(st.lists(st.booleans(), min_size=n, max_size=n))  # many values stay
    for table in releases:
        for j in np.flatnonzero(kept):
            table[j] |= {name: original[j][name] for name in draw(st.sets(st.sampled_from("svw")))}
    radius = {
        name: draw(st.sampled_from(RADII))
        for name in keys
        if kinds[name] == "number" and draw(st.booleans())
    }
    assume(all(any(row[name] is not None for row in original) for name in radius))
    values = [name for name in keys if name in SYNTHESIZED]  # a file without any is refused
    assume(all(any(row[name] is not None for row in t for name in values) for t in releases))
    missing = {
        name: draw(st.sampled_from(["level", "level", "wildcard", "never"])) for name in keys
    }
    closed = draw(st.booleans()) if radius else True  # choices that change nothing are refused
    rules = Rules(original, radius, missing, closed, len(radius) > 1 and draw(st.booleans()))
    targets, given_targets = draw(whom(original, kinds))
    person, whose = draw(persons(n, targets)) if draw(st.booleans()) else (None, ())
    several = person is not None and len(set(person)) < n  # population counts people
    population = None if several else draw(st.none() | counts(keys, [t for _, t in targets], m))
    chosen = ["always", "always", "likeliest", 0.25, 0.3, 0.5, 0.9, 1.0]
    strategy: Any = "always" if population is None else draw(st.sampled_from(chosen))
    task = Task(
        rules=rules,
        releases=releases,
        targets=targets,
        known=[name for name in keys if name in KNOWN],
        synthesized=[name for name in keys if name in SYNTHESIZED],
        population=population,
        strategy=strategy,
        fallback=draw(st.booleans()),
        person=person,
        whose=whose,
    )
    people = {"pid": whose} if isinstance(given_targets, pd.DataFrame) and person else {}
    given: Any = population
    if population is not None and all(row == population[0] for row in population):
        given = np.array(population[0])
    return task, {
        "original": table_of(original).assign(**({"pid": person} if person else {})),
        "person": "pid" if person else None,
        "releases": [table_of(table) for table in releases],
        "known": task.known,
        "synthesized": task.synthesized,
        "targets": given_targets.assign(**people) if people else given_targets,
        "population": given,
        "strategy": strategy,
        "radius": radius,
        "shape": "ellipse" if rules.round else "box",
        "closed": rules.closed,
        "missing": missing,
        "fallback": task.fallback,
    }


@st.composite
def whom(draw: st.DrawFn, original: list[dict[str, Any]], kinds: dict[str, str]) -> Any:
    """Everybody; some, by mask or label; or a table of people, wrongly known or outside."""
    n = len(original)
    everybody = list(enumerate(original))
    chosen = draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1, max_size=n))
    how = draw(st.sampled_from(["all", "mask", "labels", "table"]))
    if how == "all":
        return everybody, None
    if how == "mask":
        chosen = sorted(chosen)
        return [everybody[i] for i in chosen], np.isin(np.arange(n), chosen)
    if how == "labels":
        return [everybody[i] for i in chosen], [10 * i for i in chosen]
    people = rows_of(draw, kinds, draw(st.integers(1, 4)))
    places: list[int | None] = [None] * len(people)
    for k in range(min(len(chosen), len(people))):
        if draw(st.booleans()):
            places[k] = chosen[k]
            people[k] = original[chosen[k]] if draw(st.booleans()) else people[k]
    labels = [-1 - k if place is None else 10 * place for k, place in enumerate(places)]
    return list(zip(places, people, strict=True)), table_of(people).set_axis(labels)


@st.composite
def persons(draw: st.DrawFn, n: int, targets: list[Any]) -> tuple[list[int], list[int]]:
    """Persons of records, and of targets: of their record, or anybody's, perhaps nobody's."""
    person = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    whose = [draw(st.integers(0, 6)) if at is None else person[at] for at, _ in targets]
    return person, whose


@st.composite
def counts(draw: st.DrawFn, keys: list[str], people: list[Any], m: int) -> list[list[float]]:
    """Counts by key, of one population or of one a release."""
    known: dict[Any, float] = {}
    by_release = draw(st.booleans())
    for l in range(m):
        for person in people:
            key = (l * by_release, *(person[name] for name in keys))
            known[key] = known[key] if key in known else draw(COUNTS)
    return [
        [known[l * by_release, *(person[name] for name in keys)] for person in people]
        for l in range(m)
    ]


def table_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns = {
        name: pd.Series(
            [row[name] for row in rows],
            dtype=object if kind == "text" else float,
            index=10 * np.arange(len(rows)),
        )
        for name, kind in (KNOWN | SYNTHESIZED).items()
        if rows and name in rows[0]
    }
    return pd.DataFrame(columns)


@settings(max_examples=60)
@given(tasks())
def test_options_agree_with_all_pairs(both: tuple[Task, dict[str, Any]]) -> None:
    agrees(*both)


@pytest.mark.slow
@settings(max_examples=400)
@given(tasks())
def test_every_option_agrees_with_all_pairs(both: tuple[Task, dict[str, Any]]) -> None:
    agrees(*both)


def agrees(task: Task, given: dict[str, Any]) -> None:
    arguments = dict(given)
    try:
        original, releases = arguments.pop("original"), arguments.pop("releases")
        risk = matched(original, releases, MatchingOptions(**arguments))[0]
    except InputError as error:
        assume("a group of fewer than two" not in str(error))  # refused: no standard deviation
        raise
    assert isinstance(risk, IdentificationRisk)
    people, m = range(len(task.targets)), len(task.releases)
    each = [[task.each(l, i) for l in range(m)] for i in people]
    pooled = [task.pooled(i) for i in people]
    for name in ("c", "T", "K", "F", "no_match"):
        assert getattr(risk, name).tolist() == [[getattr(x, name) for x in row] for row in each]
        assert getattr(risk, f"pooled_{name}").tolist() == [getattr(x, name) for x in pooled]
    expected = sum((x.risk for x in pooled), Fraction(0))
    assert risk.summary()["expected_match_risk"]["pooled"] == pytest.approx(float(expected))
    outside = [[float(x.outside) for x in row] for row in each]
    assert risk.outside == pytest.approx(np.array(outside), abs=1e-14)
    assert risk.pooled_outside == pytest.approx([float(x.outside) for x in pooled], abs=1e-14)
    assert risk.baseline == pytest.approx([task.baseline(i) for i in people])
    assert risk.in_file.tolist() == [task.own(i) in task.persons() for i in people]
    assert risk.pooled_mcse == pytest.approx(task.pooled_mcse(), nan_ok=True, abs=1e-12)
    assert risk.records["probability"].tolist() == [float(x.risk) for x in pooled]
