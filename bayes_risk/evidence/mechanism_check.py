"""Whether files made elsewhere look like files of the model they are audited under.

Given y, the released files and files that `fit.synthesize` makes are exchangeable if the model made
them: whatever a file is measured by, its rank among simulated ones is uniform.
"""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.validate import at_least
from bayes_risk.release.parameters import drawn, ways_of
from bayes_risk.release.release import Release

from .contract import Fit, SampledFit
from .mechanism_result import ALL, MechanismCheck
from .mechanism_statistics import SMALLEST_SD, Measure, Measures, decimals_of, stands_out

Array = npt.NDArray[np.float64]

LEAST = 39  # simulated files: one released file comes first or last of 40 once in 20 times
FOR_EACH = 24  # of each released file: an odd one among m is then one of the m in 4 % of choices
CELLS = 50_000_000  # values that are simulated at most, if that is more than `LEAST` files
AT_ONCE = 5_000_000  # values of simulated files in memory
SCORING = 40  # draws of Theta that log p(Z | Theta) is averaged over
FEWEST_FILES = 19  # with fewer no file comes first in 5 %
FEWEST = 10  # with fewer it is left out
FAR = 1e6  # below all others: a log density of minus infinity


def check_mechanism(
    fit: Fit,
    release: Release,
    *,
    n_simulated: int | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> MechanismCheck:
    """Check released files against files simulated from a fitted model.

    If the model made the m released files, they and R simulated ones are exchangeable given the
    confidential table. Files are measured (tables of columns and of pairs, genuine and distinct
    values of numbers, and log p(Z) where the model has draws of a density); the p-value of a
    measure is how often m files chosen among all m + R differ from the others by as much in any
    measure. Files that the model made fail with probability 0.05.

    Parameters
    ----------
    fit : Fit
        The model that is assumed, fitted to the confidential table.
    release : Release
        The m files.
    n_simulated : int, optional
        R, at least 19; by default 39, or 24 for each of the m released files if that is more (of
        large files no more than 5e7 values in all).
    random_seed : int, Generator or None

    Returns
    -------
    MechanismCheck
        p-values by measure and column, adjusted for all measures, and of the whole; values that the
        model cannot make.

    Raises
    ------
    InputError
        Files that this model has no releases like: other columns, or other records replaced.
    ModelError
        The model cannot synthesise.

    Notes
    -----
    *Parameters.* Files with parameters of their own, or from one estimate, are simulated one by
    one. Files with shared parameters, or from one chain, are simulated m at a time, and one set is
    compared with R sets.

    *log p(Z)* is the mean over 40 posterior draws of log p(Z^(l) | Theta_h), none of which made a
    simulated file; left out where fewer than 10 are left.

    *Numbers.* Where released numbers are rounded to d <= 6 decimals, simulated ones are rounded
    alike before values are compared.

    *Power.* The check can reject a model, never confirm it: a file copied from the original differs
    in genuine values or tables, a small change of a few records in nothing.

    *Cost.* R (or R m) synthetic files, O(n) for each file and pair of columns, and the density of
    40 draws for each.

    References
    ----------
    Westfall, P. H. and Young, S. S. (1993). Resampling-based multiple testing. Wiley.
    Besag, J. and Clifford, P. (1989). Generalized Monte Carlo significance tests. Biometrika 76,
    633-642.

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
        at_least("n_simulated", n_simulated, FEWEST_FILES)
    rng = np.random.default_rng(random_seed)
    simulating, choosing, scoring = rng.spawn(3)
    size = release.m if _belong_together(fit, release) else 1  # files of a unit
    units = release.m // size
    R = n_simulated or _how_many(fit, units, size)
    files = _Files(fit, release, scoring)
    files.add(release)
    for some in _simulated(fit, release, R, size, simulating):
        files.add(some)
    measures, values = files.found()
    smallest = np.array([SMALLEST_SD[measure.kind] for measure in measures])
    by_unit = values.reshape(units + R, size, -1).mean(axis=1)
    difference, p_values = stands_out(by_unit, smallest, units, rng=choosing)
    return MechanismCheck(
        measures=tuple(measures),
        difference=difference,
        p_values=p_values,
        columns=tuple(files.columns),
        n_simulated=R,
        m=release.m,
        impossible=_impossible(fit, release),
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        kept_models=_kept_models(fit),
    )


def checked(fit: Fit, release: Release, rng: np.random.Generator) -> MechanismCheck | None:
    """The check of files made elsewhere; None: own ones, or the model has no files like them."""
    if not release.assumed:
        return None
    if hasattr(fit, "checked"):  # settings of a sweep share it
        return cast(MechanismCheck | None, fit.checked(release, rng=rng))
    try:
        return check_mechanism(fit, release, random_seed=rng)
    except (InputError, ModelError):  # nothing to compare with: stays "not verified"
        return None


def _belong_together(fit: Fit, release: Release) -> bool:
    """Whether files are not exchangeable one by one: from one draw or chain, or own trees each."""
    own_trees = getattr(fit, "of_release", None) is not None
    return own_trees or drawn(fit, release) in ("shared", "one-mode")


def _kept_models(fit: Fit) -> bool:
    """Whether the trees are those that made the files, and no floor says that they may not be."""
    floor = getattr(getattr(fit, "model", None), "floor", None)
    return getattr(fit, "of_release", None) is not None and floor is None


def _how_many(fit: Fit, units: int, size: int) -> int:
    """How many units to simulate, within what large files allow."""
    n, p = fit.microdata.codes.shape
    return max(LEAST, min(FOR_EACH * units, CELLS // int(n * p * size)))


def _simulated(
    fit: Fit, release: Release, R: int, size: int, rng: np.random.Generator
) -> Iterator[Release]:
    """Releases of R units in all, as many files at once as memory and draws allow."""
    maker = fit.without_floor() if hasattr(fit, "without_floor") else fit
    options = _options(maker, release)
    n, p = fit.microdata.codes.shape
    most = max(AT_ONCE // (n * p), 1)
    if fit.n_draws:
        most = min(most, fit.n_draws)
    left = R * size
    while left:
        made = maker.synthesize(size if size > 1 else min(left, most), random_seed=rng, **options)
        _check_alike(maker, release, made)
        left -= made.m
        yield made


def _options(fit: Fit, release: Release) -> dict[str, Any]:
    """What the release says of how it was made, as far as the fit can be asked for it."""
    way = drawn(fit, release)
    wanted: dict[str, Any] = {
        "columns": list(release.synthesized),
        "classes": release.classes,
        "records": release.records,
        "parameters": None if way == ways_of(fit)[0] else way,
    }
    takes = inspect.signature(fit.synthesize).parameters
    return {key: x for key, x in wanted.items() if x is not None and key in takes}


def _check_alike(fit: Fit, release: Release, made: Release) -> None:
    """Whether simulated files replace the same columns of the same records."""
    n = len(fit.microdata.codes)
    same = set(made.synthesized) == set(release.synthesized)
    if not (same and np.array_equal(made.replaced(n), release.replaced(n))):
        raise InputError(
            f"{type(fit).__name__} replaces {', '.join(map(str, made.synthesized))} of "
            f"{int(made.replaced(n).sum()):,} records, the release "
            f"{', '.join(map(str, release.synthesized))} of {int(release.replaced(n).sum()):,}: "
            "check it with a model of the same columns and records"
        )


class _Files:
    """Released and simulated files, measured one after the other."""

    def __init__(self, fit: Fit, release: Release, rng: np.random.Generator) -> None:
        data = fit.microdata
        self.fit, self.columns = fit, [c for c in data.columns if c in release.synthesized]
        made = [data.columns.index(c) for c in self.columns]
        replaced = release.replaced(len(data.codes))
        shown = {j for j in made if not data.n_levels[j]}
        decimals: dict[int, int | None] = dict.fromkeys(shown)
        for j in shown:
            found = [
                decimals_of(release.codes(data, l)[replaced, j].astype(float))
                for l in range(release.m)
            ]
            decimals[j] = None if None in found else max(cast(list[int], found))
        self.measures = Measures(data, made, replaced, decimals)
        self.scoring = np.zeros(0, dtype=np.int64)
        if "reuse" in fit.offers(release):  # has draws of Theta and their density of files
            self.scoring = np.sort(rng.permutation(fit.n_draws)[: 2 * SCORING])
        self.log_p: list[Array] = []
        self.used: set[int] = set()

    def add(self, files: Release) -> None:
        """Measure every file."""
        for l in range(files.m):
            self.measures.add(files.codes(self.fit.microdata, l))
        if len(self.scoring):
            self.log_p.append(cast(SampledFit, self.fit).log_release(files, self.scoring))
        self.used.update(files.draw_index or ())

    def found(self) -> tuple[Sequence[Measure], Array]:
        """Measures and their values, shape (files, measures)."""
        names, values = self.measures.found()
        free = ~np.isin(self.scoring, list(self.used))
        if free.sum() < FEWEST:
            return names, values
        log_p = np.vstack(self.log_p)[:, free].mean(axis=1)
        log_p = np.where(np.isneginf(log_p), log_p[np.isfinite(log_p)].min(initial=0) - FAR, log_p)
        words = Measure(ALL, "log p(Z)", "density")
        return [*names, words], np.column_stack([values, log_p])


def _impossible(fit: Fit, release: Release) -> dict[str, int]:
    """Values in leaves that do not hold them, by column, of the file that shows most."""
    if not hasattr(fit, "report_mismatch"):
        return {}
    worst = fit.report_mismatch(release).groupby("column", sort=False)["elsewhere"].max()
    return {str(name): int(count) for name, count in worst.items() if count}
