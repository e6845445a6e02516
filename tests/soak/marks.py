"""Whether every output of a run says which numbers cannot be trusted."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from typer.testing import CliRunner

from bayes_risk.app.cli import app
from tests.soak.choices import Choices, chance, generator, pick

FURTHER = {"privacy_loss": "Privacy loss", "membership": "Membership", "full_table": "Full table"}


def study(choices: Choices, folder: Path) -> str:
    """A study file of a random table and a sampler that gets too few draws."""
    n, rng = choices.whole(8, 60), generator(choices)
    counts = chance(choices, 3)
    if counts:
        rate = pick(choices, [2.0, 500.0])
        table = pd.DataFrame({c: rng.poisson(rng.gamma(0.5, rate, n)) for c in ("u", "v")})
    else:
        levels = choices.whole(2, 12)
        share = rng.dirichlet(np.full(levels, pick(choices, [1.0, 0.1])))
        table = pd.DataFrame({c: rng.choice(levels, n, p=share) for c in ("u", "v", "w")})
        table.iloc[0] = levels - 1
        table.iloc[1] = 0
        table = table.map(lambda k: f"l{k}")
    table.to_csv(folder / "a.csv", index=False)
    model: dict[str, Any] = {
        "kind": "PoissonMixture" if counts else "DPMPM",
        "n_classes": choices.whole(1, 4),
        "draws": choices.whole(4, 30),
        "tune": choices.whole(0, 5),
        "chains": 2,
    }
    sections: dict[str, Any] = {
        "data": {"path": "a.csv"},
        "model": model,
        "release": {"m": choices.whole(1, 4)},
        "attribute": {"privacy_loss": True, "targets": 6, "refit_budget": 0},
    }
    if counts:
        grid = {"additive": 10.0, "n": 5, "truth": "add"}
        sections["attribute"]["guesses"] = {"u": grid, "v": grid}
    elif chance(choices, 2):
        sections |= {"membership": {"records": 4}, "full_table": {"targets": 3, "draws": 20}}
    sections["output"] = {"confidential": chance(choices, 2)}
    return f"random_seed = {choices.whole(1, 10**6)}\n" + "".join(
        f"[{name}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in section.items())
        for name, section in sections.items()
    )


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def check_outputs(choices: Choices, folder: Path) -> str:
    """One audit at the command line, and what each of its outputs says of the same records."""
    (folder / "s.toml").write_text(study(choices, folder), encoding="utf-8")
    out = folder / "out"
    told = CliRunner().invoke(app, ["audit", str(folder / "s.toml"), "--output", str(out)])
    assert told.exit_code in (0, 2), told.output
    if told.exit_code == 2:
        assert told.stderr.startswith("bayes-risk: ")
        return "refused"
    marked = pd.read_csv(out / "records.csv", index_col=0)["attribute_reliable"].dropna()
    doubtful = int((~marked.astype(bool)).sum())
    check_attribute(out, told.output, doubtful, len(marked))
    check_further(out, told.output)
    return "with doubts" if doubtful else "without"


def check_attribute(out: Path, told: str, doubtful: int, n: int) -> None:
    """Screen, summary, arrays, report, verdict."""
    summary = json.loads((out / "summary.json").read_text())
    risk = summary["attribute_risk"]
    assert risk["measures"]["unreliable"]["value"] == doubtful
    said = f"{doubtful} records are marked unreliable" if doubtful else "No record is marked"
    assert said in risk["sentence"]
    assert f"{doubtful:,} of {n:,} records unreliable" in " ".join(told.split())
    with xr.open_dataset(out / "risk.nc", group="attribute_risk", engine="h5netcdf") as data:
        assert int((data["reliable"] == 0).sum()) == doubtful
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"{doubtful:,} of {n:,} records are marked unreliable" in " ".join(page.split())
    assert bool(re.search(r"Attribute risk, [\d,]+ records?:", page)) == bool(doubtful)
    reasons = {r["measure"]: r for r in summary["study"]["reasons"] if "measure" in r}
    assert reasons or summary["study"]["verdict"]


def check_further(out: Path, told: str) -> None:
    """Of every further result: records, summary, report and screen agree."""
    summary = json.loads((out / "summary.json").read_text())
    page = (out / "report.html").read_text(encoding="utf-8")
    for name, words in FURTHER.items():
        path = out / f"{name}.csv"
        if not path.exists() or summary.get(name) is None:
            continue
        table = pd.read_csv(path)
        doubtful = int((~table["reliable"].astype(bool)).sum())
        assert summary[name]["measures"]["unreliable"]["value"] == doubtful, name
        count = "1 record" if doubtful == 1 else f"{doubtful:,} records"
        assert bool(re.search(rf"{words}, [\d,]+ records?:", page)) == bool(doubtful), name
        assert not doubtful or f"{words}, {count}:" in page
        after = " ".join(told[told.index(f"{words}: ") + len(words) :].split())
        line = re.split(r"(?:Membership|Full table|Reliability): ", after)[0]
        assert (f"; {doubtful:,} of {len(table):,} records unreliable" in line) == bool(doubtful)
