"""The rehearsal with data of full size: what each stage takes in time, memory and disk.

A million sentences, 29,783 captions and 31,783 images of Flickr30k, 82,783 captions and 123,287
images of COCO, features in MCSE's HDF5 files, SentEval's sets and 52 data sets of mteb, served on
loopback: about 3 GB. Weights, pictures and mteb's sets are small, and a run trains two steps, so
times are those of the way to and from the training.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from counts import FULL
from hub import publish_tasks
from world import World, printed_commands, world

from harness import fetching
from harness.profiles import load_profile

ENTRIES = (
    *(
        "wiki1m",
        "senteval",
        "karpathy",
        "flickr30k-entities",
        "flickr-captions",
        "flickr-resnet",
        "coco-captions",
    ),
    *("coco-matched", "coco-resnet", "coco-train-images", "coco-val-images"),
)
SHORTER = " --seeds 1 --set steps=2"
COCO = "--methods mcse,dalr,kdmcse --settings wiki+coco"


def megabytes(folder: Path) -> float:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def processor_seconds() -> float:
    """What processes that have ended took of a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stage(machine: World, command: str, **variables: str) -> None:
    """Run a command and print its line of the table."""
    start, before = time.perf_counter(), processor_seconds()
    machine.well(command, **variables)
    seconds, busy = time.perf_counter() - start, processor_seconds() - before
    peak_mb = float((machine.folder / "peak.txt").read_text())
    places = ("data", "hf", "cache", "results")
    disk = " | ".join(f"{megabytes(machine.folder / name):,.0f}" for name in places)
    words = command.partition(" --accept")[0].partition(" /")[0]
    print(f"| `{words}` | {seconds:.0f} | {busy:.0f} | {peak_mb:,.0f} | {disk} |", flush=True)


def rehearse(machine: World, tasks: list[str]) -> None:
    """Everything that a user types: the mission's command, COCO, mteb and the public weights."""
    offline = {"HF_HUB_OFFLINE": "1"}
    restricted = [name for name, entry in fetching.entries().items() if entry.restricted]
    accepted = f"--accept-licences {','.join([*restricted, *tasks])}"
    _, fetches, imports, runs, reports = printed_commands("docs/data.md", "From nothing to a table")
    stage(machine, fetches)
    stage(machine, imports.replace("FOLDER", str(machine.publishers.by_hand("flickr-images"))))
    stage(machine, "harness data verify")
    stage(machine, f"{runs.partition(' --seeds')[0]}{SHORTER}", **offline)
    stage(machine, f"{runs.partition(' --seeds')[0]}{SHORTER}", **offline)
    stage(machine, f"harness fetch {COCO} {accepted}")
    stage(machine, f"harness run {COCO} --suites sts,retrieval{SHORTER}", **offline)
    stage(machine, f"harness fetch --table dalr:T5 {accepted}")
    stage(machine, f"harness fetch --released {accepted}")
    stage(machine, "harness run --released --table mcse:T1", **offline)
    stage(machine, reports)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock = time.perf_counter()
        with world(Path(folder), FULL, ENTRIES) as machine:
            tasks = publish_tasks(machine.standin, load_profile("paper"))
            made = megabytes(machine.publishers.folder)
            print(f"published {made:,.0f} MB in {time.perf_counter() - clock:.0f} s", flush=True)
            print(
                "| stage | s | s of a processor | peak MB | data MB | hub MB | cache MB | results MB |"
            )
            print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
            rehearse(machine, tasks)


if __name__ == "__main__":
    main()
