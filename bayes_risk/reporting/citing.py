"""How to cite the software, and the papers that the numbers of a report rest on."""

from collections.abc import Collection

from bayes_risk import __version__

AUTHORS = "The bayes_risk developers"
TITLE = "bayes_risk: Bayesian estimates of disclosure risk for synthetic microdata"
PAPERS = {
    "attribute": (
        "Hu, J. (2019). Bayesian estimation of attribute and identification disclosure risks in "
        "synthetic data. Transactions on Data Privacy 12, 61-89.",
    ),
    "identification": (
        "Reiter, J. P. and Mitra, R. (2009). Estimating risks of identification disclosure in "
        "partially synthetic data. Journal of Privacy and Confidentiality 1, 99-110.",
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
    papers = [paper for name, those in PAPERS.items() if name in sections for paper in those]
    return [software(), *dict.fromkeys(papers)]
