"""What stands for the papers' settings, encoders, teachers and tasks under a profile."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from harness.errors import PlugInError
from harness.method.declared import declared_method
from harness.metrics import Score
from harness.papers.schema import PaperColumn, PaperRow
from harness.profiles.schema import Profile, StandsFor
from harness.spec import DEFAULT_READING, NO_TEACHER, UNTRAINED, Place, Variant, parse_setting, split_teachers

#: method name -> names of its options that name teachers
TeacherOptions = Callable[[str], Collection[str]]


def teacher_options(method: str) -> Collection[str]:
    """Return the options of a method that name teachers, as it declares them."""
    return declared_method(method).teacher_options


def readings(method: str) -> Collection[str]:
    """Return the readings of a method; only the default one if it cannot be imported, since planning reports that."""
    try:
        return declared_method(method).readings
    except PlugInError:
        return (DEFAULT_READING,)


@dataclass(frozen=True)
class StandIns:
    """The papers' names under a profile: its stand-ins, None where it has none, or the names themselves.

    `tests` has, by setting, the tasks that replace those of a paper's table for models trained there.
    """

    stands: StandsFor | None = None
    options: TeacherOptions = teacher_options
    tests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, profile: Profile, options: TeacherOptions = teacher_options) -> StandIns:
        """Take a profile's table [stands_for]; a profile without one uses the papers' own names."""
        return cls(profile.stands_for, options, {name: own.tests for name, own in profile.settings.items()})

    def place(self, variant: str, setting: str, encoder: str) -> Place | None:
        """Return the variant, setting and encoder that are run for those of a paper."""
        found: tuple[str | None, ...] = variant, setting, encoder
        if self.stands is not None:
            found = self._variant(variant), self._setting(setting, self.stands), self.stands.encoders.get(encoder)
        return Place(*map(str, found)) if all(found) else None

    def score(self, row: PaperRow, column: PaperColumn, setting: str) -> Score | None:
        """Return the score of a model trained in a setting that fills a cell; None for a cell that is printed only."""
        task: str | None = row.task or column.task
        if self.stands is not None:
            task = self.stands.tasks.get(column.suite, {}).get(str(task))
        if task is None or column.published_only:
            return None
        return Score(column.suite, self.tests.get(parse_setting(setting).name, {}).get(task, task), column.metric)

    def has_suite(self, name: str) -> bool:
        return self.stands is None or bool(self.stands.tasks.get(name))

    def _setting(self, text: str, stands: StandsFor) -> str | None:
        """Options of a setting carry over to its stand-in, unless the setting with its options has one of its own."""
        if text == UNTRAINED or text in stands.settings:
            return stands.settings.get(text, text)
        setting = parse_setting(text)
        name = stands.settings.get(setting.name)
        return str(replace(setting, name=name)) if name else None

    def _variant(self, text: str) -> str | None:
        variant = Variant.parse(text)
        if not variant.options:
            return text
        naming = self.options(variant.name)
        options = {key: self._teachers(value) if key in naming else value for key, value in variant.options}
        return None if None in options.values() else str(Variant.make(variant.name, options, variant.reading))

    def _teachers(self, value: str) -> str | None:
        known = self.stands.teachers if self.stands else {}
        names = [name if name in NO_TEACHER else known.get(name, "") for name in split_teachers(value)]
        return "+".join(names) if all(names) else None
