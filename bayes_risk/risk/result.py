"""Attribute risk: what the intruder's posterior says of each record, frozen.

Arrays live on *cases* (distinct combinations of confidential profile and linked synthetic values);
records point to their case. Guesses are numbered ``g = 0 .. G-1``; ``truth`` says which is true.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_risk._core.batches import standard_error
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain
from bayes_risk.data.variables import Number, Variable
from bayes_risk.evidence.balance import Balance, rows_of
from bayes_risk.evidence.mechanism_result import MechanismCheck
from bayes_risk.evidence.modes import Modes

from .attribute_words import in_a_sentence
from .exposure_result import Exposure
from .second_prior import columns_beside, rows_beside
from .truth import difference, log_odds, ranks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttributeRisk:
    """The intruder's posterior for the confidential values of each target.

    Equation: ``Pr(Y_i = y* | Z, A, S)`` proportional to ``prior(y*) prod_l p(Z^(l) | y*, A, S)``
    (Hu 2019, section 3.2). Every target has G guesses ``y*``, the truth among them.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the n targets.
    case : ndarray of int, shape (n,)
        The case that each target belongs to, ``0 .. n_cases - 1``.
    variables : tuple of Variable or Number, length q
        The synthesised variables, whose values are guessed.
    guesses : ndarray, shape (G, n_cases, q)
        The guesses: level codes of categories; a number is its own code.
    truth : ndarray of int, shape (n_cases,)
        Which guess is the true one.
    log_evidence : ndarray, shape (m, G, n_cases)
        ``log p(Z^(l) | y*, A)`` less that of the truth. Minus infinity: impossible.
    log_prior : ndarray, shape (G, n_cases)
        Normalised over guesses; minus infinity marks a guess that is not counted.
    log_probability : ndarray, shape (G, n_cases)
        Log posterior probabilities, normalised over guesses.
    mcse_log_evidence : ndarray, shape (G, n_cases)
        Monte Carlo standard error of the log evidence summed over releases, relative to the
        truth's.
    deviations : ndarray, shape (F, B, n_cases)
        How far each of B batches of draws of each of F fits moves the probability of the truth.
    mcse, mcse_log_bayes_factor : ndarray, shape (n_cases,)
        Monte Carlo standard error of the probability of the truth, and of its log Bayes factor.
    khat, ess : ndarray, shape (n_cases,)
        Largest Pareto k-hat over fits (0: no weights were needed), smallest effective sample size.
    reliable : ndarray of bool, shape (n_cases,)
        False where the diagnostics say that the number cannot be trusted.
    disclosed : ndarray of bool, shape (n_cases,)
        True for records released unchanged: their values are known for certain.
    left_out : ndarray, shape (n_cases,)
        Estimated share of the posterior outside the guesses that a search of a joint grid kept.
    assumptions : mapping of str to str
        What the intruder knows and believes, in words: ``records``, ``columns``, ``synthesis``,
        ``prior``, ``guesses``, ``evidence``, ``releases``.
    seed_entropy : str
        The seed that made it.
    assumed : bool
        True for files made elsewhere: the synthesis model is assumed, not verified.
    exposure : Exposure, or None
        What the files show without a model, of all records; None: not counted.
    check : MechanismCheck, or None
        Of files made elsewhere: whether they look like files of the model; None: not checked.
    priors : mapping of str to AttributeRisk
        The same evidence under other priors, by name: ``"predictive"`` where both were computed.
    balance : Balance or None
        The evidence checked by itself, where that can be done: see `bayes_risk.evidence.balance`.
    interval : ndarray, shape (2, n_cases), or None
        Where another audit of the release would find the probability of the truth (95 %); spans
        all modes between which the release does not choose. None: no error.
    modes : Modes, or None
        In which modes the release was found to lead the chains of the audit.
    by_column : DataFrame, or None
        Which synthesised column gives most away: the probability of the truth without the evidence
        of each; see `bayes_risk.evidence.by_column`. None: ``not_by_column`` says why.
    not_by_column : str
        Why there is no such table, in a phrase.
    """

    index: pd.Index
    case: npt.NDArray[np.int64]
    variables: tuple[Variable | Number, ...]
    guesses: npt.NDArray[Any]
    truth: npt.NDArray[np.int64]
    log_evidence: Array
    log_prior: Array
    log_probability: Array
    mcse_log_evidence: Array
    deviations: Array
    mcse: Array
    mcse_log_bayes_factor: Array
    khat: Array
    ess: Array
    reliable: npt.NDArray[np.bool_]
    disclosed: npt.NDArray[np.bool_]
    left_out: Array
    assumptions: Mapping[str, str]
    seed_entropy: str
    assumed: bool = False
    exposure: Exposure | None = None
    check: MechanismCheck | None = None
    priors: "Mapping[str, AttributeRisk]" = field(default_factory=dict)
    balance: Balance | None = None
    interval: Array | None = None
    modes: Modes | None = None
    by_column: pd.DataFrame | None = None
    not_by_column: str = ""

    @property
    def n_guesses(self) -> int:
        """Number G of guesses."""
        return int(self.guesses.shape[0])

    @property
    def guesses_each(self) -> npt.NDArray[np.int64]:
        """Number of guesses that are counted for each target, shape (n,); at most G."""
        counted: npt.NDArray[np.int64] = np.isfinite(self.log_prior).sum(axis=0)[self.case]
        return counted

    @property
    def records(self) -> pd.DataFrame:
        """One row per target, indexed as the input.

        Columns: ``prior`` and ``probability`` of the truth; its ``mcse``, and the ends ``low`` and
        ``high`` of its `interval`; ``rank`` of the truth among the guesses (1: the likeliest) and
        how many other guesses tie with it (``ties``); ``log_bayes_factor`` (posterior over prior
        log odds of the truth; NaN where the prior settles it: no mass on the truth, or all of it),
        ``mcse_log_bayes_factor``; ``khat``; ``ess``; ``reliable``; ``disclosed`` (released
        unchanged); ``left_out``. Under each of `priors` those of `second_prior.BESIDE`, its name
        behind: ``probability_predictive``.
        """
        rank, ties = ranks_of(self.log_probability, self.truth)
        prior, probability = self._at_truth(self.log_prior), self._at_truth(self.log_probability)
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
            "mcse_log_bayes_factor": self.mcse_log_bayes_factor,
            "khat": self.khat,
            "ess": self.ess,
            "reliable": self.reliable,
            "disclosed": self.disclosed,
            "left_out": self.left_out,
        }
        table = pd.DataFrame({k: v[self.case] for k, v in columns.items()}, index=self.index)
        return table.assign(**columns_beside(self.priors))

    def summary(self) -> pd.DataFrame:
        """File level: one row per measure, columns ``value``, ``mcse`` and ``baseline``.

        Rows: ``mean_probability``, ``median_probability``, ``q95_probability`` and
        ``max_probability`` of the truth; ``share_ranked_first`` (ties share the place);
        ``mean_rank``; ``targets``; ``disclosed``; ``unreliable`` (numbers of records); and, of the
        file that shows most, ``identical_records``, ``replicated_uniques`` and
        ``genuine_unique_values``, as in `Exposure.most`. The baseline is what the intruder could
        say without the release; the error is NaN where a row has none. Under each of `priors` those
        of `second_prior.MEASURED`, its name behind. ``balance`` and ``shared_by_releases`` where
        there is a `balance`; their baseline is what is expected.
        """
        table = self.records
        p, first = table["probability"], (table["rank"] == 1) / (1 + table["ties"])
        prior_rank, prior_ties = ranks_of(self.log_prior, self.truth)
        prior_first = ((prior_rank == 1) / (1 + prior_ties))[self.case].mean()
        mean_rank, worst = (table["rank"] + table["ties"] / 2).mean(), int(np.argmax(p))
        rows = {
            "mean_probability": (p.mean(), self._mcse_of_mean(), table["prior"].mean()),
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
        rows |= rows_beside(self.priors) | rows_of(self.balance)
        return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "mcse", "baseline"])

    def certain(self) -> pd.DataFrame:
        """Values that the release gives away for certain: one row per target, True or False.

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

    def worst(self, k: int = 10) -> pd.DataFrame:
        """The k records whose truth the intruder finds most probable; columns as ``records``."""
        return self.records.sort_values("probability", ascending=False, kind="stable").head(k)

    def posterior(self, label: Hashable, variable: str | None = None) -> pd.DataFrame:
        """The intruder's posterior for one record, one row per guess, likeliest first.

        Columns: the synthesised variables, then ``prior``, ``probability``, ``log_evidence``
        (summed over releases, relative to the truth) and ``is_truth``. With a variable: for that
        one alone, one row per value, ascending; columns as in `closeness.marginal_posterior`.
        Contains confidential values.
        """
        if variable is not None:
            from .closeness import marginal_posterior

            return marginal_posterior(self, label, variable)
        u = self.case[self.position(label)]
        counted = np.flatnonzero(
            np.isfinite(self.log_prior[:, u]) | (np.arange(self.n_guesses) == self.truth[u])
        )
        values = pd.DataFrame(
            {
                v.name: v.decode(self.guesses[counted, u, j], pd.RangeIndex(len(counted)))
                for j, v in enumerate(self.variables)
            }
        )
        values["prior"] = np.exp(self.log_prior[counted, u])
        values["probability"] = np.exp(self.log_probability[counted, u])
        values["log_evidence"] = self.log_evidence[:, counted, u].sum(axis=0)
        values["is_truth"] = counted == self.truth[u]
        return values.sort_values("probability", ascending=False, kind="stable", ignore_index=True)

    def marginal_probability(self) -> pd.DataFrame:
        """Probability of each variable's true value by itself; see `marginal_probability`."""
        from .closeness import marginal_probability

        return marginal_probability(self)

    def closeness(
        self,
        variable: str,
        *,
        within: float | Sequence[float] | None = None,
        percent: float | Sequence[float] | None = None,
        mass: float = 0.9,
    ) -> pd.DataFrame:
        """How close the intruder comes to a number, one row per target; see `closeness`."""
        from .closeness import closeness

        return closeness(self, variable, within=within, percent=percent, mass=mass)

    def probability_between(
        self, label: Hashable, variable: str, low: float, high: float
    ) -> pd.Series:
        """Probability that a record's number lies from low to high; see `probability_between`."""
        from .closeness import probability_between

        return probability_between(self, label, variable, low, high)

    def closeness_summary(self, *, mass: float = 0.9) -> pd.DataFrame:
        """The same on average, one row per number; see `closeness_summary`."""
        from .closeness import closeness_summary

        return closeness_summary(self, mass=mass)

    def geography(
        self,
        x: str,
        y: str,
        *,
        population: pd.DataFrame | None = None,
        unique: Any = None,
        distance: str = "euclidean",
    ) -> pd.DataFrame:
        """How close the intruder comes to a place, one row per target; see `geography`."""
        from .geography import geography

        return geography(self, x, y, population=population, unique=unique, distance=distance)

    @property
    def dataset(self) -> xr.Dataset:
        """All of it, labelled ``record, release, guess, variable``. Holds confidential values."""
        return self.to_dataset(confidential=True)

    def to_dataset(self, *, confidential: bool = False) -> xr.Dataset:
        """Labelled arrays for NetCDF; guessed values only if ``confidential``."""
        c = self.case
        data: dict[str, Any] = {
            "log_evidence": (("release", "guess", "record"), self.log_evidence[:, :, c]),
            "prior": (("guess", "record"), np.exp(self.log_prior[:, c])),
            "posterior": (("guess", "record"), np.exp(self.log_probability[:, c])),
            "mcse_log_evidence": (("guess", "record"), self.mcse_log_evidence[:, c]),
            "truth": (("record",), self.truth[c]),
        }
        if confidential:
            data["guess_code"] = (("guess", "record", "variable"), self.guesses[:, c])
        for name, column in self.records.items():
            key = "prior_of_truth" if name == "prior" else str(name)
            data[key] = (("record",), column.to_numpy())
        names = [v.name for v in self.variables]
        coords = {
            "record": _storable(self.index),
            "release": np.arange(1, self.log_evidence.shape[0] + 1),
            "guess": np.arange(self.n_guesses),
            "variable": np.array(names, dtype=str),
        }
        attrs = {f"assumption_{k}": v for k, v in self.assumptions.items()}
        if confidential:
            attrs |= {f"levels_{v.name}": "\n".join(v.labels) for v in self.variables}
        return xr.Dataset(data, coords, attrs | {"random_seed": self.seed_entropy})

    def sentence(self) -> str:
        """The result in plain words."""
        return in_a_sentence(self)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Distribution of the probability of the truth, with the random-guess line."""
        from bayes_risk.reporting.plots import plot_attribute_risk

        return plot_attribute_risk(self, ax=ax)

    def __repr__(self) -> str:
        rows = self.summary().map(lambda v: "" if pd.isna(v) else plain(v))
        said = "".join(f"\n{p.sentence()}" for p in (self.check, self.exposure) if p is not None)
        return f"AttributeRisk\n{self.sentence()}{said}\n\n{rows.to_string()}"

    def position(self, label: Hashable) -> int:
        """Which row of ``records`` a label stands for, the first if several."""
        found = np.flatnonzero(self.index == label)
        if not len(found):
            raise InputError(
                f"record {label!r} is not among the {len(self.index)} targets; see risk.index"
            )
        return int(found[0])

    def _at_truth(self, values: Array) -> Array:
        chosen: Array = np.take_along_axis(values, self.truth[None, :], axis=0)[0]
        return chosen

    def _mcse_of_mean(self) -> float:
        """Records share their draws, so the error of a mean is taken from batch means."""
        means = self.deviations[:, :, self.case].mean(axis=2, keepdims=True)
        return float(standard_error(means, led=self.modes is not None)[0])


def _storable(index: pd.Index) -> npt.NDArray[Any]:
    """Record labels that NetCDF can hold: numbers as numbers, the rest as text."""
    values = index.to_numpy()
    return values if values.dtype.kind in "iufb" else np.array([str(v) for v in index], dtype=str)
