"""A document of two columns as narrow as ACL's, which complains about whatever does not fit."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.reporting.tables.latex import COLUMN, PAGE

#: columns of ACL's width in Computer Modern, which is wider than Times; each caption tells its
#: number of lines
DOCUMENT = rf"""\documentclass[10pt,twocolumn]{{article}}
\usepackage{{booktabs,graphicx}}
\textwidth={PAGE}pt \columnsep=17pt \textheight=702pt \topmargin=-60pt \oddsidemargin=0pt
\pdfcompresslevel=0 \pdfobjcompresslevel=0
\newcount\captionlines \let\plain\caption
\renewcommand\caption[1]{{\setbox0\vbox{{\noindent Table 99: #1\par\global\captionlines\prevgraf}}%
  \typeout{{caption of \the\captionlines\space lines}}\plain{{#1}}}}
\begin{{document}}
\typeout{{column of \the\columnwidth}}
%s
\end{{document}}
"""


def typeset(body: str, folder: Path) -> bytes:
    """The PDF file of a two-column document, which must compile without a complaint about its
    shape.
    """
    if shutil.which("pdflatex") is None:
        pytest.skip(
            "no LaTeX document is compiled; install texlive-latex-recommended, such as by apt-get"
        )
    (folder / "paper.tex").write_text(DOCUMENT.replace("%s", body), encoding="utf-8")
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
    assert f"column of {COLUMN:.1f}pt" in done.stdout
    assert not re.findall(r"Overfull.*|.*too large.*|.*unprocessed.*", done.stdout)
    lines = [int(number) for number in re.findall(r"caption of (\d+) lines", done.stdout)]
    assert lines
    assert max(lines) <= 3
    return (folder / "paper.pdf").read_bytes()
