"""`harness doctor --device`: the short form on the CPU, and what it says where a device computes
something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from harness.cli.main import cli
from harness.runs import device_check
from harness.runs.device_check import DeviceCheck


def test_a_cpu_passes_and_what_was_not_checked_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner(env={"COLUMNS": "160"}).invoke(cli, ["doctor", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    checked = (
        "torch",
        "fp32, scattered the same",
        "simcse differs by 0.0e+00",
        "open-clip: features of pictures",
    )
    not_checked = [f"{what} not checked" for what in ("GPU", "fp16", "other methods")]
    for line in (*checked, *not_checked):
        assert line in shown, line
    assert not list(tmp_path.iterdir())


def test_a_device_that_computes_something_else_or_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def tried(*given: Any) -> Iterator[tuple[Any, str, str | None]]:
        yield None, "flash", "its numbers differ by 40%"

    def raises(method: str, device: str) -> dict[str, torch.Tensor]:
        raise RuntimeError("no kernel image")

    def some(check: DeviceCheck) -> dict[str, Any]:
        return {"methods": check.check_methods, "attention": check.check_attention}

    monkeypatch.setattr(device_check, "try_attentions", tried)
    monkeypatch.setattr(device_check, "_compute_step", raises)
    monkeypatch.setattr(DeviceCheck, "sections", property(some))
    done = CliRunner().invoke(cli, ["doctor", "--device", "cpu"])
    assert done.exit_code == 1
    shown = " ".join(done.output.split())
    assert "FAILED: its numbers differ by 40%" in shown
    assert "simcse FAILED: fails: no kernel image" in shown
    assert "4 checks failed" in done.output, "the checks after one that fails follow"
