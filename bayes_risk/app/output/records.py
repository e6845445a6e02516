"""The table of records: both risks of each, and no confidential value."""

from typing import TYPE_CHECKING

import pandas as pd

from bayes_risk.data.variables import Number
from bayes_risk.matching.exposure_result import exposure_of
from bayes_risk.reporting.verdicts.reasons import known_for_certain

if TYPE_CHECKING:
    from bayes_risk.matching.result import IdentificationRisk
    from bayes_risk.risk.result import AttributeRisk


def records_table(
    attribute: "AttributeRisk | None", identification: "IdentificationRisk | None"
) -> pd.DataFrame:
    """Both risks of each record side by side; no confidential value.

    Columns: those of ``AttributeRisk.records`` with ``attribute_`` in front, ``attribute_certain``
    (variables of which no other value is possible), those of `closeness_columns`, then those of
    ``IdentificationRisk.records`` with ``identification_`` in front; last ``identical_files``,
    ``identical_any_row_files`` and ``replicated_files`` of `Exposure.records`. Records that were no
    target of the attribute audit have empty fields there.
    """
    tables = []
    if identification is not None:
        tables.append(identification.records.add_prefix("identification_"))
    if attribute is not None:
        named = attribute.records.assign(certain=known_for_certain(attribute))
        both = pd.concat([named, closeness_columns(attribute)], axis=1)
        tables.append(both.add_prefix("attribute_"))
    # identification has all records, in their order; attribute columns come first all the same
    joined = tables[0] if len(tables) == 1 else tables[0].join(tables[1], how="left")
    shown = exposure_of(identification, attribute)
    if shown is not None:
        joined = joined.join(shown.records, how="left")
    joined.index.name = joined.index.name or "record"
    return joined[sorted(joined.columns, key=lambda c: not str(c).startswith("attribute_"))]


def closeness_columns(risk: "AttributeRisk") -> pd.DataFrame:
    """How close the intruder comes to each number, in figures that do not tell the number.

    A distance does: on a grid of percentages the expected distance without the release is a known
    share of the true value. So distances are given relative to that one (``distance_ratio``).

    Columns, each with the variable's name in front: ``distance_ratio``, ``mode_is_truth``,
    ``probability_of_truth``, ``region_size``, ``truth_in_region``, with their ``_mcse_bound`` and
    ``_prior`` as in `bayes_risk.risk.closeness.closeness`.
    """
    kept = ("mode_is_truth", "probability_of_truth", "region_size", "truth_in_region")
    tables = [pd.DataFrame(index=risk.index)]
    for variable in risk.variables:
        if isinstance(variable, Number):
            found = risk.closeness(variable.name)
            chosen = found[[c for c in found.columns if c.startswith(kept)]]
            tables.append(distance_ratio(found).join(chosen).add_prefix(f"{variable.name}_"))
    return pd.concat(tables, axis=1)


def distance_ratio(found: pd.DataFrame) -> pd.DataFrame:
    """Expected distance from the true value, in units of the same without the release."""
    name = "expected_absolute_error"
    without = found[f"{name}_prior"].where(found[f"{name}_prior"] > 0)
    return pd.DataFrame(
        {
            "distance_ratio": found[name] / without,
            "distance_ratio_mcse_bound": found[f"{name}_mcse_bound"] / without,
        }
    )
