"""Code in a model folder: a payload that leaves a mark where it is executed."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import mteb
import pytest
import torch
from made_files import Payload
from model_folders import edit
from transformers import AutoTokenizer

from harness.encoders.locate import FolderModel
from harness.encoders.sentence_modules import SentenceModules, open_model
from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher
from harness.encoders.weights import convert_errors
from harness.errors import UserError
from harness.toy import clip_folder, student_folder


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that a payload makes."""
    return tmp_path / "executed"


@pytest.fixture(autouse=True)
def _own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers copies code to a cache, here one of the test, and asks on stdin whether to
    execute it.
    """
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache")
    )

    def asked(prompt: str = "") -> str:
        raise AssertionError(f"the user was asked: {prompt}")

    monkeypatch.setattr("builtins.input", asked)


def own_architecture(folder: Path, mark: Path) -> None:
    """An architecture of the folder's own: BERT under another name."""
    edit(
        folder / "config.json",
        model_type="strange",
        architectures=["StrangeModel"],
        auto_map={"AutoConfig": "strange.StrangeConfig", "AutoModel": "strange.StrangeModel"},
    )
    (folder / "strange.py").write_text(
        "from pathlib import Path\n"
        "from transformers import BertConfig, BertModel\n"
        f"Path({str(mark)!r}).touch()\n"
        "class StrangeConfig(BertConfig):\n"
        "    model_type = 'strange'\n"
        "class StrangeModel(BertModel):\n"
        "    config_class = StrangeConfig\n"
    )


def own_module(folder: Path, mark: Path) -> None:
    """A last module of the folder's own, which negates vectors."""
    listed = json.loads((folder / "modules.json").read_text())
    listed.append({"idx": 2, "name": "2", "path": "2_Negation", "type": "negation.Negation"})
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "2_Negation").mkdir()
    (folder / "negation.py").write_text(
        "from pathlib import Path\n"
        "from torch import nn\n"
        f"Path({str(mark)!r}).touch()\n"
        "class Negation(nn.Module):\n"
        "    @classmethod\n"
        "    def load(cls, *args, **kwargs):\n"
        "        return cls()\n"
        "    def forward(self, features):\n"
        "        return features | {'sentence_embedding': -features['sentence_embedding']}\n"
    )


@pytest.mark.parametrize(
    "reader", [Student.load, SentenceModules.load, lambda folder: open_teacher("text", folder)]
)
def test_an_architecture_of_the_folder_is_refused_without_a_question(
    reader: Callable[[Path], object], folder: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    own_architecture(folder, mark)
    with pytest.raises(
        UserError, match=r"'strange' is code of the repository.*--trust-remote-code"
    ):
        reader(folder)
    assert not mark.exists()


def test_an_activation_from_elsewhere_is_refused_not_replaced_by_tanh(tmp_path: Path) -> None:
    Student.load(student_folder(), "pooler").save(tmp_path / "pooled")
    edit(tmp_path / "pooled" / "2_Dense" / "config.json", activation_function="elsewhere.Gelu")
    with pytest.raises(UserError, match=r"needs elsewhere\.Gelu"):
        SentenceModules.load(tmp_path / "pooled")


@pytest.mark.parametrize(
    ("change", "pooling", "needs"),
    [
        (own_architecture, "mean", "'strange' is code"),
        (own_module, "modules", r"needs negation\.Negation"),
    ],
)
def test_trusted_code_alone_is_executed(
    change: Callable[[Path, Path], None], pooling: str, needs: str, folder: Path, mark: Path
) -> None:
    expected = open_model(folder, pooling).embed(["a red circle"])
    change(folder, mark)
    with pytest.raises(UserError, match=f"{needs}.*--trust-remote-code"):
        open_model(folder, pooling)
    assert not mark.exists()
    trusted = open_model(folder, pooling, trusted=True).embed(["a red circle"])
    assert mark.exists()
    assert trusted == pytest.approx(-expected if change is own_module else expected, abs=1e-6)


def test_known_architectures_do_not_read_the_folders_code(folder: Path, mark: Path) -> None:
    own_architecture(folder, mark)
    edit(folder / "config.json", model_type="bert")
    assert Student.load(folder, "mean").embed(["a"]).shape == (1, 64)
    assert SentenceModules.load(folder).embed(["a"]).shape == (1, 64)
    assert not mark.exists()


def test_trusted_code_is_part_of_the_fingerprint(folder: Path, mark: Path) -> None:
    own_architecture(folder, mark)
    plain, trusted = FolderModel(folder), FolderModel(folder, trusted=True)
    before = plain.fingerprint(None), trusted.fingerprint(None)
    with (folder / "strange.py").open("a") as stream:
        stream.write("# another line\n")
    assert plain.fingerprint(None) == before[0]
    assert trusted.fingerprint(None) != before[1]


@pytest.mark.parametrize("kind", ["student", "modules", "text", "timm", "open-clip"])
def test_pickled_weights_execute_nothing(
    kind: str, folder: Path, mark: Path, tmp_path: Path
) -> None:
    name = "pytorch_model.bin"
    if kind == "open-clip":
        folder, name = shutil.copytree(clip_folder(), tmp_path / "clip"), f"open_clip_{name}"
    if kind == "timm":
        described = {"architecture": "resnet18", "num_classes": 0, "pretrained_cfg": {}}
        (folder / "config.json").write_text(json.dumps(described))
    for file in folder.glob("*.safetensors"):
        file.unlink()
    torch.save({"weight": Payload(mark)}, folder / name)
    readers: dict[str, Callable[[Path], object]] = {
        "student": Student.load,
        "modules": SentenceModules.load,
    }
    with pytest.raises(UserError, match="cannot be read"):
        readers.get(kind, lambda folder: open_teacher(kind, folder))(folder)
    assert not mark.exists()
    torch.load(folder / name, weights_only=False)
    assert mark.exists(), "the payload works"


def own_tokenizer(folder: Path, mark: Path) -> None:
    """A tokenizer of the folder's own."""
    edit(
        folder / "tokenizer_config.json",
        tokenizer_class="Strange",
        auto_map={"AutoTokenizer": ["strange.Strange", "strange.Strange"]},
    )
    (folder / "strange.py").write_text(
        "from pathlib import Path\n"
        "from transformers import PreTrainedTokenizerFast\n"
        f"Path({str(mark)!r}).touch()\n"
        "class Strange(PreTrainedTokenizerFast):\n"
        "    pass\n"
    )


def test_settings_of_a_clip_cannot_trust_its_own_code(mark: Path, tmp_path: Path) -> None:
    clip = Path(shutil.copytree(clip_folder(), tmp_path / "clip"))
    own_tokenizer(clip, mark)
    settings = json.loads((clip / "open_clip_config.json").read_text())
    settings["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"trust_remote_code": True}
    (clip / "open_clip_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="asks for trust_remote_code"):
        open_teacher("open-clip", clip)
    assert not mark.exists()


def test_no_library_executes_code_where_a_folder_is_read(folder: Path, mark: Path) -> None:
    """Whatever the library passes on to transformers."""
    own_tokenizer(folder, mark)
    with (
        pytest.raises(UserError, match="cannot be read"),
        convert_errors("folder", folder, "repair it"),
    ):
        AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    assert not mark.exists()
    with convert_errors("folder", folder, "repair it", trusted=True):
        AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    assert mark.exists()


def test_a_text_tower_of_a_clip_brings_no_code(folder: Path, mark: Path, tmp_path: Path) -> None:
    own_architecture(folder, mark)
    clip = Path(shutil.copytree(clip_folder(), tmp_path / "clip"))
    settings = json.loads((clip / "open_clip_config.json").read_text())
    settings["model_cfg"]["text_cfg"] |= {
        "hf_model_name": str(folder),
        "hf_model_pretrained": False,
    }
    (clip / "open_clip_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="cannot be read"):
        open_teacher("open-clip", clip)
    assert not mark.exists()


def test_a_network_of_timm_brings_no_code(folder: Path, mark: Path) -> None:
    own_architecture(folder, mark)
    described = {"architecture": "strange", "pretrained_cfg": {"custom_load": True}}
    edit(folder / "config.json", **described)
    with pytest.raises(UserError, match="cannot be read"):
        open_teacher("timm", folder)
    assert not mark.exists()


def test_a_data_set_of_mteb_executes_no_script(
    mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data set of the hub may hold a script of its name, and a task may say that it is trusted."""
    script = tmp_path / "scripted" / "scripted.py"
    script.parent.mkdir()
    script.write_text(f"from pathlib import Path\nPath({str(mark)!r}).touch()\n")
    task = mteb.get_task("STSBenchmark")
    dataset = {"path": str(script.parent), "revision": "main", "trust_remote_code": True}
    monkeypatch.setattr(
        type(task), "metadata", task.metadata.model_copy(update={"dataset": dataset})
    )
    with pytest.raises(Exception, match=r"scripts are no longer supported|No .* found|doesn't"):
        task.load_data()
    assert not mark.exists()
