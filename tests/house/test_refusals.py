"""What the library refuses, in words: every refusal that needs no fit, by subject."""

# mypy: disable-error-code="arg-type, dict-item, list-item"
# What is refused is often of a wrong type.

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk import Population, models
from bayes_risk._core.memory import bytes_of
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.variables import Number
from bayes_risk.demo import demo_data
from bayes_risk.evidence.contract import Targets
from bayes_risk.intruder.grids import Grid, JointGrid, Levels
from bayes_risk.matching.radii import SD, Absolute, Quantile, Relative
from bayes_risk.reporting import plots
from bayes_risk.reporting.report import report
from bayes_risk.risk.geography import unique_patterns
from bayes_risk.utilities.combining import combine
from tests.helpers.edge_results import attribute
from tests.helpers.fits import people
from tests.helpers.numeric_results import joint as joint_result
from tests.helpers.numeric_results import log_prior, numeric
from tests.helpers.six_records import FIRST, ORIGINAL, SECOND, risk_of
from tests.matching.test_identification_choices import Own
from tests.oracles.forest_by_hand import MASK, table
from tests.oracles.pmm_tables import IV, small_fit

Binomial, Prior, Regression = models.Binomial, models.RegressionPrior, models.Regression
PEOPLE = people()
CATEGORIES = PEOPLE[["sex", "job"]]

# --- guesses, priors, intruders ------------------------------------------------------------------

REAL, WHOLE = Number("pay", False, "float64"), Number("age", True, "int64")
COUNT = Number("kids", True, "int64", 0.0)
LETTERS = Microdata.from_frame(pd.DataFrame({"a": list("xxxyz"), "b": list("uuvvv")}))
EVERY = pd.DataFrame([(a, b) for a in "xyz" for b in "uv"], columns=["a", "b"])
LARGEST = {"knows_records": "second-largest", "largest": "w"}
PAIR = {"knows_records": "all-but-two", "other": 7, "knows_totals": True}


def points(grid, y, number):
    return grid.points(np.asarray(y, dtype=float), number)


def joint(grids, columns):
    sizes = {"pay": [10.0, 20.0, 30.0, 40.0], "age": [30, 31, 40, 41], "sex": list("fmfx")}
    data = Microdata.from_frame(pd.DataFrame(sizes), numbers=["pay", "age"])
    return JointGrid(grids).of(data, data.codes, np.array(columns))


def listed(cells):
    return br.Listed(cells).of(LETTERS, LETTERS.codes, np.array([0, 1]))


def prior(how):
    columns = np.array([0, 1])
    guesses = br.Neighbourhood(1).of(LETTERS, LETTERS.codes, columns)
    targets = Targets(profiles=LETTERS.codes, record=np.arange(5), columns=columns, guesses=guesses)
    return log_prior(how, LETTERS, targets)


def known(intruder):
    return intruder.known(pd.Index([f"r{i}" for i in range(100)]), np.random.default_rng(1))


# --- models and releases -------------------------------------------------------------------------

RNG = np.random.default_rng(1)
DF = pd.DataFrame(
    {
        "x": RNG.normal(size=20),
        "y": RNG.normal(10, 1, 20),
        "k": RNG.poisson(3, 20),
        "sex": list("fm") * 10,
        "job": (list("abc") * 7)[:20],
        "zero": np.arange(20) % 3 * 1.0,
        "flat": 1.5,
    }
)
TABLE = pd.DataFrame({"a": list("xyxy"), "b": [1, 2, 3, 1], "c": list("uuvv")}, index=list("pqrs"))
SYNTHETIC = TABLE.assign(b=[3, 3, 1, 2])


def forest(**declared):
    return models.Forest(**{"order": ["a"], "n_trees": 3} | declared)


def pmm(**declared):
    return models.PMM(**{"order": IV, "identifying": IV} | declared)


def lacking(*names, **values):
    """Three draws of a regression on x, without some of the names."""
    good = {"Intercept": [10.0, 10.1, 9.9], "x": [0.1, 0.0, 0.2], "sigma": [1.0, 1.1, 0.9]}
    return pd.DataFrame({k: v for k, v in (good | values).items() if k not in names})


def from_draws(draws):
    return Regression({"y": "1 + x"}).from_draws(DF, draws)


def declared(**said):
    return br.Release(**{"datasets": [TABLE], "synthesized": ["b"]} | said)


def codes_of(*datasets, **said):
    return declared(datasets=list(datasets), **said).codes(Microdata.from_frame(TABLE))


# --- identification and what is measured beside it -----------------------------------------------

TWICE = pd.concat([FIRST, FIRST[["b"]]], axis=1)
PAID = pd.DataFrame({"sex": list("ffmmff"), "age": range(20, 80, 10), "pay": range(10, 70, 10)})
KEYS = {"known": ["sex"], "synthesized": ["pay"]}
COUNTS = np.full(6, 3)
SEVERAL = PAID.assign(job=["a", "b", ["a", "b"], {"a": 1}, {"a"}, np.zeros(2)])
WORKERS = pd.DataFrame(
    {"workers": [900, 60, 20, 20, 50, 45, 5, 0, 30], "branch": list("aaaabbbcd")}
)
SOUTH = pd.DataFrame({"lon": [1.0], "lat": [-91]})


def of_six(**options):
    return risk_of(ORIGINAL, [FIRST, SECOND], **options)


def chosen(**options):
    return risk_of(PAID, PAID, **KEYS | options)


def swept(over, **options):
    wide = {"known": ["sex", "age"], "synthesized": ["pay"]} | options
    return br.identification_sweep(PAID, PAID, over=over, **wide)


def log_linear(**options):
    return Population.log_linear(PEOPLE, ["sex", "job", "area"], **options)


BY_STAFF = Population.counted(PEOPLE, ["sex", "staff"])
CELLS = pd.DataFrame([(a, b) for a in range(8) for b in range(8)], columns=["a", "b"])


def unique(**options):
    return br.uniqueness(PEOPLE, ["sex", "job"], **options)


def dominance(**options):
    return br.dominance(**{"df": WORKERS, "column": "workers", "by": "branch"} | options)


def geography(**options):
    lon, lat = Number("lon", False, "float64"), Number("lat", False, "float64")
    half = np.full((2, 7), 0.5)
    places = numeric(np.arange(28.0).reshape(2, 7, 2), half, variables=(lon, lat))
    return places.geography(**{"x": "lon", "y": "lat"} | options)


def plot_places(places):
    return plots.plot_geography(attribute([0.2, 0.9]), "x", "y", places=places)


# By subject: what is called, and the refusal.
REFUSALS = {
    "guesses": [
        (lambda: Grid(), "a grid has none of percent, additive, bounds and values; give"),
        (lambda: Grid(percent=10, additive=1), r"has \['percent', 'additive'\] of"),
        (lambda: Grid(percent=0), "percent=0"),
        (lambda: Grid(additive=0.0), "additive=0"),
        (lambda: Grid(additive="a"), "additive='a' is not a number"),
        (lambda: Grid(percent=10, n=1), "n=1 is too small"),
        (lambda: Grid(percent=10, n=2.5), "n=2.5"),
        (lambda: Grid(percent=10, truth="drop"), "truth='drop' is not known"),
        (lambda: Grid(bounds=(3, 1)), r"give \(low, high\) with low < high"),
        (lambda: Grid(bounds=(1, 1)), "at least 2 different"),
        (lambda: Grid(values=[]), "make no grid"),
        (lambda: Grid(bounds=(1, 2, 3)), r"give \(low, high\)"),
        (lambda: Grid(bounds=(0, np.inf)), "at least 2 different finite numbers"),
        (lambda: Grid(bounds=("a", "b")), "finite numbers"),
        (lambda: Grid(values=[1]), r"the values \[1\] make no grid; give at least 2"),
        (lambda: Grid(values=[2, 2]), "at least 2"),
        (lambda: Grid(values=[[1, 2], [3, 4]]), "make no grid"),
        (lambda: Grid(percent=True), "percent=True is not a number"),
        (lambda: Grid(percent="5"), "percent='5' is not a number"),
        (lambda: Grid(additive=np.True_), "is not a number"),
        (lambda: Grid(bounds=(False, 5)), "make no grid"),
        (lambda: Grid(values=[1, "2"]), "make no grid"),
        (lambda: Grid(values="12"), "make no grid"),
        (lambda: points(Grid(percent=10), [0.0, 5.0], REAL),
         "one guess for 1 distinct targets .*percentage of 0"),
        (lambda: points(Grid(percent=10), [3, 50], WHOLE),
         "one guess for 1 .*too narrow for another whole number"),
        (lambda: points(Grid(additive=0.5), [3, 50], WHOLE),
         r"'age'.*one guess for 2 .*give additive steps"),
        (lambda: points(Grid(percent=10, n=4), [5.0], REAL),
         'no place .* of 1 targets; give an odd n .*truth="add"'),
        (lambda: points(Grid(bounds=(0, 1)), [0.55], REAL),
         "no place for the true value of 1 targets"),
        (lambda: points(Grid(values=[1, 2]), [3.0, 1.0], REAL), 'of 1 targets; .*truth="nearest"'),
        (lambda: points(Grid(bounds=(0.2, 0.8)), [3], WHOLE),
         "'age' holds whole numbers, but the guesses .* are not"),
        (lambda: points(Grid(values=[0.5, 2]), [2], WHOLE),
         "2 values as listed. are not whole; give whole numbers"),
        (lambda: points(Grid(bounds=(-5, -1), truth="nearest"), [2], COUNT),
         "'kids' is below 0, which cannot be"),
        (lambda: joint({"pay": Grid(percent=10)}, (0, 1)),
         "'age' is a number, and a number needs a grid"),
        (lambda: joint({"pay": Grid(percent=10), "age": Grid(percent=10)}, (0,)),
         "'age', which is not guessed"),
        (lambda: joint({"pay": Grid(percent=10), "job": Levels()}, (0,)),
         "'job', which is not guessed"),
        (lambda: joint({"sex": Grid(values=[0, 1])}, (2,)), "'sex' is a category; give its levels"),
        (lambda: joint({"pay": 11}, (0,)), "'pay' is a number, and a number needs"),
        (lambda: joint({"sex": "all"}, (2,)),
         "'sex' is a category; give its levels"),
        (lambda: JointGrid({"a": Grid(percent=1)}, budget=2), "budget=2 is too small"),
        (lambda: br.Neighbourhood(0), "distance=0"),
        (lambda: br.Neighbourhood(1.5), "distance=1.5"),
        (lambda: br.Neighbourhood(True), "distance=True"),
        (lambda: listed(EVERY[:1]), "G=1 leaves nothing to compare"),
        (lambda: listed(EVERY[["a"]]), "the listed guesses lacks column 'b'"),
        (lambda: listed(EVERY.assign(a="q")), "column 'a' of the listed guesses holds a value"),
    ],
    "priors": [
        (lambda: prior("flat"), "prior='flat' is not known"),
        (lambda: prior([1.0, 2.0]), r"shape \(2,\); give one weight per guess, \(4,\)"),
        (lambda: prior([1.0, -1.0, 1.0, 1.0]), "negative, infinite or missing"),
        (lambda: prior([1.0, np.nan, 1.0, 1.0]), "negative, infinite or missing"),
        (lambda: prior([0.0, 0.0, 0.0, 0.0]), "none above zero"),
        (lambda: prior(lambda table: 1.0),
         r"returned has shape \(\); give one weight per guess, \(4,\)"),
        (lambda: prior(lambda table: -np.ones(len(table))), "negative"),
        (lambda: prior("predictive"), "needs a base fit"),
        (lambda: prior("release"), "needs one release"),
        (lambda: prior(object()), "is not a prior"),
        (lambda: prior([1.0, np.inf, 1.0, 1.0]), "improper"),
        (lambda: br.TruthFactor(0), "factor=0"),
        (lambda: br.TruthFactor(np.inf), "factor=inf"),
        (lambda: br.TruthFactor("x"), "factor='x'"),
        (lambda: br.MixedPrior({}), "no part"),
        (lambda: br.MixedPrior({"uniform": 0.0}), "weight=0.0 must be positive"),
        (lambda: br.MixedPrior({"uniform": np.inf}), "positive and finite"),
        (lambda: br.MixedPrior(["uniform", "marginal"]), "not a pair"),
        (lambda: br.Interval(700, 500), "low < high"),
        (lambda: br.Interval(5, np.inf), "finite low < high"),
        (lambda: br.Interval(5, 7, 1.5), "probability=1.5 is outside"),
        (lambda: br.Interval(5, 7, 0.0), "probability=0.0"),
        (lambda: br.Interval(5, 7, 0.9, None, "even"), "spread='even' is not known"),
        (lambda: br.Interval(0, 7, 0.9, None, "log-uniform"), "low=0 has no logarithm"),
    ],
    "intruders": [
        (lambda: br.Intruder(knows_records="some"),
         "knows_records='some' is not available; .* a fraction or a list"),
        (lambda: br.Intruder(knows_records=["a", ["b"]]), "knows_records holds lists or tables"),
        (lambda: br.Intruder(knows_records=np.zeros((2, 2))), "knows_records holds lists"),
        (lambda: br.Intruder(knows_records={"a": 1}), "is not a fraction above 0 and below 1"),
        (lambda: br.Intruder(knows_records=0.0),
         "0.0 is not a fraction above 0 and below 1; give 0.5"),
        (lambda: br.Intruder(knows_records=1), "1 is not a fraction"),
        (lambda: br.Intruder(knows_records=True),
         'True is not available; give "all-but-target" or "none"'),
        (lambda: br.Intruder(knows_records=None), "None is not available"),
        (lambda: br.Intruder(knows_records=[]), 'names no record; give "none"'),
        (lambda: br.Intruder(knows_records=np.zeros(3, dtype=bool)),
         'names no record; give "none"'),
        (lambda: br.Intruder(knows_records=0.5, largest="w"),
         "has no effect for an intruder with knows_records="),
        (lambda: br.Intruder(knows_records=[1], other=3), "other=3 has no effect .*'1 record'"),
        (lambda: br.Intruder(knows_records="second-largest"), "needs largest: give the column"),
        (lambda: br.Intruder(knows_records="all-but-two", knows_totals=True),
         "needs other: give the label"),
        (lambda: br.Intruder(knows_records="all-but-two", other=7),
         "needs knows_totals: give knows_totals=True"),
        (lambda: br.Intruder(largest="w"),
         "largest='w' has no effect for an intruder with knows_records='all-but-t"),
        (lambda: br.Intruder(**LARGEST | {"other": 3}), "other=3 has no effect"),
        (lambda: br.Intruder(**LARGEST | {"knows_columns": ["w"]}),
         "knows_columns names 'w', which is to be guessed"),
        (lambda: br.Intruder(**LARGEST | {"groups": "guessed"}), "groups='guessed' is not known"),
        (lambda: br.Intruder(**LARGEST | {"others": 5}), "others=5 has no cdf"),
        (lambda: br.Intruder(**PAIR | {"others": stats.norm(1, 1)}), "has no effect"),
        (lambda: known(br.Intruder(knows_records=[True, False])),
         "knows_records has 2 entries; the table has 100 records"),
        (lambda: known(br.Intruder(knows_records=["r1", "q"])),
         "knows_records names 'q', which is not a record label"),
        (lambda: known(br.Intruder(**LARGEST)), "is not a set of records"),
    ],
    "DPMPM": [
        (lambda: models.DPMPM(n_classes=0), "n_classes=0"),
        (lambda: models.DPMPM(level_prior=-1.0), "level_prior=-1.0"),
        (lambda: models.DPMPM(concentration_prior=(0.25, 0.0)), "concentration_prior=0.0"),
        (lambda: models.DPMPM(concentration_prior=(0.25,)), "give 2 positive numbers"),
        (lambda: models.DPMPM().fit(CATEGORIES, draws=3), "draws=3"),
        (lambda: models.DPMPM().fit(CATEGORIES, tune=-1), "tune=-1"),
        (lambda: models.DPMPM().fit(CATEGORIES, chains=0), "chains=0"),
        (lambda: models.DPMPM().fit(CATEGORIES, sampler="hmc"), "sampler='hmc'"),
        (lambda: models.DPMPM().fit(CATEGORIES, splits=-1),
         "splits=-1 is too small; give an integer >= 0"),
    ],
    "Poisson mixtures": [
        (lambda: models.PoissonMixture(n_classes=0), "n_classes=0"),
        (lambda: models.PoissonMixture(kind="MN"), "kind='MN'"),
        (lambda: models.PoissonMixture(kind="TCMM", quantile=1.0),
         "quantile=1.0 is outside; give"),
        (lambda: models.PoissonMixture(kind="TCMM", quantile=0), "quantile=0 is outside; give"),
        (lambda: models.PoissonMixture(kind="TCMM", quantile=float("nan")), "is outside; give"),
        (lambda: models.PoissonMixture(kind="TCMM", quantile="high"), "not a number"),
        (lambda: models.PoissonMixture(kind="MM", quantile=0.9), "no meaning for MM"),
        (lambda: models.PoissonMixture(zeros=(1.0, 0.0)), "zeros=0.0 must be positive"),
        (lambda: models.PoissonMixture(zeros=(1.0, 1.0), kind="MM"), "knows no structural zeros"),
        (lambda: models.PoissonMixture(concentration_prior=(1.0,)), "2 positive numbers"),
        (lambda: models.PoissonMixture(rate_prior=(1.0, -1.0)), "rate_prior=-1.0"),
        (lambda: models.PoissonMixture(rate_prior={"wages": (0.0, 1.0)}),
         r"rate_prior\['wages'\]=0.0"),
        (lambda: models.PoissonMixture(level_prior=0.0), "level_prior=0.0"),
        (lambda: models.PoissonMixture(covariates="region"), "a single string"),
    ],
    "trees": [
        (lambda: models.CART([]), "at least one column name"),
        (lambda: models.CART("a"), "at least one column name"),
        (lambda: models.CART(["a", "a"]), "more than once"),
        (lambda: models.CART(["q"]).fit(PEOPLE), "does not have"),
        (lambda: models.CART(["job", "sex"]).fit(CATEGORIES), "has no predictor"),
        (lambda: models.CART(["age"]).fit(PEOPLE.assign(age=1)), "same value for every record"),
    ],
    "forests": [
        (lambda: forest(order=["a", "a"]), r"order names \['a'\] more than once"),
        (lambda: forest(order="a"), "order='a'; give a list of at least one column name"),
        (lambda: forest(order=[]), r"order=\[\]; give a list"),
        (lambda: forest(votes="some"), "votes='some' is not known; give one of"),
        (lambda: forest(chain="both"), "chain='both' is not known; give one of"),
        (lambda: forest(n_trees=0), "n_trees=0 is too small; give an integer >= 1"),
        (lambda: forest(min_leaf=0), "min_leaf=0 is too small"),
        (lambda: forest(dirichlet=-1), "dirichlet=-1; give a finite number, 0"),
        (lambda: forest(dirichlet=float("nan")), "dirichlet=nan; give a finite number, 0"),
        (lambda: forest(dirichlet="1"), "dirichlet='1'; give a finite number, 0"),
        (lambda: forest(order=["number"]).fit(table()),
         "column 'number' is a number.*use CART"),
        (lambda: forest(order=["d"]).fit(table()),
         "order names column 'd', which the table does not have"),
        (lambda: forest(order=["a"]).fit(table(), records=np.asarray(table()["a"] == "x")),
         "column 'a' has the same value for every record that is replaced.*leave it out"),
        (lambda: forest(order=["a"]).fit(table(), records=["r1"]),
         "'a' is replaced for 1 record;.*at least 2"),
        (lambda: forest(order="amount").fit(table()),
         "needs the records to replace of each column"),
        (lambda: forest(order="amount").fit(table(), records={}), "records names no column"),
        (lambda: forest(order="amount").fit(table(), records={"d": MASK}),
         "records names column 'd'"),
        (lambda: forest(order=["a"]).fit(table(), records={"b": MASK}), "records names column 'b'"),
        (lambda: forest(order=["a", "b"], chain="earlier-only").fit(table(), records={"a": MASK}),
         'records differ between columns; use chain="all-others"'),
        (lambda: forest(order=["a", "b", "c", "number"], chain="earlier-only").fit(table()),
         "column 'a' has no predictor"),
        (lambda: forest(order=["a"], votes="out-of-bag", n_trees=1).fit(table()),
         "in the bootstrap sample of all 1 trees of column 'a'.*give more trees"),
        (lambda: forest(order=["a"]).fit(table(), n_jobs=0), "n_jobs=0 is too small"),
    ],
    "predictive mean matching": [
        (lambda: pmm(order="a"), "order='a'; give a list"),
        (lambda: pmm(identifying=[]), "identifying=.*at least one column"),
        (lambda: pmm(threshold=0), "threshold=0 is too small"),
        (lambda: pmm(donors=0), "donors=0 is too small"),
        (lambda: pmm(models={"a": "forest"}), r"models\['a'\]='forest' is not known"),
        (lambda: pmm(models={"c": "linear"}), "models names column 'c'"),
        (lambda: pmm(cuts={"a": [2, 1]}), r"cuts\['a'\]=\[2, 1\] must be increasing"),
        (lambda: pmm(selection="secret"), "selection='secret' is not known"),
        (lambda: pmm(later="no"), "later='no' is not known"),
        (lambda: pmm(constraints=len), "constraints must be a list of functions"),
        (lambda: small_fit(models={"a": "gam"}), r"models\['a'\]='gam' does not suit a category"),
        (lambda: small_fit(identifying=["z"]), "identifying names column 'z'"),
        (lambda: small_fit(identifying=["c"]), "no cell of .* raise threshold"),
        (lambda: small_fit(threshold=50), "0 records lie in cells .* lower threshold"),
        (lambda: small_fit(constraints=[lambda t: t["a"] != "p"]),
         "records that are kept break a constraint"),
        (lambda: small_fit(constraints=[lambda t: t["a"]]),
         "must return True or False for each row"),
    ],
    "regressions": [
        (lambda: Regression({"y": "1 + y"}),
         "the formula of 'y' uses 'y', which is itself; order the formulas"),
        (lambda: Regression({"y": "1 + k", "k": "1"}),
         "the formula of 'y' uses 'k', which comes later"),
        (lambda: Regression({"y": "1 + log(k)", "k": "1"}), "'k', which comes later"),
        (lambda: Regression({"y": "1 + poly(k, 2)", "k": "1"}), "'k', which comes later"),
        (lambda: Regression({"y": "1 + scale(y)"}), "'y', which is itself"),
        (lambda: Regression({"y": "1 +* x"}), r"the formula of 'y', '1 \+\* x', cannot be read"),
        (lambda: Regression({"y": "1 + (x"}), "cannot be read"),
        (lambda: Regression({"y": "1 + I(x - x.mean())"}),
         r"'I\(x - x.mean\(\)\)' .* function 'x.mean'; .*center"),
        (lambda: Regression({"y": "1 + k + x.rank()"}),
         r"'x.rank\(\)' of the formula of 'y' has the function"),
        (lambda: Regression({"y": "1 + nothing(x)"}), "the function 'nothing'; formulas know"),
        (lambda: Regression({"y": "y ~ x"}),
         "has a left-hand side or several parts; give one right-hand"),
        (lambda: Regression({"y": "1 | x"}), "'1 | x', has a left-hand side or several parts"),
        (lambda: Regression({"y": 3}), "the formula of 'y'"),
        (lambda: Regression({"k": "1", "n": "1"}, {"k": Binomial(trials="n"), "n": "poisson"}),
         "'n', which comes later"),
        (lambda: Regression({}), "formulas is not a mapping with a formula"),
        (lambda: Regression("1 + x"), "formulas is not a mapping with a formula"),
        (lambda: Regression({"y": "1"}, {"k": "poisson"}), "families names column 'k'"),
        (lambda: Regression({"y": "1"}, {"y": "gamma"}),
         "family='gamma' is not known; give one of .*'bernoulli'"),
        (lambda: Regression({"y": "1"}, {"y": "binomial"}),
         "number of trials; give models.Binomial"),
        (lambda: Regression({"y": "1"}, {"y": 3}), "family=3 is not known"),
        (lambda: Regression({"y": "1"}, priors={"k": Prior()}), "priors names column 'k'"),
        (lambda: Prior(slopes=0), "slopes=0"),
        (lambda: Prior(intercept=-1.0), "intercept=-1"),
        (lambda: Prior(slopes=np.nan), "slopes=nan"),
        (lambda: Prior(sigma=np.inf), "sigma=inf"),
        (lambda: Prior(overdispersion=0), "overdispersion=0"),
        (lambda: Prior(nu=(1.0,)), "nu=.*shape and rate"),
        (lambda: Prior(nu=(0.0, 1.0)), "nu=0"),
        (lambda: Prior(sigma2=(-1.0, 1.0)), "sigma2=.*not negative"),
        (lambda: Prior(sigma2=(1.0, np.inf)), "sigma2=.*finite"),
        (lambda: Binomial(trials=0), "trials=0"),
        (lambda: Regression({"y": "1 + age"}).fit(DF),
         "names column 'age', which the table does not have; it has"),
        (lambda: Regression({"age": "1"}).fit(DF), "names column 'age'"),
        (lambda: Regression({"k": "1"}, {"k": "poisson"}).fit(DF.assign(k=DF["k"] - 9)),
         "'k' has .* negative or fractional"),
        (lambda: Regression({"k": "1"}, {"k": "poisson"}).fit(DF.assign(k=DF["k"] + 0.5)),
         "has 20 negative or fractional .*counts"),
        (lambda: Regression({"k": "1"}, {"k": "negative-binomial"}).fit(DF.assign(k=DF["y"])),
         "NegativeBinomial models counts"),
        (lambda: Regression({"zero": "1"}, {"zero": "lognormal"}).fit(DF),
         "7 values that are not above 0, and LogNormal"),
        (lambda: Regression({"job": "1"}, {"job": "bernoulli"}).fit(DF),
         "'job' has 3 levels, and Bernoulli models 2"),
        (lambda: Regression({"k": "1"}, {"k": Binomial(trials=2)}).fit(DF),
         r"'k' exceeds the number of trials \(2\) for"),
        (lambda: Regression({"k": "1"}, {"k": Binomial(trials="zero")}).fit(DF),
         r"exceeds the number of trials \('zero'\)"),
        (lambda: Regression({"k": "1"}, {"k": Binomial(trials="age")}).fit(DF),
         "names column 'age'"),
        (lambda: Regression({"k": "1"}, {"k": Binomial(trials="job")}).fit(DF),
         "its trials in 'job', which is not a number"),
        (lambda: Regression({"sex": "1"}, {"sex": "normal"}).fit(DF),
         "'sex'.*is to be a number and does not hold numbers"),
        (lambda: Regression({"flat": "1"}).fit(DF), "'flat' has the same value for every record"),
        (lambda: Regression({"flat": "1"}, {"flat": "student"}).fit(DF),
         "'flat' has the same value .*StudentT"),
        (lambda: Regression({"y": "1 + log(x)"}).fit(DF),
         r"term 'log\(x\)' .*of 'y' is not finite .* of the original"),
        (lambda: Regression({"y": "1 + log(zero)"}).fit(DF), r"'log\(zero\)'"),
        (lambda: Regression({"y": "1 + x"}).fit(DF.assign(x=[np.nan] + [1.0] * 19)),
         "'x' .*1 missing or infinite"),
        (lambda: Regression({"y": "1"}).fit(DF.assign(y=[np.inf] + [1.0] * 19)),
         "'y' .*1 missing or infinite"),
        (lambda: Regression({"y": "1 + poly(x, -1)"}).fit(DF),
         r"'1 \+ poly\(x, -1\)', cannot be evaluated"),
        (lambda: Regression({"y": "1"}).fit({"y": [1, 2]}),
         "the table is a dict; give a pandas DataFrame"),
        (lambda: Regression({"sex": "0"}).fit(DF), "'sex'.*no term"),
        (lambda: Regression({"sex": "-1"}).fit(DF), "'sex'.*no term"),
        (lambda: Regression({"y": "1"}).fit(DF, draws=3), "draws=3"),
        (lambda: Regression({"y": "1"}).fit(DF, tune=-1), "tune=-1"),
        (lambda: Regression({"y": "1"}).fit(DF, chains=0), "chains=0"),
        (lambda: Regression({"y": "1"}).fit(DF, nuts_sampler="stan"), "nuts_sampler='stan'"),
        (lambda: Regression({"y": "1"}).fit(DF, missing="drop"), "missing='drop'"),
        (lambda: from_draws({"y": lacking("x")}),
         "the draws of 'y' lack the coefficient 'x'; they have"),
        (lambda: from_draws({"y": lacking("sigma")}), "lack the coefficient 'sigma'"),
        (lambda: from_draws({"y": lacking(sigma=[1, 0, 1])}), "'sigma' of 'y' must be above 0"),
        (lambda: from_draws({"y": lacking(x=[1, np.nan, 1])}), "'x' of 'y' must be finite"),
        (lambda: from_draws({"y": lacking().head(1)}), "the draws of 'y' are 1; give at least 2"),
        (lambda: from_draws({"y": lacking().to_numpy()}),
         "the draws of 'y' are a ndarray; give a DataFrame"),
        (lambda: from_draws({}), r"draws has none of \['y'\]"),
        (lambda: from_draws(lacking().to_numpy()), "draws is a ndarray; give a mapping"),
    ],
    "powers of priors": [
        (lambda: models.DPMPM().power_scaled(2.0), "improper; give a power below 1.33"),
        (lambda: models.DPMPM().power_scaled(0.0), "power=0.0 must be positive"),
        (lambda: Regression({"y": "1"}).power_scaled(0.4),
         "improper; give a power of at least 0.5"),
    ],
    "releases": [
        (lambda: declared(datasets=[]), "m = 0: datasets is empty"),
        (lambda: declared(datasets=TABLE), r"one DataFrame; give a list: datasets=\[df\]"),
        (lambda: declared(synthesized=[]), "synthesized is empty"),
        (lambda: declared(synthesized=["z"]), "names column 'z'"),
        (lambda: declared(synthesized="b"), "single string"),
        (lambda: declared(datasets=[TABLE, TABLE.iloc[:3]]),
         "release 2 has 3 rows and release 1 has 4"),
        (lambda: declared(classes="fresh"), "classes='fresh'"),
        (lambda: declared(records=np.zeros(4, dtype=bool)), "records selects no record"),
        (lambda: declared(groups=np.zeros((1, 5, 1), int)), "groups has shape"),
        (lambda: declared(groups=np.zeros((1, 4), int)), "groups has shape"),
        (lambda: declared(groups=np.zeros((1, 4, 1))), "groups has shape"),
        (lambda: codes_of(SYNTHETIC.iloc[:3]),
         "release 1 has 3 records and the original 4"),
        (lambda: codes_of(SYNTHETIC.reset_index(drop=True)),
         "does not name the original's records"),
        (lambda: codes_of(TABLE, SYNTHETIC.assign(b=9)),
         "column 'b' of release 2 holds a value"),
        (lambda: codes_of(SYNTHETIC.assign(a="x")),
         "column 'a' of release 1 differs.*in synthesized; else"),
        (lambda: codes_of(SYNTHETIC, records=np.array([True, True, True, False])),
         "column 'b' of release 1 differs from the original for records"),
        (lambda: codes_of(SYNTHETIC, records=np.array([True, True, True])),
         "records has 3 entries; the original has 4 records"),
        (lambda: codes_of(SYNTHETIC.assign(b=[1, None, 2, 3])),
         "column 'b' of release 1 has 1 missing values"),
    ],
    "identification": [
        (lambda: risk_of(ORIGINAL, []), r"releases is empty \(m = 0\); give at least one"),
        (lambda: risk_of(ORIGINAL, {"b": 1}),
         "releases is a dict; give a Release, a DataFrame or a list"),
        (lambda: risk_of(ORIGINAL, "file.csv"), "releases is a str; give a Release"),
        (lambda: risk_of(ORIGINAL, [FIRST, "x"]), "release 2 is a str; give a pandas DataFrame"),
        (lambda: risk_of(ORIGINAL.to_dict(), FIRST), "original is a dict; give a pandas DataFrame"),
        (lambda: risk_of(ORIGINAL.iloc[:0], FIRST), "original has no records"),
        (lambda: risk_of(ORIGINAL.set_axis([0, 1, 2, 3, 4, 4]), FIRST),
         "index of the original names some"),
        (lambda: of_six(known=["c"]), "known names column 'c', which the table does not have"),
        (lambda: of_six(synthesized=["c"]), "synthesized names column 'c'"),
        (lambda: of_six(known="a"), "known='a' is a single string; give a list"),
        (lambda: of_six(known=["a", "a"]), r"known names \['a'\] more than once"),
        (lambda: of_six(known=["a", "b"]), r"synthesized names \['b'\], which known names too"),
        (lambda: of_six(known=[], synthesized=[]), "are empty; name at least one key column"),
        (lambda: risk_of(ORIGINAL, [FIRST, FIRST[["b"]]]),
         "release 2 lacks column 'a'; .*a Release may lack"),
        (lambda: risk_of(ORIGINAL, FIRST[["a"]]), "release 1 lacks column 'b'"),
        (lambda: risk_of(ORIGINAL, TWICE),
         "release 1 has column 'b' more than once; rename or drop one"),
        (lambda: risk_of(TWICE, FIRST), "the original has column 'b' more than once"),
        (lambda: risk_of(ORIGINAL, [FIRST, FIRST[:5]]),
         "release 2 has 5 records and the original 6"),
        (lambda: risk_of(ORIGINAL, FIRST.set_axis(list("abcdef"))),
         "index of release 1 does not name"),
        (lambda: of_six(fallback="yes"), "fallback='yes' is not a truth value"),
        (lambda: risk_of(ORIGINAL, FIRST.assign(b=1)),
         "column 'b' holds text in the original and numbers in re"),
        (lambda: risk_of(ORIGINAL.assign(a=1), FIRST.assign(a="one")),
         "'a' holds numbers in .* text in release 1"),
    ],
    "identification, choices": [
        (lambda: chosen(strategy="likeliest"),
         "strategy='likeliest' changes nothing .* give population too"),
        (lambda: chosen(strategy=0.5), "strategy=0.5 changes nothing"),
        (lambda: chosen(shape="ellipse"),
         "shape='ellipse' needs two radii, and radius names 0; give another"),
        (lambda: chosen(shape="ellipse", radius={"pay": 0.1}), "radius names 1"),
        (lambda: chosen(closed=False),
         "closed=False leaves out the ends of radii, and radius names none"),
        (lambda: swept({"strategy": ["always", "likeliest"]}),
         "strategy='likeliest' changes nothing"),
        (lambda: swept({"shape": ["box", "ellipse"]}, radius={"pay": 0.1}),
         "ellipse' needs two radii"),
        (lambda: swept({"closed": [True, False]}), "closed=False leaves out"),
        (lambda: swept({"m": [1]}, strategy=0.5), "strategy=0.5 changes nothing"),
        (lambda: swept({"strategy": [np.zeros(1)]}, population=COUNTS), "strategy=an array"),
        (lambda: swept({"m": [1]}, missing={"agee": "never"}),
         "missing names 'agee', which is not a key"),
        (lambda: swept({"known": [["sex"]]}, population=COUNTS),
         r"array of counts by \['sex', 'age', 'pay'\], and over\['known'\] asks for \['sex'\]"),
        (lambda: chosen(radius={"pay": Own(lambda y: y + 3)}),
         "gives a ndarray; let it give two arrays of 6 numbers, lower and upper"),
        (lambda: chosen(radius={"pay": Own(lambda y: (y, y, y))}),
         "gives a tuple; let it give two arrays"),
        (lambda: chosen(radius={"pay": Own(lambda y: None)}), "gives a NoneType; let it give"),
        (lambda: chosen(radius={"pay": Own(lambda y: (y[:2], y))}),
         r"gives shapes \(2,\) and \(6,\); let it"),
        (lambda: chosen(radius={"pay": Own(lambda y: (0.0, 1.0))}),
         r"gives shapes \(\) and \(\); let it"),
        (lambda: chosen(radius={"pay": Own(lambda y: (["a"] * 6, y))}),
         "gives a tuple; let it give two arrays"),
        (lambda: chosen(radius={"pay": Own(lambda y: (y + 1, y - 1))}),
         "gives lower ends above the upper ones, or NaN, for 6 of 6"),
        (lambda: chosen(radius={"pay": Own(lambda y: (y * np.nan, y))}),
         "gives lower ends above .* or NaN, for 6 of 6"),
    ],
    "cells of several values": [
        (lambda: br.links(SEVERAL, PAID), "'job' of the original holds a list in row 3; make each"),
        (lambda: br.links(PAID, SEVERAL[::-1]), "'job' of release 1 holds a ndarray in row 1"),
        (lambda: br.exposure(SEVERAL[3:], [PAID]), "'job' of the original holds a dict in row 1"),
        (lambda: br.exposure(SEVERAL, [PAID], person="job"), "'job' of the original holds a list"),
        (lambda: br.identification_risk(SEVERAL, PAID, **KEYS), "'job' of the original holds a"),
        (lambda: br.utility(PAID, SEVERAL), "'job' of release 1 holds a list in row 3"),
        (lambda: br.study_of(SEVERAL), "'job' of the table holds a list in row 3"),
        (lambda: models.DPMPM(2).fit(SEVERAL[["sex", "job"]]), "'job' of .* holds a list"),
        (lambda: models.CART(["job"]).fit(SEVERAL), "'job' of the original holds a list in row 3"),
        (lambda: Population.counted(SEVERAL, ["sex", "job"]), "'job' of .* holds a list in row 3"),
        (lambda: br.dominance(SEVERAL, "pay", "job"), "'job' of the table holds a list in row 3"),
    ],
    "identification, population": [
        (lambda: of_six(population=[1, 2]),
         r"shape \(2,\); give a count for each of the 6 targets, or 2 x 6"),
        (lambda: of_six(population=np.ones((3, 6))), r"population has shape \(3, 6\)"),
        (lambda: of_six(population=5), r"population has shape \(\); give a count for each"),
        (lambda: of_six(population=[1, 1, 1, 1, 1, -1]),
         "-1 for target number 6 .1 of 6 counts are not numbers above 0.; give finite numbers"),
        (lambda: of_six(population=[1, 1, 1, 0, 1, 0]), "0 for target number 4 .2 of 6 counts"),
        (lambda: of_six(population=[1, 1, 1, 1, 1, np.nan]), "nan for target number 6 .1 of 6"),
        (lambda: of_six(population=[1, 1, 1, 1, 1, None]), "nan for target number 6 .1 of 6"),
        (lambda: of_six(population=pd.Series([1, 2, None, 3, 3, 3], dtype="Int64")),
         "nan for target number 3"),
        (lambda: of_six(population="census"), "population is 'census' that does not hold a number"),
        (lambda: of_six(population=[[1, 2], [1]]),
         "population is a list that does not hold a number"),
        (lambda: of_six(population=pd.Series(list("123456"))),
         "population is a Series that does not hold"),
        (lambda: of_six(population=pd.Series(list("123456"), dtype=object)),
         "a Series that does not hold"),
        (lambda: of_six(population={"xp": 2}), "population is a dict that does not hold a number"),
        (lambda: of_six(population=[None, Population.counted(FIRST, ["a", "b"])]),
         "a list of .* of None"),
        (lambda: of_six(strategy=np.array(["always"])), 'strategy=an array; give "always"'),
        (lambda: of_six(population=[1, 2, 3, 4, 5, 6]),
         "different counts to targets with the same keys"),
        (lambda: of_six(population=pd.Series([1, 2])),
         "Series whose index does not name every target once"),
        (lambda: of_six(strategy="never"),
         'strategy=.never.; give "always", "likeliest", or a number'),
        (lambda: of_six(strategy=0), "strategy=0; give"),
        (lambda: of_six(strategy=1.5), "strategy=1.5; give"),
        (lambda: of_six(strategy=True), "strategy=True; give"),
        (lambda: of_six(targets=[]), "targets selects no record; select at least one"),
        (lambda: of_six(targets=[7]),
         "targets names 7, which is not a record label; .* those of the index"),
        (lambda: of_six(targets=[1, 1]),
         "targets names some records twice; name each of them once"),
        (lambda: of_six(targets=[True]),
         "targets has 1 entries; the table has 6 records"),
        (lambda: of_six(targets="ab"), "targets is a str; give a list of labels, a mask"),
        (lambda: of_six(targets=3), "targets is a int; give a list of labels, a mask"),
        (lambda: of_six(targets=FIRST[["a"]]),
         r"targets lacks column 'b'; it has \['a'\]"),
        (lambda: of_six(targets=FIRST[:0]), "targets has no rows; give at least one target"),
        (lambda: of_six(targets=FIRST.set_axis([1] * 6)),
         "index of targets names some people twice"),
        (lambda: of_six(targets=FIRST.assign(b="r")),
         "targets and the original merely number their rows"),
        (lambda: of_six(targets=FIRST.assign(b=1)[::-1]),
         "'b' holds text in the original and numbers in"),
        (lambda: of_six(targets=pd.concat([FIRST, FIRST], axis=1)),
         "targets has column 'a' more than once"),
    ],
    "identification, radii": [
        (lambda: chosen(radius=0.1),
         r"radius=0.1 is a float; give a dict .*\{'income': 0.1\}"),
        (lambda: chosen(radius={"sex": 0.1}),
         "key 'sex' .* of the original holds no real numbers, .* leave it out of radius"),
        (lambda: chosen(radius={"paid": 0.1}),
         r"radius names 'paid', which is not a key \(\['sex', 'pay'\]\); list it in known or"),
        (lambda: chosen(radius={"pay": -0.1}),
         r"radius\['pay'\]=-0.1 is not a radius; give a finite number >= 0"),
        (lambda: chosen(radius={"pay": np.inf}), r"radius\['pay'\]=inf is not a radius"),
        (lambda: chosen(radius={"pay": np.nan}), r"radius\['pay'\]=nan is not a radius"),
        (lambda: chosen(radius={"pay": "0.1"}),
         r"radius\['pay'\]='0.1' is not a radius; .* Quantile\(0.02\)"),
        (lambda: chosen(radius={"pay": True}), r"radius\['pay'\]=True is not a radius"),
        (lambda: Absolute(-1), r"Absolute\(-1\) is not a radius; give a finite number >= 0"),
        (lambda: Relative(float("inf")), r"Relative\(inf\) is not a relative radius"),
        (lambda: SD(True), r"SD\(True\) is not a multiple of the standard deviation"),
        (lambda: SD(1, groups=0), r"SD\(groups=0\); give a whole number >= 1"),
        (lambda: Quantile(1.5), r"Quantile\(1.5\) is not a share; give a number from 0 to 1"),
        (lambda: chosen(missing="ignore"), "give one of .'level', 'wildcard', 'never'"),
        (lambda: chosen(missing={"x": "level"}),
         r"missing names 'x', which is not a key \(\['sex', 'pay'\]\); leave it out"),
        (lambda: chosen(missing={"pay": "any"}), r"missing\['pay'\]='any'; give one of"),
        (lambda: chosen(missing=3), "missing=3; give one of .* or a dict of column to one"),
        (lambda: risk_of(PAID.assign(pay=np.nan), PAID, **KEYS, radius={"pay": 1}),
         "key 'pay' is missing in every record of the original"),
    ],
    "identification, reason": [
        (lambda: of_six(reason=[0, 1, 2]), r"of shape \(3,\) for 6 rows; give one truth value"),
        (lambda: of_six(reason=np.ones(4, dtype=bool)), r"shape \(4,\) for 6 rows; give one"),
        (lambda: of_six(reason=lambda df: df["a"]),
         "reason gives .* values of shape .* for 6 rows"),
        (lambda: of_six(reason=lambda df: df["age"] > 3),
         "reason looks at a column or a value, which some table lacks"),
    ],
    "population counts": [
        (lambda: log_linear(), "give one of them"),
        (lambda: log_linear(size=500, fraction=0.5), "give one of them"),
        (lambda: log_linear(size=47), "size=47 is smaller than the sample of 48"),
        (lambda: log_linear(size=float("inf")), "size=inf must be positive and finite"),
        (lambda: log_linear(fraction=0), "fraction=0 is outside"),
        (lambda: log_linear(fraction=1.2), "fraction=1.2 is outside; give"),
        (lambda: log_linear(fraction=0.5, interactions=3), "interactions=3 is not known; give 1"),
        (lambda: log_linear(fraction=0.5, draws=2), "draws=2 is too small; give an integer >= 4"),
        (lambda: log_linear(fraction=0.5, draws=10**8), "draws=100000000 is too large; give an"),
        (lambda: Population.counted(PEOPLE, []), "keys is empty"),
        (lambda: Population.counted(PEOPLE, ["town"]),
         "keys names column 'town', which the table does not have"),
        (lambda: Population.counted(PEOPLE, "sex"), "single string"),
        (lambda: Population.counted(PEOPLE, ["sex", "sex"]), "more than once"),
        (lambda: Population.counted(pd.DataFrame({"income": np.arange(1_500) + 0.5}), ["income"]),
         r"'income' \(float64\) has 1,500 distinct values"),
        (lambda: Population.log_linear(CELLS, ["a", "b"], fraction=0.5, draws=10**6),
         "draws=1000000 of 64 effects on 64 .* fewer draws"),
        (lambda: Population.table(pd.Series([1, 2])), "name it after the key columns"),
        (lambda: Population.table(pd.DataFrame({"a": [1]})), "lacks column 'count'"),
        (lambda: Population.table(pd.DataFrame({"a": [1, 1], "count": [1, 2]})),
         r"1 combinations of \['a'\] more than once"),
        (lambda: Population.table(pd.DataFrame({"a": [1, 2], "count": [1, -2]})),
         "negative in 1 of 2 rows"),
        (lambda: Population.table([1, 2]), "is a list; give a Series"),
        (lambda: BY_STAFF.counts(PEOPLE[["sex"]]), "lacks column 'staff'"),
        (lambda: BY_STAFF.counts(PEOPLE.assign(staff="many")),
         "'staff' holds numbers in the population and text"),
        (lambda: BY_STAFF.checked_counts(PEOPLE, [1, 2]), "one count per row: 48"),
    ],
    "uniqueness": [
        (lambda: unique(population=BY_STAFF),
         r"by \['sex', 'staff'\] and keys=\['sex', 'job'\]"),
        (lambda: unique(fraction=0.1, weights="pay"), "fraction and weights are both given"),
        (lambda: unique(population=PEOPLE), "population is a DataFrame"),
        (lambda: unique(population=Population.counted(PEOPLE[:9], ["sex", "job"])),
         "rarer in the population than in the sample"),
        (lambda: unique(fraction=2), "fraction=2 is outside"),
        (lambda: br.uniqueness(PEOPLE, []), "keys is empty"),
        (lambda: br.uniqueness(PEOPLE, ["town"]), "'town', which the table does not have"),
    ],
    "dominance": [
        (lambda: dominance(column="wages"), "column 'wages', which the table does not have"),
        (lambda: dominance(by="town"), "column 'town', which the table does not have"),
        (lambda: dominance(column="branch", by=None), "column 'branch' holds no numbers"),
        (lambda: dominance(p=0), "p=0 must be positive"),
        (lambda: dominance(n=0), "n=0 is too small"),
        (lambda: dominance(k=101), "k=101 is above 100"),
        (lambda: dominance(df=WORKERS.assign(workers=-1)),
         "'workers' is negative for 9 of 9 records"),
        (lambda: dominance(df=WORKERS.assign(workers=np.nan)),
         "'workers' is missing or infinite for 9 of 9"),
        (lambda: dominance(df=WORKERS.iloc[:0]), "no records"),
        (lambda: dominance(df=[1, 2]), "the table is a list"),
    ],
    "combining": [
        (lambda: combine([1.0], [1.0]), "m=1: .*synthesise at least 2"),
        (lambda: combine([1, [2, 3]], [1, 2]), "differ in length from data set to data set"),
        (lambda: combine([1, 2], ["a", "b"]), "hold what is not a number"),
        (lambda: combine(3.0, 1.0), "estimates is one float"),
        (lambda: combine(pd.DataFrame({"estimate": [1]})), "estimates is one DataFrame"),
        (lambda: combine([1.0, 2.0]), "variances is missing"),
        (lambda: combine([1.0, 2.0], [1.0]), r"shape \(2,\) and variances \(1,\)"),
        (lambda: combine([1.0, 2.0], [1.0, -1.0]), "variances are below 0 in 1 of 2 data sets"),
        (lambda: combine([1.0, np.nan], [1.0, 1.0]),
         "data set 1 has an estimate or variance that is missing"),
        (lambda: combine([1.0, 2.0], [1.0, 1.0], confidence=95), "confidence=95 is outside"),
        (lambda: combine([1.0, 2.0], [1.0, 1.0], names=["a", "b"]), "must be 1 different labels"),
        (lambda: combine(np.ones((3, 2)), [[[1, 0.3], [0, 1]]] * 3), "not symmetric"),
        (lambda: combine([pd.DataFrame({"q": [1]})] * 2), "needs the columns 'estimate'"),
    ],
    "closeness": [
        (lambda: joint_result().closeness("job"),
         r"'job' is a category.*marginal_probability\(\).*numbers=\['job'\]"),
        (lambda: joint_result().closeness("wage"),
         r"'wage' is not guessed in this result; it has \['LogIncome', 'kids', 'job'"),
        (lambda: joint_result().closeness("kids", within=0), "within=0 must be positive"),
        (lambda: joint_result().closeness("kids", percent=[5, -1]), "percent=-1 must be positive"),
        (lambda: joint_result().closeness("kids", within="near"), "within='near' is not a number"),
        (lambda: joint_result().closeness("kids", mass=90),
         "mass=90 is outside; give a number above 0, at most 1"),
    ],
    "geography": [
        (lambda: geography(y="lon"), "x and y are both 'lon'; give two different coordinates"),
        (lambda: geography(y="street"), "'street' is not guessed in this result"),
        (lambda: geography(distance="manhattan"), "distance='manhattan' is not known"),
        (lambda: geography(population=pd.DataFrame({"lon": [1.0]})),
         r"population has the columns \['lon'\]; give"),
        (lambda: geography(population=pd.DataFrame({"lon": [1.0], "lat": [np.nan]})),
         "'lat' of population has 1"),
        (lambda: geography(unique=[True, False]),
         "unique has 2 entries of type bool; .* 7 records"),
        (lambda: geography(unique=pd.Series([True], index=["x"])),
         "index of unique does not name the original"),
        (lambda: geography(unique=pd.Series([True] * 7, index=list("tuvwxyz"))),
         "index of unique does not name"),
        (lambda: geography(unique=[1, 0, 1, 0, 1, 0, 1]), "of type int64; give True or False"),
        (lambda: geography(population=SOUTH, distance="haversine"),
         "column 'lat' goes beyond 90, which is not an angle .*longitude, then latitude"),
        (lambda: unique_patterns(PEOPLE, ["race"]), "columns names column 'race'"),
    ],
    "reweighting": [
        (lambda: br.LinearWeights(floor=0.0), r"floor=0.0 is outside \(0, 1\]"),
        (lambda: br.LinearWeights(floor=1.5), r"floor=1.5 is outside \(0, 1\]"),
        (lambda: br.LinearWeights(c=-1.0), "c=-1.0 does not fit; give a finite slope c >= 0"),
        (lambda: br.LinearWeights(g=np.nan), "g=nan does not fit; give a finite slope"),
    ],
    "plots, reports and redaction": [
        (lambda: plots.calibration(attribute(), bins=0), "bins"),
        (lambda: plot_places(pd.DataFrame({"x": [1.0]})), "no column 'y'"),
        (lambda: plot_places(pd.DataFrame({"x": [1.0], "y": [1.0]})), "label of every target once"),
        (lambda: plots.plot_priors(pd.DataFrame({"mean_rank": [1.0]}), measure="mean_rank"),
         "mean_rank"),
        (lambda: report(attribute()), "path=None; give one that ends in .html"),
        (lambda: report("r.html"), "no result; give at least one"),
        (lambda: report(attribute(), attribute(), "r.html"), "2 results of the kind AttributeRisk"),
        (lambda: report(SimpleNamespace(), "r.html"),
         "a SimpleNamespace; give results .AttributeRisk"),
        (lambda: report(attribute(), "no/such/folder/r.html"), "a folder that exists"),
        (lambda: report(attribute(), "mine.pdf"), "path='mine.pdf'; give one that ends in .html"),
        (lambda: report(attribute(), "/"), "ends in .html"),
        (lambda: br.redact(), r"redact\(\) was given no result"),
        (lambda: br.redact(attribute(), min_count=2), "min_count=2 is too small"),
    ],
    "files and amounts": [
        (lambda: br.read_synthpop([]), "source is empty"),
        (lambda: br.read_synthpop(3), "source is a int"),
        (lambda: br.read_synthpop("nowhere"), "there is no file 'nowhere'"),
        (lambda: demo_data("iris"), r"demo='iris' is not known; give one of \['fair', 'ita"),
        (lambda: bytes_of(""), "not an amount of memory"),
        (lambda: bytes_of("much"), "not an amount of memory"),
        (lambda: bytes_of("-1GiB"), "not an amount of memory"),
        (lambda: bytes_of("0"), "not an amount of memory"),
        (lambda: bytes_of("2 apples"), "not an amount of memory"),
        (lambda: bytes_of("9" * 400 + "TiB"), "not an amount of memory"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(call, message, id=f"{subject}: {message}"[:60])
        for subject, refusals in REFUSALS.items()
        for call, message in refusals
    ],
)
def test_what_cannot_be_is_named(call, message):
    with pytest.raises(br.InputError, match=message):
        call()
