"""The words that a report uses, explained, and the papers to cite."""

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
        "The intruder knows every record except the target's. Intruders with weaker knowledge "
        "learn other, usually less certain things."
    ),
    "Guesses": (
        "The candidate values that the intruder considers. The neighbourhood contains the true "
        "values and those that differ from them in one variable, so it gives a hint of the truth."
    ),
    "Grid": (
        "The candidate values of a number. A grid centred on the truth gives a hint of the truth; "
        "a grid at quantiles of the model's prediction does not."
    ),
    "Prior": (
        "The probability of each guess before the release. Flat: all guesses are equally probable. "
        "Predictive: the model's probability, given what the intruder knows."
    ),
    "Random guess": "One divided by the number of guesses.",
    "Rank": "1 if no guess is more probable than the true values. Equal guesses share ranks.",
    "Log Bayes factor": (
        "Change of the log odds of the true values through the release. 0: nothing learnt; 3: "
        "odds twenty times as high; negative: the release misleads."
    ),
    "Expected distance": (
        "Mean distance of the guesses from the true value, weighted by their probability, in the "
        "unit of the variable."
    ),
    "Region": (
        "The smallest set of values with 90 % of the probability. If it is small and contains the "
        "truth, the intruder knows much; if it is small without the truth, the intruder is misled."
    ),
    "Known for certain": (
        "Under every prior, only the true value can have produced this release. The variables are "
        "named beside the record."
    ),
}
BALANCE = {
    "Balance of the evidence": (
        "On average over possible releases, the ratio of the probabilities under a wrong guess and "
        "under the truth is 1. Otherwise the assumed mechanism is wrong, or chains were too short."
    )
}
SAMPLED = {
    "Monte Carlo error": (
        "Two standard errors of the computation, estimated between chains. More draws reduce it. "
        "It does not cover the assumptions."
    ),
    "k-hat": (
        f"Shape of the tail of the importance weights. Below {GOOD_KHAT} a number is reliable; "
        "above, a few draws dominate it. 0: no weights were needed."
    ),
    "Unreliable": "The diagnostics reject the number. It is shown, but not used for the verdict.",
}
CHAINS = {
    "R-hat": "Compares the chains of the fit; 1 if they agree.",
    "Effective sample size": "Number of independent draws with the same precision.",
}
MATCH = {name: begun(measure.words) for name, measure in IDENTIFICATION.items()}
OTHERS = {
    "identification": {
        "Identification risk": (
            "The chance that the intruder identifies the target's released record by matching its "
            "known values."
        ),
        MATCH["expected_match_risk"]: ("Expected number of correct matches, summed over records."),
        "Unique match": "Exactly one released record agrees best with the values that the "
        "intruder knows.",
        MATCH["true_match_rate"]: (
            "Share of all records with a unique match that is the right one."
        ),
        MATCH["false_match_rate"]: (
            "Share of unique matches that are wrong. A high share misleads the intruder."
        ),
        "Pooled, mean": (
            "Pooled: one intruder uses all releases together. Mean: one release at a time, averaged"
            " over releases."
        ),
    },
    "uniqueness": {
        "Key": "The values of the columns that the intruder knows for every person.",
        "k-anonymity": "Every key occurs in at least k records of the file.",
        "Population unique": (
            "No other person in the population has the key, so a match is right."
        ),
    },
    "utility": {
        "pMSE": (
            "How well a model distinguishes released from original records: mean squared "
            "difference of its probabilities from the share of released records. Small is good."
        ),
        "pMSE over chance (S_pMSE)": (
            "pMSE divided by its mean for a release drawn from the truth. 1 is the best value; "
            "above 3, for a table of one or two columns, the model can be improved."
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
            "Overlap of the confidence intervals of an estimate from the original and from the "
            "releases: 1 if they are equal, below 0 if there is a gap between them."
        ),
    },
    "context": {
        "Context measures": (
            "Measures of other tools. They are shares of records, not probabilities that a person "
            "is identified; each stands beside its value in the original alone."
        )
    },
    "membership": {
        "Membership": (
            "Whether a person is in the confidential data. For a file of patients this alone can "
            "be confidential."
        ),
        "False positive rate": "Share of people outside the data who are classified as members.",
    },
    "privacy-loss": {
        "Realised privacy loss": (
            "The logarithm of the largest factor by which this release changes the odds of two "
            "guesses. It is not a guarantee for another release of the same model."
        )
    },
    "full-table": {"Full table": "All combinations of values of the unknown columns."},
    "sensitivity": {
        "Base setting": "The audit around which prior, knowledge and release are varied."
    },
    "reweighting": {
        "Weight": (
            "How much a record counts when the model is fitted. A smaller weight for records at "
            "risk reduces what the release discloses about them."
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
