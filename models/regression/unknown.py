"""What chains over unknown rows of normal regressions work on: sums over rows, and posteriors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import ModelError
from bayes_risk.data.microdata import Codes

from .conjugate import ConjugatePrior, Moments
from .families import LogNormal
from .kernels import posteriors
from .part import Part

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SOURCE = "the imputed records"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """What is known of one regression: sums over rows, and its prior, k coefficients.

    ``xx`` (m + 1, k, k), ``xy`` (m + 1, k), ``yy`` (m + 1,): of the known rows alone, then of them
    and each data set of the release; ``a`` (m + 1,) shapes of sigma^2 with the imputed rows
    counted, ``precision`` (k,) and ``b`` the prior's.
    """

    xx: Array
    xy: Array
    yy: Array
    a: Array
    precision: Array
    b: float

    @classmethod
    def of(
        cls, prior: ConjugatePrior, known: Moments, released: Sequence[Moments], n_imputed: int
    ) -> "Sums":
        """Join known rows and those of each data set."""
        rows = [known, *(known.plus(z) for z in released)]
        flat = np.isinf(prior.tau)
        counts = np.array([r.n + n_imputed - flat.sum() for r in rows])
        return cls(
            xx=np.stack([r.xx for r in rows]),
            xy=np.stack([r.xy for r in rows]),
            yy=np.array([r.yy for r in rows]),
            a=prior.a + 0.5 * counts,
            precision=np.where(flat, 0.0, prior.tau**-2.0),
            b=prior.b,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fits:
    """Posteriors of one regression, in closed form: V (m + 1, k, k), mean (m + 1, k), b (m + 1,).

    Of all rows of the table, then of these and each data set; V is half'half.
    """

    V: Array
    mean: Array
    b: Array
    half: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unknown:
    """What every chain works on.

    Attributes
    ----------
    parts : sequence of length J
        The regressions that made the release, in its order.
    sums : sequence of Sums
        By regression.
    records : ndarray of int, shape (n_U,)
        Row numbers of the unknown records.
    codes : ndarray, shape (n_U, p)
        Their rows as the first data set has them.
    """

    parts: Sequence[Part]
    sums: Sequence[Sums]
    records: Ints
    codes: Codes

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.sums[0].yy) - 1

    def width(self, c: int) -> int:
        """Number of coefficients of a regression."""
        return len(self.parts[c].design.names)

    def moves(self, c: int) -> bool:
        """Whether the predictors of a regression are themselves imputed."""
        return bool({part.name for part in self.parts} & set(self.parts[c].design.columns))

    def predictors(self, c: int, codes: Codes) -> Array:
        """Standardised predictors of coded rows, shape (R, k)."""
        part = self.parts[c]
        return part.scaling.inside(part.design.matrix(part.microdata, codes, SOURCE))

    def fits(self, c: int, X: Array, y: Array) -> Fits:
        """Posteriors of a regression, given imputed rows X (n_U, k) and outcomes y (n_U,)."""
        sums = self.sums[c]
        found = Fits(
            V=np.empty(sums.xx.shape),
            mean=np.empty(sums.xy.shape),
            b=np.empty(len(sums.yy)),
            half=np.empty(sums.xx.shape),
        )
        imputed, prior = (X.T @ X, X.T @ y, float(y @ y)), (sums.precision, sums.b)
        tables = (found.V, found.mean, found.b, found.half)
        proper = (sums.a > 0.5).all()
        if not proper or not posteriors((sums.xx, sums.xy, sums.yy), imputed, prior, *tables):
            raise ModelError(
                f"the records do not determine the coefficients of {self.parts[c].name!r}, and its "
                "prior is flat; give finite prior scales"
            )
        return found


def inside(part: Part, values: Array) -> Array:
    """Outcomes as they are sampled: standardised, in logs if log-normal."""
    logs = np.log(values) if isinstance(part.family, LogNormal) else values
    return (logs - part.scaling.at) / part.scaling.by


def outside(part: Part, y: Array) -> Array:
    """Outcomes as the table has them."""
    values: Array = part.scaling.at + part.scaling.by * y
    with np.errstate(over="ignore"):
        return np.exp(values) if isinstance(part.family, LogNormal) else values
