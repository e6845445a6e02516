"""What declarations and fits do alike: read tables and requests, make releases, put guesses in.

A fit adds how one table is drawn. Each table is drawn by its own child generator, so that the first
data sets are the same however many follow.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._compat import group, group_names
from bayes_risk._core.arguments import public
from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import known_columns, one_of, whole_number
from bayes_risk.data.kept import Saved, read_kept
from bayes_risk.data.microdata import Codes, Microdata, checked_table
from bayes_risk.data.variables import is_numeric, stand_ins
from bayes_risk.evidence import contract
from bayes_risk.evidence.contract import Fit, Progress, Targets, model_name
from bayes_risk.release.release import PARAMETERS, EncodedRelease, Release


def power_scaled_gamma(name: str, prior: tuple[float, float], power: float) -> tuple[float, float]:
    """Gamma(a, b)^p is proportional to Gamma(p (a - 1) + 1, p b), which may not be improper."""
    shape, rate = prior
    raised = power * (shape - 1.0) + 1.0
    if raised <= 0:
        raise InputError(
            "power",
            power,
            f"makes the gamma prior {name}={prior} improper; give a power below "
            f"{1.0 / (1.0 - shape):.3g}",
        )
    return raised, power * rate


def same_but(model: Any, other: Any, *names: str) -> bool:
    """Whether two declarations are of one kind and differ in these fields alone."""
    if type(model) is not type(other):
        return False
    alike = replace(other, **{name: getattr(model, name) for name in names})
    return bool(repr(alike) == repr(model))


def microdata(
    df: pd.DataFrame,
    columns: Sequence[str] | None,
    *,
    levels: Mapping[str, Iterable[Hashable] | str] | None,
    numbers: Sequence[str] | None = None,
    near: bool = False,
    **how: Any,
) -> Microdata:
    """The table; columns of numeric dtype are numbers, but for ``levels`` or if others are told."""
    checked_table(df)
    if numbers is None:
        names, named = df.columns if columns is None else columns, levels or {}
        numbers = [c for c in names if c in df and c not in named and is_numeric(df[c].dtype)]
    if near and how["missing"] == "level":
        given = how.get("missing_numbers") or {}
        how["missing_numbers"] = stand_ins(df, numbers, near=True) | given
    return Microdata.from_frame(df, columns=columns, numbers=numbers, levels=levels, **how)


def column_order(name: str, given: Sequence[str], otherwise: str = "") -> tuple[str, ...]:
    """Names of at least one column, none twice."""
    if isinstance(given, str) or not len(given):
        raise InputError(name, given, f"; give a list of at least one column name{otherwise}")
    return tuple(known_columns(name, given, list(given)))


def of_columns(df: Any, columns: Sequence[str] | None) -> Any:
    """A table of these columns alone; None: of all."""
    if columns is None:
        return df
    if isinstance(df, Microdata):
        raise InputError(
            "columns", list(columns), "is for a DataFrame, not Microdata; leave it out"
        )
    return checked_table(df)[known_columns("columns", list(columns), df)]


def check_outcome(
    data: Microdata, column: int, predictors: Ints, rows: Any, cure: str = ""
) -> None:
    """Refuse an outcome that nothing predicts, or that has one value among some records."""
    name = data.columns[column]
    if not len(predictors):
        raise InputError(
            f"column {name!r} has no predictor: order names every column; leave one out of it{cure}"
        )
    if np.ptp(data.codes[rows, column]) == 0:
        raise InputError(
            f"column {name!r} has the same value for every record that is replaced, so there is "
            "nothing to synthesise; leave it out of order"
        )


WORDS = {  # of the contract, by the method's name
    name: member.__doc__
    for protocol in vars(contract).values()
    if Protocol in getattr(protocol, "__mro__", ())
    for name, member in vars(protocol).items()
}


class Declaration(Shown):
    """What declarations have alike."""

    __slots__ = ()

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        """Columns that a release replaces unless some are named, of a table with these."""
        return list(columns)


class Fitted(Shown, Saved):
    """What fits have alike: the contract's words for methods that have none of their own."""

    __slots__ = ()
    KEPT_AS: ClassVar[str] = "fit"
    records_differ: ClassVar[bool] = False  # records with the same values have the same evidence
    posterior: Any

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return int(self.posterior.n_draws)

    def to_datatree(self) -> xr.DataTree:
        """Draws and their diagnostics as ArviZ 1 has them, by group; of a chain by part.

        Raises
        ------
        InputError
            A fit without draws.
        """
        own: Any = self
        parts = enumerate(getattr(own, "parts", ()), 1)
        each = {f"part {k}/": part.fit for k, part in parts} or {"": own}
        found = {
            f"{where}{name}": group(one.idata, name)
            for where, one in each.items()
            if getattr(one, "idata", None) is not None
            for name in group_names(one.idata)
        }
        if not found:
            raise InputError(f"a fit of {model_name(own)} has no draws; it needs no ArviZ")
        return xr.DataTree.from_dict(found)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, member in vars(cls).items():
            if callable(member) or isinstance(member, property):
                member.__doc__ = member.__doc__ or WORDS.get(name)
        public(cls)


def open_fit(path: str | os.PathLike[str]) -> Any:
    """Read a fit back: it synthesises and is audited as the one that was saved.

    Parameters
    ----------
    path : path
        What ``fit.save(path)`` wrote. A fit of `Simulator` runs its command when it is audited.

    Returns
    -------
    Fit

    Raises
    ------
    InputError
        No such file; one of another format, damaged, or of another thing than a fit.

    Examples
    --------
    >>> open_fit("fit.nc").synthesize(m=2)  # doctest: +SKIP
    """
    found = read_kept(path)
    fit = found.get(Fitted.KEPT_AS) if isinstance(found, dict) else None
    if not isinstance(fit, Fitted):
        raise InputError("path", str(path), "holds no fit; take open_result or open_evidence")
    return fit


class Synthesis(Fitted, ABC):
    """Synthesis of a fit that knows how one table is drawn, or several together."""

    __slots__ = ()

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        records: Any = None,
        *,
        n: int | None = None,
        parameters: str | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Release:
        fit: Any = self
        request = Request.of(
            fit, self._modelled, m, columns, records, parameters=parameters, random_seed=random_seed
        )
        request = request.of_rows(n)
        return request.release(self._tables(request))

    @property
    @abstractmethod
    def _modelled(self) -> Sequence[str]:
        """Columns that may be synthesised, in their order."""

    @abstractmethod
    def _tables(self, request: "Request") -> Iterable[Codes]:
        """The synthetic tables, in codes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """What `synthesize` was asked for: m tables, each with a generator and a draw, if any."""

    microdata: Microdata
    columns: tuple[str, ...]  # in the order of the model
    mask: Flags  # rows to replace, of n records or of any number that was asked for
    rngs: Sequence[Rng]
    draw_index: tuple[int, ...] | None
    seed_entropy: str
    parameters: str  # how draws were chosen, of `PARAMETERS`
    maker: str | None = None
    begun: Iterator[Codes] | None = None  # tables that earlier parts of a chain have begun

    @classmethod
    def of(
        cls,
        fit: Fit,
        modelled: Sequence[str],
        m: int,
        columns: Sequence[str] | None,
        records: Any = None,
        *,
        parameters: str | None,
        n_chains: int = 1,
        random_seed: int | np.random.Generator | None,
    ) -> "Request":
        """Check all that was asked; take a draw of Theta for each table, or one for all."""
        m = whole_number("m", m)
        drawing = _drawing(fit, parameters)
        names = known_columns(
            "columns", modelled if columns is None else columns, modelled, "the model"
        )
        if not names:
            raise InputError(
                "columns", "names no column; name those to synthesise, or leave it out"
            )
        mask = fit.microdata.mask(records)
        rng = np.random.default_rng(random_seed)
        drawn = fit.n_draws > 0 and drawing != "plug-in"
        return cls(
            microdata=fit.microdata,
            columns=tuple(c for c in modelled if c in names),
            mask=mask,
            rngs=rng.spawn(m),
            draw_index=_draws(drawing, m, fit.n_draws, n_chains, rng) if drawn else None,
            seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
            parameters=drawing,
        )

    def draws(self) -> Iterable[tuple[Any, Rng]]:
        """Draw of Theta, or None, and generator of each table."""
        return zip(self.draw_index or (None,) * len(self.rngs), self.rngs, strict=True)

    def of_rows(self, n: int | None, classes: str = "new") -> "Request":
        """The same with another number of rows; an InputError where something of records stays."""
        if n is None:
            return self
        n = whole_number("n", n)
        stays = [f"column {c!r} stays" for c in self.microdata.columns if c not in self.columns]
        stays += ["some records stay"] * (not self.mask.all())
        stays += ["classes are the records' own"] * (classes == "own")
        if stays:
            raise InputError(
                "n",
                n,
                f"is for releases of which nothing is a record's own, and {stays[0]}; leave it "
                "out, or synthesise every column of every record afresh",
            )
        return replace(self, mask=np.ones(n, dtype=bool))

    def table(self) -> Codes:
        """A table to be filled: the confidential one; of another length it says nothing."""
        if self.begun is not None:
            return next(self.begun)
        y, size = self.microdata.codes, len(self.mask)
        return y.copy() if size == len(y) else np.zeros((size, y.shape[1]), y.dtype)

    def release(self, tables: Iterable[Codes], *, classes: str = "new") -> Release:
        """The release of the coded tables."""
        data, size = self.microdata, len(self.mask)
        index = data.index if size == len(data.index) else pd.RangeIndex(size)
        return Release(
            datasets=[data.decode(codes, index) for codes in tables],
            synthesized=self.columns,
            records=None if self.mask.all() else self.mask,
            classes=classes,
            draw_index=self.draw_index,
            maker=self.maker,
            seed_entropy=self.seed_entropy,
            parameters=self.parameters,
        )


def _drawing(fit: Fit, parameters: str | None) -> str:
    """How parameters are to be drawn, if the fit can."""
    ways = fit.parameters
    if parameters is None:
        return ways[0]
    if one_of("parameters", parameters, tuple(PARAMETERS)) not in ways:
        raise InputError(
            "parameters",
            parameters,
            f"({PARAMETERS[parameters]}) is not offered by {model_name(fit)}; it offers "
            f"{', '.join(map(repr, ways))}",
        )
    return parameters


def _draws(drawing: str, m: int, n_draws: int, n_chains: int, rng: Rng) -> tuple[int, ...]:
    """A draw for each of m tables: no draw twice, or one for all."""
    first, among, some = 0, n_draws, 1 if drawing == "shared" else m
    if drawing == "one-mode":
        among = n_draws // n_chains  # draws stand chain after chain
        first = among * int(rng.integers(n_chains))
    if some > among:
        whose = " of a chain" if drawing == "one-mode" else ""
        raise InputError("m", m, f"exceeds the {among} draws{whose}; fit with more draws")
    chosen = first + rng.choice(among, size=some, replace=False)
    return tuple(int(h) for h in np.resize(chosen, m))


def made_columns(
    release: EncodedRelease, microdata: Microdata, modelled: Sequence[str], lacking: str
) -> list[str]:
    """Columns of a release in the order of the model; ``lacking`` says what another one lacks."""
    names = known_columns("synthesized", release.synthesized, microdata.columns)
    without = [c for c in names if c not in modelled]
    if without:
        raise InputError("synthesized", f"names {without[0]!r}, for which {lacking}; add it there")
    return [c for c in modelled if c in names]


@dataclass(slots=True)
class Ticker:
    """Turns units of a step that are done into calls of ``progress(step, done, total)``."""

    progress: Progress | None
    step: str
    total: int
    rounds: int = 1  # after each the rest is taken to go on as so far
    done: int = 0

    def __call__(self, more: int) -> None:
        """So many more are done."""
        self.done += more
        if self.progress is not None:
            self.progress(self.step, self.done, self.total)

    def end(self, k: int) -> None:
        """Round k is done."""
        self.total = self.done * self.rounds // k
        self(0)


def with_guess(codes: Codes, targets: Targets, g: int, u: int) -> Codes:
    """Coded rows of all records (n, ...), guess g in the place of target u."""
    out = codes.copy()
    out[targets.record[u], targets.columns] = targets.guesses.codes[g, u]
    return out


def log_p_of_guesses(
    microdata: Microdata,
    targets: Targets,
    m: int,
    log_p: Callable[[Microdata], Array],
    progress: Progress | None,
) -> Array:
    """log p(Z^(l) | y) of the table under each guess, (m, G, U), ``log_p`` from U x G new fits."""
    out = np.empty((m, *targets.guesses.codes.shape[:2]))
    tick = Ticker(progress, "refits", len(targets))
    for u in range(len(targets)):
        for g in range(out.shape[1]):
            codes = with_guess(microdata.codes, targets, g, u)
            out[:, g, u] = log_p(replace(microdata, codes=codes))
        tick(1)
    return out
