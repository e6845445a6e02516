"""Evidence from published noisy tables: exact, without a model and without draws.

Who knows every other record knows every count but for the target's own: ``p(t | y*, y_-i)`` is the
product over published cells of ``p(t_c | f_c(y*, y_-i))``, and a guess moves at most two cells of a
table, by one each. Derivation and use: `docs/published-tables.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.evidence.contract import Simulated, Targets
from bayes_risk.evidence.evidence import known_evidence
from bayes_risk.evidence.problem import Sample, cases_of, target_rows
from bayes_risk.intruder.grids import as_guesses, guesses_in_words
from bayes_risk.intruder.intruder import KNOWN, Intruder
from bayes_risk.release.noise import WITHOUT_LATTICE, Noise

from .attribute import AttributeEvidence
from .posterior import MAX_MCSE_LOG_ODDS, Limits


class PublishedRelease(NamedTuple):
    """What stands for a release, also as it is encoded, where tables and no file were published."""

    microdata: Microdata
    synthesized: list[str]
    replaced: Flags
    maker: str
    m: int
    seed_entropy: str = ""
    classes: str = "new"
    groups: None = None
    parameters: None = None
    assumed: bool = False
    by_draw: tuple[tuple[int, ...], ...] = ((0,),)


class CountedCells(NamedTuple):
    """A table read against the confidential one.

    ``cell`` (C,), ascending: number of each published cell; ``down``, ``up`` (C,): what the log
    probability of its published count changes by with one record less, or more.
    """

    columns: Ints
    strides: Ints
    cell: Ints
    down: Array
    up: Array

    def change(self, cell: Ints, by: Array) -> Array:
        """Change of the log probability of cells by number; 0 for those that are not published."""
        at = np.searchsorted(self.cell, cell).clip(max=len(self.cell) - 1)
        return np.where(self.cell[at] == cell, by[at], 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Published(Shown):
    """Counts published with noise.

    Parameters
    ----------
    table : Series, DataFrame, or list of them
        Published counts. The index, and of a cross table the columns too, are named after columns
        of the confidential table, and hold its values: what ``pd.crosstab(df.sex, df.job)`` or
        ``df.value_counts(["sex", "job"])`` has. Cells that are not there were not published.
    noise : str
        ``"geometric"``, ``"discrete-gaussian"``, ``"laplace"``, ``"gaussian"``, ``"cell-key"``,
        ``"random-rounding"`` or ``"rounding"`` (to the nearest multiple, halves up), each cell by
        itself.
    scale : float, optional
        Of the first four: ``P(t|f)`` proportional to ``exp(-|t-f|/scale)``, or the standard
        deviation of the (discrete) normal distribution.
    base : int, optional
        Of roundings: the multiple.
    p_table : DataFrame, optional
        Of ``"cell-key"``: a row for each true count 0, 1, 2, ..., the last for all larger ones; a
        column for each change; their probabilities, which add up to 1 in every row.

    Raises
    ------
    InputError
        No table; tables without names, with a cell twice, or counts that are not numbers; unknown
        noise; settings that are missing, out of range, or of another noise.

    Notes
    -----
    A record that changes leaves one cell of each table and enters another. So the log evidence of
    two guesses differs by at most twice `Noise.epsilon` a table, in total `epsilon`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> df = pd.DataFrame({"sex": list("ffmm"), "ill": list("ynnn")})
    >>> counts = pd.crosstab(df.sex, df.ill) + np.array([[1, 0], [-2, 1]])
    >>> tables = Published(counts, noise="geometric", scale=1.0)
    >>> tables
    Published: 1 table of 4 cells (sex x ill), geometric noise of scale 1; epsilon 2
    >>> risk = tables.evidence(df, columns=["ill"]).risk("uniform")
    >>> risk.records["probability"].round(2).tolist()
    [0.5, 0.88, 0.12, 0.12]
    """

    table: Any
    noise: str
    scale: float | None = None
    base: int | None = None
    p_table: pd.DataFrame | None = None

    def __post_init__(self) -> None:
        law = Noise(self.noise, self.scale, self.base, self.p_table)
        given = self.table if isinstance(self.table, list | tuple) else [self.table]
        if not given:
            raise InputError("table is an empty list; give at least one table of counts")
        each = tuple(_long(one, f"table {k}", law) for k, one in enumerate(given, start=1))
        object.__setattr__(self, "table", each)

    @property
    def law(self) -> Noise:
        """The noise of a cell."""
        return Noise(self.noise, self.scale, self.base, self.p_table)

    @property
    def epsilon(self) -> float:
        """Bound of differential privacy for a record that changes, over all tables; or infinite."""
        return 2 * len(self.table) * self.law.epsilon

    def __repr__(self) -> str:
        k, bound = len(self.table), self.epsilon
        names = ", ".join(" x ".join(map(str, t.index.names)) for t in self.table)
        cells = sum(map(len, self.table))
        privacy = f"; epsilon {bound:g}" if np.isfinite(bound) else ""
        tables = f"{k} table{'s' if k > 1 else ''} of {cells:,} cells ({names})"
        return f"Published: {tables}, {self.law.in_words()}{privacy}"

    def evidence(
        self,
        df: pd.DataFrame | Microdata,
        *,
        columns: Sequence[str] | None = None,
        guesses: Any = None,
        targets: Any = None,
        intruder: Intruder | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> AttributeEvidence:
        """Evidence of the tables for every guess, for ``.risk(prior)``.

        ``log p(t | y*, y_-i) - log p(t | y_i, y_-i)``, exactly; one row a table.

        Parameters
        ----------
        df : DataFrame or Microdata
            The confidential table: the one that was counted.
        columns : list of str, optional
            Columns whose values are guessed, all of the tables' by default. The intruder knows
            the target's others.
        guesses, targets
            As in `attribute_risk`.
        intruder : Intruder, optional
            Who knows every record but the target's, and ``knows_columns``; no other is offered.
        random_seed : int, Generator or None
            Draws targets, where these are a number.

        Returns
        -------
        AttributeEvidence
            Method ``"published"``; ``words["evidence"]`` has the bound `epsilon` beside the largest
            gap between two guesses of a record; `privacy_loss` has it by record.

        Raises
        ------
        InputError
            Columns or values that the confidential table has not; counts that it cannot have
            given; a number among the columns; another intruder; unknown targets.

        Notes
        -----
        Cost: a pass over (G, n_cases) a table; no draw, no Monte Carlo error.
        """
        who = Intruder() if intruder is None else intruder
        if who.knows_less or not who.knows_target_in_file or who.household != KNOWN:
            raise InputError(
                f"{who.in_words()} Published offers no evidence for that: give "
                '`knows_records="all-but-target"`, no in_file and no household'
            )
        rng = np.random.default_rng(random_seed)
        data, wanted = self._read(df, columns)
        everybody, k = np.ones(len(data.codes), dtype=bool), len(self.table)
        maker = " ".join(map(_digest, self.table))
        release: Any = PublishedRelease(data, wanted, everybody, maker, k)
        rows, weighed = target_rows(targets, release, who, rng, "targets"), as_guesses(guesses, ())
        cases, case = cases_of(release, who, weighed, rows)
        if cases.guesses.finer is not None:
            raise InputError("guesses are too many to be listed; give JointGrid a larger budget")
        names = [data.columns[j] for j in cases.columns]
        read = [_cells(t, data, self.law, k) for k, t in enumerate(self.table, start=1)]
        log_p = np.stack([_log_evidence(one, cases) for one in read])  # shape (tables, G, U)
        found = known_evidence(Simulated.exact(log_p), cases)
        total = np.where(cases.guesses.counted, found.log_evidence.sum(axis=0), np.nan)
        gap = float((np.nanmax(total, axis=0) - np.nanmin(total, axis=0)).max())
        entropy = str(rng.bit_generator.seed_seq.entropy)  # type: ignore[attr-defined]
        some = len(rows) < len(data.codes)
        return AttributeEvidence(
            microdata=data,
            release=release._replace(synthesized=names, seed_entropy=entropy),
            encoded=None,
            exposure=None,
            index=data.index[rows],
            case=case,
            cases=cases,
            found=found,
            disclosed=np.zeros(len(cases), dtype=bool),
            log_rest=np.full(len(cases), -np.inf),
            searched=None,
            limits=Limits(log_odds=MAX_MCSE_LOG_ODDS, khat=np.inf, ess=0.0),
            way="published",
            words=self._words(who, names, guesses_in_words(weighed, names), gap),
            any_release=False,
            factors="tables of counts have no factor for each column",
            seed_entropy=entropy,
            sample=Sample(len(data.codes), isinstance(targets, int | np.integer)) if some else None,
        )

    def _read(self, df: Any, columns: Sequence[str] | None) -> tuple[Microdata, list[str]]:
        """The confidential table, and the names of the columns to be guessed."""
        own = [*dict.fromkeys(name for t in self.table for name in t.index.names)]
        present = list(df.columns)
        known_columns("table", own, present, "the confidential table")
        given = own if columns is None else columns
        wanted = list(known_columns("columns", given, present, "the confidential table", least=1))
        used = [c for c in present if c in (*own, *wanted)]
        if not isinstance(df, Microdata):
            df = Microdata.from_frame(df, columns=used)
        if numbers := [c for c in used if c in df.numbers]:
            raise InputError(
                f"columns {numbers} are numbers, and tables count categories; cut them into the "
                "classes of the tables (`pandas.cut`)"
            )
        return df, wanted

    def _words(self, who: Intruder, names: list[str], guesses: str, gap: float) -> dict[str, str]:
        bound = self.epsilon
        text = "published: the exact probability of every published count; log evidence of two "
        text += f"guesses of a record differs by at most {gap:.3g}"
        if np.isfinite(bound):
            text += f", and by no more than epsilon = {bound:g} for any data"
        return {
            "records": who.in_words(),
            "columns": f"guessed: {', '.join(map(str, names))}",
            "synthesis": repr(self).removeprefix("Published: "),
            "guesses": guesses,
            "evidence": text,
            "releases": "tables of counts; no synthetic file",
        }


def _long(given: Any, what: str, law: Noise) -> pd.Series:
    """A table as a Series with one named level of the index for each column that is counted."""
    if isinstance(given, pd.DataFrame):
        if given.columns.names == [None] and given.shape[1] == 1:
            given = given.iloc[:, 0]
        elif None not in given.columns.names:
            given = given.stack(list(range(given.columns.nlevels)), future_stack=True)
    if not isinstance(given, pd.Series) or None in given.index.names or not len(given):
        raise InputError(
            f"{what} is not a table of counts with named columns; give a Series or cross table "
            "whose index names are columns: pd.crosstab(df.sex, df.job)"
        )
    if not given.index.is_unique:
        raise InputError(f"{what} has a cell twice; give each cell one count")
    try:
        counts = given.astype(float)
    except (TypeError, ValueError):
        raise InputError(f"{what} holds text; give counts") from None
    whole = law.kind in WITHOUT_LATTICE or not (counts % 1 != 0).any()
    if not np.isfinite(counts).all() or not whole:
        raise InputError(
            f"{what} has counts that are missing, infinite, or not whole under noise="
            f"{law.kind!r}; drop cells that were not published"
        )
    return counts


def _digest(table: pd.Series) -> str:
    """The same of a table in another order of cells or columns; another of other columns."""
    names: Any = sorted(table.index.names, key=str)
    if len(names) > 1:
        table = table.reorder_levels(names)
    cells = np.sort(pd.util.hash_pandas_object(table).to_numpy())
    return blake2b(repr(names).encode() + cells.tobytes(), digest_size=16).hexdigest()


def _cells(table: pd.Series, data: Microdata, law: Noise, k: int) -> CountedCells:
    """A table read against the confidential one, every published count possible."""
    names = [str(name) for name in table.index.names]
    columns = np.array([data.columns.index(c) for c in names])
    frame, by_name = table.index.to_frame(index=False), {v.name: v for v in data.variables}
    for name in names:
        if unknown := int((by_name[name].places(frame[name]) < 0).sum()):  # type: ignore[union-attr]
            raise InputError(
                f"table {k}: {unknown:,} cells have a value of {name!r} that the confidential "
                "table has not; leave totals out, or make the column a pandas category"
            )
    codes = data.encode(frame, f"table {k}", names)
    sizes = data.n_levels[columns].astype(float)
    if sizes.prod() > 2.0**62:
        raise InputError(f"table {k} crosses too many columns; give margins of fewer")
    strides = np.append(np.cumprod(data.n_levels[columns][::-1])[::-1][1:], 1).astype(np.int64)
    cell = codes.astype(np.int64) @ strides
    order = np.argsort(cell)
    cell, t = cell[order], table.to_numpy()[order]
    true, count = np.unique(_numbers(data.codes, columns, strides), return_counts=True)
    at = np.searchsorted(true, cell).clip(max=len(true) - 1)
    f = np.where(true[at] == cell, count[at], 0).astype(float)
    log_p = law.log_p(t, f)
    if wrong := int(np.isneginf(log_p).sum()):
        raise InputError(
            f"table {k}: {wrong:,} of {len(t):,} published counts cannot come from this "
            f"confidential table under noise={law.kind!r}; give the table that was counted, and "
            "the noise as it was"
        )
    return CountedCells(
        columns,
        strides,
        cell,
        law.log_p(t, np.maximum(f - 1, 0)) - log_p,
        law.log_p(t, f + 1) - log_p,
    )


def _numbers(codes: Codes, columns: Ints, strides: Ints) -> Ints:
    """Number of the cell that each row of codes (..., p) stands in."""
    return np.asarray(codes[..., columns].astype(np.int64) @ strides)


def _log_evidence(table: CountedCells, cases: Targets) -> Array:
    """log p(t | y*, y_-i) - log p(t | y_i, y_-i) of one table, (G, U)."""
    own = _numbers(cases.profiles, table.columns, table.strides)
    moved = np.repeat(own[None], len(cases.guesses.codes), axis=0)
    for q, j in enumerate(cases.columns):
        for stride in table.strides[table.columns == j]:
            change = cases.guesses.codes[..., q].astype(np.int64) - cases.profiles[:, j]
            moved += stride * change
    found = table.change(own, table.down) + table.change(moved, table.up)
    return np.where(moved == own, 0.0, found)
