"""Evidence under other hyper-priors of the synthesis model: re-weighted, or fitted anew."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.errors import InputError
from bayes_risk.data.variables import Variable
from bayes_risk.evidence.contract import Under
from bayes_risk.evidence.diagnostics import khat_threshold, pareto_smoothed
from bayes_risk.evidence.runner import Memory, needed
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import EncodedRelease, Release
from bayes_risk.risk.attribute import gather
from bayes_risk.risk.kept_evidence import AttributeEvidence

POWER = "power"
ENOUGH = 0.9  # share of records whose k-hat must be good for a re-weighting to stand


class Gathered(NamedTuple):
    """Evidence of a setting; ``khat`` of the ratio of hyper-priors (NaN: none was tried)."""

    evidence: AttributeEvidence
    khat: float
    refitted: bool


class Declarations:
    """Fits of the model under other hyper-parameters, each made once.

    Parameters
    ----------
    fit : Fit
        With ``model``, a frozen declaration.
    refit : callable or None
        From a declaration to its fit; None: as long as the given fit.
    random_seed : int
        Of refits.
    reweight : bool
        Whether to try weights first.
    """

    def __init__(
        self, fit: Any, refit: Callable[[Any], Any] | None, random_seed: int, *, reweight: bool
    ) -> None:
        self.fit, self.memory = fit, Memory()
        self.refit, self.random_seed, self.reweight = refit, random_seed, reweight
        self._fits: dict[str, tuple[Any, Memory]] = {}

    def changed(self, hyper: dict[str, Any]) -> Any:
        """The declaration with other hyper-parameters; None: its own."""
        model: Any = self.fit.model
        named = {name: value for name, value in hyper.items() if name != POWER}
        other = replace(model, **named) if named else model
        if hyper.get(POWER, 1) != 1:
            other = other.power_scaled(hyper[POWER])
        return None if other == model or repr(other) == repr(model) else other

    def gather(self, hyper: dict[str, Any], release: Release, how: dict[str, Any]) -> Gathered:
        """Evidence under these hyper-parameters."""
        model = self.changed(hyper)
        if model is None:
            found = gather(self.fit, release, memory=self.memory, **how)
            return Gathered(found, np.nan, False)
        khat, under = np.nan, self._under(model, release, how)
        if under is not None:
            found = gather(self.fit, release, memory=self.memory, under=under, **how)
            khat = self._khat(under, found)
            limit = khat_threshold(self.fit.n_draws)
            if khat <= limit and float((found.found.khat <= limit).mean()) >= ENOUGH:
                return Gathered(found, khat, False)
        fit, memory = self._fitted(model)
        return Gathered(gather(fit, release, memory=memory, **how), khat, True)

    def _under(self, model: Any, release: Release, how: dict[str, Any]) -> Under | None:
        """Draws to re-weight: predictive evidence of an intruder who knows all others."""
        intruder, way = how.get("intruder") or Intruder(), how.get("evidence")
        if not self.reweight or intruder.knows_less or way not in (None, "predictive"):
            return None
        can = self.fit.capabilities(EncodedRelease.of(release, self.fit.microdata), intruder)
        if can.reweighted is None or (way is None and "exact" in can.methods):
            return None  # a refit costs nothing
        offered: Under | None = can.reweighted.under(model)
        return offered

    def _khat(self, under: Under, found: AttributeEvidence) -> float:
        """k-hat of the ratio of priors alone, the largest of all parts."""
        can = self.fit.capabilities(found.encoded, Intruder())
        posterior = needed(can.sampled).informed(found.encoded)
        few, rng = found.cases.only(np.arange(1)), np.random.default_rng(self.random_seed)
        ratios = [r for _, r in under.predictives(posterior, few, rng=rng)]
        return max((float(pareto_smoothed(r[:, None])[1][0]) for r in ratios), default=0.0)

    def _fitted(self, model: Any) -> tuple[Any, Memory]:
        key = repr(model)
        if key not in self._fits:
            fit = self.refit(model) if self.refit is not None else self._again(model)
            self._fits[key] = fit, Memory()
        return self._fits[key]

    def _again(self, model: Any) -> Any:
        """The same table, length and moves, another declaration."""
        data, known = self.fit.microdata, self.fit.diagnostics
        wanted: dict[str, Any] = {k: int(known[k]) for k in ("draws", "chains") if k in known}
        if "draws" in wanted:
            wanted["tune"] = wanted["draws"]
        posterior = getattr(self.fit, "posterior", None)
        of = {"thin": posterior, "splits": getattr(posterior, "prior", None)}
        wanted |= {name: getattr(has, name) for name, has in of.items() if hasattr(has, name)}
        wanted["levels"] = {v.name: v.levels for v in data.variables if isinstance(v, Variable)}
        wanted["random_seed"] = self.random_seed
        taken = signature(model.fit).parameters
        table = data.decode(data.codes)
        return model.fit(table, **{k: v for k, v in wanted.items() if k in taken})


def check_hyper(fit: Any, names: list[str]) -> None:
    """Names must be fields of the fit's declaration, or "power"."""
    model = getattr(fit, "model", None)
    if not is_dataclass(model):
        raise InputError(
            f"{type(fit).__name__} has no declaration whose hyper-parameters could be changed; "
            "leave 'hyper' out"
        )
    known = [f.name for f in fields(model)]
    for name in names:
        if name == POWER and not hasattr(model, "power_scaled"):
            raise InputError(
                f"{type(model).__name__} cannot power-scale its hyper-priors; name one of {known}"
            )
        if name != POWER and name not in known:
            raise InputError(
                f"over['hyper'] names {name!r}, which {type(model).__name__} does not have; give "
                f"one of {[*known, POWER]}"
            )
