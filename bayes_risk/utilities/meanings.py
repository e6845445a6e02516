"""What each context measure is, what it is a share of, and what it is not."""

from typing import NamedTuple


class Meaning(NamedTuple):
    """In words: the measure, its denominator, what it does not say, and what it compares with."""

    is_: str
    denominator: str
    is_not: str
    compare: str


_ONE_FILE = "It is a property of one file and says nothing of the other."
_NO_INTRUDER = (
    "It takes the release for the original and no intruder's knowledge into account: no probability"
    " that anybody is identified."
)
_NOT_BAYES = (
    "It is no probability that a value is disclosed: what anybody would guess from the rest of the "
    "data counts too, and an uncertain guess counts for nothing."
)
_NOT_RISK = (
    "It mixes utility with risk: a release that keeps relations between key and target scores high "
    "without any record being at risk."
)
_NOT_NEAR = (
    "It is no probability: a record in a dense place has close neighbours by chance, and one far "
    "from all may still be given away by a single column."
)

MEANINGS = {
    "uio": Meaning(
        "UiO: records of the original whose key nobody else there holds",
        "records of the original",
        _ONE_FILE,
        "",
    ),
    "uis": Meaning(
        "UiS: records of the release whose key no other record there shows",
        "records of the release",
        _ONE_FILE,
        "uio",
    ),
    "uiois": Meaning(
        "UiOiS: uniques of the original whose key the release shows, once or more",
        "records of the original",
        _NO_INTRUDER,
        "uio",
    ),
    "repu": Meaning(
        "repU, replicated uniques: uniques of the original whose key is unique in the release too",
        "records of the original",
        _NO_INTRUDER,
        "uio",
    ),
    "dorig": Meaning(
        "Dorig: records of the original whose key leaves one value of the target there",
        "records of the original",
        _ONE_FILE,
        "",
    ),
    "dsyn": Meaning(
        "Dsyn: records of the release whose key leaves one value of the target there",
        "records of the release",
        _ONE_FILE,
        "dorig",
    ),
    "iso": Meaning(
        "iSO: records of the original whose key the release shows",
        "records of the original",
        "It says whether there is anything to look up, not what is learnt.",
        "",
    ),
    "dis": Meaning(
        "DiS: records of the original whose key leaves one value of the target in the release",
        "records of the original",
        "The value may be wrong: see disco.",
        "dorig",
    ),
    "disco": Meaning(
        "DiSCO: records of the original whose key leaves one value of the target in the release, "
        "and it is theirs",
        "records of the original",
        _NOT_BAYES,
        "dorig",
    ),
    "disdio": Meaning(
        "DiSDiO: records of DiSCO whose key leaves one value in the original too",
        "records of the original",
        "Nobody without the original can tell these records from the rest of DiSCO.",
        "dorig",
    ),
    "correct": Meaning(
        "Share of apparent disclosures that are right: DiSCO over DiS",
        "records in DiS",
        "It speaks of the records with an apparent disclosure alone, however few they are.",
        "",
    ),
    "base_cap": Meaning(
        "baseCAPd: right guesses of somebody who knows the target's distribution and no key",
        "records of the original",
        "It is the yardstick of CAP measures, not a measure of the release.",
        "",
    ),
    "capd": Meaning(
        "CAPd: right guesses of somebody who draws a record of the original with the key",
        "records of the original",
        _ONE_FILE,
        "base_cap",
    ),
    "caps": Meaning(
        "CAPs: the same of the release's own records in the release",
        "records of the release",
        _ONE_FILE,
        "base_cap",
    ),
    "dcap": Meaning(
        "DCAP: right guesses of somebody who draws a record of the release with the key; "
        "none where it shows no such key",
        "records of the original",
        _NOT_RISK,
        "capd",
    ),
    "tcap": Meaning(
        "TCAP (Little et al. 2022): the records of DiSCO among those whose key the release shows",
        "records in iSO",
        _NOT_BAYES,
        "dorig",
    ),
    "dcr_zero": Meaning(
        "Released records that agree with some record of the original in every column compared",
        "released records looked up",
        _NOT_NEAR,
        "",
    ),
    "dcr_median": Meaning(
        "DCR: median distance of released records to the closest record of the original "
        "(numbers over their range, 1 between different levels)",
        "released records looked up",
        _NOT_NEAR,
        "",
    ),
    "dcr_5_percent": Meaning(
        "DCR: 5 % of released records are at least so close to a record of the original",
        "released records looked up",
        _NOT_NEAR,
        "",
    ),
    "closer_than_holdout": Meaning(
        "Released records closer to the original than to as many records held out, ties half",
        "released records looked up",
        "Half is what a release has that learnt the population and no record; a few records learnt "
        "by heart do not move it.",
        "",
    ),
}
