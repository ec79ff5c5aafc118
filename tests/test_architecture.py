"""The layers of docs/architecture.md: which module may import which, names, and the paths of a run
and a batch.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from harness.code import UNDECLARED_ROOMS

ROOT = Path(__file__).resolve().parents[1]
#: small modules that all others may import; each imports only those before it
SHARED = (
    *(
        "documents",
        "errors",
        "seeds",
        "stopping",
        "events",
        "spec",
        "metrics",
        "formatting",
        "processors",
        "within",
        "locks",
        "registry",
    ),
    *(
        "tomlfiles",
        "files",
        "census",
        "datafiles",
        "columnar",
        "datarows",
        "remarks",
        "columns",
        "caches",
        "sources",
        "arrays",
    ),
    *("syntax", "code"),
)
FLOORS = {
    **{name: (number - len(SHARED)) for number, name in enumerate(SHARED)},
    **dict.fromkeys(("stats", "losses", "encoders"), 1),
    **dict.fromkeys(
        ("command_line", "method", "store", "fetching", "corpora", "evaluation", "profiles"), 2
    ),
    **dict.fromkeys(("setting", "commands", "papers", "toy", "training"), 3),
    **dict.fromkeys(("grid", "reporting"), 4),
    **{"planning": 5, "runs": 6, "work": 7, "api": 8, "reading": 8, "cli": 9},
}
ALONE = ("losses", "stats", "seeds", "errors")
METHODS_MAY = ("harness.method", "harness.losses", "harness.encoders.heads")


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> set[str]:
    """Modules of the house that a file imports, anywhere in it; `from a import b` counts as a.b
    where b is a module.
    """
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                modules.add(deeper if _is_module(deeper) else node.module)
    return {
        name
        for name in modules
        if name.split(".")[0] in ("harness", "harness_methods", "harness_reports")
    }


def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "harness"


def test_a_module_imports_from_its_room_and_from_below() -> None:
    above = [
        f"{module(path)} imports {name}"
        for path in files("harness")
        for name in imports(path)
        if room(module(path)) != "harness" and room(name) not in (room(module(path)), "harness")
        if not FLOORS[room(name)] < FLOORS[room(module(path))] or room(module(path)) in ALONE
    ]
    assert above == []


def test_methods_are_found_by_entry_point_and_use_three_doors() -> None:
    assert [
        path
        for path in files("harness")
        if any(name.startswith("harness_methods") for name in imports(path))
    ] == []
    doors = {name for path in files("methods") for name in imports(path)}
    assert [name for name in doors if not name.startswith(METHODS_MAY)] == []


def test_no_declared_class_depends_on_a_room_whose_changes_keep_declarations() -> None:
    asked = {"method", "evaluation"}  # rooms of their floor; others have lower ones
    above = {name for name, floor in FLOORS.items() if floor >= FLOORS["method"]} - asked
    assert above == UNDECLARED_ROOMS


def test_no_two_files_import_each_other() -> None:
    graph = {module(path): imports(path) - {module(path)} for path in files("harness")}
    graph.pop("harness")  # exports api and reading on first use
    TopologicalSorter(graph).prepare()


def test_no_two_classes_or_types_share_a_name() -> None:
    """A name means one thing in the whole project."""
    places: dict[str, list[str]] = {}
    for path in files("harness"):
        for node in ast.parse(path.read_text()).body:
            for name in _types(node):
                places.setdefault(name, []).append(module(path))
    assert {name: homes for name, homes in places.items() if len(homes) > 1} == {}


def _types(node: ast.stmt) -> list[str]:
    """Public names that a statement of a module gives to a class or a type."""
    if isinstance(node, ast.ClassDef):
        return [] if node.name.startswith("_") else [node.name]
    if isinstance(node, ast.Assign) and isinstance(
        node.value, ast.Subscript | ast.BinOp | ast.Name
    ):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return [name for name in names if name[0].isupper() and not name.isupper()]
    return []


def test_every_room_has_a_floor() -> None:
    rooms = {
        path.stem if path.is_file() else path.name
        for path in (ROOT / "harness").iterdir()
        if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
    }
    assert rooms - {"__init__"} == set(FLOORS)


def test_the_documented_paths_name_files_that_exist_once_each() -> None:
    text = (
        (ROOT / "docs" / "architecture.md")
        .read_text()
        .partition("## The path of a run")[2]
        .partition("\n## ")[0]
    )
    paths = [
        re.findall(r"`((?:harness|methods)/[\w/]+\.py)`", part)
        for part in text.split("A batch, from")
    ]
    assert all(len(listed) >= 8 for listed in paths)
    for listed in paths:
        assert sorted(set(listed)) == sorted(listed)
        assert [name for name in listed if not (ROOT / name).is_file()] == []


def test_no_two_test_files_share_a_name() -> None:
    """The test folders are no packages: pytest would refuse the second."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
