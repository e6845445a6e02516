"""``[utility]`` of a study file: what an analyst still finds in the release."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd
from pydantic import Field, model_validator

import bayes_risk as br

from .functions import functions_in, guarded
from .keys import AtLeastTwo, Float, Functions, Section, SomeColumns, file_and_name

if TYPE_CHECKING:
    from bayes_risk.utilities.result import Utility

    from .making import Made
    from .study import Study

Rules = Literal["partially synthetic", "fully synthetic"]


class UtilitySection(Section):
    """``[utility]``: how like the original the release is. The options of ``utility``.

    columns: columns to compare; all that the releases hold if left out
    numbers: columns that are numbers; those with more than 20 values if left out
    groups: into how many groups numbers are cut for tables
    missing: missing values are a level of their own, or stop the run
    permutations: trees grown for the null of CART
    analyses: functions of a table that return a fitted model of statsmodels; the file is run
    rules: combining rules; in fully synthetic files every record is a new draw
    confidence: of intervals
    """

    columns: SomeColumns = None
    numbers: SomeColumns = None
    groups: AtLeastTwo = 5
    missing: Literal["level", "error"] = Field("level", description='"level" or "error"')
    permutations: AtLeastTwo = 20
    analyses: Functions = Field(
        [], description='the text "file.py:function", or a list of such texts'
    )
    rules: Rules = Field(
        "partially synthetic", description='"partially synthetic" or "fully synthetic"'
    )
    confidence: Annotated[
        Float, Field(gt=0, lt=1, description="a number above 0 and below 1: 0.95")
    ] = 0.95

    @model_validator(mode="after")
    def _each_analysis_once(self) -> "UtilitySection":
        names = [name for _, name in self.files]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise ValueError(
                f"analyses names two functions {repeated[0]!r}, by which results are told apart; "
                "give each a name of its own"
            )
        return self

    @property
    def files(self) -> list[tuple[Path, str]]:
        """The Python file of each analysis, and the name of the function in it."""
        return [file_and_name(analysis) for analysis in self.analyses]

    def from_folder(self, base: Path) -> "UtilitySection":
        """Return the same section, its paths counted from a folder."""
        files = [f"{base / path}:{name}" for path, name in self.files]
        return self.model_copy(update={"analyses": files})

    @property
    def options(self) -> dict[str, Any]:
        """The section as keyword arguments of ``utility``; reads the files of the analyses."""
        return self.model_dump(exclude={"analyses"}) | {"analyses": self.functions() or None}

    def functions(self) -> dict[str, Callable[[pd.DataFrame], Any]]:
        """Analyses by name.

        Raises
        ------
        InputError
            A file that is missing or cannot be run; a name that it does not define.
        """
        where = {"key": "analyses", "section": "[utility]"}
        found = functions_in(self.files, **where)
        return {
            name: guarded(function, path, **where)
            for function, (path, name) in zip(found, self.files, strict=True)
        }


def utility_of(study: "Study", made: "Made", *, random_seed: int, n_jobs: int) -> "Utility":
    """How like the confidential table the release is.

    Parameters
    ----------
    study : Study
        With ``[utility]``.
    made : Made
    random_seed, n_jobs : int

    Returns
    -------
    Utility
    """
    section = study.utility
    assert section is not None
    return br.utility(
        made.df, made.release, random_seed=random_seed, n_jobs=n_jobs, **section.options
    )
