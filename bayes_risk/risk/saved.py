"""Attribute risk and its evidence, read back from a file or the folder of a run."""

from os import PathLike
from typing import Any

from bayes_risk._core.errors import InputError
from bayes_risk.data.kept import read_kept

from .attribute import AttributeEvidence
from .result import AttributeRisk


def open_result(path: str | PathLike[str]) -> AttributeRisk:
    """Read attribute risk back: the same records, summary, tables, pictures and report.

    Parameters
    ----------
    path : path
        The folder of a run whose study has ``[output] confidential = true``, its ``risk.nc``, or
        what `AttributeRisk.save` wrote.

    Returns
    -------
    AttributeRisk

    Raises
    ------
    InputError
        No such file; one without guessed values, of another format, or damaged; evidence alone.

    Examples
    --------
    >>> open_result("study-risk").summary()  # doctest: +SKIP
    """
    risk = _part(path, "risk")
    if not isinstance(risk, AttributeRisk):
        raise InputError("path", str(path), "holds evidence alone; open_evidence(path).risk(prior)")
    return risk


def open_evidence(path: str | PathLike[str]) -> AttributeEvidence:
    """Read the evidence of a release back: for other priors, and for `join`.

    Parameters
    ----------
    path : path
        As in `open_result`, or what `AttributeEvidence.save` wrote. Of a study with ``[history]``
        it is that of the new release alone.

    Returns
    -------
    AttributeEvidence

    Raises
    ------
    InputError
        As `open_result`; a risk alone.

    Examples
    --------
    >>> open_evidence("study-risk").risk("marginal")  # doctest: +SKIP
    """
    evidence = _part(path, "evidence")
    if not isinstance(evidence, AttributeEvidence):
        raise InputError(
            "path", str(path), "holds a risk without its evidence; save that: evidence.save(path)"
        )
    return evidence


def _part(path: str | PathLike[str], name: str) -> Any:
    """A value of a file by its name; None: it has no such."""
    found = read_kept(path)
    return found.get(name) if isinstance(found, dict) else None
