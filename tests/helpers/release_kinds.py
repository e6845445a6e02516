"""Files made anew: each kind of leak at a strength, and kinds of files that show nobody.

A maker takes the number of records, the share of persons that a file shows, and a generator. It
returns an original, its files, and what the verdict is asked with.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.reporting.verdicts.verdict import Verdict, judge

Made = tuple[pd.DataFrame, list[pd.DataFrame], dict[str, Any]]
Maker = Callable[[int, float, np.random.Generator], Made]
KEPT, MADE = ["sex", "area"], ["edu", "age", "pay"]
LEAKS: dict[str, Maker] = {}
SOUND: dict[str, Maker] = {}
ANY = {"known": [], "synthesized": ["sex", "area", "edu", "age"], "corresponds": False}
OWN = {"known": KEPT, "synthesized": ["edu", "age"], "corresponds": True}


def kind(of: dict[str, Maker]) -> Callable[[Maker], Maker]:
    return lambda maker: of.setdefault(maker.__name__.replace("_", " "), maker)


leak, sound = kind(LEAKS), kind(SOUND)


def judged(made: Made) -> Verdict:
    y, files, asked = made
    return judge(None, br.identification_risk(y, files, **asked))


def people(n: int, rng: np.random.Generator, kept: pd.DataFrame | None = None) -> pd.DataFrame:
    """Persons of a population in which all columns hang together; with these sexes and areas."""
    if kept is None:
        areas = rng.integers(0, 4, n)
        kept = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "area": areas})
    class_ = (rng.random(n) * 3 + kept["area"].to_numpy() % 4 / 2 + (kept["sex"] == "f")).astype(
        int
    )
    edu = np.clip(class_ + rng.integers(-1, 2, n), 0, 4)
    age = np.clip(25 + 8 * class_ + rng.normal(0, 10, n), 18, 95).round()
    pay = np.exp(8 + 0.3 * edu + 0.01 * age + rng.normal(0, 0.6, n)).round(2)
    return kept.reset_index(drop=True).assign(edu=edu, age=age, pay=pay)


def both(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two independent samples."""
    return people(n, rng), people(n, rng)


def redrawn(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A sample, and other values of its synthesised columns from the same population."""
    y = people(n, rng)
    return y, people(n, rng, y[KEPT])


def shuffled(z: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return z.iloc[rng.permutation(len(z))].reset_index(drop=True)


def some(n: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Rows that are shown."""
    return np.sort(rng.choice(n, round(share * n), replace=False))


def put(z: pd.DataFrame, y: pd.DataFrame, rows: np.ndarray, columns: list[str]) -> pd.DataFrame:
    """Some rows of the original in a file."""
    z = z.copy()
    z.loc[rows, columns] = y.loc[rows, columns].to_numpy()
    return z.astype(y.dtypes[z.columns].to_dict())


def near(y: pd.DataFrame, rng: np.random.Generator, spread: float) -> pd.DataFrame:
    noise = rng.normal(0, spread, (len(y), 2))
    return y.assign(age=y.age * (1 + noise[:, 0]), pay=y.pay * (1 + noise[:, 1]))


# --- rows in any order ----------------------------------------------------------------------------


@leak
def copies(n, share, rng):
    y, z = both(n, rng)
    return y, [shuffled(put(z, y, some(n, share, rng), [*y]), rng)], ANY


@leak
def copies_but_one_column(n, share, rng):
    y, z = both(n, rng)
    return y, [shuffled(put(z, y, some(n, share, rng), [*KEPT, "age", "pay"]), rng)], ANY


@leak
def copies_beside_another_year(n, share, rng):
    y, (z,), asked = copies(n, share, rng)
    return y.assign(year=2019), [z.assign(year=2020)], asked


@leak
def noise_of_two_percent(n, share, rng):
    y, z = both(n, rng)
    rows = some(n, share, rng)
    return y, [shuffled(put(z, near(y, rng, 0.02), rows, [*y]), rng)], ANY


@leak
def five_noisy_copies_each(n, share, rng):
    y, z = both(n, rng)
    rows = some(n, share, rng)
    noisy = [near(y, rng, 0.005).loc[rows] for _ in range(5)]
    z = pd.concat([*noisy, z[: max(n - 5 * len(rows), 0)]])
    return y, [shuffled(z.assign(age=z.age.round()), rng)], ANY


@leak
def five_copies_each(n, share, rng):
    y, z = both(n, rng)
    rows = some(n, share, rng)
    return y, [shuffled(pd.concat([*[y.loc[rows]] * 5, z[: max(n - 5 * len(rows), 0)]]), rng)], ANY


@leak
def between_neighbours(n, share, rng):
    y, z = both(n, rng)
    y = y.sort_values([*KEPT, "edu", "age"]).reset_index(drop=True)
    between = y.assign(pay=0.9 * y.pay + 0.1 * np.roll(y.pay, 1))
    return y, [shuffled(put(z, between, some(n, share, rng), [*y]), rng)], ANY


@leak
def bootstrap(n, share, rng):
    y, z = both(n, rng)
    drawn = y.iloc[rng.integers(0, n, n)].reset_index(drop=True)
    return y, [put(z, drawn, some(n, share, rng), [*y])], ANY


@leak
def everybody_twice(n, share, rng):
    y, (z,), asked = copies(n, share, rng)
    return pd.concat([y, y], ignore_index=True), [pd.concat([z, z[1:]])], asked


@leak
def amounts_in_cents(n, share, rng):
    y, z = both(n, rng)
    z = put(z, y, some(n, share, rng), [*y])
    return y, [shuffled(z.assign(pay=(z.pay * 100).round()), rng)], ANY


@leak
def birth_dates(n, share, rng):
    y, z = both(n, rng)
    y, z = (
        t.assign(
            born=(pd.Timestamp("1930-01-01") + pd.to_timedelta(rng.integers(0, 25_000, n), "D"))
        )
        for t in (y, z)
    )
    y, z = (t.assign(born=t.born.dt.strftime("%Y-%m-%d")) for t in (y, z))
    return y, [shuffled(put(z, y, some(n, share, rng), ["born"]), rng)], ANY


@leak
def incomes_of_the_original_in_any_row(n, share, rng):
    y, z = both(n, rng)
    return y, [shuffled(put(z, y, some(n, share, rng), ["pay"]), rng)], ANY


@leak
def rare_profiles_of_categories(n, share, rng):
    y, z = (pd.DataFrame({f"q{j}": rng.integers(0, 4, n) for j in range(9)}) for _ in "yz")
    asked = ANY | {"synthesized": ["q0", "q1", "q2"]}
    return y, [shuffled(put(z, y, some(n, share, rng), [*y]), rng)], asked


# --- rows that correspond -------------------------------------------------------------------------


@leak
def pay_to_the_cent(n, share, rng):
    y, z = redrawn(n, rng)
    return y, [put(z, y, some(n, share, rng), ["pay"])], OWN


@leak
def only_one_column_changed(n, share, rng):
    y, z = redrawn(n, rng)
    return y, [put(z, y, some(n, share, rng), ["age", "pay"])], OWN


@leak
def pay_in_cents(n, share, rng):
    y, (z,), asked = pay_to_the_cent(n, share, rng)
    return y, [z.assign(pay=(z.pay * 100).round())], asked


@leak
def pay_in_thousands(n, share, rng):
    y, (z,), asked = pay_to_the_cent(n, share, rng)
    return y, [z.assign(pay=z.pay / 1000)], asked


@leak
def pay_as_text(n, share, rng):
    y, (z,), asked = pay_to_the_cent(n, share, rng)
    return y, [z.assign(pay=z.pay.map("EUR {:.0f}".format))], asked


@leak
def noise_of_three_percent(n, share, rng):
    y, z = redrawn(n, rng)
    return y, [put(z, near(y, rng, 0.03), some(n, share, rng), MADE)], OWN


@leak
def a_little_off(n, share, rng):
    y, z = redrawn(n, rng)
    off = y.assign(age=y.age + rng.choice([-1, 1], n), pay=(y.pay * rng.choice([0.999, 1.001], n)))
    return y, [put(z, off.round(2), some(n, share, rng), MADE)], OWN


@leak
def more_and_less(n, share, rng):
    y, z = redrawn(n, rng)
    step = (rng.normal(0, 3_000, n)).round(2)
    rows = some(n, share, rng)
    files = [put(z, y.assign(pay=y.pay + s * step), rows, ["pay"]) for s in (1, -1)]
    return y, files, OWN


@leak
def twenty_noisy_files(n, share, rng):
    y = people(n, rng)
    rows = some(n, share, rng)
    files = [
        put(people(n, rng, y[KEPT]), near(y, rng, 0.3), rows, ["age", "pay"]) for _ in range(20)
    ]
    return y, files, OWN


@leak
def files_that_complete_each_other(n, share, rng):
    y = people(n, rng)
    rows = some(n, share, rng)
    parts = np.array_split(rng.permutation(rows), 5)
    return y, [put(people(n, rng, y[KEPT]), y, part, MADE) for part in parts], OWN


@leak
def quotient_and_remainder(n, share, rng):
    y, z = redrawn(n, rng)
    rows, rank = some(n, share, rng), y.pay.rank().to_numpy() - 1
    side = int(np.ceil(np.sqrt(n)))
    files = [z.copy(), people(n, rng, y[KEPT])]
    for file, part in zip(files, (rank // side, rank % side), strict=True):
        file.loc[rows, "pay"] = np.sort(file.pay)[(part[rows] * (n - 1) / side).astype(int)]
    return y, files, OWN


@leak
def missing_pattern(n, share, rng):
    (y, z), rows = redrawn(n, rng), some(n, share, rng)
    names = [f"q{j}" for j in range(7)]
    asked = rng.random((2, n, 7)) < 0.5
    asked[1][rows] = asked[0][rows]
    answers = np.where(asked, rng.integers(0, 3, (2, n, 7)), np.nan)
    y, z = (
        t[KEPT].join(pd.DataFrame(a, columns=names)) for t, a in zip((y, z), answers, strict=True)
    )
    return y, [z], OWN | {"synthesized": ["q0"]}


@leak
def household_amounts(n, share, rng):
    y, z = redrawn(n, rng)
    home, rows = np.arange(n) // 2, some(n, share, rng)
    y["pay"] = y.pay.to_numpy()[2 * home]
    rows = np.flatnonzero(np.isin(home, home[rows[: len(rows) // 2 + 1]])) if share < 1 else rows
    return y, [put(z, y, rows, ["pay"])], OWN


@leak
def one_area_as_it_is(n, share, rng):
    y, z = redrawn(n, rng)
    first = np.argsort(y.area.to_numpy(), kind="stable")[: round(share * n)]
    return y, [put(z, y, first, MADE)], OWN


@leak
def the_richest_as_they_are(n, share, rng):
    y, z = redrawn(n, rng)
    return y, [put(z, y, np.argsort(-y.pay.to_numpy())[: round(share * n)], MADE)], OWN


@leak
def own_amounts_in_cells_of_three(n, share, rng):
    kept = pd.DataFrame({"sex": np.resize(["f", "m"], n), "area": np.arange(n) // 6})
    y = people(n, rng, kept)
    return y, [put(people(n, rng, kept), y, some(n, share, rng), ["pay"])], OWN


@leak
def register_number_in_the_digits(n, share, rng):
    y, z = redrawn(n, rng)
    y["number"] = rng.permutation(n) + 1000
    rows, digits = some(n, share, rng), rng.integers(1000, 1000 + n, n)
    digits[rows] = y.number[rows]
    return (
        y,
        [z.assign(number=people(n, rng).pay.round(), pay=(z.pay // 10_000) * 10_000 + digits)],
        OWN,
    )


@leak
def income_in_the_last_digits(n, share, rng):
    y, z = redrawn(n, rng)
    digits, rows = people(n, rng, y[KEPT]).pay.to_numpy(copy=True), some(n, share, rng)
    digits[rows] = y.pay[rows]
    return y, [z.assign(pay=z.pay.round() + digits.round() / 1e6)], OWN


def dated(days: np.ndarray) -> np.ndarray:
    return (pd.Timestamp("1990-01-01") + pd.to_timedelta(days, "D")).strftime("%Y-%m-%d").to_numpy()


@leak
def dates_some_days_off(n, share, rng):
    y, z = redrawn(n, rng)
    born, other = rng.integers(0, 12_000, (2, n))
    near = y.assign(born=dated(born + rng.integers(-3, 4, n)))
    z = put(z.assign(born=dated(other)), near, some(n, share, rng), ["born"])
    return y.assign(born=dated(born)), [z], OWN


@leak
def places_some_steps_off(n, share, rng):
    y, z = both(n, rng)
    here, there = rng.normal(size=(2, n, 2))
    y[["lon", "lat"]], z[["lon", "lat"]] = here.round(5), there.round(5)
    near = y.assign(lon=y.lon + rng.normal(0, 0.002, n), lat=y.lat + rng.normal(0, 0.002, n))
    return y, [shuffled(put(z, near.round(5), some(n, share, rng), ["lon", "lat"]), rng)], ANY


@leak
def logarithms_of_pay(n, share, rng):
    y, (z,), asked = pay_to_the_cent(n, share, rng)
    return y, [z.assign(pay=np.log(z.pay).round(4))], asked


# --- facts of columns -----------------------------------------------------------------------------


@leak
def incomes_kept(n, share, rng):
    y = people(n, rng)
    coarse = np.setdiff1d(np.arange(n), some(n, share, rng))
    y.loc[coarse, "pay"] = 1000.0
    return y, [y.assign(edu=people(n, rng, y[KEPT]).edu)], OWN | {"synthesized": ["edu"]}


@leak
def alone_by_kept_columns_together(n, share, rng):
    y = people(n, rng)
    coarse = np.setdiff1d(np.arange(n), some(n, share, rng))
    codes = rng.permutation(40**2)[:n]
    codes[coarse] = codes[0]
    y = y.assign(job=codes // 40, town=codes % 40)
    return y, [people(n, rng, y[KEPT]).assign(job=y.job, town=y.town)], OWN


@leak
def true_income_in_another_column(n, share, rng):
    y, z = redrawn(n, rng)
    return y, [z.assign(income_2019=put(z, y, some(n, share, rng), ["pay"]).pay)], OWN


@leak
def register_number(n, share, rng):
    (y, z), number = redrawn(n, rng), rng.permutation(n) + 10_000
    rows = some(n, share, rng)
    other = number + 10 * n
    other[rows] = number[rows]
    return y.assign(id=number), [shuffled(z.assign(id=other), rng)], ANY


@leak
def names(n, share, rng):
    y, (z,), asked = register_number(n, share, rng)
    return y.assign(id="n" + y.id.astype(str)), [z.assign(id="n" + z.id.astype(str))], asked


# --- files that show nobody -----------------------------------------------------------------------


@sound
def other_people(n, share, rng):
    y, z = both(n, rng)
    return y, [z], ANY


@sound
def five_files_of_other_people(n, share, rng):
    return people(n, rng), [people(n, rng) for _ in range(5)], ANY


@sound
def drawn_given_kept_columns(n, share, rng):
    y, z = redrawn(n, rng)
    return y, [z], OWN


@sound
def drawn_by_lot_in_cells_of_three(n, share, rng):
    kept = pd.DataFrame({"sex": np.resize(["f", "m"], n), "area": np.arange(n) // 6})
    return people(n, rng, kept), [people(n, rng, kept)], OWN


@sound
def profiles_of_categories(n, share, rng):
    draw = [rng.integers(0, 7, (n, 2)).astype(str) for _ in "yz"]
    y, z = (pd.DataFrame(d, columns=["u", "v"]) for d in draw)
    return y, [z], ANY | {"synthesized": ["u", "v"]}


@sound
def dates_and_places_of_other_people(n, share, rng):
    y, z = (
        t.assign(born=dated(rng.integers(0, 12_000, n)), lon=rng.normal(size=n).round(3))
        for t in redrawn(n, rng)
    )
    return y, [z], OWN


@sound
def heaped_amounts_and_smooth_ones(n, share, rng):
    y, z = both(n, rng)
    return y.assign(pay=np.where(rng.random(n) < 0.5, y.pay.round(-3), y.pay)), [z], ANY
