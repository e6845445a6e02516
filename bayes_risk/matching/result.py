"""Identification risk: candidates, true and false matches of each record, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.formats import counted
from bayes_risk._core.matching import Chances
from bayes_risk.data.base_result import Drawn, Table, count, spread, storable, value

from .exposure_result import Exposure
from .odds import GIVEN
from .radii import Radius, as_setting
from .replicates import error_between, error_of_draws
from .words import Matching, Strategy, measures

BY_TABLE = ("c", "T", "K", "F", "no_match", "outside")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class IdentificationRisk(Matching, Drawn):
    """What an intruder achieves who looks for each record in the release.

    Of target i (`identification_risk` defines c, T, K, F). *Per release* the probability is that of
    one release (Hornby & Hu 2021); *pooled* it is first averaged over the m releases (Reiter &
    Mitra 2009), so a record that matches more often than others stands out.

    Attributes
    ----------
    index : pandas.Index, length n
        Labels of the targets: the records of the original, or those given.
    known, synthesized, radius, shape, closed, missing, fallback, strategy
        As given to `identification_risk`; of ``missing`` the keys that are not ``"level"``.
    population : str
        Where the intruder has the population counts from; "in the file": he knows who is.
    estimated : bool
        Whether these counts were estimated (log-linear model, weights) and not counted.
    reason : bool
        Whether he knows why records were chosen for synthesis.
    in_file : ndarray of bool, shape (n,)
        Targets that have a record in the file.
    c : ndarray of int64, shape (n, m)
        Number of candidates in each release. 0: nothing matched, and no fallback; or no claim.
    T, K, F : ndarrays of bool, shape (n, m)
        True record among the candidates; single and true; single and false.
    no_match : ndarray of bool, shape (n, m)
        No record of the release has the target's full key (with or without fallback).
    outside : ndarray, shape (n, m)
        Pr(J = n + 1), that the target is not in the file.
    pooled_c, pooled_T, pooled_K, pooled_F, pooled_no_match, pooled_outside : ndarrays, shape (n,)
        The same after pooling; ``pooled_no_match``: in no release.
    baseline : ndarray, shape (n,)
        ``1 / N_us``: the chance of hitting the target among the records that share its known keys,
        which takes no synthetic value; 0 for targets outside the file.
    release_of : ndarray of int64, shape (m,), or None
        Of `Replicates` that which it says of each table; None: the tables are the releases.
    pooled_mcse, pooled_draws_mcse : float
        Standard errors of the pooled expected match risk: see `expected_match_risk_mcse` and
        `draws_mcse`.
    exposure : Exposure, or None
        What the files show without a model, uniques by all keys exactly; None for tables drawn.
    """

    index: pd.Index
    known: tuple[str, ...]
    synthesized: tuple[str, ...]
    radius: Mapping[str, Radius]
    shape: str
    closed: bool
    missing: Mapping[str, str]
    fallback: bool
    strategy: Strategy
    population: str
    estimated: bool
    reason: bool
    in_file: Flags
    c: Ints
    T: Flags
    K: Flags
    F: Flags
    no_match: Flags
    outside: Array
    pooled_c: Ints
    pooled_T: Flags
    pooled_K: Flags
    pooled_F: Flags
    pooled_no_match: Flags
    pooled_outside: Array
    baseline: Array
    release_of: Ints | None
    pooled_mcse: float
    pooled_draws_mcse: float
    exposure: Exposure | None = None
    PICTURE: ClassVar[str] = "plot_match_probabilities"

    @property
    def n(self) -> int:
        """Number of targets."""
        return int(self.c.shape[0])

    @property
    def m(self) -> int:
        """Number of tables that the intruder searches: releases, or tables drawn given them."""
        return int(self.c.shape[1])

    @property
    def n_releases(self) -> int:
        """Number of releases; 0 for tables drawn with the parameters known."""
        if self.release_of is None:
            return self.m
        return int(np.count_nonzero(np.unique(self.release_of)))

    @property
    def baseline_expected_match_risk(self) -> float:
        """Expected match risk by the known keys alone, ``sum 1/N_us`` where the file is known."""
        return float(self.baseline.sum())

    @property
    def baseline_true_matches(self) -> int | None:
        """Records that the known keys alone match uniquely and correctly; None: not known.

        Those with no other record in the file that shares their keys. Without knowledge of who is
        in the file nobody can be sure of them, so that there is no such number.
        """
        if self.population != "in the file" or not self.in_file.all():
            return None
        return int((self.baseline == 1).sum())

    @property
    def draws_mcse(self) -> pd.Series:
        """Standard errors from the drawing alone, labelled alike; NaN where nothing was drawn.

        What more tables given the same releases would bring down; the error between releases stays.
        """
        mean = error_of_draws(self.each[:, 0], self.release_of)
        return pd.Series({"mean": mean, "pooled": self.pooled_draws_mcse})

    @property
    def each(self) -> Array:
        """Measures of each table, shape (m, 7)."""
        tables = zip(self.c.T, self.T.T, self.no_match.T, strict=True)
        return np.array([_measures(*table) for table in tables])

    @property
    def pooled(self) -> Array:
        """Measures of the pooled probabilities, shape (7,)."""
        return _measures(self.pooled_c, self.pooled_T, self.pooled_no_match)

    @property
    def records(self) -> pd.DataFrame:
        """One row per target.

        Columns: ``probability`` (pooled T/c: the chance that an intruder who takes one of his best
        candidates hits the target), ``candidates`` (pooled c), ``true_match`` (pooled K),
        ``false_match`` (pooled F), ``outside`` (pooled Pr(J = n + 1)), ``baseline`` (without the
        release), ``mcse`` (standard error over releases of the per-release T/c; NaN for one).
        """
        columns = {
            "probability": self.pooled_T / np.maximum(self.pooled_c, 1),
            "candidates": self.pooled_c,
            "true_match": self.pooled_K,
            "false_match": self.pooled_F,
            "outside": self.pooled_outside,
            "baseline": self.baseline,
            "mcse": error_between((self.T / np.maximum(self.c, 1)).T, self.release_of),
        }
        return pd.DataFrame(columns, index=self.index)

    @property
    def dataset(self) -> xr.Dataset:
        """All of it, labelled: dims ``record, release``; what is pooled is on ``record`` alone.

        Tables that were drawn have a dimension ``table``, with the coordinate ``release_of``. Holds
        record labels but no confidential value. Labels that are not numbers become text.
        """
        what = self.table_word
        data: dict[str, Any] = {name: (("record", what), getattr(self, name)) for name in BY_TABLE}
        pooled = [f"pooled_{name}" for name in BY_TABLE]
        data |= {n: (("record",), getattr(self, n)) for n in (*pooled, "baseline", "in_file")}
        coords: dict[str, Any] = {"record": storable(self.index), what: np.arange(1, self.m + 1)}
        if self.release_of is not None:
            coords["release_of"] = ((what,), self.release_of)
        flags = ("closed", "fallback", "estimated", "reason")
        as_they_are = ("shape", "population", "pooled_mcse", "pooled_draws_mcse")
        settings = {
            "known": "\n".join(map(str, self.known)),
            "synthesized": "\n".join(map(str, self.synthesized)),
            "radius": "\n".join(f"{name} {r!r}" for name, r in self.radius.items()),
            "missing": "\n".join(f"{name} {how}" for name, how in self.missing.items()),
            "strategy": str(self.strategy),
            **{name: int(getattr(self, name)) for name in flags},
            **{name: getattr(self, name) for name in as_they_are},
        }
        return xr.Dataset(data, coords, settings)

    def _rules(self) -> list[str]:
        """Rules of matching that are not the usual ones."""
        means = {"wildcard": "match everything", "never": "match nothing"}
        rules = [
            f"missing values of {name} {means[how]}"
            for name, how in self.missing.items()
            if how in means
        ]
        rules += ["several radii make an ellipse"] if self.shape == "ellipse" else []
        rules += ["knows why records were chosen for synthesis"] if self.reason else []
        return rules

    def _whom(self) -> str:
        if self.in_file.all():
            return f"{self.n:,} records"
        return f"{self.n:,} targets ({int(self.in_file.sum()):,} of them in the file)"

    def counting(self, *, alone: bool) -> list[str]:
        """What matching rests on: counts, estimates of the population, tables that were drawn.

        ``alone``: nothing else was computed, so that it may be said that nothing was sampled.
        """
        said = []
        if self.release_of is not None:
            said.append(f"the intruder searches {self.searched()}")
        if self.estimated:
            said.append(f"population counts are estimates ({self.population})")
        elif self.population == GIVEN:
            said.append("population counts were taken as given")
        if not alone:
            return said
        first = "matches were counted exactly" if said else "exact counting, nothing was sampled"
        return [first, *said]

    def tables(self) -> dict[str, Table]:
        """Match measures, and the records at highest risk, by label.

        Of those level first the ones that the unsynthesised keys alone give away least.
        """
        table = self.records.assign(unique=self.K.sum(axis=1), place=range(self.n))
        order = ["probability", "baseline", "unique", "place"]
        level = int((table["probability"] == table["probability"].max()).sum())
        among = f" {level:,} records share the largest." if level > 1 else ""
        searched = counted(self.m, self.table_word)
        worst = Table(
            title="The ten records at highest risk",
            caption=(
                f"Probability that the intruder's match is the record, {searched} pooled.{among} "
                "Records are named by their label."
            ),
            frame=table.sort_values(order, ascending=[False, True, False, True]).head(10),
            head="Record",
            columns=[
                ("Probability", value("probability")),
                ("Error (2 s.e.)", spread("mcse", "probability")),
                ("Without the release", value("baseline")),
                ("Best candidates", count("candidates")),
                (f"Matched uniquely and correctly (of {self.m:,})", count("unique")),
            ],
        )
        return Matching.tables(self) | {"worst": worst}

    def to_dict(self) -> dict[str, Any]:
        """Sentence, keys, measures by release, pooled and averaged, with error and baseline."""
        as_given = ("known", "synthesized", "shape", "closed", "missing", "reason", "population")
        return {
            "sentence": self.sentence(),
            **{name: getattr(self, name) for name in (*as_given, "strategy", "fallback")},
            "radius": {name: as_setting(r) for name, r in self.radius.items()},
            "population_estimated": self.estimated,
            "measures": self.summary(),
            "baseline_expected_match_risk": self.baseline_expected_match_risk,
            "expected_match_risk_mcse": self.expected_match_risk_mcse.to_dict(),
        }

    def _told(self) -> str:
        return "\n".join(part.sentence() for part in (self, self.exposure) if part is not None)


def _measures(c: Ints, T: Flags, no_match: Flags) -> Array:
    """File-level measures of one release, or pooled."""
    single = c == 1
    counts = [int(flags.sum()) for flags in (T & single, ~T & single, single, no_match, c > 0)]
    return measures(len(c), Chances.of_targets(c, T).expected(), *counts)
