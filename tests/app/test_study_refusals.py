"""What a study file may not say, in words: every refusal, and none that waits for a fit."""

from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.run.audit import tried_of
from bayes_risk.app.study.keys import placed
from bayes_risk.app.study.study import parse_study
from tests.helpers.python_words import python_words

COUNTS = {"kind": "PoissonMixture"}
MM, TCMM = COUNTS | {"synthesizer": "MM"}, COUNTS | {"synthesizer": "TCMM", "quantile": 0.9}
FORMULAS = {"income": "1 + age", "tax": "1 + income"}
NORMAL = {"kind": "Regression", "formulas": FORMULAS}
BROUGHT = NORMAL | {"draws": {"income": "i.csv", "tax": "t.csv"}}
PYMC = {"kind": "PyMCModel", "build": "m.py:build", "columns": ["income"]}
TREES = {"kind": "CART", "order": ["job", "pay"]}
PAY = {"kind": "CART", "order": ["pay"]}
FOREST = {"kind": "Forest", "order": ["job", "home"]}
PMM = {"kind": "PMM", "order": ["job", "home"], "identifying": ["job", "home"]}
RULES = [{"age": "child", "status": ["married", "widowed"]}]
LARGEST = {"knows_records": "second-largest", "largest": "skilled"}
TWO = {"knows_records": "all-but-two", "other": "B", "knows_totals": True}
GRID = {"bounds": [700, 1500], "n": 801}
INTERVAL = {"interval": [900, 1100]}
KEYS = {"known": ["sex"], "synthesized": ["pay"]}
CONTEXT = {"keys": ["sex", "job"], "target": "pay"}

# By section: what it says, the refusal, and what the other sections say if that matters.
REFUSALS: dict[str, list[tuple[Any, ...]]] = {
    "": [
        ({"modle": {}}, "the study has no key 'modle'; did you mean 'model'?"),
        ({"model": BROUGHT},
         r"\[attribute\] Regression offers \['importance'\] for this release and"),
        ({"model": PMM, "release": {"files": ["z.csv"], "columns": ["job", "home"]}},
         r"\[attribute\] the release has \['job', 'home'\] of 24 records synthesised, and"),
        ({"order": ["job"]}, r"the study has no key 'order'; put it under \[model\]"),
        ({"attribute": None}, r"the study needs something to measure: \[attribute\]"),
        ({"data": None}, "data is missing; give a table of keys"),
    ],
    "data": [
        ({"demo": "fair", "path": "a.csv"},
         r"\[data\] give exactly one of path or demo"),
        ({"missing_codes": "keep"}, r"\[data\] missing_codes = .keep. does not fit; give .error."),
        ({"levels": {"age": "code"}}, r"\[data.levels\] age = .code. does not fit; give a table"),
        ({"na": "NA"}, r"\[data\] na = .NA. does not fit; give a list of texts"),
    ],
    "model": [
        ({"n_clases": 3}, r"\[model\] has no key 'n_clases'; did you mean 'n_classes'?"),
        ({"zz": 3}, r"\[model\] has no key 'zz'; it knows kind, n_classes, conc"),
        (3, "model = 3 does not fit; give a table of keys"),
        ({"impossible": []}, r"\[model\] impossible: impossible has no rule; give at least one"),
        ({"impossible": 3}, r"\[model\] impossible = 3 does not fit"),
        ({"impossible": [{}]},
         "impossible: rule 1 names no column, and so excludes everything; name levels"),
        ({"impossible": [{"age": "child"}, 3]},
         r"impossible = \[.*, 3\] does not fit; give a list of rules"),
        ({"impossible": [{"age": []}]},
         "rule 1 names no level of column 'age', and so excludes nothing"),
        # which kind
        ({"kind": "regression"},
         r"\[model\] kind = .regression. does not fit; give .CART. or .Chain. or .DPMPM. or"),
        ({"formulas": {}}, r"\[model\] has no key 'formulas'; it knows kind, n_cl"),
        ({"kind": "Cart"},
         r"\[model\] kind = .Cart. does not fit; give .CART. or .Chain. or .DPMPM. or .Forest. or"),
        # kind = "PoissonMixture"
        (COUNTS | {"synthesizer": "PM"},
         r"\[model\] synthesizer = .PM. is not known; give one of \['MM', 'MP', 'TCMM'\]"),
        (COUNTS | {"synthesizer": "TCMM"},
         r"\[model\] quantile is missing, and TCMM needs one; give 0.9 for example"),
        (MM | {"quantile": 0.9},
         r'\[model\] quantile = 0.9 has no meaning for MM; leave it out,'),
        (MM | {"zeros": [1, 1]},
         r'\[model\] zeros = \[1.0, 1.0\] goes with MP: dealing the totals'),
        (COUNTS | {"rate_prior": {"x": [0, 1]}},
         r"\[model\] rate_prior.x = 0.0 must be positive and finite"),
        (COUNTS | {"covariates": ["x"], "exposure": "x"},
         r"\[model\] column 'x' is both exposure and covariate; it can be one"),
        (COUNTS | {"exposure": "x", "rate_prior": {"x": [1, 1]}},
         r"\[model\] column 'x' is to be a number and does not hold numbers; treat"),
        (COUNTS | {"zeros": [1, 1]},
         r"\[attribute\] a mixture with structural zeros offers intruders who know the",
         {"attribute": {"intruder": LARGEST, "knows_columns": ["unskilled"]}}),
        # kind = "Regression"
        (NORMAL | {"draws": {"tax": "a\0b"}},
         "draws = .* does not fit; give a text without the character NUL"),
        (NORMAL | {"formulas": {}},
         r'\[model\] formulas is not a mapping with a formula; give \{"income": "1 \+ age", ...\}'),
        (NORMAL | {"formulas": {"income": 3}}, r"\[model.formulas\] income = 3 does not fit"),
        ({"kind": "Regression"}, r"\[model\] formulas is missing; give a table"),
        (NORMAL | {"families": {"tax": "poison"}},
         r"\[model\] families = .poison. is not known; give one of \['bernoulli',"),
        (NORMAL | {"families": {"tx": "poisson"}},
         r"\[model\] families names column 'tx', which the table does not have; it has"),
        (NORMAL | {"families": {"tax": {"binomial": 0}}},
         r"\[model.families.tax\] binomial = 0 does not fit; give a whole number from 1"),
        (NORMAL | {"families": "poisson"},
         r"\[model\] families = .poisson. does not fit; give a tab"),
        (NORMAL | {"prior": "flat"}, r'\[model\] prior = .flat. does not fit; give "reference"'),
        (NORMAL | {"prior": {"slopes": 0}},
         r"\[model.prior\] slopes = 0.0 must be positive and finite"),
        (NORMAL | {"priors": {"tax": {"nu": [1]}}},
         r"\[model.priors.tax\] nu = \[1\] does not fit"),
        (NORMAL | {"priors": {"age": "reference"}},
         r"\[model\] priors names column 'age', which the table does not have; it has"),
        (NORMAL | {"draws": {"tax": "t.csv"}},
         r"\[model\] draws has none of \['income'\]; give a table of draws for each formula"),
        (NORMAL | {"nuts_sampler": "stan"},
         r"\[model\] nuts_sampler = .stan. is not known; give one of \['nutpie', 'pymc'\]"),
        # kind = "PyMCModel"
        (PYMC | {"build": "m.py"},
         r"\[model\] build = .m.py. does not fit; give .file.py:function."),
        (PYMC | {"columns": []},
         r"\[model\] columns is empty; name the observed variables, in order of synthesis"),
        # kind = "CART"
        ({"kind": "CART"}, r"\[model\] order is missing; give a list of texts"),
        (TREES | {"order": []}, r"\[model\] order = \[\]; give a list of at least one column name"),
        (TREES | {"order": ["a", "a"]},
         r"\[model\] order names \['a'\] more than once; name each column once"),
        # kind = "Forest"
        (FOREST | {"order": "amount"},
         r'\[model\] order = "amount" needs the records to replace of each column; give a'),
        (FOREST | {"dirichlet": -1},
         r"\[model\] dirichlet = -1.0; give a finite number, 0 \(plain vote shares\) or more"),
        # kind = "PMM"
        ({"kind": "PMM", "order": ["a"]}, r"\[model\] identifying is missing; give a list"),
        (PMM | {"identifying": []},
         r"\[model\] identifying = \[\]; give a list of at least one column name"),
        (PMM | {"models": {"job": "x"}},
         r"\[model\] models.job = .x. is not known; give one of \['gam', 'linear',"),
        (PMM | {"models": {"jb": "gam"}},
         r"\[model\] models names column 'jb', which the table does not have; it has"),
        (PMM | {"cuts": {"job": [2, 1]}},
         r"\[model\] cuts.job = \[2.0, 1.0\] must be increasing numbers"),
        (PMM | {"cuts": {"pay": [2]}},
         r"\[model\] cuts names column 'pay', which the table does not have; it has"),
        (PMM | {"constraints": "r.py"},
         r"\[model\] constraints = .r.py. does not fit; give a list: \[.file.py:function.,"),
        (PMM | {"constraints": 3},
         r'\[model\] constraints = 3 does not fit; give a list: \["file.py:function", ...\]'),
    ],
    "release": [
        ({"parameters": "plug-in"},
         r'\[release\] parameters = "plug-in" is offered for normal and log-normal',
         {"model": NORMAL | {"families": {"tax": "student"}}}),
        ({"parameters": "plug-in"},
         r'\[attribute\] evidence = "predictive" is not offered by Regression; it',
         {"model": NORMAL, "attribute": {"evidence": "predictive"}}),
        ({"parameters": "proper"}, r"\[release\] parameters = .proper. does not fit; give .one-mo"),
        ({"parameters": "plug-in"},
         r'\[release\] parameters = "plug-in" \(all from one estimate of the parameters,'),
        ({"parameters": "shared"},
         r'\[release\] parameters = "shared" \(all from one draw of the parameters\) is not',
         {"model": MM}),
        ({"parameters": "independent"},
         r'\[release\] parameters = "independent" \(each from its own draw of the',
         {"model": FOREST}),
        ({"parameters": "shared", "classes": "own"},
         r'\[release\] parameters = "shared" with \[release\] classes = "own" is not offered for'),
        ({"parameters": "shared"},
         r'\[release\] parameters = .shared. with m = 2 is not offered by DPMPM',
         {"attribute": {"intruder": {"knows_records": "none"}}}),
        ({"parameters": "one-mode", "m": 10},
         r"\[release\] m = 10 exceeds the 9 draws of a chain; fit with more draws",
         {"model": {"draws": 9, "chains": 4}}),
        ({"m": 37},
         r"\[release\] m = 37 exceeds the 9 draws of a chain; fit with more draws",
         {"model": {"draws": 9, "chains": 4}}),
        ({"m": 2, "files": ["a.csv"], "columns": ["job"]},
         r"\[release\] m does not go with .*, which are the releases; leave one of them out"),
        ({"n": 2, "files": ["a.csv"], "columns": ["job"]},
         r"\[release\] n does not go with .*, which are the releases; leave one of them out"),
        ({"n": 5, "columns": ["age"]},
         r"\[release\] n = 5 is for releases of which .* 'status' stays"),
        ({"n": 5}, r'\[release\] n means nothing to kind = "Forest"; leave', {"model": FOREST}),
        ({"n": 5},
         r"\[identification\] population is of records, and release 1 has 5 records and the",
         {"identification": {"known": [], "synthesized": ["sex"], "population": {"size": 99}}}),
        ({"files": []}, "give a list of paths"),
        ({"columns": ["x"]},
         r"\[release\] columns names column 'x', which the model does not have; it has",
         {"model": COUNTS | {"covariates": ["x"]}}),
        ({"files": ["z.csv"], "columns": ["skilled"]},
         r'\[attribute\] the release has no groups, and .* groups = "known" needs them: keep',
         {"model": MM, "attribute": {"intruder": LARGEST}}),
        ({"files": ["z.csv"], "columns": ["skilled"]},
         r'\[attribute\] the release has no groups, and .* groups = "known" needs them: keep',
         {"model": TCMM, "attribute": {"intruder": LARGEST}}),
        ({"classes": "own"},
         r'\[release\] classes = "own" is not offered together with impossible: what is',
         {"model": {"impossible": RULES}}),
        ({"columns": ["job"]},
         r"\[release\] columns = \[.job.\] leaves out some of \['job', 'home'\], which are",
         {"model": PMM}),
        ({"files": ["a.csv"]}, r"files needs columns = \[...\], what was synthesised; add it"),
    ],
    "attribute": [
        ({"guesses": "hamming-10000"}, '.hamming-10000. does not fit; give "neigh'),
        ({"guesses": {"values": [1, "2"]}}, "give a list of numbers"),
        ({"targets": 0}, '"all" or a number of records'),
        ({"guesses": {"staff": GRID}},
         r"\[attribute\] guesses names column 'staff', which is not guessed; guessed are",
         {"model": COUNTS | {"exposure": "staff"}}),
        ({"evidence": "predictive"},
         r'\[attribute\] evidence = "predictive" is not offered by Poisson', {"model": MM}),
        ({"intruder": LARGEST, "knows_columns": ["skilled"]},
         r"\[attribute\] knows_columns names 'skilled', which is to be guessed"),
        ({"intruder": LARGEST, "evidence": "refit"},
         r"\[attribute\] evidence has no effect for a business competitor; leave it out"),
        ({"intruder": LARGEST, "refit_budget": 3},
         r"\[attribute\] refit_budget has no effect for a business competitor"),
        ({"intruder": LARGEST, "targets": 5},
         r"\[attribute\] targets has no effect for a business competitor; leave it out"),
        ({"intruder": TWO}, r'asks about one record: give \[attribute\] targets = \[label\]'),
        ({"targets": []}, r"targets = \[\] does not fit; .* a list of labels"),
        ({"guesses": {"unskilled": GRID}, "intruder": LARGEST},
         r"\[attribute\] guesses names column 'unskilled', which is not guessed; guessed",
         {"model": COUNTS}),
        ({"intruder": {"knows_records": 0.5}, "evidence": "imputed"},
         r'\[attribute\] evidence = "imputed" is not offered by DPMPM; it offers',
         {"model": {"impossible": RULES}, "release": {"m": 2}}),
        ({"intruder": {"knows_records": "none"}, "evidence": "predictive"},
         r'\[attribute\] evidence = "predictive" is not offered by DPMPM; it',
         {"release": {"m": 3}}),
        ({"evidence": "imputed"},
         r'\[attribute\] evidence = "imputed" is not offered by DPMPM; it offers'),
        ({"guesses": {"income": {"percnt": 9}}},
         r"\[attribute.guesses.income\] has no key 'percnt'; did you m"),
        ({"guesses": {"percnt": 9}}, r"\[attribute.guesses\] has no key 'percnt'; did you mean"),
        ({"guesses": {"income": {"n": 3}}},
         r"\[attribute.guesses.income\] a grid has none of percent, additive,"),
        ({"guesses": {"income": {"percent": 1, "additive": 2}}},
         r"\[attribute.guesses.income\] a grid has \['percent', 'additive'\] of"),
        ({"guesses": {"income": {"bounds": [2, 1]}}},
         r"\[attribute.guesses.income\] bounds = \[2.0, 1.0\]; give \(low, high\) with low <"),
        ({"guesses": {"income": {"values": [1]}}},
         r"\[attribute.guesses.income\] the values \[1.0\] make no grid; give at least 2"),
        ({"guesses": {"tax": "level", "income": "levels"}},
         r"\[attribute.guesses\] tax = .level. does not fit"),
        ({"guesses": {"age": {"percent": 9}}},
         r"\[attribute\] guesses names column 'age', which is not guessed; guessed are",
         {"model": NORMAL}),
        ({"guesses": 3}, r"\[attribute\] guesses = 3 does not fit; give .*hamming-2.* a table"),
        ({"guesses": {}}, r"\[attribute.guesses\] a grid has none of"),
        ({"evidence": "predictive"},
         r'\[attribute\] evidence = "predictive" is not offered by Regression; it',
         {"model": BROUGHT}),
        ({"evidence": "exact"},
         r'\[attribute\] evidence = "exact" is not offered by DPMPM; it offers'),
        ({"evidence": "exact"},
         r'\[attribute\] evidence = "exact" is not offered by PyMCModel; it',
         {"model": PYMC}),
        ({"evidence": "exact"},
         r'\[attribute\] evidence = "exact" is not offered by Regression; it',
         {"model": NORMAL | {"families": {"tax": "student"}}}),
        ({"evidence": "predictive"},
         r'\[attribute\] evidence = "predictive" is not offered by CART; it',
         {"model": TREES}),
        ({"evidence": "importance"},
         r'\[attribute\] evidence = "importance" is not offered by Forest; it',
         {"model": FOREST}),
        ({"evidence": "predictive"},
         r'\[attribute\] evidence = "predictive" is not offered by PMM; it offers',
         {"model": PMM}),
        ({"evidence": "exact"},
         r'\[attribute\] evidence = "exact" is not offered by PMM; it offers',
         {"model": PMM | {"selection": "hidden"}}),
        ({"evidence": "x"}, r'\[attribute\] evidence = "x" is not known; give one of \[.exact.,'),
    ],
    "attribute.intruder": [
        ("rival", r"\[attribute\] intruder = .rival. does not fit; give a table of keys"),
        ({"knows_records": "third-largest"},
         "knows_records = .third-largest. is not available; give one of"),
        ({"largest": "skilled"},
         'largest = "skilled" has no effect .* knows_records = .all-but-target.; leave'),
        ({"knows_totals": {"skilled": "many"}},
         "knows_totals = .*many.* does not fit; give true or false or a table: { column ="),
        (LARGEST,
         r'\[attribute.intruder\] largest = "skilled" is not a column that the release has'),
        (LARGEST,
         r'\[attribute.intruder\] largest = "skilled" is not a column that the release has',
         {"model": MM | {"covariates": ["skilled"]}}),
        (LARGEST | {"groups": "inferred"},
         r'\[attribute.intruder\] groups = "inferred" is not offered where a tail was collapsed;',
         {"model": TCMM}),
        ({"knows_records": 1.0},
         "knows_records = 1.0 is not a fraction above 0 and below 1; give 0.5 for half"),
        ({"knows_records": True}, "knows_records = true does not fit"),
        ({"knows_records": "0.5"}, 'knows_records = "0.5" is not available; give one of'),
        ({"knows_records": []}, 'knows_records names no record; give "none" for no record'),
        ({"knows_records": [True, False]}, "knows_records has 2 entries; the table has"),
        ({"knows_records": 0.5},
         r"\[attribute\] The intruder knows half of the records, drawn at random, never",
         {"model": FOREST}),
        ({"knows_records": "none"},
         r'\[attribute\] MM keeps totals, and what they reveal to an intruder',
         {"model": MM}),
        ({"knows_records": ["A", "B"]},
         r"\[attribute\] draws brought from elsewhere cannot be drawn again, and an",
         {"model": BROUGHT}),
    ],
    "attribute.prior": [
        ("flat", 'prior = .flat. does not fit; give "uniform", "marg'),
        ({"truth_factor": 0}, r"\[attribute.prior\] factor = 0.0 must be positive and finite"),
        (INTERVAL, r"\[attribute\] prior names no column; no number is guessed"),
        ("marginal",
         r"\[attribute\] column 'skilled' is a number, and \[attribute\] prior = .marginal. counts",
         {"model": COUNTS}),
        (INTERVAL | {"column": "unskilled"},
         r"\[attribute\] prior names 'unskilled'; name one of the guessed",
         {"model": COUNTS, "attribute": {"intruder": LARGEST}}),
        ({"interval": [2, 1]},
         r"\[attribute.prior\] the interval has ends 2 and 1; give finite low < high"),
        ({"interval": [0, 9], "spread": "log-uniform"},
         r"\[attribute.prior\] low = 0.0 has no logarithm; give low > 0, or spread"),
        ({"mixture": []}, r"mixture = \[\] does not fit; give a"),
        ({"mixture": "uniform"}, "give a list of .weight, prior."),
        ({"mixture": [["uniform", 1]]},
         r"mixture = \[\[.uniform., 1\]\] does not fit; give a list of \[weight, prior\]"),
        ({"mixture": [[-1, "uniform"]]},
         r"mixture = \[\[-1, .uniform.\]\] does not fit; give a list of \[weight"),
        ({"mixture": [[1]]}, r"mixture = \[\[1\]\] does not fit; give a list of \[weight"),
        ({"mixture": [[1, "uniform"], [1, "flat"]]},
         r"\[attribute.prior\] mixture = .*flat.\]\] does not fit; give a list of \[weight"),
        ("predictive",
         r'\[attribute\] prior = "predictive" needs a base fit, and this evidence has',
         {"attribute": {"evidence": "importance"}}),
        ({"mixture": [[1, "marginal"]]},
         r"\[attribute\] column 'skilled' is a number, and \[attribute\] prior = .marginal. counts",
         {"model": COUNTS}),
        ({"mixture": [[1, "uniform"], [1, {"density": {"b": {"normal": [0, 1]}}}]]},
         r"\[attribute\] prior names 'b'; name one of the guessed numbers",
         {"model": NORMAL}),
        ("predictive",
         r'\[attribute\] prior = "predictive" is not offered for a fit with record',
         {"reweight": {"until": 0.3}}),
        ({"density": {"tax": {"norml": [0, 1]}}},
         r"\[attribute.prior.density.tax\] has no key 'norml'; did you mean"),
        ({"density": {"tax": {"normal": [0, 0]}}},
         r"\[attribute.prior.density.tax\] normal = .* give .mean, sd., sd above 0"),
        ({"density": {"tax": {}}},
         r"\[attribute.prior.density.tax\] give exactly one of normal or lognormal or"),
        ({"density": {"tax": {"uniform": [1, 1]}}}, r"uniform = .* is not \[low, high\]"),
        ({"density": {"age": {"normal": [0, 1]}}},
         r"\[attribute\] prior names 'age'; name one of the guessed numbers",
         {"model": NORMAL}),
        ({"density": 3}, "density = 3 does not fit; give a table of column = distribution"),
    ],
    "identification": [
        ({"known": [], "synthesized": ["staff"]},
         r"\[identification\] synthesized names 'staff', .*; put it under \[identification\] known",
         {"model": COUNTS | {"exposure": "staff"}}),
        (KEYS | {"closed": False},
         r"\[identification\] closed = false leaves out the ends of radii",
         {"model": PAY, "attribute": None}),
        (KEYS | {"radius": {"pay": {"absolute": 1, "sd": 2}}},
         r"\[identification.radius.pay\] has no key 'sd'; it knows absolute"),
        (KEYS | {"radius": {"pay": -1}}, "radius.pay = -1.0 is not a radius; give a finite number",
         {"model": PAY, "attribute": None}),
        (KEYS | {"radius": 3}, "radius = 3 does not fit; give a table: { column = a number or"),
        (KEYS | {"radius": {"age": 0.1}},
         r"\[identification\] radius names 'age', which is not a key \(\['sex', 'pay'\]\); list",
         {"model": PAY, "attribute": None}),
        (KEYS | {"missing": {"age": "never"}},
         r"\[identification\] missing names 'age', which is not a key \(\['sex', 'pay'\]\); leave",
         {"model": PAY, "attribute": None}),
        (KEYS | {"strategy": "sometimes"},
         'strategy = "sometimes"; give "always", "likeliest", or a number',
         {"model": PAY, "attribute": None}),
        ({"known": [], "synthesized": ["age"]},
         r"\[identification\] synthesized names 'age', which the release did not",
         {"model": NORMAL}),
        ({"known": ["income"], "synthesized": ["tax"]},
         r"\[identification\] known names 'income', which the release synthesised; put it",
         {"model": NORMAL}),
        ({}, r"\[identification\] known is missing; give a list"),
    ],
    "identification.population": [
        ({},
         "give exactly one of file or size",
         {"identification": KEYS}),
        ({"size": 900},
         r"\[identification\] population counts go by exact keys, and \['pay'\] match within",
         {"identification": KEYS | {"radius": {"pay": 0.1}}, "model": PAY, "attribute": None}),
    ],
    "sweep": [
        ({"parameters": ["shared"]},
         r"\[sweep\] parameters = .shared. is not known; give one of \['independent',",
         {"model": MM}),
        ({"combinations": True}, r"\[sweep\] needs a list of what to vary: priors = "),
        ({"prior": ["uniform"]}, r"\[sweep\] has no key 'prior'; did you mean 'priors'"),
        ({"priors": "uniform"}, r"\[sweep\] priors = .uniform. does not fit; give a list"),
        ({"priors": []}, r"priors = \[\] does not fit; give a list"),
        ({"priors": ["flat"]}, r"priors = \[.flat.\] does not fit; give a list: \[.uniform., .mar"),
        ({"priors": {"truth_factor": 3}}, r"\[sweep.priors\] truth_factor = 3 does not fit"),
        ({"knows_records": [1.5]}, "knows_records = 1.5 is not a fraction above 0 and below 1"),
        ({"knows_records": ["second-largest"]}, "knows_records = ..second-largest.. does not fit"),
        ({"knows_columns": ["a"]}, 'knows_columns = "a" is a single string; give a list'),
        ({"guesses": ["hamming-0"]}, r"\[sweep\] guesses = \[.hamming-0.\] does not fit"),
        ({"classes": ["old"]}, r'\[sweep\] classes = "old" is not known; give one of'),
        ({"evidence": ["best"]}, 'evidence = "best" is not known; give one of'),
        ({"m": [0]}, "m = 0 is too small; give an integer >= 1"),
        ({"m": [4]},
         r"\[sweep\] m = 4 is more than the release has; give at most 3", {"release": {"m": 3}}),
        ({"model": 3}, r"\[sweep\] model = 3 does not fit; give a table of key"),
        ({"model": {"level_prior": 2}},
         r"\[sweep.model\] level_prior = 2 does not fit; give a list: \[0.5"),
        ({"model": {"level_prior": [0]}},
         r"\[sweep.model\] level_prior = 0 does not fit; give a number from"),
        ({"model": {"draws": [9]}}, r"\[sweep.model\] has no key 'draws'; it knows n_cla"),
        ({"model": {"power": [0]}}, "power = 0 must be positive and finite"),
        ({"model": {"columns": [["a"]]}},
         r'\[sweep.model\] is not offered for kind = "PyMCModel"; leave it out', {"model": PYMC}),
        ({"knows_columns": [["c"]]},
         r"\[sweep\] knows_columns names column 'c', which the table does not have; it has",
         {"model": TREES}),
        ({"knows_columns": [["job", "pay"]]},
         r"\[sweep\] knows_columns names every synthesised column; leave at",
         {"model": TREES}),
        ({"knows_records": ["none"]},
         r'\[sweep\] The intruder knows no record: Forest offers no evidence for',
         {"model": FOREST, "release": {"m": 3}}),
        ({"knows_records": ["none"]},
         r'\[sweep\] evidence = "predictive" is not offered by DPMPM; it offers',
         {"attribute": {"evidence": "predictive"}, "release": {"m": 3}}),
        ({"priors": ["predictive"], "evidence": ["predictive", "importance"]},
         r'\[sweep\] priors = "predictive" needs a base fit, and this evidence has none'),
        ({"priors": ["marginal"]},
         r"\[sweep\] column 'skilled' is a number, and \[sweep\] priors = .marginal.",
         {"model": COUNTS}),
        ({"m": [1]},
         r"\[sweep\] needs \[attribute\], which it varies; add it",
         {"identification": KEYS, "attribute": None}),
    ],
    "compare": [
        ({"a": {}, "utility": "interval_overlap"},
         r'\[compare\] utility = "interval_overlap" needs \[utility\] analyses'),
        ({"replicates": 3}, r"\[compare\] needs a candidate: \[compare.NAME\]; add it"),
        ({"kind": "pies", "a": {}}, 'kind = .pies. does not fit; give "boxes"'),
        ({"risk": "mean_prob", "a": {}},
         "risk = .mean_prob. does not fit; give the name .* \"mean_p"),
        ({"risk": "pmse_cart", "a": {}}, "risk = .pmse_cart. does not fit; give"),
        ({"utility": "cost", "a": {}}, "utility = .cost. does not fit; give the name .* \"pmse_c"),
        ({"candidates": 3}, "candidates = 3 does not fit"),
        ({"a": {"model": 3}}, r"\[compare.a\] model = 3 does not fit; give a table of"),
        ({"a": {"model": {"leaf": 3}}},
         r"\[compare.a\]: \[model\] has no key 'leaf'", {"model": TREES}),
        ({"a": {"model": {"kind": "Tree"}}}, r"\[compare.a\]: \[model\] kind = .Tree. do"),
        ({"a": {"release": {"m": 0}}}, r"\[compare.a\]: \[release\] m = 0 does not fit"),
        ({"a": {"release": {"columns": ["edu"]}}},
         r"\[compare.a\]: \[release\] columns names column 'edu', which the model does not",
         {"model": TREES}),
        ({"a": {}},
         r"\[compare\] needs a risk: \[attribute\] or",
         {"full_table": {}, "attribute": None}),
        ({"a": {}, "risk": "gain"},
         r'risk = "gain" needs \[attribute\]; add it',
         {"identification": KEYS, "attribute": None}),
        ({"a": {"attribute": {"targets": 9}}},
         r"\[compare.a\]: attribute changes keys of a section \[attribute\], which is not there",
         {"identification": KEYS, "attribute": None}),
        ({"a": {}},
         r"\[compare\] does not go with \[reweight\]; leave", {"reweight": {"until": 0.1}}),
        ({"a": {"model": {"kind": "DPMPM"}}},
         r'\[compare.a\]: .*evidence = "exact" is not offered by DPMPM',
         {"model": TREES, "attribute": {"evidence": "exact"}}),
    ],
    "utility": [
        ({"columns": ["sex", "job"]},
         r"\[compare.b\]: \[utility\] none of the columns compared was synthesised",
         {"model": TREES, "compare": {"b": {"model": {"order": ["pay"]}}}}),
        ({"analyses": "a.py"}, r'\[utility\] analyses = .a.py. does not fit; give the text "file'),
        ({"analyses": ["a.py:f", "b.py:f"]}, "give each function a name of its own"),
    ],
    "context": [
        ({"keys": ["age"], "groups": {"age": 2**31}},
         "groups. age = 2147483648 does not fit; give .* a whole number from 2 to 10,000"),
        ({}, r"\[context\] keys is missing; give a list of texts"),
        ({"keys": []}, r"\[context\] keys is empty; name at least one column",
         {"model": TREES, "attribute": None}),
        ({"keys": ["sex"], "target": ["sex"]},
         r"\[context\] target 'sex' is among the keys; what is known cannot be learnt"),
        ({"keys": ["sex"], "groups": {"pay": 4}},
         r"\[context\] groups names column 'pay', which the table does not have; it has",
         {"model": TREES, "attribute": None}),
        ({"keys": ["sex"], "groups": {"sex": 2}},
         r"\[context\] groups names 'sex', which holds no numbers; leave it out",
         {"model": TREES, "attribute": None}),
        ({"keys": ["sex"], "distances": 3},
         "distances = 3 does not fit; give a list of texts or true or false"),
        ({"keys": ["sex"], "distances": False, "holdout": "b.csv"}, "holdout is for distan",
         {"model": TREES, "attribute": None}),
    ],
    "bounds": [
        ({"patterns": ["sex"]},
         r"\[bounds\] patterns names 'sex', which is synthesised; leave it out",
         {"model": TREES, "compare": {"bounds": True, "b": {"model": {"order": ["sex"]}}}}),
        ({"patterns": ["job"]},
         r"\[bounds\] patterns names 'job', which is synthes",
         {"model": TREES, "context": CONTEXT}),
        ({"numbers": ["sex"]},
         r"\[bounds\] numbers names column 'sex', which the table does not have; it has",
         {"model": TREES, "context": CONTEXT}),
        ({}, r"\[bounds\] needs numbers of the release: .*; add it"),
    ],
    "membership": [
        ({"held_out": 1.0}, "held_out = 1.0 does not fit; give a fraction abov"),
        ({"held_out": 0.5, "others": "b.csv"}, "does not go with others: both are people outside"),
        ({"records": 0}, 'records = 0 does not fit; give "all" or a number'),
        ({"prior_odds": 0}, "prior_odds = 0.0 must be positive and finite"),
        ({"knows_records": "all"}, "knows_records = .all. does not fit; give"),
        ({},
         r"\[membership\] columns \['sex'\] are released as they are, and show by themselves",
         {"model": TREES}),
        ({},
         r'\[membership\] PoissonMixture offers no predictives for this release',
         {"model": MM}),
        ({"knows_records": "none"},
         r"\[membership\] knows_records with m = 2 data sets is not offered for"),
        ({},
         r"\[membership\] membership is not offered for a fit with record weights; fit",
         {"reweight": {"until": 0.3}}),
        ({"held_out": 0.5},
         r"held_out does not go with \[release\] files: it makes a release of its own",
         {"release": {"files": ["b.csv"], "columns": ["a"]}}),
    ],
    "full_table": [
        ({"targets": 0}, "targets = 0 does not fit; give a number of records"),
        ({"targets": "all"}, "targets = .all. does not fit"),
        ({"prior": "release"},
         'prior = "release" is for listed guesses and not offered over a full table; give'),
        ({},
         r'\[full_table\] CART offers no full table: its predictives are no',
         {"model": TREES}),
        ({},
         r'\[full_table\] DPMPM offers no full table: its predictives are no',
         {"reweight": {"until": 0.3}}),
    ],
    "reweight": [
        ({"until": 0.3},
         r"\[reweight\] weights are not offered together with impossible: records that",
         {"model": {"impossible": RULES}}),
        ({}, r"\[reweight\] until is missing; give a number above 0 and below 1"),
        ({"until": 0.3, "floor": 0}, r"\[reweight\] floor = 0.0 is outside \(0, 1\]"),
        ({"until": 0.3, "c": -1}, "c = -1.0 does not fit; give a finite slope c >= 0"),
        ({"until": 0.3},
         r'\[reweight\] PoissonMixture of MM takes no record weights: the',
         {"model": MM}),
        ({"until": 0.3},
         r"\[reweight\] Forest takes no record weights: votes of trees are not a likelihood",
         {"model": FOREST}),
        ({"until": 0.3},
         r'\[model\] smoothing = "kde" is not offered with weights: files made',
         {"model": TREES | {"smoothing": "kde"}}),
        ({"until": 0.3},
         r"\[reweight\] does not go with a model that files bring; leave",
         {"model": BROUGHT}),
        ({"until": 0.3},
         r"\[reweight\] needs \[attribute\], whose risks are its weights; add it",
         {"attribute": None, "identification": KEYS}),
        ({"until": 0.3},
         r"\[reweight\] does not go with \[attribute.intruder\]: it is for one who knows every",
         {"attribute": {"intruder": {"knows_records": 0.5}}}),
        ({"until": 0.3},
         r"\[reweight\] does not go with \[release\] files: it makes the release",
         {"release": {"files": ["b.csv"], "columns": ["a"]}}),
        ({"until": 0.3},
         r'\[release\] classes = "own" is not offered for a fit with record weights: a',
         {"release": {"classes": "own"}}),
    ],
    "thresholds": [
        ({"true_match_rate": 2},
         "true_match_rate = 2.0 is not a threshold; give a number from 0 to 1"),
        ({"utility": {"pmse": 1}}, r"\[thresholds.utility\] has no key 'pmse'; i", {"utility": {}}),
        ({"utility": {"pmse_cart": "low"}}, r"\[thresholds.utility\] pmse_cart = .low. does not"),
        ({"utility": {"interval_overlap": 0.5}},
         r"utility.interval_overlap needs \[utility\] analyses", {"utility": {}}),
        ({"utility": {"margins_hellinger": 1.0}},
         r"\[thresholds\] utility needs \[utility\]; add it",
         {"context": CONTEXT}),
        ({"membership_auc": 0.6},
         r"membership_auc needs \[membership\]; add it",
         {"context": CONTEXT}),
        ({"membership_auc": 6}, "membership_auc = 6.0 is not a threshold; give a number "
        "from 0 to 1"),
        ({"rhat": 0.9}, "rhat = 0.9 is not a threshold; give a number of at least 1"),
    ],
    "output": [
        ({"folder": "a\0b"}, "does not fit; give a text without the character NUL"),
        ({"keep_labels": True},
         r"\[output\] keep_labels needs release = true, the synthetic files in .*; add it"),
    ],
}  # fmt: skip


def study(place, said, others):
    """The least study, which says this in that place."""
    given = {"data": {"path": "a.csv"}, "attribute": {}}
    for path, value in (others | ({place: said} if place else said)).items():
        *above, last = path.split(".")
        section = given
        for name in above:
            section = section.setdefault(name, {})
        section[last] = deepcopy(value)
    return {name: section for name, section in given.items() if section is not None}


N = 24
COLUMNS = {
    "DPMPM": ["age", "status", "sex"],
    "Regression": ["age", "income", "tax"],
    "PyMCModel": ["income"],
    "CART": ["sex", "job", "pay"],
    "Forest": ["sex", "job", "home"],
    "PMM": ["sex", "job", "home"],
    "PoissonMixture": ["skilled", "unskilled"],
}
BUILD = """
def build(table):
    import pymc as pm

    with pm.Model() as model:
        mean, sd = pm.Normal("mean", 9, 3), pm.HalfNormal("sd", 3)
        pm.LogNormal("income_", mean, sd, observed=pm.Data("income", table["income"]))
    return model
"""


def table_of(model):
    """A small table that the model can be given."""
    rng = np.random.default_rng(1)
    adults = ["adult"] * 4 + ["child"] * (N - 4)
    every = {
        "age": rng.integers(0, 7, N) if model.kind == "Regression" else adults,
        "status": ["married"] * 2 + ["widowed"] * 2 + ["single"] * (N - 4),
        **{name: rng.choice(list("pq"), N) for name in ("sex", "job", "home", "x")},
        **{name: np.exp(rng.normal(9, 1, N)).round(2) for name in ("pay", "income", "tax")},
        **{name: 1 + rng.poisson(90, N) for name in ("skilled", "unskilled", "staff")},
    }
    fixed = [*getattr(model, "covariates", []), getattr(model, "exposure", None)]
    names = dict.fromkeys(name for name in [*COLUMNS[model.kind], *fixed] if name)
    return pd.DataFrame(every, list("ABCDEFGHIJKLMNOPQRSTUVWX"))[list(names)]


def tried(content):
    """Read a study, and give it a table, as far as before the first draw."""
    read = parse_study(content)
    table = table_of(read.model)
    if "attribute" in content and table.select_dtypes("number").shape[1]:
        grid = {"percent": 10, "n": 5, "truth": "nearest"}
        read = parse_study(content | {"attribute": {"guesses": grid} | content["attribute"]})
    for name in ("z.csv", "b.csv"):
        table.to_csv(name, index_label="id")
    if read.release.files is not None or read.membership is not None:
        read = read.model_copy(update={"data": read.data.model_copy(update={"index": "id"})})
    tried_of(read, "audit" if read.compare is None else "compare", table)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a model of one's own, and draws."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "m.py").write_text(BUILD)
    for name, predictor in (("i", "age"), ("t", "income")):
        draws = {"Intercept": np.ones(20), predictor: np.ones(20), "sigma": np.ones(20)}
        pd.DataFrame(draws).to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("place", "said", "message", "others"),
    [
        pytest.param(place, said, message, *(others or [{}]), id=f"{place}: {message}"[:60])
        for place, refusals in REFUSALS.items()
        for said, message, *others in refusals
    ],
)
def test_what_does_not_fit_is_named(files, monkeypatch, place, said, message, others):
    monkeypatch.chdir(files)
    monkeypatch.setattr("bayes_risk.app.run.audit.fit_model", lambda *_, **__: 1 / 0)
    with pytest.raises(br.InputError, match=message) as caught:
        tried(study(place, said, others))
    assert python_words(str(placed(caught.value))) == []
