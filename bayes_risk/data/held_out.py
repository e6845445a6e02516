"""Whether records that are said to be others are the data's own: more are shared than by chance."""

import numpy as np
import pandas as pd
from scipy.special import bdtrc

from bayes_risk._core.arrays import Ints

from .precision import CHANCE


def own_records(own: Ints, out: Ints, labels: tuple[pd.Index, pd.Index]) -> int:
    """How many records held out are the data's; 0: no more of them than chance explains, or few.

    ``own`` (n,), ``out`` (h,): which combination of values each record has. ``labels``: of both. A
    fresh record has a combination that the data have with probability ``1 - N_1 / n``, ``N_1``
    being single ones (Good 1953; two standard errors are taken off), and that of one record which
    is named by its label or place with ``sum p^2``.
    """
    n, h = len(own), len(out)
    count = np.bincount(own, minlength=1 + max(own.max(), out.max()))
    single, known = float((count == 1).sum()), int((count[out] > 0).sum())
    fresh = max(single - 2 * np.sqrt(single), 0.0) / n
    most = known > h * (1 - single / (2 * n))  # of those that chance does not explain
    if most and bdtrc(known - 1, h, 1 - fresh) < CHANCE:
        return known
    alike, partners = float(((count / n) ** 2).sum()), [np.arange(h) if h <= n else np.full(h, -1)]
    if labels[0].is_unique and labels[0].nlevels == labels[1].nlevels:
        partners.append(labels[0].get_indexer(labels[1]))
    for partner in partners:
        there = partner >= 0
        same = int((own[partner[there]] == out[there]).sum())
        if same > h / 2 and bdtrc(same - 1, int(there.sum()), alike) < CHANCE:
            return same
    return 0
