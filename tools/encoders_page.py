"""The page docs/encoders.md: every type of encoder is built small at random, opened as the harness
opens it, and tried.

`make encoders` writes the page. `python tools/encoders_page.py bert roberta` prints what came
back for these types.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
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
    *(
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
    ),
    *(
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
    ),
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
        *(
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "num_attention_heads",
            "n_head",
            "n_heads",
        ),
        *(
            "num_heads",
            "num_key_value_heads",
            "decoder_layers",
            "encoder_layers",
            "decoder_attention_heads",
        ),
        *("encoder_attention_heads", "num_decoder_layers"),
    ),
    16: ("head_dim", "d_head", "d_kv", "attention_head_size"),
    32: (
        *(
            "hidden_size",
            "d_model",
            "dim",
            "emb_dim",
            "n_embd",
            "embedding_size",
            "input_embedding_size",
        ),
        *("output_embedding_size", "entity_emb_size", "true_hidden_size", "intra_bottleneck_size"),
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
    128: ("max_position_embeddings", "n_positions", "n_ctx"),
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


class Tried(NamedTuple):
    """What came back for a model and a pooling: how rows are computed, how far they are off, and
    why it is refused.
    """

    rows: str
    off: float
    refused: str

    @property
    def word(self) -> str:
        if self.refused:
            return "refused"
        return "right" if self.off <= ROUNDING else f"wrong by {self.off:.0%}"


class Row(NamedTuple):
    """A type or a layout: its class, what its released configuration drops, and what came back for
    each pooling.
    """

    name: str
    model: str
    dropout: str
    tried: dict[str, Tried]

    @property
    def reasons(self) -> list[str]:
        return list(dict.fromkeys(each.refused for each in self.tried.values() if each.refused))


def types() -> list[str]:
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
    found = tokenizer_class_from_name(name) if name else PreTrainedTokenizerFast
    return isinstance(found, type) and issubclass(found, PreTrainedTokenizerFast)


def tokenizer(folder: Path) -> int:
    """Save a small WordPiece tokenizer; return the number of its tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = dict(
        zip(
            ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True
        )
    )
    PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=64, **names).save_pretrained(
        folder
    )
    return len(vocabulary)


def small(kind: str, folder: Path, reader: str = "AutoModel", **options: Any) -> str:
    """Save a small random model of a type, as transformers' `reader` makes it, and its tokenizer;
    return its class.
    """
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    sizes = {name: size for size, names in SIZES.items() for name in names}
    sizes |= {
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "vocab_size": tokenizer(folder) + SPARE,
    }
    given = CONFIG_MAPPING[kind]()
    held = {*given.to_dict(), *given.attribute_map}
    chosen = {
        name: size
        for name, size in sizes.items()
        if name in held and not isinstance(getattr(given, name), list)
    }
    torch.manual_seed(0)
    config = CONFIG_MAPPING[kind](**{**chosen, **SPECIAL.get(kind, {}), **options})
    encoder = encoder_class(kind) if config.is_encoder_decoder else None
    if config.get_text_config() is not config or (config.is_encoder_decoder and encoder is None):
        config.save_pretrained(folder)  # it is refused by its configuration
        return str(config.architectures or type(config).__name__.replace("Config", "Model"))
    build = encoder or getattr(transformers, reader).from_config
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in build(config).parameters())
    if count > MOST:
        raise ValueError(f"{count:,} parameters are more than {MOST:,}: SPECIAL lacks its sizes")
    model = build(config)
    with (
        torch.no_grad()
    ):  # the usual deviation of 0.02 would leave vectors of different sentences almost equal
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    model.save_pretrained(folder)
    return type(model).__name__


def encoder_class(kind: str) -> Any:
    """The class of an encoder-decoder's encoder alone, None where transformers has none."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    name = str(MODEL_MAPPING_NAMES[kind]).removesuffix("Model")
    return getattr(transformers, f"{name}EncoderModel", None)


def released_dropout(kind: str) -> str:
    """The largest dropout in a type's configuration as released."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[kind]().to_dict()
    values = [
        value for name, value in config.items()
        if isinstance(value, float) and ("dropout" in name or name.endswith(("_drop", "pdrop"))) and "class" not in name
    ]  # fmt: skip
    return f"{max(values, default=0.0):g}"


@torch.inference_mode()
def alone(folder: Path, pooling: str) -> np.ndarray:
    """Vectors of SENTENCES by plain transformers, one at a time: the definition of the pooling.

    Token ids are those of tokenizer.json, from which transformers departs for some types.
    """
    from tokenizers import Tokenizer
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    reader: Any = AutoModel
    kind = AutoConfig.from_pretrained(folder).model_type
    if encoder_class(kind) is not None:
        reader = encoder_class(kind)
    read = AutoTokenizer.from_pretrained(folder)
    saved = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = reader.from_pretrained(folder, dtype=torch.float32).eval()
    vectors = []
    for sentence in SENTENCES:
        inputs = read(sentence, return_tensors="pt")
        ids = torch.tensor([saved.encode(sentence).ids])
        if not torch.equal(inputs["input_ids"], ids):
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        output = model(**inputs, output_hidden_states=True)
        vectors.append(_pooled(output, pooling).numpy())
    return np.stack(vectors)


def _pooled(output: Any, pooling: str) -> torch.Tensor:
    last: torch.Tensor = output.last_hidden_state[0]
    if pooling == "pooler":
        vector: torch.Tensor = output.pooler_output[0]
        return vector
    if pooling == "avg-first-last":
        last = (output.hidden_states[0][0] + last) / 2
    return last[{"cls": 0, "last": -1}[pooling]] if pooling in ("cls", "last") else last.mean(0)


def by_modules(folder: Path, pooling: str) -> np.ndarray:
    """Vectors of SENTENCES by plain sentence-transformers, one at a time."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return np.stack([model.encode([sentence])[0] for sentence in SENTENCES])


def tried(
    folder: Path, pooling: str, reference: Callable[[Path, str], np.ndarray] = alone
) -> Tried:
    """Open a folder as the harness does, embed SENTENCES in one batch, and compare each with itself
    alone.
    """
    try:
        with torch.inference_mode():
            model = open_model(folder, pooling)
            rows = model.embed(SENTENCES)
    except UserError as error:
        return Tried(
            "", 0.0, str(error).replace(str(folder), "FOLDER").replace(str(folder.parent), ".")
        )
    except Exception as error:  # what the harness should have refused
        return Tried(
            "",
            float("inf"),
            f"NOT REFUSED: {type(error).__name__}: {str(error).splitlines()[0][:200]}",
        )
    how = "modules" if isinstance(model, SentenceModules) else model.found.rows
    try:
        expected = reference(folder, pooling)
    except Exception as error:
        return Tried(
            how,
            float("inf"),
            f"NO REFERENCE: {type(error).__name__}: {str(error).splitlines()[0][:200]}",
        )
    far = np.linalg.norm(rows - expected, axis=1) / np.maximum(
        np.linalg.norm(expected, axis=1), 1e-12
    )
    return Tried(how, float(far.max()), "")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
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


def row_of(kind: str) -> Row:
    """Build a type and try every pooling."""
    folder = Path(tempfile.mkdtemp()) / "model"
    folder.mkdir()
    with quiet():
        try:
            name = small(kind, folder)
        except Exception as error:
            why = str(error).splitlines() or [""]
            return Row(
                kind,
                "",
                "",
                {"": Tried("", 0.0, f"not built: {type(error).__name__}: {why[0][:200]}")},
            )
        made = Row(
            kind,
            name,
            released_dropout(kind),
            {pooling: tried(folder, pooling) for pooling in POOLINGS},
        )
    shutil.rmtree(folder.parent)
    return made


def layouts(encoder: Path) -> dict[str, list[Any]]:
    """Modules of sentence-transformers over an encoder of width 32, by what they are."""
    from sentence_transformers.sentence_transformer import modules as made
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer
    from transformers import AutoTokenizer

    torch.manual_seed(0)
    read = AutoTokenizer.from_pretrained(encoder)
    every_layer = {"output_hidden_states": True}

    def first() -> Any:
        return made.Transformer(str(encoder))

    def words() -> Any:
        return made.WordEmbeddings(WhitespaceTokenizer(WORDS), torch.randn(len(WORDS), 32))

    def static() -> Any:
        return made.StaticEmbedding(read.backend_tokenizer, embedding_dim=8)

    return {
        **{
            f"pooling {mode}": [first(), made.Pooling(32, mode)]
            for mode in ("cls", "mean", "max", "lasttoken")
        },
        **{
            f"pooling {mode}": [first(), made.Pooling(32, mode)]
            for mode in ("weightedmean", "mean_sqrt_len_tokens")
        },
        "pooling cls and mean": [first(), made.Pooling(32, ("cls", "mean"))],
        "mean, normalised": [first(), made.Pooling(32, "mean"), made.Normalize()],
        "mean, dense": [first(), made.Pooling(32, "mean"), made.Dense(32, 8)],
        "mean, layer norm": [first(), made.Pooling(32, "mean"), made.LayerNorm(32)],
        "mean, dropout": [first(), made.Pooling(32, "mean"), made.Dropout(0.1)],
        "CNN, mean": [first(), made.CNN(32, 16), made.Pooling(48, "mean")],
        "LSTM, mean": [first(), made.LSTM(32, 16), made.Pooling(32, "mean")],
        "weighted layers, mean": [
            made.Transformer(str(encoder), config_kwargs=every_layer),
            made.WeightedLayerPooling(32, num_hidden_layers=2, layer_start=1),
            made.Pooling(32, "mean"),
        ],
        "static embedding": [static()],
        "word embeddings, mean": [words(), made.Pooling(32, "mean")],
        "word embeddings, LSTM, mean": [words(), made.LSTM(32, 16), made.Pooling(32, "mean")],
        "word embeddings with weights, mean": [
            words(),
            made.WordWeights(WORDS, {"dog": 2.0, "the": 0.1}),
            made.Pooling(32, "mean"),
        ],
        "bag of words": [made.BoW(WORDS)],
        "router of static embeddings": [made.Router.for_query_document([static()], [static()])],
        "router of an encoder and a static embedding": [
            made.Router.for_query_document(
                [static()], [first(), made.Pooling(32, "mean"), made.Dense(32, 8)]
            )
        ],
        "prompts, in the mean": [first(), made.Pooling(32, "mean")],
        "prompts, outside the mean": [first(), made.Pooling(32, "mean", include_prompt=False)],
    }


def layout_folders(base: Path) -> dict[str, Path]:
    """Save each layout by sentence-transformers: its folder, by what it is."""
    from sentence_transformers import SentenceTransformer

    encoder = base / "encoder"
    small("bert", encoder)
    folders = {}
    for name, modules in layouts(encoder).items():
        folder = base / name.replace(" ", "-")
        prompts: dict[str, Any] = {}
        if "prompts" in name:
            prompts = {"prompts": {"query": "the red "}, "default_prompt_name": "query"}
        SentenceTransformer(modules=modules, device="cpu", **prompts).save(str(folder))
        folders[name] = folder
    return folders


def layout_rows() -> list[tuple[str, Tried]]:
    """Try each layout by its modules."""
    with tempfile.TemporaryDirectory() as base, quiet():
        folders = layout_folders(Path(base))
        return [(name, tried(folder, "modules", by_modules)) for name, folder in folders.items()]


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


def _cell(each: Tried, notes: list[str], model: str = "") -> str:
    if not each.refused:
        return each.word
    why = each.refused.replace(f"a {model}", "a CLASS") if model else each.refused
    if why not in notes:
        notes.append(why)
    return f"refused ({notes.index(why) + 1})"


def outcome(row: Row, notes: list[str]) -> str:
    """How rows were read, and the poolings that were right and refused; new reasons are added to the
    `notes`.
    """
    rows = "/".join(dict.fromkeys(each.rows for each in row.tried.values() if each.rows))
    poolings_by_cell: dict[str, list[str]] = {}
    for pooling in POOLINGS:
        cell = _cell(row.tried[pooling], notes, row.model)
        poolings_by_cell.setdefault(cell, []).append(pooling)
    cells = [f"{cell} {', '.join(poolings)}" for cell, poolings in poolings_by_cell.items()]
    return "; ".join([rows or "not read", *cells])


def _grouped(names_by_word: Mapping[str, list[str]], comma: str = ", ") -> list[str]:
    return [f"- {word}: {comma.join(names)}" for word, names in names_by_word.items()]


def page() -> str:
    """The text of docs/encoders.md; minutes."""
    fast = [kind for kind in types() if has_fast_tokenizer(kind)]
    notes: list[str] = []
    rows = [row_of(kind) for kind in fast]
    names_by_outcome: dict[str, list[str]] = {}
    names_by_dropout: dict[str, list[str]] = {}
    for row in rows:
        if row.model:
            names_by_outcome.setdefault(outcome(row, notes), []).append(row.name)
            names_by_dropout.setdefault(f"dropout {row.dropout}", []).append(row.name)
    unbuilt = [f"- `{row.name}`: {row.reasons[0]}" for row in rows if not row.model]
    layout_notes: list[str] = []
    layouts_by_cell: dict[str, list[str]] = {}
    for name, each in layout_rows():
        layouts_by_cell.setdefault(_cell(each, layout_notes), []).append(name)
    without = sorted({*types()} - {*fast})
    return text_of(
        names_by_outcome, notes, names_by_dropout, unbuilt, without, layouts_by_cell, layout_notes
    )


def text_of(
    names_by_outcome: Mapping[str, list[str]],
    notes: Sequence[str],
    names_by_dropout: Mapping[str, list[str]],
    unbuilt: Sequence[str],
    without: Sequence[str],
    layouts_by_cell: Mapping[str, list[str]],
    layout_notes: Sequence[str],
) -> str:
    """The page from what was tried."""
    from importlib.metadata import version

    others = {word: names for word, names in names_by_dropout.items() if word != "dropout 0.1"}
    parts = [
        _HEAD.format(transformers=version("transformers"), count=len(SENTENCES)),
        *_grouped(names_by_outcome),
        "\nThe largest dropout of the released configuration is 0.1, but for these types:\n",
        *_grouped(others),
        "\nReasons, for a FOLDER with a model of that CLASS:\n",
        *(f"{number}. {note}" for number, note in enumerate(notes, 1)),
        *(
            ["\nNot tried, because no small model could be built here:\n", *unbuilt]
            if unbuilt
            else []
        ),
        f"\nWithout a fast tokenizer, and not tried: {', '.join(without)}.",
        "\n## Layouts of sentence-transformers\n",
        "Over a small BERT, by their modules, compared one sentence at a time with sentence-transformers "
        f"({version('sentence-transformers')}).\n",
        *_grouped(layouts_by_cell, "; "),
        *(f"\n{number}. {note}" for number, note in enumerate(layout_notes, 1)),
        _BELOW,
    ]
    return "\n".join(parts)


@click.command(help=__doc__)
@click.option("--write", is_flag=True, help="Write the page; minutes.")
@click.argument("types", nargs=-1)
def main(write: bool, types: tuple[str, ...]) -> None:
    """Print what came back for some types, or write the page."""
    if write:
        made = page()
        (Path(__file__).parents[1] / "docs" / "encoders.md").write_text(made, "utf-8")
    reasons: list[str] = []
    for kind in types:
        click.echo(f"{kind}: {outcome(row_of(kind), reasons)}")
    for reason in reasons:
        click.echo(reason)


if __name__ == "__main__":
    main()
