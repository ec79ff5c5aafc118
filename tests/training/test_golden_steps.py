"""The numbers of every method's first steps, by backend: where one moves, BACKEND_VERSION must be
raised.

`python tests/training/test_golden_steps.py` (with tests/ in PYTHONPATH) adds the entry of a new
backend; an entry that is there is never changed, so that finished results keep their numbers.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
import torch
from toy_trainers import first_steps, trainer

from harness.method import method_named
from harness.registry import OWN, find_target, list_registered
from harness.store import BACKEND_VERSION

FILE = Path(__file__).resolve().parents[1] / "golden" / "first_steps.json"
#: processors round differently, which an update enlarges
CLOSE = 2e-3
METHODS = [
    name
    for name in list_registered("method")
    if find_target("method", name).split(".")[0] in OWN and method_named(name).trains
]


def first_terms(name: str, folder: Path) -> dict[str, float]:
    """The mean of each loss term over the first step of each kind of batch and one more, each after
    an update.
    """
    training = trainer(f"{name}@paper", "fp32", torch.device("cpu"), folder, profile="tiny")
    firsts = sorted({0, *first_steps(training)})
    with torch.random.fork_rng():
        for step in (*firsts, firsts[-1] + 1):
            training._step(step)
    return training.state.window.close()


@pytest.mark.parametrize("name", METHODS)
def test_the_numbers_of_this_backend_stay(name: str, tmp_path: Path) -> None:
    terms, golden = (
        first_terms(name, tmp_path),
        json.loads(FILE.read_text())[str(BACKEND_VERSION)][name],
    )
    assert terms == pytest.approx(golden, rel=CLOSE, abs=1e-5), (
        "these numbers have changed: raise BACKEND_VERSION"
    )


if __name__ == "__main__":
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    assert str(BACKEND_VERSION) not in known, (
        "this backend has its numbers; raise BACKEND_VERSION for others"
    )
    with tempfile.TemporaryDirectory() as folder:
        entry = {name: first_terms(name, Path(folder) / name) for name in METHODS}
    FILE.write_text(json.dumps({**known, str(BACKEND_VERSION): entry}, indent=2) + "\n")
