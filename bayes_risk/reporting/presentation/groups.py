"""How risk by group reads: the worst group, and a table of those whose risk rises most."""

from typing import Any

from bayes_risk._core.formats import NONE, begun, counted, in_brackets, number, percent, signed
from bayes_risk.data.base_result import Table, span, spread, value
from bayes_risk.data.groups import LEAST, GroupRisk

from .faces import line, sentence, tables

SHOWN = 6  # groups of a table on the page; its file has all


@sentence.register
def _(found: GroupRisk) -> str:
    one, few = found.worst, len(found.table) - found.n_judged
    fewer = f"{counted(few, 'group')} with fewer than {LEAST} records: not judged."
    if one is None:
        return f"Risk by group: {fewer}"
    error = in_brackets(one["mcse"], one["probability"], share=True)
    text = (
        f"The risk rises most in the group {_name(one.name)} ({int(one['records']):,} records): "
        f"mean probability of {found.event} {number(one['probability'])}{error}, without the "
        f"release {number(one['prior'])}; rise {signed(one['rise'])}"
    )
    if one["low"] < one["high"]:
        text += f" (95 % for all {counted(found.n_judged, 'group')} at once: "
        text += f"{number(one['low'])} to {number(one['high'])})"
    drawn = " Only the records judged are described: they were not drawn at random."
    drawn *= found.audited < 1 and not found.at_random
    return f"{text}.{drawn}{f' {fewer}' * bool(few)}"


def _name(key: Any) -> str:
    column, group = key
    return f"{column} = {group}"


@line.register
def _(found: GroupRisk) -> str:
    one = found.worst
    if one is None:
        return ""
    error = in_brackets(one["mcse"], one["probability"], share=True)
    return (
        f"Worst group by {found.event}: {_name(one.name)} ({int(one['records']):,} records), mean "
        f"{number(one['probability'])}{error}, without the release {number(one['prior'])}"
    )


@tables.register
def _(found: GroupRisk) -> dict[str, Table]:
    table = shown_groups(found, "groups")
    return {} if table is None else {"groups": table}


def shown_groups(found: GroupRisk | None, file: str, under: str = "") -> Table | None:
    """The groups whose risk rises most; all of them in a file. None: no groups."""
    if found is None:
        return None
    rows, many = found.summary(), len(found.table)
    under = f" Numbers are{under.replace(',', '')}." * bool(under)
    only = f" The {SHOWN} of {many:,} whose risk rises most; {file}.csv has all." * (many > SHOWN)
    columns = [
        ("Records", lambda row: number(int(row["records"]))),
        ("Mean probability", value("probability")),
        ("Error (2 s.e.)", spread("mcse", "probability", share=True)),
        ("Without the release", value("prior")),
        ("Rise, 95 % for all groups at once", _rise),
        (begun(found.counted), value("share", percent)),
    ]
    if rows["share_without"].notna().any():
        columns.append(("The same without the release", value("share_without", percent)))
    return Table(
        title="Risk by group",
        caption=f"{found.sentence()}{under}{only}",
        frame=found.table,
        labels={key: _name(key) for key in rows.index[:SHOWN]},
        head="Group",
        columns=columns,
        file=file,
    )


def _rise(row: Any) -> str:
    low, high = row["low"], row["high"]
    text = signed(row["rise"]) + (f" ({span('low', 'high')(row)})" if low < high else "")
    return text if row["judged"] else f"{text}; not judged" if row["records"] > 1 else NONE
