"""Selections as typed and as passed from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.command_line import Selection
from harness.encoders.locate import FolderModel
from harness.errors import UserError
from harness.planning.request import make_request, model_request
from harness.spec import RunSpec
from harness.store import Store
from harness.toy import student_folder


def test_a_text_and_a_sequence_select_the_same() -> None:
    typed = Selection(
        "tiny",
        methods="simcse,mcse[lambda=0.1,images=toy-clip]",
        settings="toy",
        encoders="toy-bert",
        seeds="0,2",
        suites="sts,geometry",
    )
    passed = Selection(
        "tiny",
        methods=["simcse", "mcse[lambda=0.1,images=toy-clip]"],
        settings=["toy"],
        encoders=["toy-bert"],
        seeds=[0, 2],
        suites=["sts", "geometry"],
    )
    assert make_request(typed) == make_request(passed)
    assert make_request(typed).seeds == (0, 2)
    assert make_request(Selection("tiny", seeds=2)).seeds == make_request(Selection("tiny", seeds="2")).seeds == (0, 1)


def test_overrides_are_equal_as_a_mapping_and_as_typed() -> None:
    typed = make_request(Selection("tiny", set=("steps=4", "learning_rate=1e-4", "images=random")))
    assert typed.overrides == {"steps": 4, "learning_rate": 0.0001, "images": "random"}
    assert make_request(Selection("tiny", set=typed.overrides)).overrides == typed.overrides


def test_defaults_are_those_of_the_profile() -> None:
    request = make_request(Selection("tiny"))
    assert [str(variant) for variant in request.methods] == list(request.profile.defaults.methods)
    assert "figures" not in request.suites, "an opt-in suite was selected"


def test_an_encoder_can_be_a_folder() -> None:
    for text in (f"mine={student_folder()}", str(student_folder())):
        request = make_request(Selection("tiny", encoders=text))
        (name,) = request.encoders
        assert request.given == {name: FolderModel(student_folder().resolve())}


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection("tiny", seeds=0), "seeds '0' asks for no run"),
        (Selection("tiny", readings="paper"), "--readings works only with --table, --figure or --paper.*--methods"),
        (Selection("tiny", table="mcse:T2", readings="paper,offical"), "--readings offical: .* did you mean official"),
        (Selection("tiny", table="mcse:T2", readings="fixed"), "no method of mcse:T2 has this reading"),
        (Selection("tiny", table="dalr:T3", suites="sts"), "--table selects its own runs; remove --suites"),
        (Selection("tiny", table="dalr:T3", methods="simcse"), "--table selects its own runs; remove --methods"),
        (Selection("paper", table="mcse:T5", encoders="bert-base-uncased"), "remove --encoders"),
        (Selection("tiny", table="dalr:T2"), "the profile tiny has no stand-ins for dalr:T2"),
        (Selection("tiny", released=True), "the profile tiny lists no public weights"),
        (Selection("paper", released=True, methods="mcse"), "--released evaluates the public weights.*--methods"),
        (Selection("paper", released=True, seeds=3), "remove --seeds"),
        (Selection("paper", released=True, figure="mcse:F2"), "remove --figure"),
        (Selection("paper", released=True, set=("steps=4",)), "remove --set"),
        (Selection("paper", released=True, encoders="bert-base-uncased"), "remove --encoders"),
        (Selection("paper", released=True, table="mcse:T1", suites="sts"), "remove --suites"),
        (Selection("paper", released=True, table="mcse:T2"), "no public weights for mcse:T2"),
    ],
)
def test_mistakes_are_user_errors(selection: Selection, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_request(selection)


def test_released_weights_are_runs_of_their_own_pooling_on_every_suite_that_fits_them() -> None:
    request = make_request(Selection("paper", released=True))
    assert {str(spec) for spec in request.wanted or ()} == {
        f"none[pooling={weights.pooling}]/none/{name}/seed-0" for name, weights in request.profile.released.items()
    }
    assert list(request.suites) == ["sts", "geometry", "transfer", "retrieval"]
    assert request.entries == {}
    some = make_request(Selection("paper", released=True, suites="sts"))
    assert {tuple(suites) for suites in (some.wanted or {}).values()} == {("sts",)}


def test_released_weights_of_a_table_are_evaluated_on_its_suites() -> None:
    request = make_request(Selection("paper", released=True, table="nonling:TE.1,mcse:T1"))
    assert {name: len(specs) for name, specs in request.entries.items()} == {"nonling:TE.1": 9, "mcse:T1": 6}
    both = RunSpec.parse("none[pooling=cls]/none/princeton-nlp/unsup-simcse-roberta-base/seed-0")
    assert (request.wanted or {})[both] == ("transfer", "sts")


def test_released_weights_may_lie_in_a_folder() -> None:
    name = "UdS-LSV/mcse-flickr-bert-base-uncased"
    request = make_request(Selection("paper", released=True, encoders=f"{name}={student_folder()}"))
    assert request.given == {name: FolderModel(student_folder().resolve())}


def test_an_evaluation_of_listed_weights_needs_no_pooling(tmp_path: Path) -> None:
    name = "princeton-nlp/sup-simcse-bert-base-uncased"
    request = model_request(name, None, Selection("paper", suites="sts"), Store(tmp_path))
    assert [str(variant) for variant in request.methods] == ["none[pooling=pooler]"]
    assert list(request.encoders) == [name]


def test_a_saved_model_is_an_untrained_run_with_its_pooling(tmp_path: Path) -> None:
    request = model_request(str(student_folder()), "mean", Selection("tiny", suites="sts"), Store(tmp_path))
    assert [str(variant) for variant in request.methods] == ["none[pooling=mean]"]
    assert request.seeds == (0,)
    assert request.given["student"] == FolderModel(student_folder().resolve())
    trusted = model_request(str(student_folder()), "mean", Selection("tiny"), Store(tmp_path), trusted=True)
    assert trusted.given["student"].trusted
    with pytest.raises(UserError, match="does not state its pooling; give --pooling cls"):
        model_request(str(student_folder()), None, Selection("tiny"), Store(tmp_path))
