"""Identification risk: candidates, true and false matches of each record, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ids = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]

COLUMNS = (
    "expected_match_risk",
    "true_matches",
    "true_match_rate",
    "unique_matches",
    "false_match_rate",
    "no_match",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentificationRisk:
    """What an intruder achieves who looks for each record in the release.

    For target i, ``c_i`` released records have the highest match probability (eq. 6 of Drechsler &
    Reiter 2008); ``T_i = 1`` if the true record is among them; ``K_i = 1`` if ``c_i T_i = 1``;
    ``F_i = 1`` if ``c_i (1 - T_i) = 1`` (Hu 2019, section 4.2.6). *Per release* the probability is
    that of one release, as Hornby & Hu (2021) do; *pooled* it is first averaged over the m
    releases, as Reiter & Mitra (2009) do, so a record that matches more often than others stands
    out.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the records, as in the original.
    known, synthesized : tuple of str
        The keys: unsynthesised, and synthesised.
    radius : dict of str to float
        Relative radius of the synthesised keys that match within one; the others match exactly.
    fallback : bool
        Whether the intruder, when nothing matches, chooses among all who share the known keys.
    c : ndarray of int64, shape (n, m)
        Number of candidates in each release. 0: nothing matched, and no fallback.
    T, K, F : ndarrays of bool, shape (n, m)
        True record among the candidates; single and true; single and false.
    no_match : ndarray of bool, shape (n, m)
        No record of the release has the target's full key (with or without fallback).
    pooled_c, pooled_T, pooled_K, pooled_F, pooled_no_match : ndarrays, shape (n,)
        The same after pooling; ``pooled_no_match``: in no release.
    baseline : ndarray, shape (n,)
        ``1 / N_us``: the chance of hitting the target among those who share its known keys, which
        takes no synthetic value.
    pooled_mcse : float
        Jackknife standard error over releases of the pooled expected match risk; NaN for m < 3.

    See Also
    --------
    bayes_risk.identification.identification_risk : Makes it; conventions, cost and references.
    """

    index: pd.Index
    known: tuple[str, ...]
    synthesized: tuple[str, ...]
    radius: Mapping[str, float]
    fallback: bool
    c: Ids
    T: Flags
    K: Flags
    F: Flags
    no_match: Flags
    pooled_c: Ids
    pooled_T: Flags
    pooled_K: Flags
    pooled_F: Flags
    pooled_no_match: Flags
    baseline: Reals
    pooled_mcse: float

    @property
    def n(self) -> int:
        """Number of records, all of them targets."""
        return int(self.c.shape[0])

    @property
    def m(self) -> int:
        """Number of releases."""
        return int(self.c.shape[1])

    @property
    def baseline_expected_match_risk(self) -> float:
        """Expected match risk by the known keys alone: ``sum 1/N_us``, how many cells they make."""
        return float(self.baseline.sum())

    @property
    def expected_match_risk_mcse(self) -> pd.Series:
        """Standard errors of the expected match risk, labelled ``mean`` and ``pooled``.

        ``mean``: standard deviation over releases divided by ``sqrt(m)``; NaN for m = 1.
        ``pooled``: jackknife over releases, ``sqrt((m-1)/m sum_l (x_-l - mean)^2)`` with ``x_-l``
        the pooled risk without release l; NaN for m < 3. A rough figure: in trials with m = 3, 5
        and 10 it was 0.8 to 2 times the true standard deviation. It is the error of what m releases
        give, not of what infinitely many would: the pooled risk changes with m.
        """
        mean = _standard_error(_risk(self.c, self.T).sum(axis=0))
        return pd.Series({"mean": float(mean), "pooled": self.pooled_mcse})

    @property
    def records(self) -> pd.DataFrame:
        """One row per record, indexed as the original.

        Columns: ``probability`` (pooled T/c: the chance that an intruder who takes one of his best
        candidates hits the target), ``candidates`` (pooled c), ``true_match`` (pooled K),
        ``false_match`` (pooled F), ``baseline`` (1/N_us), ``mcse`` (standard error over releases of
        the per-release T/c; NaN for m = 1).
        """
        columns = {
            "probability": _risk(self.pooled_c, self.pooled_T),
            "candidates": self.pooled_c,
            "true_match": self.pooled_K,
            "false_match": self.pooled_F,
            "baseline": self.baseline,
            "mcse": _standard_error(_risk(self.c, self.T).T),
        }
        return pd.DataFrame(columns, index=self.index)

    def summary(self) -> pd.DataFrame:
        """File level: one row per release ``1 .. m``, then ``mean`` and ``pooled``.

        Columns: ``expected_match_risk`` sum T/c; ``true_matches`` sum K; ``true_match_rate``
        sum K/n; ``unique_matches`` s, the records with c = 1; ``false_match_rate`` sum F/s, NaN
        when s = 0; ``no_match``, the records whose full key nobody in the release has (``pooled``:
        in no release). ``mean`` averages the rows, the false match rate over releases where it is
        defined.
        """
        rows = [
            _measures(*columns)
            for columns in zip(self.c.T, self.T.T, self.K.T, self.F.T, self.no_match.T, strict=True)
        ]
        each = pd.DataFrame(rows, columns=list(COLUMNS), index=range(1, self.m + 1), dtype=float)
        pooled = _measures(
            self.pooled_c, self.pooled_T, self.pooled_K, self.pooled_F, self.pooled_no_match
        )
        ends = pd.DataFrame(
            [each.mean().to_numpy(), pooled], columns=each.columns, index=["mean", "pooled"]
        )
        table = pd.concat([each.set_axis(each.index.astype(object)), ends])
        table.index.name = "release"
        return table

    @property
    def dataset(self) -> xr.Dataset:
        """All of it, labelled: dims ``record, release``; what is pooled is on ``record`` alone.

        Holds record labels but no confidential value. Labels that are not numbers become text.
        """
        names = ("c", "T", "K", "F", "no_match")
        data: dict[str, Any] = {
            name: (("record", "release"), getattr(self, name)) for name in names
        }
        data |= {f"pooled_{name}": (("record",), getattr(self, f"pooled_{name}")) for name in names}
        data["baseline"] = (("record",), self.baseline)
        coords = {"record": _storable(self.index), "release": np.arange(1, self.m + 1)}
        attrs = {
            "known": "\n".join(map(str, self.known)),
            "synthesized": "\n".join(map(str, self.synthesized)),
            "radius": "\n".join(f"{name} {r!r}" for name, r in self.radius.items()),
            "fallback": int(self.fallback),
            "pooled_mcse": self.pooled_mcse,
        }
        return xr.Dataset(data, coords, attrs)

    @property
    def sought(self) -> list[str]:
        """The synthesised keys in words, each with its radius: ``income (within 10 %)``."""
        return [
            f"{name} (within {100 * self.radius[name]:g} %)" if name in self.radius else str(name)
            for name in self.synthesized
        ]

    def sentence(self) -> str:
        """Say the result in plain words."""
        rows = self.summary().to_dict("index")
        pooled, mean = rows["pooled"], rows["mean"]
        one = f" With one release only: {mean['expected_match_risk']:,.1f} on average."
        return (
            f"An intruder who {self._knowledge()} would be expected to match "
            f"{pooled['expected_match_risk']:,.1f} of {self.n:,} records "
            f"({_percent(pooled['expected_match_risk'] / self.n)}); without the release "
            f"{self.baseline_expected_match_risk:,.1f}.{one * (self.m > 1)} {_singles(pooled)}"
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Distribution of the match probabilities, against the baseline."""
        from bayes_risk.plots import plot_match_probabilities

        return plot_match_probabilities(self, ax=ax)

    def __repr__(self) -> str:
        rows = self.summary()
        if len(rows) > 12:
            rows = pd.concat([rows.iloc[:9], rows.iloc[-2:]])
        shown = rows.map(lambda v: "-" if pd.isna(v) else f"{v:.4g}")
        return f"IdentificationRisk\n{self.sentence()}\n\n{shown.to_string()}"

    def _knowledge(self) -> str:
        """Say what the intruder knows and looks for."""
        where = "the release" if self.m == 1 else f"the {self.m} releases together"
        known, sought = (", ".join(map(str, names)) for names in (self.known, self.sought))
        if not sought:
            return f"knows {known} (not synthesised) of everyone"
        if not known:
            return f"looks for the true values of {sought} in {where}"
        return f"knows {known} of everyone and looks for the true values of {sought} in {where}"


def _risk(c: Ids, T: Flags) -> Reals:
    """T/c; 0 where c = 0."""
    return np.asarray(T / np.maximum(c, 1), dtype=np.float64)


def _measures(c: Ids, T: Flags, K: Flags, F: Flags, no_match: Flags) -> list[float]:
    """Compute the six file-level measures, in the order of `COLUMNS`."""
    s = int((c == 1).sum())
    false_rate = float(F.sum()) / s if s else float("nan")
    return [
        float(_risk(c, T).sum()),
        float(K.sum()),
        float(K.mean()),
        float(s),
        false_rate,
        float(no_match.sum()),
    ]


def _standard_error(values: Reals) -> Any:
    """Return the standard error of the mean over releases, the first axis; NaN for one."""
    m = len(values)
    if m == 1:
        return np.full(values.shape[1:], np.nan)
    return values.std(axis=0, ddof=1) / np.sqrt(m)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else "less than 0.1 %"


def _singles(row: Mapping[Any, float]) -> str:
    s, true = int(row["unique_matches"]), int(row["true_matches"])
    if not s:
        return "No record has a single best candidate."
    who = "1 record has" if s == 1 else f"{s:,} records have"
    share = _percent(true / s)
    return f"{who} a single best candidate, which is the right one for {true:,} ({share})."


def _storable(index: pd.Index) -> npt.NDArray[Any]:
    """Record labels that NetCDF can hold: numbers as numbers, the rest as text."""
    values = index.to_numpy()
    return values if values.dtype.kind in "iuf" else np.array([str(v) for v in index], dtype=str)
