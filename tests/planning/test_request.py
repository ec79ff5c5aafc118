"""Selections as typed and as passed from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.command_line import Selection
from harness.encoders.locate import FolderModel
from harness.errors import UserError
from harness.planning.request import make_model_request, make_request
from harness.spec import RunSpec
from harness.store import Store
from harness.toy import student_folder


def test_texts_and_sequences_select_the_same() -> None:
    texts = {
        "methods": "simcse,mcse[lambda=0.1,images=toy-clip]",
        "settings": "toy",
        "encoders": "toy-bert",
    }
    typed = Selection(
        "tiny", **texts, seeds="0,2", suites="sts,geometry", set=("steps=4", "learning_rate=1e-4")
    )
    lists = {
        "methods": ["simcse", "mcse[lambda=0.1,images=toy-clip]"],
        "settings": ["toy"],
        "encoders": ["toy-bert"],
    }
    values = {"steps": 4, "learning_rate": 0.0001}
    passed = Selection("tiny", **lists, seeds=[0, 2], suites=["sts", "geometry"], set=values)
    assert make_request(typed) == make_request(passed)
    seeds = [spec.seed for spec in make_request(typed).suites_by_run]
    assert (seeds, make_request(typed).overrides) == ([0, 0, 2, 2], values)
    assert make_request(Selection("tiny", seeds=2)) == make_request(Selection("tiny", seeds="0,1"))


def test_defaults_are_those_of_the_profile() -> None:
    request = make_request(Selection("tiny"))
    assert [str(variant) for variant in request.methods] == list(request.profile.defaults.methods)
    assert "figures" not in request.suites, "an opt-in suite was selected"


WEIGHTS = "UdS-LSV/mcse-flickr-bert-base-uncased"


@pytest.mark.parametrize(
    ("name", "selection"),
    [
        ("mine", Selection("tiny", encoders=f"mine={student_folder()}")),
        ("student", Selection("tiny", encoders=str(student_folder()))),
        (
            "bert-base-uncased",
            Selection("paper", table="mcse:T5", encoders=f"bert-base-uncased={student_folder()}"),
        ),
        (WEIGHTS, Selection("paper", released=True, encoders=f"{WEIGHTS}={student_folder()}")),
    ],
    ids=["named", "a path", "of a table", "released"],
)
def test_an_encoder_can_be_a_folder(name: str, selection: Selection) -> None:
    assert make_request(selection).own_encoders == {name: FolderModel(student_folder().resolve())}


def test_released_weights_are_runs_of_their_own_pooling_on_suites_that_fit_them_or_those_of_a_table() -> (
    None
):
    request = make_request(Selection("paper", released=True))
    assert {str(spec) for spec in request.suites_by_run} == {
        f"none[pooling={weights.pooling}]/none/{name}/seed-0"
        for name, weights in request.profile.released.items()
    }
    assert list(request.suites) == ["sts", "geometry", "transfer", "retrieval"]
    assert request.entries == {}
    some = make_request(Selection("paper", released=True, suites="sts"))
    assert {tuple(suites) for suites in some.suites_by_run.values()} == {("sts",)}
    request = make_request(Selection("paper", released=True, table="nonling:TE.1,mcse:T1"))
    assert {name: len(specs) for name, specs in request.entries.items()} == {
        "nonling:TE.1": 9,
        "mcse:T1": 6,
    }
    both = RunSpec.parse("none[pooling=cls]/none/princeton-nlp/unsup-simcse-roberta-base/seed-0")
    assert request.suites_by_run[both] == ("transfer", "sts")


def test_a_model_from_outside_is_an_untrained_run_with_its_pooling(tmp_path: Path) -> None:
    """The pooling given, or that which the profile states for the same weights as released ones or
    as a teacher.
    """
    hub, known = "princeton-nlp/sup-simcse-bert-base-uncased", "owner/model"
    table = f'[teachers.known]\nkind = "text"\nhub = "{known}"\nrevision = "{"0" * 40}"\npooling = "mean"\n'
    (tmp_path / "mine.toml").write_text(
        f'extends = "tiny"\ndescription = "with a teacher"\n{table}'
    )
    for model, pooling, profile, stated in (
        (hub, None, "paper", "pooler"),
        (known, None, str(tmp_path / "mine.toml"), "mean"),
        (str(student_folder()), "mean", "tiny", "mean"),
    ):
        request = make_model_request(
            model, pooling, Selection(profile, suites="sts"), Store(tmp_path), trusted=True
        )
        (spec,) = request.suites_by_run
        assert (str(spec.variant), str(spec.setting), spec.seed) == (
            f"none[pooling={stated}]",
            "none",
            0,
        )
        assert all(source.trusted for source in request.own_encoders.values())
    assert request.own_encoders == {
        "student": FolderModel(student_folder().resolve(), trusted=True)
    }
    with pytest.raises(UserError, match="does not state its pooling; give --pooling cls"):
        make_model_request(str(student_folder()), None, Selection("tiny"), Store(tmp_path))
