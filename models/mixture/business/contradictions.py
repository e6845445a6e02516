"""What an intruder of the trade is told against the data and the release: contradictions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bayes_risk._core.errors import InputError

from .largest_value import TAIL
from .scenario import Scene

if TYPE_CHECKING:
    from bayes_risk.models.mixture.counts.fit import PoissonMixtureFit


def check(scene: Scene, fit: "PoissonMixtureFit") -> None:
    """Whether all this can be.

    Raises
    ------
    InputError
        A target that does not hold the largest value, or that is ``other``; totals that are not
        those of the data; groups missing, or whose totals the release does not keep; structural
        zeros where they are not offered.
    """
    intruder, label = scene.intruder, fit.microdata.index[scene.record]
    if scene.other == scene.record:
        raise InputError(f"other={intruder.other!r} is the target; name another record")
    if scene.release.records is not None and not np.all(scene.release.records):
        raise InputError(
            f"knows_records={intruder.knows_records!r} is offered for releases of which every "
            "record was replaced"
        )
    if fit.prior.zeros is not None and (
        scene.other is not None or scene.known_columns[scene.synthesized].any()
    ):
        raise InputError(
            "a mixture with structural zeros offers intruders who know the second largest and "
            "no column of the target; fit without zeros"
        )
    if (
        intruder.largest is not None
        and scene.own.counts[scene.record, scene.j] < scene.second_value
    ):
        raise InputError(
            f"target {label!r} has {scene.own.counts[scene.record, scene.j]:.0f} in "
            f"{scene.name!r}, and another record has {scene.second_value:.0f}: the data break "
            "the order that the intruder knows; leave targets= out to audit the largest"
        )
    _check_totals(scene)
    if scene.deals:
        _check_groups(scene, fit.model.kind)


def _check_totals(scene: Scene) -> None:
    given = scene.intruder.knows_totals
    if not isinstance(given, Mapping):
        return
    for name, total in given.items():
        if name not in scene.names:
            raise InputError(
                f"knows_totals names column {name!r}, which is no count; counts are "
                f"{list(scene.names)}"
            )
        true = scene.own.counts[:, scene.names.index(name)].sum()
        if float(total) != true:
            raise InputError(
                f"knows_totals gives {total:g} for column {name!r}, and the data add up to "
                f"{true:.0f}: they contradict; give the data's total, or knows_totals=True"
            )


def _check_groups(scene: Scene, kind: str) -> None:
    """Whether the groups that the intruder knows are there, and keep their totals."""
    groups, inferred = scene.release.groups, scene.intruder.groups == "inferred"
    if inferred and (kind == "TCMM" or (groups is not None and (groups == TAIL).any())):
        raise InputError(
            'groups="inferred" is not offered where a tail was collapsed; give groups="known"'
        )
    if groups is None:
        if not inferred:
            raise InputError(
                'the release has no groups, and groups="known" needs them: keep the Release '
                'that synthesize made, or give Intruder(groups="inferred")'
            )
        return
    for l in range(scene.release.m):
        for q, name in enumerate(scene.release.synthesized):
            j, label = scene.names.index(name), np.unique(groups[l, :, q], return_inverse=True)[1]
            moved = scene.tables[l].counts[:, j] - scene.own.counts[:, j]
            if np.bincount(label.reshape(-1), moved).any():
                raise InputError(
                    f"column {name!r} of release {l + 1} does not keep the confidential totals "
                    "of its groups: they contradict the data; give the release as it was made"
                )
