"""Unique and correct matches of a file, and those that chance explains."""

from collections.abc import Iterator

import numpy as np
from scipy.special import gammainc

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk.matching.result import IdentificationRisk, Matching


def unique_matches(risk: Matching) -> Iterator[tuple[str, float, float, float]]:
    """Of which files; share of persons with unique true matches; by chance; its probability.

    Of several records with the same unsynthesised keys each may be the one row that matches. Who is
    alone with these keys is found for certain, and counts. Of a person's records any may be.
    """
    if not isinstance(risk, IdentificationRisk):
        for rate in risk.summary()["true_match_rate"].dropna():
            yield "", float(rate), 0.0, 0.0
        return
    who = _places(risk)
    files = [(risk.pooled_one, risk.pooled_K), *zip(risk.one.T, risk.K.T, strict=True)]
    for l, (one, true) in enumerate(files):
        chance, found = risk.baseline * (one >= 0), of_persons(risk, true)
        several = ~of_persons(risk, chance == 1)
        none = np.ones(len(found))
        # of several records by which one person is claimed, the likeliest: it is one decision
        order = np.lexsort((-chance, one, who))
        claims = np.column_stack([who, one])[order]
        each = order[np.append(True, (claims[1:] != claims[:-1]).any(axis=1))]
        np.multiply.at(none, who[each], 1 - chance[each])
        expected = float((1 - none)[several].sum())
        k = (found & several).sum()  # of so many or more, Poisson
        p = float(gammainc(k, expected)) if k else 1.0
        which = f", file {l}" if l else ", all files together"
        yield which * (len(files) > 2), float(found.mean()), expected / len(found), p


def of_persons(risk: IdentificationRisk, flags: Flags) -> Flags:
    """Persons of whom some record is marked; where none are named, the records."""
    return np.bincount(_places(risk), flags) > 0


def _places(risk: IdentificationRisk) -> Ints:
    """Of each record its person, numbered from 0 among those looked for."""
    if risk.person is None:
        return np.arange(risk.n)
    return np.asarray(np.unique(risk.person, return_inverse=True)[1])
