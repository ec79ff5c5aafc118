"""The papers' full size, synthetic: 1,000,000 sentences, 82,783 images x 5 captions, features 768
wide.

Prints how long tokenising takes, what a warm start takes to its first batch, the loader's tokens a
second beside what one H200 could train at most, and the resident memory that the data add to the
model's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from small_inputs import find_student
from usage import read_resident_mb

CAPTIONS = 5
WIDTH = 768
#: Dense bf16 peak of one H200 (NVIDIA's data sheet) over 6 operations a weight of BERT-base's
#: layers and two views: no training of it reads more tokens of text a second.
H200_TOKENS = 989e12 / (6 * 85e6 * 2)

PROFILE = """
description = "synthetic, full size"
dev = "STS-B-dev"
images = "made"
[defaults]
methods = ["mcse"]
settings = ["wiki+coco"]
encoders = ["student"]
[corpora.wiki]
kind = "sentences-file"
file = "wiki.txt"
how = "made by the benchmark"
[corpora.coco]
kind = "captions-file"
file = "coco.parquet"
captions = "all"
how = "made by the benchmark"
[corpora.coco.features.made]
file = "coco.npy"
how = "made by the benchmark"
[settings."wiki+coco"]
corpora = ["wiki", "coco"]
[encoders.student]
hub = "a/b"
revision = "0000000000000000000000000000000000000000"
[suites.sts]
tasks = ["STS-B"]
"""


def make_data(root: Path, sentences: int, images: int) -> None:
    """Words of the student's own vocabulary, drawn by Zipf's law; lengths like Wikipedia's and
    COCO's.
    """
    import pyarrow
    import pyarrow.parquet as parquet
    from transformers import AutoTokenizer

    vocabulary = AutoTokenizer.from_pretrained(str(find_student())).get_vocab()
    words = np.array(sorted(word for word in vocabulary if word.isalpha()))
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, len(words) + 1)
    chances /= chances.sum()

    def draw_texts(count: int, mean: int) -> list[str]:
        lengths = 3 + rng.poisson(mean - 3, count)
        drawn = words[rng.choice(len(words), lengths.sum(), p=chances)]
        return [" ".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]

    with (root / "wiki.txt").open("w") as stream:
        # in parts, since a million texts at once would take more memory than what is measured
        for start in range(0, sentences, 100_000):
            texts = draw_texts(min(100_000, sentences - start), 20)
            stream.writelines(f"{text}\n" for text in texts)

    captions = draw_texts(images * CAPTIONS, 11)
    columns = {
        "image_id": [f"{row:012}.jpg" for row in range(images)],
        "captions": [captions[row : row + CAPTIONS] for row in range(0, len(captions), CAPTIONS)],
    }
    parquet.write_table(pyarrow.table(columns), root / "coco.parquet")
    np.save(root / "coco.npy", rng.standard_normal((images, WIDTH), dtype=np.float32))
    (root / "full.toml").write_text(PROFILE)


def read_batches(root: Path, count: int) -> None:
    """What a training process does before and while it reads: everything but the model's own steps."""
    import torch

    from harness.encoders.locate import FolderModel
    from harness.encoders.student import Student
    from harness.grid import resolve
    from harness.method import by_batches
    from harness.planning.experiments import Experiments
    from harness.planning.inventory import Inventory
    from harness.processors import measure_peak_memory_mb
    from harness.profiles import load_profile
    from harness.runs.inputs import load_training_data
    from harness.spec import RunSpec
    from harness.training.streams import Batches

    torch.set_num_threads(1)  # the loader's rate is that of one thread
    profile = load_profile(str(root / "full.toml"))
    model = Student.load(find_student())
    before_mb = read_resident_mb("RssAnon")
    start = time.perf_counter()
    inventory = Inventory(profile, root, {"student": FolderModel(find_student())})
    run = resolve(profile, RunSpec.parse("mcse/wiki+coco/student/seed-0"), {})
    experiment = Experiments(inventory, {}).find(run)
    data = load_training_data(experiment, model.tokenizer, "cpu", {})
    batches = Batches(model, data, run.training, {}, seed=0, setting="wiki+coco", rule=by_batches)
    list(batches.take(0))
    first_seconds = time.perf_counter() - start

    mapped_mb = read_resident_mb("RssFile")
    start = time.perf_counter()
    tokens = 0
    rows = 0
    for step in range(count):
        for _, batch in batches.take(batches.steps // 2 + step):
            tokens += int(batch.tokens["attention_mask"].sum())
            rows += len(batch.tokens["input_ids"])
    seconds = time.perf_counter() - start

    counts = ", ".join(f"{len(part):,} {stream}" for stream, part in data.tokens.items())
    token_rate = tokens / seconds
    own_mb = read_resident_mb("RssAnon") - before_mb
    more_mapped_mb = read_resident_mb("RssFile") - mapped_mb
    print(f"  {counts}; first batch after {first_seconds:.2f} s")
    print(
        f"  loader alone, one thread: {token_rate:,.0f} tokens/s, {rows / seconds:,.0f} rows/s, "
        f"{token_rate / H200_TOKENS:.1f}x the most that one H200 could train"
    )
    print(
        f"  resident above the model: {own_mb:.0f} MB own, "
        f"{more_mapped_mb:.0f} MB of mapped files that the kernel may drop; "
        f"peak {measure_peak_memory_mb('cpu'):.0f} MB, the model and its library included"
    )


@click.command(help=__doc__)
@click.option("--sentences", default=1_000_000, show_default=True)
@click.option("--images", default=82_783, show_default=True)
@click.option("--batches", default=2_000, show_default=True, help="Batches that are timed.")
@click.option(
    "--starts",
    type=click.IntRange(1, 3),
    default=3,
    show_default=True,
    help="The first one is cold.",
)
@click.option("--train", "data", type=click.Path(path_type=Path), hidden=True)
def main(sentences: int, images: int, batches: int, starts: int, data: Path | None) -> None:
    if data:
        read_batches(data, batches)
        return

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_data(root, sentences, images)
        environment = {**os.environ, "HARNESS_CACHE": str(root / "cache")}
        command = [sys.executable, __file__, "--train", folder, "--batches", str(batches)]
        for name in ("cold: tokenises, copies the features", "warm", "warm again")[:starts]:
            print(f"{name}:", flush=True)
            start = time.perf_counter()
            subprocess.run(command, check=True, env=environment)
            print(f"  the process took {time.perf_counter() - start:.1f} s in all", flush=True)


if __name__ == "__main__":
    main()
