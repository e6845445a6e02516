"""``[model]`` of kind ``"PoissonMixture"``, and what the other sections may say beside it."""

from collections.abc import Collection
from typing import Literal

import pandas as pd
from pydantic import Field, model_validator

from .keys import AtLeastFour, AtLeastTwo, Columns, Count, Float, NotNegative, Positive, Section
from .sections import AttributeSection, ReleaseSection

Pair = tuple[Positive, Positive]


class PoissonMixtureSection(Section):
    """``[model]`` of kind ``"PoissonMixture"``: counts, as of plants and their workers.

    synthesizer: MP: counts drawn from the mixture; MM: confidential totals of each component
        allocated to its records; TCMM: the same, the tail of each column apart
    quantile: of TCMM, required there: records above it are the tail of a column
    n_classes: most classes; raise it when the report says that the truncation binds
    concentration_prior: gamma prior of the concentration
    rate_prior: gamma; shape 0.5 and as mean the power of ten above the column's mean if left out
    zeros: of MP: beta prior of each component's chance of a structural zero
    covariates: categories that tell about the component; never synthesised
    exposure: a column of positive numbers that multiply the rates; never synthesised
    level_prior: Dirichlet prior weight of each level of a covariate in each component
    thin: sweeps between kept draws
    """

    kind: Literal["PoissonMixture"] = Field("PoissonMixture", description='"PoissonMixture"')
    synthesizer: Literal["MP", "MM", "TCMM"] = Field("MP", description='"MP", "MM" or "TCMM"')
    quantile: Float | None = Field(
        None, gt=0, lt=1, description="a number above 0 and below 1: 0.9"
    )
    n_classes: Count = 20
    concentration_prior: Pair = Field(
        (0.25, 0.25), description="[shape, rate], two numbers above 0"
    )
    rate_prior: Pair | dict[str, Pair] | None = Field(
        None,
        description="[shape, rate], two numbers above 0, or a table of column = [shape, rate]",
    )
    zeros: Pair | None = Field(
        None, description="[a, b] of a beta prior, two numbers above 0, or leave it out"
    )
    covariates: Columns = []
    exposure: str | None = Field(None, description="a column name")
    level_prior: Positive = 1.0
    draws: AtLeastFour = 1000
    tune: NotNegative = 1000
    chains: AtLeastTwo = 4
    thin: Count = 5

    @model_validator(mode="after")
    def _keys_go_together(self) -> "PoissonMixtureSection":
        if self.deals_tails and self.quantile is None:
            raise ValueError(
                'synthesizer = "TCMM" collapses the records above a quantile; give quantile = 0.9'
            )
        if self.quantile is not None and not self.deals_tails:
            raise ValueError('quantile belongs to synthesizer = "TCMM"; leave it out')
        if self.zeros is not None and self.deals:
            raise ValueError('zeros belongs to synthesizer = "MP"; leave it out')
        if self.exposure in self.covariates:
            raise ValueError(
                f"covariates names {self.exposure!r}, which is the exposure; it can be one"
            )
        for name in self.rate_prior if isinstance(self.rate_prior, dict) else ():
            if name in self.fixed:
                raise ValueError(f"rate_prior names {name!r}, which is no count; leave it out")
        return self

    @property
    def deals(self) -> bool:
        """Whether confidential totals are dealt, MM and TCMM."""
        return self.synthesizer != "MP"

    @property
    def deals_tails(self) -> bool:
        """Whether tails are dealt apart, TCMM."""
        return self.synthesizer == "TCMM"

    @property
    def fixed(self) -> list[str]:
        """Columns that are never synthesised; all others are counts."""
        return [*self.covariates, *([self.exposure] if self.exposure is not None else [])]

    @property
    def modelled(self) -> list[str] | None:
        """Columns that can be synthesised: all counts, whichever the table has."""
        return None

    def offers(self, columns: Collection[str], df: pd.DataFrame | None = None) -> tuple[str, ...]:
        """Ways to the evidence of a release, for an intruder who knows all other records."""
        return ("exact",) if self.deals else ("predictive", "refit", "reuse")

    def offers_knowing(
        self, columns: Collection[str], m: int, df: pd.DataFrame | None = None
    ) -> tuple[str, ...]:
        """Ways to the evidence of m data sets, for an intruder who knows some other records."""
        if self.deals:
            return ()
        return ("predictive",) if m == 1 else ("imputed", "product")


def check_release(model: PoissonMixtureSection, release: ReleaseSection) -> None:
    """Refuse a ``[release]`` that this model cannot make.

    Raises
    ------
    ValueError
        Columns that stay; classes that are not its own.
    """
    for name in release.columns or []:
        _refuse_fixed(model, name, "[release] columns")
    if model.deals:
        return
    if release.classes == "own" and model.zeros is not None:
        raise ValueError(
            '[release] classes = "own" is not offered beside [model] zeros; leave out one of them'
        )
    if release.classes == "new" and model.covariates and release.files is None:
        raise ValueError(
            '[release] classes = "new" would draw classes regardless of [model] covariates; give '
            'classes = "own"'
        )


def check_attribute(
    model: PoissonMixtureSection, release: ReleaseSection, section: AttributeSection
) -> None:
    """Refuse an ``[attribute]`` that this model cannot answer.

    Raises
    ------
    ValueError
        Guesses of columns that stay; an intruder whom the mechanism, or a
        file made elsewhere, leaves without an answer.
    """
    for name in section.grids:
        _refuse_fixed(model, name, "[attribute] guesses")
    intruder = section.intruder
    if intruder is None or not intruder.of_trade:
        return
    if intruder.largest is not None:
        _refuse_fixed(model, intruder.largest, "[attribute.intruder] largest")
    if model.zeros is not None and (intruder.other is not None or section.knows_columns):
        raise ValueError(
            "[model] zeros is offered for intruders who know the second largest and no column of "
            "the target; leave zeros out"
        )
    _check_groups(model, release, intruder.groups, intruder.other is not None)


def check_keys(model: PoissonMixtureSection, synthesized: list[str]) -> None:
    """Refuse synthesised keys of a matching intruder that are not synthesised.

    Raises
    ------
    ValueError
        A covariate or the exposure among them.
    """
    for name in synthesized:
        _refuse_fixed(model, name, "[identification] synthesized", "put it under known")


def _check_groups(
    model: PoissonMixtureSection, release: ReleaseSection, groups: str, knows_pair: bool
) -> None:
    """Which records share a total: known where it is told, inferred where there is anything to."""
    if groups == "inferred" and model.synthesizer != "MM":
        raise ValueError(
            '[attribute.intruder] groups = "inferred" is for synthesizer = "MM", not '
            f'"{model.synthesizer}"; leave groups out'
        )
    if groups == "known" and model.deals and release.files is not None:
        inferred = model.synthesizer == "MM" and not knows_pair
        cure = 'give groups = "inferred"' if inferred else "leave files out"
        raise ValueError(
            "[release] files do not say which records share a total, and this intruder knows it; "
            f"{cure}"
        )


def _refuse_fixed(
    model: PoissonMixtureSection, name: str, where: str, cure: str = "leave it out there or here"
) -> None:
    if name in model.fixed:
        key = "exposure" if name == model.exposure else "covariates"
        raise ValueError(
            f"{where} names {name!r}, which stands under [model] {key} and is not synthesised; "
            f"{cure}"
        )
