"""The trial of a model, against plain transformers, one sentence at a time: the same vectors, or
one line.
"""

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
from cases import mark_others_long
from click.testing import CliRunner
from encoders_page import save_small_model
from faults_tools import short_run
from model_folders import edit
from tokenizers import processors
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from harness.cli.run import run
from harness.cli.show import show
from harness.encoders import trial
from harness.encoders.sentence_modules import SentenceModules
from harness.encoders.student import Student
from harness.encoders.trial import TrialKey
from harness.errors import UserError

pytestmark = pytest.mark.usefixtures("small_toy_tests")

SENTENCES = [
    *(
        "red",
        "the dog runs",
        "a horse sleeps on the big red square of a cat",
        "the cat [PAD] runs",
        "",
    ),
    *(
        "a horse sleeps on the big red square of a house",
        "the horse sleeps on the small circle " * 12,
    ),
]
POOLED: dict[str, Callable[[Any], Any]] = {
    "cls": lambda h: h[0],
    "mean": lambda h: h.mean(0),
    "last": lambda h: h[-1],
}
#: where a tokenizer puts its tokens, and their types
TEMPLATES = {
    "first": "[CLS] $A [SEP]",
    "last": "$A:0 [SEP]:0 [CLS]:2",
    "none": "$A",
    "typed": "[CLS]:2 $A:0 [SEP]:0",
}


def save_model(
    folder: Path, kind: str, places: str = "first", side: str = "right", **sizes: Any
) -> Path:
    """A small random model of a type, whose tokenizer puts its tokens in these places and pads on
    this side.
    """
    save_small_model(kind, folder, **sizes)
    made = PreTrainedTokenizerFast.from_pretrained(folder)
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=TEMPLATES[places], special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    typed = ["token_type_ids"] if places in ("last", "typed") else []
    made.model_input_names, made.padding_side = ["input_ids", *typed, "attention_mask"], side
    made.save_pretrained(folder)
    return folder


@torch.inference_mode()
def singly(folder: Path, pooling: str) -> np.ndarray:
    """Each sentence by itself, with everything that its tokenizer gives."""
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    known, vectors = inspect.signature(model.forward).parameters, []
    for sentence in SENTENCES:
        encoded = tokenizer(sentence, return_tensors="pt", truncation=True, max_length=64)
        if not encoded["input_ids"].shape[1]:
            encoded = tokenizer("[PAD]", return_tensors="pt")
        states = model(
            **{name: value for name, value in encoded.items() if name in known}
        ).last_hidden_state[0]
        vectors.append(POOLED[pooling](states).numpy())
    return np.stack(vectors)


def pad_is_the_end(folder: Path) -> Path:
    save_model(folder, "roberta", pad_token_id=3)
    edit(folder / "tokenizer_config.json", pad_token="[SEP]")
    return folder


def funnel(folder: Path) -> Path:
    save_model(folder, "bert", "typed")
    sizes = {
        "vocab_size": 64,
        "d_model": 32,
        "n_head": 4,
        "d_head": 8,
        "d_inner": 48,
        "block_sizes": [1, 1, 1],
    }
    transformers.FunnelBaseModel(transformers.FunnelConfig(**sizes)).save_pretrained(folder)
    return folder


FAMILIES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    **{
        kind: ("packed", partial(save_model, kind=kind))
        for kind in ("bert", "roberta", "electra", "albert")
    },
    "xlm-roberta": ("packed", partial(save_model, kind="xlm-roberta", pad_token_id=1)),
    "roberta, pad is the end": ("packed", pad_is_the_end),
    "roberta, two pads": ("packed", partial(save_model, kind="roberta", pad_token_id=7)),
    **{
        kind: ("padded", partial(save_model, kind=kind))
        for kind in ("modernbert", "mpnet", "rembert", "squeezebert")
    },
    "deberta-v2": ("padded", partial(save_model, kind="deberta-v2", relative_attention=True)),
    **{
        kind: ("equal lengths", partial(save_model, kind=kind))
        for kind in ("mobilebert", "convbert", "fnet")
    },
    "nystromformer": (
        "equal lengths",
        partial(save_model, kind="nystromformer", num_landmarks=64, segment_means_seq_len=64),
    ),
    "no special tokens": ("packed", partial(save_model, kind="bert", places="none")),
    "left padding": ("packed", partial(save_model, kind="bert", side="left")),
    "xlnet": ("padded", partial(save_model, kind="xlnet", places="last", side="left")),
    **{kind: ("padded", partial(save_model, kind=kind)) for kind in ("gpt2", "llama")},
    "qwen3": ("padded", partial(save_model, kind="qwen3", places="none")),
    "clip": ("padded", partial(save_model, kind="clip_text_model")),
    "decoder": ("padded", partial(save_model, kind="bert", is_decoder=True)),
}
#: where the first token says nothing of a sentence, and what the line names
NO_FIRST = {
    **dict.fromkeys(
        ("gpt2", "llama", "clip", "decoder"), "another last word .* use the pooling last or mean"
    ),
    **dict.fromkeys(
        ("no special tokens", "qwen3"),
        "has no token of its own at the beginning .* pooling last or mean",
    ),
    "xlnet": r"puts \[CLS\] elsewhere than at the beginning .* pooling last or mean",
}


#: families of each way to compute rows and of each place of tokens; `make long` takes all
FEW = (
    *("bert", "roberta", "roberta, pad is the end", "modernbert", "deberta-v2", "convbert"),
    *("no special tokens", "left padding", "xlnet", "gpt2", "qwen3", "decoder"),
)


@pytest.mark.parametrize("pooling", ["cls", "mean", pytest.param("last", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", mark_others_long(FAMILIES, FEW))
def test_vectors_are_those_of_single_sentences_or_refused(
    name: str, pooling: str, tmp_path: Path
) -> None:
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
        (
            partial(save_model, kind="nystromformer", num_landmarks=16),
            "mean",
            "NystromformerModel fails on sentences",
        ),
        (funnel, "mean", "its last layer has 2 vectors for 8 tokens; use the pooling cls"),
    ],
)
def test_a_model_that_fails_is_one_line(
    save: Callable[[Path], Path], pooling: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=says):
        Student.load(save(tmp_path), pooling)


@pytest.mark.parametrize(
    ("value", "says"), [(float("nan"), "is not finite"), (0.0, "does not change its vector")]
)
def test_weights_without_sense_are_refused(value: float, says: str, tmp_path: Path) -> None:
    folder = save_model(tmp_path, "bert")
    model = transformers.BertModel.from_pretrained(folder)
    torch.nn.init.constant_(model.encoder.layer[-1].output.LayerNorm.weight, value)
    model.save_pretrained(folder)
    with pytest.raises(UserError, match=says):
        Student.load(folder)


def test_a_model_that_counts_its_pad_tokens_reads_no_packed_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pad token is not the tokenizer's; packed rows would give it the position of padding."""

    def counted(ids: torch.Tensor, pad: int, before: int = 0) -> torch.Tensor:
        return torch.arange(pad + 1, pad + 1 + ids.shape[1]).expand(ids.shape)

    embeddings = transformers.models.roberta.modeling_roberta.RobertaEmbeddings
    monkeypatch.setattr(embeddings, "create_position_ids_from_input_ids", staticmethod(counted))
    student = Student.load(save_model(tmp_path, "roberta", pad_token_id=4), "mean").eval()
    assert student.found.rows == "padded"
    (row,) = student.tokenizer(["the [MASK] runs"])["input_ids"]
    assert 4 in row
    single = student.model(torch.tensor([row])).last_hidden_state.mean(1).detach()
    np.testing.assert_allclose(
        student.embed(["the [MASK] runs"]), single, atol=2e-5 * abs(single).max()
    )


@pytest.mark.parametrize(
    ("kind", "positions"),
    # RoBERTa counts from its pad token's id and 1, and gives pad tokens no positions
    [
        ("clip_text_model", {}),
        ("gpt2", {}),
        ("roberta", {"pad_token_id": 5, "max_position_embeddings": 72}),
    ],
)
def test_the_most_tokens_are_found_without_a_table_that_is_known(
    kind: str, positions: dict[str, int], tmp_path: Path
) -> None:
    folder = save_model(
        tmp_path, kind, **{"max_position_embeddings": 66, "n_positions": 66, **positions}
    )
    assert Student.load(folder, "last", max_length=66).longest == 64
    with pytest.raises(UserError, match=r"max_length = 100, .* give --set max_length=66 or fewer"):
        Student.load(folder, "last", max_length=100)


def test_a_trial_leaves_random_states_and_an_answer_is_of_this_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    folder = save_model(tmp_path, "bert")
    before = torch.random.get_rng_state()
    found = Student.load(folder).found
    assert torch.equal(torch.random.get_rng_state(), before)
    assert TrialKey(folder, "cls").get_known() == found
    assert TrialKey(folder, "mean").get_known() is None
    save_model(tmp_path, "bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    assert TrialKey(folder, "cls").get_known() is None
    assert (found.views > 0, Student.load(folder).found.views) == (True, 0.0)


def test_a_known_answer_tries_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_model(tmp_path, "bert")
    found = Student.load(folder).found
    monkeypatch.setattr(trial, "_make_trial_texts", None)
    assert Student.load(folder).found == found


@pytest.mark.parametrize("side", mark_others_long(["left", "right"], ["left"]))
@pytest.mark.parametrize("name", ["bert", "convbert"])
def test_sentence_transformers_gets_batches_whose_vectors_are_right(
    name: str, side: str, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    encoder = Transformer(str(save_model(tmp_path / "encoder", name, side=side)))
    SentenceTransformer(modules=[encoder, Pooling(32, "cls")]).save(str(tmp_path / "model"))
    model, expected = SentenceModules.load(tmp_path / "model"), singly(tmp_path / "encoder", "cls")
    np.testing.assert_allclose(model.embed(SENTENCES), expected, atol=2e-5 * abs(expected).max())
    assert model.found.rows == ("equal lengths" if name == "convbert" else "packed")


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.mark.parametrize("method", mark_others_long(["simcse", "mcse"], ["mcse"]))
def test_an_encoder_without_dropout_is_refused_where_views_must_differ(
    method: str, tmp_path: Path
) -> None:
    folder = save_model(tmp_path / "encoder", "bert", **NO_DROPOUT)
    says = r"has no dropout, so they are equal; give it one with --set dropout=0.1"
    with pytest.raises(UserError, match=says):
        short_run(method, tmp_path / "results", encoders=f"x={folder}", settings="toy")
    assert not (tmp_path / "results").exists()
    (result,) = short_run(
        f"{method}[dropout=0.1]", tmp_path / "results", encoders=f"x={folder}", settings="toy"
    ).runs
    assert result.trial.views > 0


#: a family -> the names of its rates: of states, and of attention
RATES = {
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "modernbert": ("mlp_dropout", "attention_dropout"),
    "distilbert": ("dropout", "attention_dropout"),
    "gpt2": ("resid_pdrop", "attn_pdrop"),
}


@pytest.mark.parametrize("name", mark_others_long(RATES, ["bert", "gpt2"]))
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
        Student.load(save_model(tmp_path / "llama", "llama"), "mean", rates=(0.1, -1.0))


def test_what_the_trial_found_is_in_the_result(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "encoder", "convbert")
    (result,) = short_run("simcse", tmp_path / "results", encoders=f"x={folder}").runs
    assert result.trial is not None
    assert (result.trial.rows, result.trial.longest, result.trial.types) == (
        "equal lengths",
        64,
        (0, 0, 0),
    )
    shown = (
        CliRunner().invoke(show, [result.spec.key, "--results", str(tmp_path / "results")]).output
    )
    assert "trial of the encoder: rows=equal lengths, types=(0, 0, 0), longest=64, alone=" in shown
    assert result.trial.alone < 1e-4 < min(result.trial.views, result.trial.last_word)


@pytest.mark.parametrize(
    ("name", "says"), [("gpt2", "another last word"), ("damaged", "cannot be read")]
)
def test_an_encoder_that_cannot_be_used_is_an_error_of_the_plan(
    name: str, says: str, tmp_path: Path
) -> None:
    folder = FAMILIES["bert" if name == "damaged" else name][1](tmp_path / "encoder")
    if name == "damaged":
        (folder / "model.safetensors").write_bytes(b"no weights")
    words = [
        "--methods",
        "simcse",
        "--encoders",
        f"x={folder}",
        "--results",
        str(tmp_path / "results"),
        "--dry-run",
    ]
    outcome = CliRunner().invoke(run, words)
    assert isinstance(outcome.exception, UserError)
    assert says in str(outcome.exception)
    assert not (tmp_path / "results").exists()
