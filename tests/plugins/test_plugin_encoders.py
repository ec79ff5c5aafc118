"""A pooling and a kind of teacher of other packages, used as this project's own are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from plugin_packages import Install

import harness
from harness.errors import UserError
from harness.runs.export import export

pytestmark = pytest.mark.usefixtures("small_toy_tests")

POOLING = '''\
    """Largest value of each dimension over the tokens."""
    from harness.encoders.poolings import Pooling


    class MaxPooling(Pooling):
        """Maximum over the last layer's tokens."""

        switch = "pooling_mode_max_tokens"

        def __call__(self, layers, mask):
            return layers[-1].masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).amax(1)
'''

TEACHER = '''\
    """A teacher that counts letters and the brightness of pictures."""
    import numpy as np
    from harness.encoders.teachers import Teacher


    class Counter(Teacher):
        """Two numbers a caption or an image."""

        gives = ("image", "caption")

        def __init__(self, folder, *, pooling, max_length, device):
            assert (folder / "open_clip_config.json").is_file()

        def images(self, pixels):
            return np.array([[image.mean() / 255, image.std() / 255] for image in pixels], dtype=np.float32)

        def captions(self, sentences):
            return np.array([[len(text) / 50, text.count("e") / 9] for text in sentences], dtype=np.float32)
'''
TEACHER_TABLE = """
    [teachers.counter]
    kind = "counter"
    registered = "toy-clip"
"""


def test_a_pooling_is_evaluated_and_exported(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    install("maxima", POOLING, {"poolings": {"max": "MaxPooling"}})
    done = harness.run("tiny", methods="none[pooling=max],none[pooling=mean]", suites="sts")
    values = done.frame[done.frame["metric"] == "spearman"].groupby("variant")["value"].first()
    assert values["none[pooling=max]"] != values["none[pooling=mean]"]
    export("none[pooling=max]/none/toy-bert/seed-0", tmp_path / "model", tmp_path / "results")
    mine = harness.load_model("none[pooling=max]/none/toy-bert/seed-0").encode(
        ["a red circle", "a ring"]
    )
    sentence_transformers = pytest.importorskip("sentence_transformers")
    exported = sentence_transformers.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    theirs = exported.encode(["a red circle", "a ring"])
    np.testing.assert_allclose(mine, theirs, atol=1e-5)
    with pytest.raises(UserError, match="unknown pooling 'median'"):
        harness.run("tiny", methods="none[pooling=median]")


def test_a_kind_of_teacher_teaches_and_refuses_what_it_does_not_give(
    install: Install, profile: Callable[[str], str], tmp_path: Path
) -> None:
    install("counters", TEACHER, {"teacher_kinds": {"counter": "Counter"}})
    mine = profile(TEACHER_TABLE)
    done = harness.run(
        mine, methods="mcse[images=counter],mcse[images=counter,text_teacher=counter]", seeds=1, suites="sts",
        set={"steps": 2}, results=tmp_path,
    )  # fmt: skip
    assert not done.failures, done.failures
    assert [run.teachers["image"].teacher for run in done.runs] == ["counter", "counter"]
    assert {role: use.of for role, use in done.runs[1].teachers.items()} == {
        "image": "image",
        "caption": "caption",
    }
    with pytest.raises(UserError, match=r"the teacher 'counter' .*tokens"):
        harness.plan(mine, methods="dalr[token_term=true,text=counter]", seeds=1, results=tmp_path)
