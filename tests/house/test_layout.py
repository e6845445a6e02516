"""The house: what is packaged, which room may import which, and what the front door promises."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import bayes_risk
from tests.helpers.programs import python
from tests.helpers.sources import parsed

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

ROOMS = (  # imports go from the right to the left; those in one tuple may lean on those before
    ("_core",),
    ("data",),
    ("release",),
    ("intruder",),
    ("evidence",),
    ("models", "matching", "utilities", "risk"),
    ("studies",),
    ("reporting",),
    ("app",),
)
ORDER = [room for floor in ROOMS for room in floor]
LOOSE = {"__init__", "__main__", "_compat", "demo"}
MAY_IMPORT = {
    "pymc": {"models", "matching"},
    "pytensor": {"models", "matching"},
    "arviz": {"_compat"},
    "matplotlib": {"reporting"},
    "pandas": {*ORDER, "demo"} - {"_core"},
}
MAX_FILES = 25
COMPUTED = "computed"
MAX_LINES = 600


def source_files() -> dict[str, Path]:
    """Path of every module by its dotted name."""
    files = (ROOT / "bayes_risk").rglob("*.py")
    return {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in files}


FILES = source_files()
TEXTS = {name: path.read_text() for name, path in FILES.items()}


def room_of(module: str) -> str:
    """The room under bayes_risk: ``bayes_risk.models.mixture.dpmpm`` lies in ``models``."""
    return module.split(".")[1]


def imports_of(module: str, tree: ast.AST, *, typing_only: bool) -> Iterator[str]:
    """Every name that a module imports, in functions too; those for type checkers on demand."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body if typing_only else []:
                yield from imports_of(module, ast.Module([child], []), typing_only=True)
            for child in node.orelse:
                yield from imports_of(module, ast.Module([child], []), typing_only=typing_only)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = module.split(".")[: -node.level] if node.level else []
            source = ".".join([*here, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)
        else:
            yield from by_string(module, node)
            yield from imports_of(module, node, typing_only=typing_only)


def by_string(module: str, node: ast.AST) -> Iterator[str]:
    """What ``import_module("a.b")`` or ``__import__`` imports; `COMPUTED`: a name made up later."""
    by_name = ("import_module", "__import__")
    called = getattr(node, "func", None)
    if getattr(called, "attr", getattr(called, "id", "")) in by_name and isinstance(node, ast.Call):
        first = node.args[0]
        name = str(first.value) if isinstance(first, ast.Constant) else COMPUTED
        level = len(name) - len(name.lstrip("."))  # dots in front, as of relative imports
        here = module.split(".")[:-level] if level else []
        yield ".".join([*here, name[level:]])


TOP = (ast.Import, ast.ImportFrom)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def in_fresh_python(code: str) -> str:
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- packaging -------------------------------------------------------------------------------


def test_every_folder_of_modules_is_a_package_that_the_wheel_holds():
    packages = {name.removesuffix(".__init__") for name in FILES if name.endswith(".__init__")}
    assert {name.rpartition(".")[0] for name in FILES} <= packages
    assert PROJECT["tool"]["setuptools"]["packages"]["find"]["include"] == ["bayes_risk*"]


def test_models_at_the_top_are_those_of_the_package():
    assert (ROOT / "models").resolve() == ROOT / "bayes_risk" / "models"


def test_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    assert PROJECT["project"]["version"] == bayes_risk.__version__
    assert f"\nversion: {bayes_risk.__version__}\n" in citation


PIN = (
    r"[a-z0-9-]+==[0-9][A-Za-z0-9.+]*( ; sys_platform == \"[a-z0-9]+\")?"
    r"( --hash=sha256:[0-9a-f]{64})+"
)


def test_locks_pin_every_dependency_by_version_and_hashes_alone():
    """No package index, no local file, nothing that pip would take without its hash."""
    project = PROJECT["project"]
    for lock, extra in (("requirements-lock.txt", "dev"), ("requirements-docs-lock.txt", "docs")):
        text = (ROOT / lock).read_text().replace(" \\\n    ", " ")
        pins = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert [p for p in pins if not re.fullmatch(PIN, p)] == []
        wanted = list(project["optional-dependencies"][extra])
        wanted += project["dependencies"] if extra == "dev" else []
        names = {re.split(r"[<>=]", requirement)[0] for requirement in wanted}
        assert names - {p.partition("==")[0] for p in pins} == set()


def test_make_installs_nothing_without_its_hash():
    text = (ROOT / "Makefile").read_text()
    installs = [line for line in text.splitlines() if "$(PIP) " in line]
    assert len(installs) == 3
    assert [i for i in installs if "--require-hashes" not in i] == [
        "\t@$(PIP) --no-deps --no-build-isolation -e ."
    ]


def test_no_module_is_too_long():
    lengths = {name: len(text.splitlines()) for name, text in TEXTS.items()}
    assert {n: length for n, length in lengths.items() if length > MAX_LINES} == {}


# --- imports go one way ----------------------------------------------------------------------


def test_imports_are_found_wherever_they_stand():
    code = """
import a.b
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from . import typed
else:
    from .x import y
def f():
    from ..z import w
    found = importlib.import_module("c.d").name
    later = import_module("..e", __package__), import_module(name)
"""
    found = set(imports_of("bayes_risk.reporting.plots.sub", ast.parse(code), typing_only=False))
    plots = "bayes_risk.reporting.plots"
    expected = {"a.b", "c.d", COMPUTED, "bayes_risk.reporting.e", "typing.TYPE_CHECKING"}
    expected |= {f"{plots}.x.y", "bayes_risk.reporting.z.w"}
    assert found == expected
    with_types = set(
        imports_of("bayes_risk.reporting.plots.sub", ast.parse(code), typing_only=True)
    )
    assert with_types == expected | {"bayes_risk.reporting.plots.typed"}


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """What every module imports, names for type checkers and those of the front door among them."""
    found = {m: set(imports_of(m, parsed(path), typing_only=True)) for m, path in FILES.items()}
    door = "bayes_risk.__init__"
    stub = ast.parse((ROOT / "bayes_risk" / "__init__.pyi").read_text())
    found[door] |= set(imports_of(door, stub, typing_only=True))
    return found


def test_modules_by_computed_names_are_those_that_nobody_can_name(imports):
    """A name that is made up when the code runs escapes all tests of this page."""
    assert {module for module, names in imports.items() if COMPUTED in names} == {
        "bayes_risk.__init__",  # the names of its stub, which are counted as its imports
        "bayes_risk._core.checkpoint",  # the class of a step that was kept
        "bayes_risk.data.reader",  # the reader of a kind of file, in its own process
        "bayes_risk.models.__init__",  # models that are registered
    }


def test_core_imports_arrays_alone(imports):
    allowed = {"numpy", "scipy", "numba", "joblib", "threadpoolctl", "psutil"}
    allowed |= sys.stdlib_module_names
    assert [
        (module, name)
        for module in FILES
        if room_of(module) == "_core"
        for name in imports[module] - {COMPUTED}
        if not within(name, "bayes_risk._core") and name.partition(".")[0] not in allowed
        if not (module.endswith(".parallel") and name.partition(".")[0] in ("dask", "distributed"))
    ] == []


def ours(names: set[str]) -> set[str]:
    """Our own modules among imported names: ``bayes_risk.data.microdata`` for a name in it."""
    known = {name.removesuffix(".__init__") for name in FILES}
    found = {n if n in known else n.rpartition(".")[0] for n in names if within(n, "bayes_risk")}
    return found & known


def test_imports_go_one_way(imports):
    """No room imports one above it, and none the front door but the application."""
    wrong = []
    for module in FILES:
        room = room_of(module)
        for name in ours(imports[module]) if room in ORDER else ():
            theirs = room_of(name) if name != "bayes_risk" else ""
            if room == "app" and theirs in {"", "demo"}:
                continue
            if theirs not in {*ORDER[: ORDER.index(room) + 1], "_compat"}:
                wrong.append((module, name))
    assert wrong == []


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules that import each other, directly or through others (Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for name in graph[module]:
            if name not in order:
                visit(name)
            if name in path:
                lowest[module] = min(lowest[module], lowest[name])
        if lowest[module] == order[module]:
            group = set(path[path.index(module) :])
            del path[path.index(module) :]
            if len(group) > 1:
                found.append(group)

    for module in graph:
        if module not in order:
            visit(module)
    return found


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_no_module_is_in_a_circle(imports):
    """Imports in functions and those for type checkers count as well."""
    graph = {m.removesuffix(".__init__"): ours(names) for m, names in imports.items()}
    graph = {m: names - {m} for m, names in graph.items()}
    assert circles(graph) == []


def test_there_are_twelve_rooms_and_no_loose_module():
    first = {name.split(".")[1] for name in FILES}
    assert first == {*ORDER, *LOOSE}
    assert len(ORDER) <= 12


@pytest.mark.parametrize(
    ("kind", "several"), [(ast.ClassDef, set()), (ast.FunctionDef, {"stored", "by_group"})]
)
def test_a_name_means_one_thing(kind, several):
    """Of classes and functions of modules; readers have a `stored` each, both risks `by_group`."""
    names = [
        node.name
        for path in FILES.values()
        for node in parsed(path).body
        if isinstance(node, kind) and not node.name.startswith("_")
    ]
    assert {name for name in names if names.count(name) > 1} == several


def test_no_room_has_too_many_files():
    files = [name for name in FILES if not name.endswith(".__init__")]
    rooms = [name.rpartition(".")[0] for name in files]
    assert {room: n for room in rooms if (n := rooms.count(room)) > MAX_FILES} == {}


def test_large_libraries_stay_in_their_rooms():
    assert [
        (module, name)
        for module, path in FILES.items()
        for name in imports_of(module, parsed(path), typing_only=False)
        for library, rooms in MAY_IMPORT.items()
        if within(name, library) and room_of(module) not in rooms
    ] == []


SLOW = {"matplotlib", "scipy.stats", "scipy.integrate", "scipy.optimize", "sklearn", "statsmodels"}
SLOW |= {"formulaic", "arviz", "pymc", "pytensor", "dask"}


def test_commands_import_slow_libraries_where_they_are_used(imports):
    """`identify` and a dry run wait for no library that they do not need; models import their own.

    What the application and the front door import, modules of ours in between.
    """
    at_the_top = {
        module.removesuffix(".__init__"): set(
            imports_of(
                module,
                ast.Module([n for n in parsed(path).body if isinstance(n, TOP)], []),
                typing_only=False,
            )
        )
        for module, path in FILES.items()
    }
    reached = {m for m in at_the_top if room_of(f"{m}.x") == "app"}
    reached |= ours(imports["bayes_risk.__init__"]) - {"bayes_risk.reporting.plots"}  # by name
    waiting = [*reached]
    while waiting:
        new = ours(at_the_top[waiting.pop()]) - reached
        reached |= new
        waiting += new
    assert "bayes_risk.release.own_rows" in reached  # through six others
    found = {(m, name) for m in reached for name in at_the_top[m]}
    assert {(m, n) for m, n in found for slow in SLOW if within(n, slow)} == set()
    matched = [m for m in FILES if room_of(m) in ("_core", "data", "release")]
    found = {(m, n) for m in matched for n in imports_of(m, parsed(FILES[m]), typing_only=False)}
    slow = {"matplotlib", "scipy.stats"}
    assert {(m, n) for m, n in found for one in slow if within(n, one)} == set()


# --- the front door --------------------------------------------------------------------------


def test_imports_are_light():
    """What is loaded grows with what is asked for, and PyMC waits for the first fit."""
    stages = {
        "import bayes_risk": {"pymc", "pytensor", "numba", "pandas", "matplotlib", "numpy"},
        "import bayes_risk.models": {"pymc", "pytensor", "numba", "pandas", "matplotlib"},
        "import bayes_risk.app.cli": {"pymc", "pytensor", "arviz"},
        "bayes_risk.models.DPMPM(n_classes=3)": {"pymc", "pytensor"},
    }
    code = "\n".join(["import sys", *(f"{stage}; print(*sys.modules)" for stage in stages)])
    loaded = in_fresh_python(code).splitlines()
    found = zip(stages.items(), loaded, strict=True)
    assert [(stage, absent & set(names.split())) for (stage, absent), names in found] == [
        (stage, set()) for stage in stages
    ]


def test_public_names_resolve():
    assert [n for n in bayes_risk.__all__ if getattr(bayes_risk, n) is None] == []
    assert set(bayes_risk.__all__) <= set(dir(bayes_risk))


def test_front_door_and_type_checkers_agree():
    stub = ast.parse((ROOT / "bayes_risk" / "__init__.pyi").read_text())
    imported = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = {alias.asname for node in imported for alias in node.names}
    assert names == {*bayes_risk.__all__, "__version__"}


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'attribut_risk'"):
        _ = bayes_risk.attribut_risk
    with pytest.raises(AttributeError, match="no model 'DPMP'"):
        _ = bayes_risk.models.DPMP
    with pytest.raises(AttributeError, match=r"is br\.models\.search_orders now"):
        _ = bayes_risk.models.forest


def test_report_is_a_function_even_after_its_package_was_imported():
    importlib.import_module("bayes_risk.reporting")
    assert inspect.isfunction(bayes_risk.report)


def test_models_cannot_be_imported_under_another_name():
    with pytest.raises(ImportError, match="'bayes_risk.models', not 'models'"):
        runpy.run_path(str(ROOT / "models" / "__init__.py"), run_name="models")


def test_every_registered_model_resolves():
    registered = PROJECT["project"]["entry-points"]["bayes_risk.models"]
    assert registered == bayes_risk.models.BUILT_IN
    assert set(registered | bayes_risk.models.PARTS) == set(bayes_risk.models.__all__)
    for name, place in registered.items():
        module, _, attribute = place.partition(":")
        model = getattr(importlib.import_module(module), attribute)
        assert getattr(bayes_risk.models, name) is model


# --- docstrings ------------------------------------------------------------------------------


def documented(item: object, section: str) -> list[str]:
    """Names in a numpydoc section of a docstring."""
    parts = re.split(r"^(\S.*)\n-{3,}$", inspect.getdoc(item) or "", flags=re.MULTILINE)
    body = dict(zip(parts[1::2], parts[2::2], strict=True)).get(section, "")
    entries = [line.partition(":")[0] for line in body.splitlines() if line[:1].strip()]
    return [name.strip(" *") for entry in entries for name in entry.split(",")]


PUBLIC = [n for n in bayes_risk.__all__ if n != "models" and not n.endswith(("Error", "Warning"))]


def test_docstrings_name_the_parameters_of_their_signatures():
    wrong = {}
    for name in PUBLIC:
        item = getattr(bayes_risk, name)
        names = documented(item, "Parameters")
        if dataclasses.is_dataclass(item) and not names:
            names = documented(item, "Attributes")
        if names != list(inspect.signature(item).parameters):
            wrong[name] = names
    assert wrong == {}


def test_methods_say_what_they_do_or_a_base_or_a_protocol_does():
    modules = [importlib.import_module(m) for m in FILES if not m.endswith("__main__")]
    classes = {c for m in modules for c in vars(m).values() if inspect.isclass(c)}
    said = {name for c in classes if getattr(c, "_is_protocol", False) for name in vars(c)}
    assert [
        f"{cls.__module__}.{cls.__name__}.{name}"
        for cls in classes
        if cls.__module__ in FILES and not cls.__name__.startswith("_")
        for name, member in vars(cls).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
        if not (inspect.getdoc(getattr(cls, name)) or name in said)
    ] == []


WITH_EXAMPLES = [m for m in FILES if ">>> " in TEXTS[m]]


@pytest.mark.parametrize("room", sorted({room_of(m) for m in WITH_EXAMPLES}))
def test_examples_in_docstrings_run(room):
    modules = [m.removesuffix(".__init__") for m in WITH_EXAMPLES if room_of(m) == room]
    found = {m: doctest.testmod(importlib.import_module(m)) for m in modules}
    assert [m for m, results in found.items() if results.failed] == []
