"""Which numbers of which result may leave, and of how many records they are made.

None of them is a largest value, a quantile or anything else that one record decides. Of counts that
add up to another, or to all records, one is left out.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Measure(NamedTuple):
    """A number of a result.

    ``value`` and ``without`` (the same without the release, or in the original alone; NaN: none)
    are numbers of records, or sums of probabilities over them if not ``whole``. Those of ``free``
    measures are made of all records at once.
    """

    words: str
    value: float
    n: int
    without: float = float("nan")
    whole: bool = False
    free: bool = False


def _attribute(risk: Any) -> Iterator[Measure]:
    found, n = risk.summary(), len(risk.index)
    for name, words in (
        ("mean_probability", "Probability of the true values, summed"),
        ("share_ranked_first", "Records whose true values come first"),
    ):
        row = found.loc[name]
        yield Measure(words, n * row["value"], n, n * row["baseline"])
    for name, words in (
        ("disclosed", "Records released unchanged"),
        ("unreliable", "Records with an unreliable number"),
    ):
        yield Measure(words, found.loc[name, "value"], n, whole=True)


def _identification(risk: Any) -> Iterator[Measure]:
    row, n = risk.summary().loc["pooled"], risk.n
    expected = "Expected number of right matches"
    yield Measure(expected, row["expected_match_risk"], n, row["baseline"])
    yield Measure("Records with a single match", row["unique_matches"], n, whole=True)
    yield Measure("Records whose single match is right", row["true_matches"], n, whole=True)


def _uniqueness(found: Any) -> Iterator[Measure]:
    table, n = found.summary(), found.n
    for name, words, whole in (
        ("sample_uniques", "Records alone with their keys", True),
        ("population_uniques", "Of them, alone in the population too", False),
        ("expected_matches", "Expected number of right matches with the population", False),
    ):
        if name in table.index:
            row = table.loc[name]
            yield Measure(words, row["value"], n, whole=whole)


def _context(found: Any) -> Iterator[Measure]:
    """Those that are shares of a whole file; means over the releases."""
    from bayes_risk.utilities.meanings import MEANINGS

    table = found.summary()
    for (target, name), row in table.iterrows():
        if name in ("uio", "uis", "uiois", "repu", "dorig", "dsyn", "iso", "dis", "disco"):
            words = MEANINGS[name].is_ + (f" ({target})" if target else "")
            n = int(row["of"])
            yield Measure(words, n * row["value"], n)


def _utility(found: Any) -> Iterator[Measure]:
    table, n = found.summary()["value"], int(found.n_records[0])
    for name, words in (
        ("ratio_main", "Propensity score, ratio to what chance gives: main effects"),
        ("ratio_cart", "Propensity score, ratio to what chance gives: tree"),
        ("margins_total_variation", "Total variation of columns, mean"),
        ("pairs_total_variation", "Total variation of pairs of columns, mean"),
    ):
        if name in table.index:
            yield Measure(words, table[name], n, free=True)


def _membership(found: Any) -> Iterator[Measure]:
    table = found.summary()["value"]
    if "auc" in table.index:
        fewer = int(min(table["members"], table["others"]))
        yield Measure("Chance to tell the member of a pair", table["auc"], fewer, free=True)


TOLD: dict[str, Callable[[Any], Iterator[Measure]]] = {
    "AttributeRisk": _attribute,
    "IdentificationRisk": _identification,
    "FileRisk": _identification,
    "Uniqueness": _uniqueness,
    "Utility": _utility,
    "ContextMeasures": _context,
    "Membership": _membership,
}
