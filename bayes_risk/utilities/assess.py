"""Utility: what an analyst still finds in a release of what the original holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least, number, one_of
from bayes_risk.release.release import Release

from .inferences import RULES, Analysis, inferences
from .propensity import propensity
from .result import Utility
from .tables import columns_of, margins, pairs, tables_of


def utility(
    original: pd.DataFrame,
    release: Release | pd.DataFrame | Sequence[pd.DataFrame],
    *,
    columns: Sequence[str] | None = None,
    synthesized: Sequence[str] | None = None,
    analyses: Mapping[str, Analysis] | None = None,
    rules: str = "partially synthetic",
    confidence: float = 0.95,
    numbers: Sequence[str] | None = None,
    groups: int = 5,
    missing: str = "level",
    permutations: int = 20,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
) -> Utility:
    r"""How like the original its releases are, and what analyses make of them.

    With N records of both files, a share c of them released, and :math:`\hat p_i` the fitted
    probability that record i is a released one,

    .. math:: \mathrm{pMSE} = \frac1N \sum_i (\hat p_i - c)^2, \qquad
              \mathrm{E\,pMSE} = (k - 1)\, c (1 - c)^2 / N

    for a release drawn from the truth (Snoke et al. 2018). SPECKS is the Kolmogorov-Smirnov
    distance of the scores of both files (Bowen, Liu & Su 2021). Beside them stand one- and two-way
    tables (pMSE, total variation, Hellinger distance), mutual information and correlations of
    pairs, and the overlap of confidence intervals (Karr et al. 2006).

    Parameters
    ----------
    original : DataFrame of n records
        The confidential file. Never changed.
    release : Release, DataFrame, or list of m DataFrames
        The released files, made by whatever means. Those of a `Release` may leave out columns that
        were not synthesised. Where every column was synthesised, numbers of records may differ.
    columns : list of str, optional
        Columns to compare; all that the releases hold by default.
    synthesized : list of str, optional
        Which columns were synthesised; all by default, or those of the `Release`. The others must
        hold the original's values, record by record: nulls take into account that they cannot
        differ.
    analyses : dict of str to function, optional
        Functions of a DataFrame that return a fitted model of statsmodels (or a DataFrame with the
        columns ``estimate`` and ``std_error``).
    rules : {"partially synthetic", "fully synthetic"}
        Combining rules for m > 1: those of `combine`; or of Raghunathan, Reiter & Rubin (2003) for
        files in which every record is a new draw from the population.
    confidence : float
        Of the intervals.
    numbers : list of str, optional
        Columns that are numbers: numeric ones with more than 20 distinct values by default. All
        others are categories.
    groups : int
        Into how many groups numbers are cut for tables, at the original's quantiles.
    missing : {"level", "error"}
        Missing values are a level (a group) of their own, or an error.
    permutations : int
        How many trees are grown for the null of CART, over all releases together; at least 2.
    random_seed, n_jobs
        As in `attribute_risk`.

    Returns
    -------
    Utility
        Large distances are bad; ``ratio`` is 1 on average for a release drawn from the truth.

    Raises
    ------
    InputError
        No release, columns that are missing or repeated, unsynthesised columns that differ from the
        original's, columns of more than 1,000 levels, kinds that do not fit, an analysis that
        returns something else, or other quantities for another table.

    See Also
    --------
    Utility : What comes back.

    Notes
    -----
    *Models.* Logistic regression on main effects, and with all products of two columns (left out,
    as NaN, with more than 1,000 predictors); a tiny ridge keeps separated cells finite. CART with
    at least 20 records a leaf, its null from trees grown on permuted labels.

    *Null.* Of a release drawn from the original's own distribution, the original being fixed. k - 1
    is the rank of the predictors less that of the unsynthesised columns'. Derivation, and where it
    is an upper bound: ``docs/utility.md``. Where a share f of the records was replaced, it is
    multiplied by f (2 - f), as if they had been chosen at random.

    *Cost.* m (p^2 / 2) tables of n records; m logistic fits on distinct rows, with K predictors
    O(K^2) each; m + permutations trees.

    References
    ----------
    Snoke, J., Raab, G. M., Nowok, B., Dibben, C. and Slavkovic, A. (2018). General and specific
    utility measures for synthetic data. JRSS A 181, 663-688.
    Raab, G. M., Nowok, B. and Dibben, C. (2021). Assessing, visualizing and improving the utility
    of synthetic data. arXiv:2109.12717.
    Karr, A. F., Kohnen, C. N., Oganian, A., Reiter, J. P. and Sanil, A. P. (2006). A framework for
    evaluating the utility of data altered to protect confidentiality. American Statistician 60.
    Bowen, C. M., Liu, F. and Su, B. (2021). Differentially private data release via statistical
    election to partition sequentially. Metron 79, 1-31.

    Examples
    --------
    >>> import pandas as pd
    >>> original = pd.DataFrame({"sex": list("ffmm") * 9, "job": list("aabb") * 9})
    >>> synthetic = original.assign(job=list("abab") * 9)
    >>> found = utility(original, synthetic, synthesized=["job"], random_seed=1)
    >>> found.pairs[["total_variation", "null_total_variation"]].round(2).to_dict("records")
    [{'total_variation': 0.5, 'null_total_variation': 0.0}]
    """
    one_of("rules", rules, RULES)
    at_least("groups", groups, 2)
    at_least("permutations", permutations, 2)
    if not 0 < number("confidence", confidence, "0.95") < 1:
        raise InputError(f"confidence={confidence} must lie between 0 and 1, say 0.95")
    rng = np.random.default_rng(random_seed)
    tables = tables_of(original, release, columns, synthesized)
    coded = columns_of(tables, numbers, groups, missing)
    margin_names, margin = margins(coded, tables.replaced)
    pair_names, pair = pairs(coded, tables.replaced, n_jobs)
    found = inferences(checked_analyses(analyses), tables, rules, confidence)
    return Utility(
        margin_names=tuple(margin_names),
        pair_names=tuple(pair_names),
        estimate_names=tuple(found.names),
        scores=propensity(
            coded,
            replaced=tables.replaced,
            permutations=permutations,
            rng=rng.spawn(1)[0],
            n_jobs=n_jobs,
        ),
        margin_measures=margin,
        pair_measures=pair,
        combined=found.combined,
        agreement=found.each,
        synthesized=tables.made,
        unsynthesized=tables.kept,
        left_out=tables.left_out,
        n_records=tuple(len(frame) for frame in tables.frames),
        rules=rules,
        confidence=float(confidence),
        permutations=permutations,
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
    )


def checked_analyses(analyses: Any) -> Mapping[str, Analysis]:
    """Functions of a table by name."""
    if analyses is None:
        return {}
    if not isinstance(analyses, Mapping) or not all(callable(f) for f in analyses.values()):
        raise InputError(
            "analyses must be a dict of name to function of a DataFrame, such as "
            '{"income": lambda df: smf.ols("income ~ age", df).fit()}'
        )
    return analyses
