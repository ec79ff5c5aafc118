from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from harness.evaluation.dev import dev_scorer
from harness.evaluation.sts_files import STSB_DEV

PAIRS = [("0", "10", 5.0), ("0", "50", 2.0), ("0", "30", 2.0), ("0", "90", 0.0)]


def planar(sentences: Sequence[str]) -> np.ndarray:
    """Sentences are angles in degrees."""
    angles = np.radians([float(sentence) for sentence in sentences])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def write_dev(root: Path, pairs: list[tuple[str, str, float]]) -> None:
    (root / "sts").mkdir()
    rows = "".join(f"{gold}\t{first}\t{second}\n" for first, second, gold in pairs)
    (root / "sts" / "STSB-dev.tsv").write_text("score\tsentence1\tsentence2\n" + rows)


def test_the_dev_score_is_the_spearman_of_the_task(tmp_path: Path) -> None:
    write_dev(tmp_path, PAIRS)
    embedded: list[int] = []

    def embed(sentences: Sequence[str]) -> np.ndarray:
        embedded.append(len(sentences))
        return planar(sentences)

    scorer = dev_scorer(STSB_DEV, tmp_path)
    assert scorer(embed) == pytest.approx(100 * stats.spearmanr([-10, -50, -30, -90], [5, 2, 2, 0]).statistic)
    assert embedded == [5]
    (tmp_path / "sts" / "STSB-dev.tsv").unlink()  # read once
    assert scorer(embed) > 90


def test_an_undefined_dev_score_is_zero_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_dev(tmp_path, PAIRS)
    with caplog.at_level(logging.WARNING, logger="harness"):
        assert dev_scorer(STSB_DEV, tmp_path)(lambda sentences: np.ones((len(sentences), 3))) == 0.0
    assert "STS-B-dev" in caplog.text
