"""Mutants: small changes of lines that tests execute, each tried with the tests that execute its
line.

    python tests/mutants.py [--count 75] [--seed 0] [--rooms harness/stats,methods] [--coverage
    FILE] [TESTS OF PYTEST]

Works in a copy of the checkout. Prints each mutant that no test noticed, and the share that was
noticed. A mutant turns a comparison or a condition, exchanges an operator, changes a number, or
leaves out the last keyword of a call or a whole call. No library does this: mutmut tries all
mutants of the files that it is given, cosmic-ray runs the same tests for each, and mutatest draws a
sample but does not choose tests by line.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import click
import pytest
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
#: seconds after which the tests of a mutant count as failed: it may loop for ever
LIMIT = 300
#: what the tests import and the harness does not change
LIBRARIES = "hypothesis,pandas,pyarrow,scipy.stats,sklearn.linear_model,torch,transformers"
TURNED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    **{
        ast.Lt: ast.LtE,
        ast.LtE: ast.Lt,
        ast.Gt: ast.GtE,
        ast.GtE: ast.Gt,
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
    },
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
EXCHANGED: Mapping[type[ast.operator], type[ast.operator]] = {
    **{
        ast.Add: ast.Sub,
        ast.Sub: ast.Add,
        ast.Mult: ast.Div,
        ast.Div: ast.Mult,
        ast.FloorDiv: ast.Div,
    },
    **{ast.Mod: ast.Mult, ast.Pow: ast.Mult},
}


@dataclass(frozen=True)
class Mutant:
    """A change at a place (first and last byte) of a file, and the tests that execute the line."""

    path: Path
    line: int
    start: int
    end: int
    after: str
    tests: tuple[str, ...]


def changed(node: ast.AST) -> ast.AST | None:
    """The mutant of a node; None for a node that has none."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=others) if type(op) in TURNED:
            return ast.Compare(left, [TURNED[type(op)]()], others)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in EXCHANGED and not any(
            map(is_text, (left, right))
        ):
            return ast.BinOp(left, EXCHANGED[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            return ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            return ast.Constant(value + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Call(func=func, args=args, keywords=[*before, last]) if last.arg:
            return ast.Call(func, args, before)
        case ast.Expr(value=ast.Call()):
            return ast.Constant(None)
    return None


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def without_behaviour(tree: ast.AST) -> set[int]:
    """Nodes of annotations, docstrings, parts of texts and the wording of errors."""
    roots: list[ast.AST] = []
    for node in ast.walk(tree):
        roots += [
            part
            for name in ("annotation", "returns")
            if isinstance(part := getattr(node, name, None), ast.AST)
        ]
        if isinstance(node, ast.Raise) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            roots.append(node)
    return {id(part) for root in roots for part in ast.walk(root)}


def mutants_of(path: Path, tests_by_line: Mapping[int, list[str]]) -> Iterator[Mutant]:
    source = path.read_text("utf-8")
    tree, starts = ast.parse(source), [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    left_out = without_behaviour(tree)
    for node in ast.walk(tree):
        made = None if id(node) in left_out else changed(node)
        tests = sorted(
            {test.rpartition("|")[0] for test in tests_by_line.get(getattr(node, "lineno", 0), ())}
            - {""}
        )
        if made is None or not tests:
            continue
        text = ast.unparse(ast.fix_missing_locations(made)).replace("\n", " ")
        ends = (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )
        yield Mutant(
            path,
            node.lineno,
            *ends,
            text if isinstance(made, ast.Constant) else f"({text})",
            tuple(tests),
        )


def in_parts(tests: Sequence[str], size: int, rng: random.Random) -> list[list[str]]:
    """All tests in random order, `size` at a time."""
    shuffled = rng.sample(tests, len(tests))
    return [shuffled[at : at + size] for at in range(0, len(shuffled), size)]


def copied(folder: Path) -> Path:
    """A copy of the checkout with packages of its own, and with the shared data beside it."""
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    copy = folder / "checkout"
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    if (shared := ROOT.parent / "shared").is_dir():
        (folder / "shared").symlink_to(shared.resolve())
    (folder / "packages").mkdir()
    for package, of in (
        ("harness", "harness"),
        ("harness_methods", "methods"),
        ("harness_reports", "reports"),
    ):
        (folder / "packages" / package).symlink_to(copy / of)
    return copy


def exit_code(copy: Path, *words: str, limit: int = 0) -> int:
    """The exit code of pytest in a process with the copy's packages; below 0 for one that a signal
    ended.
    """
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.alarm(limit)
        for stream in (1, 2):
            os.dup2(
                os.open(copy.parent / "last.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream
            )
        packages = str(copy.parent / "packages")
        os.environ["PYTHONPATH"] = packages
        sys.path.insert(0, packages)
        os.chdir(copy)
        os._exit(
            pytest.main(
                ["-q", "-p", "no:cacheprovider", f"--basetemp={copy.parent / 'tmp'}", *words]
            )
        )
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what its tests have left
    return os.waitstatus_to_exitcode(status)


def is_noticed(mutant: Mutant, copy: Path, tests: list[str], number: int) -> bool:
    """Whether one of some tests fails; the time of the file is the mutant's own, since compiled
    files go by it.
    """
    source, times = mutant.path.read_bytes(), mutant.path.stat()
    mutant.path.write_bytes(source[: mutant.start] + mutant.after.encode() + source[mutant.end :])
    os.utime(mutant.path, (times.st_atime, times.st_mtime + 2 * number))
    try:
        code = exit_code(copy, "-x", "-p", "no:xdist", *tests, limit=LIMIT)
    finally:
        mutant.path.write_bytes(source)
        os.utime(mutant.path, (times.st_atime, times.st_mtime))
    return code != 0


@click.command(help=__doc__)
@click.option("--count", default=75, show_default=True, help="Mutants to try.")
@click.option("--seed", default=0, show_default=True, help="Seed of the draw.")
@click.option(
    "--rooms", default="harness,methods", show_default=True, help="Folders and files, with commas."
)
@click.option(
    "--tests",
    "size",
    default=25,
    show_default=True,
    help="Tests of a mutant in one process; the next follow where these pass.",
)
@click.option(
    "--coverage",
    type=click.Path(path_type=Path),
    help="Which test executes which line; made if absent.",
)
@click.option(
    "--libraries",
    default=LIBRARIES,
    show_default=True,
    help="What is imported once for all mutants.",
)
@click.argument("suite", nargs=-1)
def main(
    count: int,
    seed: int,
    rooms: str,
    size: int,
    coverage: Path | None,
    libraries: str,
    suite: tuple[str, ...],
) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    copy, rng = copied(folder), random.Random(seed)
    coverage = (coverage or folder.with_suffix(".coverage")).absolute()
    if not coverage.exists():
        os.environ["COVERAGE_FILE"] = str(coverage)
        chosen = suite or ("-n", "2", "--dist", "loadfile")
        if exit_code(
            copy, "--cov=harness", "--cov=methods", "--cov-context=test", "--cov-report=", *chosen
        ):
            raise click.ClickException(
                f"not all tests pass without a mutant: {folder / 'last.log'}"
            )
        click.echo(f"coverage: {coverage}")
    for name in filter(None, libraries.split(",")):
        import_module(name)
    data = CoverageData(str(coverage))
    data.read()
    pool: list[Mutant] = []
    for name in sorted(data.measured_files()):
        if (
            any(Path(name).is_relative_to(room) for room in rooms.split(","))
            and (copy / name).is_file()
        ):
            pool += mutants_of(copy / name, data.contexts_by_lineno(name))
    tried = [
        (mutant, in_parts(mutant.tests, size, rng))
        for mutant in rng.sample(pool, min(count, len(pool)))
    ]
    click.echo(f"{len(pool)} mutants of executed lines; trying {len(tried)}")
    if exit_code(
        copy, "--collect-only", *sorted({test for mutant, _ in tried for test in mutant.tests})
    ):
        raise click.ClickException(f"{coverage} names tests that are not there; leave it out")
    noticed = 0
    for number, (mutant, parts) in enumerate(tried, 1):
        if any(is_noticed(mutant, copy, tests, number) for tests in parts):
            noticed += 1
            continue
        before = mutant.path.read_bytes()[mutant.start : mutant.end].decode()
        place = f"{mutant.path.relative_to(copy)}:{mutant.line}"
        click.echo(f"not noticed  {place}: {before} -> {mutant.after}  ({len(mutant.tests)} tests)")
    click.echo(f"{noticed} of {len(tried)} noticed ({noticed / max(1, len(tried)):.0%})")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
