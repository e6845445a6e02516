"""Results read back: the same object, and files that cannot be."""

import re
import shutil
import stat
import warnings
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_risk as br
from bayes_risk.app.output import _kept, write_run
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.data.kept import GROUP, MAKERS, _hash, kept, layout_of, read_kept, write_new
from bayes_risk.demo import demo_data
from bayes_risk.risk.join import given_history
from tests.helpers.every_result import every


def same(one, other, at="result"):
    """Every part of two values is equal, types too; priors apart, in order."""
    assert type(one) is type(other), at
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other, err_msg=at)
        assert one.dtype == other.dtype, at
    elif isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=True, check_column_type=True)
    elif isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, other, check_exact=True)
    elif isinstance(one, pd.Index):
        pd.testing.assert_index_equal(one, other, exact=True)
    elif is_dataclass(one):
        for field in fields(one):
            same(getattr(one, field.name), getattr(other, field.name), f"{at}.{field.name}")
    elif isinstance(one, dict):
        assert list(one) == list(other), at
        for key in one:
            same(one[key], other[key], f"{at}[{key!r}]")
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), at
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            same(a, b, f"{at}[{k}]")
    else:
        assert one == other or (one != one and other != other), at


def page_of(risk, path):
    br.report(risk, path=path)
    return re.sub(r"\d{4}-\d\d-\d\d[^<]*", "", path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def numbers():
    """Trees over numbers and levels: a grid, groups, two priors, missing amounts."""
    df = demo_data("visits").iloc[:300].copy()
    df["visits"] = df["visits"].astype(float)
    df.loc[df.index[:20], "visits"] = np.nan
    fit = br.models.CART(["limited", "visits"], min_leaf=20).fit(df, missing="level", random_seed=1)
    release = fit.synthesize(2, random_seed=2)
    return br.attribute_evidence(fit, release, random_seed=3)


@pytest.fixture(scope="module")
def mixed():
    """A mixture led by its release: modes, intervals, chains."""
    df = demo_data("italy").iloc[:250]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = br.models.DPMPM(n_classes=4).fit(df, draws=100, tune=50, chains=2, random_seed=1)
        release = fit.synthesize(2, random_seed=2)
        return br.attribute_evidence(fit, release, targets=30, random_seed=3)


@pytest.mark.parametrize("name", ["numbers", "mixed"])
def test_evidence_and_risk_are_the_same(name, request, tmp_path):
    evidence = request.getfixturevalue(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        risk = evidence.risk()
        evidence.save(tmp_path / "evidence.nc")
        risk.save(tmp_path / "risk.nc")
        again, back = (
            br.open_evidence(tmp_path / "evidence.nc"),
            br.open_result(tmp_path / "risk.nc"),
        )
        same(evidence, again)
        same(risk, back)
        same(risk, again.risk())
    same(risk.summary(), back.summary())
    assert repr(risk) == repr(back)
    assert page_of(risk, tmp_path / "a.html") == page_of(back, tmp_path / "b.html")
    assert stat.S_IMODE((tmp_path / "risk.nc").stat().st_mode) == 0o600


def test_pictures_are_the_same(numbers, tmp_path):
    risk = numbers.risk("uniform", warn=False)
    back = br.open_result(risk.save(tmp_path / "r.nc"))
    one, other = (np.vstack([line.get_xydata() for line in of.plot().lines]) for of in (risk, back))
    np.testing.assert_array_equal(one, other)


def test_a_result_with_groups(tmp_path):
    risk = every()["attribute"]
    with_groups = risk.by_group(["sex"])
    assert with_groups is not None
    back = br.open_result(risk.save(tmp_path / "r.nc"))
    same(with_groups, back.by_group(["sex"]))


@pytest.fixture(scope="module")
def study():
    return parse_study(
        {
            "random_seed": 5,
            "data": {"demo": "italy"},
            "model": {"kind": "Marginals"},
            "release": {"m": 2, "columns": ["PRO"]},
            "attribute": {"targets": 40},
            "output": {"confidential": True},
        }
    )


@pytest.fixture(scope="module")
def folder(study, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "out"
    place.mkdir()
    write_run(place, run_study(study, progress=False))
    return place


def test_a_run_is_read_back(folder, study):
    result = run_study(study, progress=False)
    for path in (folder, folder / "risk.nc", str(folder)):
        same(result.attribute, br.open_result(path))
    same(result.evidence, br.open_evidence(folder))


def test_a_run_without_confidential_values_says_what_to_do(study, tmp_path):
    shut = study.model_copy(
        update={"output": study.output.model_copy(update={"confidential": False})}
    )
    write_run(tmp_path, run_study(shut, progress=False))
    with pytest.raises(br.InputError, match=r"holds attribute_risk without.*confidential = true"):
        br.open_result(tmp_path)


def test_what_is_no_result(tmp_path):
    with pytest.raises(br.InputError, match="there is no file .*give a run's folder"):
        br.open_result(tmp_path)
    with pytest.raises(br.InputError, match="there is no file"):
        br.open_evidence(tmp_path / "gone.nc")
    (tmp_path / "text.nc").write_text("no NetCDF")
    with pytest.raises(br.InputError, match="is damaged, or no NetCDF file; run the study again"):
        br.open_result(tmp_path / "text.nc")
    xr.Dataset({"x": ("n", [1.0])}).to_netcdf(tmp_path / "own.nc", engine="h5netcdf")
    with pytest.raises(br.InputError, match="holds no result without"):
        br.open_result(tmp_path / "own.nc")


def test_the_other_kind_is_named(tmp_path):
    risk, evidence = every()["attribute"], every()["evidence"]
    evidence.save(tmp_path / "e.nc")
    risk.save(tmp_path / "r.nc")
    with pytest.raises(br.InputError, match=r"holds evidence alone; open_evidence\(path\)"):
        br.open_result(tmp_path / "e.nc")
    with pytest.raises(br.InputError, match="holds a risk without its evidence"):
        br.open_evidence(tmp_path / "r.nc")


def test_nothing_is_written_over_or_left(tmp_path):
    risk = every()["attribute"]
    path = risk.save(tmp_path / "r.nc")
    before = path.read_bytes()
    with pytest.raises(br.InputError, match="exists; give the name of a new file"):
        risk.save(path)
    with pytest.raises(br.InputError, match="has no parent folder; create"):
        risk.save(tmp_path / "a" / "r.nc")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.nc"]


def test_a_prior_that_is_a_function_is_refused_and_nothing_is_left(numbers, tmp_path):
    searched = replace(numbers, searched=lambda table: np.ones(len(table)))
    with pytest.raises(br.InputError, match="cannot be written to a file: its prior is a function"):
        searched.save(tmp_path / "e.nc")
    assert not list(tmp_path.iterdir())


def test_a_run_keeps_what_can_be_kept(tmp_path):
    risk, evidence = every()["attribute"], every()["evidence"]
    searched = replace(evidence, searched=lambda table: np.ones(len(table)))
    write_new(tmp_path / "r.nc", {GROUP: _kept(risk, searched)})
    same(risk, br.open_result(tmp_path / "r.nc"))
    with pytest.raises(br.InputError, match="holds a risk without its evidence"):
        br.open_evidence(tmp_path / "r.nc")
    assert _kept(searched, None) is None


def edited(path, **attrs):
    """A file with other attributes of its group."""
    import h5netcdf

    with h5netcdf.File(path, "a") as file:
        for name, value in attrs.items():
            file[GROUP].attrs[name] = value
    return path


@pytest.fixture
def file(tmp_path):
    return every()["attribute"].save(tmp_path / "r.nc")


def test_another_format_names_both_versions(file):
    edited(file, format=99, version="7.0")
    with pytest.raises(br.InputError, match=r"is of format 99, written by bayes_risk 7\.0; this"):
        br.open_result(file)


def test_another_hash_is_damage(file):
    edited(file, sha256="0" * 64)
    with pytest.raises(br.InputError, match="is damaged: its hash is another"):
        br.open_result(file)


def test_bytes_that_changed_are_found(file):
    """Whatever byte changes, the file is refused or reads back the same."""
    whole, risk = file.read_bytes(), br.open_result(file)
    rng, refused = np.random.default_rng(1), 0
    for at in rng.integers(0, len(whole), 15):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        file.write_bytes(bytes(changed))
        try:
            same(risk, br.open_result(file))
        except br.InputError:
            refused += 1
    assert refused > 0


def planted(how, path, tmp_path):
    """Something in the place of an array of a file, that is not in the file."""
    import h5py

    with h5py.File(path, "a") as file:
        group, size = file[GROUP], len(file[GROUP]["u1"])
        values = group["u1"][:]
        del group["u1"]
        if how == "a link to another file":
            with h5py.File(tmp_path / "other.nc", "w") as other:
                other["x"] = values
            group["u1"] = h5py.ExternalLink(str(tmp_path / "other.nc"), "/x")
        elif how == "a link within the file":
            file["elsewhere"] = values
            group["u1"] = h5py.SoftLink("/elsewhere")
        elif how == "stored in another file":
            values.tofile(tmp_path / "raw")
            stored = [(str(tmp_path / "raw"), 0, size)]
            group.create_dataset("u1", (size,), "u1", external=stored)
        elif how == "made of other files":
            layout = h5py.VirtualLayout((size,), "u1")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.nc"), "x", (size,))
            group.create_virtual_dataset("u1", layout)
        elif how == "of 10^14 numbers that are not there":
            group.create_dataset("u1", (10**14,), "u1", chunks=(10**6,))
        elif how == "of more dimensions":
            group["u1"] = values[:, None]
        else:
            group["u1"] = np.array(["text"] * size, dtype=object)


@pytest.mark.parametrize(
    "how",
    [
        "a link to another file",
        "a link within the file",
        "stored in another file",
        "made of other files",
        "of 10^14 numbers that are not there",
        "of more dimensions",
        "text",
    ],
)
def test_only_what_is_in_the_file_is_read(file, how, tmp_path):
    planted(how, file, tmp_path)
    with pytest.raises(br.InputError, match="is damaged|unpacks to more than"):
        br.open_result(file)


def test_a_file_is_read_in_another_process(file, monkeypatch):
    """A memory fault of HDF5 ends that process alone, which has bounds; arrays come in blocks."""
    from bayes_risk.data import kept as module
    from bayes_risk.data import reader

    whole, asked, answer = br.open_result(file), list[bool](), reader._answer
    monkeypatch.setattr(reader, "_answer", lambda *how: asked.append(True) or answer(*how))
    same(whole, br.open_result(file))
    assert len(asked) > 2
    monkeypatch.setattr(reader, "_answer", lambda *how: ("stopped", "memory"))
    with pytest.raises(br.InputError, match="reader of NetCDF files stopped .* run the study aga"):
        br.open_result(file)
    monkeypatch.setattr(reader, "starts_processes", lambda: False)  # blocks are set here
    monkeypatch.setattr(module, "BLOCK", 7)
    same(whole, br.open_result(file))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_half_a_file_is_damage(file, share):
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(br.InputError, match="damaged"):
        br.open_result(file)


def test_parts_of_another_version_are_named(tmp_path):
    from bayes_risk.evidence.problem import Sample

    assert read_kept(write_new(tmp_path / "a.nc", {GROUP: kept(Sample(3, True))})) == (3, True)
    found = kept(Sample(3, True))
    text = found["u1"].to_numpy().tobytes().replace(b"at_random", b"at_chance")
    found["u1"] = (found["u1"].dims, np.frombuffer(text, dtype=np.uint8))
    own = {str(name): found[name].to_numpy() for name in found}
    write_new(tmp_path / "b.nc", {GROUP: found.assign_attrs(sha256=_hash(own))})
    with pytest.raises(br.InputError, match="whose results have other parts than those of"):
        read_kept(tmp_path / "b.nc")


def test_no_code_of_others_is_run(tmp_path):
    from bayes_risk._core.checkpoint import packed, unpacked

    text = '{"class": ["%s", "x"], "parts": {}}'
    for module in ("os", "bayes_risk.__main__"):
        with pytest.raises(TypeError, match=module):
            unpacked([np.frombuffer((text % module).encode(), dtype=np.uint8)], MAKERS)
    assert len(packed(1)) == 1


CELLS = pd.DataFrame(
    {
        "text": ["a", None, "b"],
        "object": pd.Series(["a", 1, np.nan], dtype=object),
        "truth": [True, False, True],
        "nullable": pd.array([1, None, 3], dtype="Int64"),
        "day": pd.to_datetime(pd.Series(["2024-01-01", None, "2025-06-01"])).to_numpy(),
        "category": pd.Categorical(["x", "y", None], ["y", "x", "z"], ordered=True),
        "whole": np.array([1, 2, 3], dtype=np.int8),
        "cut": pd.cut([1, 2, 9], [0, 5, 10]),
        "infinite": [np.inf, np.nan, -0.0],
    },
    index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("c", 3)], names=["k", None]),
)


@pytest.mark.parametrize(
    "value",
    [
        CELLS,
        CELLS.iloc[:0],
        pd.DataFrame(index=pd.RangeIndex(2, 8, 3, name="n")),
        pd.DataFrame([[1, 2]], columns=["same", "same"]),
        pd.Series([1.5], name="s"),
        pd.Index(["é", "ß"], name="name"),
        np.array([["a", "b"]], dtype=object),
        np.zeros((0, 3)),
        np.array([1e-45], dtype=np.float32),
        {2: np.arange(3), "a": (1, None, float("inf"))},
        frozenset({"b", "a"}),
        pd.Timestamp("2024-02-29 12:00", tz="UTC"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_read_back_as_they_are(value, tmp_path):
    same(value, read_kept(write_new(tmp_path / "v.nc", {GROUP: kept(value)})))


def test_arrays_met_twice_are_kept_once():
    array = np.arange(1000.0)
    assert kept({"a": array, "b": (array, array)})["f8"].size == 1000
    assert kept({"a": array, "b": array.copy()})["f8"].size == 2000
    assert layout_of(object()) is None


def test_a_folder_that_was_moved_is_read(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "moved")
    same(br.open_result(folder), br.open_result(tmp_path / "moved"))


def test_a_tree_with_the_names_of_arviz():
    risk = every()["attribute"]
    tree = risk.to_datatree()
    assert set(tree.children) == {
        *("prior", "posterior", "log_likelihood", "observed_data", "constant_data"),
        "sample_stats",
    }
    p = tree["posterior"]["probability"]
    np.testing.assert_allclose(p.sum("guess"), 1.0)
    at = p.isel(guess=tree["observed_data"]["truth"])[tree["constant_data"]["case_of_record"]]
    np.testing.assert_array_equal(at, tree["sample_stats"]["probability"])
    held = {str(n) for group in tree.children.values() for n in group.data_vars}
    assert held == {*risk.dataset.data_vars} - {"prior", "posterior"} | {"probability"}


@pytest.mark.parametrize(
    "text",
    [
        '{"array": 99}',
        '{"kind": "range", "content": [1]}',
        '{"kind": "dtype", "content": "no type"}',
        '{"kind": "nothing", "content": 1}',
        '{"class": ["bayes_risk.intruder.grids", "Grid"], "parts": {}}',
        '{"class": ["bayes_risk.app.run.runner", "run"], "parts": {}}',
        "[1, 2]",
        "1",
        "no JSON",
        "[" * 100_000,
    ],
    ids=range(10),
)
def test_planted_parts_under_a_hash_that_fits_are_refused_by_name(text, tmp_path):
    arrays = np.frombuffer(text.encode(), dtype=np.uint8)
    shapes = np.frombuffer(f'[["|u1", {len(arrays)}]]'.encode(), dtype=np.uint8)
    named = {"u1_shapes": shapes, "u1": arrays}
    attrs = {"format": 1, "version": "0", "sha256": _hash(named)}
    data = {name: (f"along_{name}", found) for name, found in named.items()}
    write_new(tmp_path / "planted.nc", {GROUP: xr.Dataset(data, attrs=attrs)})
    with pytest.raises(br.InputError, match="planted.nc.* (was written by bayes_risk 0|holds)"):
        br.open_result(tmp_path / "planted.nc")


# --- every kind of attribute risk ----------------------------------------------------------------


def short_tables():
    """Two years of the same people, of whom some changed."""
    rng = np.random.default_rng(3)
    year = pd.DataFrame({"a": rng.choice(list("xyz"), 40), "b": rng.choice(list("uv"), 40)})
    return year, year.assign(b=np.where(rng.random(40) < 0.2, "u", year["b"]))


def of_margins(df, prior=1.0, seed=1, **how):
    fit = br.models.Marginals(prior).fit(df)
    return br.attribute_evidence(fit, fit.synthesize(2, random_seed=seed), random_seed=1, **how)


def two_years(**how):
    return br.join([of_margins(df, seed=k) for k, df in enumerate(short_tables())], **how)


def given_a_history():
    df = short_tables()[0]
    return given_history([of_margins(df)], of_margins(df, 2.0, 2))


def of_a_chain(model="CART", **intruder):
    df, how = short_tables()[0], {"draws": 40, "tune": 20, "chains": 2, "random_seed": 1}
    last = br.models.CART(["b"]) if model == "CART" else br.models.DPMPM(1, columns=["b"])
    fit = br.models.Chain([br.models.DPMPM(1, columns=["a"]), last]).fit(df, **how)
    who = br.Intruder(**intruder)
    return br.attribute_risk(fit, fit.synthesize(2, random_seed=2), intruder=who, random_seed=3)


def of_a_household():
    df = short_tables()[0]
    fit = br.models.DPMPM(1).fit(df, draws=40, tune=20, chains=2, random_seed=1)
    number = pd.Series(np.arange(40) // 2, index=df.index)
    who = br.Intruder(household="unknown", households=number)
    return br.attribute_risk(fit, fit.synthesize(1, random_seed=2), intruder=who, random_seed=3)


def of_published_tables():
    df = short_tables()[0]
    return br.Published(pd.crosstab(df.a, df.b), noise="geometric", scale=1.0).evidence(df).risk()


def of_runs():
    def shuffled(df, m, seed):
        return [df.assign(b=df["b"].sample(frac=1, random_state=seed).to_numpy())] * m

    df = short_tables()[0]
    fit = br.models.Simulator(shuffled, columns=["b"], runs=8, share=0.4).fit(df)
    return br.attribute_risk(fit, fit.synthesize(1, random_seed=2), random_seed=3)


KINDS = {
    "joined": lambda: two_years(same_table=False),
    "waves": lambda: two_years(transition="panel"),
    "history": given_a_history,
    "chain": of_a_chain,
    "in file": lambda: of_a_chain("DPMPM", in_file=0.1),
    "household": of_a_household,
    "published": of_published_tables,
    "simulated": of_runs,
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.check) for k in KINDS])
def test_every_kind_is_read_back(kind, tmp_path):
    """The same object, screen and report, but for the date."""
    risk = KINDS[kind]()
    back = br.open_result(risk.save(tmp_path / "r.nc"))
    same(risk, back)
    assert repr(risk) == repr(back)
    assert page_of(risk, tmp_path / "a.html") == page_of(back, tmp_path / "b.html")
