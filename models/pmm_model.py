"""Predictive mean matching of the records in sensitive cells.

Hawala (2008): records in small cells of a cross-classification of identifying variables have those
values deleted, and take them from donors among the other records, whose predicted means are
nearest to theirs. All other records are released as they are.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import Asked, shows_progress
from bayes_risk._core.validate import at_least, known_columns, one_of
from bayes_risk.data.microdata import Codes, Microdata, same_records
from bayes_risk.data.record_weights import no_weights
from bayes_risk.data.variables import Number, Variable
from bayes_risk.models.fits.synthesis import Declaration
from bayes_risk.models.pmm.fit import PMMFit
from bayes_risk.models.pmm.mechanism import KINDS, allowed_rows, cell_keys, fit_mechanism, sensitive

from .cart import column_order, microdata


@dataclass(frozen=True, slots=True)
class PMM(Declaration):
    """Declaration of predictive mean matching.

    Parameters
    ----------
    order : sequence of str
        Columns to synthesise, in this order. All other columns are predictors of each.
    identifying : sequence of str
        Columns whose cross-classification tells which records are sensitive; often the same.
    threshold : int
        Records in cells of at most so many are synthesised.
    cuts : mapping of column to increasing numbers
        Where identifying numbers are cut for the cross-classification; every value of a number that
        is not named here is a category of its own.
    models : mapping of column to {"ordered", "multinomial", "gam", "linear"}
        Prediction models: proportional odds (categories, their levels in order), multinomial logit
        (categories), sum of smooth functions (numbers), least squares (numbers). By default
        ``"ordered"`` for ordered categories, ``"multinomial"`` for others, ``"gam"`` for numbers.
    constraints : sequence of functions
        Each is given a table with the released columns and returns True for the rows that are
        possible. Synthetic records are never impossible; kept records must not be either.
    donors : int
        One of the so many nearest donors is taken at random; the paper has 1.
    later : {"genuine", "filled"}
        What a recipient's predictors hold of the columns that come later in the order: its own
        values, as in sequential imputation, or a random sample of the kept ones, so that the
        release depends on no deleted value.
    selection : {"known", "hidden"}
        What the intruder is assumed to know of the choice of records (S): which ones were
        synthesised, or the rule alone.

    Examples
    --------
    >>> model = PMM(["AGE", "EDU"], identifying=["AGE", "EDU"], threshold=5)
    >>> model.donors
    1
    """

    order: Sequence[str]
    identifying: Sequence[str]
    threshold: int = 5
    cuts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    constraints: Sequence[Callable[[pd.DataFrame], npt.ArrayLike]] = ()
    donors: int = 1
    later: str = "genuine"
    selection: str = "known"

    def __post_init__(self) -> None:
        for name in ("order", "identifying"):
            object.__setattr__(self, name, column_order(name, getattr(self, name)))
        at_least("threshold", self.threshold, 1)
        at_least("donors", self.donors, 1)
        one_of("later", self.later, ("genuine", "filled"))
        one_of("selection", self.selection, ("known", "hidden"))
        known_columns("models", list(self.models), self.order)
        known_columns("cuts", list(self.cuts), self.identifying)
        for name, kind in self.models.items():
            one_of(f"models[{name!r}]", kind, KINDS)
        for name, cuts in self.cuts.items():
            if not len(cuts) or (np.diff(np.asarray(cuts, dtype=float)) <= 0).any():
                raise InputError(f"cuts[{name!r}]={list(cuts)} must be increasing numbers")
        if callable(self.constraints) or not all(map(callable, self.constraints)):
            raise InputError("constraints must be a list of functions of a DataFrame")
        object.__setattr__(self, "constraints", tuple(self.constraints))

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        return list(self.order)

    @shows_progress
    def fit(
        self,
        df: pd.DataFrame,
        *,
        extra: pd.DataFrame | None = None,
        columns: Sequence[str] | None = None,
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        missing: str = "error",
        weights: None = None,
        sample: bool = True,
        progress: Asked = None,
    ) -> PMMFit:
        """Choose the sensitive records, and fit the prediction models to the others.

        Parameters
        ----------
        df, columns, levels, releases, missing, progress
            As of `CART.fit`.
        extra : DataFrame, optional
            Further predictors of the same records (design variables, population shares), which are
            not released.
        weights : None
            Predictive mean matching takes no record weights.
        sample : bool
            Taken for uniformity; nothing is sampled.

        Returns
        -------
        PMMFit
            Its ``diagnostics`` count records; its ``notes`` say what the fits had to say.

        Raises
        ------
        InputError
            Columns that the table lacks, a model that does not suit its column, no sensitive
            record, too few others, kept records that break a constraint; weights.
        ModelError
            A prediction model without finite predictions.
        """
        no_weights(weights, "PMM", "values of donors come from no likelihood to raise to a power")
        data = microdata(df, columns, levels=levels, releases=releases, missing=missing)
        known_columns("identifying", self.identifying, data.columns)
        kinds = self._kinds(data)
        more, variables = _further(extra, data, missing)
        keys = cell_keys(data, data.codes, self.identifying, self.cuts)
        chosen = sensitive(keys, self.threshold)
        _check_selection(self, chosen)
        _check_constraints(self, data, chosen)
        rows = np.column_stack([data.codes, more])
        made = fit_mechanism(data, variables, rows[~chosen], kinds, self)
        if progress is not None:
            progress("fit", len(kinds), len(kinds))
        return PMMFit(
            model=self,
            microdata=data,
            rows=rows,
            variables=variables,
            kinds=kinds,
            chosen=chosen,
            base=made,
            diagnostics={
                "vulnerable": float(chosen.sum()),
                "kept": float((~chosen).sum()),
                "sensitive_cells": float(len(np.unique(keys[chosen], axis=0))),
                "notes": float(len(made.notes)),
                "redraws": 0.0,
            },
        )

    def _kinds(self, data: Microdata) -> dict[int, str]:
        """Kind of model of each column, in the order of synthesis."""
        out = {}
        for name in known_columns("order", list(self.order), data.columns):
            j = data.columns.index(name)
            number = isinstance(data.variables[j], Number)
            ordered = getattr(data.variables[j].dtype, "ordered", False)
            suits = ("gam", "linear") if number else ("ordered", "multinomial")
            kind = self.models.get(name, suits[0] if number or ordered else suits[1])
            if kind not in suits:
                what = "number" if number else "category"
                raise InputError(
                    f"models[{name!r}]={kind!r} does not suit a {what}; give one of {suits}"
                )
            out[j] = kind
        if len(data.columns) < 2:
            raise InputError("the table has one column, which nothing predicts; add predictors")
        return out


def _further(
    extra: pd.DataFrame | None, data: Microdata, missing: str
) -> tuple[Codes, list[Variable | Number]]:
    """Codes of the predictors that are not released, and all variables."""
    if extra is None:
        return np.empty((len(data.codes), 0)), list(data.variables)
    both = sorted(set(map(str, extra.columns)) & set(map(str, data.columns)))
    if both:
        raise InputError(f"extra has {both} in common with the table; name each column once")
    table = same_records(data.index, extra, "extra")
    coded = microdata(table, None, levels=None, releases=(), missing=missing)
    return coded.codes, [*data.variables, *coded.variables]


def _check_selection(model: PMM, chosen: Flags) -> None:
    names, kept = list(model.identifying), int((~chosen).sum())
    if not chosen.any():
        raise InputError(
            f"no cell of {names} has at most {model.threshold} records, so there is nothing to "
            "synthesise; raise threshold, or name more identifying columns"
        )
    if kept < max(2, model.donors):
        raise InputError(
            f"{kept} records lie in cells of {names} with more than {model.threshold}, too few to "
            f"be donors={model.donors}; lower threshold, or name fewer identifying columns"
        )


def _check_constraints(model: PMM, data: Microdata, chosen: Flags) -> None:
    broken = ~allowed_rows(data, data.codes[~chosen], tuple(model.constraints))
    if broken.any():
        label = data.index[~chosen][int(np.argmax(broken))]
        raise InputError(
            f"{int(broken.sum())} of the records that are kept break a constraint, record {label!r}"
            " the first; mend the table or the constraint"
        )
