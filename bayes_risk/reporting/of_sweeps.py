"""Sensitivity, sweeps of matching and comparisons of candidates as sections of the report."""

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayes_risk._core.formats import NONE, error, number, percent, percent_error, plain

from . import plots
from .figures import Picture, picture
from .swept import base_sentence, doubt, name_of, said, worst_sentence
from .tables import Section, Table

if TYPE_CHECKING:
    from bayes_risk.matching.sweep import IdentificationSweep
    from bayes_risk.studies.comparing.result import Comparison
    from bayes_risk.studies.sweeping.result import Sensitivity

CURVES = 4
ROWS = 20


def of_sensitivity(found: "Sensitivity") -> Section:
    """How far each factor moves the risk, and the pictures along the widest."""
    moved = [str(name) for name in found.tornado().index]
    along = [name for name in moved if found.dataset.sizes[name] > 1][:CURVES]
    told = [base_sentence(found), worst_sentence(found), doubt(found)]
    return Section(
        name="sensitivity",
        short="Sensitivity",
        title="Sensitivity: how far the risk depends on what is believed, known and released",
        sentence=" ".join(part for part in told if part),
        tables=[_tornado(found)],
        figures=[_tornado_picture(found), *(_along(found, name) for name in along)],
    )


def _tornado(found: "Sensitivity") -> Table:
    rows = [
        (
            name_of(str(name)),
            *_end(found, str(name), row, "low"),
            *_end(found, str(name), row, "high"),
            error(float(row["mcse"]), float(row["low"])),
        )
        for name, row in found.tornado().iterrows()
    ]
    heads = ("Factor", "Lowest", "At", "Highest", "At", "Error (2 s.e.)")
    caption = (
        "Probability of the truth, mean over records, in brackets the same without the release; "
        "one factor at a time, widest first."
    )
    return Table(caption=caption, heads=heads, rows=rows)


def _end(found: "Sensitivity", name: str, row: "pd.Series[Any]", side: str) -> tuple[str, str]:
    """The lowest or highest risk along a factor, beside what holds without the release; where."""
    at = row[f"at_{side}"]
    without = float(found.along(name)["baseline"].sel({name: at}))
    return f"{number(float(row[side]))} ({number(without)})", said(name, at)


def _tornado_picture(found: "Sensitivity") -> Picture:
    caption = (
        "How far each factor by itself moves the mean probability of the truth from the base "
        "setting. The grey band is two standard errors of the base."
    )
    height = 1.4 + 0.5 * len(found.factors)
    return picture("tornado", plots.plot_tornado, found, caption, height=height)


def _along(found: "Sensitivity", factor: str) -> Picture:
    caption = (
        f"Mean probability of the truth along {name_of(factor)}, all else as in the base setting; "
        "the difference from what holds without the release is attributable to the release."
    )
    name = "along-" + "".join(c if c.isalnum() else "-" for c in factor)
    numbers = found.dataset[factor].dtype.kind in "iuf"
    height = 2.9 if numbers else 1.3 + 0.34 * found.dataset.sizes[factor]
    return picture(name, partial(plots.plot_factor, factor=factor), found, caption, height=height)


def of_identification_sweep(found: "IdentificationSweep") -> Section:
    """Expected matches over radii, keys, or whatever was swept."""
    worst = found.worst()
    at = "; ".join(f"{_swept(name)}: {_setting(worst[name])}" for name in found.swept)
    told = (
        f"The expected number of correct matches is largest, "
        f"{number(worst['expected_match_risk'], 1)} "
        f"({number(worst['baseline'], 1)} without the release), at {at}."
    )
    return Section(
        name="identification-sweep",
        short="Matching varied",
        title="Matching varied: how far it depends on radii and keys",
        sentence=told,
        tables=[_settings(found)],
        figures=_matches(found),
    )


def _settings(found: "IdentificationSweep") -> Table:
    table = found.summary()
    rows = [
        (
            ", ".join(map(_setting, label)) if isinstance(label, tuple) else _setting(label),
            number(float(row["expected_match_risk"]), 1),
            error(float(row["mcse"]), digits=1),
            number(float(row["baseline"]), 1),
            percent(float(row["true_match_rate"])),
            percent(float(row["false_match_rate"])),
        )
        for label, row in table.head(ROWS).iterrows()
    ]
    heads = (
        *(
            ", ".join(map(_swept, found.swept)),
            "Expected matches",
            "Error (2 s.e.)",
            "Without the release",
        ),
        *("True match rate", "False match rate"),
    )
    more = f"; the first {ROWS} of {len(table):,} settings" if len(table) > ROWS else ""
    n = int(found.dataset["n"].max())
    caption = f"Releases pooled, {n:,} records{more}."
    return Table(caption=caption, heads=heads, rows=rows)


SWEPT = {
    "fallback": "When nothing matches, chooses among the rest",
    "known": "Unsynthesised keys",
    "synthesized": "Synthesised keys",
    "m": "Data sets released (m)",
    "strategy": "Claims a match",
}


def _swept(name: str) -> str:
    """What was varied, in words."""
    text = SWEPT.get(name, name)
    return text[0].upper() + text[1:]


def _setting(value: Any) -> str:
    """A setting in words: yes and no, numbers to four digits."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return plain(value) if isinstance(value, float) else str(value)


def _matches(found: "IdentificationSweep") -> list[Picture]:
    """A picture, where one or two settings were swept."""
    caption = (
        "Expected number of correct matches at each setting, two standard errors, and the same "
        "for an intruder without the release."
    )
    sizes = sorted(found.dataset.sizes[name] for name in found.swept)
    if len(sizes) > 2 or (len(sizes) == 2 and sizes[0] > len(plots.STYLES)):
        return []
    return [picture("matching-varied", plots.plot_sweep, found, caption, height=3.2)]


def of_comparison(
    found: "Comparison", axes: tuple[str, str] | tuple[()] = (), **drawn: Any
) -> Section:
    """The risk-utility map, and who is on the front.

    Parameters
    ----------
    found : Comparison
    axes : (risk, utility), optional
        Measures of the map; by default the usual.
    **drawn
        To ``found.plot``.

    Returns
    -------
    Section
    """
    return Section(
        name="comparison",
        short="Candidates",
        title="Candidates: risk and utility side by side",
        sentence=found.sentence(*axes),
        tables=_front(found, {*SHOWN, *axes}),
        figures=_map(found, partial(_drawn, axes=axes, **drawn)),
    )


def _front(found: "Comparison", shown: Collection[str]) -> list[Table]:
    from bayes_risk.studies.comparing.words import MEASURES

    table = found.summary()
    rows = [
        (
            f"{candidate}: {MEASURES[measure].words if measure in MEASURES else measure}",
            *_measured(measure, row),
        )
        for (candidate, measure), (_, row) in zip(table.index, table.iterrows(), strict=True)
        if measure in shown
    ]
    heads = ("Candidate and measure", "Mean", "Error (2 s.e.)", "To read against")
    most = max(found.replicates_of)
    caption = (
        f"Means over {most} replicate{'s' if most > 1 else ''} (fits and releases with other "
        "seeds). Risks are to be read against the same without the release, utility against a "
        "release drawn from the truth."
    )
    return [Table(caption=caption, heads=heads, rows=rows)]


SHOWN = (
    *("mean_probability", "max_probability", "expected_match_risk", "true_match_rate"),
    *("ratio_cart", "pmse_cart", "pairs_worst_ratio", "interval_overlap"),
)


def _measured(measure: str, row: "pd.Series[Any]") -> tuple[str, str, str]:
    """Mean, error, and what to read it against; rates as per cent."""
    mean, mcse = float(row["mean"]), float(row["mcse"])
    against = float(_first(row["baseline"], row["null"]))
    if not measure.endswith("_rate"):
        return number(mean), error(mcse, mean), number(against)
    return percent(mean), percent_error(mcse), percent(against)


def _first(a: Any, b: Any) -> Any:
    return b if pd.isna(a) else a


def _map(found: "Comparison", drawn: Callable[..., Any]) -> list[Picture]:
    """The map, where risk and utility were both measured."""
    from bayes_risk.studies.comparing.words import RISKS, UTILITIES

    if not (set(found.measures) & set(RISKS) and set(found.measures) & set(UTILITIES)):
        return []
    caption = (
        "Each candidate's risk and utility over its replicates. A line, if there is one, joins "
        "those that no other beats in both."
    )
    return [picture("risk-utility", drawn, found, caption, height=4.2)]


def _drawn(found: "Comparison", ax: Any, axes: tuple[str, ...], **drawn: Any) -> Any:
    return found.plot(*axes, ax=ax, **drawn)


def of_anything(found: Any) -> Section:
    """A result that has ``sentence()`` and ``summary()``: all its numbers."""
    table = found.summary()
    rows = [
        (str(label), *(_cell(value) for value in row))
        for label, row in zip(table.index, table.to_numpy(dtype=object), strict=True)
    ]
    name = type(found).__name__
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip().capitalize()
    heads = ("", *(str(c).replace("_", " ") for c in table.columns))
    return Section(
        name=words.lower().replace(" ", "-"),
        short=words,
        title=words,
        sentence=found.sentence(),
        tables=[Table(caption=f"{words}: file level.", heads=heads, rows=rows)],
    )


def _cell(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, int) and not isinstance(value, bool):
        return number(value)
    return number(float(value)) if isinstance(value, int | float) else str(value)
