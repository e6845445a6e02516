"""Attribute risk by group of the records: by region, by band of age."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import real_number
from bayes_risk.data.groups import RISE, By, Errors, GroupRisk, group_risk, groups_of
from bayes_risk.data.microdata import Microdata

from .posterior import at_truth, mcse_of_mean


def by_group(
    risk: Any, by: By, *, table: pd.DataFrame | None = None, rise: float = RISE
) -> GroupRisk:
    """Mean probability of the true values by group, with its error, and without the release.

    Parameters
    ----------
    by : list of str, or mapping of column to list of numbers
        Columns, each of which makes groups by itself: one for each value, or the bands that begin
        at the numbers given: ``{"region": [], "age": [30, 50, 65]}``.
    table : DataFrame, optional
        The confidential table with the labels of ``risk.index``; by default the columns of the
        model.
    rise : float
        A record counts in ``share`` if the release raises the probability of its true values by
        more than this.

    Returns
    -------
    GroupRisk
        Its `worst` group, and intervals that hold for all groups at once.

    Notes
    -----
    The error of a rise is the larger of the Monte Carlo error of the mean probability and the mean
    of ``p (1 - p)`` times the errors of the log Bayes factors, which takes in the prior's.
    """
    real_number("rise", rise)
    groups = groups_of(by, _table(risk, table))
    found = risk.records
    p, prior = found["probability"], found["prior"]
    counts = (p - prior > rise).astype(float)
    records = pd.DataFrame({"probability": p, "prior": prior, "counts": counts})
    records["counts_without"] = np.nan
    of_rise = (p * (1 - p) * found["mcse_log_bayes_factor"].fillna(0.0)).to_numpy()
    k, sample = len(found), risk.sample
    return group_risk(
        groups,
        records,
        lambda those: _errors(risk, those, of_rise),
        audited=1.0 if sample is None else k / sample.records,
        at_random=sample is None or sample.at_random,
        event="the true values",
        counted=f"raised by more than {rise:g}",
    )


def _errors(risk: Any, those: Flags, of_rise: Array) -> Errors:
    """Of the mean over some records; modes left open widen it."""
    mcse, low, high = mcse_of_mean(risk, those), 0.0, 0.0
    if risk.by_mode is not None:
        case = risk.case[those]
        mean = float(np.exp(at_truth(risk.log_probability, risk.truth))[case].mean())
        means = [float(p[case].mean()) for p in risk.by_mode]
        low, high = max(mean - min(means), 0.0), max(max(means) - mean, 0.0)
    return Errors(mcse, float(np.nanmax([mcse, of_rise[those].mean()])), low, high)


def _table(risk: Any, table: pd.DataFrame | None) -> pd.DataFrame:
    """Rows of the targets, in their order."""
    if table is None:
        if risk.microdata is None or not risk.microdata.index.is_unique:
            raise InputError("by", "needs the values of the records; give table=df")
        data: Microdata = risk.microdata
        rows = data.index.get_indexer(risk.index)
        return data.decode(data.codes[rows], risk.index)
    if not table.index.is_unique or not risk.index.isin(table.index).all():
        raise InputError(
            "table", "must hold the label of every target once; give the confidential table"
        )
    found: pd.DataFrame = table.loc[risk.index]
    return found


def with_groups(risk: Any, by: By, table: pd.DataFrame | None = None, rise: float = RISE) -> Any:
    """The same result with its `by_group`, under each of its priors; none are asked for: itself."""
    if not len(by):
        return risk
    priors = {k: with_groups(one, by, table, rise) for k, one in risk.priors.items()}
    return replace(risk, groups=by_group(risk, by, table=table, rise=rise), priors=priors)
