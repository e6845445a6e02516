"""The check of an assumed synthesis model: a section of the report, and a line for the screen."""

from typing import TYPE_CHECKING, Any

from bayes_risk._core.formats import number

from .tables import Section, Table

if TYPE_CHECKING:
    from bayes_risk.evidence.mechanism_result import MechanismCheck

HEADS = ("Column", "p", "Differs most in", "By standard deviations", "Values it cannot make")


def of_mechanism(found: "MechanismCheck") -> Section:
    """By column: p-value, the measure that differs most, values that the model cannot make."""
    rows = [
        (
            str(name or "All columns jointly"),
            number(row["p_value"]),
            str(row["measure"]),
            number(row["difference"], 1),
            number(row["impossible"]),
        )
        for name, row in found.table.to_dict("index").items()
    ]
    files = "1 released file" if found.m == 1 else f"{found.m} released files"
    return Section(
        name="mechanism",
        short="Assumed model",
        title="Whether the assumed model made the files",
        sentence=found.sentence(),
        tables=[
            Table(
                caption=f"{files} among {found.n_simulated} simulated from the model.",
                heads=HEADS,
                rows=rows,
            )
        ],
        note=(
            "p: how often files that the model made differ as much in any of "
            f"{len(found.measures)} measures; below 0.05 the model is rejected. The check can "
            "reject a model, never confirm it."
        ),
    )


def mechanism_summary(found: "MechanismCheck") -> dict[str, Any]:
    """Sentence, p-value, outcome, and the columns, for JSON."""
    return {
        "sentence": found.sentence(),
        "p_value": found.p_value,
        "failed": found.failed,
        "n_simulated": found.n_simulated,
        "columns": found.table.rename(index={"": "(all)"}),
    }
