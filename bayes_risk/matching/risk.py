"""Identification risk: can an intruder tell which released record is the target.

`MatchingQuestion` reads and codes all once; `found_by` counts. The intruder knows who is in the
file, or what the population is like. Mathematics and derivation: ``docs/identification.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.checkpoint import begin_work
from bayes_risk._core.errors import InputError
from bayes_risk.data.groups import By
from bayes_risk.release.exposure import exposure_of_tables
from bayes_risk.release.tables import Released, Tables, together

from .odds import Outsiders
from .question import MatchingOptions, MatchingQuestion
from .radii import Radius
from .replicates import Replicates
from .result import NOBODYS, IdentificationRisk, MatchCounts, Matched, Strategy


def identification_risk(
    original: pd.DataFrame,
    releases: Released | Replicates | pd.DataFrame | Sequence[pd.DataFrame | Released],
    *,
    known: Sequence[str],
    synthesized: Sequence[str],
    targets: Any = None,
    population: Outsiders = None,
    strategy: Strategy = "always",
    reason: Any = None,
    radius: Mapping[str, float | Radius] | None = None,
    shape: str = "box",
    closed: bool = True,
    missing: str | Mapping[str, str] = "level",
    fallback: bool = True,
    corresponds: bool | None = None,
    person: str | None = None,
    by: By = (),
) -> Matched:
    r"""Compute the risk that an intruder who knows some columns finds a record in the release.

    The intruder holds the genuine values t of a target's keys. In release l he looks for records j
    that carry them; :math:`N_{t,l}` records do, of :math:`F_t` people of the population. Pooled
    over releases (Reiter & Mitra 2009; Drechsler & Reiter 2008, eq. 6 and 7)

    .. math:: \Pr(J = j \mid t, Z) = \frac1m \sum_{l=1}^m
              \min(1/F_t, 1/N_{t,l}) \, 1[j \text{ matches } t \text{ in } Z^{(l)}],

    and the rest is the probability that the target is not in the file, :math:`\Pr(J = n + 1)`.
    Who knows that the target is in the file has :math:`1/N_{t,l}` there, and no rest, matched or
    not.

    For target i, c_i records j attain the highest probability, T_i = 1 if the true record is one of
    them, K_i = 1 if c_i T_i = 1 and F_i = 1 if c_i (1 - T_i) = 1. Summaries (Hu 2019, eq. 21-23):
    expected match risk sum T/c, true match rate sum K/n, false match rate sum F/s with
    s = #{c_i = 1}.

    Parameters
    ----------
    original : DataFrame of n records
        The confidential file. Never changed.
    releases : Release, DataFrame, or list of m DataFrames; or Replicates
        The released files, with the original's records in the original's order, or with its index;
        made by whatever means: synthesis, swapping, noise, recoding. Files of a `Release` may leave
        out columns that were not synthesised. A list of Releases of one table is matched as all
        their files together; a key that any of them leaves unchanged is ``known``, as its values
        are genuine there. `Replicates` are the m tables that an intruder who knows the model draws;
        errors are then those between the releases they came from.
    known : list of str
        Unsynthesised columns that the intruder knows. The target's values are matched against the
        released ones, which must be the original's. May be empty.
    synthesized : list of str
        Changed columns. The intruder knows the target's true values, which are matched against
        released ones. May be empty, but not both.
    targets : list of labels, mask of n values, or DataFrame, optional
        Whom he looks for: all records (None), some of them, or the rows of a table with all keys:
        those whose index label is one of the original's are in the file, the others are not (rows
        that are merely numbered, in both tables, must be the original's first).
    population : Population, list of m of them, or array, optional
        None: he knows that his targets are in the file. Otherwise how many people of the population
        carry each target's exact keys: known, estimated from the original, or from each release in
        turn; as an array of shape (n_t,) or (m, n_t), above 0, in the targets' order, or a Series
        by label.
    strategy : {"always", "likeliest"} or float
        When he claims a match (Drechsler & Reiter 2008, section 4.3): always; unless the target is
        likelier outside the file than any record; if it is outside with a probability below a
        number. Without a population he always claims one.
    reason : mask of n values, or function, optional
        The reason why records were chosen for synthesis (R), where he knows it: which records were,
        or a function that states it for the rows of a DataFrame. He then looks for a target only
        among records that were chosen as it would be.
    radius : dict of str to float or Radius, optional
        How near numbers must come: ``{"income": 0.1}`` lets record j match if
        :math:`|Z_j - y_i| \le 0.1 |y_i|`; or `Absolute`, `SD`, `Quantile`. Every key that is not
        named matches exactly.
    shape : {"box", "ellipse"}
        With several radii: each must hold, or the squared distances, each in units of its radius,
        must add up to 1 at most (to less, if ends are left out).
    closed : bool
        Whether the ends of the intervals belong to them, as Hornby & Hu (2021) define; their
        package leaves them out. Decimals decide, ``|Z_j - y_i| <= r`` or ``< r``, and not their
        sums in floating point. A value always matches itself.
    missing : {"level", "wildcard", "never"}, or dict of str to one of them
        Missing values of a key match missing ones only; match everything, theirs or the target's;
        or match nothing.
    fallback : bool
        What an intruder who knows that the target is in the file does when no record of release l
        has its full key. True (Reiter & Mitra 2009; Drechsler & Reiter 2008): he chooses among the
        :math:`N_{us}` records that share the known keys, so each gets :math:`1/N_{us}`, all n
        records if ``known`` is empty. False (Hornby & Hu 2021): he gives up, and the record adds
        nothing. With a population he takes the target to be outside.
    corresponds : bool, optional
        Whether row i of a release is record i; by default where there are as many. Rows that are
        without correspondence, fresh draws of every column, may be of any number and order.
    person : str, optional
        The column that names persons with several records (in a table of targets too). Any record
        of the target's person is a correct match. T/c is the share of the person's records among
        the c_i candidates; K states that all are the person's, F that all are one other person's;
        the baseline is the share among the N_us. A person is matched if one of the person's
        records is matched uniquely and correctly. Not offered with a population.
    by : list of str, or mapping of column to list of numbers
        Columns by which risk is stated group by group, in ``risk.groups``: see
        `IdentificationRisk.by_group`.

    Returns
    -------
    IdentificationRisk, or MatchCounts without row correspondence
        Per release and pooled; expected match risk lies between 0 and n_t, large is bad.

    Raises
    ------
    InputError
        A choice that changes nothing; a key that is missing, repeated, listed against what the
        `Release` states was synthesised, stored as text here and as numbers there, or a number of
        more than 1,000 values without a radius; a known column that was changed; records that do
        not correspond, or what needs them to; targets, radii or population counts that do not
        belong to the keys.

    See Also
    --------
    IdentificationRisk, MatchCounts : What comes back: summaries, records, errors.

    Notes
    -----
    *Two published definitions differ much.* Hornby & Hu (2021) compute c, T, K, F in
    each release and average over releases (row ``mean``): an intruder who uses one release. Reiter
    & Mitra (2009) pool the probabilities over releases first (row ``pooled``): one who uses all.
    Both are reported; for m = 1 they agree.

    *Top-coding.* Where a release has a heap at its largest (or smallest) value, of about as many
    records as the original has from there on, and the original has values beyond it, the intruder
    knows the cut, and matches all that lies beyond it with the cut: the original's numbers are cut
    off where those of all releases are, before anything is compared. So they are if the heap is the
    mean of all values above a cut. ``cuts`` of the result states where this was done, and where it
    could not be settled and was not. Numbers that stand for missing values hide a cut.

    *Cost.* O(m n log n) time and O(m n) memory; the error of the pooled risk adds O(m^2 n) time.
    Pooled with several radii, or in ellipses or with three, about as many records are looked at as
    match, or share the two narrowest keys. Conventions, exact ties: ``docs/identification.md``.

    References
    ----------
    Reiter, J. P. and Mitra, R. (2009). Estimating risks of identification disclosure in partially
    synthetic data. Journal of Privacy and Confidentiality 1, 99-110.
    Drechsler, J. and Reiter, J. P. (2008). Accounting for intruder uncertainty due to sampling when
    estimating identification disclosure risks in partially synthetic data. PSD 2008, 227-238.
    Hornby, R. and Hu, J. (2021). Identification risks evaluation of partially synthetic data with
    the IdentificationRiskCalculation R package. Transactions on Data Privacy 14, 37-52.
    Hu, J. (2019). Bayesian estimation of attribute and identification disclosure risks in
    synthetic data. Transactions on Data Privacy 12, 61-89.

    Examples
    --------
    >>> import pandas as pd
    >>> original = pd.DataFrame({"sex": list("ffmm"), "job": list("abab")})
    >>> synthetic = pd.DataFrame({"sex": list("ffmm"), "job": list("abbb")})
    >>> risk = identification_risk(original, synthetic, known=["sex"], synthesized=["job"])
    >>> risk.records["probability"].tolist()
    [1.0, 1.0, 0.5, 0.5]
    >>> float(risk.summary().loc["pooled", "expected_match_risk"]), float(risk.baseline.sum())
    (3.0, 2.0)
    """
    return identified(
        original,
        releases,
        MatchingOptions(
            known,
            synthesized,
            targets,
            population,
            strategy,
            reason,
            radius,
            shape,
            closed,
            missing,
            fallback,
            corresponds,
            person,
            by,
        ),
    )[0]


def identified(
    original: pd.DataFrame, releases: Any, how: MatchingOptions
) -> tuple[Matched, Tables]:
    """`identification_risk`, and the tables that it has read."""
    releases = together(releases)
    found, tables = matched(original, releases, how)
    if len(how.by):
        if not isinstance(found, IdentificationRisk):
            raise InputError("by", f"needs rows that are records. {NOBODYS} Leave it out")
        people = how.targets if isinstance(how.targets, pd.DataFrame) else original
        found = replace(found, groups=found.by_group(how.by, table=people))
    begin_work()
    if isinstance(releases, Replicates):
        return found, tables
    exposure = exposure_of_tables(tables, [*how.known, *how.synthesized])
    return replace(found, exposure=exposure), tables


def matched(original: pd.DataFrame, releases: Any, how: MatchingOptions) -> tuple[Matched, Tables]:
    """`identified` without the `Exposure`."""
    asked = MatchingQuestion.of(original, releases, how)
    settings, tables = asked.as_settings(), asked.tables
    if asked.own_rows:
        release_of = np.array(releases.release_of) if isinstance(releases, Replicates) else None
        return IdentificationRisk(**asked.found(release_of), **settings), tables
    return MatchCounts(sizes=tables.sizes, **asked.counted(), **settings), tables
