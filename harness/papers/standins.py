"""What stands for the papers' settings, encoders, teachers and tasks under a profile."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from harness.errors import PlugInError, UserError
from harness.metrics import Score
from harness.papers.schema import PaperColumn, PaperRow
from harness.profiles.schema import Profile, StandsFor
from harness.spec import DEFAULT_READING, NO_TEACHER, UNTRAINED, Place, Variant, parse_setting, split_teachers

#: method name -> names of its options that name teachers
TeacherOptions = Callable[[str], Collection[str]]


def teacher_options(method: str) -> Collection[str]:
    """Return the options of a method that name teachers, as it declares them. Imports the method."""
    from harness.method import method_named

    return method_named(method).Hyperparameters.teacher_options()


def readings(method: str) -> Collection[str]:
    """Return the readings of a method; only the default one if it cannot be imported, since planning reports that."""
    from harness.method import method_named

    try:
        return tuple(method_named(method).readings)
    except PlugInError:
        return (DEFAULT_READING,)


@lru_cache(maxsize=256)
def asks_for_all_captions(variant: str) -> bool:
    """Whether a variant's method reads every caption of an image. False if it cannot be imported or configured."""
    from harness.method import method_named

    parsed = Variant.parse(variant)
    try:
        method = method_named(parsed.name)
        options = {key: value for key, value in parsed.options if key in method.Hyperparameters.options()}
        return method.captions(method.configure(parsed.reading, options)) == "all"
    except (PlugInError, UserError):
        return False


@dataclass(frozen=True)
class StandIns:
    """The papers' names under a profile: its stand-ins, None where it has none, or the names themselves.

    `all_captions` maps settings whose files have one caption an image to settings that have them all; `tests` has, by
    setting, the tasks that replace those of a paper's table for models trained there.
    """

    stands: StandsFor | None = None
    options: TeacherOptions = teacher_options
    all_captions: Mapping[str, str] = field(default_factory=dict)
    tests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, profile: Profile, options: TeacherOptions = teacher_options) -> StandIns:
        """Take a profile's table [stands_for]; a profile without one uses the papers' own names."""
        found = {name: table.all_captions for name, table in profile.settings.items()}
        captions = {name: other for name, other in found.items() if other}
        return cls(profile.stands_for, options, captions, {name: own.tests for name, own in profile.settings.items()})

    def place(self, variant: str, setting: str, encoder: str) -> Place | None:
        """Return the variant, setting and encoder that are run for those of a paper.

        A method that reads all captions of an image is run where they are.
        """
        found: tuple[str | None, ...] = variant, setting, encoder
        if self.stands is not None:
            found = self._variant(variant), self._setting(setting, self.stands), self.stands.encoders.get(encoder)
        if not all(found):
            return None
        place = Place(*map(str, found))
        named = parse_setting(place.setting)
        if named.name in self.all_captions and asks_for_all_captions(place.variant):
            return place._replace(setting=str(replace(named, name=self.all_captions[named.name])))
        return place

    def score(self, row: PaperRow, column: PaperColumn, setting: str) -> Score | None:
        """Return the score of a model trained in a setting that fills a cell; None for a cell that is printed only."""
        task: str | None = row.task or column.task
        if self.stands is not None:
            task = self.stands.tasks.get(column.suite, {}).get(str(task))
        if task is None or column.published_only:
            return None
        return Score(column.suite, self.tests.get(parse_setting(setting).name, {}).get(task, task), column.metric)

    def has_suite(self, name: str) -> bool:
        """Whether any task of a suite can be evaluated."""
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
