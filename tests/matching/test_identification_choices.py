"""Choices that change nothing; radii of the user's own; numbers and radii in words."""

import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core.formats import plain
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import read_study
from bayes_risk.matching.radii import SD, Absolute, Quantile, Relative

ORIGINAL = pd.DataFrame(
    {"sex": list("ffmmff"), "age": [20.0, 31, 42, 53, 64, 75], "pay": [10.0, 20, 30, 40, 50, 60]}
)
RELEASED = ORIGINAL.assign(pay=[11.0, 23, 30, 90, 49, 60])
KEYS: dict[str, Any] = {"known": ["sex"], "synthesized": ["pay"]}
WIDE: dict[str, Any] = {"known": ["sex", "age"], "synthesized": ["pay"]}
COUNTS = np.full(6, 3)


def risk_of(**options: Any) -> br.IdentificationRisk:
    found = br.identification_risk(ORIGINAL, RELEASED, **({**KEYS} | options))
    assert isinstance(found, br.IdentificationRisk)
    return found


# --- choices that change nothing -----------------------------------------------------------------


def test_choices_with_an_effect_are_taken() -> None:
    assert risk_of(strategy="likeliest", population=COUNTS).strategy == "likeliest"
    assert not risk_of(closed=False, radius={"pay": 0.1}).closed
    radius = {"age": 0.1, "pay": 0.1}
    assert risk_of(shape="ellipse", radius=radius, **WIDE).shape == "ellipse"


def test_in_a_study_file_too(tmp_path: Any) -> None:
    ORIGINAL.to_csv(tmp_path / "original.csv", index=False)
    RELEASED.to_csv(tmp_path / "released.csv", index=False)
    text = (
        '[data]\npath = "original.csv"\n[release]\nfiles = ["released.csv"]\ncolumns = ["pay"]\n'
        '[identification]\nknown = ["sex"]\nsynthesized = ["pay"]\n'
    )
    for said, message in (
        ("strategy = 0.5", "give \\[identification\\] population too"),
        ('radius = { pay = 0.1 }\nshape = "ellipse"', "needs two radii"),
        ("closed = false", "leaves out the ends"),
    ):
        path = tmp_path / "study.toml"
        path.write_text(f"{text}{said}\n")
        with pytest.raises(br.InputError, match=message):
            run_study(read_study(path))


# --- in sweeps -----------------------------------------------------------------------------------


def sweep_of(over: dict[str, Any], **options: Any) -> br.IdentificationSweep:
    return br.identification_sweep(ORIGINAL, RELEASED, over=over, **({**WIDE} | options))


def test_in_a_sweep_a_choice_may_work_in_some_combinations_only() -> None:
    over = {"population": {"in the file": None, "3": COUNTS}, "strategy": ["always", "likeliest"]}
    sweep = sweep_of(over)
    risks = sweep.dataset["expected_match_risk"].sel(rule="pooled", population="in the file")
    assert risks.sel(strategy="always") == risks.sel(strategy="likeliest")
    radii = {"age": 0.1, "pay": 0.1}
    ellipses = sweep_of({"known": [["pay"], ["age", "pay"]]}, radius=radii, shape="ellipse")
    box = sweep_of({"known": [["pay"]]}, radius=radii)
    alone, both = (s.dataset["expected_match_risk"].sel(rule="pooled") for s in (box, ellipses))
    assert both.sel(known="pay") == alone.sel(known="pay")
    open_ends = sweep_of({"known": [["sex"], ["pay"]]}, radius=radii, closed=False)
    assert open_ends.dataset["expected_match_risk"].sel(known="sex", rule="pooled") == 2


def test_in_a_sweep_a_population_is_summed_over_the_keys_left_out() -> None:
    people = pd.concat([ORIGINAL] * 4, ignore_index=True)
    population = br.Population.counted(people, ["sex", "age", "pay"])
    fitted = [br.Population.log_linear(RELEASED, ["sex", "age", "pay"], size=24)]
    for given in (population, fitted):
        sweep = sweep_of({"known": 3}, population=given)
        assert sweep.dataset.sizes["known"] == 7
        for known, synthesized in ((["sex"], []), (["age"], ["pay"])):
            one = given if isinstance(given, br.Population) else given[0]
            alone = br.identification_risk(
                ORIGINAL,
                RELEASED,
                known=known,
                synthesized=synthesized,
                population=one.over([*known, *synthesized]),
            )
            found = sweep.dataset.sel(known=" + ".join([*known, *synthesized]), rule="pooled")
            wanted = alone.summary().loc["pooled"]
            assert float(found["expected_match_risk"]) == wanted["expected_match_risk"]
            assert float(found["baseline"]) == wanted["baseline"]


def test_in_a_sweep_rules_for_missing_values_go_with_their_key() -> None:
    sweep = sweep_of({"known": [["sex"], ["age"]]}, missing={"age": "never"})
    assert sweep.dataset["known"].to_numpy().tolist() == ["sex", "age"]


# --- radii ---------------------------------------------------------------------------------------


class Own(NamedTuple):
    """A rule of the user's own that gives what it is told to."""

    found: Any

    def ends(self, y: Any, column: Any) -> Any:
        return self.found(y)

    def in_words(self) -> str:
        return "near enough"


def test_a_rule_of_one_s_own_is_taken() -> None:
    risk = risk_of(radius={"pay": Own(lambda y: (y - 3, y + 3))})
    plain = risk_of(radius={"pay": Absolute(3)})
    assert risk.c.tolist() == plain.c.tolist()
    assert "pay (near enough)" in risk.sentence()
    sweep = sweep_of({"radius": {"pay": [Own(lambda y: [y, y]), 0.1]}})
    assert sweep.dataset.sizes["radius of pay"] == 2


def test_groups_may_be_a_number_of_numpy() -> None:
    radius = SD(1, groups=np.int64(2))  # type: ignore[arg-type]
    assert type(radius.groups) is int
    assert radius == SD(1, groups=2)
    wrongs: list[Any] = [2.0, True, "2", None]
    for wrong in wrongs:
        with pytest.raises(br.InputError, match=r"SD\(groups=.*give a whole number >= 1"):
            SD(1, groups=wrong)


def test_a_group_of_one_has_no_standard_deviation() -> None:
    assert risk_of(radius={"pay": SD(1, groups=3)}).n == 6
    with pytest.raises(
        br.InputError,
        match=re.escape("SD(groups=5) of 6 records leaves 4 of 6 targets in a group of fewer than")
        + ".*give fewer groups",
    ):
        risk_of(radius={"pay": SD(1, groups=5)})
    ties = np.array([1.0, 1, 1, 1, 2, 3])  # some groups are empty: nobody is in them
    low, high = SD(1, groups=3).ends(ties, ties)
    assert (high[:4] - low[:4] == 0).all()


@pytest.mark.parametrize(
    ("radius", "words"),
    [
        (Absolute(1e6), "within 1,000,000"),
        (Absolute(1234567.5), "within 1,234,568"),
        (Absolute(0.1), "within 0.1"),
        (Relative(1e5), "within 10,000,000 %"),
        (Quantile(0.02), "within 2 % of the file on either side"),
        (SD(1, groups=2), "within 1 standard deviation (2 groups)"),
        (SD(2, groups=3), "within 2 standard deviations (3 groups)"),
        (SD(1, groups=21), "within 1 standard deviation (21 groups)"),
        (SD(1), "within 1 standard deviation"),
    ],
)
def test_radii_in_words(radius: Any, words: str) -> None:
    assert radius.in_words() == words


def test_numbers_in_words() -> None:
    assert [plain(x, 6) for x in (0, 1e-7, 2.5, 1e12)] == [
        "0",
        "0.0000001",
        "2.5",
        "1,000,000,000,000",
    ]
