"""The report: one HTML file that works offline, reads well on paper and starts with the verdict."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bayes_risk._core.errors import InputError
from bayes_risk.data.base_result import Result
from bayes_risk.evidence.mechanism_check import MechanismCheck
from bayes_risk.matching.households import HouseholdMatching
from bayes_risk.matching.result import Matching
from bayes_risk.release.correspondence import RowCorrespondence
from bayes_risk.release.exposure import Exposure, exposure_of
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge
from bayes_risk.risk.membership.audit import Membership
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.studies.comparison import Comparison
from bayes_risk.studies.identification_sweep import IdentificationSweep
from bayes_risk.studies.sensitivity import Sensitivity
from bayes_risk.utilities.result import Utility

from .content import page
from .provenance import origin, versions
from .sections import HEADS, parts_in_order

__all__ = ["report"]

OF_MANY_AUDITS = (Sensitivity, IdentificationSweep, Comparison)  # judge no single release
JUDGED = {
    Membership: "membership",
    Utility: "utility",
    RowCorrespondence: "rows",
    HouseholdMatching: "households",
}


def report(
    *parts: Any,
    path: str | os.PathLike[str] | None = None,
    title: str = "Disclosure risk of a synthetic file",
    thresholds: Thresholds | None = None,
    diagnostics: Mapping[str, Any] | None = None,
    command: str = "",
    provenance: Any = None,
) -> Path:
    """Write results as one HTML file: verdict first, then numbers, plots, diagnostics, glossary.

    The page shows every given result. It contains record labels and risks, but no confidential
    value. It loads nothing from outside, and suits light and dark screens and paper.

    Parameters
    ----------
    *parts : results
        One or more results of the package, in any order, at most one of each kind. If no Exposure
        is given, that of the risks is shown. A path may stand last instead of ``path=``.
    path : path of the file to write
        An existing file is replaced, once the new one is complete.
    title : str
        Heading of the report.
    thresholds : Thresholds, optional
        What the verdict compares with.
    diagnostics : mapping, optional
        ``fit.diagnostics``, to be shown with the rest; chains that disagree widen errors.
    command : str
        The command that repeats the work, such as the name of a script; shown beside seeds and
        versions.
    provenance : Provenance, optional
        Files that were read, with their hashes, and a description of the data: ``provenance`` of
        the result of a study.

    Returns
    -------
    pathlib.Path
        The file written.

    Notes
    -----
    The verdict rests on attribute and identification risk (or MatchCounts, FileRisk), and on
    membership and utility if ``thresholds`` has limits for them. If one of the two risks is absent,
    the verdict names it. A page of only Sensitivity, IdentificationSweep or Comparison has no
    verdict, because it judges no release.

    Examples
    --------
    >>> report(risk, ident, utility, "report.html")  # doctest: +SKIP
    PosixPath('report.html')
    """
    results = list(parts)
    if path is None and results and isinstance(results[-1], str | os.PathLike):
        path = results.pop()
    if path is None or Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"report() writes HTML, and path={path!r}; give one that ends in .html")
    of = _checked(results)
    attribute = of.get(AttributeRisk)
    matching = next((part for part in parts_in_order(results) if isinstance(part, Matching)), None)
    shown = {
        MechanismCheck: attribute and attribute.check,
        Exposure: exposure_of(matching, attribute),
    } | of
    verdict = None
    if not set(OF_MANY_AUDITS) >= set(of):
        more: Any = {name: shown.get(kind) for kind, name in JUDGED.items()}
        verdict = judge(attribute, matching, thresholds, diagnostics=diagnostics, **more)
        if attribute is not None:
            shown[AttributeRisk] = replace(attribute, worst_under=verdict.prior)
    found = None
    if provenance is not None:
        found = origin(provenance, files=[asdict(file) for file in provenance.files])
    known = ("seed_entropy", "random_seed")
    seeds = [
        (f"Seed of {kind.__name__}", str(getattr(part, name)))
        for kind, part in of.items()
        for name in known
        if getattr(part, name, None) is not None
    ]
    text = page(
        shown.values(),
        title=title,
        verdict=verdict,
        diagnostics=diagnostics or {},
        origin=found,
        reproduction={"seeds": seeds, "versions": versions(), "command": command},
    )
    return _write(Path(path), text)


def _checked(parts: list[Any]) -> dict[type, Any]:
    """Results by their class, one of each."""
    known = ", ".join(head.of.__name__ for head in HEADS)
    for part in parts:
        if not isinstance(part, Result):
            raise InputError(
                f"report() was given a {type(part).__name__}; give results ({known}), then the path"
            )
    if not parts:
        raise InputError("report() was given no result; give at least one, then the path")
    kinds = [type(part) for part in parts]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise InputError(
                f"report() was given {kinds.count(kind)} results of the kind {kind.__name__}; give "
                "one of each kind, or write a report for each"
            )
    return dict(zip(kinds, parts, strict=True))


def _write(path: Path, text: str) -> Path:
    """Write beside the file and put it in place when complete; only the owner may read it."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(
            f"{str(path)!r} cannot be written; give a file name in a folder that exists"
        )
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)
    return path
