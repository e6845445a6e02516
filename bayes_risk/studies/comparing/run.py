"""Candidate releases made, measured and laid side by side."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.validate import at_least
from bayes_risk.evidence.contract import Progress
from bayes_risk.release.release import Release
from bayes_risk.utilities.bounds import release_bounds

from .candidates import Brought, Candidate, Files, Made, read_candidates
from .measuring import Audit, Number, Options, check_names, check_options, with_targets
from .result import SEEDS, Comparison, ordered

ALL: Mapping[str, Any] = MappingProxyType({})


def compare(
    candidates: Mapping[str, Any],
    original: pd.DataFrame,
    *,
    attribute: Options | None = None,
    identification: Options | Callable[[Files], Options] | None = None,
    utility: Options | None = ALL,
    replicates: int = 5,
    bounds: bool | Options = False,
    random_seed: int | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Comparison:
    """Risk and utility of several ways to make a release, replicated over seeds.

    Parameters
    ----------
    candidates : dict of name to candidate
        A declaration of a model, fitted and synthesised anew for every replicate; a fit, which
        makes them all; a `Candidate`, which says m, columns and further options; ``(fit, release)``
        as they are, one replicate; a `Release` or list of DataFrames made elsewhere, one replicate,
        or a list of such `Release`, a replicate each.
    original : DataFrame of n records
        The confidential file. Never changed.
    attribute : dict, optional
        Arguments of `attribute_risk`: ``{"targets": 200}``. Not measured by default, nor of
        releases that were made elsewhere.
    identification : dict, optional
        Arguments of `identification_risk`: ``{"known": [...], "synthesized": [...]}``; or a
        function of the released files that gives them. Not measured by default.
    utility : dict or None
        Arguments of `utility`; None: not measured.
    replicates : int
        How often a model, or fit, makes its release.
    bounds : bool or dict
        Measure the releases at the ends of the scale too (`release_bounds`), of all columns that
        any candidate synthesises; a dict gives arguments: ``{"patterns": ["sex", "age"]}``.
    random_seed : int, optional
        Same seed, same numbers, for any ``n_jobs``. Those of a candidate depend on its name, and
        not on what it is compared with.
    n_jobs : int
        Workers of each fit, audit and utility.
    progress : callable, optional
        Called as ``progress(candidate, replicates done, replicates in all)``.

    Returns
    -------
    Comparison
        ``.summary()``, ``.pareto()``, ``.plot()``, ``.replicates``, ``.dataset``.

    Raises
    ------
    InputError
        No candidates, something that is none, options that do not exist, nothing to measure;
        whatever the parts refuse, with the candidate's name in front.

    Notes
    -----
    *The same question for all.* A number of ``targets`` is drawn once, and all candidates are asked
    about these records. Keys of the matching intruder are sorted for each `Release`: those that it
    synthesised are matched against released values, the others are known. So are grids of guesses
    and ``knows_columns``. A neighbourhood still has more guesses where more is synthesised: compare
    ``gain``, or each risk with its ``baseline``.

    *Every number is that of its part*, to the byte: ``seed_table`` has the seeds with which
    `attribute_risk` and `utility` were called.

    *Replicates* of a model differ by fit, synthesis and computation; they are what the agency would
    have got with another seed. They say nothing of another sample from the population.

    Cost: for each candidate and replicate one fit, release, audit and utility.

    References
    ----------
    Hornby, R. and Hu, J. (2021). Identification risk evaluation of continuous synthesized
    variables. Transactions on Data Privacy 14, 37-52; arXiv:2006.01298. Figures 8-10.
    Duncan, G. T., Keller-McNulty, S. A. and Stokes, S. L. (2001). Disclosure risk vs. data utility:
    the R-U confidentiality map. NISS technical report 121.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayes_risk.models import CART
    >>> df = pd.DataFrame({"sex": list("fm") * 20, "job": list("aabbc") * 8})
    >>> found = compare(
    ...     {"few leaves": CART(order=["job"], min_leaf=20), "many": CART(order=["job"])},
    ...     df, identification={"known": ["sex"], "synthesized": ["job"]}, replicates=2,
    ...     random_seed=1,
    ... )
    >>> found.replicates.shape[0]
    4
    """
    read = read_candidates(candidates)
    at_least("replicates", replicates, 1)
    if random_seed is None:
        random_seed = int(np.random.default_rng().integers(2**31))
    rng = np.random.default_rng(at_least("random_seed", random_seed, 0))
    audit = Audit(
        original=original,
        attribute=with_targets(attribute, len(original), rng.spawn(1)[0]),
        identification=identification,
        utility=utility,
        n_jobs=n_jobs,
    )
    check_options(audit)
    work = _Work(audit, random_seed, progress or _quiet)
    sizes = {name: _size(candidate, replicates) for name, candidate in read.items()}
    for r in range(max(sizes.values())):  # what is wrong with any of them shows in the first round
        for name, candidate in read.items():
            if r < sizes[name]:
                work.add(name, candidate, r, sizes[name])
    ends = _ends(audit, work, bounds, random_seed) if bounds is not False else None
    return work.result(sizes, ends)


Measured = tuple[dict[str, Number], tuple[int, tuple[str, ...]]]


def _quiet(stage: str, done: int, total: int) -> None:
    """Show nothing."""


def _size(candidate: Candidate | Brought, replicates: int) -> int:
    return len(candidate.releases) if isinstance(candidate, Brought) else replicates


def seeds_of(random_seed: int, name: str, replicate: int) -> list[int]:
    """Seeds of a replicate, counted from 0: of fit, release, attribute risk, and utility."""
    source = np.random.SeedSequence([random_seed, replicate, *name.encode()])
    return [int(seed) for seed in source.generate_state(len(SEEDS))]


class _Work:
    """Replicates measured so far."""

    def __init__(self, audit: Audit, random_seed: int, tell: Progress) -> None:
        self.audit, self.random_seed, self.tell = audit, random_seed, tell
        self.numbers: dict[tuple[str, int], dict[str, Number]] = {}
        self.made: dict[str, tuple[int, tuple[str, ...]]] = {}

    def add(self, name: str, candidate: Candidate | Brought, r: int, size: int) -> None:
        """Make one replicate of a candidate and measure it."""

        def tell(*_: Any) -> None:
            self.tell(name, r, size)

        tell()
        seeds = seeds_of(self.random_seed, name, r)
        try:
            measured = stage(
                f"{name}, replicate {r + 1}", lambda: self._measured(candidate, r, seeds, tell)
            )
        except (InputError, ModelError) as error:
            raise type(error)(f"candidate {name!r}: {error}") from error
        self.numbers[name, r], self.made[name] = measured
        self.tell(name, r + 1, size)

    def _measured(
        self, candidate: Candidate | Brought, r: int, seeds: Sequence[int], tell: Any
    ) -> "Measured":
        made = self._make(candidate, r, seeds, tell)
        own = candidate.attribute if isinstance(candidate, Candidate) else {}
        return self.audit.of(made, seeds[2:], own, tell), _described(made.release)

    def _make(
        self, candidate: Candidate | Brought, r: int, seeds: Sequence[int], tell: Any
    ) -> Made:
        if isinstance(candidate, Brought):
            return Made(candidate.fit, candidate.releases[r])
        how = {"n_jobs": self.audit.n_jobs, "progress": tell}
        return candidate.made(self.audit.original, seeds, how)

    def result(self, sizes: Mapping[str, int], ends: list[dict[str, Number]] | None) -> Comparison:
        """All of it, in arrays."""
        taken = (item for numbers in self.numbers.values() for item in numbers.items())
        measures = ordered({name: 1 for name, number in taken if number.value == number.value})
        names = tuple(sizes)
        shape = (len(names), max(sizes.values()))
        parts: npt.NDArray[np.float64] = np.full((3, *shape, len(measures)), np.nan)
        seeds = np.full((*shape, len(SEEDS)), -1, dtype=np.int64)
        for (name, r), numbers in self.numbers.items():
            c = names.index(name)
            seeds[c, r] = seeds_of(self.random_seed, name, r)
            for measure in set(numbers).intersection(measures):
                parts[:, c, r, measures.index(measure)] = numbers[measure]
        return Comparison(
            names=names,
            measures=measures,
            values=parts[0],
            errors=parts[1],
            beside=parts[2],
            seeds=seeds,
            replicates_of=tuple(sizes.values()),
            m=tuple(self.made[name][0] for name in names),
            synthesized=tuple(self.made[name][1] for name in names),
            ends=None if ends is None else _array(ends, measures),
            random_seed=self.random_seed,
        )


def _described(files: Files) -> tuple[int, tuple[str, ...]]:
    """Number of data sets, and what was synthesised (empty: not said)."""
    if isinstance(files, Release):
        return files.m, tuple(map(str, files.synthesized))
    return len(files), ()


def _ends(
    audit: Audit, work: _Work, bounds: bool | Options, random_seed: int
) -> list[dict[str, Number]]:
    """The measures of minimum, maximum and unchanged release."""
    options: dict[str, Any] = {} if bounds is True else dict(bounds or {})
    check_names("bounds", options, release_bounds)
    any_made = {name for _, names in work.made.values() for name in names}
    made = [name for name in audit.original.columns if str(name) in any_made]
    usual: dict[str, Any] = {"synthesized": made, "m": max(m for m, _ in work.made.values())}
    seeds = seeds_of(random_seed, "bounds", 0)
    ends = release_bounds(audit.original, random_seed=seeds[1], **usual | options)
    three = (ends.minimum, ends.maximum, ends.unchanged)
    return [audit.of_files(release, seeds[3]) for release in three]


def _array(
    rows: Sequence[Mapping[str, Number]], measures: Sequence[str]
) -> npt.NDArray[np.float64]:
    nan = Number(float("nan"), float("nan"), float("nan"))
    return np.array([[row.get(name, nan).value for name in measures] for row in rows])
