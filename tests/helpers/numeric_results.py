"""Attribute risks of numbers made by hand, for tests of distances and their pictures."""

from itertools import product

import numpy as np
import pandas as pd

from bayes_risk.data.variables import Number, Variable
from bayes_risk.evidence.prior_weights import PriorContext, prior_weights
from bayes_risk.risk.result import AttributeRisk

INCOME = Number("LogIncome", False, "float64")
JOB = Variable("job", ("clerk", "nurse", "pilot"), False, object)


def numeric(
    values, p, prior=None, *, truth=0, case=None, index=None, mcse=0.1, variables=(INCOME,)
):
    """Guesses (G, U, q), or (G, U) of one number; probabilities (G, U); the true guess of each."""
    values, p = np.asarray(values, dtype=float), np.asarray(p, dtype=float)
    values = values[..., None] if values.ndim == 2 else values
    G, U = p.shape
    prior = np.full((G, U), 1 / G) if prior is None else np.asarray(prior, dtype=float)
    truth = np.broadcast_to(truth, U).astype(np.int64)
    case = np.arange(U) if case is None else np.asarray(case)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_prior = np.log(p), np.log(prior)
        log_e = log_p - log_prior
        log_e = log_e - log_e[truth, np.arange(U)]
    return AttributeRisk(
        index=pd.RangeIndex(len(case)) if index is None else pd.Index(index),
        case=case,
        variables=variables,
        guesses=values,
        truth=truth,
        log_evidence=log_e[None],
        log_prior=log_prior,
        log_probability=log_p,
        mcse_log_evidence=np.broadcast_to(mcse, (G, U)).astype(float),
        deviations=np.zeros((1, 4, U)),
        mcse=np.zeros(U),
        mcse_log_bayes_factor=np.zeros(U),
        khat=np.full(U, 0.1),
        ess=np.full(U, 400.0),
        reliable=np.ones(U, dtype=bool),
        disclosed=np.zeros(U, dtype=bool),
        left_out=np.zeros(U),
        assumptions={"records": "The intruder knows every record but the target's."},
        seed_entropy="3",
    )


def joint(seed=1, U=6):
    """A number, a count and a category: 4 x 3 x 3 guesses, another grid for each case."""
    rng = np.random.default_rng(seed)
    cells = np.array(list(product(range(4), range(3), range(3))))
    income = rng.normal(size=U) + np.arange(4)[:, None] * rng.uniform(0.1, 2, size=U)
    codes = np.empty((len(cells), U, 3))
    codes[:, :, 0] = income[cells[:, 0]]
    codes[:, :, 1:] = cells[:, None, 1:]
    p, prior = rng.dirichlet(np.ones(len(cells)), size=(2, U)).swapaxes(1, 2)
    variables = (INCOME, Number("kids", True, "int64"), JOB)
    truth = rng.integers(len(cells), size=U)
    mcse = rng.uniform(0.01, 0.3, size=p.shape)
    return numeric(codes, p, prior, truth=truth, mcse=mcse, variables=variables)


def log_prior(prior, microdata, cases, release=None, base=None):
    """Log prior probabilities of the guesses, shape (G, U)."""
    return prior_weights(prior, PriorContext(microdata, cases, release, base)).log_p
