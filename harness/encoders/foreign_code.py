"""The code of models of others: it is executed only where a user has said so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def refuse_foreign_code() -> Iterator[None]:
    """Raise ValueError in this context where a library would execute code of a model's repository.

    Libraries pass settings of a folder on to transformers, `trust_remote_code` among them. All such
    code goes through one function of transformers, which is closed here whatever it is given; nor
    does transformers ask on the terminal.
    """
    from transformers import dynamic_module_utils

    def refuse(*args: Any, **options: Any) -> str:
        raise ValueError("it needs code of its own, which is not executed")

    fetch_code = dynamic_module_utils.get_cached_module_file
    question_seconds = dynamic_module_utils.TIME_OUT_REMOTE_CODE
    dynamic_module_utils.get_cached_module_file = refuse
    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0
    try:
        yield
    finally:
        dynamic_module_utils.get_cached_module_file = fetch_code
        dynamic_module_utils.TIME_OUT_REMOTE_CODE = question_seconds
