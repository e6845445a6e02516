"""Matches of an intruder who uses all m releases, each number with its error and its comparison.

Shared by the studies of this folder that count matches. Given the releases the counts are exact;
they have an error only because other releases might have been drawn. It is a jackknife, each
release left out in turn: rough, in need of three releases, and silent about how pooled matches
change with m itself. *Without the release* the intruder chooses among all who share the known keys,
so that only a record alone with them is a single match, and then a right one.
"""

import numpy as np
import pandas as pd

import bayes_risk as br

NOTE = "(+- 2 s.e.: jackknife over releases; the counts are exact given them)"
DECIMALS = {
    "expected match risk": 1,
    "true matches": 0,
    "single matches": 0,
    "true matches (% of records)": 2,
    "true matches (% of single)": 3,
    "false matches (% of single)": 1,
}


def match_table(df, datasets, *, population=None, **options):
    """One row a measure: its value, two standard errors, and its value without the release.

    `options` are those of `br.identification_risk`; a list as `population` holds one a release.
    """
    datasets = list(datasets)
    m = len(datasets)

    def records(kept):
        each = [population[l] for l in kept] if isinstance(population, list) else population
        tables = [datasets[l] for l in kept]
        return br.identification_risk(df, tables, population=each, **options).records

    found = records(range(m))
    alone = found["baseline"] == 1
    chance = found["baseline"].where(found["baseline"] > 0)
    known_only = found.assign(
        probability=found["baseline"], candidates=1 / chance, true_match=alone
    )
    left_out = [measures(records([k for k in range(m) if k != l])) for l in range(m) if m > 2]
    return pd.DataFrame(
        {
            "value": measures(found),
            "+- 2 s.e.": 2 * jackknife(left_out),
            "without release": measures(known_only),
        },
        index=list(DECIMALS),
    )


def measures(records):
    """Sum the targets up, in the order of DECIMALS; without single matches their shares are NaN."""
    single = int((records["candidates"] == 1).sum())
    true = int(records["true_match"].sum())
    share = 100 * true / single if single else np.nan
    expected = float(records["probability"].sum())
    return np.array([expected, true, single, 100 * true / len(records), share, 100 - share])


def jackknife(left_out):
    """Standard errors, sqrt((m - 1) / m sum_l (x_-l - mean)^2); NaN for fewer than 3 releases."""
    if not left_out:
        return np.full(len(DECIMALS), np.nan)
    m = len(left_out)
    return np.std(left_out, axis=0) * np.sqrt(m - 1)


def in_words(tables, rows):
    """Write the chosen rows of several tables, one table below the other."""
    lines = pd.concat({words: table.loc[rows] for words, table in tables.items()})
    return lines.apply(
        lambda line: line.map(lambda v: _number(v, DECIMALS[line.name[1]])), axis=1
    ).to_string()


def _number(value, decimals):
    return "-" if np.isnan(value) else f"{value:,.{decimals}f}"
