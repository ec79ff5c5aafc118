"""Cases of a parameter, of which `make test` takes a few and `make long` takes the others."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def mark_others_long(cases: Iterable[Any], kept: Container[Any]) -> list[Any]:
    """All cases of one parameter; those that are not kept are marked `long`."""
    return [case if case in kept else pytest.param(case, marks=pytest.mark.long) for case in cases]
