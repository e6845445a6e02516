"""How results of households read: their measures beside those of the persons in them."""

from bayes_risk._core.formats import counted, in_brackets, number, percent
from bayes_risk.data.base_result import Table, for_file, measures
from bayes_risk.data.measures import HOUSEHOLDS
from bayes_risk.matching.households import HouseholdMatching
from bayes_risk.risk.households import EVENTS, HouseholdRisk

from .faces import screen, sentence, tables

SCREEN = ("households_expected", "households_true", "households_at_risk", "persons_at_risk")


def _expected(found: HouseholdMatching | HouseholdRisk, name: str) -> tuple[str, str]:
    """An expected number of households, with its error, and without the release."""
    value, mcse, without = map(float, found.summary().loc[name])
    known = f"; without the release {number(without, 1)}" if without == without else ""
    return f"{number(value, 1)}{in_brackets(mcse, digits=1)}", known


@sentence.register
def _(found: HouseholdMatching) -> str:
    """Say the result in plain words."""
    rows, of, k = found.summary()["value"], found.matching, found.known_members
    who = "all members" if k is None else counted(k, "member")
    n, (expected, without) = counted(len(found.members), "household"), _expected(found, SCREEN[0])
    return (
        f"An intruder who knows {', '.join((*of.known, *of.synthesized))} of {who} is expected to "
        f"match {expected} of {n} in {of.searched()}{without}. A unique and correct match: "
        f"{percent(rows['households_true'])}. Alone with these keys in the original: "
        f"{counted(int(rows['households_alone']), 'household')}."
    )


@sentence.register
def _(risk: HouseholdRisk) -> str:
    """Say the result in plain words."""
    (expected, without), largest = _expected(risk, SCREEN[2]), number(risk.probability.max())
    left = f" Left out, with members not audited: {counted(risk.left_out, 'household')}."
    return (
        f"Of {counted(len(risk.index), 'household')}, {expected} are expected of which "
        f"{EVENTS[risk.kind][1]}{without}. The largest probability is {largest}."
        f"{left * bool(risk.left_out)}"
    )


@tables.register(HouseholdMatching)
@tables.register(HouseholdRisk)
def _(found: HouseholdMatching | HouseholdRisk) -> dict[str, Table]:
    """Measures; households for a file alone."""
    kind = "matching" if isinstance(found, HouseholdMatching) else found.kind
    shown = measures(found.summary(), HOUSEHOLDS, caption=found.sentence())
    return {"measures": shown, "records": for_file(found.records, f"households-{kind}")}


@screen.register(HouseholdMatching)
@screen.register(HouseholdRisk)
def _(found: HouseholdMatching | HouseholdRisk) -> Table:
    rows = found.summary()
    return measures(rows.loc[rows.index.isin(SCREEN)], HOUSEHOLDS, head="Households")
