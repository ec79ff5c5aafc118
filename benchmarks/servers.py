"""Processes that do something at each line of their input: the sides of a comparison."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from harness.processors import measure_peak_memory_mb


class Server:
    """A process of a benchmark with `--serve`, which answers each line with one of JSON."""

    def __init__(self, program: str, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, program, "--serve", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> Any:
        """Send a line, and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.read()

    def read(self) -> Any:
        """The next answer. Raises SystemExit where the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        if self._process.wait() < 0:
            raise SystemExit("a side of the benchmark was killed: does it fit into memory?")
        raise SystemExit("a side of the benchmark failed: its error is above")

    def close(self) -> None:
        """End its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        self._process.wait()


class Stepper:
    """A server that takes steps (`answer_steps`), with their seconds."""

    def __init__(self, program: str, *words: str) -> None:
        self._server = Server(program, *words)
        self._server.read()  # that it is ready
        self.seconds: list[float] = []

    def step(self) -> None:
        """Take a step; its time counts from the second one on."""
        self.seconds.append(self._server.ask(""))

    def end(self) -> float:
        """Stop, and return the peak of memory in MB."""
        self._server.close()
        peak_mb: float = self._server.read()
        self._server.wait()
        return peak_mb

    @property
    def median(self) -> float:
        return statistics.median(self.seconds[1:])


def answer_steps(
    step: Callable[[int], object], read_clock: Callable[[], float] = time.perf_counter
) -> None:
    """Take a step at each line of standard input and print its seconds; at the end, the peak of
    memory in MB.
    """
    print(json.dumps("ready"), flush=True)
    for number, _ in enumerate(sys.stdin):
        start = read_clock()
        step(number)
        print(json.dumps(read_clock() - start), flush=True)
    print(json.dumps(measure_peak_memory_mb("cpu")), flush=True)
