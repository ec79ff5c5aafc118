"""Pretrain a small text-only BERT for the profile `grounding`: no picture, and no caption of a
test.

FOLDER becomes a model folder that `--encoders text-bert=FOLDER` takes: a BERT of 4 layers and 256
units with its own vocabulary of 8,192 word pieces and its head for masked words, trained by masked
language modelling on sentences of Wikipedia and captions below --data-root. What a test reads is
left out: each sentence of a similarity task and of Crisscrossed Captions, and every caption of an
image of which a test reads a caption. The defaults take about 40 minutes on two cores. The same
command continues after a kill, with the same result; README.md in FOLDER has the recipe. Another
run may choose otherwise between word pieces that are equally frequent.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from harness.columnar import read_columns
from harness.datafiles import read_lines
from harness.datarows import read_rows
from harness.errors import UserError
from harness.evaluation.suites import SIMILARITY, list_sentences
from harness.files import read_note, remove, replace_file, write_note, write_text
from harness.method.interface import UNMASKED, Vocabulary
from harness.registry import get_instance, list_registered
from harness.remarks import normalise_text
from harness.seeds import derive_seed, make_generator
from harness.sources import Checkable

log = logging.getLogger(__name__)

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: the fraction of word pieces masked, as in BERT
MASKED = 0.15
#: seconds between two checkpoints
SAVE_EVERY_S = 60.0
#: batches whose rows are sorted by length together, so that a batch has little padding
SORTED_TOGETHER = 50
CHECKPOINT = ".checkpoint.pt"
PROGRESS = ".recipe.json"


@dataclass(frozen=True)
class Captions:
    """A table of captions below the data root; `test` are the values of `split` that tests read."""

    file: str
    test: tuple[str, ...] = ()

    def read(self, root: Path) -> Iterator[tuple[str, str, str]]:
        """Split, image and text of each caption."""
        columns = ["image_id", "caption"]
        if self.test:
            columns.append("split")
        for _, (image, text, *split) in read_rows(root / self.file, *columns):
            yield split[0] if split else "train", _find_image_number(image), text


def _find_image_number(name: str) -> str:
    """The number of an image, which Flickr8k and Flickr30k share: `1000268201_693b08cb0e.jpg` is
    1000268201.
    """
    return name.partition(".")[0].partition("_")[0].lstrip("0")


SENTENCES = ("wiki/enwiki_sentences.txt.gz",)
CAPTIONS = (
    Captions("captions/flickr30k_captions.tsv.gz", test=("val", "test")),
    Captions("captions/coco_val2017_captions.tsv.gz"),
)
#: tables of test images and their captions
TEST_IMAGES = ("paired/flickr8k/test.parquet", "paired/flickr8k/dev.parquet")


@dataclass(frozen=True)
class Recipe:
    """What decides the weights."""

    steps: int = 4000
    batch_size: int = 256
    learning_rate: float = 1e-3
    longest: int = 40
    pieces: int = 8192
    layers: int = 4
    width: int = 256
    seed: int = 0


def read_texts(root: Path) -> tuple[list[str], dict[str, int]]:
    """The sentences to train on, each once, and how many each file gave and how many were left out,
    by file.

    Files that are not there are left out. Raises UserError if none is.
    """
    texts = dict[str, None]()
    counts = dict[str, int]()
    tested_texts, tested_images = find_tested(root)
    for file in SENTENCES:
        if not (root / file).exists():
            continue
        sentences = [
            line
            for line in read_lines(root / file)
            if line.strip() and normalise_text(line) not in tested_texts
        ]
        counts[file] = len(sentences)
        texts |= dict.fromkeys(sentences)

    for source in CAPTIONS:
        if not (root / source.file).exists():
            continue
        rows = list(source.read(root))
        # an image is left out whole, even where a test reads but one of its captions
        hidden_images = set(tested_images)
        for split, image, text in rows:
            if split in source.test or normalise_text(text) in tested_texts:
                hidden_images.add(image)
        captions = [text for _, image, text in rows if image not in hidden_images]
        counts[source.file] = len(captions)
        counts[f"{source.file}, left out"] = len(rows) - len(captions)
        texts |= dict.fromkeys(captions)

    if not texts:
        files = ", ".join([*SENTENCES, *(source.file for source in CAPTIONS)])
        raise UserError(f"{root} has none of {files}; give the folder that has them as --data-root")
    return list(texts), counts


def find_tested(root: Path) -> tuple[set[str], set[str]]:
    """The texts that some test reads, normalised, and the images whose captions a test reads."""
    texts = set[str]()
    images = set[str]()
    for name in list_registered(SIMILARITY):
        task: Any = get_instance(SIMILARITY, name, Checkable)
        if not task.missing(root):
            texts.update(map(normalise_text, list_sentences(task.load(root))))

    for file in TEST_IMAGES:
        if not (root / file).exists():
            continue
        table = read_columns(root / file, "image_id", "captions")
        images.update(map(_find_image_number, table.column("image_id").to_pylist()))
        for captions in table.column("captions").to_pylist():
            texts.update(map(normalise_text, captions))
    return texts, images


def make_tokenizer(folder: Path, texts: Iterable[str], recipe: Recipe) -> BertTokenizerFast:
    """Make the vocabulary of word pieces in lower case, or read it, and return the tokenizer."""
    path = folder / "vocab.txt"
    if not path.exists():
        maker = BertWordPieceTokenizer(lowercase=True)
        maker.train_from_iterator(
            texts, vocab_size=recipe.pieces, special_tokens=list(SPECIAL), show_progress=False
        )
        pieces = [*SPECIAL, *sorted({*maker.get_vocab()} - {*SPECIAL})]
        write_text(path, "".join(f"{piece}\n" for piece in pieces))
    return BertTokenizerFast(str(path), do_lower_case=True, model_max_length=64)


@dataclass(frozen=True)
class Corpus:
    """The tokens of all texts in one row, and where each text starts."""

    tokens: np.ndarray
    starts: np.ndarray

    @classmethod
    def tokenize(
        cls, texts: Sequence[str], tokenizer: BertTokenizerFast, max_tokens: int
    ) -> Corpus:
        rows: list[list[int]] = []
        for start in range(0, len(texts), 10_000):
            batch = texts[start : start + 10_000]
            rows += tokenizer(batch, truncation=True, max_length=max_tokens)["input_ids"]

        tokens = np.concatenate([np.array(row, np.int32) for row in rows])
        return cls(tokens, starts=np.cumsum([0, *map(len, rows)]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def select_rows(self, step: int, recipe: Recipe) -> np.ndarray:
        """The texts of a step, (batch,): every epoch in a new order, sorted by length within some
        batches.
        """
        epoch_size = len(self) // recipe.batch_size * recipe.batch_size
        place = step * recipe.batch_size
        epoch, place_in_epoch = divmod(place, max(recipe.batch_size, epoch_size))
        order_random = make_generator(axis="pretraining order", seed=recipe.seed, epoch=epoch)
        order = order_random.permutation(len(self))

        # the texts that are sorted together, and the batches of them in a new order
        together = SORTED_TOGETHER * recipe.batch_size
        place_in_part = place_in_epoch % together
        part = order[place_in_epoch - place_in_part :][:together]
        lengths = np.diff(self.starts)[part]
        part = part[np.argsort(lengths, kind="stable")]
        # a corpus may be smaller than a batch
        batches = max(1, len(part) // recipe.batch_size)
        batch_random = make_generator(
            axis="pretraining batches", seed=recipe.seed, place=place // together
        )
        mixed = batch_random.permutation(batches)

        batch = mixed[place_in_part // recipe.batch_size % batches]
        return part[batch * recipe.batch_size :][: recipe.batch_size]

    def mask(
        self, rows: np.ndarray, vocabulary: Vocabulary, random: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """The tokens of some texts with masked pieces, (B, L), -1 after the end; hidden ones,
        UNMASKED elsewhere.
        """
        texts = [self.tokens[self.starts[row] : self.starts[row + 1]].tolist() for row in rows]
        inputs, hidden = vocabulary.masked(texts, MASKED, random)
        padded_inputs = pad_sequence(list(map(torch.tensor, inputs)), True, padding_value=-1)
        padded_hidden = pad_sequence(list(map(torch.tensor, hidden)), True, padding_value=UNMASKED)
        return padded_inputs, padded_hidden


def make_model(recipe: Recipe, pieces: int) -> BertForMaskedLM:
    """Draw the weights from the recipe's seed."""
    config = BertConfig(
        vocab_size=pieces,
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=4,
        intermediate_size=4 * recipe.width,
        max_position_embeddings=64,
    )
    torch.manual_seed(derive_seed(axis="pretraining weights", seed=recipe.seed))
    return BertForMaskedLM(config)


def train(folder: Path, corpus: Corpus, recipe: Recipe, vocabulary: Vocabulary) -> BertForMaskedLM:
    """Train from the checkpoint in the folder, if there is one, to the last step."""
    model = make_model(recipe, vocabulary.size).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.learning_rate, total_steps=recipe.steps + 1
    )
    parts: Mapping[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    path = folder / CHECKPOINT
    first_step = _load_checkpoint(path, parts) if path.exists() else 0

    losses = list[float]()
    start = time.monotonic()
    last_save = start
    for step in range(first_step, recipe.steps):
        losses.append(_take_step(model, optimizer, corpus, recipe, vocabulary, step))
        schedule.step()

        now = time.monotonic()
        steps_done = step + 1
        if steps_done == recipe.steps or now - last_save > SAVE_EVERY_S:
            _save_checkpoint(path, parts, steps_done)
            step_seconds = (now - start) / (steps_done - first_step)
            log.info(
                "step %d of %d, loss %.3f, %.0f min left",
                steps_done,
                recipe.steps,
                np.mean(losses[-100:]),
                step_seconds * (recipe.steps - steps_done) / 60,
            )
            last_save = now
    return model


def _load_checkpoint(path: Path, parts: Mapping[str, Any]) -> int:
    """Load the state of each part; return the number of steps that were taken."""
    state = torch.load(path, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(state[name])
    return int(state["step"])


def _save_checkpoint(path: Path, parts: Mapping[str, Any], steps: int) -> None:
    state: dict[str, Any] = {"step": steps}
    for name, part in parts.items():
        state[name] = part.state_dict()
    with replace_file(path) as file:
        torch.save(state, file)


def _take_step(
    model: BertForMaskedLM,
    optimizer: torch.optim.Optimizer,
    corpus: Corpus,
    recipe: Recipe,
    vocabulary: Vocabulary,
    step: int,
) -> float:
    random = make_generator(axis="pretraining masks", seed=recipe.seed, step=step)
    inputs, hidden = corpus.mask(corpus.select_rows(step, recipe), vocabulary, random)
    # each step draws anew by its number, so that a run that goes on draws as one without a stop
    torch.manual_seed(derive_seed(axis="pretraining dropout", seed=recipe.seed, step=step))
    with torch.autocast("cpu", torch.bfloat16):
        loss = _compute_loss(model, inputs, hidden)

    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def format_card(recipe: Recipe, counts: Mapping[str, int], texts_hash: str, loss: float) -> str:
    """The model card: what it read, what was left out, and how it was trained."""
    counted = "\n".join(f"| {name} | {count:,} |" for name, count in counts.items())
    values = "\n".join(f"| {name} | {value} |" for name, value in asdict(recipe).items())
    return (
        "# A text-only BERT for grounding experiments\n\n"
        "Trained by `tools/pretrain_student.py` on text alone. It has seen no picture, no sentence "
        "of a similarity test and no caption of a test's images. Its [CLS] has learned nothing: "
        "pool by the mean.\n\n"
        f"| read | sentences |\n| --- | ---: |\n{counted}\n\n"
        f"| recipe | |\n| --- | ---: |\n{values}\n\n"
        f"SHA-256 of the sentences: `{texts_hash}`. Loss of masked words at the end, on the first "
        f"2,000 of them: {loss:.3f}.\n"
    )


def _compute_loss(model: BertForMaskedLM, inputs: Tensor, hidden: Tensor) -> Tensor:
    """The cross-entropy of hidden pieces; the head, the dearest layer, is computed where a piece is
    hidden alone.
    """
    places = hidden != UNMASKED
    states = model.bert(inputs.clamp(min=0), attention_mask=(inputs >= 0).long()).last_hidden_state
    loss: Tensor = cross_entropy(model.cls(states[places]).float(), hidden[places])
    return loss


@torch.no_grad()
def compute_final_loss(
    model: BertForMaskedLM, corpus: Corpus, recipe: Recipe, vocabulary: Vocabulary
) -> float:
    """The loss of hidden pieces of the first 2,000 sentences, without dropout."""
    random = make_generator(axis="pretraining loss", seed=recipe.seed)
    rows = np.arange(min(2000, len(corpus)))
    inputs, hidden = corpus.mask(rows, vocabulary, random)
    return float(_compute_loss(model.eval(), inputs, hidden))


def pretrain(folder: Path, root: Path, recipe: Recipe) -> None:
    """Make the model folder. Raises UserError if it was begun with another recipe or other texts."""
    texts, counts = read_texts(root)
    texts_hash = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    progress = {"recipe": asdict(recipe), "texts": texts_hash}
    earlier_progress = read_note(folder / PROGRESS, "it starts again")
    if earlier_progress is not None and earlier_progress != progress:
        raise UserError(
            f"{folder} was begun with another recipe or other texts; name another folder, or remove it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_note(folder / PROGRESS, progress)

    tokenizer = make_tokenizer(folder, texts, recipe)
    corpus = Corpus.tokenize(texts, tokenizer, recipe.longest)
    vocabulary = Vocabulary.of(tokenizer, recipe.longest)
    log.info("%d sentences, %d word pieces", len(corpus), len(corpus.tokens))

    model = train(folder, corpus, recipe, vocabulary)
    loss = compute_final_loss(model, corpus, recipe, vocabulary)
    write_text(folder / "README.md", format_card(recipe, counts, texts_hash, loss))
    tokenizer.save_pretrained(str(folder))
    model.save_pretrained(str(folder))
    remove(folder / CHECKPOINT)


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--data-root",
    "root",
    metavar="FOLDER",
    required=True,
    type=click.Path(path_type=Path, exists=True),
)
@click.option("--steps", default=Recipe.steps, show_default=True, help="Of 256 sentences.")
@click.option("--seed", default=0, show_default=True, help="Of weights, order and masks.")
def main(folder: Path, root: Path, steps: int, seed: int) -> None:
    """Pretrain a student."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        pretrain(folder, root, Recipe(steps=steps, seed=seed))
    except UserError as error:
        raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    main()
