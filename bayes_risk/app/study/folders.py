"""Paths in a study file count from the folder it lies in."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .candidates import candidate_study
from .comparing import CompareSection
from .identification import IdentificationSection
from .models import DPMPMSection, ModelSection, PMMSection, PyMCSection, RegressionSection
from .trees import CARTSection

if TYPE_CHECKING:
    from .study import Study


def from_folder(study: "Study", base: Path) -> "Study":
    """Return the same study, its paths counted from a folder."""
    data, release, output = study.data, study.release, study.output
    if data.path is not None:
        data = data.model_copy(update={"path": base / data.path})
    if release.files is not None:
        release = release.model_copy(update={"files": [base / f for f in release.files]})
    if output.folder is not None:
        output = output.model_copy(update={"folder": base / output.folder})
    update: dict[str, Any] = {"data": data, "release": release, "output": output}
    if study.membership is not None and study.membership.others is not None:
        others = {"others": base / study.membership.others}
        update["membership"] = study.membership.model_copy(update=others)
    if study.context is not None and study.context.holdout is not None:
        holdout = {"holdout": base / study.context.holdout}
        update["context"] = study.context.model_copy(update=holdout)
    if study.compare is not None:
        update["compare"] = _compare(study, study.compare, base)
    if study.utility is not None:
        update["utility"] = study.utility.from_folder(base)
    update |= {
        "model": _model(study.model, base),
        "identification": _identification(study.identification, base),
    }
    return study.model_copy(update=update)


def _compare(study: "Study", section: CompareSection, base: Path) -> CompareSection:
    """The same candidates, the paths that they name counted from a folder."""
    found = {}
    for name, given in section.candidates.items():
        update: dict[str, Any] = {}
        if given.release is not None and "files" in given.release:
            files = [base / file for file in given.release["files"]]
            update["release"] = given.release | {"files": files}
        own = candidate_study(study, name).model
        if given.model is not None and (there := _model(own, base)) != own:
            update["model"] = there.model_dump(exclude_unset=True) | {"kind": there.kind}
        found[name] = given.model_copy(update=update)
    return section.model_copy(update={"candidates": found})


def _model(model: ModelSection, base: Path) -> ModelSection:
    """The same model, its paths counted from a folder."""
    if isinstance(model, PyMCSection):
        path, name = model.file
        return model.model_copy(update={"build": f"{base / path}:{name}"})
    if isinstance(model, DPMPMSection) and isinstance(model.impossible, Path):
        return model.model_copy(update={"impossible": base / model.impossible})
    if isinstance(model, CARTSection) and model.models is not None:
        return model.model_copy(update={"models": base / model.models})
    if isinstance(model, PMMSection):
        constraints = [f"{base / path}:{name}" for path, name in model.files]
        return model.model_copy(update={"constraints": constraints})
    if isinstance(model, RegressionSection) and isinstance(model.draws, dict):
        return model.model_copy(
            update={"draws": {c: base / path for c, path in model.draws.items()}}
        )
    return model


def _identification(
    section: IdentificationSection | None, base: Path
) -> IdentificationSection | None:
    """The same section, its population's path counted from a folder."""
    if section is None or section.population is None or section.population.file is None:
        return section
    given = section.population.model_copy(update={"file": base / section.population.file})
    return section.model_copy(update={"population": given})
