"""How to cite the software, and the papers that the numbers of a report rest on."""

from collections.abc import Collection

from bayes_risk._core import __version__

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
    "identification-of-files": (
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
    papers = [paper for name, those in PAPERS.items() if name in sections for paper in those]
    return [software(), *dict.fromkeys(papers)]
