"""Names of users and of result files: read as they are written or refused in one line, and never a
path elsewhere.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UserError
from harness.spec import (
    RunSpec,
    SpecError,
    Variant,
    parse_encoder,
    parse_seeds,
    parse_setting,
    split_teachers,
)
from harness.store import Store

ROOT = Path("/results")
GRAMMAR = st.text(st.sampled_from("ab1._-+=,@/[]: \n\x1b\x00é\u202e~%"), max_size=40) | st.text(
    max_size=20
)
READERS = (Variant.parse, RunSpec.parse, parse_setting, parse_encoder, parse_seeds, split_teachers)
NAMES = (GRAMMAR | st.sampled_from(["..", ".", "../..", "/etc", ".hidden", "~"])).filter(bool)


@pytest.mark.parametrize("examples", [100, pytest.param(20_000, marks=pytest.mark.faults)])
def test_a_name_is_read_or_refused_and_leaves_no_folder_of_results(
    examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        UserError, "__init__", Exception.__init__
    )  # errors quote line feeds of the name

    @settings(max_examples=examples)
    @given(GRAMMAR, NAMES, st.tuples(NAMES, NAMES, NAMES))
    def check(text: str, profile: str, names: tuple[str, str, str]) -> None:
        for read in READERS:
            with suppress(SpecError):
                made = read(text)
                if isinstance(made, Variant | RunSpec):
                    assert type(made).parse(str(made)) == made
                    assert str(made).isprintable()
        with suppress(
            UnicodeEncodeError, SpecError
        ):  # a lone surrogate is in no file and on no command line
            spec = RunSpec(
                Variant.parse(names[0]), parse_setting(names[1]), parse_encoder(names[2]), 0
            )
            inside = Store(ROOT).folder(profile, spec).relative_to(ROOT).parts
            assert len(inside) == 4
            assert not [part for part in inside if part.startswith(".") or not part.isprintable()]

    check()
