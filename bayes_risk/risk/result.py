"""Attribute risk: what the intruder's posterior says of each record, frozen.

Arrays live on *cases* (distinct combinations of confidential profile and linked synthetic values);
records point to their case. Guesses are numbered ``g = 0 .. G-1``; ``truth`` says which is true.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk.data.groups import GroupRisk
from bayes_risk.data.kept import Saved
from bayes_risk.data.measures import COMPARED
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.balance import Balance
from bayes_risk.evidence.by_column import Factors
from bayes_risk.evidence.learnt import Learnt
from bayes_risk.evidence.mechanism_check import MechanismCheck
from bayes_risk.evidence.modes import Modes
from bayes_risk.evidence.problem import Sample
from bayes_risk.release.exposure import Exposure

from .claims import by_variable, claims
from .closeness import GuessPosterior
from .explanation import Explanation, explanation
from .geography import geography
from .grid_check import GridCheck
from .groups import by_group
from .posterior import REPEATED, at_truth, difference, log_odds, mcse_of_mean, ranks_of

# of a second prior, flat and predictive being computed by default: columns of `records`, rows of
# `summary`
BESIDE = "prior", "probability", "mcse", "log_bayes_factor", "mcse_log_bayes_factor", "reliable"
MEASURED = "mean_probability", "max_probability", "share_ranked_first", "mean_rank", "unreliable"
KEPT = ("mcse_log_bayes_factor", "khat", "ess", "reliable", "disclosed", "left_out")
DISTANCE = "mean_expected_absolute_error"


class History(NamedTuple):
    """Risk ``before`` a release, of it ``alone``, and ``after`` it, by row: some of `measures_of`.

    ``added``: the mean after it less that before it; its error as if both were independent.
    Of other priors with the name behind; ``releases``: how many were published before.
    """

    table: pd.DataFrame
    releases: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AttributeRisk(GuessPosterior, Saved):
    """The intruder's posterior for the confidential values of each target.

    Every target has G guesses ``y*``, the truth among them; the equation: `attribute_risk`.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the n targets.
    assumptions, seed_entropy : mapping of str to str, str
        What the intruder knows and believes, in words; the seed that made it.
    case, variables : ndarray of int, length n, tuple of Variable or Number, length q
        The case that each belongs to, ``0 .. n_cases - 1``; the variables whose values are guessed.
    guesses, truth : ndarray, shape (G, n_cases, q) and (n_cases,)
        Level codes of categories, numbers as they are; and which guess is the true one.
    log_prior, log_probability : ndarray, shape (G, n_cases)
        Normalised over guesses; a prior of minus infinity marks a guess that is not counted.
    mcse_log_evidence : ndarray, shape (G, n_cases)
        Monte Carlo standard error of the log evidence summed over releases, relative to the
        truth's.
    reliable : ndarray of bool, shape (n_cases,)
        False where the diagnostics show that the number cannot be trusted.
    log_evidence : ndarray, shape (m, G, n_cases)
        ``log p(Z^(l) | y*, A)`` less that of the truth. Minus infinity: impossible.
    deviations : ndarray, shape (F, B, n_cases)
        How far each of B batches of draws of each of F fits moves the probability of the truth.
    mcse, mcse_log_bayes_factor : ndarray, shape (n_cases,)
        Monte Carlo standard error of the probability of the truth, and of its log Bayes factor.
    khat, ess : ndarray, shape (n_cases,)
        Largest Pareto k-hat over fits (0: no weights were needed), smallest effective sample size.
    disclosed, left_out : ndarray, shape (n_cases,)
        Whether the record was released unchanged, and so is known for certain; estimated share of
        the posterior outside the guesses that a search of a joint grid kept.
    learnt : Learnt or None
        What runs of a generator showed, where evidence is ``"simulated"``: its calibration by
        level, and what was gained over the prior in runs left out.
    assumed, exposure, check : bool, Exposure or None, MechanismCheck or None
        Whether the files were made elsewhere, under a model that is assumed; what they show without
        a model, of all records; whether they look like files of the model.
    priors : mapping of str to AttributeRisk
        The same evidence under other priors, by name: ``"predictive"`` where both were computed.
    balance : Balance or None
        The evidence checked by itself, where that can be done: see `bayes_risk.evidence.balance`.
    interval : ndarray, shape (2, n_cases), or None
        Where another audit of the release would find the probability of the truth (95 %); spans all
        modes between which the release does not choose. None: no error.
    few_chains, modes : bool, Modes or None
        Whether errors are between a few chains, with Student's t; modes that these chains found.
    by_mode, before : ndarray, shape (k, n_cases) and (2, n_cases), or None
        Probability of the truth in each of k modes between which the release does not choose; and
        by the model's predictive before anything was published, with its error.
    by_column, not_by_column : DataFrame or None, str
        The most disclosive synthesised column (`bayes_risk.evidence.by_column`), or why not.
    factors, mcse_by_release : Factors or str, ndarray, shape (m, n_cases), or None
        What `explain` needs: the evidence by synthesised column, or why it is not there, at most 16
        MiB a column; Monte Carlo error that each data set brings into the log Bayes factor.
    sample : Sample or None
        Of how many records the targets are some, and whether drawn at random; None: all.
    worst_under : str
        The prior, of `priors`, whose worst records are shown; empty: this one's.
    grid : GridCheck or None
        Of guessed numbers, where there is a predictive: which guesses are plausible under it, and
        the cases whose grid is narrow or coarse beside it.
    microdata, groups : Microdata or None, GroupRisk or None
        The confidential table, by whose columns groups are made; risk by group, if asked for.
    history : History or None
        Risk before the release, where others were published before.
    """

    PICTURE: ClassVar[str] = "plot_attribute_risk"
    KEPT_AS: ClassVar[str] = "risk"

    log_evidence: Array
    deviations: Array
    mcse: Array
    mcse_log_bayes_factor: Array
    khat: Array
    ess: Array
    disclosed: Flags
    left_out: Array
    learnt: Learnt | None = None
    assumed: bool = False
    exposure: Exposure | None = None
    check: MechanismCheck | None = None
    priors: "Mapping[str, AttributeRisk]" = field(default_factory=dict)
    balance: Balance | None = None
    interval: Array | None = None
    few_chains: bool = False
    modes: Modes | None = None
    by_mode: Array | None = None
    before: Array | None = None
    by_column: pd.DataFrame | None = None
    not_by_column: str = ""
    factors: Factors | str = ""
    mcse_by_release: Array | None = None
    sample: Sample | None = None
    worst_under: str = ""
    grid: GridCheck | None = None
    microdata: Microdata | None = None
    groups: GroupRisk | None = None
    history: History | None = None

    @property
    def n_guesses(self) -> int:
        """Number G of guesses."""
        return int(self.guesses.shape[0])

    @property
    def guesses_each(self) -> Ints:
        """Number of guesses that are counted for each target, shape (n,); at most G."""
        return np.asarray(np.isfinite(self.log_prior).sum(axis=0)[self.case])

    @property
    def records(self) -> pd.DataFrame:
        """One row per target, indexed as the input.

        Columns: ``prior`` and ``probability`` of the truth; its ``mcse``, and the ends ``low`` and
        ``high`` of its `interval`; ``rank`` of the truth among the guesses (1: the likeliest) and
        how many other guesses tie with it (``ties``); ``log_bayes_factor`` (posterior over prior
        log odds of the truth; NaN where the prior settles it: no mass on the truth, or all of it),
        ``mcse_log_bayes_factor``; ``khat``; ``ess``; ``reliable``; ``disclosed`` (released
        unchanged); ``left_out``; where it was asked for ``before`` and its ``mcse_before``. Under
        each of `priors` those of `BESIDE`, its name behind: ``probability_predictive``.
        """
        return self.by_target(self._by_case())

    def _by_case(self) -> dict[str, Any]:
        """Columns of `records`, by case."""
        rank, ties = ranks_of(self.log_probability, self.truth)
        logs = self.log_prior, self.log_probability
        prior, probability = (at_truth(log_p, self.truth) for log_p in logs)
        low, high = [np.exp(probability)] * 2 if self.interval is None else self.interval
        columns = {
            "prior": np.exp(prior),
            "probability": np.exp(probability),
            "mcse": self.mcse,
            "low": low,
            "high": high,
            "rank": rank,
            "ties": ties,
            "log_bayes_factor": difference(
                log_odds(probability, self.log_probability, self.truth),
                log_odds(prior, self.log_prior, self.truth),
            ),
            **{name: getattr(self, name) for name in KEPT},
        }
        if self.before is not None:
            columns |= {"before": self.before[0], "mcse_before": self.before[1]}
        for name, risk in self.priors.items():
            found = risk._by_case()
            columns |= {f"{column}_{name}": found[column] for column in BESIDE}
        return columns

    def summary(self) -> pd.DataFrame:
        """File level, one row per measure: ``value``, ``mcse``, ``baseline``, ``low`` and ``high``.

        Rows: ``mean_probability``, ``median_probability``, ``q95_probability`` and
        ``max_probability`` of the truth; ``share_ranked_first`` (ties share the place);
        ``mean_rank``; ``targets``; ``disclosed``; ``unreliable`` (numbers of records); and, of the
        file that shows most, ``identical_records``, ``replicated_uniques`` and
        ``genuine_unique_values``, as in `Exposure.most`. The baseline is what the intruder could
        state without the release; the error is NaN where a row has none. Under each of `priors`
        those of `MEASURED`, its name behind. ``balance`` and ``shared_by_releases`` where there is
        a `balance`; their baseline is what is expected. ``mean_before`` where it was asked for.
        ``modes``, ``modes_open`` and ``discarded_starts`` where chains start from the release.
        ``low`` and ``high``, of probabilities: where another audit would find them.
        """
        table = self.records
        p, first = table["probability"], (table["rank"] == 1) / (1 + table["ties"])
        prior_rank, prior_ties = ranks_of(self.log_prior, self.truth)
        prior_first = ((prior_rank == 1) / (1 + prior_ties))[self.case].mean()
        mean_rank, worst = (table["rank"] + table["ties"] / 2).mean(), int(np.argmax(p))
        rows = {
            "mean_probability": (p.mean(), mcse_of_mean(self), table["prior"].mean()),
            "median_probability": (p.median(), np.nan, table["prior"].median()),
            "q95_probability": (p.quantile(0.95), np.nan, table["prior"].quantile(0.95)),
            "max_probability": (p.max(), table["mcse"].iloc[worst], table["prior"].max()),
            "share_ranked_first": (first.mean(), np.nan, prior_first),
            "mean_rank": (mean_rank, np.nan, (prior_rank + prior_ties / 2)[self.case].mean()),
            "targets": (len(table), np.nan, np.nan),
            "disclosed": (int(table["disclosed"].sum()), np.nan, np.nan),
            "unreliable": (int((~table["reliable"]).sum()), np.nan, np.nan),
        }
        shown = {} if self.exposure is None else self.exposure.most()
        rows |= {name: (count, np.nan, np.nan) for name, count in shown.items()}
        for name, risk in self.priors.items():
            other = risk.summary()[["value", "mcse", "baseline"]].to_dict("index")
            rows |= {f"{row}_{name}": tuple(other[row].values()) for row in MEASURED}
        if (checked := self.balance) is not None:
            rows["balance"] = (checked.mean.value, checked.mean.error, 1.0)
            rows["shared_by_releases"] = (checked.shared.value, checked.shared.error, 0.0)
        if self.before is not None:
            rows["mean_before"] = (table["before"].mean(), np.nan, np.nan)
        if (found := self.modes) is not None:
            counts = len(found.table), len(found.kept), len(found.discarded)
            names = ("modes", "modes_open", "discarded_starts")
            rows |= {n: (count, np.nan, np.nan) for n, count in zip(names, counts, strict=True)}
        columns = ["value", "mcse", "baseline"]
        whole = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
        return whole.join(self._ranges())

    @property
    def means_by_mode(self) -> list[float]:
        """Mean probability of the truth in each mode left open, if several are."""
        return [] if self.by_mode is None else [float(p[self.case].mean()) for p in self.by_mode]

    def _ranges(self) -> pd.DataFrame:
        """Where another audit would find the file's probabilities, in every mode left open."""
        table, error = self.records, REPEATED * mcse_of_mean(self)
        means = [float(table["probability"].mean()), *self.means_by_mode]
        at = {"mean_probability": (max(min(means) - error, 0.0), min(max(means) + error, 1.0))}
        for name, q in (("median", 0.5), ("q95", 0.95), ("max", 1.0)):
            low, high = (float(table[end].quantile(q)) for end in ("low", "high"))
            at[f"{name}_probability"] = low, high
        for name, risk in self.priors.items():
            of = risk._ranges()
            at |= {f"{k}_{name}": tuple(of.loc[k]) for k in MEASURED if k in of.index}
        return pd.DataFrame.from_dict(at, orient="index", columns=["low", "high"])

    @property
    def shown(self) -> "AttributeRisk":
        """The result under the prior whose worst records are shown."""
        return self.priors.get(self.worst_under, self)

    def worst(self, k: int = 10) -> pd.DataFrame:
        """The k records to whose truth the release adds most probability; columns of `records`."""
        return self.records.iloc[self.most_gained(k)]

    def certain(self) -> pd.DataFrame:
        """Values that the release discloses with certainty: one row per target, True or False.

        One column for each guessed variable. True where every guess with another value of it is
        impossible: the release shows what only this record can have given. Records released
        unchanged (``disclosed``) are not counted here.
        """
        total = self.log_evidence.sum(axis=0)
        counted = np.isfinite(self.log_prior)
        own = self.guesses[self.truth, np.arange(len(self.truth))]  # shape (n_cases, q)
        columns = {}
        for j, variable in enumerate(self.variables):
            other = counted & (self.guesses[:, :, j] != own[:, j])
            known = other.any(axis=0) & ~(other & ~np.isneginf(total)).any(axis=0)
            columns[variable.name] = (known & ~self.disclosed)[self.case]
        return pd.DataFrame(columns, index=self.index)

    def given_away(self, which: Any = slice(None)) -> list[str]:
        """Names of the variables whose values are `certain`, one text per target, or of some."""
        known = self.certain()
        names = known.columns.astype(str)
        return [", ".join(names[row]) if row.any() else "" for row in known.to_numpy()[which]]

    def posterior(self, label: Hashable, variable: str | None = None) -> pd.DataFrame:
        """The intruder's posterior for one record, one row per guess, likeliest first.

        Columns: the synthesised variables, then ``prior``, ``probability``, ``log_evidence``
        (summed over releases, relative to the truth) and ``is_truth``. With a variable: for that
        one alone, one row per value, ascending; columns as in `marginal_posterior`.
        Contains confidential values.
        """
        if variable is not None:
            return self.marginal_posterior(label, variable)
        u = self.case[self.position(label)]
        counted = np.flatnonzero(
            np.isfinite(self.log_prior[:, u]) | (np.arange(self.n_guesses) == self.truth[u])
        )
        values = self.decoded(self.guesses[counted, u])
        values["prior"] = np.exp(self.log_prior[counted, u])
        values["probability"] = np.exp(self.log_probability[counted, u])
        values["log_evidence"] = self.log_evidence[:, counted, u].sum(axis=0)
        values["is_truth"] = counted == self.truth[u]
        return values.sort_values("probability", ascending=False, kind="stable", ignore_index=True)

    def explain(self, label: Hashable) -> Explanation:
        """Explain the log Bayes factor of a record: contributions of data sets and columns.

        They add up exactly, and are derived in `bayes_risk.risk.explanation`. No confidential
        value. Cost: some hundred passes over the record's evidence, no draw.

        Raises
        ------
        InputError
            Unknown records, and those of which the prior or the release settles all by itself.
        """
        return explanation(self, self.position(label))

    geography = geography
    by_group = by_group
    claims = claims
    by_variable = by_variable

    @property
    def dataset(self) -> xr.Dataset:
        """All of it, labelled; dims as of `to_dataset`. Holds confidential values."""
        return self.to_dataset(confidential=True)

    def to_dataset(self, *, confidential: bool = False) -> xr.Dataset:
        """Labelled arrays for NetCDF; guessed values only if ``confidential``.

        Columns of `records` by ``record``; arrays over guesses by ``release, guess, variable`` and
        ``case``: records that cannot be distinguished have one, ``case_of_record``.
        """
        at = ("guess", "case")
        data: dict[str, Any] = {
            "log_evidence": (("release", *at), self.log_evidence),
            "prior": (at, np.exp(self.log_prior)),
            "posterior": (at, np.exp(self.log_probability)),
            "mcse_log_evidence": (at, self.mcse_log_evidence),
            "truth": (("case",), self.truth),
            "prior_of_truth": (("record",), self.records["prior"].to_numpy()),
            "case_of_record": (("record",), self.case),
        }
        if confidential:
            data["guess_code"] = ((*at, "variable"), self.guesses)
        coords = {
            "release": np.arange(1, self.log_evidence.shape[0] + 1),
            "guess": np.arange(self.n_guesses),
        }
        return self.with_variables(data, coords, levels=confidential)

    def to_datatree(self) -> xr.DataTree:
        """`dataset` in groups that are named as ArviZ names them; holds confidential values.

        ``prior`` and ``posterior`` have the ``probability`` of each guess, ``log_likelihood`` the
        ``log_evidence`` by release, ``observed_data`` the ``truth``, ``sample_stats`` the errors
        and diagnostics, ``constant_data`` the guesses.
        """
        found = self.dataset
        groups = {
            "prior": found[["prior"]].rename(prior="probability"),
            "posterior": found[["posterior"]].rename(posterior="probability"),
            "log_likelihood": found[["log_evidence"]],
            "observed_data": found[["truth"]],
            "constant_data": found[["guess_code", "case_of_record"]],
        }
        shown = ["prior", "posterior", "log_evidence", "truth", "guess_code", "case_of_record"]
        return xr.DataTree.from_dict(groups | {"sample_stats": found.drop_vars(shown)})

    def groups_beside(self) -> dict[str | None, xr.Dataset | None]:
        """What other programs read in its file."""
        return {"attribute_risk": self.dataset}

    @property
    def is_exact(self) -> bool:
        """Whether the evidence has no Monte Carlo error: nothing was drawn to compute it."""
        drawn = np.isfinite(self.ess).any() or self.deviations.any()
        return self.assumptions.get("evidence", "").startswith("exact") or not drawn

    def to_dict(self) -> dict[str, Any]:
        """Sentence, assumptions, measures, closeness, labels of the worst, risk by column."""
        return {
            "sentence": self.sentence(),
            "assumptions": self.assumptions,
            "measures": self.summary(),
            "closeness": self.closeness_summary(),
            "worst_records": [str(label) for label in self.shown.worst().index],
            "by_column": self.by_column,
            "not_by_column": self.not_by_column,
            "modes": None if self.modes is None else self.modes.table,
            "by_variable": self.by_variable(),
            "claims": self.claims().reset_index().to_dict("records"),
            "groups": None if self.groups is None else self.groups.to_dict(),
        }

    def closest(self) -> pd.DataFrame:
        """`closeness_summary`, first the number whose distance the release makes smallest."""
        found = self.closeness_summary()
        if found.empty:
            return found
        without = found[f"{DISTANCE}_prior"]
        ratio = (found[DISTANCE] / without.where(without > 0))[found["records"] > 0]
        return found.loc[ratio.sort_values(kind="stable").index]

    def _head(self) -> str:
        return "\n".join(p.sentence() for p in (self, self.check, self.exposure) if p is not None)

    def most_gained(self, k: int = 10) -> Ints:
        """Places of the k records to whose truth the release adds most probability."""
        logs = self.log_probability, self.log_prior
        p, prior = (np.exp(at_truth(log_p, self.truth)) for log_p in logs)
        return np.asarray(np.argsort((prior - p)[self.case], kind="stable")[:k])


def measures_of(risk: AttributeRisk) -> dict[str, float]:
    """One row of a comparison of audits."""
    summary: Any = risk.summary()
    found = dict[str, float]()
    for name, measure in COMPARED["attribute"].items():
        columns = {name: "value", measure.error: "mcse", measure.baseline: "baseline"}
        own = columns.items() if name in summary.index else ()
        found |= {column: float(summary.at[name, of]) for column, of in own if column}
    found["gain"] = found["mean_probability"] - found["baseline"]
    excluded = np.isneginf(at_truth(risk.log_prior, risk.truth))[risk.case].sum()
    return found | {"truth_excluded": float(excluded)}
