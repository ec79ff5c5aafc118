"""Compare results with what a plan would make now: which are up to date, and what has changed since
the others.

Every table shows up-to-date results first, so results are compared by label and group, never run by
run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness.commands import read_places
from harness.errors import UserError
from harness.evaluation.suites import list_pairs
from harness.grid import Resolved, resolve
from harness.planning.experiments import Experiment, Experiments
from harness.planning.inventory import Inventory
from harness.profiles import Profile, load_profile
from harness.registry import list_plugin_modules
from harness.spec import RunSpec
from harness.store import PRESENT, UNKNOWN, Evaluation, Frames, Result, lines_of

#: what has changed for scores of a suite under another protocol
_PROTOCOL = "tasks or test data"
_GROUP = ["profile", "variant", "setting", "encoder", "overrides", "group"]


class Present:
    """Compares results with their profiles, the code and the data of now; a `harness.store.Judge`."""

    def __init__(
        self, results: Path, profile: str | None = None, inventory: Inventory | None = None
    ) -> None:
        """`profile` may be the file of one of the results' profiles, `inventory` that of a plan."""
        self._results = results
        self._profiles: dict[str, Profile] = {}
        if profile:
            loaded = load_profile(profile)
            self._profiles[loaded.name] = loaded
        self._inventories: dict[str, Inventory] = {}
        if inventory:
            self._inventories[inventory.profile.name] = inventory
        self._find_inventory = cache(self._load_inventory)
        self._find_experiments = cache(self._make_experiments)
        # a report judges the same runs in several selections
        self._judgements: dict[tuple[str, str, str, str], str] = {}

    def __call__(self, frames: Frames) -> list[str]:
        """Judge each evaluation: PRESENT, UNKNOWN or what has changed since."""
        runs = frames.runs
        first_of_groups = lines_of(runs.drop_duplicates(_GROUP))
        trainings = {
            number: self._judge_training_once(frames, run)
            for number, run in enumerate(first_of_groups)
        }
        # groups are numbered in the order of their first runs
        group_numbers = runs.groupby(_GROUP, sort=False, observed=True).ngroup()
        training_of_run = group_numbers.map(trainings)

        judge_protocol = cache(self._judge_protocol)
        evaluations = frames.evaluations
        judgements = []
        for training, profile, suite, protocol in zip(
            evaluations["run"].map(training_of_run),
            evaluations["run"].map(runs["profile"]),
            evaluations["suite"],
            evaluations["protocol"],
            strict=True,
        ):
            judgements.append(_combine(training, judge_protocol(profile, suite, protocol)))
        return judgements

    def sentences(self, profile: str, evaluation: Evaluation, task: str) -> list[tuple[str, ...]]:
        """Both sentences of the pairs, or each caption, that an evaluation read; none where these
        are not at hand.
        """
        inventory = self._find_inventory(profile)
        if inventory is None:
            return []
        if self._judge_protocol(profile, evaluation.suite, evaluation.protocol.key) != PRESENT:
            return []

        if task in inventory.suites[evaluation.suite].image_tasks:
            data = inventory.find_retrieval_task(task).source.load(inventory.root)
            return [(text,) for text in data.texts]
        subsets = inventory.find_similarity_task(task).source.load(inventory.root)
        return [(first, second) for first, second, _ in list_pairs(subsets)]

    def _load_inventory(self, profile: str) -> Inventory | None:
        """What runs of a profile would read now; None if the profile cannot be read."""
        places = read_places(self._results, profile)
        if profile in self._inventories:
            return self._inventories[profile]
        try:
            loaded = self._profiles.get(profile) or load_profile(places.profile or profile)
            return Inventory.from_places(loaded, places)
        except UserError:
            return None

    def _judge_training_once(self, frames: Frames, run: Any) -> str:
        """As `_judge_training`, computed once for each run."""
        key = (run.profile, run.overrides_json, frames.keys[run.Index], run.fingerprint)
        if key not in self._judgements:
            self._judgements[key] = self._judge_training(frames, run)
        return self._judgements[key]

    def _judge_training(self, frames: Frames, run: Any) -> str:
        """Judge the training of a group by one of its runs: PRESENT, UNKNOWN or what has changed
        since.
        """
        inventory = self._find_inventory(run.profile)
        if inventory is None:
            return UNKNOWN

        try:
            experiments = self._find_experiments(inventory, run.overrides_json)
            spec = RunSpec.parse(frames.keys[run.Index])
            resolved = resolve(inventory.profile, spec, experiments.overrides)
            experiment = experiments.find_for_result(resolved, run.fingerprint)
            if experiment.fingerprint == run.fingerprint:
                return PRESENT
            return "; ".join(list_changes(frames.result(run.Index), resolved, experiments))
        except UserError:
            return UNKNOWN

    def _make_experiments(self, inventory: Inventory, overrides: str) -> Experiments:
        return Experiments(inventory, json.loads(overrides))

    def _judge_protocol(self, profile: str, suite: str, key: str) -> str:
        """Judge the protocol of scores: PRESENT, UNKNOWN or what has changed since."""
        inventory = self._find_inventory(profile)
        try:
            if inventory is None or suite not in inventory.suites:
                return UNKNOWN
            if inventory.suites[suite].missing(inventory.root):
                return UNKNOWN
            if any(protocol.key == key for protocol in inventory.list_protocols(suite)):
                return PRESENT
            return _PROTOCOL
        except UserError:
            return UNKNOWN


def _combine(training: str, protocol: str) -> str:
    """Combine the states of a training and of the protocol of its scores."""
    changed = [text for text in (training, protocol) if text not in (PRESENT, UNKNOWN)]
    if changed:
        return "; ".join(changed)
    return UNKNOWN if UNKNOWN in (training, protocol) else PRESENT


#: values named in a line; the others are counted
_NAMED = 4


def list_changes(result: Result, run: Resolved, experiments: Experiments) -> tuple[str, ...]:
    """Differences of a run from a result with its key: 'method code', 'data: corpus toy',
    'settings: steps 4 -> 8'.

    'data or code' stands for an unknown difference. If some data is missing, no data is compared,
    and the differences are empty if nothing else differs. Code is compared in the result's notation.
    """
    lines = _compare_identities(result, experiments.find(run))
    if list_plugin_modules():
        lines_by_bytes = _compare_identities(result, experiments.by_bytes.find(run))
        # in the other notation, all code of other packages differs
        lines = min(lines, lines_by_bytes, key=lambda compared: len("; ".join(compared)))
    return lines


def _compare_identities(result: Result, experiment: Experiment) -> tuple[str, ...]:
    then = result.identity
    now = experiment.identity
    lines = list(_compare_code(then, now))
    if then and not experiment.missing:
        changed_data = _compare_data(then, experiment)
        if changed_data:
            lines.append(f"data: {', '.join(changed_data)}")

    values = list(_compare_values(then, now))
    if values:
        more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
        lines.append(f"settings: {', '.join(values[:_NAMED])}{more}")

    if "backend" in now and result.backend != now["backend"]:
        lines.append(f"backend {result.backend} -> {now['backend']}")
    if not lines and not experiment.missing:
        lines.append("data or code")
    return tuple(lines)


def _compare_code(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before = then.get("code", {})
    after = now.get("code", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield "method code" if name.startswith("method ") else f"code of the {name}"


def _compare_data(then: Mapping[str, Any], experiment: Experiment) -> list[str]:
    """Changed inputs: encoder, corpora, teachers' features, patch embeddings and the dev task."""
    now = experiment.identity
    changed = []
    if then["encoder"] != now["encoder"]:
        changed.append("encoder")

    if "corpora" in now and "corpora" in then:
        names = [corpus.name for corpus in experiment.corpora]
        changed += _compare_corpora(then["corpora"], now["corpora"], names)
        changed += [
            f"features {role}"
            for role in {**then["features"], **now["features"]}
            if then["features"].get(role) != now["features"].get(role)
        ]
        if then.get("patches") != now.get("patches"):
            changed.append("patches")
        if then["dev"] != now["dev"]:
            changed.append("dev task")

    if then.get("heads") != now.get("heads"):
        changed.append("heads")
    return changed


def _compare_corpora(then: Sequence[str], now: Sequence[str], names: Sequence[str]) -> list[str]:
    if len(then) != len(now):
        return ["corpora"]
    return [
        f"corpus {name}"
        for name, before, after in zip(names, then, now, strict=True)
        if before != after
    ]


def _compare_values(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Differing values of the method and the training."""
    for part in ("hyperparameters", "training"):
        before = then.get(part, {})
        after = now.get(part, {})
        for name in dict.fromkeys((*after, *before)):
            if before.get(name) != after.get(name):
                old_value = _format_value(before.get(name))
                yield f"{name} {old_value} -> {_format_value(after.get(name))}"


def _format_value(value: object) -> str:
    if value is None:
        return "default"
    return str(value) or "nothing"
