"""Each job in a process of its own: on cores for real, on GPUs that do not exist; what dies and
what stops.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import executor_jobs
import pytest
from executor_jobs import Errand, errand, ignore, jobs, performed, stubs

import harness
from harness.cli.run import describe_cards
from harness.events import Event, forward_to_both
from harness.processors import count_cores
from harness.runs.execution import Execution, Jobs
from harness.work.forkserver import SERVER_ENVIRONMENT
from harness.work.job import End, Job, Prepared
from harness.work.local import Local
from harness.work.queue import Queue
from harness.work.resources import Resources, Seat, Seats, list_visible_cards

#: eight cards of 80 GB
BOX = [f"GPU-{number}" for number in range(8)]

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc"
)


def seats_on(cards: list[str], jobs: int | None = None) -> Seats:
    """Seats on cards that no other process uses."""
    return Seats(jobs, cards, lambda name: (80_000, 80_000))


class Box(Local):
    """The local executor on a machine with eight GPUs."""

    def make_seats(self, queue: Queue) -> Seats:
        return seats_on(BOX, None if self.options.jobs == "auto" else self.options.jobs)


def local(jobs: int = 1) -> Local:
    return Local(Execution(jobs=jobs, device="cpu"))


def test_a_process_that_dies_costs_its_job_and_what_needs_it_and_jobs_share_the_cores(
    tmp_path: Path,
) -> None:
    dead = errand(tmp_path, "dead", killed=True)
    first, second = stubs(tmp_path, 2)
    ends = local(2).execute([first, dead, errand(tmp_path, "after", dead), second], ignore)
    errors = {end.id.rstrip("-"): end.error for end in ends if isinstance(end, Prepared)}
    assert (errors["stub-0"], errors["stub-1"]) == ("", "")
    assert errors["dead"].startswith("its process ended with code -9")
    assert errors["after"] == f"dead failed, which is needed here: {errors['dead']}"
    assert {note["cores"] for note in performed(tmp_path)} == {max(1, count_cores() // 2)}


def test_jobs_on_cards_see_their_own_alone_and_are_repeated_alone_where_they_did_not_fit(
    tmp_path: Path,
) -> None:
    pairs = stubs(tmp_path, 4, memory_mb=30_000)
    greedy, hopeless, without, broken = stubs(tmp_path, 8, memory_mb=20_000)[4:]
    odd = [replace(greedy, wants=0.5), replace(hopeless, wants=2.0), replace(without, memory_mb=0)]
    ends = Box(Execution(jobs="auto")).execute(
        [*pairs, *odd, replace(broken, wants=lambda: None)], ignore
    )
    errors = {end.id: end.error for end in ends if isinstance(end, Prepared)}
    assert len(errors) == 8
    assert {key: error for key, error in errors.items() if error} == {
        hopeless.id: errors[hopeless.id],
        broken.id: errors[broken.id],
    }
    for part in ("out of memory", "--chunk", "batch_size"):
        assert part in errors[hopeless.id]
    assert errors[broken.id].startswith("it cannot be sent to its process: ")
    notes_of = {
        job.id: [note for note in performed(tmp_path) if note["name"] == job.key]
        for job in [*pairs, *odd]
    }
    assert len({note["pid"] for each in notes_of.values() for note in each}) == 9, (
        "one process a job and attempt"
    )
    for job in odd[:2]:
        assert [round(note["share"], 2) for note in notes_of[job.id]] == [0.25, 1.0]
    assert [note["card"] for note in notes_of[without.id]] == [""]
    assert {round(note["share"], 3) for job in pairs for note in notes_of[job.id]} == {0.375}
    assert {note["card"] for job in pairs for note in notes_of[job.id]} <= set(BOX)


#: an interpreter that ends at once in place of the server
NO_SERVER = """
import multiprocessing, sys
from harness.errors import UserError
from harness.work.forkserver import start
multiprocessing.set_executable("/bin/false")
try:
    start(print, environment={})
except UserError as error:
    print(error)
"""


def test_a_server_that_cannot_start_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_SERVER], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"no process for runs can be started.*--executor serial\n", done.stdout), (
        done.stderr
    )


class Patricide(Errand):
    """Kills the server that its process was forked from, and goes on."""

    def carry_out(self, seat: Seat) -> End:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
        raise AssertionError


@pytest.mark.long
def test_a_server_that_is_killed_costs_the_jobs_in_work_and_starts_again(tmp_path: Path) -> None:
    first, second = errand(tmp_path, "first", made=Patricide), errand(tmp_path, "second")
    begun = time.monotonic()
    errors = [
        end.error for end in local().execute([first, second], ignore) if isinstance(end, Prepared)
    ]
    assert errors == ["its process ended with code 255 before the run did", ""]
    with first.store.lock(first.id) as free:
        assert free, "the process is gone too"
    assert time.monotonic() - begun < 50


@pytest.mark.parametrize(
    ("cards", "jobs", "each_mb", "taken", "share"),
    [
        pytest.param(
            8, None, 30_000, [*range(8), *range(8), None], 0.375, id="80 GB hold two of 30"
        ),
        pytest.param(
            1, None, 1_000, [0, 0, 0, 0, None], 0.0125, id="the runs of a card share its processors"
        ),
        pytest.param(
            8, 4, 20_000, [0, 1, 2, 3, None], 1.0, id="alone on a card, a job has no limit"
        ),
    ],
)
def test_cards_are_shared_by_memory(
    cards: int, jobs: int | None, each_mb: int, taken: list[int | None], share: float
) -> None:
    seats = seats_on(BOX[:cards], jobs)
    given = [
        seats.take(str(number), lambda: Resources(gpu_memory_mb=each_mb))
        for number in range(len(taken))
    ]
    assert [seat and seat.card for seat in given] == taken
    assert [seat.environment["CUDA_VISIBLE_DEVICES"] for seat in given if seat] == [
        BOX[card] for card in taken if card is not None
    ]
    assert {round(seat.gpu_share, 4) for seat in given if seat} == {share}


def test_what_others_use_of_a_card_is_not_given_away_and_asked_again_before_each_start() -> None:
    free = {"full": 500.0, "empty": 79_000.0}
    seats = Seats(None, list(free), lambda name: (free[name], 80_000))
    first, second = (seats.take(str(number), small) for number in range(2))
    assert [seat.card for seat in (first, second) if seat] == [1, 1]
    free["empty"] = 1_000.0
    assert seats.take("third", small) is None, "another process has taken the rest"
    assert "expandable_segments:True" in first.environment.values()


def test_every_mig_instance_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a, MIG-b")
    assert list_visible_cards() == ["MIG-a", "MIG-b"]


#: what the server imports, beside a distribution of the name flash-attn, and whether a child could
#: use CUDA
FLASH = """
import os, sys
sys.path.insert(0, sys.argv[1])
import torch
torch.cuda._device_count_nvml = lambda: 1  # as the driver's library answers where there is a card
import harness.work.preload
if (child := os.fork()) == 0:
    os._exit(torch.cuda._is_in_bad_fork())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.long
def test_no_import_of_the_server_uses_cuda_with_flash_attn_installed(tmp_path: Path) -> None:
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn" / "__init__.py").write_text("")
    about = tmp_path / "flash_attn-2.8.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.0\n")
    (about / "top_level.txt").write_text("flash_attn\n")
    (about / "RECORD").write_text("flash_attn/__init__.py,,\n")
    environment = {**os.environ, **SERVER_ENVIRONMENT, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", FLASH, str(tmp_path)], env=environment, check=True)


def test_cards_are_packed_by_what_the_first_run_reports_before_any_has_ended(
    tmp_path: Path,
) -> None:
    seats, listed = (
        seats_on(BOX),
        jobs(tmp_path, "simcse", seeds=tuple(range(40)), batch_size=38_000),
    )
    queue = Queue(listed)

    def started() -> int:
        def fits(job: Job) -> bool:
            return seats.take(job.id, lambda: queue.estimate_resources(job)) is not None

        return len(list(iter(lambda: queue.take(fits), None)))

    assert 40_000 < queue.estimate_resources(listed[0]).gpu_memory_mb < 60_000, (
        "one of them a card by the table"
    )
    assert started() == 8
    forward_to_both(queue.observe_memory, ignore)(
        Event("progress", listed[0].key, device="cuda", memory_mb=6_000)
    )
    assert started() == 24, "80 GB hold one of 49 and three of 8 more"


def small() -> Resources:
    return Resources(gpu_memory_mb=20_000)


def test_jobs_without_a_card_have_as_many_seats_after_one_has_ended() -> None:
    seats = seats_on(BOX[:1])

    def free() -> list[Seat]:
        return list(iter(lambda: seats.take("tokens", Resources), None))

    first = free()
    assert first
    assert {seat.environment["CUDA_VISIBLE_DEVICES"] for seat in first} == {""}
    for seat in first:
        seats.free(seat)
    assert len(free()) == len(first)


def test_a_large_job_gets_a_card_although_small_ones_wait() -> None:
    seats = seats_on(BOX[:2])
    taken = [seats.take(str(number), small) for number in range(4)]
    assert [seat.card for seat in taken if seat] == [0, 1, 0, 1]

    def large() -> Resources:
        return Resources(gpu_memory_mb=80_000)

    assert seats.take("large", large) is None
    for number, seat in enumerate(taken):
        assert seat is not None
        seats.free(seat)
        later = seats.take(f"later {number}", small)
        assert later is None or later.card == 1, "the first card is kept for the large job"
    last = seats.take("large", large)
    assert (last.card, last.gpu_share) == (0, 1.0)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs, that have not ended."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            parents |= {int(path.parent.name): int(parent)} if state != "Z" else {}
    mine = [child for child, parent in parents.items() if parent == pid]
    return mine + [deeper for child in mine for deeper in descendants(child)]


def gone(pids: list[int]) -> bool:
    """Whether processes end within a minute."""
    limit = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < limit:
        time.sleep(0.02)
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.long
@needs_proc
def test_sigterm_stops_after_saving_and_the_same_command_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    chosen = {"methods": "simcse", "seeds": 1, "suites": "sts", "settings": "toy-text"}
    code = "import sys; from harness.cli.main import main; main()"
    for steps in (120, 480, 1920):  # on a busy machine, a short run ends before the signal comes
        values = {"steps": steps, "eval_every": steps, "batch_size": 16}
        words = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
        words += [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        words += [
            "--jobs",
            "2",
            "--executor",
            "local",
            "--results",
            str(stopped := tmp_path / str(steps)),
        ]
        driver = subprocess.Popen(
            [sys.executable, "-c", code, "run", "--profile", "tiny", *words],
            stdout=-1,
            stderr=-1,
            text=True,
        )
        while "  step " not in (line := driver.stdout.readline()):
            assert line, driver.communicate()
        processes = descendants(driver.pid)
        driver.send_signal(signal.SIGTERM)
        _, errors = driver.communicate(timeout=300)
        assert driver.returncode in (128 + signal.SIGTERM, 0)
        if not [*stopped.glob("tiny/*/*/*/*.json")]:
            break
    assert "SIGTERM: stopping after the current runs have saved" in errors
    assert "interrupted; run the same command again to resume" in errors
    assert gone(processes)
    # the last step may have been done before
    assert [*stopped.glob(".work/*/checkpoint-*.pt"), *stopped.glob(".work/*/trained.json")]
    resumed, whole = (
        harness.run("tiny", results=folder, set=values, executor=executor, **chosen)
        for folder, executor in ((stopped, "local"), (tmp_path / "whole", "serial"))
    )
    ((continued,), (other,)) = resumed.runs, whole.runs
    assert continued.evaluations[0].scores == other.evaluations[0].scores, (
        "in a process of its own as in this one"
    )
    assert (continued.losses, continued.dev) == (other.losses, other.dev)


#: two jobs that never end by themselves
FOREVER = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from executor_jobs import ignore, stubs
from harness.runs.execution import Execution
from harness.work.local import Local
Local(Execution(jobs=2, device="cpu")).execute(stubs(Path(sys.argv[2]), 2, seconds=600), ignore)
"""


@needs_proc
@pytest.mark.parametrize(
    "signals",
    [[signal.SIGKILL], pytest.param([signal.SIGINT, signal.SIGINT], marks=pytest.mark.long)],
)
def test_no_process_outlives_its_driver(tmp_path: Path, signals: list[int]) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", FOREVER, str(Path(executor_jobs.__file__).parent), str(tmp_path)],
        stderr=-1,
    )
    limit = time.monotonic() + 120
    while (
        len(processes := descendants(driver.pid)) < 4
        and driver.poll() is None
        and time.monotonic() < limit
    ):
        time.sleep(0.1)
    assert len(processes) == 4, (
        "two jobs, the process that starts them, and the tracker of multiprocessing"
    )
    for number in signals:
        driver.send_signal(number)
        time.sleep(0.3)
    driver.communicate(timeout=300)
    assert gone(processes)


@pytest.mark.parametrize(
    ("cards", "runs", "jobs", "line"),
    [
        (8, 40, "auto", "8 GPUs, 4 runs each"),
        (8, 10, None, "8 GPUs, 2 runs each"),
        (1, 40, 1, "1 GPU, 1 run each"),
    ],
)
def test_the_default_is_the_whole_box_and_the_plan_says_how_many_runs_a_card_has(
    cards: int,
    runs: int,
    jobs: Jobs | None,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("harness.runs.execution.has_cuda", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: cards)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    describe_cards(runs, jobs, "auto")
    assert line in capsys.readouterr().out
    describe_cards(runs, jobs, "cpu")
    assert not capsys.readouterr().out
    assert (Local.default_jobs("auto"), Local.default_jobs("cpu")) == ("auto", 1)
    monkeypatch.setattr("harness.runs.execution.has_cuda", lambda: False)
    assert Local.default_jobs("auto") == 1
