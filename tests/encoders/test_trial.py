"""The trial of a model, against plain transformers, one sentence at a time: the same vectors, or one line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from faults_tools import short_run
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from harness.cli.run import run
from harness.cli.show import show
from harness.encoders import trial
from harness.encoders.student import SentenceModules, Student
from harness.encoders.trial import TrialKey
from harness.errors import UserError

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    *("a", "the", "red", "blue", "circle", "square", "big", "small", "man", "woman", "dog", "cat"),
    *("runs", "sits", "on", "under", "of", "and", "guitar", "tree", "house"),
)
SENTENCES = [
    *("red", "the dog runs", "a man sits on the big red square under a tree", "the cat [PAD] sits", ""),
    *("a man sits on the big red square under a house", "the woman sits on the small circle " * 12),
]
SIZES: dict[str, Any] = {
    **{"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "pad_token_id": 0},
    **{"intermediate_size": 48, "max_position_embeddings": 66},
}
POOLED: dict[str, Callable[[Any], Any]] = {"cls": lambda h: h[0], "mean": lambda h: h.mean(0), "last": lambda h: h[-1]}
#: where a tokenizer puts its tokens, and their types
TEMPLATES = {"first": "[CLS] $A [SEP]", "last": "$A:0 [SEP]:0 [CLS]:2", "none": "$A", "typed": "[CLS]:2 $A:0 [SEP]:0"}


def save_tokenizer(folder: Path, places: str = "first", **options: Any) -> None:
    words = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    made = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single=TEMPLATES[places], special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    typed = ["token_type_ids"] if places in ("last", "typed") else []
    PreTrainedTokenizerFast(
        tokenizer_object=made,
        model_input_names=["input_ids", *typed, "attention_mask"],
        **{**names, "model_max_length": 64, **options},
    ).save_pretrained(folder)


def save_model(
    folder: Path, name: str, places: str = "first", tokenizer: dict[str, Any] | None = None, **sizes: Any
) -> Path:
    """A random model of a family with weights that are large enough to tell words apart; None leaves out a size."""
    given = {key: value for key, value in {**SIZES, **sizes}.items() if value is not None}
    config = getattr(transformers, f"{name.removesuffix('Base')}Config")(**given)
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}Model")(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    save_tokenizer(folder, places, **(tokenizer or {}))
    return folder


@torch.inference_mode()
def singly(folder: Path, pooling: str) -> np.ndarray:
    """Each sentence by itself, with everything that its tokenizer gives."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    known, vectors = inspect.signature(model.forward).parameters, []
    for sentence in SENTENCES:
        encoded = tokenizer(sentence, return_tensors="pt", truncation=True, max_length=64)
        if not encoded["input_ids"].shape[1]:
            encoded = tokenizer("[PAD]", return_tensors="pt")
        states = model(**{name: value for name, value in encoded.items() if name in known}).last_hidden_state[0]
        vectors.append(POOLED[pooling](states).numpy())
    return np.stack(vectors)


def xlnet(folder: Path) -> Path:
    sizes = {**dict.fromkeys(SIZES), "vocab_size": 64, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
    return save_model(folder, "XLNet", "last", {"padding_side": "left"}, **sizes)


def funnel(folder: Path) -> Path:
    sizes = {**dict.fromkeys(SIZES), "vocab_size": 64, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48}
    return save_model(folder, "FunnelBase", "typed", block_sizes=[1, 1, 1], **sizes)


def pad_is_the_end(folder: Path) -> Path:
    return save_model(folder, "Roberta", tokenizer={"pad_token": "[SEP]"}, pad_token_id=3, max_position_embeddings=80)


FAMILIES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "bert": ("packed", partial(save_model, name="Bert")),
    "roberta": ("packed", partial(save_model, name="Roberta")),
    "xlm-roberta": ("packed", partial(save_model, name="XLMRoberta", pad_token_id=1)),
    "roberta, pad is the end": ("packed", pad_is_the_end),
    "roberta, two pads": ("packed", partial(save_model, name="Roberta", pad_token_id=7, max_position_embeddings=80)),
    "electra": ("packed", partial(save_model, name="Electra", embedding_size=16)),
    "albert": ("packed", partial(save_model, name="Albert", embedding_size=16)),
    "modernbert": ("padded", partial(save_model, name="ModernBert")),
    "mpnet": ("padded", partial(save_model, name="MPNet")),
    "deberta-v2": ("padded", partial(save_model, name="DebertaV2", relative_attention=True)),
    "rembert": ("padded", partial(save_model, name="RemBert", input_embedding_size=16)),
    "squeezebert": ("padded", partial(save_model, name="SqueezeBert", embedding_size=32)),
    "mobilebert": (
        "equal lengths",
        partial(save_model, name="MobileBert", embedding_size=16, intra_bottleneck_size=16),
    ),
    "convbert": ("equal lengths", partial(save_model, name="ConvBert", embedding_size=32, conv_kernel_size=3)),
    "fnet": ("equal lengths", partial(save_model, name="FNet")),
    "nystromformer": ("equal lengths", partial(save_model, name="Nystromformer")),
    "no special tokens": ("packed", partial(save_model, name="Bert", places="none")),
    "left padding": ("packed", partial(save_model, name="Bert", tokenizer={"padding_side": "left"})),
    "xlnet": ("padded", xlnet),
    "gpt2": ("padded", partial(save_model, name="GPT2", n_positions=66, n_inner=48)),
    "llama": ("padded", partial(save_model, name="Llama")),
    "qwen3": ("padded", partial(save_model, name="Qwen3", places="none", num_key_value_heads=4, head_dim=8)),
    "clip": ("padded", partial(save_model, name="CLIPText", bos_token_id=2, eos_token_id=3, projection_dim=16)),
    "decoder": ("padded", partial(save_model, name="Bert", is_decoder=True)),
}
#: where the first token says nothing of a sentence, and what the line names
NO_FIRST = {
    **dict.fromkeys(("gpt2", "llama", "clip", "decoder"), "another last word .* use the pooling last or mean"),
    **dict.fromkeys(("no special tokens", "qwen3"), "has no token of its own at the beginning .* pooling last or mean"),
    "xlnet": r"puts \[CLS\] elsewhere than at the beginning .* pooling last or mean",
}


@pytest.mark.parametrize("pooling", POOLED)
@pytest.mark.parametrize("name", FAMILIES)
def test_vectors_are_those_of_single_sentences_or_refused(name: str, pooling: str, tmp_path: Path) -> None:
    rows, save = FAMILIES[name]
    folder = save(tmp_path)
    if pooling == "cls" and name in NO_FIRST:
        with pytest.raises(UserError, match=NO_FIRST[name]):
            Student.load(folder, pooling)
        return
    student, expected = Student.load(folder, pooling), singly(folder, pooling)
    np.testing.assert_allclose(student.embed(SENTENCES), expected, atol=2e-5 * abs(expected).max())
    assert student.found.rows == rows
    again = Student.load(folder, pooling)  # by the answer that is kept
    assert again.found == student.found
    np.testing.assert_allclose(again.embed(SENTENCES), expected, atol=2e-5 * abs(expected).max())
    if pooling == "cls":  # as a training encodes them
        vectors = again.eval().encode(again.tokenize(SENTENCES, 64), 2).detach().numpy()
        np.testing.assert_allclose(vectors[:, 1], expected, atol=2e-5 * abs(expected).max())


@pytest.mark.parametrize(
    ("save", "pooling", "says"),
    [
        (partial(save_model, name="Nystromformer", num_landmarks=16), "mean", "NystromformerModel fails on sentences"),
        (funnel, "mean", "its last layer has 2 vectors for 8 tokens; use the pooling cls"),
    ],
)
def test_a_model_that_fails_is_one_line(save: Callable[[Path], Path], pooling: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        Student.load(save(tmp_path), pooling)


@pytest.mark.parametrize(("value", "says"), [(float("nan"), "is not finite"), (0.0, "does not change its vector")])
def test_weights_without_sense_are_refused(value: float, says: str, tmp_path: Path) -> None:
    folder = save_model(tmp_path, "Bert")
    model = transformers.BertModel.from_pretrained(folder)
    torch.nn.init.constant_(model.encoder.layer[-1].output.LayerNorm.weight, value)
    model.save_pretrained(folder)
    with pytest.raises(UserError, match=says):
        Student.load(folder)


@pytest.mark.parametrize("name", ["clip", "gpt2"])
def test_the_most_tokens_are_found_without_a_table_that_is_known(name: str, tmp_path: Path) -> None:
    folder = FAMILIES[name][1](tmp_path)
    assert Student.load(folder, "last", max_length=66).longest == 64
    with pytest.raises(UserError, match=r"max_length = 100, .* give --set max_length=66 or fewer"):
        Student.load(folder, "last", max_length=100)


def test_a_trial_leaves_random_states_and_an_answer_is_of_this_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    folder = save_model(tmp_path, "Bert")
    before = torch.random.get_rng_state()
    found = Student.load(folder).found
    assert torch.equal(torch.random.get_rng_state(), before)
    assert TrialKey(folder, "cls").known() == found
    assert TrialKey(folder, "mean").known() is None
    save_model(tmp_path, "Bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    assert TrialKey(folder, "cls").known() is None
    assert (found.views > 0, Student.load(folder).found.views) == (True, 0.0)


def test_a_known_answer_tries_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_model(tmp_path, "Bert")
    found = Student.load(folder).found
    monkeypatch.setattr(trial, "_texts", None, raising=False)
    assert Student.load(folder).found == found


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["Bert", "ConvBert"])
def test_sentence_transformers_gets_batches_whose_vectors_are_right(name: str, side: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    sizes = {"embedding_size": 32, "conv_kernel_size": 3} if name == "ConvBert" else {}
    encoder = Transformer(str(save_model(tmp_path / "encoder", name, tokenizer={"padding_side": side}, **sizes)))
    SentenceTransformer(modules=[encoder, Pooling(32, "cls")]).save(str(tmp_path / "model"))
    model, expected = SentenceModules.load(tmp_path / "model"), singly(tmp_path / "encoder", "cls")
    np.testing.assert_allclose(model.embed(SENTENCES), expected, atol=2e-5 * abs(expected).max())
    assert model.found.rows == ("equal lengths" if name == "ConvBert" else "padded")


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.mark.parametrize("method", ["simcse", "mcse"])
def test_an_encoder_without_dropout_is_refused_where_views_must_differ(method: str, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "encoder", "Bert", **NO_DROPOUT)
    says = r"has no dropout, so they are equal; give it one with --set dropout=0.1"
    with pytest.raises(UserError, match=says):
        short_run(method, tmp_path / "results", encoders=f"x={folder}", settings="toy")
    assert not (tmp_path / "results").exists()
    (result,) = short_run(f"{method}[dropout=0.1]", tmp_path / "results", encoders=f"x={folder}", settings="toy").runs
    assert result.trial.views > 0


#: a family -> the names of its rates: of states, and of attention
RATES = {
    "Bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "ModernBert": ("mlp_dropout", "attention_dropout"),
    "DistilBert": ("dropout", "attention_dropout"),
    "GPT2": ("resid_pdrop", "attn_pdrop"),
}


@pytest.mark.parametrize("name", RATES)
def test_dropout_that_is_asked_for_acts_or_is_refused(name: str, tmp_path: Path) -> None:
    for kind in (0, 1):
        folder = save_model(tmp_path / f"{kind}", name)
        rates = (0.3, 0.0) if kind == 0 else (0.0, 0.3)
        student = Student.load(folder, "mean", rates=rates)
        assert getattr(student.model.config, RATES[name][kind]) == 0.3
        assert getattr(student.model.config, RATES[name][1 - kind]) == 0
        assert student.found.views > 0
    assert Student.load(folder, "mean", rates=(0.0, 0.0)).found.views == 0
    with pytest.raises(UserError, match=r"whose config\.json has no dropout; leave dropout out"):
        Student.load(save_model(tmp_path / "llama", "Llama", num_key_value_heads=4), "mean", rates=(0.1, -1.0))


def test_what_the_trial_found_is_in_the_result(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "encoder", "ConvBert", embedding_size=32, conv_kernel_size=3)
    (result,) = short_run("simcse", tmp_path / "results", encoders=f"x={folder}").runs
    assert result.trial is not None
    assert (result.trial.rows, result.trial.longest, result.trial.types) == ("equal lengths", 64, (0, 0, 0))
    shown = CliRunner().invoke(show, [result.spec.key, "--results", str(tmp_path / "results")]).output
    assert "trial of the encoder: rows=equal lengths, types=(0, 0, 0), longest=64, alone=" in shown
    assert result.trial.alone < 1e-4 < min(result.trial.views, result.trial.last_word)


@pytest.mark.parametrize(("name", "says"), [("gpt2", "another last word"), ("damaged", "cannot be read")])
def test_an_encoder_that_cannot_be_used_is_an_error_of_the_plan(name: str, says: str, tmp_path: Path) -> None:
    folder = FAMILIES["bert" if name == "damaged" else name][1](tmp_path / "encoder")
    if name == "damaged":
        (folder / "model.safetensors").write_bytes(b"no weights")
    words = ["--methods", "simcse", "--encoders", f"x={folder}", "--results", str(tmp_path / "results"), "--dry-run"]
    outcome = CliRunner().invoke(run, words)
    assert isinstance(outcome.exception, UserError)
    assert says in str(outcome.exception)
    assert not (tmp_path / "results").exists()
