"""Fitted predictive mean matching: synthesis, and the evidence of a release."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.variables import Number, Variable
from bayes_risk.evidence.contract import Capabilities, Progress, Simulated, Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import Request
from bayes_risk.release.release import EncodedRelease, Release

from .evidence import log_evidence
from .mechanism import Mechanism

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PMMFit:
    """Predictive mean matching, ready to synthesise.

    Attributes
    ----------
    model : PMM
    microdata : Microdata
    rows : ndarray, shape (n, p + e)
        Codes, those of further predictors included; ``variables`` are those of the columns.
    variables : list of Variable or Number
    kinds : dict of column to kind of model
        In the order of synthesis.
    chosen : ndarray of bool, shape (n,)
        The sensitive records.
    base : Mechanism
        Given the records that are kept.
    diagnostics : dict
        ``vulnerable`` and ``kept`` records, ``sensitive_cells``, ``notes`` of the fits, and, after
        each `synthesize`, ``redraws``: how often a constraint refused the nearest donors.
    """

    model: Any
    microdata: Microdata
    rows: Codes
    variables: Sequence[Variable | Number]
    kinds: dict[int, str]
    chosen: Flags
    base: Mechanism
    diagnostics: dict[str, float]

    @property
    def n_draws(self) -> int:
        """No draws."""
        return 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fits of the prediction models had to say: divergence, warnings."""
        return self.base.notes

    @property
    def parameters(self) -> tuple[str, ...]:
        """How the parameters of its releases may be drawn, the usual way first."""
        return ("plug-in",)

    @property
    def records_differ(self) -> bool:
        """Records with the same values have the same evidence."""
        return False

    @property
    def weights(self) -> None:
        """Every record counts in full."""

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """What is offered."""
        self._check(release)
        ways = frozenset({"refit", "exact"} if self.model.selection == "known" else {"refit"})
        return Capabilities(methods=ways, computed=ways, closed_form=self, factored=self)

    def mechanism(self, release: EncodedRelease) -> str:
        """How the release was drawn, one phrase for reports."""
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

        Parameters
        ----------
        m : int
            Number of data sets, at least 1. More than one lets anybody see which records differ.
        columns : list of str, optional
            The model's order, or nothing: other columns need another declaration.
        parameters : {"plug-in"}, optional
            Donors are found by estimated means; there is no other way.
        random_seed : int, Generator or None

        Returns
        -------
        Release
            Its ``records`` are the sensitive ones.

        Raises
        ------
        InputError
            m below 1, other columns.
        ModelError
            A record for which the constraints allow nothing.
        """
        order = list(self.model.order)
        if columns is not None and set(known_columns("columns", columns, order)) != set(order):
            raise InputError(
                f"columns={list(columns)} leaves out some of {order}, which are synthesised "
                "together; declare a model with order= the columns wanted"
            )
        chosen = self.chosen.copy()
        how: Any = {"parameters": parameters, "random_seed": random_seed}
        request = Request.of(self, order, m, None, chosen, **how)
        drawn = [self.base.synthesize(self.rows[chosen], rng) for rng in request.rngs]
        self.diagnostics["redraws"] = float(sum(refused for _, refused in drawn))
        # classes "own": the evidence looks at the target's own synthetic values
        return request.release((self._table(rows) for rows, _ in drawn), classes="own")

    def _table(self, rows: Codes) -> Codes:
        """The table with synthetic rows (R, p + e) in the place of the sensitive records."""
        codes = self.microdata.codes.copy()
        codes[self.chosen] = rows[:, : codes.shape[1]]
        return codes

    def closed_form(
        self,
        evidence: str,
        release: EncodedRelease,
        targets: Targets,
        *,
        rng: np.random.Generator,
        progress: Progress | None,
    ) -> Simulated:
        """log p(Z^(l) | y*, y_-i) up to a constant for each target, shape (m, G, U)."""
        return log_evidence(self, release, targets, progress)

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """The columns in their order, where it is known which records were synthesised."""
        if self.model.selection == "known":
            return tuple(self.microdata.columns[j] for j in self.base.columns)
        return "which records were synthesised is not known, and all columns tell of it together"

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
