"""The ends of the scale: releases of highest and lowest inherent risk, made without a model."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import distinct_rows
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import known_columns, one_of, whole_number
from bayes_risk.data.microdata import checked_table
from bayes_risk.data.variables import looks_continuous
from bayes_risk.release.release import Release

Measure = Callable[[Release], "float | Mapping[Hashable, float] | pd.Series[Any]"]
PLACES = ("minimum", "release", "maximum", "unchanged")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleaseBounds(Shown):
    """Releases at the ends of the scale of risk; made by `release_bounds`.

    Attributes
    ----------
    minimum, maximum, unchanged : Release
        Values drawn uniformly over levels or range, which depend on no record; values redrawn
        from records with the same pattern, what synthesis can do at most that keeps everything but
        who is who within a pattern; the original, m times.
    patterns, alone : tuple of str, int
        Columns whose combinations are the patterns; records with a pattern of their own, whose
        values the maximum leaves as they are.
    """

    minimum: Release
    maximum: Release
    unchanged: Release
    patterns: tuple[str, ...]
    alone: int

    def between(self, release: Release, measure: Measure) -> pd.DataFrame:
        """Where a number stands between the ends.

        Parameters
        ----------
        release : Release
            The candidate.
        measure : function of a Release
            Returns a number, or several by name (a dict or Series).

        Returns
        -------
        DataFrame
            One row per number; columns ``minimum``, ``release``, ``maximum``, ``unchanged`` and
            ``position``, ``(release - minimum) / (maximum - minimum)``: 0 as at the minimum, 1 as
            at the maximum (NaN where they are equal; outside 0 to 1 where the release is beyond).

        Examples
        --------
        >>> df = pd.DataFrame({"sex": list("ffmm") * 5, "job": list("abcd") * 5})
        >>> ends = release_bounds(df, synthesized=["job"], m=2, random_seed=1)
        >>> kept = lambda r: float(np.mean([(z["job"] == df["job"]).mean() for z in r.datasets]))
        >>> ends.between(ends.maximum, kept)["position"].tolist()
        [1.0]
        """
        four = zip(PLACES, (self.minimum, release, self.maximum, self.unchanged), strict=True)
        table = pd.DataFrame({name: _by_name(measure(one)) for name, one in four})
        span = table["maximum"] - table["minimum"]
        table["position"] = (table["release"] - table["minimum"]) / span.where(span != 0)
        return table.rename_axis("measure")

    def __repr__(self) -> str:
        n = len(self.unchanged.datasets[0])
        return (
            f"ReleaseBounds of {', '.join(map(str, self.unchanged.synthesized))} "
            f"(m = {self.unchanged.m}, {n:,} records)\n"
            f"maximum: redrawn from records with the same {', '.join(map(str, self.patterns))} "
            f"({self.alone:,} records are alone in theirs and keep their values)\n"
            f"minimum: uniform over levels or range"
        )


def release_bounds(
    original: pd.DataFrame,
    *,
    synthesized: Sequence[str],
    patterns: Sequence[str] | None = None,
    m: int = 5,
    how: str = "bootstrap",
    numbers: Sequence[str] | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> ReleaseBounds:
    """Releases at both ends of the scale of risk, so that a number has something to compare with.

    Parameters
    ----------
    original : DataFrame of n records
        The confidential file. Never changed.
    synthesized : list of str
        Columns to replace.
    patterns : list of str, optional
        Unsynthesised columns within whose combinations values are redrawn; all of them by default.
        With many of them most records are alone, and the maximum is the original.
    m : int
        Number of data sets of each release.
    how : {"bootstrap", "permute"}
        Within a pattern every record takes all synthesised values of one record, drawn with
        replacement (Hu & Savitsky 2018, arXiv:1809.10074), or exchanged, which keeps the values of
        each pattern.
    numbers : list of str, optional
        Synthesised columns drawn uniformly over their range at the minimum: numeric ones with more
        than 20 distinct values by default. All others over the levels (a ``category`` column's,
        else those that some record has; missing counts as one).
    random_seed : int, Generator or None
        Same seed, same releases.

    Returns
    -------
    ReleaseBounds
        Releases for `identification_risk`, `utility` and the like, and
        `ReleaseBounds.between`, which puts a number between the ends.

    Raises
    ------
    InputError
        No column synthesised; a pattern that is synthesised; columns that are missing.

    Notes
    -----
    They bound what synthesis given the patterns can do on average: see ``docs/utility.md``.

    Examples
    --------
    >>> import pandas as pd
    >>> df = pd.DataFrame({"sex": list("ffmm") * 5, "job": list("abcd") * 5})
    >>> ends = release_bounds(df, synthesized=["job"], m=2, random_seed=1)
    >>> sorted(set(ends.maximum.datasets[0].loc[df["sex"] == "f", "job"]))
    ['a', 'b']
    """
    whole_number("m", m)
    one_of("how", how)
    if not len(checked_table(original, "original")):
        raise InputError("original has no records; give at least one")
    present = list(original.columns)
    made = known_columns("synthesized", synthesized, present, least=1)
    others = [c for c in present if c not in made]
    by = others if patterns is None else known_columns("patterns", patterns, present)
    for name in by:
        if name in made:
            raise InputError(f"patterns names {name!r}, which is synthesised; leave it out")
    if numbers is None:
        numbers = [c for c in made if looks_continuous(original[c])]
    for name in known_columns("numbers", numbers, made):
        if not pd.api.types.is_numeric_dtype(original[name].dtype):
            raise InputError(f"numbers names {name!r}, which holds no numbers; leave it out")
    rng = np.random.default_rng(random_seed)
    entropy = str(rng.bit_generator.seed_seq.entropy)  # type: ignore[attr-defined]
    for_minimum, for_maximum = rng.spawn(2)
    codes = [pd.factorize(original[name], use_na_sentinel=False)[0] for name in by]
    _, where, _ = distinct_rows(np.column_stack([np.zeros(len(original), np.int64), *codes]))

    def released(tables: Sequence[Mapping[str, Any]]) -> Release:
        datasets = [original.assign(**table) for table in tables]
        return Release(datasets=datasets, synthesized=made, seed_entropy=entropy)

    def uniform(rng: np.random.Generator) -> dict[str, Any]:
        return {name: _uniform(original[name], name in numbers, rng) for name in made}

    def redrawn(rng: np.random.Generator) -> dict[str, Any]:
        donor = _donors(where, how, rng)
        return {name: original[name].array.take(donor) for name in made}

    return ReleaseBounds(
        minimum=released(list(map(uniform, for_minimum.spawn(m)))),
        maximum=released(list(map(redrawn, for_maximum.spawn(m)))),
        unchanged=released([{}] * m),
        patterns=tuple(by),
        alone=int((np.bincount(where) == 1).sum()),
    )


def _donors(where: Ints, how: str, rng: np.random.Generator) -> Ints:
    """For every record one with the same pattern, whose values it takes."""
    order = np.argsort(where, kind="stable")  # records, pattern by pattern
    donor = np.empty(len(where), dtype=np.int64)
    if how == "permute":
        donor[order] = np.lexsort((rng.random(len(where)), where))
    else:
        size = np.bincount(where)
        start = (np.cumsum(size) - size)[where[order]]
        donor[order] = order[start + rng.integers(size[where[order]])]
    return donor


def _uniform(column: pd.Series, continuous: bool, rng: np.random.Generator) -> Any:
    """Values over a column's range, or its levels."""
    n, dtype = len(column), column.dtype
    if continuous:
        low, high = column.min(), column.max()
        if pd.api.types.is_integer_dtype(dtype):
            return pd.Series(rng.integers(int(low), int(high) + 1, size=n)).astype(dtype).array
        return pd.Series(rng.uniform(float(low), float(high), size=n)).astype(dtype).array
    levels = pd.Series(column.unique(), dtype=dtype).sort_values(ignore_index=True)
    if isinstance(dtype, pd.CategoricalDtype):
        declared = pd.Series(column.cat.categories).astype(dtype)
        levels = pd.concat([declared, levels[levels.isna()]], ignore_index=True)
    return levels.array.take(rng.integers(len(levels), size=n))


def _by_name(found: Any) -> "pd.Series[Any]":
    if isinstance(found, pd.Series):
        return found.astype(float)
    if isinstance(found, Mapping):
        return pd.Series(dict(found), dtype=float)
    return pd.Series({"value": float(found)})
