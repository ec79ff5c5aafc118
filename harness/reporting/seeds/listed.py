"""The groups of runs in a folder, by label, with what sets them apart, and those that a user names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.errors import UserError
from harness.reporting.seeds.groups import Label
from harness.reporting.seeds.sides import of_group
from harness.store import PRESENT, UNKNOWN, Result, frame_of

#: digits of a group that are shown
_DIGITS = 8


@dataclass
class ListedGroup:
    """One group of a label: its seeds, when the last of its scores was made, and its states as in the frame."""

    label: Label
    group: str
    seeds: set[int] = field(default_factory=set)
    finished: str = ""
    states: dict[str, None] = field(default_factory=dict)

    @property
    def named(self) -> str:
        """How commands name it."""
        return f"{self.label.variant}/{self.label.setting}/{self.label.encoder}#{self.group[:_DIGITS]}"

    @property
    def state(self) -> str:
        """Whether it is present, or what has changed since; unknown otherwise."""
        changed = [state for state in self.states if state not in (PRESENT, UNKNOWN)]
        said = f"changed since: {' and '.join(changed)}" if changed else ""
        return said or ("unknown" if UNKNOWN in self.states else PRESENT)


def listed_groups(results: Sequence[Result]) -> list[ListedGroup]:
    """The groups of results with scores, those of one label together, the newest first."""
    frame = frame_of(results, ()).drop_duplicates(["profile", "fingerprint", "suite", "protocol"])
    found: dict[tuple[Label, str], ListedGroup] = {}
    columns = [*Label._fields, "group", "seed", "finished", "present"]
    for *label, group, seed, finished, present in frame[columns].astype(object).to_numpy().tolist():
        place = Label(*label), group
        one = found.setdefault(place, ListedGroup(*place))
        one.seeds.add(seed)
        one.finished = max(one.finished, finished)
        one.states[present] = None
    newest = sorted(found.values(), key=lambda one: one.finished, reverse=True)
    return sorted(newest, key=lambda one: one.label)


def named_runs(results: Sequence[Result], text: str) -> list[Result]:
    """The runs of a key, or of a NAME#GROUP. Raises UserError where there are none, or several groups of them."""
    name, group = of_group(text)
    found = [
        one
        for one in results
        if name in ("", one.spec.key, one.spec.variant, one.spec.key.rpartition("/")[0])
        and (one.group.startswith(group) or one.fingerprint.startswith(group))
    ]
    if not found:
        raise UserError(f"no result is named {text}; `harness results list` shows the groups of runs")
    groups = {(one.profile, one.group): f"{one.spec.key.rpartition('/')[0]}#{one.group[:_DIGITS]}" for one in found}
    if len(groups) > 1:
        raise UserError(f"{text} names several groups of runs: {', '.join(groups.values())}; choose one of them")
    return found
