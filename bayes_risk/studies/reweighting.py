"""Synthesis weighted by risk: fit, synthesise, audit, weigh records at risk down, again.

Each record's likelihood is raised to a power alpha_i in (0, 1] that falls with its risk (Hu,
Savitsky & Williams 2022); the audit itself gives the weights. Derivations and what the weights
assume: `docs/sensitivity.md`.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.checkpoint import within
from bayes_risk._core.errors import DisplacedRiskWarning, InputError
from bayes_risk._core.validate import at_least, number, one_of
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import TAKE_THEM, checked_weights, linear_weights
from bayes_risk.evidence.contract import Progress
from bayes_risk.release.release import Release
from bayes_risk.risk.attribute import attribute_risk
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.utilities.tables import group_edges, group_of, total_variation

from .reweighting_result import Reweighting, Round

PARTS = 10  # numbers are cut at their deciles


def table_distances(data: Microdata, release: Release) -> dict[str, float]:
    """Mean total variation distance of margins and of pairwise tables, over the m data sets.

    ``1/2 sum over cells |share in the original - share in the release|``: 0, the same tables; 1,
    nothing in common; of synthesised columns, and of pairs of which one at least was synthesised
    (NaN where there is one column). Numbers are cut at the original's deciles.
    """
    made = [j for j, c in enumerate(data.columns) if c in list(release.synthesized)]
    p = len(data.columns)
    pairs = [pair for pair in combinations(range(p), 2) if set(pair) & set(made)]
    found: dict[str, list[float]] = {"margins": [], "pairs": []}
    for l in range(release.m):
        y, z, sizes = _cells(data, release.codes(data, l))
        found["margins"] += [total_variation(y[:, j], z[:, j], sizes[j]) for j in made]
        found["pairs"] += [
            total_variation(
                y[:, j] * sizes[k] + y[:, k], z[:, j] * sizes[k] + z[:, k], sizes[j] * sizes[k]
            )
            for j, k in pairs
        ]
    return {name: float(np.mean(values)) if values else np.nan for name, values in found.items()}


def _cells(data: Microdata, released: Codes) -> tuple[Ints, Ints, list[int]]:
    """Original and release as cell numbers (n, p), and how many cells each column has."""
    columns = []
    for j, levels in enumerate(data.n_levels):
        y, z = data.codes[:, j], released[:, j]
        if levels:
            columns.append((y.astype(np.int64), z.astype(np.int64), int(levels)))
            continue
        edges = group_edges(y, PARTS)
        columns.append((group_of(y, edges), group_of(z, edges), len(edges) + 1))
    ys, zs, sizes = zip(*columns, strict=True)
    return np.column_stack(ys), np.column_stack(zs), list(sizes)


Rule = Callable[[AttributeRisk, Array], Array]


@dataclass(frozen=True, slots=True)
class LinearWeights:
    """Weights that fall linearly with the risk, and never rise again.

    ``alpha_i = clip(alpha_i (c (1 - IR_i) + g), floor, 1)``, ``IR_i = max(0, (p_i - prior_i) /
    (1 - prior_i))`` (Hu, Savitsky & Williams 2022, who take one step from 1, and an identification
    risk for IR_i).

    Parameters
    ----------
    c, g : float
        Slope and shift.
    floor : float
        Smallest weight, above 0 and at most 1.
    steps : int
        Weights are rounded down to multiples of 1 / steps: the fewer, the quicker the next audit.

    Examples
    --------
    >>> LinearWeights(floor=0.1)
    LinearWeights(c=1.0, g=0.0, floor=0.1, steps=50)
    """

    c: float = 1.0
    g: float = 0.0
    floor: float = 0.02
    steps: int = 50

    def __post_init__(self) -> None:
        for name in ("c", "g", "floor"):
            number(name, getattr(self, name))
        if not 0 < self.floor <= 1:
            raise InputError(f"floor={self.floor!r} is outside (0, 1]; give 0.02, say")
        if not (np.isfinite(self.c) and self.c >= 0 and np.isfinite(self.g)):
            raise InputError(f"c={self.c!r}, g={self.g!r}; give a finite slope >= 0 and shift")
        at_least("steps", self.steps, 1)

    def __call__(self, risk: AttributeRisk, weights: Array) -> Array:
        """New weights of the targets of an audit, shape (n,), from those they had."""
        table = risk.records
        p, prior = table["probability"].to_numpy(), table["prior"].to_numpy()
        return linear_weights(
            p, prior, before=weights, c=self.c, g=self.g, floor=self.floor, steps=self.steps
        )


def reweight(
    model: Any,
    df: Any,
    *,
    until: float | None = None,
    share: float = 0.0,
    rounds: int = 4,
    weights_from: str | Rule = "linear",
    fit: Mapping[str, Any] | None = None,
    synthesis: Mapping[str, Any] | None = None,
    audit: Mapping[str, Any] | None = None,
    random_seed: int | np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Reweighting:
    """Fit, synthesise and audit; weigh records down by their risk; again, until a threshold holds.

    ``p_alpha(Theta | y)`` proportional to ``p(Theta) prod_i p(y_i | Theta)^alpha_i`` (Hu, Savitsky
    & Williams 2022). Round 0 has all weights 1. Each further round takes its weights from the audit
    before it; from the second on, if there is a threshold, only records above it change.

    Parameters
    ----------
    model : DPMPM, Regression, CART, PoissonMixture, PyMCModel, or another whose ``fit`` weighs
    df : DataFrame
        The confidential table.
    until : float, optional
        Stop when no record's probability of the truth is above this (or at most ``share`` of them).
    share : float
        Share of records that may stay above, at least 0 and below 1.
    rounds : int
        At most so many rounds after round 0.
    weights_from : "linear", LinearWeights, or function of (risk, weights)
        How weights come from an audit. A function gets the `AttributeRisk` and the weights of its
        targets, shape (n,), and gives new ones in (0, 1].
    fit, synthesis, audit : mapping, optional
        Options of ``model.fit``, ``fit.synthesize`` and `attribute_risk`. Records that the audit
        does not target keep weight 1.
    random_seed : int, Generator or None
        Same seed, same result.
    progress : callable, optional
        Called as ``progress(stage, done, total)``, the stage with its round.

    Returns
    -------
    Reweighting
        ``.summary()`` round by round, ``.records`` before and after, ``.release`` and ``.fit`` of
        the last round, ``.weights``, ``.sentence()``, ``.plot()``.

    Raises
    ------
    InputError
        A model that takes no weights; a threshold or share outside their ranges; a rule that gives
        weights outside (0, 1] or of another length; options that belong elsewhere.

    Warns
    -----
    DisplacedRiskWarning
        Clearly more records of moderate risk rose than chance explains, or some above ``until``.
    UnreliableWeightsWarning
        As `attribute_risk`, in each round.

    Notes
    -----
    Cost: (1 + rounds) times fit, synthesis and audit. The weights depend on the confidential data;
    the audit takes them as known to the intruder and the same for every guess, as the literature
    does. It is the last release that the result speaks for: releasing several rounds tells more.
    """
    rule = _checked_rule(model, df, until, share, weights_from)
    n_rounds, options = at_least("rounds", rounds, 1), _checked(fit, synthesis, audit)
    rng = np.random.default_rng(random_seed)
    audit_seed = int(rng.integers(2**31))  # the same targets in every round
    done: list[Round] = []
    weights = np.ones(len(df))
    for r, child in enumerate(rng.spawn(n_rounds + 1)):
        with within("round"):
            fitted, found = _round(model, df, weights, (child, audit_seed), options, progress, r)
        done.append(found)
        reason = _reason(found.risk, until, share)
        if reason is None and r < n_rounds:
            index = fitted.microdata.index
            new = _reweighted(rule, found.risk, weights, index, until if r else None)
            if (new == weights).all():
                reason = "no weight changes any more: give a lower floor"
            weights = new
        if reason is not None:
            break
    result = Reweighting(
        rounds=tuple(done),
        fit=fitted,
        until=until,
        share=share,
        reason=reason or f"{n_rounds} rounds are spent",
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
    )
    if result.risk_rose:
        warnings.warn(result.moderate_in_words(), DisplacedRiskWarning, stacklevel=2)
    return result


def _checked_rule(model: Any, df: Any, until: Any, share: Any, weights_from: Any) -> Rule:
    """How weights follow from an audit, and whether all can go on."""
    if "weights" not in inspect.signature(model.fit).parameters:
        raise InputError(
            f"{type(model).__name__} takes no record weights; give a model whose fit does: "
            f"{TAKE_THEM}"
        )
    if not hasattr(df, "columns"):
        raise InputError(f"the table is a {type(df).__name__}; give a pandas DataFrame")
    if until is not None and not 0 < number("until", until) < 1:
        raise InputError(f"until={until!r} is no probability above 0 and below 1")
    if not 0 <= number("share", share) < 1:
        raise InputError(f"share={share!r} is no share of records: give 0 or more, below 1")
    if isinstance(weights_from, str):
        one_of("weights_from", weights_from, ("linear",))
        return LinearWeights()
    if not callable(weights_from):
        raise InputError(
            f'weights_from={weights_from!r} is no rule; give "linear", LinearWeights(...) or '
            "a function of (risk, weights)"
        )
    rule: Rule = weights_from
    return rule


def _checked(*given: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Options of fit, synthesis and audit."""
    options = [dict(g or {}) for g in given]
    for name, one in zip(("fit", "synthesis", "audit"), options, strict=True):
        if ours := sorted({"random_seed", "progress", "weights"} & set(one)):
            raise InputError(f"{name} has {ours}, which reweight itself gives; leave them out")
    return options


def _reason(risk: AttributeRisk, until: float | None, share: float) -> str | None:
    """Why to stop, if the threshold holds."""
    if until is None or float((risk.records["probability"] > until).mean()) > share:
        return None
    kept = "no record" if share == 0 else f"at most {100 * share:g} % of the records"
    return f"the threshold holds: {kept} above {until:g}"


def _reweighted(
    rule: Rule, risk: AttributeRisk, weights: Array, index: Any, above: float | None
) -> Array:
    """Weights (n,) of the next round; of records above a threshold, if there is one."""
    rows = index.get_indexer(risk.index)
    new = checked_weights(rule(risk, weights[rows].copy()), risk.index)
    out, change = weights.copy(), np.ones(len(rows), dtype=bool)
    if above is not None:
        change = risk.records["probability"].to_numpy() > above
    out[rows[change]] = (np.ones(len(rows)) if new is None else new)[change]
    return out


def _round(
    model: Any,
    df: Any,
    weights: Array,
    seeds: tuple[np.random.Generator, int],
    options: Sequence[dict[str, Any]],
    progress: Progress | None,
    r: int,
) -> tuple[Any, Round]:
    """One round: the fit, and what it led to."""

    def stage_of_round(stage: str, done: int, total: int) -> None:
        if progress is not None:
            progress(f"round {r}, {stage}", done, total)

    tell = None if progress is None else stage_of_round
    fit_rng, release_rng = seeds[0].spawn(2)
    fitted = model.fit(df, weights=weights, random_seed=fit_rng, progress=tell, **options[0])
    release = fitted.synthesize(random_seed=release_rng, **options[1])
    risk = attribute_risk(fitted, release, random_seed=seeds[1], progress=tell, **options[2])
    utility = table_distances(fitted.microdata, release)
    return fitted, Round(weights=weights, risk=risk, release=release, utility=utility)
