"""What a model learnt from runs of a generator, and how well it keeps what it says.

It was judged in runs that it had not seen. Evidence of this kind is of an intruder who looks at
some features of the files: by the data-processing inequality it is, in expectation, at most what
the whole files tell.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import binom, chi2

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.formats import number
from bayes_risk.data.base_result import Table, count, value

LEVELS = 0.0, 0.5, 0.75, 0.9, 0.97, 1.0  # shares of the examples, the surest last
LEAST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learnt:
    """Runs of a generator, and what their intruder predicted for records whose values were drawn.

    Attributes
    ----------
    runs, examples : int
        Runs of the generator; records whose values were drawn in them, over all runs.
    share : float
        Share of the records that were drawn in each run.
    gain, gain_error : float
        Mean log score over that of the prior, in runs that were left out; its standard error.
    predicted, observed : ndarray, shape (levels,)
        Mean probability of the likeliest guess, and how often it was the true one; examples by
        what was predicted, in order of certainty.
    variance, count : ndarray, shape (levels,)
        Variance of ``observed`` if the predictions hold, and number of examples.
    remark : str
        What else the runs showed: a generator that ignores its seed.
    """

    runs: int
    examples: int
    share: float
    gain: float
    gain_error: float
    predicted: Array
    observed: Array
    variance: Array
    count: Ints
    remark: str = ""

    @classmethod
    def of(
        cls, log_p: Array, drawn: Ints, gain: Array, *, runs: int, share: float, remark: str
    ) -> "Learnt":
        """Of log probabilities (N, G) from fits that have not seen the run, and gains by run."""
        top, right = np.exp(log_p.max(axis=1)), log_p.argmax(axis=1) == drawn
        order = np.argsort(top, kind="stable")
        ends = np.round(np.array(LEVELS) * len(order)).astype(int)
        parts = [order[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True) if b > a]
        return cls(
            runs=runs,
            examples=len(order),
            share=share,
            gain=float(gain.mean()),
            gain_error=float(gain.std(ddof=1) / np.sqrt(len(gain))),
            predicted=np.array([top[part].mean() for part in parts]),
            observed=np.array([right[part].mean() for part in parts]),
            variance=np.array([(top[p] * (1 - top[p])).sum() / len(p) ** 2 for p in parts]),
            count=np.array([len(part) for part in parts]),
            remark=remark,
        )

    @property
    def _over(self) -> Array:
        """Predicted less observed in standard errors, as if examples of a run were independent."""
        return (self.predicted - self.observed) / np.sqrt(np.maximum(self.variance, LEAST))

    @property
    def p_value(self) -> float:
        """Of the test that no level is overconfident (chi-bar-squared)."""
        over = self._over
        statistic, levels = float((np.maximum(over, 0.0) ** 2).sum()), len(over)
        if not statistic:
            return 1.0
        freedom = np.arange(1, levels + 1)
        return float((binom.pmf(freedom, levels, 0.5) * chi2.sf(statistic, freedom)).sum())

    @property
    def calibration(self) -> pd.DataFrame:
        """One row a level: ``predicted``, ``observed``, its standard error, ``examples``."""
        error = np.sqrt(self.variance)
        columns = {"predicted": self.predicted, "observed": self.observed, "standard_error": error}
        return pd.DataFrame({**columns, "examples": self.count})

    @property
    def overconfident(self) -> bool:
        """Whether some level is overconfident by three standard errors."""
        return bool((self._over > 3.0).any())

    def shown(self) -> Table:
        """`calibration` for people."""
        return Table(
            title="Calibration",
            caption=(
                "Records whose values were drawn, in runs that were left out, by certainty. "
                "Predicted: probability of the likeliest guess. Observed: share of records for "
                "which it was the value drawn."
            ),
            frame=self.calibration.set_axis(np.arange(1, len(self.predicted) + 1)),
            head="Level",
            columns=[
                ("Examples", count("examples")),
                ("Predicted", value("predicted")),
                ("Observed", value("observed")),
                ("Standard error", value("standard_error")),
            ],
        )

    def sentence(self) -> str:
        """What was learnt, and whether it can be relied on."""
        error = f" +- {number(2 * self.gain_error)}" if self.gain_error else ""
        predicted, observed = (number(float(x[-1])) for x in (self.predicted, self.observed))
        return (
            f"learnt from {self.runs} runs of the generator, in each of which the values of "
            f"{number(100 * self.share)} % of the records were drawn ({self.examples:,} examples). "
            f"In runs left out the log score exceeds the prior's by {number(self.gain)}{error}; at "
            f"the highest certainty the predicted probability is {predicted}, the observed share "
            f"{observed} (test against overconfidence: p = {number(self.p_value)}){self.remark}. "
            "The whole files disclose at least as much"
        )
