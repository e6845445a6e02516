"""``[model]`` of a study file: one section for each kind of synthesis model.

``offers`` and ``offers_knowing`` say what a fit of it will offer for a release with ``columns``
synthesised; without the table, what it may offer. Of the DPMPM also the rules that say which
combinations nobody can have.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pandas as pd
from pydantic import BeforeValidator, Field, model_validator

from .keys import (
    FUNCTION,
    AtLeastFour,
    AtLeastTwo,
    Columns,
    Count,
    Cuts,
    DistinctColumns,
    Float,
    FromZero,
    Functions,
    NotNegative,
    Positive,
    Section,
    file_and_name,
    misfit,
    read_each,
    read_section,
    told,
    unknown,
)


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers."""
    kinds = pd.api.types
    return kinds.is_numeric_dtype(column.dtype) and not kinds.is_bool_dtype(column.dtype)


Named = Literal[
    Literal["normal", "lognormal", "student", "bernoulli"],
    Literal["poisson", "negative-binomial", "ordered", "categorical"],
]
FAMILIES: tuple[str, ...] = get_args(Named)
EXACT = ("normal", "lognormal")
Pair = tuple[Positive, Positive]


WHERE = "[model] impossible"
RULE = '{ AGE = ["0-15"], MARITAL = ["married", "widowed"] }'
Level = str | int | float | bool
Rule = dict[str, list[Level]]


def _read(given: Any) -> Any:
    """A path, or rules: tables of column = levels."""
    if given is None or isinstance(given, Path) or (isinstance(given, str) and given):
        return given if given is None else Path(given)
    if not isinstance(given, list) or not given:
        right = f'a list of rules: [{RULE}], or the path of a table: "rules.csv"'
        raise told(misfit(WHERE, given, right))
    return [_rule(rule, place) for place, rule in enumerate(given, start=1)]


def _rule(given: Any, place: int) -> Rule:
    where = f"{WHERE}, rule {place}"
    if not isinstance(given, Mapping) or not given:
        raise told(misfit(where, given, f"a table of column = [levels]: {RULE}"))
    return {str(c): _levels(v, f"{where}: {c}") for c, v in given.items()}


def _levels(given: Any, where: str) -> list[Level]:
    levels = given if isinstance(given, list) else [given]
    if not levels or not all(isinstance(v, str | int | float) for v in levels):
        raise told(misfit(where, given, 'a level, or a list of levels: ["married", "widowed"]'))
    return levels


Rules = Annotated[list[Rule] | Path | None, BeforeValidator(_read)]


class FittedSection(Section):
    """``[model]`` of any kind: what it offers as long as its kind does not say more."""

    @property
    def modelled(self) -> list[str] | None:
        """Columns that can be synthesised; None: all, or all counts, whichever the table has."""
        return None

    @property
    def unused(self) -> tuple[str, ...]:
        """Keys that mean nothing beside the others."""
        return ()

    def offers(self, columns: Collection[str], df: pd.DataFrame | None = None) -> tuple[str, ...]:
        """Ways to the evidence of a release, for an intruder who knows all other records."""
        return ("predictive", "refit", "importance")

    def offers_knowing(
        self, columns: Collection[str], m: int, df: pd.DataFrame | None = None
    ) -> tuple[str, ...]:
        """Ways to the evidence of m data sets, for an intruder who knows some other records."""
        return ()


class DPMPMSection(FittedSection):
    """``[model]`` of kind ``"DPMPM"``: a Dirichlet process mixture of multinomials.

    n_classes: most classes; raise it when the report says that the truncation binds
    concentration_prior: gamma prior of the concentration
    level_prior: Dirichlet prior weight of each level in each class
    impossible: rules, or the path of a table with one rule a row, empty fields standing for any
        value
    splits: proposals a sweep to split or merge classes; 5, with `impossible` and `[reweight]` 0, if
        left out
    """

    kind: Literal["DPMPM"] = Field("DPMPM", description='"DPMPM"')
    n_classes: Count = 30
    concentration_prior: tuple[Positive, Positive] = Field(
        (0.25, 0.25), description="[shape, rate], two numbers above 0"
    )
    level_prior: Positive = 1.0
    impossible: Rules = None
    draws: Count = 1000
    tune: Count = 1000
    chains: AtLeastTwo = 4
    splits: NotNegative | None = Field(None, description="a whole number >= 0, or leave it out")

    @model_validator(mode="after")
    def _no_splits_around_zeros(self) -> "DPMPMSection":
        if self.splits and self.impossible is not None:
            raise ValueError("[model] splits does not go with impossible; leave one of them out")
        return self

    def offers_knowing(
        self, columns: Collection[str], m: int, df: pd.DataFrame | None = None
    ) -> tuple[str, ...]:
        """Ways to the evidence of m data sets, for an intruder who knows some other records."""
        if self.impossible is not None and df is not None and set(columns) < set(df.columns):
            return ()
        if m == 1:
            return ("predictive",)
        imputed = ("imputed",) if self.impossible is None else ()
        return (*imputed, "independent-releases")


class BinomialSection(Section):
    """``{ binomial = "trials" }``: successes among so many trials, a column or a number."""

    binomial: str | Count = Field(description="a column name or a whole number >= 1")


class RegressionPriorSection(Section):
    """``[model.prior]``, ``[model.priors.COLUMN]``: the fields of ``RegressionPrior``.

    intercept: standard deviation, on standardised predictors; `inf`: flat
    slopes: the same
    sigma2: inverse-gamma prior of the variance; normal and log-normal
    sigma: scale of the prior of the standard deviation; Student-t
    nu: gamma prior of the degrees of freedom; Student-t
    overdispersion: scale of its prior; negative binomial
    """

    intercept: Float = Field(10.0, gt=0, description="a number above 0, or inf")
    slopes: Float = Field(2.5, gt=0, description="a number above 0, or inf")
    sigma2: tuple[FromZero, FromZero] = Field(
        (1.0, 1.0), description="[shape, rate], two numbers >= 0"
    )
    sigma: Positive = 1.0
    nu: tuple[Positive, Positive] = Field(
        (2.0, 0.1), description="[shape, rate], two numbers above 0"
    )
    overdispersion: Positive = 1.0


def _family(value: Any, where: str) -> Any:
    if isinstance(value, Mapping | Section):
        return read_section(BinomialSection, value, where)
    if value not in FAMILIES:
        names = ", ".join(f'"{name}"' for name in FAMILIES)
        raise told(misfit(where, value, f'{names} or {{ binomial = "column with the trials" }}'))
    return value


def _families(value: Any) -> Any:
    right = 'a table of column = "family"'
    return read_each(
        value, "[model] families", right, lambda c, v: _family(v, f"[model.families] {c}")
    )


def _prior(value: Any, label: str, where: str) -> Any:
    if value == "reference":
        return value
    if not isinstance(value, Mapping | Section):
        raise told(misfit(label, value, '"reference" or a table: { slopes = 2.5 }'))
    return read_section(RegressionPriorSection, value, where)


def _priors(value: Any) -> Any:
    def read(column: str, given: Any) -> Any:
        return _prior(given, f"[model.priors] {column}", f"[model.priors.{column}]")

    return read_each(value, "[model] priors", "a table of column = prior", read)


Prior = RegressionPriorSection | Literal["reference"]
OwnPrior = Annotated[
    Prior, BeforeValidator(lambda value: _prior(value, "[model] prior", "[model.prior]"))
]


class RegressionSection(FittedSection):
    """``[model]`` of kind ``"Regression"``: regressions in sequence.

    formulas: columns without a formula, and those before, may be used; odd names in backticks
    families: `"normal"`, `"lognormal"`, `"student"`, `"bernoulli"`, `"poisson"`,
        `"negative-binomial"`, `"ordered"`, `"categorical"`, or `{ binomial = "trials" }` (a column,
        or one number)
    prior: of every regression: a table of its fields, or `"reference"`: flat, for normal and
        log-normal ones
    priors: of one regression, instead of `prior`: `[model.priors.COLUMN]`
    nuts_sampler: `"nutpie"` is faster: `pip install "bayes-risk[fast]"`
    draws: kept draws of each chain, or files of draws brought from elsewhere
    """

    kind: Literal["Regression"] = Field("Regression", description='"Regression"')
    formulas: dict[str, str] = Field(
        min_length=1, description='a table of column = "formula", in the order of synthesis'
    )
    families: Annotated[dict[str, Named | BinomialSection], BeforeValidator(_families)] = {}
    prior: OwnPrior = RegressionPriorSection()
    priors: Annotated[dict[str, Prior], BeforeValidator(_priors)] = {}
    nuts_sampler: Literal["pymc", "nutpie"] = Field("pymc", description='"pymc" or "nutpie"')
    draws: AtLeastFour | dict[str, Path] = Field(
        1000, description='a whole number >= 4, or a table of column = "file with draws.csv"'
    )
    tune: NotNegative = 1000
    chains: AtLeastTwo = 4

    @property
    def unused(self) -> tuple[str, ...]:
        """Those of fitting, beside draws brought from elsewhere."""
        fitting = ("prior", "priors", "nuts_sampler", "tune", "chains")
        return fitting if isinstance(self.draws, dict) else ()

    @model_validator(mode="after")
    def _columns_have_formulas(self) -> "RegressionSection":
        files = self.draws if isinstance(self.draws, dict) else {}
        for key, names in (("families", self.families), ("priors", self.priors), ("draws", files)):
            for name in names:
                if name not in self.formulas:
                    raise told(unknown(name, f"[model.{key}]", list(self.formulas)))
        return self

    @model_validator(mode="after")
    def _brought_draws_are_whole(self) -> "RegressionSection":
        if not isinstance(self.draws, dict):
            return self
        absent = [name for name in self.formulas if name not in self.draws]
        if absent:
            raise told(f"[model.draws] names no file for {absent[0]!r}; give one for each formula")
        needless = [key for key in self.unused if key in self.model_fields_set]
        if needless:
            raise ValueError(
                f"{needless[0]} is for fitting, and [model.draws] brings draws from elsewhere: "
                f"leave {needless[0]} out, or give draws = 1000"
            )
        return self

    @property
    def modelled(self) -> list[str]:
        """Columns that can be synthesised."""
        return list(self.formulas)

    def offers(self, columns: Collection[str], df: pd.DataFrame | None = None) -> tuple[str, ...]:
        """Ways to the evidence of a release with these columns synthesised."""
        if isinstance(self.draws, dict):
            return ("importance",)
        # a column without a family may be normal: only the data tell
        unnamed = [c for c in columns if c not in self.families]
        exact = all(self.families[c] in EXACT for c in columns if c in self.families)
        exact = exact and (df is None or all(is_number(df[c]) for c in unnamed if c in df))
        return ("predictive", "refit", "importance", *(["exact"] if exact else []))

    def offers_knowing(
        self, columns: Collection[str], m: int, df: pd.DataFrame | None = None
    ) -> tuple[str, ...]:
        """Ways to the evidence of m data sets, for an intruder who knows some other records."""
        if isinstance(self.draws, dict):
            return ()
        exact = "exact" in self.offers(columns, df)
        counts = all(self.families.get(c) == "poisson" for c in columns)
        if df is not None:
            if any(self._uses(c, columns) for c in self.formulas if c not in columns):
                return ()  # a published column would tell of records that are not known
            counts = counts and not any(self._uses(c, columns) for c in columns)
        if m == 1:
            return ("exact", "predictive") if exact else ("predictive",)
        return ("imputed", "independent-releases") if exact or counts else ("independent-releases",)

    def _uses(self, column: str, columns: Collection[str]) -> bool:
        """Whether the formula of a column uses any of some columns."""
        from bayes_risk.models.regression.formulas import parse

        return not set(columns).isdisjoint(parse(column, self.formulas[column]).columns)


class PyMCSection(FittedSection):
    """``[model]`` of kind ``"PyMCModel"``: a function in a Python file builds the model.

    build: a Python file and the function in it that makes a PyMC model of a table; the file is run
    columns: columns that the model can draw, in the order of synthesis
    """

    kind: Literal["PyMCModel"] = Field("PyMCModel", description='"PyMCModel"')
    build: str = Field(
        pattern=FUNCTION, description='"file.py:function", as in "my_model.py:build"'
    )
    columns: Columns = Field(min_length=1, description="a list of column names")
    draws: AtLeastFour = 1000
    tune: NotNegative = 1000
    chains: AtLeastTwo = 4

    @property
    def modelled(self) -> list[str]:
        """Columns that can be synthesised."""
        return self.columns

    @property
    def file(self) -> tuple[Path, str]:
        """The Python file, and the name of the function in it."""
        return file_and_name(self.build)


class PMMSection(FittedSection):
    """``[model]`` of kind ``"PMM"``: predictive mean matching of sensitive records.

    order: columns to synthesise, in this order and together: `[release] columns` is left out
    identifying: columns whose cells tell which records are sensitive; no others are replaced
    threshold: records in cells of at most so many are sensitive
    cuts: where identifying numbers are cut
    models: by the column if left out
    constraints: says of each row of a table whether it is possible
    donors: one of the so many nearest donors is taken
    later: predictors that come later in the order hold a record's own values, or random ones
    selection: whether the intruder knows which records were synthesised, or the rule alone
    """

    kind: Literal["PMM"] = Field("PMM", description='"PMM"')
    order: DistinctColumns
    identifying: DistinctColumns
    threshold: Count = 5
    cuts: dict[str, Cuts] = Field({}, description="a table of column = [increasing numbers]")
    models: dict[str, Literal["ordered", "multinomial", "gam", "linear"]] = Field(
        {}, description='a table of column = "ordered", "multinomial", "gam" or "linear"'
    )
    constraints: Functions = Field(
        [], description='"file.py:function", as in "rules.py:possible", or a list of such'
    )
    donors: Count = 1
    later: Literal["genuine", "filled"] = Field("genuine", description='"genuine" or "filled"')
    selection: Literal["known", "hidden"] = Field("known", description='"known" or "hidden"')

    @model_validator(mode="after")
    def _columns_are_named(self) -> "PMMSection":
        for name in self.models:
            if name not in self.order:
                raise told(unknown(name, "[model.models]", self.order))
        for name in self.cuts:
            if name not in self.identifying:
                raise told(unknown(name, "[model.cuts]", self.identifying))
        return self

    @property
    def modelled(self) -> list[str]:
        """Columns that are synthesised, together."""
        return self.order

    @property
    def files(self) -> list[tuple[Path, str]]:
        """The Python file of each constraint, and the name of the function in it."""
        return [file_and_name(constraint) for constraint in self.constraints]

    def offers(self, columns: Collection[str], df: pd.DataFrame | None = None) -> tuple[str, ...]:
        """Ways to the evidence of a release with these columns synthesised."""
        return ("exact", "refit") if self.selection == "known" else ("refit",)


class CARTSection(FittedSection):
    """``[model]`` of kind ``"CART"``: trees in sequence.

    order: columns to synthesise, in this order; predictors of each are all columns that do not come
        later
    min_leaf: least number of records in a leaf
    bootstrap: values of a leaf are drawn by the Bayesian bootstrap, or plainly
    smoothing: numbers are drawn from kernels around the genuine ones
    floor: trees grown here are assumed for files whose trees are gone; probability of a value that
        its leaf does not have; with `bootstrap = "none"`
    models: trees that synthpop grew; `min_leaf`, `bootstrap`, `smoothing` are left out
    missing_numbers: beside `models`: a number that stands for a missing value: `{ income = -9 }`
    """

    kind: Literal["CART"] = Field("CART", description='"CART"')
    order: DistinctColumns
    min_leaf: Count = 5
    bootstrap: Literal["bayesian", "none"] = Field("bayesian", description='"bayesian" or "none"')
    smoothing: Literal["kde"] | None = Field(None, description='"kde", or leave it out')
    floor: Positive | None = Field(None, lt=1, description="a probability, above 0 and below 1")
    models: Path | None = Field(None, description="the path of a JSON file of synthpop's models")
    missing_numbers: dict[str, Float] = Field({}, description="a table of column = number")

    @property
    def unused(self) -> tuple[str, ...]:
        """Those of growing trees, beside trees that synthpop grew."""
        growing = ("min_leaf", "bootstrap", "smoothing")
        return growing if self.models is not None else ()

    @model_validator(mode="after")
    def _trees_are_grown_once(self) -> "CARTSection":
        growing = [key for key in self.unused if key in self.model_fields_set]
        if growing:
            raise ValueError(
                f"{growing[0]} is for growing trees, and models brings those of synthpop: leave "
                f"{growing[0]} out"
            )
        if self.models is None and self.missing_numbers:
            raise ValueError("missing_numbers is for the trees of models; leave it out")
        if self.models is None and self.floor is not None and self.bootstrap != "none":
            raise ValueError('floor is for plain draws; give bootstrap = "none" too')
        if self.floor is not None and self.smoothing is not None:
            raise ValueError("floor is for values that are not smoothed; leave smoothing out")
        return self

    @property
    def modelled(self) -> list[str]:
        """Columns that can be synthesised."""
        return self.order

    def offers(self, columns: Collection[str], df: pd.DataFrame | None = None) -> tuple[str, ...]:
        """Ways to the evidence of a release with these columns synthesised."""
        if self.models is not None:
            return ("exact",)
        if not self._smooths(columns, df) or self.bootstrap == "none":
            return ("exact", "refit")
        # whether a smoothed column is a number only the data tell
        return (*(["exact"] if df is None else []), "monte-carlo", "refit")

    def _smooths(self, columns: Collection[str], df: pd.DataFrame | None) -> bool:
        """Whether numbers are smoothed; without the data, whether they may be."""
        return self.smoothing is not None and (df is None or any(is_number(df[c]) for c in columns))

    def offers_knowing(
        self, columns: Collection[str], m: int, df: pd.DataFrame | None = None
    ) -> tuple[str, ...]:
        """Ways to the evidence of m data sets, for an intruder who knows some other records."""
        if self.models is not None or self.floor is not None:
            return ()
        if df is not None and self._smooths(columns, df):
            return ()
        return ("exact", "independent-releases")  # which of them, the grown trees tell


class ForestSection(FittedSection):
    """``[model]`` of kind ``"Forest"``: random forests in sequence.

    order: columns to synthesise, in this order
    n_trees: trees of each forest
    min_leaf: least number of different records in a leaf
    votes: of all trees, or only of trees that have not seen the record
    dirichlet: added to the votes before a value is drawn
    chain: predictors are all other columns, or those not synthesised and those before
    """

    kind: Literal["Forest"] = Field("Forest", description='"Forest"')
    order: DistinctColumns
    n_trees: Count = 500
    min_leaf: Count = 1
    votes: Literal["all", "out-of-bag"] = Field("all", description='"all" or "out-of-bag"')
    dirichlet: FromZero = 0.0
    chain: Literal["all-others", "earlier-only"] = Field(
        "all-others", description='"all-others" or "earlier-only"'
    )

    @property
    def modelled(self) -> list[str]:
        """Columns that can be synthesised."""
        return self.order

    def offers(self, columns: Collection[str], df: pd.DataFrame | None = None) -> tuple[str, ...]:
        """Ways to the evidence of a release with these columns synthesised."""
        return ("exact", "refit")


class PoissonMixtureSection(FittedSection):
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

    def offers(self, columns: Collection[str], df: pd.DataFrame | None = None) -> tuple[str, ...]:
        """Ways to the evidence of a release, for an intruder who knows all other records."""
        return ("exact",) if self.deals else ("predictive", "refit", "importance")

    def offers_knowing(
        self, columns: Collection[str], m: int, df: pd.DataFrame | None = None
    ) -> tuple[str, ...]:
        """Ways to the evidence of m data sets, for an intruder who knows some other records."""
        if self.deals:
            return ()
        return ("predictive",) if m == 1 else ("imputed", "independent-releases")


ModelSection = (
    DPMPMSection
    | RegressionSection
    | PyMCSection
    | CARTSection
    | ForestSection
    | PMMSection
    | PoissonMixtureSection
)
KINDS: dict[str, type[ModelSection]] = {
    section.model_fields["kind"].default: section for section in get_args(ModelSection)
}
