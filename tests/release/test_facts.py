"""Facts of columns: what goes out as it is decides whatever its name, form, unit or order.

Each case is a file of which one column was drawn; ten kinds of columns that show who is who.
"""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import bayes_risk as br
from bayes_risk.reporting.report import report
from bayes_risk.reporting.terminal import print_verdict
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge

N = 150
RNG = np.random.default_rng(0)
BASE = pd.DataFrame({"sex": RNG.choice(["f", "m"], N), "vote": RNG.choice(list("xyz"), N)})
PAY, IDS = RNG.lognormal(9, 1, N).round(2), RNG.permutation(N) + 100_000
DAYS = pd.to_timedelta(RNG.choice(25_000, N, replace=False), "D")
WORDS = np.array("pain knee since months left right work bus pension old moved ill".split())
HEAPED = np.where(np.arange(N) < 0.4 * N, 1000.0, PAY)
TWICE = np.array([f"name {i}" for i in [*range(N // 6), *range(N - N // 6)]])
FRESH = RNG.lognormal(9, 1, N)
SHOWN = {  # in the original, and in the file
    "birth dates": ("born", pd.Timestamp("1930-01-01") + DAYS, lambda c: c),
    "dates as text": ("born", (pd.Timestamp("1930-01-01") + DAYS).strftime("%Y-%m-%d"), None),
    "weights": ("w", RNG.gamma(5, 100, N).round(4), lambda c: c),
    "postcodes": ("zip", RNG.choice(90_000, N, replace=False) + 10_000, lambda c: c),
    "text": ("note", [" ".join(RNG.choice(WORDS, 6)) for _ in range(N)], lambda c: c),
    "names, some twice": ("name", TWICE, lambda c: c),
    "60 % alone": ("pay", RNG.permutation(HEAPED), lambda c: c),
    "ids as text": ("id", IDS.astype(str), lambda c: c),
    "ids as numbers with points": ("id", IDS, lambda c: c.astype(float).astype(str)),
    "levels in another order": (
        "town",
        pd.Categorical([f"town {i}" for i in IDS]),
        lambda c: c.cat.reorder_categories([*c.cat.categories][::-1]),
    ),
}
MOVED = {  # the file's column beside the original's pay, under another name
    "renamed": lambda: PAY,
    "in cents": lambda: (PAY * 100).round(),
    "a growing function": lambda: (0.3 * PAY + 7) ** 1.1,
    "a falling function": lambda: -PAY,
    "as text": lambda: [f"{v:.2f}" for v in PAY],
}


def drawn(df):
    return df.assign(vote=np.random.default_rng(1).permutation(df["vote"]))


def verdict(y, z, public=(), **how):
    how = {"known": ["sex"], "synthesized": ["vote"]} | how
    limits = Thresholds(public=dict.fromkeys(public, "a published register") or None)
    return judge(None, br.identification_risk(y, [z], **how), limits)


@pytest.mark.check
@pytest.mark.parametrize("kind", SHOWN)
def test_columns_that_show_who_is_who_are_above_unless_they_are_public(kind):
    name, values, change = SHOWN[kind]
    y = BASE.assign(**{name: values})
    z = drawn(y)
    z = z if change is None else z.assign(**{name: change(z[name])})
    assert verdict(y, z).outcome == "above your thresholds"
    assert name in verdict(y, z).facts
    assert verdict(y, z, public=[name]).outcome == "within your thresholds"


@pytest.mark.parametrize("kind", MOVED)
@pytest.mark.parametrize("beside", [False, True], ids=["instead", "beside a drawn one"])
def test_a_column_under_another_name_is_above(kind, beside):
    y = BASE.assign(pay=PAY)
    z = drawn(BASE).assign(x=MOVED[kind](), **({"pay": FRESH} if beside else {}))
    found = verdict(y, z)
    assert found.outcome == "above your thresholds"
    assert (
        "Column x has the values of pay, or their order, and is not a key: 150 of"
        in found.deciding[0].sentence
    )
    order = RNG.permutation(N)
    loose = verdict(y, z.iloc[order].reset_index(drop=True), known=[], corresponds=False)
    equal = kind in ("renamed", "as text")
    assert loose.outcome == ("above your thresholds" if equal else "inconclusive")


def test_a_column_under_a_name_that_stands_there_twice_is_not_compared():
    y = BASE.assign(pay=PAY)
    z = pd.concat([drawn(BASE), y[["pay", "pay"]].set_axis(["x", "x"], axis=1)], axis=1)
    assert verdict(y, z).outcome == "inconclusive"


def test_new_columns_and_sorted_files_show_no_copy():
    y = BASE.assign(pay=np.sort(PAY))
    for new in (FRESH, np.sort(FRESH), np.arange(N), np.sort(FRESH)[::-1]):
        found = verdict(y, drawn(BASE).assign(x=new, pay=FRESH[::-1]), synthesized=["vote", "pay"])
        assert not [r for r in found.reasons if "or their order" in r.sentence]


def test_facts_stand_first_on_screen_and_page_and_stay_short(tmp_path):
    kept = {f"kept_column_{i}": RNG.integers(0, 3, N) for i in range(40)}
    y = BASE.assign(pay=PAY, id=IDS.astype(str), **kept)
    z = drawn(y).assign(new=FRESH)
    found = br.identification_risk(y, [z], known=["sex"], synthesized=["vote"])
    facts = judge(None, found).facts
    console = Console(file=io.StringIO(), width=100)
    print_verdict(judge(None, found), console=console)
    lines = console.file.getvalue().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("- "))
    assert " ".join(line.strip() for line in lines[1:first]).replace("  ", " ") == facts
    assert first <= 9
    for word in ("pay (150 of 150 persons unique)", "in a key: sex", "id (150 values", "have: new"):
        assert word in facts
    page = report(found, path=tmp_path / "r.html").read_text()
    assert page.index('<p class="facts">') < page.index("<li>")
