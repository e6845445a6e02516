"""Fits read back from files: the same releases and the same audits; and files that cannot be."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.data.kept import GROUP, _hash, kept, write_new
from tests.helpers.fits import example, fit_of

SLOWER = ("DPMPM", "Mixture", "PMM", "PoissonMixture")  # which compile, or fit anew
CODE = ("PyMCModel", "Simulator")  # of Python, which no file holds
NAMES = sorted(set(br.models.BUILT_IN) - {*CODE})


def same_audit(one, other, **how):
    """Releases of one seed are equal, and what their audits find."""
    releases = [fit.synthesize(2, random_seed=3) for fit in (one, other)]
    for a, b in zip(*(release.datasets for release in releases), strict=True):
        pd.testing.assert_frame_equal(a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short fits
        mine, theirs = (
            br.attribute_risk(fit, release, random_seed=4, **how)
            for fit, release in zip((one, other), releases, strict=True)
        )
    np.testing.assert_array_equal(mine.log_evidence, theirs.log_evidence)
    pd.testing.assert_frame_equal(mine.records, theirs.records)
    assert mine.assumptions == theirs.assumptions


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.check) if n in SLOWER else n for n in NAMES]
)
def test_a_fit_is_read_back(name, tmp_path):
    fit = fit_of(name)
    back = br.open_fit(fit.save(tmp_path / "fit.nc"))
    assert type(back) is type(fit) and repr(back) == repr(fit)
    assert back.diagnostics == fit.diagnostics
    same_audit(fit, back, guesses=example(name).guesses, targets=3)


@pytest.mark.slow
def test_a_sampler_goes_on_with_the_metric_that_it_had(tmp_path):
    """NUTS, an expression with knots, counts: later fits are the same to the byte."""
    rng = np.random.default_rng(3)
    df = pd.DataFrame({"z": rng.poisson(3, 40), "b": rng.choice(["u", "v"], 40)})
    model = br.models.Regression(
        {"z": "1", "b": "1 + bs(z, df=4, extrapolation='clip')"}, {"z": "negative-binomial"}
    )
    fit = model.fit(df, draws=60, tune=60, chains=2, random_seed=1)
    back = br.open_fit(fit.save(tmp_path / "fit.nc"))
    same_audit(fit, back, guesses={"b": br.Levels(), "z": br.Grid(additive=1, n=3)}, targets=3)


@pytest.mark.parametrize("name", CODE)
def test_code_is_refused_and_nothing_is_left(name, tmp_path):
    with pytest.raises(br.InputError, match=r"cannot be written to a file: .* has code"):
        fit_of(name).save(tmp_path / "fit.nc")
    assert not list(tmp_path.iterdir())


def test_a_generator_that_is_a_command_is_read_back(tmp_path):
    model = br.models.Simulator(command=["cp", "{input}", "{output}/1.csv"], columns=["job"])
    table = example("Marginals").table
    back = br.open_fit(model.fit(table).save(tmp_path / "fit.nc"))
    assert back.model == model
    np.testing.assert_array_equal(back.microdata.codes, model.fit(table).microdata.codes)


def test_draws_as_arviz_has_them(tmp_path):
    chain = fit_of("Chain")
    back = br.open_fit(chain.save(tmp_path / "fit.nc"))
    for fit in (chain, back):
        tree = fit.to_datatree()
        assert tree["part 2/posterior"].sizes == {"chain": 2, "draw": 40}
    alone = chain.parts[1].fit
    assert list(alone.to_datatree().children) == ["posterior"]
    with pytest.raises(br.InputError, match="a fit of Marginals has no draws"):
        fit_of("Marginals").to_datatree()


# --- files that cannot be ------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    return fit_of("CART").save(tmp_path / "fit.nc")


def planted(path, old, new):
    """A file whose layout has other words, under a hash that fits."""
    found = kept({"fit": fit_of("Regression")})
    text = found["u1"].to_numpy().tobytes()
    assert old in text
    shapes = found["u1_shapes"].to_numpy().tobytes()
    size = f'["|u1", {len(text)}]'.encode()
    assert size in shapes
    text = text.replace(old, new)
    shapes = shapes.replace(size, f'["|u1", {len(text)}]'.encode())
    named = {str(name): found[name].to_numpy() for name in found}
    named |= {"u1": np.frombuffer(text, np.uint8), "u1_shapes": np.frombuffer(shapes, np.uint8)}
    data = {name: (f"along_{name}", array) for name, array in named.items()}
    attrs = found.attrs | {"sha256": _hash(named)}
    return write_new(path, {GROUP: type(found)(data, attrs=attrs)})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"1 + age"', b'"1 + open(age)"'),
        (b'"1 + age"', b'"1 + elsewhere"'),
        (b'"ExactPart"', b'"Gone"'),
        (b'"bayes_risk.models.regression.part", "Part"', b'"os", "system"'),
        (b'"known":', b'"gone":'),
    ],
)
def test_planted_parts_are_refused_by_name(old, new, tmp_path):
    path = planted(tmp_path / "fit.nc", old, new)
    with pytest.raises(br.InputError, match="was written by bayes_risk .* have other parts"):
        br.open_fit(path)


def test_damage_and_other_things_are_refused_by_name(file, tmp_path):
    import h5netcdf

    with pytest.raises(br.InputError, match="holds no fit; take open_result"):
        br.open_fit(write_new(tmp_path / "other.nc", {GROUP: kept({"fit": 3})}))
    with pytest.raises(br.InputError, match="holds evidence alone"):
        br.open_result(file)
    with pytest.raises(br.InputError, match="exists; give the name of a new file"):
        fit_of("CART").save(file)
    whole = file.read_bytes()
    with h5netcdf.File(file, "a") as held:
        held[GROUP].attrs["format"] = 99
        held[GROUP].attrs["version"] = "7.0"
    with pytest.raises(br.InputError, match=r"is of format 99, written by bayes_risk 7\.0; this"):
        br.open_fit(file)
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(br.InputError, match="damaged"):
        br.open_fit(file)
