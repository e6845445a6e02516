"""Independent columns: what a release tells that keeps nothing but the frequency of every level.

y_ij ~ Multinomial(phi_j),  phi_j ~ Dirichlet(level_prior),  for each column j by itself
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import gammaln

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import positive
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.data.record_weights import checked_weights, survey_weights, weights_in_words
from bayes_risk.evidence.contract import (
    Capabilities,
    Offer,
    Simulated,
    Targets,
    drawn_in_words,
    offers,
)
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.models.fits.synthesis import (
    Declaration,
    Request,
    Synthesis,
    column_order,
    made_columns,
    of_columns,
)
from bayes_risk.release.release import EncodedRelease


@dataclass(frozen=True, slots=True)
class Marginals(Declaration):
    """Declaration of independent columns: the baseline at the lower end of a risk-utility map.

    `DPMPM` of one class, with exact evidence.

    Parameters
    ----------
    level_prior : float
        Every entry of the Dirichlet prior of level probabilities, above 0.
    columns : list of str, optional
        Columns of the table to model; all by default.

    Examples
    --------
    >>> Marginals()
    Marginals(level_prior=1.0, columns=None)
    """

    level_prior: float = 1.0
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        positive("level_prior", self.level_prior)
        if self.columns is not None:
            object.__setattr__(self, "columns", column_order("columns", self.columns))

    def fit(
        self,
        df: pd.DataFrame | Microdata,
        *,
        weights: Any = None,
        missing: str = "error",
        levels: Mapping[str, Iterable[Hashable]] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        sample: bool = True,
        random_seed: int | np.random.Generator | None = None,
    ) -> "MarginalsFit":
        """Count the levels of every column.

        Parameters
        ----------
        df : DataFrame or Microdata
            The confidential table; see `Microdata.from_frame` for ``missing``, ``levels`` and
            ``releases``, and for what it refuses.
        weights
            As in `DPMPM.fit`: what each record adds to the count of its levels.
        sample, random_seed
            Accepted for uniformity; nothing is sampled.
        """
        df, weights = survey_weights(df, weights)
        df = of_columns(df, self.columns)
        if not isinstance(df, Microdata):
            df = Microdata.from_frame(df, levels=levels, releases=releases, missing=missing)
        if df.numbers:
            raise InputError(
                f"columns {df.numbers} are numbers, and Marginals models categories; cut them into "
                "classes (`pandas.cut`), or use CART"
            )
        return MarginalsFit(model=self, microdata=df, weights=checked_weights(weights, df.index))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MarginalsFit(Synthesis):
    """A table, and how its levels are counted; ``seen`` (n,): records that are known (all).

    ``weights`` (n,): what each record counts; None: 1.
    """

    model: Marginals
    microdata: Microdata
    seen: Flags | None = None
    weights: Array | None = None
    n_draws: ClassVar[int] = 0
    parameters: ClassVar[tuple[str, ...]] = ("independent", "shared")
    diagnostics: ClassVar[Mapping[str, Any]] = {}

    def mechanism(self, release: EncodedRelease) -> str:
        phrase = f"each column by itself, from its frequencies{weights_in_words(self.weights)}"
        return f"{phrase}; {drawn_in_words(self, release)}"

    def capabilities(self, release: EncodedRelease, intruder: Intruder) -> Capabilities:
        """Exact evidence; who does not know all others is answered for one draw of parameters."""
        made_columns(release, self.microdata, self._modelled, "the fit has no column")
        if intruder.knows_less and len(release.by_draw) > 1:
            why = (
                f"m = {release.m} data sets with a draw of the parameters each are not offered to "
                "an intruder who does not know all other records; give a release of one data set, "
                'or of `parameters="shared"`'
            )
            return Capabilities([Offer("exact", refusal=why)])
        found = offers(self, "factors", "knowing", "log-prior", computed=("exact",))
        return Capabilities(found, any_rows=True)

    def knowing(self, known: Flags, release: EncodedRelease, **how: Any) -> "MarginalsFit":
        """The same with only the known records counted: Z is as exchangeable as the others are."""
        return replace(self, seen=known)

    def factors(self, evidence: str, release: Any, targets: Targets) -> tuple[str, ...]:
        """Columns that are guessed."""
        return tuple(str(self.microdata.columns[j]) for j in targets.columns)

    def closed_form(
        self, evidence: str, release: EncodedRelease, targets: Targets, **how: Any
    ) -> Simulated:
        """log p(Z | y*, A) = sum_j log B(a_j + z_j) - log B(a_j), a_j the prior and what is known.

        A guess adds its weight w to the count a of its level alone: up to a constant
        log B(a + w + z) / B(a + w) - log B(a + z) / B(a), which is log (a + z) / a for w = 1.
        """
        w = targets.weight

        def factor(q: int, j: int) -> Array:
            guess, a = self._without(targets, q, j)
            d, Z = (
                int(self.microdata.n_levels[j]),
                release.codes[:, release.rows, j].astype(np.int64),
            )
            z = [np.bincount(Z[list(sets)].ravel(), minlength=d) for sets in release.by_draw]
            shown = np.stack(z)[:, guess]  # shape (m, G, U)
            if self.weights is None:
                return np.asarray(np.log1p(shown / a), dtype=np.float64)
            return np.asarray(
                gammaln(a + w + shown) - gammaln(a + shown) - gammaln(a + w) + gammaln(a)
            )

        return Simulated.product(factor(q, int(j)) for q, j in enumerate(targets.columns))

    def log_prior(self, release: EncodedRelease, targets: Targets) -> Array:
        """Dirichlet-multinomial: sum_j log a_j(y*_j) up to a constant, (G, U)."""
        each = (self._without(targets, q, int(j))[1] for q, j in enumerate(targets.columns))
        return np.asarray(sum(np.log(a) for a in each))

    def _without(self, targets: Targets, q: int, j: int) -> tuple[Ints, Array]:
        """Guesses of a column and the count of their levels, the target left out, (G, U)."""
        guess, own = targets.guesses.codes[..., q].astype(np.int64), targets.profiles[:, j]
        mine = targets.fitted & (guess == own)  # counts are whole, or of 2^-30: no digit is lost
        known = self._known(j)[guess] - (mine if self.weights is None else mine * targets.weight)
        return guess, known + self.model.level_prior

    def _known(self, j: int) -> npt.NDArray[Any]:
        """Known records of each level of a column, (d,)."""
        codes = self.microdata.codes[slice(None) if self.seen is None else self.seen, j]
        d = int(self.microdata.n_levels[j])
        return np.bincount(codes.astype(np.int64), weights=self.weights, minlength=d)

    @property
    def _modelled(self) -> Sequence[str]:
        return self.microdata.columns

    def _tables(self, request: Request) -> Iterator[Codes]:
        shares: dict[int, Array] = {}
        for l, rng in enumerate(request.rngs):
            table = request.table()
            for j in map(self.microdata.columns.index, request.columns):
                if l == 0 or request.parameters != "shared":
                    shares[j] = rng.dirichlet(self._known(j) + self.model.level_prior)
                table[request.mask, j] = rng.choice(
                    len(shares[j]), size=int(request.mask.sum()), p=shares[j]
                )
            yield table
