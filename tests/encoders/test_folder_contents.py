"""Model folders: every file and every tensor is read, known to be without effect, or a reason to
refuse in one line.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import encoders_page
import numpy as np
import pytest
import torch
from cases import mark_others_long
from model_folders import as_bin, change, edit
from torch import nn

from harness.encoders.contents import list_remarks
from harness.encoders.sentence_modules import SentenceModules, open_model
from harness.encoders.student import Student
from harness.errors import UserError
from harness.toy import student_folder

#: as a student, and by the modules of sentence-transformers
READ_BY = mark_others_long(["mean", "modules"], ["mean"])
#: names of real folders on the hub, of a trainer's folders and of research code
HARMLESS = [
    *(
        "README.md",
        ".gitattributes",
        "LICENSE",
        "onnx/model.onnx",
        "openvino/openvino_model.bin",
        "tf_model.h5",
    ),
    *(
        "flax_model.msgpack",
        "rust_model.ot",
        "pytorch_model.bin",
        "model.fp16.safetensors",
        "training_args.bin",
    ),
    *(
        "optimizer.pt",
        "scheduler.pt",
        "rng_state_0.pth",
        "trainer_state.json",
        "all_results.json",
        "vocab.txt",
    ),
    *(
        "eval/similarity_evaluation_sts-dev_results.csv",
        "data_config.json",
        "train_script.py",
        "unigram.json",
    ),
    *(
        "generation_config.json",
        "preprocessor_config.json",
        "images/a.png",
        "mcse.pt",
        "colbert_linear.pt",
    ),
    *(
        "sparse_linear.pt",
        "2_Dense_1024/model.safetensors",
        "checkpoint-100/model.safetensors",
        "model_head.pkl",
    ),
    *(
        "lora/adapter_config.json",
        "runs/events.out.tfevents.1",
        "bert-q8.gguf",
        "chat_template.jinja",
    ),
]


@pytest.mark.parametrize("pooling", READ_BY)
def test_files_without_effect_on_vectors_are_no_obstacle(pooling: str, folder: Path) -> None:
    expected = open_model(folder, pooling).embed(["a red circle"])
    for name in HARMLESS:
        (folder / name).parent.mkdir(exist_ok=True)
        if not (folder / name).exists():
            (folder / name).write_text("{}")
    np.testing.assert_array_equal(open_model(folder, pooling).embed(["a red circle"]), expected)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@pytest.mark.parametrize("pooling", READ_BY)
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "adapter_config.json",
            '{"peft_type": "LORA"}',
            "an adapter, which is not applied; merge it",
        ),
        ("adapter_model.safetensors", "", "an adapter, which is not applied; merge it"),
        ("quantize_config.json", "{}", "quantised weights.*give the model's original weights"),
        ("hf_quant_config.json", "{}", "quantised weights.*give the model's original weights"),
        ("prompt_encoder.safetensors", "", "which is not read and may matter.*move it elsewhere"),
        ("projection.pt", "", "which is not read and may matter.*move it elsewhere"),
        ("inc_config.json", "{}", "which is not read and may matter.*move it elsewhere"),
        ("model.safetensors", POINTER, "model.safetensors is a pointer of Git LFS.*git lfs pull"),
        ("tokenizer.json", POINTER, "tokenizer.json is a pointer of Git LFS.*git lfs pull"),
        (
            "config.json",
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            r"d weights \(bitsandbytes\)",
        ),
        (
            "config.json",
            {"quantization_config": {"quant_method": "fp8"}},
            r"quantised weights \(fp8\)",
        ),
        (
            "config.json",
            {"sbert_ce_default_activation_function": "torch.nn.Identity"},
            "is a CrossEncoder, which",
        ),
        (
            "config_sentence_transformers.json",
            {"model_type": "CrossEncoder"},
            "is a CrossEncoder, which gives no",
        ),
        (
            "config_sentence_transformers.json",
            {"model_type": "SparseEncoder"},
            "is a SparseEncoder, which gives no",
        ),
    ],
)
def test_what_may_change_vectors_or_is_of_another_kind_of_model_is_refused(
    name: str, content: str | dict[str, object], says: str, pooling: str, folder: Path
) -> None:
    if isinstance(content, str):
        (folder / name).write_text(content)
    else:
        edit(folder / name, **content)
    with pytest.raises(UserError, match=says):
        open_model(folder, pooling)


@pytest.mark.parametrize(
    ("config", "lines"),
    [
        ('{"architectures": ["XLMRobertaForSequenceClassification"]}', 1),
        ('{"architectures": ["BertForTokenClassification", "BertModel"]}', 1),
        ('{"architectures": ["BertForPreTraining"], "model_type": "bert"}', 0),
        ('{"architectures": ["BertForMaskedLM"], "model_type": "roberta"}', 1),
        ('{"architectures": ["XLMRobertaModel"], "model_type": "roberta"}', 0),
        *(
            (text, 0)
            for text in ("{}", "{", "[1]", '{"architectures": 5}', '{"architectures": [5]}')
        ),
    ],
)
def test_a_head_left_out_and_another_type_are_said_and_a_damaged_file_is_left_to_the_trial(
    config: str, lines: int, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(config)
    assert len(list_remarks(tmp_path)) == lines


def test_a_lone_adapter_and_a_layer_without_its_list_are_named(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "lora").mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / "lora" / name).write_text("{}")
    with pytest.raises(UserError, match="an adapter, which is not applied; merge it"):
        Student.load(tmp_path / "lora")
    (folder / "2_Dense").mkdir()
    (folder / "modules.json").unlink()
    with pytest.raises(UserError, match="2_Dense and no modules"):
        Student.load(folder, "mean")


@pytest.mark.parametrize(
    ("kind", "reader"),
    [
        *(
            ("modernbert", "AutoModelForMaskedLM"),
            ("modernbert", "AutoModelForSequenceClassification"),
        ),
        *(
            ("xlm", "AutoModelForMaskedLM"),
            ("xlm", "AutoModelForSequenceClassification"),
            ("xlnet", "AutoModelForCausalLM"),
        ),
        *(("luke", "AutoModelForMaskedLM"), ("splinter", "AutoModelForQuestionAnswering")),
        *(("splinter", "AutoModelForPreTraining"), ("eurobert", "AutoModelForTokenClassification")),
        *(("electra", "AutoModelForPreTraining"), ("deberta-v2", "AutoModelForMaskedLM")),
        *(("albert", "AutoModelForPreTraining"), ("distilbert", "AutoModelForMaskedLM")),
    ],
)
def test_heads_that_transformers_adds_are_no_obstacle(
    kind: str, reader: str, tmp_path: Path
) -> None:
    encoders_page.save_small_model(kind, tmp_path, num_labels=3, reader=reader)
    alone = encoders_page.embed_by_transformers(tmp_path, "mean")
    np.testing.assert_allclose(
        Student.load(tmp_path, "mean").embed(encoders_page.SENTENCES), alone, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize(
    ("strange", "says"),
    [
        (
            "encoder.layer.0.crossattention.self.query.weight",
            "crossattention.*do not fit BertModel",
        ),
        ("decoder.layers.0.weight", "decoder.layers.0.weight do not fit"),
        ("lm_loss.weight", "lm_loss.weight do not fit"),
        ("encoder.layer.0.attention.self.query.lora_A.weight", "lora_A.weight do not fit"),
        ("encoder.layer.0.attention.self.query.weight_scale_inv", "weight_scale_inv do not fit"),
    ],
)
def test_weights_of_another_model_are_refused(strange: str, says: str, folder: Path) -> None:
    change(folder, lambda given: given | {strange: torch.zeros(2)})
    with pytest.raises(UserError, match=says):
        Student.load(folder, "mean")


@pytest.mark.parametrize("pooling", READ_BY)
@pytest.mark.parametrize("prefix", ["module.", "student.", "_orig_mod.", "module.bert."])
def test_a_prefix_of_all_names_is_named(prefix: str, pooling: str, folder: Path) -> None:
    change(folder, lambda given: {f"{prefix}{name}": value for name, value in given.items()})
    with pytest.raises(
        UserError, match=f"all names of its weights begin with '{prefix}'; save them without it"
    ):
        open_model(folder, pooling)


QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize("pooling", READ_BY)
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        *(
            (torch.float16, None),
            (torch.bfloat16, None),
            (torch.float64, None),
            (torch.int8, f"{QUERY} as I8"),
        ),
        *(
            (torch.float8_e4m3fn, f"{QUERY} as F8_E4M3"),
            (torch.uint8, f"{QUERY} as U8"),
            (torch.int64, f"{QUERY} as I64"),
        ),
    ],
)
def test_weights_are_floating_point_numbers(
    kind: torch.dtype, says: str | None, pooling: str, folder: Path
) -> None:
    expected = open_model(folder, pooling).embed(["a red circle"])
    positions = {"embeddings.position_ids": torch.arange(4)}
    change(folder, lambda given: {**given, QUERY: given[QUERY].to(kind)} | positions)
    if says is None:
        np.testing.assert_allclose(
            open_model(folder, pooling).embed(["a red circle"]), expected, atol=0.02
        )
        return
    with pytest.raises(UserError, match=f"holds {says}, numbers that are not read as weights"):
        open_model(folder, pooling)


def test_the_layer_of_a_module_is_of_floating_point_numbers(tmp_path: Path) -> None:
    Student.load(student_folder(), "pooler").save(tmp_path)
    change(
        tmp_path / "2_Dense",
        lambda given: {name: value.to(torch.int8) for name, value in given.items()},
    )
    with pytest.raises(UserError, match=r"2_Dense.model\.safetensors holds linear\.\w+ as I8"):
        SentenceModules.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            nn.Linear(2, 2),
            "a pickled object of Python, not weights by name; save the model with `save_pretrained`",
        ),
        ({"state_dict": {"a": torch.zeros(2)}}, "does not hold weights by name alone"),
        ({"a": torch.zeros(2), "epoch": 3}, "does not hold weights by name alone"),
        ([torch.zeros(2)], "does not hold weights by name alone"),
    ],
)
def test_a_file_of_weights_with_other_contents_is_named(
    content: object, says: str, folder: Path
) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=says):
        Student.load(folder, "mean")


def test_weights_by_name_in_a_pickled_file_are_read(folder: Path) -> None:
    expected = Student.load(folder, "mean").embed(["a red circle"])
    as_bin(folder)
    np.testing.assert_array_equal(Student.load(folder, "mean").embed(["a red circle"]), expected)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("CLIPModel", "CLIPModel"),
        ("BartForCausalLM", "BartModel"),
        ("ViTModel", "ViTModel"),
    ],
)
def test_models_of_other_inputs_are_named(name: str, named: str, folder: Path) -> None:
    import transformers

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    configs: dict[str, Any] = {
        "BartForCausalLM": {
            "d_model": 16,
            "vocab_size": 96,
            "decoder_layers": 1,
            "decoder_attention_heads": 2,
        },
        "CLIPModel": {"text_config": sizes, "vision_config": sizes},
        "ViTModel": {**sizes, "intermediate_size": 16},
    }
    (folder / "modules.json").unlink()
    model = getattr(transformers, name)
    model(model.config_class(**configs[name])).save_pretrained(folder)
    with pytest.raises(UserError, match=f"is a {named}, which cannot encode text on its own"):
        Student.load(folder)


@pytest.mark.parametrize(
    "given",
    [
        *(
            {"_attn_implementation": name, "attn_implementation": name}
            for name in ("flash_attention_2", "eager")
        ),
        *(
            {"_attn_implementation": name, "attn_implementation": name}
            for name in ("flex_attention", "sdpa")
        ),
        *(
            {name: True}
            for name in ("output_hidden_states", "output_attentions", "torchscript", "use_cache")
        ),
        {"return_dict": False},
    ],
)
@pytest.mark.parametrize("pooling", READ_BY)
def test_the_harness_chooses_the_attention_and_the_outputs(
    given: dict[str, object], pooling: str, folder: Path
) -> None:
    expected = open_model(folder, pooling).embed(["a red circle", "a"])
    edit(folder / "config.json", **given)
    model = open_model(folder, pooling)
    assert not isinstance(model, Student) or model.packing is not None
    np.testing.assert_allclose(model.embed(["a red circle", "a"]), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("albert", {"num_hidden_layers": 24}),
        pytest.param(
            "albert", {"num_hidden_layers": 48, "embedding_size": 8}, marks=pytest.mark.long
        ),
        ("rembert", {"input_embedding_size": 8, "output_embedding_size": 64}),
        ("deberta-v2", {}),
        ("gpt2", {}),
    ],
)
def test_a_model_is_saved_and_read_again(
    kind: str, options: dict[str, object], tmp_path: Path
) -> None:
    encoders_page.save_small_model(kind, tmp_path / "given", **options)
    student = Student.load(tmp_path / "given", "mean")
    student.save(tmp_path / "saved")
    again = Student.load(tmp_path / "saved", "mean")
    np.testing.assert_array_equal(
        again.embed(encoders_page.SENTENCES), student.embed(encoders_page.SENTENCES)
    )


@pytest.mark.parametrize(
    ("kind", "key"), [("gpt2", "n_layer"), ("distilbert", "n_layers"), ("xlm", "n_layers")]
)
def test_layers_by_another_name_are_counted_too(kind: str, key: str, tmp_path: Path) -> None:
    encoders_page.save_small_model(kind, tmp_path)
    edit(tmp_path / "config.json", **{key: 100_000})
    with pytest.raises(UserError, match="num_hidden_layers = 100000, more than"):
        Student.load(tmp_path, "mean")


def test_a_folder_of_links_is_read(tmp_path: Path) -> None:
    """The hub's client makes such folders, with links into its cache."""
    for file in Path(student_folder()).iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path / f"blob-{file.name}")
            (tmp_path / "snapshot").mkdir(exist_ok=True)
            (tmp_path / "snapshot" / file.name).symlink_to(tmp_path / f"blob-{file.name}")
    assert Student.load(tmp_path / "snapshot").width == 64
