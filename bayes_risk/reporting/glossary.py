"""The words that a report uses, explained, and papers to cite; of the results that it holds."""

from collections.abc import Collection, Mapping
from typing import Any

from bayes_risk._core import __version__
from bayes_risk._core.formats import begun
from bayes_risk._core.pareto import GOOD_KHAT
from bayes_risk.data.measures import IDENTIFICATION
from bayes_risk.risk.result import AttributeRisk

ATTRIBUTE = {
    "Attribute risk": (
        "The probability that the intruder gives to a target's true confidential values after "
        "seeing the release. Read it against the column headed without the release: only the "
        "difference is attributable to the release."
    ),
    "Worst case": (
        "The intruder knows every record but the target's. No real intruder knows so much; whoever "
        "knows less learns other, usually less certain things."
    ),
    "Guesses": (
        "The values the intruder considers. The neighbourhood holds the truth and what differs "
        "from it in one variable; since it is centred on the truth, it tells the intruder where "
        "to look."
    ),
    "Grid": (
        "The values of a number that the intruder considers. A grid centred on the truth tells "
        "where to look, and how far off the intruder can be at most; one at quantiles of what the "
        "model expects does not."
    ),
    "Prior": "How probable the intruder finds each guess before the release.",
    "Random guess": "One divided by the number of guesses.",
    "Rank": "1 if no guess is likelier than the true values. Guesses level with them share ranks.",
    "Log Bayes factor": (
        "By how much the release raises the log odds of the truth. 0: nothing learnt; 3: odds "
        "twenty times as high; negative: the release misleads."
    ),
    "Expected distance": (
        "How far the intruder is off on average, over all guesses by their probability, in the "
        "unit of the variable."
    ),
    "Region": (
        "The smallest set of values that holds 90 % of the probability. Small and with the truth "
        "in it: the intruder knows much. Small without it: misled."
    ),
    "Known for certain": (
        "Of the values considered none but the true one can have led to this release, whatever was "
        "believed beforehand. The variables are named beside the record."
    ),
}
BALANCE = {
    "Balance of the evidence": (
        "On average over what can be released, a release is as probable under a wrong guess as "
        "under the truth. Far from 1, the audit rests on a wrong mechanism, or on chains that were "
        "stopped early."
    )
}
SAMPLED = {
    "Monte Carlo error": (
        "Two standard errors of the computation, taken between chains. More draws make it smaller; "
        "it says nothing of the assumptions."
    ),
    "k-hat": (
        f"Shape of the tail of the importance weights. Below {GOOD_KHAT} a number can be relied "
        "on; above, a few draws decide it. 0: no weights were needed."
    ),
    "Unreliable": "The diagnostics reject the number. It is shown, but decides nothing.",
}
CHAINS = {
    "R-hat": "Compares the chains of the fit; 1 when they agree.",
    "Effective sample size": "How many independent draws the sampler's draws are worth.",
}
MATCH = {name: begun(measure.words) for name, measure in IDENTIFICATION.items()}
OTHERS = {
    "identification": {
        "Identification risk": (
            "Can the intruder tell which released record is the target's, by matching what is "
            "known of it?"
        ),
        MATCH["expected_match_risk"]: (
            "Sum over records of the chance that the match made is right."
        ),
        "Unique match": "Exactly one released record agrees best with what the intruder holds.",
        MATCH["true_match_rate"]: (
            "Share of all records with a unique match that is the right one."
        ),
        MATCH["false_match_rate"]: (
            "Share of unique matches that are wrong. High is good: the intruder is often misled."
        ),
        "Pooled, mean": (
            "Pooled: one intruder uses all releases together. Mean: one release at a time, averaged"
            " over releases."
        ),
    },
    "uniqueness": {
        "Key": "The values of the columns that the intruder is taken to know of everybody.",
        "k-anonymity": "Every key is held by at least k records of the file.",
        "Population unique": (
            "Nobody else in the population holds the key: whoever matches it is right."
        ),
    },
    "utility": {
        "pMSE": (
            "How well a model tells released records from the original's: mean squared difference "
            "of its probabilities from what ignorance would say. Small is good."
        ),
        "pMSE over chance (S_pMSE)": (
            "pMSE divided by what it would be on average for a release drawn from the truth. 1: as "
            "good as can be; above 3, for a table of one or two columns, the model can be improved."
        ),
        "SPECKS": (
            "Largest distance between the distributions of these probabilities in the two files: 0 "
            "to 1. Small is good."
        ),
        "Total variation, Hellinger distance": (
            "Distance between the proportions of a table in the two files, 0 to 1. Even a release "
            "drawn from the truth has some."
        ),
        "Interval overlap": (
            "Of the confidence intervals of one estimate from the original and from the releases: "
            "1 if they are the same, below 0 if a gap is between them."
        ),
    },
    "context": {
        "Context measures": (
            "What other tools report. They are shares of records, no probabilities that somebody "
            "is identified or learnt about; each stands beside what it is in the original alone."
        )
    },
    "membership": {
        "Membership": (
            "Whether somebody is in the confidential data at all. For a file of patients that may "
            "be a secret by itself."
        ),
        "False positive rate": "Share of people outside the data who are taken for members.",
    },
    "privacy-loss": {
        "Realised privacy loss": (
            "The logarithm of the factor by which this release moves the odds of two guesses at "
            "most. 0: not at all. No guarantee: another release of the same model may move more."
        )
    },
    "full-table": {
        "Full table": "All combinations of values of the unknown columns, not the near ones alone."
    },
    "sensitivity": {
        "Base setting": "The audit around which what is believed, known and released was varied."
    },
    "reweighting": {
        "Weight": (
            "How much a record counts when the model is fitted. Records at risk are weighed down, "
            "so that the release says less of them."
        )
    },
}
SHARED = {"identification-of-files": "identification"}  # words and papers
OF_NUMBERS = ("Grid", "Expected distance", "Region")


def glossary(
    risk: AttributeRisk | None, diagnostics: Mapping[str, Any], sections: Collection[str]
) -> dict[str, str]:
    """Words and what they mean; ``sections``: names of the other results."""
    found: dict[str, str] = {}
    if risk is not None:
        left_out = set(OF_NUMBERS if all(v.n_levels for v in risk.variables) else ())
        left_out |= set() if risk.certain().any(axis=None) else {"Known for certain"}
        found |= {word: text for word, text in ATTRIBUTE.items() if word not in left_out}
        found |= {} if risk.balance is None else BALANCE
    for name, words in OTHERS.items():
        if name in {SHARED.get(section, section) for section in sections}:
            found |= words
    sampled = {"membership", "privacy-loss", "full-table", "reweighting"} & set(sections)
    if sampled or (risk is not None and not risk.is_exact):
        found |= SAMPLED
        found |= CHAINS
    return found | CHAINS if "max_rhat" in diagnostics else found


AUTHORS = "The bayes_risk developers"
TITLE = "bayes_risk: Bayesian estimates of disclosure risk for synthetic microdata"
HORNBY_HU = (
    "Hornby, R. and Hu, J. (2021). Identification risk evaluation of continuous synthesized "
    "variables. Transactions on Data Privacy 14, 37-52."
)
PAPERS = {
    "attribute": (
        "Hu, J. (2019). Bayesian estimation of attribute and identification disclosure risks in "
        "synthetic data. Transactions on Data Privacy 12, 61-89.",
    ),
    "identification": (
        "Reiter, J. P. and Mitra, R. (2009). Estimating risks of identification disclosure in "
        "partially synthetic data. Journal of Privacy and Confidentiality 1, 99-110.",
    ),
    "identification-sweep": (HORNBY_HU,),
    "comparison": (HORNBY_HU,),
    "uniqueness": (
        "Skinner, C. J. and Elliot, M. J. (2002). A measure of disclosure risk for microdata. "
        "JRSS B 64, 855-867.",
        "Elamir, E. A. H. and Skinner, C. J. (2006). Record level measures of disclosure risk for "
        "survey microdata. Journal of Official Statistics 22, 525-539.",
    ),
    "privacy-loss": (
        "McClure, D. and Reiter, J. P. (2012). Differential privacy and statistical disclosure "
        "risk measures: an investigation with binary synthetic data. Transactions on Data Privacy "
        "5, 535-552.",
    ),
    "sensitivity": (
        "Kallioinen, N., Paananen, T., Buerkner, P.-C. and Vehtari, A. (2023). Detecting and "
        "diagnosing prior and likelihood sensitivity with power-scaling. Statistics and Computing "
        "34, 57.",
    ),
    "bounds": (
        "Hu, J. and Savitsky, T. D. (2018). Bayesian data synthesis and disclosure risk "
        "quantification: an application to the Consumer Expenditure Surveys. arXiv:1809.10074.",
    ),
    "utility": (
        "Snoke, J., Raab, G. M., Nowok, B., Dibben, C. and Slavkovic, A. (2018). General and "
        "specific utility measures for synthetic data. JRSS A 181, 663-688.",
        "Raab, G. M., Nowok, B. and Dibben, C. (2021). Assessing, visualizing and improving the "
        "utility of synthetic data. arXiv:2109.12717.",
    ),
    "context": (
        "Raab, G. M., Nowok, B. and Dibben, C. (2024). Practical privacy metrics for synthetic "
        "data. arXiv:2406.16826.",
    ),
}


def software() -> str:
    """The software, as ``CITATION.cff`` has it."""
    return f"{AUTHORS}. {TITLE}. Version {__version__}."


def citations(sections: Collection[str]) -> list[str]:
    """The software, then the papers of the sections that a report has."""
    named = {SHARED.get(name, name) for name in sections}
    papers = [paper for name, those in PAPERS.items() if name in named for paper in those]
    return [software(), *dict.fromkeys(papers)]
