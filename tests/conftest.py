"""Fixtures that find the shared data beside the checkout, and skip loudly where it is absent."""

from __future__ import annotations

import gc
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from harness.errors import UserError

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# tests compare what is computed alone and by two at a time; several threads would add in another
# order
os.environ.setdefault("OMP_NUM_THREADS", "1")
# tests compare with numbers of a processor; `harness doctor --device cuda` tests a card
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# a shell's background job ignores Ctrl-C, and so would every command that a test starts and
# interrupts
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# before any test file imports the hub's client, which reads it once
os.environ["HF_HUB_OFFLINE"] = "1"
# what runs in bf16 here is small enough for a processor that emulates it
os.environ.setdefault("HARNESS_EMULATE_BF16", "1")

# a busy machine fails no property: what is drawn is slow there, not wrong
settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")

#: fixtures that tests of several rooms use
pytest_plugins = ["plugin_packages", "cli_words"]

#: the files that take longest, which start first, so that no worker waits for another at the end
LONGEST = (
    *(
        "test_commands",
        "test_fetch_command",
        "test_tiny_bar",
        "test_cli",
        "test_ray",
        "test_mteb_suite",
    ),
    *(
        "test_devices",
        "test_export",
        "test_sts",
        "test_declarations",
        "test_api",
        "test_train",
        "test_local",
    ),
    *("test_rehearsal", "test_chunks", "test_build"),
)

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--order",
        type=int,
        metavar="SEED",
        help="files, and tests of a file, in the order of a seed",
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, a check that a package would bring is not skipped: the reason tells how to install it."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter and os.environ.get("CI") else []
    lacking = sorted(
        {report.longrepr[2] for report in skipped if "; install " in report.longrepr[2]}
    )
    if lacking:
        reporter.write_line("not to be skipped in CI: " + " / ".join(lacking), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order files by length, where tests of a file keep their order; all of them by a seed if there
    is one.
    """
    seed = config.getoption("--order")
    if seed is not None:
        chance = random.Random(seed)
        files = {path: chance.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (files[item.path], chance.random()))
        return
    ranks = {f"{name}.py": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))


def pytest_collection_finish() -> None:
    """Leave what tests have imported out of the collection of garbage, and collect less often: both
    took a quarter of the processor's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _found(path: Path, what: str) -> Path:
    if not path.is_dir():
        pytest.skip(
            f"{what} is not at {path.name}/ beside the checkout; this check against real data did not run"
        )
    return path


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The data bundle: HARNESS_DATA, else shared/data beside the checkout."""
    return _found(Path(os.environ.get("HARNESS_DATA") or SHARED / "data"), "the data bundle")


@pytest.fixture(scope="session")
def papers_root() -> Path:
    """Published numbers and hyperparameters as transcribed from the papers."""
    return _found(SHARED / "papers", "the folder of the papers' numbers")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests share one cache of their own, also between processes, and never touch the user's."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HARNESS_CACHE", str(folder / "cache"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _runs_in_this_process() -> Iterator[None]:
    """Runs happen where a test can look at them, without the seconds that a process takes to start.

    The executor of users is tested by name, in tests/work/test_local.py.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("harness.work.base.DEFAULT", "serial")
        yield


@pytest.fixture(scope="module")
def small_toy_tests() -> Iterator[None]:
    """Tests of the toy world with a tenth of their pairs and pictures, for files that ask for no
    number of the whole ones and compare no run of theirs with that of another process.
    """
    from harness.toy.tasks import TOY_RETRIEVAL, TOY_STS, TOY_STS_DEV

    with pytest.MonkeyPatch.context() as patched:
        for task in (TOY_STS, TOY_STS_DEV):
            sizes = {subset: size // 10 for subset, size in task.sizes.items()}
            patched.setattr(task, "sizes", sizes)
        patched.setattr(TOY_RETRIEVAL.pairs, "size", TOY_RETRIEVAL.pairs.size // 10)
        yield


@pytest.fixture(autouse=True, scope="session")
def _errors_have_one_line() -> Iterator[None]:
    """What a user reads of an error is one line, whichever test meets it."""

    def made(error: UserError, *given: object) -> None:
        Exception.__init__(error, *given)
        assert not [text for text in given if "\n" in str(text)], "an error of several lines"

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(UserError, "__init__", made)
        yield
