"""The layers of docs/architecture.md: which module may import which, names, and the paths of a run and a batch."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOORS = {
    "caches": 0,
    "checksums": 0,
    "errors": 0,
    "declarations": 0,
    "foreign": 0,
    "formatting": 0,
    "verdicts": 0,
    "inputs": 0,
    "parquet": 0,
    "locks": 0,
    "keywords": 0,
    "plaintext": 0,
    "plugin_code": 0,
    "metrics": 0,
    "processors": 0,
    "seeds": 0,
    "sources": 0,
    "stopping": 0,
    "textfiles": 0,
    "tomlfiles": 0,
    "registry": 0,
    "regular": 0,
    "command_line": 2,
    "spec": 1,
    "stats": 1,
    "losses": 1,
    "encoders": 1,
    "method": 2,
    "store": 2,
    "fetching": 2,
    "corpora": 2,
    "evaluation": 2,
    "profiles": 2,
    "setting": 3,
    "grid": 4,
    "papers": 3,
    "training": 3,
    "reporting": 4,
    "planning": 5,
    "runs": 6,
    "work": 7,
    "api": 8,
    "cli": 9,
}
ALONE = ("losses", "stats", "seeds", "errors")
METHODS_MAY = ("harness.method", "harness.losses", "harness.encoders.heads")


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Modules of the house that a file imports, anywhere in it; `from a import b` counts as a.b where b is a module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                found.add(deeper if _is_module(deeper) else node.module)
    return {name for name in found if name.split(".")[0] in ("harness", "harness_methods", "harness_reports")}


def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "harness"


@pytest.mark.parametrize("path", files("harness"), ids=module)
def test_rooms_use_rooms_below_only(path: Path) -> None:
    mine = room(module(path))
    for name in imports(path):
        assert not name.startswith("harness_methods"), (
            f"{module(path)} imports {name}: methods are found by entry point"
        )
        theirs = room(name)
        if theirs in (mine, "harness"):
            continue
        assert mine not in ALONE, f"{module(path)} imports {name}: {mine} imports nothing of the house"
        if mine != "harness":
            below = FLOORS[theirs] < FLOORS[mine] or FLOORS[theirs] == 0
            assert below, f"{module(path)} (floor {FLOORS[mine]}) imports {name} (floor {FLOORS[theirs]})"


@pytest.mark.parametrize("path", files("methods"), ids=module)
def test_methods_enter_by_three_doors_or_extend_each_other(path: Path) -> None:
    for name in imports(path):
        assert name.startswith(METHODS_MAY), f"{module(path)} imports {name}"


def test_no_two_files_import_each_other() -> None:
    graph = {module(path): imports(path) for path in files("harness")}
    graph.pop("harness")  # exports api on first use
    for name, targets in graph.items():
        for target in targets:
            reached, todo = set(), [target]
            while todo:
                current = todo.pop()
                if current not in reached:
                    reached.add(current)
                    todo += graph.get(current, ())
            assert name == target or name not in reached, f"{name} and {target} import each other"


def test_no_two_classes_or_types_share_a_name() -> None:
    """A name means one thing in the whole project."""
    places: dict[str, list[str]] = {}
    for path in files("harness"):
        for node in ast.parse(path.read_text()).body:
            for name in _types(node):
                places.setdefault(name, []).append(module(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def _types(node: ast.stmt) -> list[str]:
    """Public names that a statement of a module gives to a class or a type."""
    if isinstance(node, ast.ClassDef):
        return [] if node.name.startswith("_") else [node.name]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return [name for name in names if name[0].isupper() and not name.isupper()]
    return []


def test_no_two_modules_are_called_sources() -> None:
    assert [module(path) for path in files("harness") if path.stem == "sources"] == ["harness.sources"]


def test_every_room_has_a_floor() -> None:
    rooms = {
        path.stem if path.is_file() else path.name
        for path in (ROOT / "harness").iterdir()
        if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
    }
    assert rooms - {"__init__"} == set(FLOORS)


def test_the_documented_paths_name_files_that_exist_once_each() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text().partition("## The path of a run")[2].partition("\n## ")[0]
    paths = [re.findall(r"`((?:harness|methods)/[\w/]+\.py)`", part) for part in text.split("A batch, from")]
    assert all(len(listed) >= 8 for listed in paths)
    for listed in paths:
        assert sorted(set(listed)) == sorted(listed)
        assert [name for name in listed if not (ROOT / name).is_file()] == []


def test_no_two_test_files_share_a_name() -> None:
    """The test folders are no packages: pytest would refuse the second."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
