"""What a model learnt from runs of a generator, and how well it keeps what it says.

It was judged in runs that it had not seen. Evidence of this kind is of an intruder who looks at
some features of the files: by the data-processing inequality it is, in expectation, at most what
the whole files tell.

Examples of one run share its files; runs are independent. With ``d_r`` the sum over the examples
of run r, at one level, of the predicted probability less the outcome, the variance of ``predicted -
observed`` is ``sum_r d_r^2`` over the squared number of examples. The test against overconfidence
changes the signs of runs at random: if predictions hold, ``d_r`` has mean 0, and a change of sign
leaves the dependence of levels within a run.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.formats import number
from bayes_risk.data.base_result import Table, count_column, value

LEVELS = 0.0, 0.5, 0.75, 0.9, 0.97, 1.0  # shares of the examples, the surest last
FLIPS = 9_999  # random signs of the runs
OVERCONFIDENT = 0.01  # p-value


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
    standard_error, count : ndarray, shape (levels,)
        Of ``predicted - observed``, from the spread over runs; number of examples.
    p_value : float
        Of the test that no level is overconfident.
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
    standard_error: Array
    count: Ints
    p_value: float
    remark: str = ""

    @classmethod
    def of(
        cls,
        log_p: Array,
        drawn: Ints,
        run: Ints,
        gain: Array,
        *,
        runs: int,
        share: float,
        remark: str = "",
    ) -> "Learnt":
        """Of log probabilities (N, G) from fits that have not seen the run, and gains by run."""
        top, right = np.exp(log_p.max(axis=1)), log_p.argmax(axis=1) == drawn
        order = np.argsort(top, kind="stable")
        ends = np.round(np.array(LEVELS) * len(order)).astype(int)
        parts = [order[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True) if b > a]
        each = [np.bincount(run[p], top[p] - right[p], minlength=runs) for p in parts]
        over = np.column_stack(each).astype(float)  # (runs, levels)
        count = np.array([len(part) for part in parts])
        return cls(
            runs=runs,
            examples=len(order),
            share=share,
            gain=float(gain.mean()),
            gain_error=float(gain.std(ddof=1) / np.sqrt(len(gain))),
            predicted=np.array([top[part].mean() for part in parts]),
            observed=np.array([right[part].mean() for part in parts]),
            standard_error=np.sqrt((over**2).sum(axis=0)) / count,
            count=count,
            p_value=_test(over),
            remark=remark,
        )

    @property
    def calibration(self) -> pd.DataFrame:
        """One row a level: ``predicted``, ``observed``, ``standard_error``, ``examples``."""
        names = "predicted", "observed", "standard_error"
        columns = {name: getattr(self, name) for name in names}
        return pd.DataFrame({**columns, "examples": self.count})

    @property
    def overconfident(self) -> bool:
        """Whether the test against overconfidence rejects at 1 %."""
        return self.p_value < OVERCONFIDENT

    def shown(self) -> Table:
        """`calibration` for people."""
        return Table(
            title="Calibration",
            caption=(
                "Records whose values were drawn, in runs that were left out, by certainty. "
                "Predicted: probability of the likeliest guess. Observed: share of records for "
                "which it was the value drawn. Standard error: of the difference, over runs."
            ),
            frame=self.calibration.set_axis(np.arange(1, len(self.predicted) + 1)),
            head="Level",
            columns=[
                ("Examples", count_column("examples")),
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
            f"learnt from {self.runs} runs of the generator, each with new values for "
            f"{number(100 * self.share)} % of the records ({self.examples:,} examples). "
            f"In runs left out the log score exceeds the prior's by {number(self.gain)}{error}; at "
            f"the highest certainty the predicted probability is {predicted}, the observed share "
            f"{observed} (test against overconfidence: p = {number(self.p_value)}){self.remark}. "
            "The whole files disclose at least as much"
        )


def _test(over: Array) -> float:
    """P-value of predictions above outcomes, by run and level (R, L), against random signs.

    The statistic is the sum over levels of ``max(t, 0)^2``, t in standard errors.
    """
    spread = np.sqrt((over**2).sum(axis=0))
    unit = over / np.where(spread > 0, spread, np.inf)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (FLIPS, len(over)))
    observed, flipped = (
        (np.maximum(s @ unit, 0.0) ** 2).sum(axis=1) for s in (np.ones((1, len(over))), signs)
    )
    return float((1 + (flipped >= observed - 1e-12).sum()) / (1 + FLIPS))
