"""Material for pages: hostile texts, failures and facts of methods."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from builders import failure, over_seeds, result, sts
from builders import split as with_seen

import harness
from harness.evaluation.suites import list_pairs
from harness.method.facts import MethodFacts, OptionFacts
from harness.metrics import ArrayName
from harness.planning.inventory import Inventory
from harness.profiles import load_profile
from harness.reporting.build import render
from harness.reporting.contents import Contents
from harness.store import Evaluation, Failure, Result, Store
from harness.store.tunings import make_tuning
from harness.toy.tasks import TOY_RETRIEVAL, TOY_STS

EVIL = (
    "<script>alert(1)</script>",
    "../../evil",
    "\"'><img src=x onerror=alert(2)>",
    "дальше 文 🙂",
)
TUNING = make_tuning("tiny", {}, ["mcse:lambda=2|3", "kdmcse:margin=1|2"], 2)
LONG = "wiki+" + "x" * 300


def hostile() -> list[Result]:
    """Results with texts that are attacks, too long, or paths out of the folder."""
    values = {"method": {"temperature": 0.05, EVIL[2]: EVIL[1]}, "training": {}}
    return [
        result(
            f"simcse[temperature={EVIL[0]}]",
            setting=f"toy[x={EVIL[1]}]",
            overrides={EVIL[3]: EVIL[0]},
            warnings=[" ".join(EVIL)],
            hyperparameters=values,
            hardware={"processor": EVIL[0]},
            packages={EVIL[0]: EVIL[1]},
        ),
        result(
            f"mcse[images={'x' * 300}]",
            setting=LONG,
            encoder="toy/bert",
            losses={EVIL[0]: [1.0, 2.0]},
        ),
        result("mcse", 5, profile="../<b>up</b>"),
    ]


def failures() -> list[Failure]:
    """One failure, whose texts are attacks."""
    record = failure(result(f"simcse[x={EVIL[0]}]", 7, setting=LONG), f"RuntimeError: {EVIL[2]}")
    return [record.model_copy(update={"traceback": "Traceback\n" + EVIL[0] * 20})]


def described() -> list[MethodFacts]:
    """A method with shipped notes and one whose texts are attacks, without an import of torch."""
    notes = Path(__file__).parents[3] / "reports" / "notes" / "mcse.md"
    values = (
        OptionFacts("temperature", ("0.05", "0.05"), "", "appendix A"),
        OptionFacts("view_reduction", ("sum", "mean"), "sum, mean", "Eq. 3"),
    )
    readings = {"paper": "Eq. 1 to 4", "official": "the public code"}
    parts = (("sentences", "pairs"), ("text", "info"), (), readings, values, notes)
    attack = Path(__file__).with_name("attack.md")
    evil = (OptionFacts(EVIL[0], (EVIL[2],), EVIL[1], LONG),)
    return [
        MethodFacts("mcse", "Zhang et al., MCSE, NAACL 2022", *parts),
        MethodFacts(
            EVIL[1], EVIL[0], (EVIL[0],), (EVIL[2],), (EVIL[3],), {EVIL[0]: EVIL[2]}, evil, attack
        ),
    ]


def tuned() -> list[Result]:
    """The trials of TUNING in three seeds."""
    return [
        result(trial, seed, sts(ToySTS=40.0 + at + seed), dev=(0.0, 10.0 * at + seed))
        for at, trial in enumerate(TUNING.variants)
        for seed in range(3)
    ]


def every_kind() -> list[Result]:
    """Results of every kind, and hostile ones."""
    seen = [
        with_seen(variant, 0, {"ToySTS": (50, 60.0, 50, 70.0)}, setting=f"toy[x={EVIL[0]}]")
        for variant in ("mcse", "simcse")
    ]
    return [
        *over_seeds("mcse", [70.0, 73.0, 72.2], losses={"text": [3.0, 2.0], "info": [None, 5.0]}),
        *over_seeds("simcse", [20.0, 124.0, 22.5]),
        *over_seeds(
            "mcse",
            [61.7, 60.9],
            profile="paper",
            setting="wiki+flickr",
            encoder="bert-base-uncased",
        ),
        *seen,
        *hostile(),
        *tuned(),
    ]


def report_with_pairs(folder: Path) -> Path:
    """A report of runs whose cosines of ToySTS are its gold scores, save of one pair; those of dalr
    had other data.

    Every caption of ToyRetrieval ranks its own image first, save one of each method.
    """
    results, pairs = folder / "results", list_pairs(TOY_STS.load(None))
    gold = np.array([score for *_, score in pairs], dtype=np.float32)
    protocol = Inventory(load_profile("tiny"), None, {}).find_protocol("figures")
    captions = len(TOY_RETRIEVAL.load(None).texts)
    wrong = {
        "simcse": (gold.argmax(), -1.0),
        "mcse": (gold.argmin(), 1.0),
        "dalr": (gold.argmin(), 1.0),
    }
    for caption, (variant, (at, cosine)) in enumerate(wrong.items()):
        cosines, ranks = gold / 5, np.ones(captions, dtype=np.int32)
        cosines[at], ranks[caption] = cosine, 20 + caption
        data = {"data": "other"} if variant == "dalr" else {}
        scored = Evaluation(
            suite="figures",
            protocol=protocol.model_copy(update=data),
            scores={
                "ToySTS": {"n": 1000.0},
                "ToyRetrieval": {"n_texts": float(captions)},
                "Avg": {},
            },
            finished="2026-01-02T03:04:05+00:00",
        )
        for run in over_seeds(variant, [70.0, 71.0, 72.0]):
            run = run.model_copy(update={"evaluations": [*run.evaluations, scored]})
            arrays = {ArrayName("ToySTS", "gold"): gold, ArrayName("ToySTS", "cosine"): cosines}
            arrays |= {
                ArrayName("ToyRetrieval", "rank", space): ranks for space in ("own", "teacher")
            }
            Store(results).save_arrays(run, scored, arrays)
            Store(results).save(run)
    return harness.report(results, folder / "out").page.parent


def shown_run(out: Path, run: Result) -> dict[str, Any]:
    """What the page of a run shows."""
    (path,) = (out / "runs").glob(f"*{run.fingerprint[:12]}.js")
    shown: dict[str, Any] = json.loads(
        path.read_text("utf-8").removeprefix("showRun(").removesuffix(");\n")
    )
    return shown


def rendered(out: Path, results: Sequence[Result], *, everything: bool = False) -> Path:
    """Render results into `out`; with failures, methods and TUNING as well if `everything` is set."""
    store = Store(out.parent / "nowhere")
    if not everything:
        return render(Contents(store, results), out)
    return render(
        Contents(store, results, failures(), methods=described(), tunings=[TUNING]),
        out,
        one_file=True,
    )
