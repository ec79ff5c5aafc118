"""How an error that users can fix is expected: by its words, on one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.errors import UserError


@contextmanager
def refused(words: str, kind: type[UserError] = UserError) -> Iterator[pytest.ExceptionInfo[UserError]]:
    """Expect a UserError of one line in which a pattern is found."""
    with pytest.raises(kind, match=words) as caught:
        yield caught
    assert "\n" not in str(caught.value)
