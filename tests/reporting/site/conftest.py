"""The report that the tests of pages share."""

from __future__ import annotations

from pathlib import Path

import pytest
from site_samples import every_kind, rendered, report_with_pairs


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report with every kind of page."""
    return rendered(
        tmp_path_factory.mktemp("site") / "deep" / "out", every_kind(), everything=True
    ).parent


@pytest.fixture(scope="session")
def pairs_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report of runs with figure data of a similarity task."""
    return report_with_pairs(tmp_path_factory.mktemp("pairs"))
