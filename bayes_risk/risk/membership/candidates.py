"""Whose place is asked about, who could have taken it, and who else could stand there."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Ints
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.evidence.contract import Fit, Targets
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.release.release import EncodedRelease

AT_ONCE = 25  # synthetic data sets drawn at a time for alternatives


@dataclass(frozen=True, slots=True, eq=False)
class Others:
    """People outside the data, and who of them is asked about for which place."""

    # shape (D, p): distinct values; or one row a person where each place is compared with some of
    # them only
    codes: Codes
    count: Ints  # shape (D,): people with these values
    person: Ints  # shape (N,): row of each person
    asked: Ints  # shape (K, U): rows asked about for each of U cases

    @classmethod
    def of(
        cls,
        given: pd.DataFrame | None,
        data: Microdata,
        U: int,
        comparisons: int,
        rng: np.random.Generator,
    ) -> "Others":
        """All distinct values for every case, if they are few; else so many people in turn."""
        nobody = np.zeros(0, dtype=np.int64)
        if given is None or not len(given):
            return cls(data.codes[:0], nobody, nobody, np.zeros((0, U), dtype=np.int64))
        people = data.encode(given, "others")
        codes, person, count = np.unique(people, axis=0, return_inverse=True, return_counts=True)
        if len(codes) <= comparisons:
            everybody = np.repeat(np.arange(len(codes))[:, None], U, axis=1)
            return cls(codes, count, person.reshape(-1), everybody)
        N, K = len(people), max(comparisons, -(-len(people) // U))
        turn = (np.arange(K)[:, None] + K * np.arange(U)) % N  # nobody is left out
        return cls(people, np.ones(N, dtype=np.int64), np.arange(N), rng.permutation(N)[turn])

    @property
    def n(self) -> int:
        """Number of people."""
        return len(self.person)


def places(cases: Targets) -> Targets:
    """The cases with whole records guessed, in the order of the table's columns."""
    columns = np.arange(cases.profiles.shape[1])
    return replace(cases, columns=columns, guesses=guess_set(cases.profiles[None]))


def guess_set(codes: Codes) -> GuessSet:
    """Guesses (G, U, p) of which no two need agree in anything."""
    G, U, p = codes.shape
    cells = np.repeat(np.arange(G)[:, None], p, axis=1)
    return GuessSet(codes, np.zeros(U, dtype=np.int64), np.ones((G, U), dtype=bool), cells)


def unseen(targets: Targets, guesses: Codes) -> Targets:
    """Other guesses, for fits from which nobody is to be taken out."""
    nobody = np.zeros(len(targets), dtype=bool)
    return replace(targets, guesses=guess_set(guesses), fitted=nobody)


@dataclass(frozen=True, slots=True, eq=False)
class Alternatives:
    """Somebody else whom the model would draw for a place: rows of values."""

    codes: Codes  # shape (M, p)
    per_case: int  # how many of them each case takes, in turn; all of them if they are listed
    # whether they were drawn from p(y' | y); else they are all values that there can be
    drawn: bool

    def of(self, begin: int, end: int) -> Codes:
        """Those of cases ``begin .. end - 1``, shape (L, cases, p)."""
        L, some = self.per_case, np.arange(begin, end)
        if not self.drawn:
            return np.repeat(self.codes[:, None], len(some), axis=1)
        return np.asarray(self.codes[(np.arange(L)[:, None] + L * some) % len(self.codes)])


def alternatives_of(fit: Fit, U: int, L: int, rng: np.random.Generator) -> Alternatives:
    """All cells of a small table, or L draws of p(y' | y) for each of U cases.

    Rows of one synthetic table share a draw of Theta, so each case takes its L from as many tables
    as there are.
    """
    levels = fit.microdata.n_levels
    if levels.all() and np.prod(levels.astype(float)) <= L:
        cells = np.indices(tuple(levels)).reshape(len(levels), -1).T
        return Alternatives(cells.astype(np.int32), len(cells), False)
    n = len(fit.microdata.codes)
    parts, done = [], 0
    rows_each = min(U, n)
    how = {"parameters": "independent"} if "one-mode" in fit.parameters else {}  # of all chains
    while done < L:
        m = min(AT_ONCE, L - done, max(fit.n_draws, 1))
        tables, rows = rng.spawn(2)
        made = fit.synthesize(m, random_seed=tables, **how)
        drawn = EncodedRelease.of(made, fit.microdata).codes  # shape (m, n, p)
        chosen = rows.permuted(np.repeat(np.arange(n)[None], m, axis=0), axis=1)[:, :rows_each]
        parts.append(drawn[np.arange(m)[:, None], chosen])
        done += m
    codes = np.concatenate(parts).swapaxes(0, 1)  # shape (rows, L, p): a case after the other
    return Alternatives(codes.reshape(-1, codes.shape[2]), L, True)
