"""Every measure of every result, declared once: its words, how it is written, what goes with it.

Screen, report, CSV, redaction, glossary, plots, verdict and comparisons read these.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Kind = Literal["number", "share", "count", "place", "scale"]


class Measure(NamedTuple):
    """A number of a result.

    ``name``: its row in ``summary()``. ``words``: in a sentence. ``kind``: how it is written; a
    ``place`` is a number of records, whole or expected, and a ``scale`` has four digits. ``short``:
    where there is little room; empty: the words. ``higher_is``: for whoever releases. ``error`` and
    ``baseline``: columns of a comparison that hold its standard error, and what it is without the
    release; of context measures the measure to read it against. ``public``: whether it may
    leave. ``of``: what it is a share of. ``is_not``: what it does not say.
    """

    name: str
    words: str
    kind: Kind = "number"
    short: str = ""
    of: str = ""
    higher_is: Literal["worse", "better"] = "worse"
    error: str = ""
    baseline: str = ""
    public: bool = False
    is_not: str = ""

    @property
    def lower(self) -> bool:
        """Whether less is better for whoever releases."""
        return self.higher_is == "worse"


Measures = Mapping[str, Measure]


def _named(*measures: Measure) -> dict[str, Measure]:
    return {measure.name: measure for measure in measures}


# --- attribute risk and what is made of its evidence ------------------------------------------

_TRUE, _RANK = "probability of the true values", "rank of the true values"
_AUDITED = Measure("targets", "records audited", "count")
_UNRELIABLE = Measure("unreliable", "records marked unreliable", "count")
ATTRIBUTE = _named(
    Measure(
        *("mean_probability", f"{_TRUE}, mean over records", "number"),
        short="truth's probability, mean",
        error="mcse",
        baseline="baseline",
    ),
    Measure("gain", f"what the release adds to the {_TRUE}", error="mcse"),
    Measure("median_probability", f"{_TRUE}, median"),
    Measure("q95_probability", f"{_TRUE}, 95th percentile"),
    Measure(
        *("max_probability", f"{_TRUE}, worst record", "number"),
        short="truth's probability, worst",
        error="max_mcse",
        baseline="max_baseline",
    ),
    Measure(
        *("share_ranked_first", "share of records whose truth is the likeliest guess", "share"),
        short="truth ranked first",
        baseline="first_baseline",
    ),
    Measure("mean_rank", f"mean {_RANK} among the guesses", higher_is="better"),
    Measure("mean_before", "predictive probability before anything was published, mean"),
    _AUDITED,
    Measure("disclosed", "records released unchanged", "count", public=True),
    _UNRELIABLE,
)
CLOSENESS = _named(
    Measure(
        *("mean_expected_absolute_error", "expected distance from the true value", "scale"),
        short="distance from true {}",
        higher_is="better",
    ),
    Measure("mean_mode_error", "distance of the likeliest value", "scale", higher_is="better"),
    Measure("share_mode_is_truth", "likeliest value is the true one", "share"),
    Measure("mean_probability_of_truth", "probability of the true value", "scale"),
    Measure("mean_region_size", "values in the 90 % region", "scale", higher_is="better"),
    Measure("mean_region_length", "length of the 90 % region", "scale", higher_is="better"),
    Measure("share_truth_in_region", "90 % region contains the true value", "share"),
)
FULL_TABLE = _named(
    ATTRIBUTE["mean_probability"],
    ATTRIBUTE["max_probability"],
    Measure("median_rank", f"{_RANK} among all values, median", "place", higher_is="better"),
    Measure("share_ranked_first", "share of records whose truth is the likeliest value", "share"),
    Measure("share_in_first_100", "share of records whose truth is among the first 100", "share"),
    Measure("mean_within_1", "posterior within 1 variable of the truth, mean"),
    Measure("mean_within_2", "posterior within 2 variables of the truth, mean"),
    Measure("values", "values considered", "count"),
    _AUDITED,
    _UNRELIABLE,
)
PRIVACY_LOSS = _named(
    Measure("max_privacy_loss", "privacy loss, worst record"),
    Measure("q95_privacy_loss", "privacy loss, 95th percentile"),
    Measure("median_privacy_loss", "privacy loss, median"),
    Measure("max_even_odds_become", "even odds become, at most"),
    Measure("max_among_possible", "privacy loss among guesses that are possible, largest"),
    Measure("with_guesses_ruled_out", "records with guesses ruled out", "count"),
    _AUDITED,
    _UNRELIABLE,
)
MEMBERSHIP = _named(
    Measure("auc", "how often the release points to the member of a pair", "share"),
    Measure("power_at_1_percent", "members found, at a false positive rate of 1 %", "share"),
    Measure("power_at_5_percent", "members found, at a false positive rate of 5 %", "share"),
    Measure("median_log_bayes_factor", "log Bayes factor of a member, median"),
    Measure("max_log_bayes_factor", "log Bayes factor of a member, largest"),
    Measure("max_probability", "probability that a member is in the data, largest"),
    Measure("members", "members examined", "count"),
    Measure("others", "non-members examined", "count"),
    _UNRELIABLE,
)

# --- matching, uniqueness, and what files show without a model --------------------------------

IDENTIFICATION = _named(
    Measure(
        *("expected_match_risk", "expected correct matches"),
        error="mcse",
        baseline="baseline",
        public=True,
    ),
    Measure("true_matches", "true matches", "place"),
    Measure("true_match_rate", "true match rate", "share"),
    Measure("true_match_persons", "persons matched", "place"),
    Measure("unique_matches", "unique matches", "place"),
    Measure("false_match_rate", "false match rate", "share", higher_is="better"),
    Measure("no_match", "no record with the full key", "place", higher_is="better"),
)
MATCH_COUNTS = _named(
    Measure("no_match", "targets with no row", "place", "No row", higher_is="better"),
    Measure("unique_matches", "targets with one row, mean", "place", "One row", public=True),
    Measure("below_5", "targets with one to four rows", "place", "One to four"),
    Measure("candidates", "rows of a target, average", "place", "Average", higher_is="better"),
    Measure(
        "replicated_uniques",
        "targets matched by one row that matches no other record",
        "place",
        "Replicated",
    ),
)
UNIQUENESS = _named(
    Measure("sample_uniques", "alone with their key in the file", "count", public=True),
    Measure("below_3", "sharing it with fewer than 2 others (k-anonymity below 3)", "place"),
    Measure("below_5", "sharing it with fewer than 4 others (below 5)", "place"),
    Measure("below_10", "sharing it with fewer than 9 others (below 10)", "place"),
    Measure("population_uniques", "alone in the file and in the population", "place"),
    Measure("unique_matches", "right matches among those alone in the file", "place"),
    Measure("expected_matches", "right matches among all records", "place"),
)
_AT_RISK = "with an identified member"
HOUSEHOLDS = _named(
    Measure("households", "households", "count"),
    Measure("persons", "persons in them", "count"),
    Measure("households_alone", "households alone with their keys in the original", "count"),
    Measure("persons_alone", "persons in households alone with their keys", "count"),
    Measure("households_expected", "households, expected correct matches", "place"),
    Measure("persons_expected", "persons in households expected to be matched", "place"),
    Measure("households_true", "true match rate of households", "share"),
    Measure("persons_true", "persons in households matched uniquely and correctly", "share"),
    Measure("households_false", "false match rate of households", "share", higher_is="better"),
    Measure("households_at_risk", f"expected households {_AT_RISK}", "place"),
    Measure("persons_at_risk", f"expected persons in households {_AT_RISK}", "place"),
    Measure("mean_probability", "household risk, mean"),
    Measure("max_probability", "household risk, largest"),
    Measure("unreliable", "households marked unreliable", "count"),
)
_SAME = "records identical to the original"
EXPOSURE = _named(  # ``of``: the column of `Exposure.files` that it is a share of
    Measure("identical", f"{_SAME}, same row", "count", of="records"),
    Measure("identical_any_row", f"{_SAME}, any row", "count", of="records"),
    Measure("identical_synthesized", "", "count", of="records"),
    Measure("identical_synthesized_any_row", "", "count", of="records"),
    Measure(
        *("identical_alone", "unique records of the original that a file has", "count", ""),
        "original_alone",
    ),
    Measure("replicated_uniques", "replicated uniques", "count", of="uniques"),
)
_ONCE = "values of {} that occur once in the original"
EXPOSURE_OF_VALUES = _named(  # of a synthesised number, whose name stands for ``{}``
    Measure("genuine_values", "values of {} that occur in the original", "count", of="genuine"),
    Measure("genuine_unique_values", _ONCE, "count", of="unique"),
)

# --- utility ----------------------------------------------------------------------------------

_SCORES = {
    "pmse": "pMSE",
    "ratio": "pMSE over chance",
    "standardized": "standardised pMSE",
    "specks": "SPECKS",
}
_MODELS = {"main": "logistic model", "interactions": "with interactions", "cart": "tree"}
_OVERLAP = "interval overlap"
UTILITY = _named(
    *(
        Measure(f"{score}_{model}", f"{words}, {of}")
        for score, words in _SCORES.items()
        for model, of in _MODELS.items()
    ),
    Measure("margins_total_variation", "total variation of single columns, mean"),
    Measure("margins_hellinger", "Hellinger distance of single columns, mean"),
    Measure("margins_worst_ratio", "pMSE over chance, worst column of each file"),
    Measure("pairs_total_variation", "total variation of pairs, mean"),
    Measure("pairs_hellinger", "Hellinger distance of pairs, mean"),
    Measure("pairs_worst_ratio", "pMSE over chance, worst pair of each file"),
    Measure("pairs_mutual_information", "mutual information, largest difference"),
    Measure("pairs_correlation", "correlation, largest difference"),
    Measure("interval_overlap", f"{_OVERLAP}, mean", higher_is="better"),
    Measure("lowest_interval_overlap", f"{_OVERLAP}, lowest", higher_is="better"),
    Measure("largest_standardized_difference", "standardised difference of estimates, largest"),
)

# --- what other tools report --------------------------------------------------------------------

_ORIGINAL, _RELEASE = "records of the original", "records of the release"
_LOOKED_UP = "released records looked up"
_ONE_FILE = "It is a property of one file and does not describe the other."
_NO_INTRUDER = (
    "It treats the release as the original and ignores the intruder's knowledge: it is not a "
    "probability that a person is identified."
)
_NOT_BAYES = (
    "It is not a probability that a value is disclosed: values easy to guess from the rest of the "
    "data count too, and an uncertain guess counts for nothing."
)
_NOT_RISK = (
    "It mixes utility with risk: a release that keeps relations between key and target scores high "
    "without any record being at risk."
)
_NOT_NEAR = (
    "It is not a probability: a record in a dense place has close neighbours by chance, and one "
    "far from all may still be disclosed by a single column."
)
_CONTEXT = {  # as its authors write it, and in words
    "uio": ("UiO", "records of the original whose key no other record there has"),
    "uis": ("UiS", "records of the release whose key no other record there shows"),
    "uiois": ("UiOiS", "uniques of the original whose key the release shows, once or more"),
    "repu": (
        *(
            "repU",
            "replicated uniques: uniques of the original whose key is unique in the release too",
        ),
    ),
    "dorig": ("Dorig", "records of the original whose key leaves one value of the target there"),
    "dsyn": ("Dsyn", "records of the release whose key leaves one value of the target there"),
    "iso": ("iSO", "records of the original whose key the release shows"),
    "dis": (
        "DiS",
        "records of the original whose key leaves one value of the target in the release",
    ),
    "disco": ("DiSCO", "records of DiS whose one value is theirs"),
    "disdio": ("DiSDiO", "records of DiSCO whose key leaves one value in the original too"),
    "correct": (
        "DiSCO over DiS",
        "share of apparent disclosures that are right: TCAP of Little et al. (2022, 2025) and, "
        "from 1.9-3 on, of synthpop",
    ),
    "base_cap": (
        *(
            "baseCAPd",
            "right guesses of an intruder who knows the target's distribution and no key",
        ),
    ),
    "capd": (
        "CAPd",
        "right guesses of an intruder who draws a record of the original with the key",
    ),
    "caps": ("CAPs", "the same of the release's own records in the release"),
    "dcap": (
        "DCAP",
        "right guesses of an intruder who draws a record of the release with the key, if "
        "there is one",
    ),
    "tcap": (
        "TCAP",
        "the records of DiSCO among those whose key the release shows (synthpop up to 1.9-2)",
    ),
    "dcr_zero": (
        "DCR = 0",
        "released records that agree with some record of the original in every column compared",
    ),
    "dcr_median": (
        "DCR, median",
        "median distance of released records to the closest record of the original (numbers "
        "over their range, 1 between different levels)",
    ),
    "dcr_5_percent": (
        "DCR, 5 %",
        "5 % of released records are at least so close to a record of the original",
    ),
    "closer_than_holdout": (
        "Closer than holdout",
        "released records closer to the original than to as many records held out, ties half",
    ),
}
_IS_NOT = {
    **dict.fromkeys(("uio", "uis", "dorig", "dsyn", "capd", "caps"), _ONE_FILE),
    **dict.fromkeys(("uiois", "repu"), _NO_INTRUDER),
    **dict.fromkeys(("disco", "tcap"), _NOT_BAYES),
    **dict.fromkeys(("dcr_zero", "dcr_median", "dcr_5_percent"), _NOT_NEAR),
    "dcap": _NOT_RISK,
    "iso": "It shows whether there is anything to look up, not what is learnt.",
    "dis": "The value may be wrong: see DiSCO.",
    "disdio": "Without the original these records cannot be distinguished from the rest of DiSCO.",
    "correct": "It speaks of the records with an apparent disclosure alone, however few they are.",
    "base_cap": "It is the reference of CAP measures, not a measure of the release.",
    "closer_than_holdout": "Half is what a release has that learnt the population and no record; a "
    "few records learnt by heart do not move it.",
}
_DISTANCES = ("dcr_median", "dcr_5_percent")
_OF = {
    **dict.fromkeys(("uis", "dsyn", "caps"), _RELEASE),
    **dict.fromkeys(("dcr_zero", *_DISTANCES, "closer_than_holdout"), _LOOKED_UP),
    **{"correct": "records in DiS", "tcap": "records in iSO"},
}
_READ_AGAINST = {
    **dict.fromkeys(("uis", "uiois", "repu"), "uio"),
    **dict.fromkeys(("dsyn", "dis", "disco", "disdio", "tcap"), "dorig"),
    **dict.fromkeys(("capd", "caps"), "base_cap"),
    "dcap": "capd",
}
CONTEXT = _named(
    *(
        Measure(
            *(name, words, "number" if name in _DISTANCES else "share", short),
            baseline=_READ_AGAINST.get(name, ""),
            public=name == "iso",
            of=_OF.get(name, _ORIGINAL),
            is_not=_IS_NOT[name],
            higher_is="better" if name in _DISTANCES else "worse",
        )
        for name, (short, words) in _CONTEXT.items()
    )
)

# --- candidates side by side --------------------------------------------------------------------

_OVER_SETS = ("expected_match_risk", "true_match_rate", "false_match_rate")
_ALONE = ("mean_before", "targets", "disclosed")  # of an audit, not compared
JUDGED = _named(  # of the verdict on a candidate
    Measure("certain_values", "values disclosed with certainty", "place"),
    Measure("over_allowed", "largest risk over its threshold"),
)
COMPARED = {  # by what they are measured with
    "attribute": {name: m for name, m in ATTRIBUTE.items() if name not in _ALONE},
    "identification": _named(
        *(IDENTIFICATION[name] for name in _OVER_SETS),
        *(
            (m := IDENTIFICATION[name])._replace(
                name=f"mean_{name}", words=f"{m.words}, mean over data sets"
            )
            for name in _OVER_SETS
        ),
        *(HOUSEHOLDS[f"households_{name}"] for name in ("expected", "true", "false")),
    ),
    "utility": UTILITY,
}
MEASURES = {name: measure for found in COMPARED.values() for name, measure in found.items()}
UTILITIES = tuple(UTILITY)
RISKS = tuple(name for name in MEASURES if name not in UTILITY)


def measure_in_words(name: str) -> str:
    """A measure by its row, in words; of context measures with their target: ``disco (job)``."""
    if name in MEASURES:
        return MEASURES[name].words
    measure, _, target = name.partition(" (")
    if measure not in CONTEXT:
        return name.replace("_", " ")
    return f"{CONTEXT[measure].short} of {target[:-1]}" if target else CONTEXT[measure].short
