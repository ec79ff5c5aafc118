"""The blocks of a page, and what their commands call: bash itself reads them, and nothing of them
is on its path.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: prints each program that is not found, with its words, instead of starting it
_RECORDER = (
    "readonly PATH=/nowhere; command_not_found_handle() { printf '%s\\0' \"$@\" $'\\x1e' >&3; }\n"
)
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
#: of a README: alternatives, written as `list methods | settings` or `new profile|method`
_ALTERNATIVES = re.compile(r"(?<=\s)[a-z]+(?: ?\| ?[a-z]+)+(?=\s)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text without indentation, and where the text lies
    in the page.
    """

    language: str
    text: str
    start: int
    end: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page in their order."""
    listed = []
    for match in _BLOCK.finditer(page):
        text = re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE)
        listed.append(Block(match[2], text, match.start(3), match.end(3)))
    return listed


def calls(script: str) -> list[list[str]]:
    """The programs that a script of bash would start, with their words. Fails for a script that
    bash cannot read.
    """
    programs = []
    for variant in _each(script):
        assert _bash("-n", "-c", variant).returncode == 0, f"bash cannot read {variant}"
        output = _bash("-c", f"exec 3>&1 >/dev/null 2>&1; {_RECORDER}{variant}").stdout
        programs += [words.split("\0")[:-1] for words in output.split("\x1e\0") if words]
    return programs


def _bash(*words: str) -> subprocess.CompletedProcess[str]:
    """Run bash in an empty folder, without variables."""
    with tempfile.TemporaryDirectory() as empty:
        return subprocess.run(
            ["/bin/bash", *words],
            cwd=empty,
            env={"HOME": "~"},
            capture_output=True,
            text=True,
            check=False,
        )


def _each(script: str) -> list[str]:
    """The script, once for each alternative of a line that has some."""
    match = _ALTERNATIVES.search(script)
    if not match:
        return [script]
    line = script[script.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
    others = script.replace(line, "", 1)
    return [*_each(others), *(line.replace(match[0], word.strip()) for word in match[0].split("|"))]
