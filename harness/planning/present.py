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
from harness.evaluation.suites import pairs_of
from harness.grid import Resolved, resolve
from harness.planning.experiments import Experiment, Experiments
from harness.planning.inventory import Inventory
from harness.profiles import load_profile
from harness.registry import plugin_modules
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
        self._results, given = results, load_profile(profile) if profile else None
        self._profiles = {given.name: given} if given else {}
        self._planned = {inventory.profile.name: inventory} if inventory else {}
        self._inventory = cache(self._found)
        self._experiments = cache(self._made)
        # a report judges the same runs in several selections
        self._judged: dict[tuple[str, str, str, str], str] = {}

    def __call__(self, frames: Frames) -> list[str]:
        """Judge each evaluation: PRESENT, UNKNOWN or what has changed since."""
        runs = frames.runs
        evaluations = frames.evaluations
        trainings = {
            n: self._judge_once(frames, run)
            for n, run in enumerate(lines_of(runs.drop_duplicates(_GROUP)))
        }
        groups = runs.groupby(_GROUP, sort=False, observed=True).ngroup()
        training, profile = (
            evaluations["run"].map(column) for column in (groups.map(trainings), runs["profile"])
        )
        protocol = cache(self._protocol)
        places = zip(profile, evaluations["suite"], evaluations["protocol"], strict=True)
        return [
            _joined(changed, protocol(*place))
            for changed, place in zip(training, places, strict=True)
        ]

    def sentences(self, profile: str, evaluation: Evaluation, task: str) -> list[tuple[str, ...]]:
        """Both sentences of the pairs, or each caption, that an evaluation read; none where these
        are not at hand.
        """
        inventory = self._inventory(profile)
        if (
            inventory is None
            or self._protocol(profile, evaluation.suite, evaluation.protocol.key) != PRESENT
        ):
            return []
        if task in inventory.suites[evaluation.suite].image_tasks:
            return [
                (text,)
                for text in inventory.find_retrieval_task(task).source.load(inventory.root).texts
            ]
        return [
            (first, second)
            for first, second, _ in pairs_of(
                inventory.find_similarity_task(task).source.load(inventory.root)
            )
        ]

    def _found(self, name: str) -> Inventory | None:
        noted = read_places(self._results, name)
        try:
            return self._planned.get(name) or Inventory.from_places(
                self._profiles.get(name) or load_profile(noted.profile or name), noted
            )
        except UserError:
            return None

    def _judge_once(self, frames: Frames, run: Any) -> str:
        """As `_training`, computed once for each run."""
        known_by = (run.profile, run.overrides_json, frames.keys[run.Index], run.fingerprint)
        if known_by not in self._judged:
            self._judged[known_by] = self._training(frames, run)
        return self._judged[known_by]

    def _training(self, frames: Frames, run: Any) -> str:
        """Judge the training of a group by one of its runs: PRESENT, UNKNOWN or what has changed
        since.
        """
        inventory = self._inventory(run.profile)
        if inventory is None:
            return UNKNOWN
        try:
            known = self._experiments(inventory, run.overrides_json)
            spec = RunSpec.parse(frames.keys[run.Index])
            planned = resolve(inventory.profile, spec, known.overrides)
            if known.find_for_result(planned, run.fingerprint).fingerprint == run.fingerprint:
                return PRESENT
            return "; ".join(list_changes(frames.result(run.Index), planned, known))
        except UserError:
            return UNKNOWN

    def _made(self, inventory: Inventory, overrides: str) -> Experiments:
        return Experiments(inventory, json.loads(overrides))

    def _protocol(self, profile: str, suite: str, key: str) -> str:
        inventory = self._inventory(profile)
        try:
            if (
                inventory is None
                or suite not in inventory.suites
                or inventory.suites[suite].missing(inventory.root)
            ):
                return UNKNOWN
            return (
                PRESENT
                if any(protocol.key == key for protocol in inventory.list_protocols(suite))
                else _PROTOCOL
            )
        except UserError:
            return UNKNOWN


def _joined(training: str, protocol: str) -> str:
    """Combine the states of a training and of the protocol of its scores."""
    changed = [text for text in (training, protocol) if text not in (PRESENT, UNKNOWN)]
    return "; ".join(changed) or (UNKNOWN if UNKNOWN in (training, protocol) else PRESENT)


#: values named in a line; the others are counted
_NAMED = 4


def list_changes(result: Result, run: Resolved, experiments: Experiments) -> tuple[str, ...]:
    """Differences of a run from a result with its key: 'method code', 'data: corpus toy',
    'settings: steps 4 -> 8'.

    'data or code' stands for an unknown difference. If some data is missing, no data is compared,
    and the differences are empty if nothing else differs. Code is compared in the result's notation.
    """
    lines = _changes(result, experiments.find(run))
    if plugin_modules():
        by_bytes = _changes(result, experiments.by_bytes.find(run))
        # in the other notation, all code of other packages differs
        lines = min(lines, by_bytes, key=lambda compared: len("; ".join(compared)))
    return lines


def _changes(result: Result, experiment: Experiment) -> tuple[str, ...]:
    now = experiment.identity
    then = result.identity
    lines = [*_code(then, now)]
    if then and not experiment.missing:
        lines += _data(then, experiment)
    if values := list(_values(then, now)):
        more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
        lines.append(f"settings: {', '.join(values[:_NAMED])}{more}")
    if "backend" in now and result.backend != now["backend"]:
        lines.append(f"backend {result.backend} -> {now['backend']}")
    return tuple(lines or ([] if experiment.missing else ["data or code"]))


def _code(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before = then.get("code", {})
    after = now.get("code", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield "method code" if name.startswith("method ") else f"code of the {name}"


def _data(then: Mapping[str, Any], experiment: Experiment) -> Iterator[str]:
    """Changed inputs: encoder, corpora, teachers' features, patch embeddings and the dev task."""
    now = experiment.identity
    changed = ["encoder"] if then["encoder"] != now["encoder"] else []
    if "corpora" in now and "corpora" in then:
        changed += _corpora(
            then["corpora"], now["corpora"], [corpus.name for corpus in experiment.corpora]
        )
        features = {**then["features"], **now["features"]}
        changed += [
            f"features {role}"
            for role in features
            if then["features"].get(role) != now["features"].get(role)
        ]
        changed += ["patches"] if then.get("patches") != now.get("patches") else []
        changed += ["dev task"] if then["dev"] != now["dev"] else []
    changed += ["heads"] if then.get("heads") != now.get("heads") else []
    if changed:
        yield f"data: {', '.join(changed)}"


def _corpora(then: Sequence[str], now: Sequence[str], names: Sequence[str]) -> list[str]:
    if len(then) != len(now):
        return ["corpora"]
    return [
        f"corpus {name}"
        for name, before, after in zip(names, then, now, strict=True)
        if before != after
    ]


def _values(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Differing values of the method and the training."""
    for part in ("hyperparameters", "training"):
        before, after = (identity.get(part, {}) for identity in (then, now))
        for name in dict.fromkeys((*after, *before)):
            if before.get(name) != after.get(name):
                yield f"{name} {_text(before.get(name))} -> {_text(after.get(name))}"


def _text(value: object) -> str:
    return "default" if value is None else str(value) or "nothing"
