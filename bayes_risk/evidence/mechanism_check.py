"""Whether files made elsewhere look like files of the model they are audited under.

Given y, the released files and files that `fit.synthesize` makes are exchangeable if the model made
them: whatever a file is measured by, its rank among simulated ones is uniform.
"""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.validate import at_least
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import EncodedRelease, Release

from .contract import Capabilities, Fit, Grown, drawn
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
    encoded = EncodedRelease.of(release, fit.microdata)
    can = fit.capabilities(encoded, Intruder())
    return _check(fit, encoded, can, n_simulated, np.random.default_rng(random_seed))


def checked(
    fit: Fit, release: EncodedRelease, can: Capabilities, rng: np.random.Generator
) -> MechanismCheck | None:
    """The check of files made elsewhere; None: own ones, or the model has no files like them."""
    if not release.source.assumed:
        return None
    try:
        return _check(fit, release, can, None, rng)
    except (InputError, ModelError):  # nothing to compare with: stays "not verified"
        return None


def _check(
    fit: Fit,
    release: EncodedRelease,
    can: Capabilities,
    n_simulated: int | None,
    rng: np.random.Generator,
) -> MechanismCheck:
    simulating, choosing, scoring = rng.spawn(3)
    grown = can.grown
    own_trees = grown is not None and grown.of_files
    together = own_trees or drawn(fit, release) in ("shared", "one-mode")
    size = release.m if together else 1  # files of a unit, which are not exchangeable one by one
    units = release.m // size
    R = n_simulated or _how_many(fit, units, size)
    files = _Files(fit, release, can, scoring)
    files.add(release)
    maker = fit if grown is None else grown.without_floor()
    for some in _simulated(fit, maker, release, R, size, simulating):
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
        impossible={} if grown is None else _impossible(grown, release),
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        kept_models=grown is not None and grown.of_files and not grown.floored,
    )


def _how_many(fit: Fit, units: int, size: int) -> int:
    """How many units to simulate, within what large files allow."""
    n, p = fit.microdata.codes.shape
    return max(LEAST, min(FOR_EACH * units, CELLS // int(n * p * size)))


def _simulated(
    fit: Fit, maker: Fit, release: EncodedRelease, R: int, size: int, rng: np.random.Generator
) -> Iterator[EncodedRelease]:
    """Releases of R units in all, as many files at once as memory and draws allow."""
    options = _options(maker, release)
    n, p = fit.microdata.codes.shape
    most = max(AT_ONCE // (n * p), 1)
    if fit.n_draws:
        most = min(most, fit.n_draws)
    left = R * size
    while left:
        made = maker.synthesize(size if size > 1 else min(left, most), random_seed=rng, **options)
        left -= made.m
        files = EncodedRelease.of(made, fit.microdata)
        _check_alike(maker, release, files)
        yield files


def _options(fit: Fit, release: EncodedRelease) -> dict[str, Any]:
    """What the release says of how it was made, as far as the fit can be asked for it."""
    way = drawn(fit, release)
    wanted: dict[str, Any] = {
        "columns": list(release.synthesized),
        "classes": release.classes,
        "records": release.source.records,
        "parameters": None if way == fit.parameters[0] else way,
    }
    takes = inspect.signature(fit.synthesize).parameters
    return {key: x for key, x in wanted.items() if x is not None and key in takes}


def _check_alike(fit: Fit, release: EncodedRelease, made: EncodedRelease) -> None:
    """Whether simulated files replace the same columns of the same records."""
    same = set(made.synthesized) == set(release.synthesized)
    if not (same and np.array_equal(made.replaced, release.replaced)):
        raise InputError(
            f"{type(fit).__name__} replaces {', '.join(map(str, made.synthesized))} of "
            f"{int(made.replaced.sum()):,} records, the release "
            f"{', '.join(map(str, release.synthesized))} of {int(release.replaced.sum()):,}: "
            "check it with a model of the same columns and records"
        )


class _Files:
    """Released and simulated files, measured one after the other."""

    def __init__(
        self, fit: Fit, release: EncodedRelease, can: Capabilities, rng: np.random.Generator
    ) -> None:
        data = fit.microdata
        self.columns = [c for c in data.columns if c in release.synthesized]
        made = [data.columns.index(c) for c in self.columns]
        shown = {j for j in made if not data.n_levels[j]}
        decimals: dict[int, int | None] = dict.fromkeys(shown)
        for j in shown:
            found = [decimals_of(z[release.replaced, j].astype(float)) for z in release.codes]
            rounded = [d for d in found if d is not None]
            decimals[j] = max(rounded) if len(rounded) == len(found) else None
        self.measures = Measures(data, made, release.replaced, decimals)
        self.scored = (
            can.importance if "importance" in can.methods else None
        )  # has a density of files
        self.scoring = np.zeros(0, dtype=np.int64)
        if self.scored is not None:
            self.scoring = np.sort(rng.permutation(fit.n_draws)[: 2 * SCORING])
        self.log_p: list[Array] = []
        self.used: set[int] = set()

    def add(self, files: EncodedRelease) -> None:
        """Measure every file."""
        for z in files.codes:
            self.measures.add(z)
        if self.scored is not None and len(self.scoring):
            self.log_p.append(self.scored.log_release(files, self.scoring))
        self.used.update(files.source.draw_index or ())

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


def _impossible(grown: Grown, release: EncodedRelease) -> dict[str, int]:
    """Values in leaves that do not hold them, by column, of the file that shows most."""
    worst = grown.report_mismatch(release.source).groupby("column", sort=False)["elsewhere"].max()
    return {str(name): int(count) for name, count in worst.items() if count}
