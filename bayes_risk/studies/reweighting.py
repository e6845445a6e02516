"""Synthesis weighted by risk: fit, synthesise, audit, weigh records at risk down, again.

Each record's likelihood is raised to a power alpha_i in (0, 1] that falls with its risk (Hu,
Savitsky & Williams 2022); the audit itself gives the weights. What the weights assume:
`docs/sensitivity.md`. Evidence is that of other audits with g_i for the density,

    p(Z|y*,y_-i)  proportional to  E[g_i(y*) | y_-i, Z] / E[g_i(y*) | y_-i],

leave-one-out weights 1 / g_i(y_i), and rows of Z of weight 1. Labels count alpha_i:
n_k = sum_i alpha_i 1{z_i = k}, M_kj(c) likewise.

*Latent classes, collapsed*, with w = alpha_i and G the gamma function:

    E[g_i(y)] = sum_k E[pi_k^w] prod_j E[phi_kj(y_j)^w],
    E[phi_kj(c)^w] = G(x+w) G(T) / (G(x) G(T+w)),       x = a + M_kj(c), T the total,
    E[pi_k^w]      = E[V_k^w] prod_{l<k} E[(1-V_l)^w],    b_k = alpha + n_{>k},
    E[V_k^w]       = G(1+n_k+w) G(1+n_k+b_k) / (G(1+n_k) G(1+n_k+b_k+w)),
    E[(1-V_l)^w]   = G(b_l+w) G(1+n_l+b_l) / (G(b_l) G(1+n_l+b_l+w)),
    E[Poisson(x; e r)^w] = NegBin(w x; A, B, w e)  G(w x + 1) / (G(x+1)^w w^(w x))
                           for r ~ Gamma(A, B).

*Trees.* With A', A'_v without the target, adding value v to a node changes log p by

    log G(A'+w) G(A'+R) / (G(A') G(A'+w+R))  +  log G(A'_v+w+r_v) G(A'_v) / (G(A'_v+w) G(A'_v+r_v)),
    plainly drawn  R log A' / (A'+w)  +  r_v log (A'_v+w) / A'_v.

*Normal regressions.* With posterior V, m, a, b, h = x'Vx, e = y_i - x'm, leaving out weight w gives

    V_- = V + w V x x'V / (1 - w h),   m_- = m - w V x e / (1 - w h),
    a_- = a - w/2,   b_- = b - w e^2 / 2 (1 - w h),
    E[N(y* | x*'b, s^2)^w] = G(a_- + w/2) / (G(a_-) (2 pi b_-)^(w/2) u^(1/2))
                             · (1 + w e*^2 / (2 b_- u))^-(a_- + w/2),

u = 1 + w x*'V_- x*, e* = y* - x*'m_-.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit

from bayes_risk._core.arguments import check_options, taken
from bayes_risk._core.arrays import Array
from bayes_risk._core.checkpoint import within
from bayes_risk._core.errors import DisplacedRiskWarning, InputError, of_type, warn_user
from bayes_risk._core.formats import number
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.validate import in_range, whole_number
from bayes_risk._core.validate import real_number as checked_number
from bayes_risk.data.base_result import Drawn, draw
from bayes_risk.data.microdata import Microdata, checked_table
from bayes_risk.data.record_weights import TAKE_THEM, checked_weights
from bayes_risk.release.release import Release
from bayes_risk.risk.attribute import attribute_risk
from bayes_risk.risk.posterior import at_truth
from bayes_risk.risk.result import AttributeRisk, measures_of
from bayes_risk.utilities.tables import (
    MARGIN_MEASURES,
    coded_columns,
    compared_columns,
    margins,
    pair_distances,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = 10  # numbers are cut at their deciles
CHANCE = 0.025  # of a record whose risk did not change to seem to have risen
CLEARLY = 2.0  # times as many as that


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """One fit, release and audit."""

    weights: Array  # shape (n,): of all records, as given to the fit
    risk: AttributeRisk
    release: Release
    # ``margins`` and ``pairs``: mean distance of tables (`reweighting.table_distances`)
    utility: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reweighting(Drawn):
    """Risk and utility of synthesis before and after records at risk got smaller weights.

    Attributes
    ----------
    rounds, fit : tuple of Round, Fit
        Round 0 has all weights 1; the last, whose fit this is, is the one to release.
    until, share : float or None, float
        Threshold of the probability of the truth, and share of records that may stay above it.
    reason, seed_entropy : str
        Why it stopped; the seed that made it.
    """

    PICTURE: ClassVar[str] = "plot_before_after"
    rounds: tuple[Round, ...]
    fit: Any
    until: float | None
    share: float
    reason: str
    seed_entropy: str

    @property
    def release(self) -> Release:
        """The release of the last round."""
        return self.rounds[-1].release

    @property
    def risk(self) -> AttributeRisk:
        """The audit of the last round."""
        return self.rounds[-1].risk

    @property
    def weights(self) -> pd.Series:
        """Weights of the last round, one a record of the table."""
        index = self.fit.microdata.index
        return pd.Series(self.rounds[-1].weights, index=index, name="weight")

    @property
    def records(self) -> pd.DataFrame:
        """One row per target of the audits.

        Columns: ``prior``; ``before`` and ``after``, the probability of the truth in the first and
        last round; ``error``, the standard error of their difference, the chance of the synthesis
        included (m = 1: of Monte Carlo alone); ``weight`` in the last round; ``moderate`` (not
        above the threshold before; without one, not among the highest 5 %); ``rose`` (moderate, and
        risen by more than the error explains: one in 40 does so by chance); ``beyond`` (by how much
        more); ``newly_above`` (moderate before, above the threshold now).
        """
        first, last = self.rounds[0].risk, self.rounds[-1].risk
        before, after = first.records["probability"], last.records["probability"]
        error = np.hypot(_standard_error(first), _standard_error(last))
        limit = before.quantile(0.95) if self.until is None else self.until
        moderate = (before <= limit).to_numpy()
        beyond = (after - before).to_numpy() - _times(first) * error
        rose = moderate & (beyond > 0)
        return pd.DataFrame(
            {
                "prior": first.records["prior"],
                "before": before,
                "after": after,
                "error": error,
                "weight": self.weights.loc[first.index].to_numpy(),
                "moderate": moderate,
                "rose": rose,
                "beyond": np.where(rose, beyond, 0.0),
                "newly_above": moderate & (after > (1.0 if self.until is None else limit)),
            }
        )

    @property
    def risk_rose(self) -> bool:
        """Whether moderate records rose ("whack-a-mole").

        Above the threshold, or clearly more of them than by chance.
        """
        table = self.records
        by_chance = CHANCE * table["moderate"].sum()
        many = table["rose"].sum() > max(CLEARLY * by_chance, 1)
        return len(self.rounds) > 1 and bool(many or table["newly_above"].any())

    def summary(self) -> pd.DataFrame:
        """One row per round.

        Columns: ``mean_probability`` of the truth and its Monte Carlo error ``mcse``;
        ``max_probability`` and ``mcse_max``; ``above`` (records above the threshold; NaN without
        one); ``mean_weight`` and ``min_weight`` of all records; ``margins`` and ``pairs``, mean
        distances of tables from the original; ``unreliable`` records.
        """
        names = ["mean_probability", "mcse", "max_probability", "max_mcse"]
        rows = []
        for one in self.rounds:
            found, p = measures_of(one.risk), one.risk.records["probability"]
            above = np.nan if self.until is None else int((p > self.until).sum())
            weight = {"mean_weight": one.weights.mean(), "min_weight": one.weights.min()}
            own = {name: found[name] for name in names} | {"above": above} | weight
            rows.append(own | dict(one.utility) | {"unreliable": int(found["unreliable"])})
        table = pd.DataFrame(rows, index=pd.RangeIndex(len(rows), name="round"))
        return table.rename(columns={"max_mcse": "mcse_max"})

    def moderate_in_words(self) -> str:
        """How many records of moderate risk rose, by how much, and how many would by chance."""
        table = self.records
        count, among = int(table["rose"].sum()), int(table["moderate"].sum())
        text = (
            f"Of {among:,} records of moderate risk, {count:,} rose by more than the error "
            f"explains ({CHANCE * among:.0f} would by chance)"
        )
        if count:
            by = table["beyond"][table["rose"]]
            text += f", by {number(by.mean())} beyond it on average and {number(by.max())} at most"
        if self.until is not None:
            text += f"; {int(table['newly_above'].sum()):,} are above the threshold now"
        if not self.risk_rose:
            return f"{text}."
        return f"{text}: smaller weights have exposed other records; more rounds would help."

    def plot_path(self, ax: "Axes | None" = None) -> "Axes":
        """Risk against the distance of pairwise tables, round by round."""
        return draw("plot_path", self, ax=ax)

    def to_dict(self) -> dict[str, Any]:
        """Sentence, why it stopped, and the rounds."""
        own = {"reason": self.reason, "until": self.until, "rounds": self.summary()}
        return {"sentence": self.sentence(), **own}


def _standard_error(risk: AttributeRisk) -> Array:
    """Of each target's probability: Monte Carlo, and for m > 1 the chance of the synthesis.

    Each release moves the log evidence by e_l(g), relative to the truth; to first order it moves
    the truth's probability by ``- p_truth sum_g p_g e_l(g)``, so the variance of the sum over m
    releases is m times that between releases.
    """
    m = len(risk.log_evidence)
    variance = risk.mcse**2
    if m > 1:
        p = np.exp(risk.log_probability)  # shape (G, U)
        e = np.where(np.isfinite(risk.log_evidence), risk.log_evidence, 0.0)
        moved = -at_truth(p, risk.truth) * np.einsum("mgu,gu->mu", e, p)
        variance = variance + m * moved.var(axis=0, ddof=1)
    return np.asarray(np.sqrt(variance)[risk.case], dtype=float)


def _times(risk: AttributeRisk) -> float:
    """How many errors a record rises by chance one time in 40: Student's t of 2 (m - 1) degrees."""
    m = len(risk.log_evidence)
    return -float(ndtri(CHANCE) if m == 1 else stdtrit(2 * (m - 1), CHANCE))


def table_distances(data: Microdata, release: Release) -> dict[str, float]:
    """Mean total variation distance of margins and of pairwise tables, over the m data sets.

    ``1/2 sum over cells |share in the original - share in the release|``: 0, the same tables; 1,
    nothing in common; of synthesised columns, and of pairs of which one at least was synthesised
    (NaN where there is one column). Numbers are cut at the original's deciles.
    """
    compared = compared_columns(data.decode(data.codes), release, None, None)
    columns = coded_columns(compared, data.numbers, PARTS, "level")
    found = {"margins": margins(columns, 1.0)[1], "pairs": pair_distances(columns, 1.0, 1)[1]}
    at = MARGIN_MEASURES.index("total_variation")
    return {
        name: float(table[..., at].mean()) if table.size else np.nan
        for name, table in found.items()
    }


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
            checked_number(name, getattr(self, name))
        if not 0 < self.floor <= 1:
            raise InputError("floor", self.floor, "is outside (0, 1]; give 0.02 for example")
        if not (np.isfinite(self.c) and self.c >= 0 and np.isfinite(self.g)):
            name, value = ("g", self.g) if 0 <= self.c < np.inf else ("c", self.c)
            raise InputError(name, value, "does not fit; give a finite slope c >= 0 and shift g")
        whole_number("steps", self.steps)

    def __call__(self, risk: AttributeRisk, weights: Array) -> Array:
        """New weights of the targets of an audit, shape (n,), from those they had."""
        p, prior = (risk.records[name].to_numpy() for name in ("probability", "prior"))
        learnt = np.clip((p - prior) / np.maximum(1.0 - prior, np.finfo(float).tiny), 0.0, 1.0)
        alpha = np.clip(weights * (self.c * (1.0 - learnt) + self.g), 0.0, 1.0)
        rounded = np.floor(alpha * self.steps + 1e-6) / self.steps
        return np.asarray(np.clip(rounded, self.floor, 1.0))


@shows_progress
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
    progress: ProgressOption = None,
) -> Reweighting:
    """Fit, synthesise, audit, reduce weights of records at risk; repeat until a threshold holds.

    ``p_alpha(Theta | y)`` proportional to ``p(Theta) prod_i p(y_i | Theta)^alpha_i`` (Hu, Savitsky
    & Williams 2022). Round 0 has all weights 1. Each further round takes its weights from the audit
    before it; from the second on, if there is a threshold, only records above it change.

    Parameters
    ----------
    model : DPMPM, Regression, CART, PoissonMixture, PyMCModel, or another whose ``fit`` weights
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
    random_seed, progress
        As in `attribute_risk`, the stage with its round.

    Raises
    ------
    InputError
        A model that takes no weights; a threshold, share, rule or option that does not fit.

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
    does. It is the last release that the result describes: releasing several rounds reveals more.
    """
    rule = _checked_rule(model, df, until, share, weights_from)
    n_rounds = whole_number("rounds", rounds)
    for name, options in {"fit": fit, "synthesis": synthesis, "audit": audit}.items():
        if ours := sorted({"random_seed", "progress", "weights"} & set(options or {})):
            raise InputError(f"{name} has {ours}, which reweight itself gives; leave them out")
    check_options("fit", fit, model.fit)
    check_options("audit", audit, attribute_risk)
    rng = np.random.default_rng(random_seed)
    audit_seed = int(rng.integers(2**31))  # the same targets in every round
    done: list[Round] = []
    weights, reason = np.ones(len(df)), None
    for r, child in enumerate(rng.spawn(n_rounds + 1)):
        tell = progress and (lambda stage, *of, r=r: progress(f"round {r}, {stage}", *of))
        fit_rng, release_rng = child.spawn(2)
        with within("round"):
            own = {"weights": weights, "random_seed": fit_rng, "progress": tell}
            fitted = model.fit(df, **taken(model.fit, **own), **(fit or {}))
            check_options("synthesis", synthesis, fitted.synthesize)
            release = fitted.synthesize(random_seed=release_rng, **(synthesis or {}))
            how = {"random_seed": audit_seed, "progress": tell, **(audit or {})}
            risk = attribute_risk(fitted, release, **how)
        utility = table_distances(fitted.microdata, release)
        done.append(Round(weights=weights, risk=risk, release=release, utility=utility))
        if until is not None and (risk.records["probability"] > until).mean() <= share:
            kept = "no record" if share == 0 else f"at most {100 * share:g} % of the records"
            reason = f"the threshold holds: {kept} above {until:g}"
        elif r < n_rounds:
            index = fitted.microdata.index
            new = _reweighted(rule, risk, weights, index, until if r else None)
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
        warn_user(result.moderate_in_words(), DisplacedRiskWarning)
    return result


def _checked_rule(model: Any, df: Any, until: Any, share: Any, weights_from: Any) -> Rule:
    """How weights follow from an audit, and whether all can go on."""
    if not hasattr(model, "fit"):
        raise InputError("model", f"cannot be {of_type(model)}; give a model of br.models")
    if "weights" not in inspect.signature(model.fit).parameters:
        raise InputError(
            f"{type(model).__name__} takes no record weights; give a model whose fit does: "
            f"{TAKE_THEM}"
        )
    checked_table(df)
    if until is not None:
        in_range("until", until)
    in_range("share", share)
    rule: Rule = LinearWeights() if weights_from == "linear" else weights_from
    if not callable(rule):
        raise InputError(
            "weights_from",
            weights_from,
            'is not a rule; give "linear", LinearWeights(...) or a function of (risk, weights)',
        )
    return rule


def _reweighted(
    rule: Rule, risk: AttributeRisk, weights: Array, index: Any, above: float | None
) -> Array:
    """Weights (n,) of the next round; of records above a threshold, if there is one."""
    rows = index.get_indexer(risk.index)
    new = checked_weights(rule(risk, weights[rows].copy()), risk.index)
    out, p = weights.copy(), risk.records["probability"].to_numpy()
    change = np.full(len(rows), True) if above is None else p > above
    out[rows[change]] = 1.0 if new is None else new[change]
    return out
