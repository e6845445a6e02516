"""The report: one HTML file that works offline, reads well on paper and starts with the verdict."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_risk._core.errors import InputError
from bayes_risk.identification.result import IdentificationRisk
from bayes_risk.reporting.content import page
from bayes_risk.reporting.further_sections import further_sections
from bayes_risk.reporting.words import replaced
from bayes_risk.results import AttributeRisk
from bayes_risk.verdict import Thresholds, judge

if TYPE_CHECKING:
    from bayes_risk.run import StudyResult

__all__ = ["render_study", "report"]


def report(
    *parts: AttributeRisk | IdentificationRisk | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    title: str = "Disclosure risk of a synthetic file",
    thresholds: Thresholds | None = None,
    diagnostics: Mapping[str, Any] | None = None,
) -> Path:
    """Write results as one HTML file: verdict first, then numbers, plots, diagnostics, glossary.

    The file shows record labels and risks, no confidential value.

    Parameters
    ----------
    *parts : AttributeRisk, IdentificationRisk
        One or both, in any order. A path may stand last instead of ``path=``.
    path : path of the file to write
        An existing file is replaced, once the new one is complete.
    title : str
        Heading of the report.
    thresholds : Thresholds, optional
        What the verdict compares with.
    diagnostics : mapping, optional
        ``fit.diagnostics``, to be shown with the rest.

    Returns
    -------
    pathlib.Path
        Where the report lies.

    Raises
    ------
    InputError
        No result, two of one kind, something that is no result, or no path.

    Examples
    --------
    >>> report(risk, ident, "report.html")  # doctest: +SKIP
    PosixPath('report.html')
    """
    results = list(parts)
    if path is None and results and isinstance(results[-1], str | os.PathLike):
        path = results.pop()  # type: ignore[assignment]
    if path is None:
        raise InputError('report() was given no path; say where: report(risk, path="report.html")')
    attribute, identification = _sorted(results)
    text = page(
        title=title,
        verdict=judge(attribute, identification, thresholds),
        attribute=attribute,
        identification=identification,
        diagnostics=diagnostics or {},
        reproduction={},
    )
    return _write(Path(path), text)


def render_study(result: "StudyResult", *, command: str = "") -> str:
    """HTML of a whole study, with what it takes to do it again."""
    from bayes_risk.output import settings, versions

    return page(
        title=result.study.title,
        verdict=result.verdict,
        attribute=result.attribute,
        identification=result.identification,
        diagnostics=result.diagnostics,
        replaced=replaced(result.release),
        further=further_sections(result),
        reproduction={
            "command": command,
            "seed": str(result.random_seed),
            "versions": versions(),
            "settings": settings(result.study),
        },
    )


def _sorted(parts: list[Any]) -> tuple[AttributeRisk | None, IdentificationRisk | None]:
    for part in parts:
        if not isinstance(part, AttributeRisk | IdentificationRisk):
            raise InputError(
                f"report() was given a {type(part).__name__}; give an AttributeRisk, an "
                f"IdentificationRisk, or both, then the path"
            )
    attribute = [p for p in parts if isinstance(p, AttributeRisk)]
    identification = [p for p in parts if isinstance(p, IdentificationRisk)]
    if not parts or len(attribute) > 1 or len(identification) > 1:
        raise InputError(
            f"report() was given {len(attribute)} attribute and {len(identification)} "
            f"identification risks; give one of each kind at most, and at least one"
        )
    return next(iter(attribute), None), next(iter(identification), None)


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
