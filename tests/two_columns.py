"""Documents of two columns as ACL, IEEE and AAAI set them, which complain about whatever does not
fit.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.reporting.tables.latex import COLUMN, PAGE


class Style(NamedTuple):
    """The text of a class of documents: its size, the widths of its page and columns in points."""

    size: int
    page: float
    column: float


STYLES = {
    "acl": Style(11, PAGE, COLUMN),
    "ieee": Style(10, 516.0, 252.0),
    "aaai": Style(10, 505.89, 240.0),
}
#: the widths of Times: those of Liberation Serif, which has them by design
FONTS = Path("/usr/share/fonts/truetype/liberation")
FACES = {"Regular": "m/n", "Bold": "bx/n", "Italic": "m/it"}

#: each caption tells its number of lines; a table's caption begins with its number
DOCUMENT = r"""\documentclass[%dpt,twocolumn]{article}
\usepackage{booktabs,graphicx}
%s
\textwidth=%.2fpt \columnsep=%.2fpt \textheight=702pt \topmargin=-60pt \oddsidemargin=0pt
\pdfcompresslevel=0 \pdfobjcompresslevel=0
\newcount\captionlines \let\plain\caption
\renewcommand\caption[1]{\setbox0\vbox{\noindent Table 99: #1\par\global\captionlines\prevgraf}%%
  \typeout{caption of \the\captionlines\space lines}\plain{#1}}
\begin{document}
\typeout{column of \the\columnwidth}
%s
\end{document}
"""


def typeset(body: str, folder: Path, style: str = "acl") -> bytes:
    """The PDF file of a two-column document in Times, which must compile without a complaint about
    its shape.
    """
    times = _times(folder)
    size, page, column = STYLES[style]
    text = DOCUMENT % (size, times, page, page - 2 * column, body)
    (folder / "paper.tex").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout[-1500:]
    assert float(re.findall(r"column of ([\d.]+)pt", done.stdout)[0]) == pytest.approx(column)
    assert not re.findall(r"Overfull.*|.*too large.*|.*unprocessed.*", done.stdout)
    lines = [int(number) for number in re.findall(r"caption of (\d+) lines", done.stdout)]
    assert lines
    assert max(lines) <= 2
    return (folder / "paper.pdf").read_bytes()


def _times(folder: Path) -> str:
    """The lines of a preamble that set text in Times, whose metrics are written into `folder`."""
    missing = [name for name in ("pdflatex", "ttf2tfm") if shutil.which(name) is None]
    if missing or not FONTS.is_dir():
        pytest.skip(
            "no LaTeX document is compiled; install texlive-latex-recommended, texlive-binaries "
            "and fonts-liberation, such as by apt-get"
        )
    lines = [r"\DeclareFontFamily{OT1}{tms}{}", r"\renewcommand\rmdefault{tms}"]
    for face, shape in FACES.items():
        name = f"tms{face.lower()}"
        font = FONTS / f"LiberationSerif-{face}.ttf"
        command = ["ttf2tfm", str(font), "-p", "7t.enc", name]
        subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=60)
        lines.append(rf"\pdfmapline{{={name} <7t.enc <{font}}}")
        series, slope = shape.split("/")
        lines.append(rf"\DeclareFontShape{{OT1}}{{tms}}{{{series}}}{{{slope}}}{{<-> {name}}}{{}}")
    return "\n".join(lines)
