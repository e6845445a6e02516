"""Whether files made elsewhere look like files of the model they are audited under.

Given y, the released files and files that `fit.synthesize` makes are exchangeable if the model made
them: whatever a file is measured by, its rank among simulated ones is uniform. The measures need
no density, and are compared by a permutation test of the largest standardised difference (Westfall
& Young 1993).
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints, Rng
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.formats import number
from bayes_risk._core.validate import whole_number
from bayes_risk.data.base_result import Result
from bayes_risk.data.microdata import Codes
from bayes_risk.data.precision import EXACT, grids_of
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import EncodedRelease, Release
from bayes_risk.release.tables import group_edges, group_of

from .contract import Capabilities, Fit, Grown, Importance, check_kinds, drawn_as

GROUPS = 10  # of a number, or of the levels of a category, in a table of two columns
SMALLEST_SD = {"count": 1.0, "distance": 0.1, "density": 0.1}  # of the variance-stabilised measures
PERMUTATIONS = 1999
TIES = 1e-9
WITH, ORIGINAL = "with ", ", against the original"


class Statistic(NamedTuple):
    """One number of each file: of which column, in words, of which kind (`SMALLEST_SD`)."""

    column: str
    words: str
    kind: str


class _Cells(NamedTuple):
    """Cells of a column: all its levels, or tenths of a number; and at most `GROUPS` of them."""

    edges: Array | None
    group: Ints  # of each cell, the rarest levels together

    @classmethod
    def of(cls, y: Codes, levels: int) -> "_Cells":
        if not levels:
            edges = group_edges(y.astype(float), GROUPS)
            return cls(edges, np.arange(len(edges) + 1))
        counts = np.bincount(y.astype(np.int64), minlength=levels)
        rank = np.argsort(np.argsort(-counts, kind="stable"))
        return cls(None, np.minimum(rank, GROUPS - 1))

    def at(self, values: Codes) -> Ints:
        """Cell of each value."""
        if self.edges is None:
            return values.astype(np.int64)
        return group_of(values.astype(float), self.edges)


def stands_out(values: Array, smallest_sd: Array, m: int, *, rng: Rng) -> tuple[Array, Array]:
    """Whether the first m of N exchangeable files (N, K) differ from the others: by how much.

    ``D_k = |mean_first - mean_others| / (sd_others sqrt(1 / m + 1 / (N - m)))``, sd at least
    ``smallest_sd`` (K,). Its p-value is how often, over `PERMUTATIONS` choices of m files (m = 1:
    all), the largest D of all measures is as large: exact if files are exchangeable.
    """
    N = len(values)
    x = values - np.median(values, axis=0)
    if m == 1:
        chosen = np.eye(N)
    else:
        chosen = np.zeros((PERMUTATIONS + 1, N))
        chosen[0, :m] = 1.0
        for row in chosen[1:]:
            row[rng.choice(N, size=m, replace=False)] = 1.0
    ours, square = chosen @ x, chosen @ x**2
    others = (x.sum(axis=0) - ours) / (N - m)
    variance = ((x**2).sum(axis=0) - square - (N - m) * others**2) / (N - m - 1)
    sd = np.sqrt(np.maximum(variance, smallest_sd**2) * (1 / m + 1 / (N - m)))
    D = np.abs(ours / m - others) / sd
    largest = D.max(axis=1)
    p = (largest[:, None] >= D[0] * (1 - TIES)).mean(axis=0)
    return D[0], p


ALL = ""  # the column of measures of all columns together
LEAST = 39  # simulated files: one released file comes first or last of 40 once in 20 times
FOR_EACH = 24  # of each released file: an odd one among m is then one of the m in 4 % of choices
CELLS = 50_000_000  # values that are simulated at most, if that is more than `LEAST` files
AT_ONCE = 5_000_000  # values of simulated files in memory
SCORING = 40  # draws of Theta that log p(Z | Theta) is averaged over
FEWEST_FILES = 19  # with fewer no file comes first in 5 %
FEWEST = 10  # with fewer it is left out
FAR = 1e6  # below all others: a log density of minus infinity
LEVEL = 0.05  # how often, at most, files that the model did make fail the check
NAMED = 3  # measures of a column that a sentence names


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MechanismCheck(Result):
    """Released files among files simulated from the model that they are audited under.

    Attributes
    ----------
    measures : tuple of Measure, length K
        What files were compared by: column (empty: all together), words, kind.
    difference, p_values : ndarray, shape (K,)
        How many standard deviations of simulated files the released ones lie from their mean;
        p-values, adjusted for all measures together.
    columns : tuple of str
        The synthesised columns.
    n_simulated, m : int
        Simulated files, or sets of m files where these share their parameters; released files.
    impossible : mapping of column to int
        Values that the model cannot make, of the file that shows most, where there are any.
    seed_entropy, kept_models : str, bool
        The seed; whether the fit holds the very models that made the files, kept by the program
        that made them, so that nothing is assumed unless the check fails.
    """

    measures: tuple[Statistic, ...]
    difference: Array
    p_values: Array
    columns: tuple[str, ...]
    n_simulated: int
    m: int
    impossible: Mapping[str, int]
    seed_entropy: str
    kept_models: bool = False

    @property
    def p_value(self) -> float:
        """How often files that the model made differ as much in any measure."""
        return float(self.p_values.min())

    @property
    def failed(self) -> bool:
        """Whether these files were not made by the model, at level `LEVEL`."""
        return bool(self.impossible) or self.p_value <= LEVEL

    @property
    def table(self) -> pd.DataFrame:
        """One row per synthesised column, and one of all of them where the model has a density.

        Columns: ``p_value``; ``measure``, the one that differs most; ``difference`` in standard
        deviations of simulated files; ``impossible``, values that the model cannot make.
        """
        rows = self.summary()
        by = rows.groupby("column", sort=False)
        found = by[["measure", "difference"]].first()  # the largest
        found.insert(0, "p_value", by["p_value"].min())
        found["impossible"] = [self.impossible.get(str(name), 0) for name in found.index]
        return found.loc[[name for name in (*self.columns, ALL) if name in found.index]]

    def summary(self) -> pd.DataFrame:
        """One row per measure, that which differs most first."""
        order = np.argsort(-self.difference, kind="stable")
        found = pd.DataFrame(self.measures).iloc[order, :2].set_axis(["column", "measure"], axis=1)
        numbers = {"difference": self.difference[order], "p_value": self.p_values[order]}
        return found.assign(**numbers).reset_index(drop=True)

    def differs(self) -> str:
        """Where the files differ, by column, in words; empty where they do not."""
        rows, parts = self.summary(), []
        rows = rows[rows["p_value"] <= LEVEL]
        for name, several in rows.groupby("column", sort=False)["measure"]:
            distinct = dict.fromkeys(w.removesuffix(ORIGINAL) for w in several)
            words = sorted(distinct, key=lambda w: w.startswith(WITH))
            more = ", ..." if len(words) > NAMED else ""
            parts.append(f"{str(name) or 'all columns'} ({', '.join(words[:NAMED])}{more})")
        return "; ".join(parts)

    def cannot(self) -> str:
        """Values that the model cannot make, by column, in words; empty where there are none."""
        return ", ".join(f"{count:,} of {name}" for name, count in self.impossible.items())

    def compared(self) -> str:
        """The p-value, and how many simulated files it rests on."""
        p = "p < 0.001" if self.p_value < 0.001 else f"p = {number(self.p_value)}"
        return f"{p}, {self.n_simulated} simulated"

    def to_dict(self) -> dict[str, Any]:
        """Sentence, p-value, outcome, and the columns."""
        return {
            "sentence": self.sentence(),
            "p_value": self.p_value,
            "failed": self.failed,
            "n_simulated": self.n_simulated,
            "columns": self.table.rename(index={"": "(all)"}),
        }

    def __repr__(self) -> str:
        return f"MechanismCheck\n{self.sentence()}\n\n{self.table.round(3).to_string()}"


def check_mechanism(
    fit: Fit,
    release: Release,
    *,
    n_simulated: int | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> MechanismCheck:
    """Check released files against files simulated from a fitted model.

    If the model made the m released files, they and R simulated ones are exchangeable given the
    confidential table. Files are measured by their tables, genuine and distinct values, and log
    p(Z); the p-value of a measure is how often m files chosen among all m + R differ from the
    others by as much in any measure. Files that the model made fail with probability 0.05.

    Parameters
    ----------
    fit, release
        As in `attribute_risk`.
    n_simulated : int, optional
        R, at least 19; by default 39, or 24 for each of the m released files if that is more (of
        large files no more than 5e7 values in all).
    random_seed : int, Generator or None

    Raises
    ------
    InputError
        Files that this model has no releases like: other columns, or other records replaced.
    ModelError
        The model cannot synthesise.

    Notes
    -----
    Files with parameters of their own, or from one estimate, are simulated one by one; with shared
    parameters, or from one chain, m at a time, and one set is compared with R sets. log p(Z) is the
    mean over 40 posterior draws, none of which made a simulated file; left out where fewer than 10
    are left. Where released numbers were rounded (to decimals, digits, multiples of 10), simulated
    ones are rounded alike. The check can reject a model, never confirm it: a file copied from the
    original differs in genuine values or tables, a small change of a few records in nothing. Cost:
    R (or R m) synthetic files, O(n) for each file and pair of columns, the density of 40 draws for
    each.

    References
    ----------
    Westfall & Young (1993), Resampling-based multiple testing, Wiley. Besag & Clifford (1989),
    Generalized Monte Carlo significance tests, Biometrika 76, 633-642.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from bayes_risk.models import CART
    >>> rng = np.random.default_rng(1)
    >>> df = pd.DataFrame({"age": rng.integers(20, 60, 200), "pay": rng.normal(30, 5, 200)})
    >>> fit = CART(["pay"]).fit(df, random_seed=1)
    >>> noise = df.assign(pay=rng.normal(30, 5, 200))
    >>> check_mechanism(fit, Release(datasets=[noise], synthesized=["pay"]), random_seed=1).failed
    True
    """
    if n_simulated is not None:
        whole_number("n_simulated", n_simulated, FEWEST_FILES)
    check_kinds(fit, release)
    encoded = EncodedRelease.of(release, fit.microdata)
    can = fit.capabilities(encoded, Intruder())
    return _check(fit, encoded, can, n_simulated, np.random.default_rng(random_seed))


def checked(
    fit: Fit, release: EncodedRelease, can: Capabilities, rng: Rng
) -> MechanismCheck | None:
    """The check of files made elsewhere; None: own ones, or the model has no files like them."""
    if not release.source.assumed or "simulated" in can:  # of which each file costs a run
        return None
    try:
        return _check(fit, release, can, None, rng)
    except (InputError, ModelError):  # nothing to compare with: stays "not verified"
        return None


def _check(
    fit: Fit, release: EncodedRelease, can: Capabilities, n_simulated: int | None, rng: Rng
) -> MechanismCheck:
    simulating, choosing, scoring = rng.spawn(3)
    grown: Grown | None = can.fit_for("trees")
    own_trees = grown is not None and grown.of_files
    together = own_trees or drawn_as(fit, release) in ("shared", "one-mode")
    size = release.m if together else 1  # files of a unit, which are not exchangeable one by one
    units = release.m // size
    n, p = release.codes.shape[1:]
    # units to simulate, within what large files allow
    R = n_simulated or max(LEAST, min(FOR_EACH * units, CELLS // int(n * p * size)))
    files = _Files(fit, release, can, scoring)
    files.add(release)
    maker = fit if grown is None else grown.without_floor()
    for some in _simulated(fit, maker, release, R, size, simulating):
        files.add(some)
    measures, values = files.found()
    smallest = np.array([SMALLEST_SD[measure.kind] for measure in measures])
    by_unit = values.reshape(units + R, size, -1).mean(axis=1)
    difference, p_values = stands_out(by_unit, smallest, units, rng=choosing)
    impossible = {}
    if grown is not None:  # values in leaves that do not hold them, of the file that shows most
        shown = grown.report_mismatch(release.source).groupby("column", sort=False)["elsewhere"]
        impossible = {str(name): int(count) for name, count in shown.max().items() if count}
    return MechanismCheck(
        measures=tuple(measures),
        difference=difference,
        p_values=p_values,
        columns=tuple(files.names[j] for j in files.made),
        n_simulated=R,
        m=release.m,
        impossible=impossible,
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        kept_models=grown is not None and grown.of_files and not grown.floored,
    )


def _simulated(
    fit: Fit, maker: Fit, release: EncodedRelease, R: int, size: int, rng: Rng
) -> Iterator[EncodedRelease]:
    """Releases of R units in all, made as the release says that it was as far as the fit can."""
    kind, (n, p) = drawn_as(maker, release), release.codes.shape[1:]
    wanted: dict[str, Any] = {
        "columns": list(release.synthesized),
        "classes": release.classes,
        "records": release.source.records,
        "n": None if release.corresponds else n,
        "parameters": None if kind == maker.parameters[0] else kind,
    }
    takes = inspect.signature(maker.synthesize).parameters
    options = {key: x for key, x in wanted.items() if x is not None and key in takes}
    most = max(AT_ONCE // (n * p), 1)
    if fit.n_draws:
        most = min(most, fit.n_draws)
    left = R * size
    while left:
        made = maker.synthesize(size if size > 1 else min(left, most), random_seed=rng, **options)
        left -= made.m
        files = EncodedRelease.of(made, fit.microdata)
        same = set(files.synthesized) == set(release.synthesized)
        same = same and np.array_equal(files.replaced, release.replaced)
        if not same or files.codes.shape[1] != n:
            raise InputError(
                f"{type(maker).__name__} replaces {', '.join(map(str, files.synthesized))} of "
                f"{int(files.replaced.sum()):,} records, the release "
                f"{', '.join(map(str, release.synthesized))} of {int(release.replaced.sum()):,}: "
                "check it with a model of the same columns and records"
            )
        yield files


class _Files:
    """Measures of released and simulated files; tables are kept until all files are there.

    Distances sum (sqrt a - sqrt b)^2 of tables of columns and pairs from the original's and the
    mean (Freeman & Tukey 1950); counts x of genuine and distinct values as 2 sqrt(x + 3/8)
    (Anscombe 1948); and the log density, where there is one. Cost: O(n) for each file and pair.
    """

    def __init__(self, fit: Fit, release: EncodedRelease, can: Capabilities, rng: Rng) -> None:
        codes, levels = fit.microdata.codes, fit.microdata.n_levels
        self.names = fit.microdata.columns
        self.rows = release.rows
        self.original = codes[release.replaced]  # the other records say nothing
        self.made = [j for j, c in enumerate(self.names) if c in release.synthesized]
        self.cells = [_Cells.of(self.original[:, j], int(d)) for j, d in enumerate(levels)]
        numbers = [j for j in self.made if not levels[j]]
        released = [release.codes[:, release.rows, j].astype(float) for j in numbers]
        grids = [next(iter(grids_of(np.unique(z))), EXACT) for z in released]
        self.grids = dict(zip(numbers, grids, strict=True))  # a model's have more decimals
        self.genuine = {
            j: grid.rounded(codes[:, j].astype(float)) for j, grid in self.grids.items()
        }
        self.pairs = [
            (j, other)  # the later one of two that were both synthesised names the pair
            for k, j in enumerate(self.made)
            for other in range(len(levels))
            if other not in self.made[k:]
        ]
        self.tables: list[list[Ints]] = []
        self.counts: list[list[int]] = []
        self.scored: Importance | None = can.fit_for("importance")  # has a density
        self.scoring = np.zeros(0, dtype=np.int64)
        if self.scored is not None:
            self.scoring = np.sort(rng.permutation(fit.n_draws)[: 2 * SCORING])
        self.log_p: list[Array] = []
        self.used: set[int] = set()

    def add(self, files: EncodedRelease) -> None:
        """Measure every file."""
        z = files.codes[:, self.rows]
        self.tables += map(self._tables_of, z)
        self.counts += [[x for j in self.grids for x in self._counted(j, of[:, j])] for of in z]
        if self.scored is not None and len(self.scoring):
            self.log_p.append(self.scored.log_release(files, self.scoring))
        self.used.update(files.source.draw_index or ())

    def found(self) -> tuple[list[Statistic], Array]:
        """Measures and their values, shape (files, measures)."""
        names, values = [], []
        size = self.rows.sum() / len(self.original)
        for t, whole in enumerate(self._tables_of(self.original)):
            files = np.stack([tables[t] for tables in self.tables]).astype(float)
            for centre in (size * whole, files.mean(axis=0)):
                values.append(((np.sqrt(files) - np.sqrt(centre)) ** 2).sum(axis=1))
        for j, other in [*((j, -1) for j in self.made), *self.pairs]:
            what = "values" if other < 0 else f"{WITH}{self.names[other]}"
            names += [Statistic(self.names[j], what + of, "distance") for of in (ORIGINAL, "")]
        for j in self.grids:
            for words in ("genuine values", "values that no record has", "distinct values"):
                names.append(Statistic(self.names[j], words, "count"))
        values += list(2 * np.sqrt(np.array(self.counts).T + 0.375))
        free = ~np.isin(self.scoring, list(self.used))
        if free.sum() >= FEWEST:
            log_p = np.vstack(self.log_p)[:, free].mean(axis=1)
            least = log_p[np.isfinite(log_p)].min(initial=0) - FAR
            values.append(np.where(np.isneginf(log_p), least, log_p))
            names.append(Statistic(ALL, "log p(Z)", "density"))
        return names, np.column_stack(values)

    def _tables_of(self, codes: Codes) -> list[Ints]:
        fine = [cells.at(z) for cells, z in zip(self.cells, codes.T, strict=True)]
        coarse = [cells.group[at] for cells, at in zip(self.cells, fine, strict=True)]
        size = [int(cells.group.max()) + 1 for cells in self.cells]
        one = [np.bincount(fine[j], minlength=len(self.cells[j].group)) for j in self.made]
        two = [
            np.bincount(coarse[a] * size[b] + coarse[b], minlength=size[a] * size[b])
            for a, b in self.pairs
        ]
        return one + two

    def _counted(self, j: int, values: Codes) -> list[int]:
        """Numbers of values that are genuine, or not, and of distinct ones; as released."""
        numbers = self.grids[j].rounded(values.astype(float))
        genuine = int(np.isin(numbers, self.genuine[j]).sum())
        return [genuine, len(numbers) - genuine, len(np.unique(numbers))]
