"""Results of stores made up at random, for tests of what holds in every store.

A store has several profiles, settings with options, encoders, readings, values of `--set` and
trials of a tuning, and each run has scores that no other run has.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from builders import Split, result, split

import harness
from harness.metrics import AVERAGE
from harness.planning.plan import Plan, PlannedRun
from harness.store import Evaluation, Result, Store, TeacherUse
from harness.store.tunings import Tuning, make_tuning

PROFILES = ("tiny", "grounding", "paper")
ENCODERS = ("toy-bert", "text-bert", "bert-base-uncased", "roberta-base")
SETTINGS = (
    "toy",
    "toy[shot=8]",
    "toy[shot=16]",
    "toy[captions=all]",
    "toy[captions=all,shot=8]",
    "wiki+flickr",
    "flickr[shot=100]",
    "flickr",
    "wiki",
)
VARIANTS = (
    "simcse",
    "simcse@official",
    "mcse",
    "mcse@official",
    "mcse[images=shuffled]",
    "mcse[lambda=0.05]",
    "kdmcse",
    "kdmcse[margin=0.05]",
    "kdmcse[margin=0.1]",
    "dalr",
)
UNTRAINED = ("none[pooling=cls]", "none[pooling=mean]")
OVERRIDES: tuple[dict[str, Any], ...] = ({}, {}, {}, {"steps": 20})
TUNINGS = ("mcse:lambda=0.05|0.5", "simcse:temperature=0.1|0.2")
STS_TASKS = {"STS12": ("MSRvid", "MSRpar"), "STS15": ("images", "forums")}


@dataclass(frozen=True)
class RandomStore:
    """The results of a store, and the tuning whose trials are among them, if there is one."""

    results: Sequence[Result]
    tunings: Sequence[Tuning] = ()


def random_store(seed: int) -> RandomStore:
    """The store of a seed: up to about a hundred results."""
    rng = random.Random(seed)
    profiles = rng.sample(PROFILES, rng.randint(1, 2))
    settings = rng.sample(SETTINGS, rng.randint(1, 4))
    encoders = rng.sample(ENCODERS, rng.randint(1, 3))
    variants = rng.sample(VARIANTS, rng.randint(2, 5))

    results: list[Result] = []
    for profile, setting, encoder in product(profiles, settings, encoders):
        for variant in variants:
            if rng.random() < 0.6:
                results += _runs(rng, variant, setting, encoder, profile)
        if rng.random() < 0.3:
            results += _runs(rng, rng.choice(UNTRAINED), "none", encoder, profile, most_seeds=1)

    tunings = []
    if rng.random() < 0.3:
        tuning = make_tuning(profiles[0], {}, list(TUNINGS), 2)
        for trial in tuning.variants:
            results += _runs(rng, trial, settings[0], encoders[0], profiles[0])
        tunings.append(tuning)
    if not results:
        results += _runs(rng, "simcse", settings[0], encoders[0], profiles[0])
    unique = {(result.fingerprint, result.spec.key): result for result in results}
    return RandomStore(list(unique.values()), tunings)


def _runs(
    rng: random.Random, variant: str, setting: str, encoder: str, profile: str, most_seeds: int = 4
) -> Iterator[Result]:
    """The runs of one label, with its own seeds and suites."""
    overrides = rng.choice(OVERRIDES) if setting != "none" else {}
    seeds = rng.sample(range(4), rng.randint(1, most_seeds))
    has_sts = rng.random() < 0.9
    has_geometry = not has_sts or rng.random() < 0.5
    has_seen_pairs = has_sts and rng.random() < 0.4
    seen_pairs = rng.choice([0, 20, 300])
    for seed in sorted(seeds):
        run = _run(rng, variant, seed, setting, encoder, profile, overrides)
        if has_seen_pairs:
            run = _with_seen_pairs(rng, run, seen_pairs)
        if not has_sts:
            run = _without_suite(run, "sts")
        if not has_geometry:
            run = _without_suite(run, "geometry")
        yield run


def _run(
    rng: random.Random,
    variant: str,
    seed: int,
    setting: str,
    encoder: str,
    profile: str,
    overrides: dict[str, Any],
) -> Result:
    tasks: dict[str, dict[str, float]] = {}
    parts: dict[str, dict[str, dict[str, float]]] = {}
    for task, subsets in STS_TASKS.items():
        parts[task] = {subset: {"spearman": _score(rng)} for subset in subsets}
        tasks[task] = {"spearman": _score(rng)}
    mean = sum(scores["spearman"] for scores in tasks.values()) / len(tasks)
    tasks[AVERAGE] = {"spearman": mean}
    losses = {"alignment": rng.uniform(0.1, 0.9), "uniformity": rng.uniform(-3, -1)}
    is_trained = setting != "none"
    margin = dict(option.split("=") for option in _options(variant)).get("margin", 0.125)
    teachers = {}
    if variant.startswith(("mcse", "kdmcse", "dalr")):
        teachers["image"] = TeacherUse(teacher="toy-clip", of="image")
    return result(
        variant,
        seed,
        {"sts": tasks, "geometry": {"STS-B-all": losses, "STS-B-dev": losses}},
        parts={"sts": parts},
        setting=setting,
        encoder=encoder,
        profile=profile,
        overrides=overrides,
        dev=(_score(rng), _score(rng)) if is_trained else (),
        losses=None if is_trained else {},
        hyperparameters={
            "method": {"temperature": 0.05, "margin": float(margin)},
            "training": {"batch_size": 64, "steps": 60} if is_trained else {},
            "encoder": {"pooling": "cls"},
        },
        teachers=teachers,
    )


def _options(variant: str) -> list[str]:
    inside = variant.partition("[")[2].partition("]")[0]
    return [option for option in inside.split(",") if option]


def _score(rng: random.Random) -> float:
    return rng.uniform(20, 90)


def _with_seen_pairs(rng: random.Random, run: Result, pairs: int) -> Result:
    """A run whose tasks have parts of seen and of unseen pairs too, with about so many seen ones."""
    counts: Split = {
        task: (
            pairs,
            _score(rng) if pairs else None,
            500 - pairs,
            _score(rng),
        )
        for task in STS_TASKS
    }
    other = split(str(run.spec.variant), run.spec.seed, counts)
    by_training = other.evaluations[0].parts
    evaluations = []
    for evaluation in run.evaluations:
        if evaluation.suite == "sts":
            parts = {
                task: {**evaluation.parts.get(task, {}), **by_training[task]}
                for task in by_training
            }
            evaluation = evaluation.model_copy(update={"parts": parts})
        evaluations.append(evaluation)
    return run.model_copy(update={"evaluations": evaluations})


def _without_suite(run: Result, suite: str) -> Result:
    kept = [evaluation for evaluation in run.evaluations if evaluation.suite != suite]
    return run.model_copy(update={"evaluations": kept})


#: what a plan of the toy profile has, for stores whose runs a plan finds
PLANNED_METHODS = ("simcse", "mcse", "mcse[images=shuffled]", "kdmcse", "dalr", "visualcse")
PLANNED_SUITES = ("sts", "retrieval", "geometry")


def planned_store(seed: int, folder: Path) -> Store:
    """A store of the toy profile in which a plan finds its runs: each with some seeds and suites."""
    rng = random.Random(seed)
    store = Store(folder)
    methods = [*rng.sample(PLANNED_METHODS, rng.randint(1, 4)), *UNTRAINED]
    plan = harness.plan("tiny", methods=methods, seeds=4, results=folder)
    for run in plan.runs:
        is_untrained = run.resolved.spec.variant.name == "none"
        if rng.random() < (0.3 if is_untrained else 0.6):
            suites = rng.sample(PLANNED_SUITES, rng.randint(1, len(PLANNED_SUITES)))
            save_planned(plan, run, suites, store)
    return store


def save_planned(plan: Plan, run: PlannedRun, suites: Sequence[str], store: Store) -> None:
    """Save the result of a planned run, with scores in the suites that can score its model."""
    spec = run.resolved.spec
    rng = random.Random(run.fingerprint)
    has_images = spec.variant.name not in ("simcse", "none")
    is_trained = spec.variant.name != "none"
    evaluations = []
    for suite in suites:
        protocol = plan.inventory.find_protocol(suite)
        metric = protocol.metrics[0].name
        is_scored = has_images or suite != "retrieval"
        tasks = {task: {metric: _score(rng)} for task in ("Task", AVERAGE)} if is_scored else {}
        evaluations.append(
            Evaluation(
                suite=suite,
                protocol=protocol,
                scores=tasks,
                seconds=0.1,
                finished="2026-01-02T03:04:05+00:00",
            )
        )
    made_up = result(
        str(spec.variant),
        spec.seed,
        setting=str(spec.setting),
        encoder=spec.encoder,
        profile=plan.request.profile.name,
        dev=(40.0, 60.0) if is_trained else (),
        losses=None if is_trained else {},
        fingerprint=run.fingerprint,
        group=run.group,
        evaluations=evaluations,
    )
    store.save(made_up)
