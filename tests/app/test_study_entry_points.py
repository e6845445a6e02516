"""A model of another package, found by its entry point, in every command."""

import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk import models
from bayes_risk.app.cli import app
from bayes_risk.app.run import run_compare, run_study, run_sweep
from bayes_risk.app.run.runner import estimate
from bayes_risk.app.study.signatures import model_section
from bayes_risk.app.study.study import parse_study

CODE = '''
"""Columns drawn apart, each from its Dirichlet posterior."""

from dataclasses import dataclass, replace
from typing import Sequence

import numpy as np

from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import Capabilities, Offer, Simulated
from bayes_risk.models.fits.synthesis import Request, Synthesis


@dataclass(frozen=True)
class Flat:
    prior: float = 1.0
    order: Sequence[str] = ()

    def __post_init__(self):
        if self.prior <= 0:
            raise br.InputError("prior", self.prior, "must be positive")

    def synthesizes(self, columns):
        return list(self.order or columns)

    def fit(self, df, scale: int = 1, *, missing="error", sample=True, random_seed=None):
        data = Microdata.from_frame(df, missing=missing)
        return Fit(model=self, microdata=data, scale=scale)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit(Synthesis):
    model: Flat
    microdata: Microdata
    scale: int = 1
    diagnostics = {}
    weights = None
    parameters = ("independent",)
    n_draws = 0
    records_differ = False

    @property
    def _modelled(self):
        return self.model.synthesizes(self.microdata.columns)

    def _tables(self, request):
        for rng in request.rngs:
            codes = self.microdata.codes.copy()
            for name in request.columns:
                j = self.microdata.columns.index(name)
                codes[:, j] = rng.choice(self.microdata.n_levels[j], len(codes), p=self.share(j))
            yield codes

    def share(self, j):
        count = np.bincount(self.microdata.codes[:, j], minlength=self.microdata.n_levels[j])
        return (count + self.model.prior) / (count + self.model.prior).sum()

    def capabilities(self, release, intruder):
        return Capabilities([Offer("exact", compute=self.log_evidence)])

    def mechanism(self, release):
        return "columns drawn apart"

    def log_evidence(self, release, targets, *, rng, progress):
        own = targets.profiles[:, targets.columns]
        codes = targets.guesses.codes
        log_p = np.zeros((release.m, *codes.shape[:2]))
        for l, z in enumerate(release.codes):
            for q, j in enumerate(targets.columns):
                n = np.bincount(z[:, j], minlength=self.microdata.n_levels[j])
                log_p[l] += self.scale * np.log(n + 1.0)[codes[:, :, q]]
        return Simulated.exact(log_p)
'''.replace("import numpy as np\n", "import numpy as np\n\nimport bayes_risk as br\n", 1)
MODEL = {"kind": "Flat", "prior": 0.5, "scale": 2}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with metadata, on the path as if it were installed."""
    (tmp_path / "strangers.py").write_text(CODE)
    info = tmp_path / "strangers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bayes_risk.models]\nFlat = strangers:Flat\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    model_section.cache_clear()
    rng = np.random.default_rng(1)
    table = pd.DataFrame({c: rng.choice(list("xyz"), 30) for c in ("a", "b")})
    table.to_csv(tmp_path / "t.csv", index=False)
    yield tmp_path
    model_section.cache_clear()
    vars(models).pop("Flat", None)
    sys.modules.pop("strangers", None)


def study_of(package, **more):
    content = {"data": {"path": str(package / "t.csv")}, "model": MODEL, "random_seed": 1}
    return parse_study(content | {"release": {"m": 2}, "attribute": {}} | more)


def test_it_is_audited_as_a_script_does(package):
    result = run_study(study_of(package))
    seeds = [int(s.generate_state(1)[0]) for s in np.random.SeedSequence(1).spawn(8)]
    fit = br.models.Flat(prior=0.5).fit(pd.read_csv(package / "t.csv"), 2)
    risk = br.attribute_risk(fit, fit.synthesize(2, random_seed=seeds[1]))
    pd.testing.assert_frame_equal(result.attribute.records, risk.records)
    assert result.attribute.assumptions["synthesis"] == "columns drawn apart"


def test_it_is_swept_and_compared(package):
    sweep = {"model": {"prior": [0.5, 5]}, "m": [1, 2]}
    swept = run_sweep(study_of(package, sweep=sweep)).sensitivity
    assert dict(swept.dataset.sizes) == {"m": 2, "hyper prior": 2}
    compare = {"replicates": 2, "one": {"model": {"order": ["a"]}}, "all": {}}
    keys = {"known": [], "synthesized": ["a", "b"]}
    found = run_compare(study_of(package, compare=compare, identification=keys)).comparison
    assert list(found.names) == ["one", "all"]


def test_its_memory_and_time_are_told(package):
    cost = estimate(study_of(package))
    assert cost.peak > cost.program > 0
    assert {"fit", "release", "attribute risk"} <= set(cost.seconds)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"priro": 1}, r"\[model\] has no key 'priro'; did you mean 'prior'"),
        (
            {"prior": "1", "scale": 1.5},
            "prior = .1. does not fit; give a number; .* scale = 1.5 ",
        ),
        ({"prior": -1}, r"\[model\] prior = -1.0 must be positive"),
    ],
)
def test_its_keys_are_checked_as_those_of_our_own(package, model, message):
    with pytest.raises(br.InputError, match=message):
        run_study(study_of(package, model={"kind": "Flat"} | model))


def test_the_command_takes_it(package, monkeypatch):
    monkeypatch.chdir(package)
    (package / "s.toml").write_text(
        'data = { path = "t.csv" }\nmodel = { kind = "Flat" }\nattribute = { evidence = "refit" }\n'
    )
    found = CliRunner().invoke(app, ["audit", "s.toml"])
    assert found.exit_code == 2
    said = " ".join(found.stderr.split())
    assert """evidence = "refit" is not offered by Flat; it offers ['exact']""" in said
