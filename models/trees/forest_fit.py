"""Grown forests: synthesis from the votes of their trees, and the evidence of a release."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.parallel import in_order
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.evidence.contract import Capabilities, Progress, Simulated, Targets
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import Fitted, Request, Ticker, log_p_of_guesses, made_columns
from bayes_risk.release.release import EncodedRelease, Release

from .forest_trees import Composition, Counts, ReleasedVotes, Trees, grow_forest, log_gains

BLOCK = 256  # targets at a time, or fewer, so that there are at most
MAX_CELLS = 2**24  # leaves of guesses (trees x guesses x targets)
SHOWN_BYTES = 2**29  # data sets of a release that are indexed at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForestFit(Fitted):
    """Forests in sequence."""

    n_draws: ClassVar[int] = 0
    parameters: ClassVar[tuple[str, ...]] = ("plug-in",)
    records_differ: ClassVar[bool] = True
    weights: ClassVar[None] = None
    model: Any
    microdata: Microdata
    forests: tuple[Trees, ...]  # in the order of synthesis
    n_jobs: int = 1  # threads
    diagnostics: Mapping[str, float] = field(default_factory=dict)  # empty: nothing is sampled

    @property
    def out_of_bag(self) -> bool:
        """Whether a tree votes only for records that are not in its bootstrap sample."""
        return bool(self.model.votes == "out-of-bag")

    @property
    def order(self) -> list[str]:
        """Columns in the order of synthesis."""
        return [self.microdata.columns[trees.column] for trees in self.forests]

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """What is offered: evidence with the trees known, or with forests grown for each guess."""
        self._made(release)
        ways = frozenset({"exact", "refit"})
        return Capabilities(methods=ways, computed=ways, closed_form=self, factored=self)

    def mechanism(self, release: EncodedRelease) -> str:
        order = [self.microdata.columns[trees.column] for trees in self._made(release)]
        smoothed = f", smoothed by Dirichlet({self.model.dirichlet:g})"
        return (
            f"forests of {self.model.n_trees} trees and the order {', '.join(order)} are known, "
            "splits and bootstrap samples included, not what the leaves vote for; "
            f"{'out-of-bag votes' if self.out_of_bag else 'votes of all trees'}"
            f"{smoothed if self.model.dirichlet else ''}"
        )

    def _made(self, release: EncodedRelease) -> list[Trees]:
        """The forests that made a release."""
        lacking = f"there is no forest; there are forests of {self.order}"
        names = made_columns(release, self.microdata, self.order, lacking)
        made = [self.forests[self.order.index(name)] for name in names]
        replaced = release.replaced
        if (replaced != self._replaced(made)).any():
            raise InputError(
                f"the release says that {int(replaced.sum())} records were replaced; the forests "
                f"were grown on {int(self._replaced(made).sum())} and replace just those: fit with "
                "the release's records (fit(df, records=)), or mend Release(records=)"
            )
        return made

    def _replaced(self, forests: Sequence[Trees]) -> Flags:
        mask = np.zeros(len(self.microdata.codes), dtype=bool)
        for trees in forests:
            mask[trees.rows] = True
        return mask

    def synthesize(
        self,
        m: int = 5,
        columns: Sequence[str] | None = None,
        *,
        parameters: str | None = None,
        random_seed: int | np.random.Generator | None = None,
        progress: Progress | None = None,
    ) -> Release:
        """Draw m synthetic data sets from the same forests, for the records they were grown on.

        ``columns`` of the model's order, all by default; ``parameters`` are "plug-in" alone, values
        being drawn by votes. Progress is called as ``progress("synthesis", done, total)``.
        """
        how: Any = {"parameters": parameters, "random_seed": random_seed}
        request = Request.of(self, self.order, m, columns, **how)
        made = [self.forests[self.order.index(name)] for name in request.columns]
        tables = [self.microdata.codes.copy() for _ in request.rngs]
        tick = Ticker(progress, "synthesis", len(made))
        for place, trees in enumerate(made):
            for l, (codes, rng) in enumerate(zip(tables, request.rngs, strict=True)):
                if l == 0 or place > 0:  # before the first column all tables are still the same
                    votes = self._votes(trees, codes)
                codes[trees.rows, trees.column] = draw_levels(votes, self.model.dirichlet, rng)
            tick(1)
        return replace(request, mask=self._replaced(made)).release(tables)

    def _votes(self, trees: Trees, codes: Codes) -> Counts:
        X = trees.encoded(codes[trees.rows])
        return trees.votes(X, out_of_bag=self.out_of_bag, n_jobs=self.n_jobs)

    def closed_form(
        self, evidence: str, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """log p(Z^(l) | y*, y_-i) up to a constant for each target, shape (m, G, U).

        ``"exact"``: the splits and bootstrap samples are known (S), what the leaves vote for is
        not. ``"refit"``: forests grown anew, from the same seeds, for each target and guess: costs
        U x G fits, so choose a few targets and guesses.
        """
        made, codes = self._made(release), list(release.codes)
        excluded = self._excluded(made, targets)
        if evidence == "refit":
            log_p = partial(self._of_table, made=made, released=codes)
            out = log_p_of_guesses(self.microdata, targets, release.m, log_p, how["progress"])
            out[:, excluded] = -np.inf
            return Simulated.exact(out)
        tick = Ticker(how["progress"], "evidence", len(made))

        def each() -> Iterator[Array]:
            for place, trees in enumerate(made):
                gain = self._of_forest(trees, made[:place], codes, targets)
                gain[:, excluded] = -np.inf  # whatever the column
                yield gain
                tick(1)

        return Simulated.product(each())

    def factors(
        self, evidence: str, release: EncodedRelease, targets: Targets
    ) -> tuple[str, ...] | str:
        """The synthesised columns in their order: a factor is that of a column's forest."""
        if evidence == "refit":
            return "forests were grown anew for each guess, all columns at once"
        return tuple(self.microdata.columns[trees.column] for trees in self._made(release))

    def _of_forest(
        self, trees: Trees, earlier: Sequence[Trees], codes: Sequence[Codes], targets: Targets
    ) -> Array:
        """What one forest adds, shape (m, G, U); some data sets at a time."""
        base = Composition.from_table(trees, self.microdata.codes)
        drawn = frozenset(e.column for e in earlier)
        G, U = targets.guesses.codes.shape[:2]
        size = max(1, min(BLOCK, MAX_CELLS // (len(trees) * G)))
        some = [np.arange(b, min(b + size, U)) for b in range(0, U, size)]
        chunk = max(1, SHOWN_BYTES // (4 * (trees.bags.size + len(trees.right))))
        parts = []
        for l in range(0, len(codes), chunk):
            jobs = [partial(self._shown, trees, drawn, z) for z in codes[l : l + chunk]]
            shown = list(in_order(jobs, n_jobs=self.n_jobs, what="leaves", where="threads"))
            last = drawn, self.model.dirichlet
            gains = [partial(log_gains, base, shown, targets, which, *last) for which in some]
            found = in_order(gains, n_jobs=self.n_jobs, what="evidence", where="threads")
            parts.append(np.concatenate(list(found), axis=2))  # `shown` is large
        return np.concatenate(parts)

    def _shown(self, trees: Trees, drawn: frozenset[int], z: Codes) -> ReleasedVotes:
        rows = found_by(self.microdata.codes, z, sorted(drawn))[trees.rows]
        leaves = trees.leaves(trees.encoded(rows))
        shown = ReleasedVotes.from_leaves(trees, leaves, z, out_of_bag=self.out_of_bag)
        if self.model.dirichlet == 0 and (shown.votes == 0).any():
            record = self.microdata.index[trees.rows[int(np.argmin(shown.votes))]]
            raise InputError(
                f"no tree votes for the value of column {self.microdata.columns[trees.column]!r} "
                f"that the release gives record {record!r}, so these forests did not make it; "
                "audit a release with the fit that made it"
            )
        return shown

    def _excluded(self, made: Sequence[Trees], targets: Targets) -> Flags:
        """Guesses that differ from the truth where it was released unchanged, shape (G, U)."""
        out = np.zeros(targets.guesses.codes.shape[:2], dtype=bool)
        for q, column in enumerate(targets.columns):
            kept = np.ones(len(self.microdata.codes), dtype=bool)
            for trees in made:
                kept[trees.rows] &= trees.column != column
            differs = targets.guesses.codes[:, :, q] != targets.profiles[:, column]
            out |= differs & kept[targets.record]
        return out

    def _of_table(self, data: Microdata, made: Sequence[Trees], released: Sequence[Codes]) -> Array:
        """log p(Z^(l) | y) of a whole table, its forests grown on it, shape (m,)."""
        total, drawn = np.zeros(len(released)), list[int]()
        how: Any = {"min_leaf": self.model.min_leaf, "n_jobs": self.n_jobs}
        for old in made:
            trees = grow_forest(data, old.column, old.predictors, old.rows, old.seeds, **how)
            for l, z in enumerate(released):
                votes = self._votes(trees, found_by(data.codes, z, drawn))
                total[l] += log_p(votes, z[old.rows, old.column], self.model.dirichlet)
            drawn.append(old.column)
        return total

    def __repr__(self) -> str:
        grown = [
            f"{name} ({len(trees):,} trees, {len(trees.right):,} nodes, {len(trees.rows):,} "
            "records replaced)"
            for name, trees in zip(self.order, self.forests, strict=True)
        ]
        return f"ForestFit: {len(self.microdata.codes):,} records; {', '.join(grown)}"


def found_by(codes: Codes, z: Codes, drawn: Sequence[int]) -> Codes:
    """Values by which records find their leaves: released ones of the columns drawn before."""
    rows = codes.copy()
    rows[:, drawn] = z[:, drawn]
    return rows


def log_p(votes: Counts, z: npt.NDArray[np.integer], dirichlet: float) -> float:
    """log prod_k (votes[k, z_k] + a) / (T_k + K a); minus infinity: a value without votes."""
    held = np.take_along_axis(votes, z.astype(np.int64)[:, None], axis=1)[:, 0] + dirichlet
    with np.errstate(divide="ignore"):
        return float((np.log(held) - np.log(votes.sum(axis=1) + votes.shape[1] * dirichlet)).sum())


def draw_levels(votes: Counts, dirichlet: float, rng: np.random.Generator) -> Ints:
    """A level for each row of votes (r, K), from its shares or from Dirichlet(votes + a)."""
    weights = rng.standard_gamma(votes + dirichlet) if dirichlet > 0 else votes.astype(float)
    edges = np.cumsum(weights, axis=1)
    picked = rng.random(len(votes)) * edges[:, -1]
    return np.asarray((edges <= picked[:, None]).sum(axis=1))
