"""Demo data: real tables that need no download, and a study of each."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from bayes_risk._core.errors import InputError

# Codes and labels after the note of statsmodels.datasets.fair and the tables of Fair (1978).
_OCCUPATIONS: dict[float, str] = {
    1: "student",
    2: "farming, semi-skilled or unskilled",
    3: "white-collar",
    4: "teacher, nurse, artist, technician or skilled",
    5: "managerial, administrative or business",
    6: "professional with advanced degree",
}
_FAIR_LABELS: dict[str, dict[float, str]] = {
    "rate_marriage": {1: "very poor", 2: "poor", 3: "fair", 4: "good", 5: "very good"},
    "age": {17.5: "under 20", 22: "20-24", 27: "25-29", 32: "30-34", 37: "35-39", 42: "40 or over"},
    "yrs_married": {
        0.5: "under 1",
        2.5: "1-4",
        6: "5-7",
        9: "8-10",
        13: "over 10, oldest child under 12",
        16.5: "over 10, oldest child 12-17",
        23: "over 10, oldest child 18 or over",
    },
    "children": {0: "0", 1: "1", 2: "2", 3: "3", 4: "4", 5.5: "5 or more"},
    "religious": {1: "not", 2: "mildly", 3: "fairly", 4: "strongly"},
    "educ": {
        9: "grade school",
        12: "high school",
        14: "some college",
        16: "college graduate",
        17: "some graduate school",
        20: "advanced degree",
    },
    "occupation": _OCCUPATIONS,
    "occupation_husb": _OCCUPATIONS,
}
_NOMINAL = ("occupation", "occupation_husb")

# Hawala (2008), Table 1: rows AGE x EDU in the order below, columns worker, clerk, manager.
_AGE = ("15-17", "18-22", "23-64", "65+")
_EDU = ("none or compulsory school", "vocational school", "secondary school", "degree")
_PRO = ("worker", "clerk", "manager")
_ITALY_COUNTS = (
    ((15, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ((27, 0, 0), (7, 1, 0), (12, 8, 0), (0, 0, 0)),
    ((759, 0, 0), (90, 123, 0), (143, 653, 142), (2, 87, 220)),
    ((12, 0, 0), (0, 0, 0), (0, 3, 4), (0, 0, 5)),
)

STUDIES: dict[str, dict[str, Any]] = {
    "fair": {
        "title": "Redbook survey of 1974: four columns synthesised",
        "random_seed": 1974,
        "data": {"demo": "fair"},
        "model": {"n_classes": 30, "draws": 400, "tune": 800, "chains": 4, "splits": 5},
        "release": {"m": 3, "columns": ["affairs", "children", "religious", "rate_marriage"]},
        "attribute": {"guesses": "neighbourhood"},
        "identification": {
            "known": ["age", "educ", "yrs_married"],
            "synthesized": ["children", "religious"],
        },
    },
    "italy": {
        "title": "Italian table of Hawala (2008): education and profession synthesised",
        "random_seed": 2008,
        "data": {"demo": "italy"},
        "model": {"n_classes": 10},
        "release": {"m": 5, "columns": ["EDU", "PRO"]},
        "attribute": {"guesses": "hamming-2"},
        "identification": {"known": ["AGE"], "synthesized": ["EDU", "PRO"]},
    },
    "visits": {
        "title": "RAND health insurance experiment: two numbers synthesised",
        "random_seed": 1982,
        "data": {"demo": "visits"},
        "model": {
            "kind": "Regression",
            "formulas": {
                "disease": "1 + C(health) + limited",
                "visits": "1 + disease + limited + coinsurance",
            },
            "families": {"disease": "normal", "visits": "negative-binomial"},
            "draws": 300,
            "tune": 300,
        },
        "release": {"m": 2, "columns": ["disease", "visits"]},
        "attribute": {
            "guesses": {
                "disease": {"additive": 10.0, "n": 11},
                "visits": {"bounds": [0, 20], "n": 21, "truth": "add"},
            },
            "targets": 300,
        },
        "identification": {
            "known": ["health", "limited", "coinsurance"],
            "synthesized": ["disease", "visits"],
            "radius": {"disease": 0.1},
        },
    },
}

# Beside the first: the same columns, drawn from small leaves of trees, one after another.
RIVALS: dict[str, dict[str, Any]] = {
    "fair": {
        "title": "Redbook survey of 1974: the same columns, from trees with small leaves",
        "model": {
            "kind": "CART",
            "order": ["affairs", "children", "religious", "rate_marriage"],
            "min_leaf": 2,
            "bootstrap": "none",
        },
        "release": {"m": 3},
    }
}


def demo_data(name: str) -> pd.DataFrame:
    """Return a demo table by its name, ``"fair"``, ``"italy"`` or ``"visits"``."""
    tables = {"fair": fair, "italy": italy, "visits": visits}
    if name not in tables:
        raise InputError("demo", name, f"is not known; give one of {sorted(tables)}")
    return tables[name]()


def fair() -> pd.DataFrame:
    """Return the Redbook survey of 1974: 6,366 married women, nine categorical columns.

    The data come with statsmodels (``statsmodels.datasets.fair``; Fair 1978). ``affairs``, a
    measure of time spent in extramarital affairs, is cut into none, under 1, 1 to 5 (5 excluded)
    and 5 or more; the other columns are answers to closed questions and get their labels back.

    Returns
    -------
    DataFrame of 6,366 records
        Columns ``rate_marriage, age, yrs_married, children, religious, educ, occupation,
        occupation_husb, affairs``, all of dtype ``category``; ordered, except the occupations.

    References
    ----------
    Fair, R. C. (1978), "A theory of extramarital affairs", Journal of Political Economy 86, 45-61.

    Examples
    --------
    >>> fair()["affairs"].value_counts().to_dict()
    {'none': 4313, '1 to 5': 970, 'under 1': 934, '5 or more': 149}
    """
    from statsmodels.datasets import fair as source

    raw = source.load_pandas().data
    table = {
        name: _labelled(raw[name], labels, ordered=name not in _NOMINAL)
        for name, labels in _FAIR_LABELS.items()
    }
    cuts, names = [0, 1e-9, 1, 5, float("inf")], ["none", "under 1", "1 to 5", "5 or more"]
    table["affairs"] = pd.Categorical(pd.cut(raw["affairs"], cuts, labels=names, right=False))
    return pd.DataFrame(table, index=pd.RangeIndex(len(raw), name="record"))


def italy() -> pd.DataFrame:
    """Return the Italian table of Hawala (2008, Table 1): 2,313 records, three ordered columns.

    The 48 printed cells were summed: they give exactly the 2,313 records of the text, the margins
    of Table 3, and the 15 records in cells of at most 5 that the paper synthesises. Records are
    numbered cell by cell; levels that no record has in an age group are kept.

    Returns
    -------
    DataFrame of 2,313 records
        Columns ``AGE`` (4 levels), ``EDU`` (4) and ``PRO`` (3), ordered categories.

    References
    ----------
    Hawala, S. (2008), "Producing partially synthetic data to avoid disclosure", JSM proceedings.

    Examples
    --------
    >>> table = italy()
    >>> len(table), [int(n) for n in table.value_counts() if 0 < n <= 5]
    (2313, [5, 4, 3, 2, 1])
    """
    cells = [
        (age, edu, pro)
        for age, block in zip(_AGE, _ITALY_COUNTS, strict=True)
        for edu, row in zip(_EDU, block, strict=True)
        for pro, count in zip(_PRO, row, strict=True)
        for _ in range(count)
    ]
    table = pd.DataFrame(cells, columns=["AGE", "EDU", "PRO"])
    table.index.name = "record"
    levels = {"AGE": _AGE, "EDU": _EDU, "PRO": _PRO}
    return table.astype({c: pd.CategoricalDtype(list(v), ordered=True) for c, v in levels.items()})


def visits() -> pd.DataFrame:
    """Return every tenth row of the RAND health insurance experiment: numbers and categories.

    The data come with statsmodels (``statsmodels.datasets.randhie``; Newhouse et al. 1993), 20,190
    years of persons, the years of a person one after the other. Every tenth row is taken, so that
    few persons stand in the table more than once.

    Returns
    -------
    DataFrame of 2,019 records
        Numbers: ``visits`` to a doctor in the year (whole), ``disease`` (an index of chronic
        diseases). Categories: ``health`` (self-rated, 4 levels), ``limited`` (a physical
        limitation, yes or no; imputed shares are cut at one half), ``coinsurance`` in percent
        (5 levels, rounded as the source has them).

    References
    ----------
    Newhouse, J. P. et al. (1993), "Free for all? Lessons from the RAND health insurance
    experiment", Harvard University Press.

    Examples
    --------
    >>> visits()["visits"].describe()[["min", "max"]].tolist()
    [0.0, 76.0]
    """
    import numpy as np
    from statsmodels.datasets import randhie as source

    raw = source.load_pandas().data.iloc[::10].reset_index(drop=True)
    rating = raw["hlthg"] + 2 * raw["hlthf"] + 3 * raw["hlthp"]
    percent = np.exp(raw["lncoins"]).sub(1).round().astype(int).astype(str)
    table = {
        "visits": raw["mdvis"].astype(int),
        "disease": raw["disea"].round(1),
        "health": _labelled(rating, {0: "excellent", 1: "good", 2: "fair", 3: "poor"}),
        "limited": _labelled((raw["physlm"] > 0.5).astype(int), {0: "no", 1: "yes"}),
        "coinsurance": pd.Categorical(percent, ["0", "25", "50", "95", "100"], ordered=True),
    }
    return pd.DataFrame(table).rename_axis("record")


def _labelled(codes: pd.Series, labels: Mapping[Any, str], ordered: bool = True) -> Any:
    return pd.Categorical(codes.map(labels), categories=list(labels.values()), ordered=ordered)
