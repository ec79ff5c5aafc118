"""Models of sentence-transformers: what their files say, vectors by definition and by the library,
what is refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cases import mark_others_long
from model_folders import Weights, change
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from harness.encoders.locate import FolderModel
from harness.encoders.modules import (
    find_pooling,
    find_transformer_folder,
    list_module_files,
    list_modules,
)
from harness.encoders.sentence_modules import SentenceModules, open_model
from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher
from harness.errors import UserError
from harness.runs.evaluate import encode_dropout_views
from harness.toy import student_folder

SENTENCES = ["the big red circle", "a", "", "a small blue square on the left of the ring"]
Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Save the toy encoder followed by other modules of sentence-transformers."""

    def saved(*modules: Any, **options: Any) -> Path:
        folder = tmp_path / "outside"
        first = Transformer(
            str(student_folder()), max_seq_length=options.pop("max_seq_length", None)
        )
        SentenceTransformer(modules=[first, *modules], device="cpu", **options).save(str(folder))
        return folder

    return saved


@torch.inference_mode()
def states(sentence: str) -> Tensor:
    """The last layer at the tokens of one sentence, (L, d)."""
    tokens = AutoTokenizer.from_pretrained(student_folder())(sentence, return_tensors="pt")
    return AutoModel.from_pretrained(student_folder()).eval()(**tokens).last_hidden_state[0]


def dense(activation: nn.Module) -> Dense:
    torch.manual_seed(0)
    return Dense(64, 5, activation_function=activation)


def rectified(hidden: Tensor) -> Tensor:
    layer = dense(nn.Identity()).linear
    with torch.inference_mode():
        return (layer.weight @ hidden[0] + layer.bias).clamp(min=0)


@pytest.mark.parametrize(
    ("modules", "defined"),
    [
        ([Pooling(64, "lasttoken")], lambda hidden: hidden[-1]),
        ([Pooling(64, ("cls", "mean"))], lambda hidden: torch.cat([hidden[0], hidden.mean(0)])),
        ([Pooling(64, "mean"), Normalize()], lambda hidden: hidden.mean(0) / hidden.mean(0).norm()),
        ([Pooling(64, "cls"), dense(nn.ReLU())], rectified),
    ],
    ids=["last", "two modes", "normalised", "relu"],
)
def test_vectors_are_what_the_modules_define(
    modules: list[Any], defined: Callable[[Tensor], Tensor], save: Save
) -> None:
    folder = save(*modules)
    vectors = open_model(folder, "modules").embed(SENTENCES)
    assert vectors.dtype == np.float32
    expected = np.stack([defined(states(sentence)).numpy() for sentence in SENTENCES])
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    np.testing.assert_allclose(
        vectors, SentenceTransformer(str(folder), device="cpu").encode(SENTENCES), atol=1e-6
    )


def test_the_default_prompt_and_the_longest_sequence_are_the_models_own(save: Save) -> None:
    model = SentenceModules.load(
        save(
            Pooling(64, "mean"),
            prompts={"query": "the red "},
            default_prompt_name="query",
            max_seq_length=6,
        )
    )
    plain = Student.load(student_folder(), "mean").embed(["the red circle"])
    np.testing.assert_allclose(model.embed(["circle"]), plain, atol=1e-6)
    cut = model.embed(["circle on the left", "circle on the right of the ring"])
    np.testing.assert_array_equal(cut[0], cut[1])
    with torch.inference_mode():
        views = model.views(["circle on the left"], 2)
    np.testing.assert_allclose(views.numpy(), cut[None, :], atol=1e-6)


def test_weights_in_half_precision_are_computed_in_float32(save: Save) -> None:
    folder = save(Pooling(64, "mean"))
    change(folder, lambda given: {name: value.half() for name, value in given.items()})
    model = SentenceModules.load(folder)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    np.testing.assert_allclose(
        model.embed(SENTENCES), Student.load(folder, "mean").embed(SENTENCES), atol=1e-6
    )


def test_packed_batches_of_a_folder_have_features_of_their_own_rows(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several batches, read from the cache as when it was tried."""
    folder = save(Pooling(64, "mean"), Normalize())
    expected = SentenceTransformer(str(folder), device="cpu").encode(SENTENCES)
    for tries in (1, 2):
        model = SentenceModules.load(folder)
        assert model.packing is not None, tries
        pooling, shapes = model.model[1], list[set[tuple[int, ...]]]()
        pooling.register_forward_pre_hook(
            lambda module, given, shapes=shapes: shapes.append(
                {tuple(value.shape[:2]) for value in given[0].values() if isinstance(value, Tensor)}
            )
        )
        monkeypatch.setattr("harness.encoders.rows.TOKENS_A_BATCH", 16)
        np.testing.assert_allclose(model.embed(SENTENCES), expected, atol=1e-6)
        assert len(shapes) > 1
        assert {len(shapes_of_batch) for shapes_of_batch in shapes} == {1}


def test_sentences_are_counted_and_keep_their_order(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.encoders.sentence_modules.COUNTED", 3)
    model, counts = SentenceModules.load(save(Pooling(64, "mean"))), list[tuple[int, int]]()
    sentences = [*SENTENCES, *reversed(SENTENCES)]
    vectors = model.embed(sentences, lambda *count: counts.append(count))
    assert counts == [(0, 8), (3, 8), (6, 8), (8, 8)]
    np.testing.assert_allclose(vectors, model.model.encode(sentences), atol=1e-6)
    assert len(model.embed([])) == 0


def test_views_have_dropout_and_repeat_by_seed(save: Save) -> None:
    model = SentenceModules.load(save(Pooling(64, "mean"), dense(nn.Tanh())))
    first = encode_dropout_views(model, SENTENCES[:2], 3, seed=5)
    assert first.shape == (2, 3, 5)
    np.testing.assert_array_equal(first, encode_dropout_views(model, SENTENCES[:2], 3, seed=5))
    assert not np.allclose(first[0, 0], first[0, 1])
    np.testing.assert_array_equal(model.embed(SENTENCES), model.embed(SENTENCES))


@pytest.mark.parametrize(
    "file", ["2_Dense/model.safetensors", "2_Dense/config.json", "1_Pooling/config.json"]
)
def test_every_file_of_a_module_is_part_of_the_fingerprint(file: str, save: Save) -> None:
    folder = save(Pooling(64, "cls"), dense(nn.Tanh()))
    before = FolderModel(folder).fingerprint(None)
    (folder / file).write_bytes((folder / file).read_bytes() + b" ")
    assert FolderModel(folder).fingerprint(None) != before


def test_a_folder_with_its_weights_in_a_module_is_found_and_read(save: Save) -> None:
    folder = save(Pooling(64, "mean"))
    inner = folder / "0_Transformer"
    inner.mkdir()
    for file in (*folder.glob("*.safetensors"), *folder.glob("tokenizer*"), folder / "config.json"):
        shutil.move(file, inner / file.name)
    shutil.move(folder / "sentence_bert_config.json", inner)
    listed = json.loads((folder / "modules.json").read_text())
    listed[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(listed))
    (inner / "nested").mkdir()
    for name in ("README.md", "nested/a.bin"):
        (inner / name).write_text("read or not")
    (folder / "1_Pooling" / ".hidden").write_text("not read")
    read = {path.relative_to(folder).as_posix() for path in list_module_files(folder)}
    assert read == {
        f"0_Transformer/{path.name}" for path in inner.glob("*.*") if path.name != "README.md"
    } | {
        "0_Transformer/nested/a.bin",
        "1_Pooling/config.json",
    }
    assert find_transformer_folder(folder) == inner
    assert FolderModel(folder).missing(None) == []
    expected = Student.load(student_folder(), "mean").embed(SENTENCES)
    for model in (open_model(folder, "modules"), Student.load(folder, "mean")):
        np.testing.assert_allclose(model.embed(SENTENCES), expected, atol=1e-6)


def without(weights: Weights, start: str) -> Weights:
    return {name: value for name, value in weights.items() if not name.startswith(start)}


BIAS = "encoder.layer.{}.output.dense.bias"
#: what is wrong -> weights as they are in the folder, files that are missing there, and what is
#: said
HARMS: dict[str, tuple[Callable[[Weights], Weights], tuple[str, ...], str]] = {
    "missing layer": (
        lambda given: without(given, "encoder.layer.1."),
        (),
        "no weights of encoder.layer.1.attention",
    ),
    "one more layer": (
        lambda given: given | {BIAS.format(7): torch.zeros(64)},
        (),
        f"{BIAS.format(7)} do not fit",
    ),
    "another width": (
        lambda given: given | {BIAS.format(0): torch.zeros(3)},
        (),
        f"{BIAS.format(0)} do not fit",
    ),
    "no vocabulary": (dict, ("tokenizer.json", "vocab.txt"), "it has no vocabulary"),
    "no tokenizer": (
        dict,
        ("tokenizer.json", "vocab.txt", "tokenizer_config.json"),
        "it has no vocabulary",
    ),
}
READERS: dict[str, Callable[[Path], object]] = {
    "student": lambda folder: Student.load(folder, "cls"),
    "modules": SentenceModules.load,
    "teacher": lambda folder: open_teacher("text", folder),
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("reader", mark_others_long(["student", "modules"], ["modules"]))
def test_what_a_folder_lacks_is_not_made_up(reader: str, harm: str, save: Save) -> None:
    folder = save(Pooling(64, "cls"))
    READERS[reader](folder)
    changed, missing, message = HARMS[harm]
    change(folder, changed)
    for name in missing:
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(UserError, match=message):
        READERS[reader](folder)


@pytest.mark.parametrize("reader", READERS)
def test_heads_beside_the_encoder_are_no_obstacle(reader: str, save: Save) -> None:
    """A masked language model's and SimCSE's; DiffCSE's and NonLing's, as trained and as converted."""
    folder = save(Pooling(64, "cls"))
    heads = ["cls.predictions.bias", "mlp.dense.weight", "embeddings.position_ids", "pooler.extra"]
    heads += [
        "aux_bert.embeddings.weight",
        "aux_encoder.layer.0.output.dense.bias",
        "electra_head.bias",
    ]
    heads += [
        "image_mlp.dense.weight",
        "image_pooler.dense.weight",
        "vit_embeddings.cls_token",
        "v_cls_token",
    ]
    beside = {name: torch.zeros(2) for name in heads}
    change(
        folder,
        lambda given: (
            {f"bert.{name}": value for name, value in without(given, "pooler.").items()} | beside
        ),
    )
    READERS[reader](folder)


def test_a_head_that_is_used_must_be_there(save: Save) -> None:
    folder = save(Pooling(64, "cls"))
    change(folder, lambda given: without(given, "pooler."))
    with pytest.raises(
        UserError, match=r"no weights of pooler\.dense\.bias, pooler\.dense\.weight"
    ):
        Student.load(folder, "pooler")
    assert Student.load(folder, "pooler", own_head=False).read_through(nn.Identity()) is None


def test_a_dense_layer_without_its_weights_is_refused(save: Save) -> None:
    folder = save(Pooling(64, "cls"), dense(nn.Tanh()))
    (folder / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(UserError, match="the sentence-transformers model"):
        SentenceModules.load(folder)


def test_the_pooling_modules_is_for_folders_that_list_modules() -> None:
    with pytest.raises(UserError, match="has no modules of sentence-transformers"):
        open_model(student_folder(), "modules")
    with pytest.raises(UserError, match="evaluates a folder of sentence-transformers as a whole"):
        open_teacher("text", student_folder(), pooling="modules").captions(["a"])


@pytest.mark.parametrize(
    ("pooling", "listed", "declared"),
    [
        ("cls", ["Transformer", "Pooling"], "modules"),
        ("mean", ["Transformer", "Pooling"], "modules"),
        ("pooler", ["Transformer", "Pooling", "Dense"], "modules"),
        ("avg-first-last", [], None),
    ],
)
def test_a_saved_student_lists_its_modules_where_the_library_can_pool_like_it(
    pooling: str, listed: list[str], declared: str | None, tmp_path: Path
) -> None:
    Student.load(student_folder(), pooling).save(tmp_path)
    assert [module.kind for module in list_modules(tmp_path)] == listed
    assert (find_pooling(tmp_path), find_transformer_folder(tmp_path)) == (declared, tmp_path)


POOLING, CARD = "1_Pooling/config.json", "README.md"


@pytest.mark.parametrize(
    ("file", "content", "pooling"),
    [
        (POOLING, '{"pooling_mode": "cls", "embedding_dimension": 64}', "cls"),
        (POOLING, '{"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}', "mean"),
        (POOLING, '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}', None),
        (POOLING, '{"pooling_mode": "weightedmean"}', None),
        (POOLING, '{"pooling_mode": ["cls", "mean"]}', None),
        (POOLING, "{}", None),
        (CARD, "---\npooling: avg-first-last\nlicense: mit\n---\n# A model\n", "avg-first-last"),
        (CARD, "---\npooling: median\n---\n", None),
        (CARD, "---\npooling: modules\n---\n", None),
        (CARD, "---\nlicense: mit\n---\npooling: cls\n", None),
        (CARD, "# No front matter\n", None),
        (CARD, "---\npooling: [\n---\n", None),
    ],
)
def test_a_pooling_file_alone_or_a_card_names_the_pooling(
    file: str, content: str, pooling: str | None, tmp_path: Path
) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / file).write_text(content)
    assert find_pooling(tmp_path) == pooling


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("[", r"modules\.json is not a valid file"),
        ("{}{}", r"modules\.json is not a valid file"),
        ('[{"type": "a"}]', r"modules\.json is not a valid file"),
        ("[1]", r"modules\.json is not a valid file"),
        (
            '[{"idx": 0, "path": "../other", "type": "sentence_transformers.models.Pooling"}]',
            "outside the folder",
        ),
        (
            '[{"idx": 0, "path": "/etc", "type": "sentence_transformers.models.Pooling"}]',
            "outside the folder",
        ),
        (
            '[{"idx": 0, "path": "0", "type": "sentence_transformers.models.StaticEmbedding"}]',
            "begins with StaticEmb",
        ),
    ],
)
def test_a_list_of_modules_that_cannot_be_trained_on_is_refused(
    listed: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "modules.json").write_text(listed)
    with pytest.raises(UserError, match=f"^{tmp_path}.*{message}") as said:
        Student.load(tmp_path)
    assert "fetch" not in str(said.value)


def test_views_are_those_of_encode_whatever_the_modules(tmp_path: Path) -> None:
    """A static embedding has no padding, and tokens of a prompt may be left out of the mean."""
    tokens = AutoTokenizer.from_pretrained(student_folder()).backend_tokenizer
    torch.manual_seed(0)
    encoder = Transformer(str(student_folder()))
    prompted = {"prompts": {"query": "the red "}, "default_prompt_name": "query"}
    without = Pooling(64, "mean", include_prompt=False)
    models: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "static": ([StaticEmbedding(tokens, embedding_dim=8)], {}),
        "static with a prompt": ([StaticEmbedding(tokens, embedding_dim=8)], prompted),
        "without the prompt": ([encoder, without], prompted),
        "cut": ([encoder, Pooling(64, "mean")], {"truncate_dim": 3}),
        "weighted": ([encoder, Pooling(64, "weightedmean"), Normalize()], {}),
        "last": ([encoder, Pooling(64, "lasttoken"), dense(nn.ReLU())], prompted),
    }
    for name, (modules, options) in models.items():
        SentenceTransformer(modules=modules, device="cpu", **options).save(str(tmp_path / name))
        model = SentenceModules.load(tmp_path / name).eval()
        model.model.truncate_dim = options.get("truncate_dim")
        with torch.inference_mode():
            views = model.views(SENTENCES, 2).numpy()
        for view in range(2):
            np.testing.assert_allclose(
                views[:, view], model.embed(SENTENCES), atol=2e-6, err_msg=name
            )
