"""The page docs/encoders.md: every type of encoder is built small at random, opened as the harness
opens it, and tried.

`make encoders` writes the page. `python tools/encoders_page.py bert roberta` prints what came
back for these types.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import torch

from harness.encoders.sentence_modules import SentenceModules, open_model
from harness.errors import UserError

WORDS = [
    "the",
    "a",
    "big",
    "small",
    "red",
    "blue",
    "green",
    "old",
    "circle",
    "square",
    "ring",
    "dog",
    "cat",
    "horse",
    "house",
    "is",
    "was",
    "on",
    "left",
    "right",
    "of",
    "and",
    "runs",
    "sleeps",
    "##s",
    "##er",
    ".",
    ",",
]
#: of very different lengths: what else is in a batch must not matter
SENTENCES = [
    "the big red circle is on the left of the small blue square .",
    "a dog",
    "the old cat sleeps and the horse runs",
    "horse",
    "a ring , a ring and a ring is on the right of the house of the big green dog and the small old red cat .",
]
POOLINGS = ("cls", "last", "mean", "avg-first-last", "pooler")
#: the largest difference from a sentence on its own, relative to the vector's length, that counts
#: as rounding
ROUNDING = 1e-4
#: rows for tokens that some classes of tokenizers add to any vocabulary
SPARE = 8
#: parameters of a small model
MOST = 3_000_000
#: names that configurations have for one quantity, and its value in the small models
SIZES: dict[int, tuple[str, ...]] = {
    2: (
        "num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_layers",
        "num_attention_heads",
        "n_head",
        "n_heads",
        "num_heads",
        "num_key_value_heads",
        "decoder_layers",
        "encoder_layers",
        "decoder_attention_heads",
        "encoder_attention_heads",
        "num_decoder_layers",
    ),
    16: (
        "head_dim",
        "d_head",
        "d_kv",
        "attention_head_size",
    ),
    32: (
        "hidden_size",
        "d_model",
        "dim",
        "emb_dim",
        "n_embd",
        "embedding_size",
        "input_embedding_size",
        "output_embedding_size",
        "entity_emb_size",
        "true_hidden_size",
        "intra_bottleneck_size",
    ),
    64: (
        "intermediate_size",
        "d_inner",
        "d_ff",
        "hidden_dim",
        "ffn_dim",
        "decoder_ffn_dim",
        "encoder_ffn_dim",
    ),
    128: (
        "max_position_embeddings",
        "n_positions",
        "n_ctx",
    ),
}
#: what a type needs beyond SIZES
SPECIAL: dict[str, dict[str, Any]] = {
    "canine": {"num_hash_functions": 2, "num_hash_buckets": 64},
    "convbert": {"num_groups": 1, "head_ratio": 1},
    "funnel": {
        "block_sizes": [1, 1],
        "block_repeats": [1, 1],
        "num_decoder_layers": 1,
        "d_head": 16,
        "architectures": ["FunnelModel"],
    },
    "layoutlmv3": {"coordinate_size": 4, "shape_size": 8, "visual_embed": False},
    "lilt": {"hidden_size": 48},
    "longformer": {"attention_window": 8},
    "luke": {"entity_vocab_size": 8},
    "mistral4": {
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "q_lora_rank": 16,
        "kv_lora_rank": 8,
        "head_dim": 8,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
    },
    "mobilebert": {"hidden_size": 32, "embedding_size": 32},
    "nystromformer": {"num_landmarks": 8, "segment_means_seq_len": 8},
    "reformer": {"axial_pos_embds_dim": (16, 16), "axial_pos_shape": (8, 16), "is_decoder": False},
    "xmod": {"languages": ("en_XX",), "default_language": "en_XX"},
}
#: decoders that are used as sentence encoders
DECODERS = (
    "gpt2",
    "opt",
    "bloom",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma",
    "gemma3_text",
    "xlnet",
    "bert-generation",
)


class Outcome(NamedTuple):
    """What came back for a model and a pooling."""

    #: how rows are computed
    rows: str
    #: the largest difference from a sentence alone, as a share of the vector's length
    error: float
    #: why it is refused
    refused: str

    @property
    def word(self) -> str:
        if self.refused:
            return "refused"
        return "right" if self.error <= ROUNDING else f"wrong by {self.error:.0%}"


class Row(NamedTuple):
    """A type: its class, what its released configuration drops, and what came back for each
    pooling.
    """

    name: str
    model: str
    dropout: str
    outcomes: dict[str, Outcome]

    @property
    def reasons(self) -> list[str]:
        refused = [outcome.refused for outcome in self.outcomes.values()]
        return list(dict.fromkeys(filter(None, refused)))


def list_types() -> list[str]:
    """The types of transformers that are no decoders: masked language models, text encoders, and
    others with heads.
    """
    from transformers.models.auto import modeling_auto as auto

    masked = {*auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, *auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES}
    headed = {
        *auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        *auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    }
    headed -= {*auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    return sorted((masked | headed | {*DECODERS}) & {*auto.MODEL_MAPPING_NAMES})


def has_fast_tokenizer(kind: str) -> bool:
    """Whether the tokenizer of a type is computed by the library tokenizers."""
    from transformers import PreTrainedTokenizerFast
    from transformers.models.auto.tokenization_auto import (
        TOKENIZER_MAPPING_NAMES,
        tokenizer_class_from_name,
    )

    name = TOKENIZER_MAPPING_NAMES.get(kind)
    if not name:
        return True
    tokenizer_class = tokenizer_class_from_name(name)
    return isinstance(tokenizer_class, type) and issubclass(
        tokenizer_class, PreTrainedTokenizerFast
    )


def save_tokenizer(folder: Path) -> int:
    """Save a small WordPiece tokenizer; return the number of its tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )

    roles = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    tokens = dict(zip(roles, special, strict=True))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **tokens)
    fast.save_pretrained(folder)
    return len(vocabulary)


def save_small_model(kind: str, folder: Path, reader: str = "AutoModel", **options: Any) -> str:
    """Save a small random model of a type, as transformers' `reader` makes it, and its tokenizer;
    return its class.
    """
    import transformers

    torch.manual_seed(0)
    config = _make_small_config(kind, save_tokenizer(folder) + SPARE, options)
    encoder = find_encoder_class(kind) if config.is_encoder_decoder else None
    if config.get_text_config() is not config or (config.is_encoder_decoder and encoder is None):
        config.save_pretrained(folder)  # it is refused by its configuration
        return str(config.architectures or type(config).__name__.replace("Config", "Model"))

    build = encoder or getattr(transformers, reader).from_config
    # counted before it takes memory
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in build(config).parameters())
    if count > MOST:
        raise ValueError(f"{count:,} parameters are more than {MOST:,}: SPECIAL lacks its sizes")

    model = build(config)
    # the usual deviation of 0.02 would leave vectors of different sentences almost equal
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)

    model.save_pretrained(folder)
    return type(model).__name__


def _make_small_config(kind: str, tokens: int, options: Mapping[str, Any]) -> Any:
    """The configuration of a small model of a type, with so many rows for tokens."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    sizes = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "vocab_size": tokens}
    for size, names in SIZES.items():
        sizes |= dict.fromkeys(names, size)

    default = CONFIG_MAPPING[kind]()
    names_there = {*default.to_dict(), *default.attribute_map}

    def is_number(name: str) -> bool:
        return name in names_there and not isinstance(getattr(default, name), list)

    values: dict[str, Any] = {name: size for name, size in sizes.items() if is_number(name)}
    return CONFIG_MAPPING[kind](**{**values, **SPECIAL.get(kind, {}), **options})


def find_encoder_class(kind: str) -> Any:
    """The class of an encoder-decoder's encoder alone, None where transformers has none."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    name = str(MODEL_MAPPING_NAMES[kind]).removesuffix("Model")
    return getattr(transformers, f"{name}EncoderModel", None)


def find_released_dropout(kind: str) -> str:
    """The largest dropout in a type's configuration as released."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    largest = 0.0
    for name, value in CONFIG_MAPPING[kind]().to_dict().items():
        is_dropout = "dropout" in name or name.endswith(("_drop", "pdrop"))
        # that of a classifier's head is no dropout of the encoder
        if isinstance(value, float) and is_dropout and "class" not in name:
            largest = max(largest, value)
    return f"{largest:g}"


@torch.inference_mode()
def embed_by_transformers(folder: Path, pooling: str) -> np.ndarray:
    """Vectors of SENTENCES by plain transformers, one at a time: the definition of the pooling.

    Token ids are those of tokenizer.json, from which transformers departs for some types.
    """
    from tokenizers import Tokenizer
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    kind = AutoConfig.from_pretrained(folder).model_type
    reader: Any = find_encoder_class(kind) or AutoModel
    model = reader.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    saved_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    vectors = []
    for sentence in SENTENCES:
        inputs = tokenizer(sentence, return_tensors="pt")
        ids = torch.tensor([saved_tokenizer.encode(sentence).ids])
        if not torch.equal(inputs["input_ids"], ids):
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        output = model(**inputs, output_hidden_states=True)
        vectors.append(_pool(output, pooling).numpy())
    return np.stack(vectors)


def _pool(output: Any, pooling: str) -> torch.Tensor:
    if pooling == "pooler":
        pooled: torch.Tensor = output.pooler_output[0]
        return pooled

    states: torch.Tensor = output.last_hidden_state[0]
    if pooling == "cls":
        return states[0]
    if pooling == "last":
        return states[-1]
    if pooling == "avg-first-last":
        states = (output.hidden_states[0][0] + states) / 2
    return states.mean(0)


def embed_by_modules(folder: Path, pooling: str) -> np.ndarray:
    """Vectors of SENTENCES by plain sentence-transformers, one at a time."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return np.stack([model.encode([sentence])[0] for sentence in SENTENCES])


def try_folder(
    folder: Path,
    pooling: str,
    embed_alone: Callable[[Path, str], np.ndarray] = embed_by_transformers,
) -> Outcome:
    """Open a folder as the harness does, embed SENTENCES in one batch, and compare each with itself
    alone.
    """
    try:
        with torch.inference_mode():
            model = open_model(folder, pooling)
            vectors = model.embed(SENTENCES)
    except UserError as error:
        reason = str(error).replace(str(folder), "FOLDER").replace(str(folder.parent), ".")
        return Outcome("", 0.0, reason)
    except Exception as error:  # what the harness should have refused
        return Outcome("", float("inf"), f"NOT REFUSED: {_describe_error(error)}")

    rows = "modules" if isinstance(model, SentenceModules) else model.found.rows
    try:
        expected = embed_alone(folder, pooling)
    except Exception as error:
        return Outcome(rows, float("inf"), f"NO REFERENCE: {_describe_error(error)}")

    lengths = np.maximum(np.linalg.norm(expected, axis=1), 1e-12)
    errors = np.linalg.norm(vectors - expected, axis=1) / lengths
    return Outcome(rows, float(errors.max()), "")


def _describe_error(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


@contextlib.contextmanager
def silence_libraries() -> Iterator[None]:
    """Without the libraries' warnings."""
    logging.disable(logging.ERROR)
    with (
        warnings.catch_warnings(),
        Path(os.devnull).open("w") as nothing,
        contextlib.redirect_stderr(nothing),
    ):
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def try_type(kind: str) -> Row:
    """Build a type and try every pooling."""
    with tempfile.TemporaryDirectory() as base, silence_libraries():
        folder = Path(base) / "model"
        folder.mkdir()
        try:
            model = save_small_model(kind, folder)
        except Exception as error:
            unbuilt = Outcome("", 0.0, f"not built: {_describe_error(error)}")
            return Row(kind, "", "", {"": unbuilt})

        outcomes = {pooling: try_folder(folder, pooling) for pooling in POOLINGS}
        return Row(kind, model, find_released_dropout(kind), outcomes)


def make_layouts(encoder: Path) -> dict[str, list[Any]]:
    """Modules of sentence-transformers over an encoder of width 32, by what they are."""
    from sentence_transformers.sentence_transformer import modules
    from sentence_transformers.sentence_transformer.modules import Pooling
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer
    from transformers import AutoTokenizer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(encoder)

    def make_encoder() -> Any:
        return modules.Transformer(str(encoder))

    def make_words() -> Any:
        return modules.WordEmbeddings(WhitespaceTokenizer(WORDS), torch.randn(len(WORDS), 32))

    def make_static() -> Any:
        return modules.StaticEmbedding(tokenizer.backend_tokenizer, embedding_dim=8)

    mean = Pooling(32, "mean")
    layouts = {}
    for mode in ("cls", "mean", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens"):
        layouts[f"pooling {mode}"] = [make_encoder(), Pooling(32, mode)]
    layouts["pooling cls and mean"] = [make_encoder(), Pooling(32, ("cls", "mean"))]

    layouts["mean, normalised"] = [make_encoder(), mean, modules.Normalize()]
    layouts["mean, dense"] = [make_encoder(), mean, modules.Dense(32, 8)]
    layouts["mean, layer norm"] = [make_encoder(), mean, modules.LayerNorm(32)]
    layouts["mean, dropout"] = [make_encoder(), mean, modules.Dropout(0.1)]
    layouts["CNN, mean"] = [make_encoder(), modules.CNN(32, 16), Pooling(48, "mean")]
    layouts["LSTM, mean"] = [make_encoder(), modules.LSTM(32, 16), mean]

    config = {"output_hidden_states": True}
    every_layer = modules.Transformer(str(encoder), config_kwargs=config)
    weighted = modules.WeightedLayerPooling(32, num_hidden_layers=2, layer_start=1)
    layouts["weighted layers, mean"] = [every_layer, weighted, mean]

    layouts["static embedding"] = [make_static()]
    layouts["word embeddings, mean"] = [make_words(), mean]
    layouts["word embeddings, LSTM, mean"] = [make_words(), modules.LSTM(32, 16), mean]
    word_weights = modules.WordWeights(WORDS, {"dog": 2.0, "the": 0.1})
    layouts["word embeddings with weights, mean"] = [make_words(), word_weights, mean]
    layouts["bag of words"] = [modules.BoW(WORDS)]

    route = modules.Router.for_query_document
    layouts["router of static embeddings"] = [route([make_static()], [make_static()])]
    layouts["router of an encoder and a static embedding"] = [
        route([make_static()], [make_encoder(), mean, modules.Dense(32, 8)])
    ]

    layouts["prompts, in the mean"] = [make_encoder(), mean]
    outside = Pooling(32, "mean", include_prompt=False)
    layouts["prompts, outside the mean"] = [make_encoder(), outside]
    return layouts


def save_layouts(base: Path) -> dict[str, Path]:
    """Save each layout by sentence-transformers: its folder, by what it is."""
    from sentence_transformers import SentenceTransformer

    encoder = base / "encoder"
    save_small_model("bert", encoder)
    folders = {}
    for name, modules in make_layouts(encoder).items():
        folder = base / name.replace(" ", "-")
        prompts: dict[str, Any] = {}
        if "prompts" in name:
            prompts = {"prompts": {"query": "the red "}, "default_prompt_name": "query"}
        SentenceTransformer(modules=modules, device="cpu", **prompts).save(str(folder))
        folders[name] = folder
    return folders


def try_layouts() -> dict[str, Outcome]:
    """Try each layout by its modules."""
    outcomes = {}
    with tempfile.TemporaryDirectory() as base, silence_libraries():
        for name, folder in save_layouts(Path(base)).items():
            outcomes[name] = try_folder(folder, "modules", embed_by_modules)
    return outcomes


_HEAD = """# Encoders: which families were tried

<!-- made by `make encoders`; edit tools/encoders_page.py -->

For whoever chooses an encoder. Of each type of transformers ({transformers}) that has a fast tokenizer, a small random
model was opened as `harness run` and `harness eval` open it. {count} sentences of 3 to 30 tokens were embedded in one
batch and compared with plain transformers, one sentence at a time, with each pooling.

- **right**: equal up to rounding. **refused**: one line before any work, given below the list.
- `packed`: sentences are computed without padding. `padded`: with it. `equal lengths`: vectors would depend on padding,
  so that sentences of equal length are embedded together.
- Token ids are those of a folder's tokenizer.json; a remark says where transformers would build another tokenizer.
- SimCSE and the methods that extend it need dropout above 0.
"""
_BELOW = """
## What is refused in every family

- Adapters (`adapter_config.json`, `adapter_model.*`): merge them. Quantised weights (`quantization_config`, int8, fp8):
  weights are read as float64, float32, float16 or bfloat16 only.
- A file that can hold weights or settings and is not known, such as `projection.pt`: move it out of the folder if the
  vectors do not depend on it. Other formats (ONNX, TensorFlow, GGUF), states of trainers and folders that
  `modules.json` does not list are without effect.
- Tensors that the encoder does not use, unless transformers' own classes of the type add them (heads of masked language
  models, classifiers) or the papers' codes save them beside the encoder; missing tensors; a prefix of all names.
- Models of pairs or of images, cross-encoders, sparse encoders, and encoder-decoders; of T5's family the encoder is
  read.
- The code of a repository, without `--trust-remote-code`; an attention from another repository.
"""


def _format_cell(outcome: Outcome, notes: list[str], model: str = "") -> str:
    """What came back in a word or two; a new reason is added to the `notes`."""
    if not outcome.refused:
        return outcome.word

    reason = outcome.refused
    if model:
        reason = reason.replace(f"a {model}", "a CLASS")
    if reason not in notes:
        notes.append(reason)
    return f"refused ({notes.index(reason) + 1})"


def describe_row(row: Row, notes: list[str]) -> str:
    """How rows were read, and the poolings that were right and refused; new reasons are added to the
    `notes`.
    """
    poolings_by_cell: dict[str, list[str]] = {}
    for pooling in POOLINGS:
        cell = _format_cell(row.outcomes[pooling], notes, row.model)
        poolings_by_cell.setdefault(cell, []).append(pooling)
    cells = [f"{cell} {', '.join(poolings)}" for cell, poolings in poolings_by_cell.items()]

    kinds = [outcome.rows for outcome in row.outcomes.values() if outcome.rows]
    rows = "/".join(dict.fromkeys(kinds))
    return "; ".join([rows or "not read", *cells])


def _format_groups(names_by_word: Mapping[str, list[str]], comma: str = ", ") -> list[str]:
    return [f"- {word}: {comma.join(names)}" for word, names in names_by_word.items()]


def make_page() -> str:
    """The text of docs/encoders.md; minutes."""
    kinds = list_types()
    rows = [try_type(kind) for kind in kinds if has_fast_tokenizer(kind)]
    slow = [kind for kind in kinds if not has_fast_tokenizer(kind)]
    return format_page(rows, slow, try_layouts())


def format_page(rows: Sequence[Row], slow: Sequence[str], layouts: Mapping[str, Outcome]) -> str:
    """The page from what was tried; `slow` are the types without a fast tokenizer."""
    from importlib.metadata import version

    notes: list[str] = []
    unbuilt = []
    names_by_outcome: dict[str, list[str]] = {}
    names_by_dropout: dict[str, list[str]] = {}
    for row in rows:
        if not row.model:
            unbuilt.append(f"- `{row.name}`: {row.reasons[0]}")
            continue
        names_by_outcome.setdefault(describe_row(row, notes), []).append(row.name)
        if row.dropout != "0.1":
            names_by_dropout.setdefault(f"dropout {row.dropout}", []).append(row.name)

    layout_notes: list[str] = []
    layouts_by_cell: dict[str, list[str]] = {}
    for name, outcome in layouts.items():
        layouts_by_cell.setdefault(_format_cell(outcome, layout_notes), []).append(name)

    lines = [_HEAD.format(transformers=version("transformers"), count=len(SENTENCES))]
    lines += _format_groups(names_by_outcome)
    lines.append(
        "\nThe largest dropout of the released configuration is 0.1, but for these types:\n"
    )
    lines += _format_groups(names_by_dropout)
    lines.append("\nReasons, for a FOLDER with a model of that CLASS:\n")
    lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    if unbuilt:
        lines.append("\nNot tried, because no small model could be built here:\n")
        lines += unbuilt
    lines.append(f"\nWithout a fast tokenizer, and not tried: {', '.join(slow)}.")

    lines.append("\n## Layouts of sentence-transformers\n")
    lines.append(
        "Over a small BERT, by their modules, compared one sentence at a time with sentence-transformers "
        f"({version('sentence-transformers')}).\n"
    )
    lines += _format_groups(layouts_by_cell, "; ")
    lines += [f"\n{number}. {note}" for number, note in enumerate(layout_notes, 1)]
    lines.append(_BELOW)
    return "\n".join(lines)


@click.command(help=__doc__)
@click.option("--write", is_flag=True, help="Write the page; minutes.")
@click.argument("types", nargs=-1)
def main(write: bool, types: tuple[str, ...]) -> None:
    """Print what came back for some types, or write the page."""
    if write:
        page = Path(__file__).parents[1] / "docs" / "encoders.md"
        page.write_text(make_page(), "utf-8")

    reasons: list[str] = []
    for kind in types:
        click.echo(f"{kind}: {describe_row(try_type(kind), reasons)}")
    for reason in reasons:
        click.echo(reason)


if __name__ == "__main__":
    main()
