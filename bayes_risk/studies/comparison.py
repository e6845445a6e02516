"""Candidates compared: every measure of every replicate, and who is on the Pareto front."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core import handed
from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import counted, plain
from bayes_risk._core.validate import one_of
from bayes_risk.data.base_result import Result, Table, draw
from bayes_risk.data.measures import MEASURES, RISKS, UTILITIES, UTILITY

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def chosen(role: str, name: str | None, measured: tuple[str, ...]) -> str:
    """The measure of an axis, ``"risk"`` or ``"utility"``; None: the first usual one."""
    usual = ("mean_probability", "expected_match_risk") if role == "risk" else ("pmse_cart",)
    allowed = [n for n in (RISKS if role == "risk" else UTILITIES) if n in measured]
    if not allowed:
        arguments = "attribute= or identification=" if role == "risk" else "utility="
        raise InputError(f"no {role} was measured; give {arguments} to compare")
    if name is None:
        return next((n for n in usual if n in allowed), allowed[0])
    if name not in allowed:
        raise InputError(role, name, f"is not a measured {role}; give one of {allowed}")
    return name


def dominates(losses: Array) -> Flags:
    """``[..., a, b]``: b is as good as a in both losses (..., C, 2), and better in one."""
    a, b = losses[..., :, None, :], losses[..., None, :, :]
    return np.asarray((b <= a).all(axis=-1) & (b < a).any(axis=-1))


def on_front(losses: Array) -> Flags:
    """Candidates that nobody dominates, shape (..., C)."""
    return np.asarray(~dominates(losses).any(axis=-1))


def drawn_means(replicates: Array, errors: Array, size: int, rng: np.random.Generator) -> Array:
    """Draws (size, 2) of where the mean of replicates (R, 2) may lie.

    Of R > 1 replicates, draws about their mean of a bivariate Student distribution with R - 1
    degrees of freedom and scale S / R, S their covariance: with deviations D (R, 2) and w standard
    normal, ``D' w / sqrt(R (R - 1))`` has covariance S / R. Of one replicate, normal draws with its
    Monte Carlo errors (NaN: none).
    """
    R, mean = len(replicates), replicates.mean(axis=0)
    if R == 1:
        spread: Array = rng.standard_normal((size, 2)) * np.nan_to_num(errors)
        return np.asarray(mean + spread)
    normal = rng.standard_normal((size, R)) @ (replicates - mean) / np.sqrt(R * (R - 1))
    scale = np.sqrt(rng.chisquare(R - 1, size=size) / (R - 1))
    return np.asarray(mean + normal / scale[:, None])


DRAWS = 4000  # for the probability of being on the front: its error is below 0.01
SURE = 0.975
KINDS = ("points", "rectangles", "boxes")
ENDS = ("minimum", "maximum", "unchanged")
WORST = (  # verdicts by their first words: on risk, on utility
    *("above", "inconclusive", "not", "within"),
    *("less", "usefulness", "useful"),
)
SEEDS = ("fit", "release", "attribute", "utility")


def _worst(verdicts: Sequence[str]) -> str:
    known = [one for one in verdicts if one]
    return min(known, key=lambda one: WORST.index(one.split(" ")[0]), default="")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Comparison(Result):
    """Risk and utility of candidate releases, replicate by replicate; made by `compare`.

    Attributes
    ----------
    names, measures : tuple of str, length C and M
        The candidates; what was measured, keys of `bayes_risk.data.measures.MEASURES`.
    values, errors : ndarray, shape (C, R, M)
        By replicate, and the Monte Carlo error of each number by itself (of utility between the m
        data sets); NaN where there is none.
    beside : ndarray, shape (C, R, M)
        Of a risk, what it is without the release (``baseline``); of utility, what a release drawn
        from the truth has on average (``null``).
    seeds : ndarray of int64, shape (C, R, 4)
        Of fit, release, attribute risk and utility; -1 where there was no such replicate.
    replicates_of, m, synthesized : tuple, length C
        Replicates and data sets of each candidate, and what it replaces (empty: not known).
    ends : ndarray, shape (3, M), or None
        The measures of `release_bounds`: minimum, maximum and unchanged; None: not asked for.
    outcomes : tuple of tuple of str, length C
        The verdict on each replicate; empty: it was not judged.
    usefulness : tuple of tuple of str, length C
        The verdict on the utility of each replicate; empty: no threshold was set for it.
    useful_at : dict
        The thresholds of utility, by measure.
    judged : ndarray, shape (C, R, 3)
        Values disclosed with certainty; the largest number over what is allowed, and its error.
    random_seed : int
        The seed that made all others.
    """

    names: tuple[str, ...]
    measures: tuple[str, ...]
    values: Array
    errors: Array
    beside: Array
    seeds: Ints
    replicates_of: tuple[int, ...]
    m: tuple[int, ...]
    synthesized: tuple[tuple[str, ...], ...]
    ends: Array | None
    outcomes: tuple[tuple[str, ...], ...] = ()
    usefulness: tuple[tuple[str, ...], ...] = ()
    useful_at: Mapping[str, float] = field(default_factory=dict)
    judged: Array = field(default_factory=lambda: np.zeros((0, 0, 3)))
    random_seed: int

    @property
    def verdicts(self) -> pd.DataFrame:
        """The verdict on each candidate that was judged, the worst first.

        ``verdict``: the worst over its replicates; ``replicates`` with it, ``of`` how many;
        ``usefulness``: the worst verdict on utility, empty without a threshold for it;
        ``certain_values``: values disclosed with certainty, mean; ``over_allowed``: the largest
        number over what is allowed, mean, with its error ``mcse``: 1 is the threshold. Of certain
        values none is allowed, and they are not in it.
        """
        rows = {}
        for c, (name, outcomes) in enumerate(zip(self.names, self.outcomes, strict=False)):
            judged = [one for one in outcomes if one]
            if not judged:
                continue
            worst = _worst(judged)
            certain, over, mcse = self.judged[c].T
            known = over[~np.isnan(over)]
            between = known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else mean_of(mcse)
            rows[name] = {
                "verdict": worst,
                "replicates": judged.count(worst),
                "of": len(judged),
                "usefulness": _worst(self.usefulness[c]) if self.usefulness else "",
                "certain_values": mean_of(certain),
                "over_allowed": mean_of(over),
                "mcse": float(between),
            }
        columns = ["verdict", "replicates", "of", "usefulness", "certain_values", "over_allowed"]
        columns.append("mcse")
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    @property
    def replicates(self) -> pd.DataFrame:
        """One row per candidate and replicate, columns the measures."""
        R, flat = self.values.shape[1], self.values.reshape(-1, len(self.measures))
        of = [(name, r) for name in self.names for r in range(1, R + 1)]
        index = pd.MultiIndex.from_tuples(of, names=["candidate", "replicate"])
        kept = np.arange(R) < np.array(self.replicates_of)[:, None]
        return pd.DataFrame(flat, index, list(self.measures))[kept.ravel()]

    @property
    def seed_table(self) -> pd.DataFrame:
        """The seeds of every replicate, to do one of them again: fit, release, attribute, utility.

        Where a release was brought, only those of ``attribute`` and ``utility`` were used.
        """
        flat = self.seeds.reshape(-1, len(SEEDS))
        kept = flat[:, 0] >= 0
        return pd.DataFrame(flat[kept], self.replicates.index, list(SEEDS))

    @property
    def bounds(self) -> pd.DataFrame | None:
        """The measures of releases at the ends of the scale; None: not asked for."""
        if self.ends is None:
            return None
        index = pd.Index(ENDS, name="release")
        return pd.DataFrame(self.ends, index, list(self.measures)).dropna(axis=1, how="all")

    def summary(self) -> pd.DataFrame:
        """One row per candidate and measure that it has.

        Columns: ``mean`` and ``sd`` over replicates (NaN for one); ``mcse``, the error of the mean:
        ``sd / sqrt(R)``, which takes in fit, synthesis and computation, or for a single replicate
        that of the number by itself; ``baseline``, of a risk what it is without the release;
        ``null``, of utility what a release drawn from the truth has; ``replicates``.
        """
        rows: dict[tuple[str, str], list[float]] = {}
        for (c, name), (k, measure) in product(enumerate(self.names), enumerate(self.measures)):
            x = self.values[c, :, k]
            x = x[~np.isnan(x)]
            if R := len(x):
                sd = float(x.std(ddof=1)) if R > 1 else float("nan")
                error = sd / np.sqrt(R) if R > 1 else mean_of(self.errors[c, :, k])
                sides = [mean_of(self.beside[c, :, k]), float("nan")]
                sides = sides[::-1] if measure in UTILITY else sides
                rows[name, measure] = [float(x.mean()), sd, float(error), *sides, R]
        columns = ["mean", "sd", "mcse", "baseline", "null", "replicates"]
        index = pd.MultiIndex.from_tuples(list(rows), names=["candidate", "measure"])
        table = pd.DataFrame(list(rows.values()), index, columns)
        return table.astype({"replicates": int})

    @property
    def dataset(self) -> xr.Dataset:
        """All numbers, labelled, for NetCDF: dims ``candidate, replicate``.

        Each measure with ``_mcse``, and ``_baseline`` or ``_null``; ``seed``; ``m``,
        ``synthesized``; at the ends of the scale ``_bounds`` on ``release``. No record is in it.
        """
        dims, data = ("candidate", "replicate"), dict[str, Any]()
        for k, name in enumerate(self.measures):
            beside = "null" if name in UTILITY else "baseline"
            data[name] = (dims, self.values[:, :, k])
            data[f"{name}_mcse"] = (dims, self.errors[:, :, k])
            data[f"{name}_{beside}"] = (dims, self.beside[:, :, k])
            if self.ends is not None:
                data[f"{name}_bounds"] = (("release",), self.ends[:, k])
        text = [", ".join(map(str, names)) for names in self.synthesized]
        coords: dict[str, Any] = {
            "candidate": np.array(self.names, dtype=str),
            "replicate": np.arange(1, self.values.shape[1] + 1),
            "stage": np.array(SEEDS, dtype=str),
            "m": ("candidate", np.array(self.m)),
            "synthesized": ("candidate", np.array(text, dtype=str)),
        }
        if self.ends is not None:
            coords["release"] = np.array(ENDS, dtype=str)
        seeds = ((*dims, "stage"), self.seeds)
        return xr.Dataset(data | {"seed": seeds}, coords, {"random_seed": str(self.random_seed)})

    def pareto(self, risk: str | None = None, utility: str | None = None) -> pd.DataFrame:
        """Who is on the front: the candidates that no other beats in both risk and utility.

        One row per candidate that has both measures, the most useful first: ``risk``,
        ``risk_mcse``, ``utility``, ``utility_mcse``; ``on_front``; ``dominated_by``, the names of
        those who are at least as good in both, and better in one; ``probability`` of being on the
        front, given how far the means may be off (NaN: the candidate's errors are not known, and it
        counts as exact for the others); ``in_doubt``: neither below 0.025 nor above 0.975, or not
        known.

        Parameters
        ----------
        risk, utility : str, optional
            Measures; by default the mean probability of the truth, or the expected correct matches,
            and the pMSE of a tree.

        Notes
        -----
        The probability comes from 4,000 draws of all means (`drawn_means`): candidates are
        independent, risk and utility of a replicate are not. Same seed, same draws. Two replicates
        reveal next to nothing, and the probability shows it.
        """
        of = self.axes(risk, utility)
        sign = [1 if MEASURES[name].lower else -1 for name in of]  # 1: less is better
        found = {name: self.points(name, *of)[:, ::-1] * sign for name in self.names}
        names = [name for name, points in found.items() if len(points)]
        if not names:
            raise InputError(f"no candidate has both {of[0]!r} and {of[1]!r}; choose others")
        losses, mcse = [found[name] for name in names], self.summary()["mcse"]
        errors = np.array([[mcse[name, measure] for measure in of] for name in names])
        means = np.array([points.mean(axis=0) for points in losses])
        rng = np.random.default_rng(self.random_seed)
        drawn = [
            drawn_means(points, error, DRAWS, child)
            for points, error, child in zip(losses, errors, rng.spawn(len(losses)), strict=True)
        ]
        share = on_front(np.stack(drawn, axis=1)).mean(axis=0)
        share[np.isnan(errors).any(axis=1)] = np.nan
        beaten = dominates(means)
        table = pd.DataFrame(
            {
                "risk": sign[0] * means[:, 0],
                "risk_mcse": errors[:, 0],
                "utility": sign[1] * means[:, 1],
                "utility_mcse": errors[:, 1],
                "on_front": ~beaten.any(axis=1),
                "dominated_by": [", ".join(np.array(names)[row]) for row in beaten],
                "probability": share,
                "in_doubt": ~((share <= 1 - SURE) | (share >= SURE)),
            },
            index=pd.Index(names, name="candidate"),
        )
        return table.iloc[np.argsort(means[:, 1], kind="stable")]

    def plot(
        self,
        risk: str | None = None,
        utility: str | None = None,
        *,
        kind: str = "boxes",
        whiskers: float | None = None,
        bounds: bool = False,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """The risk-utility map: utility to the right or left, risk upwards, front drawn.

        Parameters
        ----------
        risk, utility
            As in `pareto`.
        kind : {"boxes", "rectangles", "points"}
            Two-dimensional box plots (Hornby & Hu 2021, Figure 10): a rectangle between the
            quartiles of both measures, whiskers to the ends, a cross at the medians; rectangles
            over the replicates (Figures 8 and 9); or the replicates, and their mean with two
            standard errors.
        whiskers : float, optional
            None: to the smallest and the largest value, as in the paper. A number such as 1.5: to
            the last within so many interquartile ranges; replicates beyond are drawn one by one.
        bounds : bool
            Mark the releases at the ends of the scale, which `compare` must have been asked for.
        ax : matplotlib Axes, optional
        """
        one_of("kind", kind, KINDS)
        if whiskers is not None and not whiskers > 0:
            raise InputError("whiskers", whiskers, "; give a number above 0 such as 1.5, or None")
        of = self.axes(risk, utility)
        if bounds and (self.bounds is None or not set(of) <= set(self.bounds.columns)):
            raise InputError(
                "bounds",
                True,
                "needs releases at the ends of the scale, of which matching and utility are "
                "known, not attribute risk: give `bounds=True` to compare, and "
                '`risk="expected_match_risk"` here',
            )
        how: dict[str, Any] = {"kind": kind, "whiskers": whiskers, "bounds": bounds}
        return draw("plot_risk_utility", self, risk=of[0], utility=of[1], **how, ax=ax)

    def points(self, name: str, risk: str, utility: str) -> Array:
        """Utility and risk of a candidate's replicates, shape (R, 2); rows without NaN."""
        c = self.names.index(name)
        at = [self.measures.index(utility), self.measures.index(risk)]
        found = self.values[c][:, at]
        return np.asarray(found[~np.isnan(found).any(axis=1)])

    def sentence(self, risk: str | None = None, utility: str | None = None) -> str:
        """The result in plain words, of measures as in `pareto`; by default the usual."""
        return str(handed.presentation().sentence(self, risk, utility))

    def tables(self, risk: str | None = None, utility: str | None = None) -> dict[str, Table]:
        """Measures of the candidates, those of the map (as in `pareto`) among them."""
        found: dict[str, Table] = handed.presentation().tables(self, risk, utility)
        return found

    def screen(self, risk: str | None = None, utility: str | None = None) -> Table:
        """One row a candidate: risk and utility with two standard errors, baseline, front."""
        table: Table = handed.presentation().screen(self, risk, utility)
        return table

    def __repr__(self) -> str:
        if not self.has_map:
            table = self.summary()[["mean", "mcse"]].to_string(float_format=plain)
            return f"Comparison: {self.in_words()}\n\n{table}"
        table = self.pareto().drop(columns="dominated_by").to_string(float_format=plain)
        sentences = "\n".join(filter(None, [self.sentence(), self.doubt()]))
        return f"Comparison: {self.in_words()}\n{sentences}\n\n{table}"

    def in_words(self) -> str:
        """How many candidates and replicates."""
        low, high = min(self.replicates_of), max(self.replicates_of)
        each = (
            f"{low} to {high} replicates" if low < high else counted(low, "replicate") + " of each"
        )
        return f"{len(self.names)} candidates, {each}"

    @property
    def has_map(self) -> bool:
        """Whether both risk and utility were measured."""
        return len({name in UTILITY for name in self.measures}) == 2

    def axes(self, risk: str | None = None, utility: str | None = None) -> tuple[str, str]:
        """The measures of the map, as `pareto` takes them."""
        return chosen("risk", risk, self.measures), chosen("utility", utility, self.measures)


def mean_of(values: Array) -> float:
    """Mean of those that are known; NaN where none is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
