"""What the confidential values may have been, to an intruder who knows the synthesis model.

And standard errors: between releases, and of tables drawn given them. ``release_of``, shape (m,),
says of each table which release it was drawn given (0: none, the parameters were known); None: the
tables are the releases themselves. Formulas: ``docs/identification.md``, "Errors".
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import whole_number
from bayes_risk.release.release import Release

NAN = float("nan")
PARTS = 5  # single tables would not do: the best candidate is no smooth function of them


def strata(release_of: Ints) -> list[Ints]:
    """The tables of each release, in the order of the releases."""
    return [np.flatnonzero(release_of == l) for l in np.unique(release_of)]


def error_between(values: Array, release_of: Ints | None) -> Any:
    """Standard error over releases of the mean over tables, the first axis; NaN for one release."""
    if release_of is not None:
        values = np.stack([values[part].mean(axis=0) for part in strata(release_of)])
    if len(values) == 1:
        return np.full(values.shape[1:], np.nan)
    return values.std(axis=0, ddof=1) / np.sqrt(len(values))


def error_of_draws(values: Array, release_of: Ints | None) -> float:
    """Standard error of the mean over tables (m,), the releases being given.

    ``sqrt(sum_l T_l s_l^2) / m``, with the T_l tables of release l and their variance s_l^2; NaN
    where a release has one table only, and where nothing was drawn.
    """
    if release_of is None:
        return NAN
    parts = [values[part] for part in strata(release_of)]
    if min(map(len, parts)) < 2:
        return NAN
    return float(np.sqrt(sum(len(part) * part.var(ddof=1) for part in parts)) / len(values))


def parts_of_draws(release_of: Ints) -> list[Ints]:
    """`PARTS` parts of the tables, or fewer, with equal shares of releases; none of one table."""
    each = strata(release_of)
    n_parts = min(PARTS, *map(len, each))
    if n_parts < 2:
        return []
    cut = [np.array_split(tables, n_parts) for tables in each]
    return [np.concatenate(pieces) for pieces in zip(*cut, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replicates(Shown):
    """Tables drawn from the intruder's model (Y_rep): a list that knows where each came from.

    Tables drawn given one release are no further releases: `identification_risk` pools over them,
    and takes its errors between the releases that they came from.
    """

    datasets: Sequence[pd.DataFrame]  # the tables, those given release 1 first
    synthesized: Sequence[str]  # the columns that were drawn
    # the release given which each table was drawn, counted from 1; 0: no release, the parameters
    # were known
    release_of: tuple[int, ...]
    records: Flags | None = None  # shape (n,): which records were drawn; all of them by default

    def __len__(self) -> int:
        """Number of tables."""
        return len(self.datasets)

    def __getitem__(self, k: int) -> pd.DataFrame:
        """Table k, counted from 0."""
        return self.datasets[k]

    @property
    def n_releases(self) -> int:
        """Number of releases that the tables came from; 0 where the parameters were known."""
        return len(set(self.release_of) - {0})

    def of_first(self, m: int) -> "Replicates":
        """The tables drawn given the first m releases."""
        kept = [k for k, l in enumerate(self.release_of) if 1 <= l <= m]
        return Replicates(
            datasets=[self.datasets[k] for k in kept],
            synthesized=self.synthesized,
            release_of=tuple(self.release_of[k] for k in kept),
            records=self.records,
        )

    def __repr__(self) -> str:
        given = f"{self.n_releases} releases" if self.n_releases else "the parameters"
        return f"Replicates: {len(self)} tables of {list(self.synthesized)} drawn given {given}"


def replicates(
    release: Release,
    model: Any,
    *,
    n_tables: int = 20,
    random_seed: int | np.random.Generator | None = None,
    **fit_options: Any,
) -> Replicates:
    """Draw the synthesised values anew from their posterior given the release (Y_rep).

    An intruder who knows the model fits it to each released file, and draws the synthesised values
    given the others (Reiter & Mitra 2009; Drechsler & Reiter 2008, eq. 5). Hand the result to
    `identification_risk` in the place of the release.

    Parameters
    ----------
    release : Release
        All columns of the model in each file.
    model : declaration or Fit
        The model that made the release: the intruder knows the model (S) and fits it to each
        released file. Or the agency's fit: the intruder knows all parameters too.
    n_tables : int
        Number of drawn tables in all, at least m. A multiple of m gives all releases equal weight;
        otherwise the first ones have one table more, and count more.
    random_seed : int, Generator or None
    **fit_options
        Arguments of ``model.fit``, such as ``columns``, ``draws`` and ``tune`` of the sampler.

    Returns
    -------
    Replicates
        Of just ``n_tables`` tables, each with the release that it was drawn given.

    Raises
    ------
    InputError
        Something that is not a `Release`, or not a model; fewer tables than releases; options that
        ``model.fit`` does not have, or for a model that is fitted already; a model whose releases
        replace other columns or records.

    Notes
    -----
    Records that were not replaced keep their values (`Release.records` is known to this intruder).
    Costs m fits. A synthetic record is assumed to depend on its own confidential values through the
    parameters only, which holds for fresh classes, regressions and leaves of trees, and not for
    ``classes="own"``; those are refused.

    Examples
    --------
    >>> import bayes_risk as br
    >>> original = pd.DataFrame({"x": [1.0, 2, 3, 4, 5, 6], "y": [2.0, 4, 5, 8, 9, 13]})
    >>> model = br.models.CART(order=["y"], min_leaf=3)
    >>> release = model.fit(original, random_seed=1).synthesize(m=2, random_seed=2)
    >>> replicates(release, model, n_tables=5, random_seed=3).release_of
    (1, 1, 1, 2, 2)
    """
    if not isinstance(release, Release):
        raise InputError(
            f"release is a {type(release).__name__}; give a Release: files made elsewhere as "
            "Release(datasets=[...], synthesized=[...])"
        )
    if release.classes == "own":
        raise InputError(
            'the release has `classes="own"`: synthetic records then depend on their own '
            "confidential "
            "values directly, which drawing anew leaves out; use the releases themselves"
        )
    n_tables = whole_number("n_tables", n_tables, release.m)
    try:
        rng = np.random.default_rng(random_seed)
    except (TypeError, ValueError):
        raise InputError(
            "random_seed",
            random_seed,
            "is not a seed; give a whole number >= 0, a Generator or None",
        ) from None
    tables: list[pd.DataFrame] = []
    if hasattr(model, "synthesize"):
        if fit_options:
            raise InputError(
                f"{sorted(fit_options)} are for fitting, and the model is fitted already; leave "
                "them out"
            )
        of = [0] * n_tables
        tables += _drawn(model, release, n_tables, rng)
    else:
        if isinstance(model, type) or not callable(getattr(model, "fit", None)):
            what = f"class {model.__name__}" if isinstance(model, type) else type(model).__name__
            raise InputError(
                f"model is a {what}; give the model that made the release, such as "
                'models.CART(order=["y"]), or its fit'
            )
        takes = inspect.signature(model.fit).parameters
        unknown = [name for name in fit_options if name not in takes]
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in takes.values()):
            raise InputError(
                f"fit of {type(model).__name__} takes no {unknown[0]!r}; its options are "
                f"{sorted(set(takes) - {'df', 'random_seed'})}"
            )
        sizes = [len(part) for part in np.array_split(np.arange(n_tables), release.m)]
        of = np.repeat(np.arange(1, release.m + 1), sizes).tolist()
        for df, size, child in zip(release.datasets, sizes, rng.spawn(release.m), strict=True):
            seed = {"random_seed": child} if "random_seed" in takes else {}  # PMM: nothing to draw
            tables += _drawn(model.fit(df, **seed, **fit_options), release, size, child)
    return Replicates(
        datasets=tables,
        synthesized=release.synthesized,
        release_of=tuple(of),
        records=release.records,
    )


def _drawn(fit: Any, release: Release, m: int, rng: np.random.Generator) -> Sequence[pd.DataFrame]:
    """m tables with the columns and records of the release replaced."""
    options: dict[str, Any] = {"columns": list(release.synthesized)}
    takes = inspect.signature(fit.synthesize).parameters
    if release.records is not None and "records" in takes:
        options["records"] = release.records
    made: Release = fit.synthesize(m, random_seed=rng, **options)
    n = len(release.datasets[0])
    which, of_release = made.replaced(n), release.replaced(n)
    if set(made.synthesized) != set(release.synthesized) or (which != of_release).any():
        raise InputError(
            f"the model replaces {list(made.synthesized)} of {which.sum():,} of {n:,} records and "
            f"the release {list(release.synthesized)} of {of_release.sum():,}, or of others; give "
            "the model that made the release, with the same records"
        )
    return made.datasets
