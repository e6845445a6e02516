"""Seconds, growth and memory of single calls, by what is called and the number of records.

Run by ``make bench``, or some: ``python tests/benchmarks/bench_calls.py [CASE ...] [n ...]``. Every
case and size is a process of its own, so that its peak memory is its own (imports included: about
0.25 GiB); small calls of the same kind come before, so that nothing is compiled in those timed.
``seconds``: of the processor, its threads and processes; ``growth``: exponent since the size
before. Files of ``../shared/data`` beside the checkout are needed where a case names them.
"""

import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import bayes_risk as br  # noqa: E402
from bayes_risk.demo import fair  # noqa: E402

DATA = ROOT.parent / "shared" / "data"
M = 5
Steps = Generator[tuple[str, Callable[[], Any]], Any, None]
CASES: dict[str, tuple[tuple[int, ...], Callable[[int], Steps]]] = {}


def case(*sizes: int) -> Callable[[Callable[[int], Steps]], Callable[[int], Steps]]:
    """A generator of steps: what is called, and the call, whose result it gets."""

    def kept(steps: Callable[[int], Steps]) -> Callable[[int], Steps]:
        CASES[steps.__name__] = sizes, steps
        return steps

    return kept


# --- tables ---------------------------------------------------------------------------------------


def drawn(n: int, seed: int, numbers: int = 0) -> pd.DataFrame:
    """14 categories of 2 to 9 levels of eight latent classes, the same for every seed; numbers."""
    model, rng = np.random.default_rng(1), np.random.default_rng([2, seed])
    z, columns = rng.choice(8, n, p=model.dirichlet(np.ones(8))), {}
    for j, d in enumerate((2, 4, 9, 4, 7, 2, 3, 3, 2, 3, 3, 2, 2, 2)):
        shares = model.dirichlet(0.5 * np.ones(d), size=8).cumsum(axis=1)
        columns[f"v{j}"] = (rng.random(n)[:, None] > shares[z, :-1]).sum(axis=1)
    for j in range(numbers):
        columns[f"v{13 - j}"] = z + rng.normal(size=n)
    return pd.DataFrame(columns)


def householders(n: int) -> pd.DataFrame:
    """Age, marital status, race, sex, education and amounts, somewhat dependent."""
    rng = np.random.default_rng(1)
    age = np.clip(rng.normal(48, 17, n).round(), 15, 90).astype(int)
    married = np.where(rng.random(n) < 0.3, 4, np.clip((age - 15) // 13, 0, 6))
    wage = np.where(rng.random(n) < 0.3, 0, rng.gamma(2.0, 20.0 * age, n).round())
    race = rng.choice(list("wbai"), n, p=[0.86, 0.1, 0.03, 0.01])
    columns: dict[str, Any] = {
        "age": pd.Categorical(age, list(range(15, 91)), ordered=True),
        "marital_status": pd.Categorical(np.char.add("m", married.astype(str))),
        "race": pd.Categorical(race),
        "sex": pd.Categorical(rng.choice(list("fm"), n)),
        "education": pd.Categorical(rng.integers(31, 47, n), ordered=True),
    }
    amounts = {"household": rng.poisson(1.7, n), "wage": wage}
    return pd.DataFrame(columns | amounts | {"tax": (0.01 * wage * rng.random(n)).round()})


def amounts(n: int, cells: int) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Lognormal income and spending, which go together, in cells; before and after synthesis."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)

    def amount(mean: float, slope: float, sd: float) -> Any:
        return np.exp(mean + slope * x + sd * rng.normal(size=n)).round(2)

    df = pd.DataFrame({"cell": rng.integers(0, cells, n), "income": amount(10, 1, 0)})
    df["spent"] = amount(9, 0.6, 0.5)
    made = [df.assign(income=amount(10, 0.8, 0.6), spent=amount(9, 0.6, 0.5)) for _ in range(M)]
    return df, made


KEYS: dict[str, Any] = {"known": ["region", "sex"], "synthesized": ["age", "education", "married"]}


def five_keys(n: int) -> list[pd.DataFrame]:
    """A file of text and numbers and M releases: a third of the synthesised values drawn anew."""
    rng = np.random.default_rng(20)
    levels = {"region": 20, "sex": 2, "age": 90, "education": 12, "married": 5}
    df = pd.DataFrame({name: rng.integers(0, d, n, dtype=np.int16) for name, d in levels.items()})
    df["education"] = df["education"].map("level {}".format)
    df["region"] = df["region"].astype("category")
    files = [df]
    for _ in range(M):
        anew = {c: rng.permutation(df[c].to_numpy()) for c in KEYS["synthesized"]}
        files.append(df.assign(**{c: df[c].where(rng.random(n) > 1 / 3, anew[c]) for c in anew}))
    return files


# --- matching, and what needs no model ------------------------------------------------------------


@case(10_000, 100_000, 1_000_000)
def identification(n: int) -> Steps:
    original, *releases = five_keys(n)
    yield "five keys", lambda: br.identification_risk(original, releases, **KEYS).summary()
    for cells, made in ((500, ["income"]), (1, ["income"]), (20, ["income", "spent"])):
        df, files = amounts(min(n, 100_000), cells)
        near: dict[str, Any] = {
            "known": ["cell"],
            "synthesized": made,
            "radius": dict.fromkeys(made, 0.1),
        }
        yield (
            f"{len(made)} radii, {cells} cells, n <= 100,000",
            partial(br.identification_risk, df, files, **near),
        )
    people = fair().sample(n, replace=True, random_state=1, ignore_index=True)
    file = people.sample(n // 5, random_state=1)
    counts = people.groupby(["age", "children"])["age"].transform("size").to_numpy(float)
    moved = [file.assign(children=file["children"].sample(frac=1, random_state=l).to_numpy())
             for l in range(M)]  # fmt: skip
    whom: dict[str, Any] = {"known": ["age"], "synthesized": ["children"], "targets": people}
    for words, F in (("whole", counts), ("estimated", counts * 1.01)):
        yield (
            f"a population, {words} counts",
            partial(br.identification_risk, file, moved, population=F, **whom),
        )


@case(100_000, 1_000_000, 10_000_000)
def identification_of_files(n: int) -> Steps:
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{l}.parquet" for l in range(M + 1)]
        for path, table in zip(paths, five_keys(n), strict=True):
            table.to_parquet(path, row_group_size=250_000)
        for most in (None, "1GiB"):
            yield (
                f"at most {most}",
                partial(
                    br.identification_risk_of_files, paths[0], paths[1:], max_memory=most, **KEYS
                ),
            )


@case(5_000, 20_000, 100_000)
def links(n: int) -> Steps:
    others, files = drawn(n, 0, 4), [drawn(n, 1 + l, 4) for l in range(M)]
    hidden = pd.Series(np.random.default_rng(0).random(n) >= 0.05)  # others: the original's rows
    for kind, shown in (
        ("others", files),
        ("leaking", [z.where(hidden, others, axis=0) for z in files]),
    ):
        yield f"links, {kind}", partial(br.links, others, shown, corresponds=True)
        yield f"exposure, {kind}", partial(br.exposure, others, shown, corresponds=True)


@case(1_000, 10_000, 100_000)
def utility(n: int) -> Steps:
    keys = ["v0", "v1", "v2", "v3"]
    for numbers in (0, 4):
        df, files = drawn(n, 0, numbers), [drawn(n, 1 + l, numbers) for l in range(M)]
        yield (
            f"utility, {numbers} numbers",
            partial(br.utility, df, files, random_seed=1, n_jobs=2),
        )
    df, files = drawn(n, 0), [drawn(n, 1 + l) for l in range(M)]
    context = partial(br.context_measures, df, files, keys=keys)
    yield "keys", partial(context, target=["v4", "v9"], distances=False)
    yield "distances", partial(context, lookups=2_000)
    yield "bounds", partial(br.release_bounds, df, synthesized=["v4"], patterns=keys, m=M)


@case(1_000, 10_000, 100_000)
def report(n: int) -> Steps:
    """Of everything, some of it small: the second report of a process."""
    from tests.helpers.edge_results import attribute
    from tests.helpers.every_result import every

    rng, df, files = np.random.default_rng(3), drawn(n, 0), [drawn(n, 1 + l) for l in range(3)]
    doubts = {"mcse": rng.gamma(2, 0.002, n), "reliable": rng.random(n) > 0.01}
    made: dict[str, Any] = {"synthesized": ["v4", "v5", "v6"], "corresponds": True}
    parts = [
        attribute(rng.beta(1, 4, n), khat=0.0, **doubts),
        br.identification_risk(df, files, known=[], **made),
        br.utility(df, files, permutations=4, random_seed=1),
        *(every()[name] for name in ("membership", "full table", "sensitivity", "comparison")),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for which in ("first", "second"):
            yield which, partial(br.report, *parts, path=Path(folder) / "r.html")


# --- models ---------------------------------------------------------------------------------------


def audited(model: Any, df: pd.DataFrame, **how: Any) -> Steps:
    """Fit, release, audit; keywords of `attribute_risk`, and ``fit`` of the fit."""
    fitting = {"random_seed": 1} | how.pop("fit", {})
    fit = yield "fit", partial(model.fit, df, **fitting)
    release = yield f"{M} releases", partial(fit.synthesize, M, random_seed=2)
    yield "audit", partial(br.attribute_risk, fit, release, random_seed=3, **how)


@case(2_500, 10_000, 40_000)
def trees(n: int) -> Steps:
    df, order = householders(n), ["age", "marital_status", "race"]
    yield from audited(br.models.CART(order), df, evidence="exact")
    ages = df.astype({"age": float}).drop(columns=["wage", "tax"])
    grid = {"age": br.Grid(additive=5, n=11)}
    yield from audited(br.models.CART(["age"], smoothing="kde"), ages, guesses=grid)


@case(2_500, 10_000, 50_000)
def forest(n: int) -> Steps:
    """Caiola & Reiter (2010): 500 trees, ten minutes for 10,000; for 50,000 R's memory ended."""
    df = householders(n).astype({"age": int, "education": int})
    model = br.models.Forest(["marital_status", "race", "sex"])
    yield from audited(model, df, evidence="exact", targets=1_000, fit={"n_jobs": 2})


@case(1_281, 5_126, 20_504)
def regression(n: int) -> Steps:
    """Of AttributeRiskCalculation 1.0.0: 0.27 s a record for one variable, 5.2 s for two."""
    rng = np.random.default_rng(1)
    spent = rng.normal(8.83, 0.88, n)
    df = pd.DataFrame({"spent": spent, "income": 4 + 0.75 * spent + rng.normal(0, 1.05, n)})
    formulas = {"spent": "1", "income": "1 + spent"}
    for names in (["income"], ["spent", "income"]):
        model = br.models.Regression({name: formulas[name] for name in names})
        fit = model.fit(df, draws=25, random_seed=2)
        release = fit.synthesize(1, random_seed=3)
        for way in ("importance", "exact"):
            how: dict[str, Any] = {
                "guesses": br.Grid(percent=10, n=11),
                "evidence": way,
                "random_seed": 4,
            }
            yield (
                f"{len(names)} variables, {way}",
                partial(br.attribute_risk, fit, release, **how),
            )


@case(500, 1_000)
def membership(n: int) -> Steps:
    df = fair()
    order = np.random.default_rng(1).permutation(len(df))
    members, others = df.iloc[order[:n]], df.iloc[order[n : 2 * n]]
    fit = br.models.DPMPM(n_classes=40).fit(members, draws=250, tune=500, random_seed=2)
    for m, classes in ((1, "new"), (5, "new"), (1, "own")):
        release = fit.synthesize(m=m, classes=classes, random_seed=3)
        how: dict[str, Any] = {
            "others": others,
            "comparisons": 50,
            "alternatives": 50,
            "random_seed": 4,
        }
        yield f"m = {m}, {classes}", partial(br.membership, fit, release, **how)


@case(2_500, 10_000)
def priors(n: int) -> Steps:
    """Ten for hardly more than one: evidence is gathered once. The ACS file."""
    table = pd.read_csv(DATA / "nist_acs_national2019_cat14.csv.gz")[:n]
    fit = br.models.DPMPM(30).fit(table, draws=500, chains=2, random_seed=1, n_jobs=2)
    how: dict[str, Any] = {"random_seed": 3, "refit_budget": 0, "n_jobs": 2}
    release = fit.synthesize(M, random_seed=2)
    kept = yield "evidence", partial(br.attribute_evidence, fit, release, **how)
    named = {p: p for p in ("uniform", "marginal", "predictive", "release", "release-joint")}
    mixed = {f"{k}": br.MixedPrior({"predictive": 1 - k, "uniform": k}) for k in (0.01, 0.1)}
    more = mixed | {f"{k} to 1": br.TruthFactor(k) for k in (0.1, 2.0, 10.0)}
    yield "one prior", partial(kept.compare, {"uniform": "uniform"})
    yield "ten priors", partial(kept.compare, named | more)


@case(2_500, 10_000)
def weaker(n: int) -> Steps:
    """Half of the records known, against all but one: from one release, from several. The ACS."""
    table = pd.read_csv(DATA / "nist_acs_national2019_cat14.csv.gz")[:n].astype("category")
    fit = br.models.DPMPM(30).fit(table, random_seed=1, n_jobs=2)
    for m in (1, M):
        release = fit.synthesize(m, random_seed=2)
        for knows in ("all-but-target", 0.5):
            how: dict[str, Any] = {
                "intruder": br.Intruder(knows_records=knows),
                "random_seed": 3,
                "n_jobs": 2,
            }
            yield f"m = {m}, {knows}", partial(br.attribute_risk, fit, release, **how)


@case(2_500, 10_000)
def full_table(n: int) -> Steps:
    """Two changes for all records: 180 s and 3 GiB; 100 targets: 600 s and 4 GiB. The ACS file."""
    table = pd.read_csv(DATA / "nist_acs_national2019_cat14.csv.gz")
    levels = {c: sorted(table[c].unique()) for c in table}
    how: dict[str, Any] = {
        "draws": 500,
        "chains": 2,
        "levels": levels,
        "random_seed": 1,
        "n_jobs": 2,
    }
    fit = br.models.DPMPM(30).fit(table[:n], **how)
    release = fit.synthesize(M, random_seed=2)
    some: dict[str, Any] = {"targets": min(n, 100), "random_seed": 5, "n_jobs": 2}
    two: dict[str, Any] = {
        "guesses": br.Neighbourhood(2),
        "random_seed": 3,
        "refit_budget": 0,
        "n_jobs": 2,
    }
    yield "two changes", partial(br.attribute_risk, fit, release, **two)
    yield "full table", partial(br.full_table_risk, fit, release, **some)
    yield "likeliest", partial(br.likeliest, fit, release, k=100, **some | {"targets": 10})


@case(5_000, 20_000)
def structural_zeros(n: int) -> Steps:
    """With and without. The New York ACS file."""
    df = pd.read_csv(DATA / "ny_acs_structural_zeros_20000.csv.gz").dropna().head(n)
    df = df.reset_index(drop=True)
    rules = br.Impossible(pd.read_csv(DATA / "ny_acs_structural_zeros_MCZ.csv.gz"))
    fitting = {"draws": 300, "tune": 300}
    for zeros in (None, rules):
        model = br.models.DPMPM(30, impossible=zeros)
        yield from audited(model, df, targets=500, refit_budget=0, fit=fitting)


# --- one process a case and size ------------------------------------------------------------------


def used() -> float:
    """Processor seconds of this process and of those that ended."""
    both = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in both)


def timed(name: str, n: int) -> None:
    """A line a step: what, seconds, peak memory so far."""
    warnings.simplefilter("ignore")
    smallest, steps = min(CASES[name][0]), CASES[name][1]
    for size in (min(200, smallest), n):  # the first compiles
        going, found = steps(size), None
        while True:
            try:
                what, call = going.send(found)
            except StopIteration:
                break
            begin = used()
            found = call()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            if size == n:
                print(f"{what}\t{used() - begin}\t{peak}", flush=True)


def main(words: list[str]) -> None:
    """Print a line a case, size and call."""
    chosen, sizes = [w for w in words if not w.isdigit()], [int(w) for w in words if w.isdigit()]
    print(f"{'case':>24} {'n':>11} {'seconds':>9} {'growth':>7} {'peak GiB':>9}  call")
    for name in chosen or CASES:
        before: dict[int, tuple[int, float]] = {}
        for n in sizes or CASES[name][0]:
            run = [sys.executable, __file__, "--one", name, str(n)]
            lines = subprocess.run(run, check=True, capture_output=True, text=True).stdout
            for place, line in enumerate(lines.splitlines()):
                what, seconds, peak = line.split("\t")
                size, last = before.get(place, (n, float(seconds)))
                growth = np.log(float(seconds) / last) / np.log(n / size) if n > size else np.nan
                before[place] = n, float(seconds)
                print(
                    f"{name:>24} {n:>11,} {float(seconds):>9.2f} {growth:>7.2f} {float(peak):>9.2f}"
                    f"  {what}",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        timed(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1:])
