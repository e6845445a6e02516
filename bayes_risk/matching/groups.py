"""Identification risk by group of the records: by region, by band of age."""

from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags
from bayes_risk._core.errors import InputError
from bayes_risk.data.groups import By, Errors, GroupRisk, group_risk, groups_of

from .replicates import error_between


def by_group(risk: Any, by: By, *, table: pd.DataFrame | None = None) -> GroupRisk:
    """Mean probability of a correct match by group, with its error, and without the release.

    Parameters
    ----------
    by : list of str, or mapping of column to list of numbers
        Columns, each of which makes groups by itself: one for each value, or the bands that begin
        at the numbers given: ``{"region": [], "age": [30, 50, 65]}``.
    table : DataFrame, optional
        A table with the labels of the targets; by default their keys.

    Returns
    -------
    GroupRisk
        Its `worst` group. ``share``: matched uniquely and correctly, releases pooled;
        ``share_without``: alone with their unsynthesised keys.

    Notes
    -----
    Matches of these releases are counted, so that the rise has no error; ``mcse`` is that between
    releases, of the mean.
    """
    groups = groups_of(by, _values(risk, table))
    found = risk.records
    records = found[["probability", "baseline"]].rename(columns={"baseline": "prior"})
    records["counts"] = found["true_match"].astype(float)
    known = risk.baseline_true_matches is not None
    records["counts_without"] = np.where(risk.baseline == 1, 1.0, 0.0) if known else np.nan
    each = risk.hits / np.maximum(risk.c, 1)  # shape (n, m)

    def errors(those: Flags) -> Errors:
        return Errors(float(error_between(each[those].mean(axis=0), risk.release_of)), 0.0)

    counted = "matched uniquely and correctly"
    return group_risk(groups, records, errors, event="a correct match", counted=counted)


def _values(risk: Any, table: pd.DataFrame | None) -> pd.DataFrame:
    """Values of the targets by which groups are made, in their order."""
    given: pd.DataFrame | None = risk.keys if table is None else table
    if given is not None and given.index.equals(risk.index):
        return given
    if given is None or not (given.index.is_unique and risk.index.isin(given.index).all()):
        raise InputError("table", "must hold the label of every target once; give such a table")
    found: pd.DataFrame = given.loc[risk.index]
    return found
