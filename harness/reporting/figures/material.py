"""Find the runs that a paper's figure shows, and the commands for the missing ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from harness.command_line import harness_command
from harness.metrics import AVERAGE, Score
from harness.papers.published import PAPER_PROFILE, Paper, Published, PublishedKey
from harness.papers.schema import FigureSpec, pairs_of
from harness.reporting.contents import Contents
from harness.reporting.figures.kinds import FigureData, FigureRun
from harness.reporting.seeds.groups import Group, Label, beside_print, kept_groups
from harness.spec import UNTRAINED, Place

if TYPE_CHECKING:
    import pandas

    from harness.store import Result


@dataclass(frozen=True)
class Material:
    """The runs of one profile and the printed numbers. Runs with `--set` are left out.

    Printed numbers stand only beside results of the paper profile that this package ships.
    """

    profile: str
    contents: Contents
    published: Mapping[PublishedKey, Published]

    @property
    def is_paper(self) -> bool:
        """Whether printed numbers may stand beside these runs."""
        return self.profile == PAPER_PROFILE

    @cached_property
    def _rows(self) -> pandas.DataFrame:
        rows = beside_print(self.contents.frame) if self.is_paper else self.contents.frame
        return rows[(rows["profile"] == self.profile) & (rows["overrides"] == "")]

    @cached_property
    def _groups(self) -> dict[tuple[Label, str], Group]:
        return kept_groups(self._rows)

    @cached_property
    def _results(self) -> dict[str, Result]:
        """Results by fingerprint."""
        return {one.fingerprint: one for one in self.contents.results if one.profile == self.profile}

    def data(self, paper: Paper, name: str) -> FigureData:
        """What one figure of a paper is drawn from."""
        spec = paper.figures[name]
        runs = self._runs(spec)
        alike = [other for other, one in paper.figures.items() if (one.kind, one.metric) == (spec.kind, spec.metric)]
        if not self.is_paper:
            scores = (score for run in runs for score in run.scores)
            task = next((s.task for s in scores if s.suite == spec.suite and s.task != AVERAGE), "")
            return FigureData(spec, runs, self.contents.metrics, task, index=alike.index(name))
        numbers = {key.task: one.value for key, one in self.published.items() if key[:2] == (paper.name, name)}
        printed = [(text, numbers[task]) for task, text in spec.printed.items() if task in numbers]
        return FigureData(
            spec, runs, self.contents.metrics, spec.task, True, printed, self.published, alike.index(name)
        )

    def commands(self, data: FigureData, suites: Sequence[str]) -> Iterator[str]:
        """The commands for the missing runs. `suites` are evaluated in addition to the figure's own."""
        spec = data.spec
        suites = list(dict.fromkeys([*suites, spec.suite]))
        if not self.is_paper:
            found = {run.label.variant for run in data.runs}
            missing = [variant for variant in spec.variants if variant not in found]
            if missing:
                yield harness_command("run", profile=self.profile, methods=missing, seeds=spec.seeds, suites=suites)
            return
        seeds = {Place(*run.label[1:4]): run.seeds(spec.suite) for run in data.runs}
        variants: dict[tuple[str, str], list[str]] = {}
        for place in self._places(spec):
            if seeds.get(place, 0) < spec.seeds:
                variants.setdefault((place.setting, place.encoder), []).append(place.variant)
        for (setting, encoder), methods in variants.items():
            yield harness_command(
                "run", methods=methods, settings=[setting], encoders=[encoder], seeds=spec.seeds, suites=suites
            )

    def _places(self, spec: FigureSpec) -> list[Place]:
        """The runs of a figure; in another profile, its variants in every setting and with every encoder found."""
        if self.is_paper:
            return [Place(*pair, encoder) for encoder in spec.encoders for pair in pairs_of(spec)]
        pairs = zip(self._rows["setting"], self._rows["encoder"], strict=True)
        found = sorted({(str(setting), str(encoder)) for setting, encoder in pairs if setting != UNTRAINED})
        return [Place(variant, *where) for where in found for variant in spec.variants]

    def _runs(self, spec: FigureSpec) -> list[FigureRun]:
        labels = [Label(self.profile, *place, "") for place in self._places(spec)]
        return [self._run(label, spec.suite) for label in labels if (label, spec.suite) in self._groups]

    def _run(self, label: Label, suite: str) -> FigureRun:
        groups = {name: kept for (other, name), kept in self._groups.items() if other == label}
        scores = {Score(name, *column): found for name, kept in groups.items() for column, found in kept.scores.items()}
        parts: dict[tuple[Score, str], dict[int, float]] = {}
        for name, kept in groups.items():
            lines = kept.lines[kept.lines["part"] != ""]
            columns = (lines[column] for column in ("task", "metric", "part", "seed", "value"))
            for task, metric, part, seed, value in zip(*columns, strict=True):
                parts.setdefault((Score(name, task, metric), part), {})[int(seed)] = float(value)
        first = self._results[str(groups[suite].lines["fingerprint"].iloc[0])]  # lines are in order of seeds
        return FigureRun(label, first, scores, parts, self.contents.store.arrays)
