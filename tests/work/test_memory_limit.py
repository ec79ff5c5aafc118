"""Memory that ends: a worker that Linux killed for lack of it is told from one that somebody
killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from executor_jobs import Errand, errand, ignore

from harness import processors
from harness.runs.execution import Execution, Seat
from harness.work.job import End, Prepared
from harness.work.local import Local
from harness.work.resources import measure_free_memory

VERSIONS = {
    "2": ("0::/box/job", "box/job/memory.events", "low 0\noom 3\noom_kill {}\noom_group_kill 9\n"),
    "1": (
        "9:name=x:/\n4:memory:/box/job\n0::/",
        "memory/box/job/memory.oom_control",
        "oom_kill_disable 7\noom_kill {}\n",
    ),
    "2 in a container": ("0::/of/the/host", "memory.events", "oom_kill {}\n"),
}


@pytest.fixture(params=VERSIONS)
def counter(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The file in which a control group counts; its text has a place for the number."""
    named, file, text = VERSIONS[request.param]
    own, path = tmp_path / "own", tmp_path / "groups" / file
    own.write_text(named)
    path.parent.mkdir(parents=True)
    path.write_text(text.format(2))
    monkeypatch.setattr(processors, "OWN_GROUPS", own)
    monkeypatch.setattr(processors, "GROUPS", tmp_path / "groups")
    return path


@dataclass(frozen=True, eq=False)
class Hungry(Errand):
    """Is killed by SIGKILL, which the control group at `counter` counts."""

    counter: Path = Path()

    def carry_out(self, seat: Seat) -> End:
        self.counter.write_text(self.counter.read_text().replace("kill 2", "kill 3"))
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_who_killed_a_worker(counter: Path, tmp_path: Path) -> None:
    hungry = errand(tmp_path, "by the kernel", made=Hungry, counter=counter)
    ends = Local(Execution(jobs=1, device="cpu")).execute(
        [hungry, errand(tmp_path, "by a user", killed=True)], ignore
    )
    kernel, user = (end.error for end in ends if isinstance(end, Prepared))
    assert kernel.startswith("out of memory: Linux killed its process; ")
    assert all(option in kernel for option in ("--chunk", "--set batch_size", "--jobs"))
    assert user.startswith("its process ended with code -9 (SIGKILL)")


def test_kills_are_counted_by_the_group_else_by_the_machine(
    counter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert processors.count_memory_kills() == 2
    counter.unlink()
    (tmp_path / "machine").write_text("pgmajfault 8\noom_kill 5\n")
    monkeypatch.setattr(processors, "COUNTERS", tmp_path / "machine")
    assert processors.count_memory_kills() == 5
    (tmp_path / "machine").unlink()
    assert processors.count_memory_kills() == 0


@pytest.mark.parametrize(
    ("version", "files", "free"),
    [
        (
            "2",
            {
                "job/memory.max": "max",
                "job/memory.current": "5",
                "memory.max": "3000000",
                "memory.current": "1",
            },
            2.999999,
        ),
        ("2", {"job/memory.max": "2000000", "job/memory.current": "500000"}, 1.5),
        (
            "1",
            {"job/memory.limit_in_bytes": "4000000", "job/memory.usage_in_bytes": "1000000"},
            3.0,
        ),
    ],
)
@pytest.mark.parametrize("counter", ["2"], indirect=True)
def test_free_memory_is_that_of_the_narrowest_group(
    version: str, files: dict[str, str], free: float, counter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = processors.GROUPS / ("" if version == "2" else "memory")
    processors.OWN_GROUPS.write_text(VERSIONS[version][0])
    for name, text in files.items():
        path = mount / "box" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert measure_free_memory() == free


#: a command of its own in a control group of 1.2 GB, in which a run asks for 4 GB
BOXED = """
import os, sys
from pathlib import Path
group, results = Path(sys.argv[1]), Path(sys.argv[2])
(group / "cgroup.procs").write_text(str(os.getpid()))
sys.path[:0] = sys.argv[3:]
from executor_jobs import errand, ignore
from test_memory_limit import Large
from harness.work.local import Local
(end,) = Local(Execution(jobs=1, device="cpu")).execute([errand(results, "large", made=Large)], ignore)
print(end.error)
"""


class Large(Errand):
    """Takes more memory than the group has."""

    def carry_out(self, seat: Seat) -> End:
        bytearray(b"x") * (4 << 30)
        raise AssertionError


@pytest.mark.faults
def test_a_worker_that_a_real_control_group_ends(tmp_path: Path) -> None:
    group = next(
        (
            group
            for group in processors.list_memory_groups()
            if os.access(group / "cgroup.procs", os.W_OK)
        ),
        None,
    )
    limit = next(
        (
            name
            for name in ("memory.max", "memory.limit_in_bytes")
            if group and (group / name).is_file()
        ),
        None,
    )
    if group is None or limit is None:
        pytest.skip(
            "no control group can be made here; run this as root, or with a delegated group"
        )
    box = group / "harness-test"
    box.mkdir()
    try:
        (box / limit).write_text(str(1200 << 20))
        folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
        command = [sys.executable, "-c", BOXED, str(box), str(tmp_path), *folders]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        box.rmdir()
    assert done.stdout.startswith("out of memory: Linux killed its process; "), done.stderr
