"""Predictive mean matching of the records in sensitive cells.

Hawala (2008): records in small cells of a cross-classification of identifying variables have those
values deleted, and take them from donors among the other records, whose predicted means are
nearest to theirs. All other records are released as they are.

The evidence of a release is exact: it needs no draws, for the chance of what was released is known.
See `docs/pmm.md`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import distinct_rows
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import known_columns, one_of, whole_number
from bayes_risk.data.microdata import Codes, Microdata, same_records
from bayes_risk.data.record_weights import no_weights
from bayes_risk.data.variables import Number, Variable
from bayes_risk.evidence.contract import Capabilities, Simulated, Targets, offers
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import (
    Declaration,
    Fitted,
    Request,
    Ticker,
    column_order,
    microdata,
    with_guess,
)
from bayes_risk.release.release import EncodedRelease, Release

from .mechanism import KINDS, PMMMechanism, allowed_rows, cell_keys, fit_mechanism, sensitive

ROWS = 2**17  # of guessed tables at a time
MAX_REFITS = 300  # sets of kept records to which the models are fitted anew in one call
# A guess g of target u under which other records (n,) would have been synthesised, the table as it
# has it (n, p + e), and the data sets that it could have made
_Other = tuple[int, int, Flags, Codes, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PMMFit(Fitted):
    """Predictive mean matching, ready to synthesise."""

    n_draws: ClassVar[int] = 0
    parameters: ClassVar[tuple[str, ...]] = ("plug-in",)
    weights: ClassVar[None] = None
    model: Any
    microdata: Microdata
    # shape (n, p + e): codes, those of further predictors included; ``variables`` are those of the
    # columns
    rows: Codes
    variables: Sequence[Variable | Number]
    kinds: dict[int, str]  # in the order of synthesis
    chosen: Flags  # shape (n,): the sensitive records
    base: PMMMechanism  # given the records that are kept
    # ``vulnerable`` and ``kept`` records, ``sensitive_cells``, ``notes`` of the fits, and, after
    # each `synthesize`, ``redraws``: how often a constraint refused the nearest donors
    diagnostics: dict[str, float]
    KEPT_PARTS: ClassVar = tuple("model microdata rows variables kinds chosen diagnostics".split())

    @classmethod
    def of_parts(cls, **parts: Any) -> "PMMFit":
        """What was saved, its prediction models fitted anew."""
        names = ("microdata", "variables", "rows", "kinds", "model")
        data, variables, rows, kinds, model = (parts[name] for name in names)
        kept = rows[~parts["chosen"]]
        return cls(base=fit_mechanism(data, variables, kept, kinds, model), **parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fits of the prediction models had to say: divergence, warnings."""
        return self.base.notes

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        self._check(release)
        names = ("exact", "refit") if self.model.selection == "known" else ("refit",)
        return Capabilities(offers(self, "factors", "log-prior", "point-masses", computed=names))

    def mechanism(self, release: EncodedRelease) -> str:
        chosen = {
            "known": "which records were synthesised is known",
            "hidden": "which records were synthesised is not known, only the rule",
        }[self.model.selection]
        later = "their own values" if self.model.later == "genuine" else "random values"
        return (
            f"predictive mean matching of records in cells of {', '.join(self.model.identifying)} "
            f"with at most {self.model.threshold}, in the order {', '.join(self.model.order)}, "
            f"later columns showing {later}, donors: {self.model.donors} nearest; {chosen}"
        )

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        *,
        parameters: str | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        """Draw m synthetic data sets: other fill-ins and ties, the same models and donors.

        More than one lets anybody see which records differ. ``columns`` are the model's order, or
        left out; ``parameters`` are "plug-in" alone, donors being found by estimated means. The
        release's ``records`` are the sensitive ones.
        """
        order = list(self.model.order)
        if columns is not None and set(known_columns("columns", columns, order)) != set(order):
            raise InputError(
                "columns",
                list(columns),
                f"leaves out some of {order}, which are synthesised together; declare a model "
                "whose order is the columns wanted",
            )
        chosen = self.chosen.copy()
        how: Any = {"parameters": parameters, "random_seed": random_seed}
        request = Request.of(self, order, m, None, chosen, **how)
        tables, redraws = [], 0
        for rng in request.rngs:
            rows, refused = self.base.synthesize(self.rows[chosen], rng)
            codes = self.microdata.codes.copy()
            codes[chosen] = rows[:, : codes.shape[1]]
            tables.append(codes)
            redraws += refused
        self.diagnostics["redraws"] = float(redraws)
        # classes "own": the evidence looks at the target's own synthetic values
        return request.release(tables, classes="own")

    def closed_form(
        self, evidence: str, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """log p(Z^(l) | y*, y_-i) up to a constant for each target, shape (m, G, U).

        Guesses that leave the same records sensitive keep all donors: what counts is the chance of
        the target's own synthetic values. Other guesses are impossible if the selection is known;
        if it is hidden, those that agree with everything they leave unchanged are fitted anew. How
        many such fits there are, and about how long they take, is told through progress first.
        """
        z = list(release.codes)
        own = self._own(targets, z)
        differ, chosen = self._selections(targets)
        if self.model.selection == "known":
            for factor in own:
                factor[:, differ] = -np.inf  # whatever the column
            return Simulated.product(own)
        record, each = np.flatnonzero(self.chosen), np.zeros((len(z), len(self.chosen)))
        each[:, record] = [_chances(self.base, self.rows, record, codes) for codes in z]
        others = each.sum(axis=1)[:, None] - each[:, targets.record]
        out: Array = own.sum(axis=0)
        out += others[:, None]
        out[:, differ] = -np.inf
        # by the records that they keep, the same for the same records in any order
        found: dict[bytes, list[_Other]] = {}
        for g, u in np.argwhere(differ).tolist():
            synthesised, rows = chosen(g, u), with_guess(self.rows, targets, g, u)
            kept = rows[~synthesised]
            shown = kept[:, : len(self.microdata.columns)]  # released as the guess has them
            possible = [l for l, codes in enumerate(z) if (shown == codes[~synthesised]).all()]
            if possible:
                unique, count = np.unique(kept, axis=0, return_counts=True)
                same = found.setdefault(unique.tobytes() + count.tobytes(), [])
                same.append((g, u, synthesised, rows, possible))
        self._refit(found, z, how["progress"], out)
        return Simulated.exact(out)

    def _selections(self, targets: Targets) -> tuple[Flags, Callable[[int, int], Flags]]:
        """Which guesses (G, U) make other records sensitive than the truth does, and which records.

        A sensitive record that leaves its cell leaves its neighbours sensitive; a cell of as many
        as the threshold that it comes to is small no more, and in a larger one it is kept itself.
        """
        data, model, n = self.microdata, self.model, len(self.rows)
        rows, alike = targets.rows(frozenset(data.columns.index(c) for c in model.identifying))
        tables = (self.rows[:, : len(data.columns)], rows.reshape(-1, rows.shape[2]))
        keys = [cell_keys(data, table, model.identifying, model.cuts) for table in tables]
        _, every, _ = distinct_rows(np.vstack(keys))
        cell, guessed = every[:n], every[n:].reshape(rows.shape[:2])[alike]
        count = np.bincount(cell, minlength=int(every.max()) + 1)
        differ = (guessed != cell[targets.record]) & (count[guessed] >= model.threshold)

        def chosen(g: int, u: int) -> Flags:
            out = self.chosen.copy()
            out[targets.record[u]] = False
            out[cell == guessed[g, u]] = False
            return out

        return differ & self.chosen[targets.record], chosen

    def _own(self, targets: Targets, z: Sequence[Codes]) -> Array:
        """log of the chance of the target's own synthetic values, (q, m, G, U); 0 if it is kept."""
        m, G, U = len(z), *targets.guesses.codes.shape[:2]
        out = np.zeros((len(self.base.steps), m, G, U))
        hit = np.flatnonzero(self.chosen[targets.record])
        step = max(1, ROWS // (m * G))
        for start in range(0, len(hit), step):
            which = hit[start : start + step]
            record = targets.record[which]
            rows = np.repeat(self.rows[record][None], G, axis=0)  # shape (G, block, p + e)
            rows[:, :, targets.columns] = targets.guesses.codes[:, which]
            released = np.stack([codes[record][:, self.base.columns] for codes in z])
            released = np.repeat(released[:, None], G, axis=1)  # shape (m, G, block, q)
            flat = np.repeat(rows[None], m, axis=0).reshape(-1, rows.shape[2])
            chance = self.base.log_chances(flat, released.reshape(len(flat), -1))
            out[..., which] = chance.reshape(len(chance), m, G, -1)
        truth = np.take_along_axis(out, targets.guesses.truth[None, None, None], axis=2)
        if not np.isfinite(truth).all():
            raise InputError(
                "the release has synthetic values that this fit cannot draw; audit it with the fit "
                "that made it"
            )
        return out

    def _refit(
        self, found: dict[bytes, list[_Other]], z: Sequence[Codes], progress: Any, out: Array
    ) -> None:
        """The mechanism fitted to the records that such guesses keep, one fit for equal sets."""
        if len(found) > MAX_REFITS:
            raise InputError(
                f"these targets and guesses need the models fitted to {len(found):,} sets of "
                f"records, more than {MAX_REFITS}; audit fewer targets at a time (targets), or "
                'assume `selection="known"`'
            )
        stage = f"refits, about {len(found) * self.base.seconds:.0f} s"
        tick = Ticker(progress, stage, len(found))
        if found:
            tick(0)
        for same in found.values():
            kept = same[0][3][~same[0][2]]
            made = fit_mechanism(self.microdata, self.variables, kept, self.kinds, self.model)
            tick(1)
            for g, u, synthesised, rows, possible in same:
                record = np.flatnonzero(synthesised)
                for l in possible:
                    out[l, g, u] = _chances(made, rows, record, z[l]).sum()

    def log_prior(self, release: EncodedRelease, targets: Targets) -> Array:
        """log p(y* | y_-i) relative to the truth's by donors, (G, U), by Brook's lemma."""
        out = np.zeros(targets.guesses.codes.shape[:2])
        hit = np.flatnonzero(self.chosen[targets.record])
        G = len(out)
        for which in np.array_split(hit, max(1, len(hit) * G // ROWS)):
            record = targets.record[which]
            rows = np.repeat(self.rows[record][None], G, axis=0).astype(float)
            for step in self.base.steps:
                places = np.flatnonzero(targets.columns == step.column)
                if len(places):
                    guess = targets.guesses.codes[:, which, places[0]].astype(float)
                    own = np.broadcast_to(self.rows[record, step.column], guess.shape)
                    points = np.stack([guess, own]).reshape(2, -1)
                    given = rows.reshape(-1, rows.shape[2])
                    shared = targets.guesses.point_masses(places[0]).only(np.tile(which, G))
                    variable = self.variables[step.column]
                    p = step.log_predictive(given, points, variable, shared)
                    out[:, which] += (p[0] - p[1]).reshape(guess.shape)
                    rows[:, :, step.column] = guess
        return out

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """The columns in their order, where it is known which records were synthesised."""
        if self.model.selection == "known":
            return tuple(self.microdata.columns[j] for j in self.base.columns)
        return "which records were synthesised is not known, and all columns depend on it together"

    def _check(self, release: EncodedRelease) -> None:
        same = set(release.synthesized) == set(self.model.order)
        if not same or (release.replaced != self.chosen).any():
            raise InputError(
                f"the release has {list(release.synthesized)} of {int(release.replaced.sum())} "
                f"records synthesised, and this fit synthesises {list(self.model.order)} of "
                f"{int(self.chosen.sum())} records, those in sensitive cells; audit a release with "
                "the fit that made it"
            )

    def __repr__(self) -> str:
        notes = "".join(f"\n  {note}" for note in self.notes)
        return (
            f"PMMFit: {int(self.chosen.sum()):,} of {len(self.chosen):,} records in "
            f"{int(self.diagnostics['sensitive_cells'])} sensitive cells{notes}"
        )


def _chances(made: PMMMechanism, rows: Codes, record: Ints, z: Codes) -> Array:
    """log of the chance of the synthetic values of some records."""
    if not len(record):
        return np.zeros(0)
    return np.asarray(made.log_chances(rows[record], z[record][:, made.columns]).sum(axis=0))


@dataclass(frozen=True, slots=True)
class PMM(Declaration):
    """Declaration of predictive mean matching.

    Parameters
    ----------
    order : sequence of str
        Columns to synthesise, in this order. All other columns are predictors of each.
    identifying : sequence of str
        Columns whose cross-classification defines which records are sensitive; often the same.
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
        whole_number("threshold", self.threshold)
        whole_number("donors", self.donors)
        one_of("later", self.later)
        one_of("selection", self.selection)
        known_columns("models", list(self.models), self.order)
        known_columns("cuts", list(self.cuts), self.identifying)
        for name, kind in self.models.items():
            one_of(("models", name), kind, KINDS)
        for name, cuts in self.cuts.items():
            if not len(cuts) or (np.diff(np.asarray(cuts, dtype=float)) <= 0).any():
                raise InputError(("cuts", name), list(cuts), "must be increasing numbers")
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
        progress: ProgressOption = None,
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
            Accepted for uniformity; nothing is sampled.

        Returns
        -------
        PMMFit
            Its ``diagnostics`` count records; its ``notes`` report problems of the fits.

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
        _check_selection(self, data, chosen)
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
                    ("models", name), kind, f"does not suit a {what}; give one of {suits}"
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


def _check_selection(model: PMM, data: Microdata, chosen: Flags) -> None:
    names, kept = list(model.identifying), int((~chosen).sum())
    if not chosen.any():
        raise InputError(
            f"no cell of {names} has at most {model.threshold} records, so there is nothing to "
            "synthesise; raise threshold, or name more identifying columns"
        )
    if kept < max(2, model.donors):
        raise InputError(
            f"{kept} records lie in cells of {names} with more than {model.threshold}, too few to "
            f"be `donors={model.donors}`; lower `threshold`, or name fewer identifying columns"
        )
    broken = ~allowed_rows(data, data.codes[~chosen], tuple(model.constraints))
    if broken.any():
        row = int(np.flatnonzero(~chosen)[np.argmax(broken)]) + 1
        raise InputError(
            f"{int(broken.sum())} of the records that are kept break a constraint, row {row} the "
            "first; correct the table or the constraint"
        )
