"""How results of households read: their measures beside those of the persons in them."""

from bayes_risk._core.formats import counted, in_brackets, number, percent
from bayes_risk.data.base_result import Table, for_file, measure_table
from bayes_risk.data.measures import HOUSEHOLDS
from bayes_risk.matching.households import HouseholdMatching
from bayes_risk.risk.households import EVENTS, HouseholdRisk

from .faces import line, sentence, tables


def _expected(found: HouseholdMatching | HouseholdRisk, name: str) -> tuple[str, str]:
    """An expected number of households, with its error, and without the release."""
    value, mcse, without = map(float, found.summary().loc[name])
    known = f"; without the release {number(without, 1)}" if without == without else ""
    return f"{number(value, 1)}{in_brackets(mcse, digits=1)}", known


@line.register
@sentence.register
def _(found: HouseholdMatching) -> str:
    """Say the result in plain words."""
    rows, of, k = found.summary()["value"], found.matching, found.known_members
    who = "all members" if k is None else counted(k, "member")
    expected, without = _expected(found, "households_expected")
    return (
        f"An intruder who knows {', '.join((*of.known, *of.synthesized))} of {who} is expected to "
        f"match {expected} of {counted(len(found.members), 'household')} in {of.searched()}"
        f"{without}. A unique and correct match: "
        f"{percent(rows['households_true'])}. Alone with these keys in the original: "
        f"{counted(int(rows['households_alone']), 'household')}."
    )


@line.register
@sentence.register
def _(risk: HouseholdRisk) -> str:
    """Say the result in plain words."""
    expected, without = _expected(risk, "households_at_risk")
    left = f" Left out, with members not audited: {counted(risk.left_out, 'household')}."
    return (
        f"Expected number of households, of {len(risk.index):,}, in which {EVENTS[risk.kind][1]}: "
        f"{expected}{without}. The largest probability is "
        f"{number(risk.probability.max())}.{left * bool(risk.left_out)}"
    )


@tables.register(HouseholdMatching)
@tables.register(HouseholdRisk)
def _(found: HouseholdMatching | HouseholdRisk) -> dict[str, Table]:
    """Measures; households for a file alone."""
    kind, caption = "matching", "1 - product of (1 - risk of a member)."
    if isinstance(found, HouseholdRisk):
        kind = found.kind
    else:
        of = ", ".join(found.variables)
        caption = f"Of the household: {of}; all other keys are of members." if of else ""
    shown = measure_table(found.summary(), HOUSEHOLDS, caption=caption)
    return {"measures": shown, "records": for_file(found.records, f"households-{kind}")}
