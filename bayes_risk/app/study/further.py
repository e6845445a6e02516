"""Audits beyond the two risks: membership, and the full table of the records at highest risk."""

from typing import Any

import numpy as np

import bayes_risk as br
from bayes_risk.data.variables import Variable
from bayes_risk.risk.full_table.result import FullTableRisk
from bayes_risk.risk.membership.result import Membership
from bayes_risk.risk.result import AttributeRisk

from .audits import MembershipSection
from .declare import attribute_options, fit_model
from .making import Made, synthesized
from .outsiders import others_of
from .study import Study


def membership_of(study: Study, made: Made, *, random_seed: int, **how: Any) -> Membership:
    """Ask who is in the data: of the release, or of one made without the records held out.

    Parameters
    ----------
    study : Study
        With ``[membership]``.
    made : Made
    random_seed : int
    **how
        ``n_jobs`` and ``progress``.

    Returns
    -------
    Membership
    """
    section = study.membership
    assert section is not None
    fit, release, others = made.fit, made.release, None
    seeds = [int(s.generate_state(1)[0]) for s in np.random.SeedSequence(random_seed).spawn(4)]
    if section.held_out is not None:
        order = np.random.default_rng(seeds[0]).permutation(len(made.df))
        cut = min(max(round(section.held_out * len(order)), 1), len(order) - 1)
        others = made.df.iloc[np.sort(order[:cut])]
        kept = made.df.iloc[np.sort(order[cut:])]
        levels = {v.name: v.levels for v in fit.microdata.variables if isinstance(v, Variable)}
        how_fitted = {"levels": levels, "random_seed": seeds[1], **how}
        fit = fit_model(study, made.declaration, kept, **how_fitted)
        release = synthesized(fit, study, random_seed=seeds[2])
    else:
        others = others_of(study, made.df)
    return br.membership(
        fit, release, others=others, random_seed=seeds[3], **_asked(section), **how
    )


def _asked(section: MembershipSection) -> dict[str, Any]:
    """``[membership]`` as options of ``membership``."""
    asked = section.model_dump(exclude={"held_out", "others", "records", "knows_records"})
    asked["records"] = None if section.records == "all" else section.records
    return asked | {"intruder": br.Intruder(knows_records=section.knows_records)}


def full_table_of(
    study: Study, made: Made, attribute: AttributeRisk | None, *, random_seed: int, **how: Any
) -> FullTableRisk:
    """Where the truth stands among all values, of the records at highest risk.

    Parameters
    ----------
    study : Study
        With ``[full_table]``.
    made : Made
    attribute : AttributeRisk or None
        Says who is at highest risk; None: records are drawn at random.
    random_seed : int
    **how
        ``n_jobs`` and ``progress``.

    Returns
    -------
    FullTableRisk
    """
    section = study.full_table
    assert section is not None
    targets: Any = section.targets
    if isinstance(targets, int) and attribute is not None:
        targets = list(attribute.worst(targets).index)
    intruder = None if study.attribute is None else attribute_options(study.attribute)["intruder"]
    return br.full_table_risk(
        made.fit,
        made.release,
        targets=targets,
        prior=section.prior,
        draws=section.draws,
        keep=section.keep,
        intruder=intruder,
        random_seed=random_seed,
        **how,
    )
