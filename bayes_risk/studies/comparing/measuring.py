"""One replicate of a candidate measured: the numbers of its risks and of its utility."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.intruder.grids import JointGrid
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.risk import identification_risk
from bayes_risk.release.release import Release
from bayes_risk.risk.attribute import attribute_risk
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.utilities.assess import utility
from bayes_risk.utilities.result import Utility

from .candidates import Files, Made
from .words import MEASURES

Options = Mapping[str, Any]
RESERVED = {"fit", "release", "releases", "original", "random_seed", "n_jobs", "progress"}
NAN = float("nan")


class Number(NamedTuple):
    """A measure, its Monte Carlo error, and what stands beside it.

    ``beside``: of a risk, what it is without the release; of utility, what a release drawn from the
    truth has on average.
    """

    value: float
    mcse: float
    beside: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """What is measured of every candidate; None: not measured.

    ``targets``: mask of the records whose attribute risk is measured, the same for all.
    """

    original: pd.DataFrame
    attribute: Options | None
    identification: Options | Callable[[Files], Options] | None
    utility: Options | None
    n_jobs: int

    def of(
        self, made: Made, seeds: Sequence[int], own: Options, progress: Any
    ) -> dict[str, Number]:
        """Every number of one release; seeds of the attribute audit, and of utility."""
        found: dict[str, Number] = {}
        if self.attribute is not None and made.fit is not None:
            assert isinstance(made.release, Release)
            options = sorted_guesses({**self.attribute, **own}, made.release.synthesized)
            how: dict[str, Any] = {
                "random_seed": seeds[0],
                "n_jobs": self.n_jobs,
                "progress": progress,
            }
            found |= of_attribute(attribute_risk(made.fit, made.release, **options, **how))
        return found | self.of_files(made.release, seeds[1])

    def of_files(self, files: Files, random_seed: int) -> dict[str, Number]:
        """Every number that the released files alone give."""
        found: dict[str, Number] = {}
        if self.identification is not None:
            given = self.identification
            options = given(files) if callable(given) else given
            keys = sorted_keys(options, self.original, files)
            found |= of_identification(identification_risk(self.original, files, **keys))
        if self.utility is not None:
            options = dict(self.utility)
            if isinstance(files, Release):
                options.pop("synthesized", None)  # the release says it
            how: dict[str, Any] = {"random_seed": random_seed, "n_jobs": self.n_jobs}
            found |= of_utility(utility(self.original, files, **options, **how))
        return found


def check_options(audit: Audit) -> None:
    """Every option has an argument, before anything is fitted.

    Raises
    ------
    InputError
        Nothing to measure; an option that the measure does not take; keys that the table lacks.
    """
    if audit.attribute is None and audit.identification is None and audit.utility is None:
        raise InputError("nothing to measure; give attribute=, identification= or utility=")
    for what, options, function in (
        ("attribute", audit.attribute, attribute_risk),
        ("identification", audit.identification, identification_risk),
        ("utility", audit.utility, utility),
    ):
        if isinstance(options, Mapping):
            check_names(what, options, function)
        elif options is not None and not (what == "identification" and callable(options)):
            raise InputError(f"{what}={options!r} is no dict of options; give one, or None")
    if isinstance(audit.identification, Mapping):
        keys = [
            *audit.identification.get("known", ()),
            *audit.identification.get("synthesized", ()),
        ]
        known_columns("identification", keys, list(audit.original.columns))


def check_names(what: str, options: Options, function: Callable[..., Any]) -> None:
    """Options are arguments of the function that measures."""
    takes = set(signature(function).parameters) - RESERVED
    for name in options:
        if name not in takes:
            raise InputError(f"{what} has no option {name!r}; give some of {sorted(takes)}")


def with_targets(options: Options | None, n: int, rng: np.random.Generator) -> Options | None:
    """Draw a number of targets once, as a mask: all candidates are asked about the same."""
    if not isinstance(options, Mapping):
        return options
    wanted = options.get("targets")
    if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer):
        return options
    mask: npt.NDArray[np.bool_] = np.zeros(n, dtype=bool)
    mask[rng.choice(n, size=min(max(int(wanted), 1), n), replace=False)] = True
    return {**options, "targets": mask}


def sorted_keys(options: Options, original: pd.DataFrame, files: Files) -> dict[str, Any]:
    """Keys as the release has them: those that it synthesised, and the others."""
    if not isinstance(files, Release):
        return dict(options)
    keys = [*options.get("known", ()), *options.get("synthesized", ())]
    made = set(files.synthesized)
    return {
        **options,
        "known": [key for key in keys if key not in made],
        "synthesized": [key for key in keys if key in made],
    }


def sorted_guesses(options: Options, synthesized: Sequence[str]) -> dict[str, Any]:
    """Grids of the columns that are guessed, and knowledge of those alone that were synthesised."""
    found, intruder = dict(options), options.get("intruder")
    known: set[str] = set()
    if isinstance(intruder, Intruder):
        kept = tuple(c for c in intruder.knows_columns if c in synthesized)
        found["intruder"], known = replace(intruder, knows_columns=kept), set(kept)
    guessed = set(synthesized) - known
    guesses = options.get("guesses")
    if isinstance(guesses, JointGrid):
        found["guesses"] = replace(guesses, grids=_only(guesses.grids, guessed))
    elif isinstance(guesses, Mapping):
        found["guesses"] = _only(guesses, guessed)
    return found


def _only(grids: Mapping[str, Any], columns: set[str]) -> dict[str, Any]:
    return {name: grid for name, grid in grids.items() if name in columns}


def of_attribute(risk: AttributeRisk) -> dict[str, Number]:
    """Numbers of an attribute audit."""
    rows = risk.summary().to_dict("index")
    found = {
        str(name): Number(float(row["value"]), float(row["mcse"]), float(row["baseline"]))
        for name, row in rows.items()
        if name in MEASURES
    }
    mean = found["mean_probability"]
    return found | {"gain": Number(mean.value - mean.beside, mean.mcse, 0.0)}


def of_identification(risk: IdentificationRisk) -> dict[str, Number]:
    """Numbers of a matching audit: pooled, and their means over data sets."""
    summary = risk.summary().to_dict("index")
    found: dict[str, Number] = {}
    for row, prefix in (("pooled", ""), ("mean", "mean_")):
        of = {str(name): float(value) for name, value in summary[row].items()}
        expected = Number(of["expected_match_risk"], of["mcse"], of["baseline"])
        found[f"{prefix}expected_match_risk"] = expected
        for name in ("true_match_rate", "false_match_rate"):
            found[f"{prefix}{name}"] = Number(of[name], NAN, NAN)
    return found


def of_utility(found: Utility) -> dict[str, Number]:
    """Numbers of utility, means over data sets; NaN errors for one data set."""
    rows = found.summary()
    return {
        str(name): Number(float(row["value"]), float(row["sd"]) / found.m**0.5, float(row["null"]))
        for name, row in rows.iterrows()
        if name in MEASURES
    }
