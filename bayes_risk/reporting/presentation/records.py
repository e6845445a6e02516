"""How results with numbers of each record read: membership, privacy loss, wide searches."""

from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.formats import NONE, counted, factor, in_brackets, number, plus_minus
from bayes_risk.data.base_result import OfRecords, Table, for_file, measure_table, of_summary
from bayes_risk.data.measures import FULL_TABLE, MEMBERSHIP, PRIVACY_LOSS, Measures
from bayes_risk.risk.full_table.likeliest import Likeliest
from bayes_risk.risk.full_table.risk import FullTableRisk
from bayes_risk.risk.membership.audit import Membership
from bayes_risk.risk.privacy_loss import PrivacyLoss

from .faces import line, sentence, tables


class Read(NamedTuple):
    """What is shown of a kind of result: measures, those in its line, caption, file of records."""

    measures: Measures
    in_line: tuple[str, ...]
    caption: str
    file: str


READ = {
    Membership: Read(
        MEMBERSHIP,
        ("auc", "max_log_bayes_factor"),
        "Members and non-members examined.",
        "membership",
    ),
    PrivacyLoss: Read(
        PRIVACY_LOSS,
        ("median_privacy_loss", "max_among_possible", "with_guesses_ruled_out"),
        "The audited records.",
        "privacy_loss",
    ),
    FullTableRisk: Read(
        FULL_TABLE,
        ("share_ranked_first", "median_rank"),
        "The audited records, among all values of the unknown columns.",
        "full_table",
    ),
}


@tables.register
def _(found: OfRecords) -> dict[str, Table]:
    """Measures; the records."""
    of = READ[type(found)]
    rows = measure_table(found.summary(), of.measures, caption=of.caption)
    return {"measures": rows, "records": for_file(found.records, of.file)}


@tables.register
def _(found: Likeliest) -> dict[str, Table]:
    return {"summary": of_summary(found), "records": for_file(found.records, "likeliest")}


@line.register(Membership)
@line.register(PrivacyLoss)
@line.register(FullTableRisk)
def _(found: OfRecords) -> str:
    """The measures that say most, and how many records are marked unreliable."""
    of, parts = READ[type(found)], []
    table = measure_table(found.summary(), {name: of.measures[name] for name in of.in_line})
    for name, (_, value, errors, without) in zip(table.frame.index, table.rows, strict=True):
        beside = [errors] * (errors not in ("0", NONE))
        beside += [f"{without} without the release"] * (without != NONE)
        brackets = f" ({', '.join(beside)})" * bool(beside)
        parts.append(f"{of.measures[name].words}: {value}{brackets}")
    reliable: Any = found.records["reliable"]
    bad = len(reliable) - int(sum(reliable))
    return "; ".join(parts) + f"; {bad:,} of {len(reliable):,} records unreliable" * bool(bad)


@sentence.register
def _(found: Membership) -> str:
    bad, text = int((~found.reliable).sum()), ""
    if "the household that" in found.assumptions["question"]:
        text = "Members and non-members are households. "
    if found.has_others:
        auc = 100 * found.measures[0]
        error = np.hypot(found.standard_error[0], found.mcse_of_measures[0])
        text += (
            "Of a member and a non-member, the release points to the member "
            f"{number(auc, 1)} times in 100 ({plus_minus(100 * error, digits=1)}; 50 without "
            "the release). At a false positive rate of 5 %, the intruder finds "
            f"{number(100 * found.measures[2], 1)} of 100 members (5 without the release). "
        )
    with np.errstate(over="ignore"):
        top = factor(float(np.exp(found.log_bayes_factor[found.member].max())))
    marked = f" {bad:,} of these numbers are marked unreliable." * bool(bad)
    return (
        f"{found.assumptions['records']} {text}A member's odds of being in the data change by "
        f"at most the factor {top}.{marked}"
    )


@sentence.register
def _(found: PrivacyLoss) -> str:
    table = found.records
    top = table.iloc[int(np.argmax(table["privacy_loss"]))]
    if ruled := int((table["ruled_out"] > 0).sum()):
        moved = (
            f"For {ruled:,} of {len(table):,} records this release excludes guesses with "
            f"certainty, so their privacy loss is infinite; among the other guesses, odds "
            f"change by at most the factor {factor(np.exp(table['among_possible'].max()))}."
        )
    else:
        error = in_brackets(top["mcse"], top["privacy_loss"])
        median = found.summary()["value"]["median_privacy_loss"]
        moved = (
            "This release changes the odds between two guesses for a record by at most the "
            f"factor {factor(top['odds_factor'])}: a largest privacy loss of "
            f"{number(top['privacy_loss'])}{error}, and {number(median)} for the median record (0 "
            "without the release)."
        )
    bad = int((~table["reliable"]).sum())
    return (
        f"{found.assumptions['records']} {moved} This holds for this release, these data "
        f"and these guesses; it is not a guarantee of differential privacy."
        + f" {bad:,} records are marked unreliable."
        * bool(bad)
    )


@sentence.register
def _(risk: FullTableRisk) -> str:
    table = risk.records
    worst = table.iloc[int(np.argmax(table["probability"]))]
    error = in_brackets(worst["mcse"], worst["probability"], share=True)
    doubt = counted(int((~table["reliable"]).sum()), "record")
    return (
        f"{risk.assumptions['records']} Among all {int(risk.n_values.max()):,} values of "
        f"{len(risk.variables)} columns the truth has rank {table['rank'].median():,.0f} in "
        f"the median of {len(table):,} records ({table['prior_rank'].median():,.0f} without "
        f"the release) and ranks first for {int((table['rank'] < 1.5).sum()):,}; the intruder "
        f"gives it {number(worst['probability'])}{error} in the worst case "
        f"({number(worst['prior'])} without the release). Unreliable: {doubt}."
    )


@sentence.register
def _(found: Likeliest) -> str:
    table = found.records
    certain = int(table["found"].sum())
    at_most, seen = "at most ", ""
    if found.exact:
        unseen = number(table["unseen"].mean())
        at_most, seen = "", f" All other values that were not found have {unseen} on average."
    return (
        f"{found.assumptions['records']} Among {found.n_values:,} values of "
        f"{len(found.variables)} columns the rank of the truth is certain for {certain:,} of "
        f"{len(table):,} records; the intruder assigns the truth {at_most}"
        f"{number(table['probability'].max())} in the worst case.{seen}"
    )
