"""The runs that the papers' tables and figures need under a profile: stand-ins for their names, and
public weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from harness.errors import PlugInError, UserError
from harness.method.declared import declared_method
from harness.metrics import Score
from harness.papers.published import Paper, read_papers
from harness.papers.schema import (
    FigureSpec,
    NeighbourTable,
    PaperColumn,
    PaperRow,
    PaperTable,
    pairs_of,
)
from harness.profiles.schema import Profile, ReleasedTable, StandsFor, Training
from harness.registry import get, suggest
from harness.spec import (
    DEFAULT_READING,
    NO_TEACHER,
    UNTRAINED,
    Place,
    RunSpec,
    Variant,
    parse_encoder,
    parse_setting,
    split_teachers,
)

#: run -> the suites that it is evaluated on
Runs = dict[RunSpec, tuple[str, ...]]
PaperEntry = PaperTable | FigureSpec | NeighbourTable
Named = TypeVar("Named")


def teacher_options(method: str) -> Collection[str]:
    """Return the options of a method that name teachers; none if it cannot be imported, since
    planning reports that.
    """
    try:
        return declared_method(method).teacher_options
    except PlugInError:
        return ()


def list_readings(method: str) -> Collection[str]:
    """Return the readings of a method; only the default one if it cannot be imported, since
    planning reports that.
    """
    try:
        return declared_method(method).readings
    except PlugInError:
        return (DEFAULT_READING,)


@dataclass(frozen=True)
class StandIns:
    """Translates the papers' names into a profile's stand-ins (None if missing); without
    [stands_for], keeps them.

    `tests` has, by setting, the tasks that replace those of a paper's table for models trained in
    the setting.
    """

    stands: StandsFor | None = None
    tests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, profile: Profile) -> StandIns:
        """Take a profile's table [stands_for]; a profile without one uses the papers' own names."""
        return cls(profile.stands_for, {name: own.tests for name, own in profile.settings.items()})

    def place(self, variant: str, setting: str, encoder: str) -> Place | None:
        """Return the variant, setting and encoder to run in place of a paper's; None without a
        stand-in.
        """
        names: tuple[str | None, ...] = variant, setting, encoder
        if self.stands is not None:
            names = (
                self._translate_variant(variant),
                self._translate_setting(setting, self.stands),
                self.stands.encoders.get(encoder),
            )
        return Place(*map(str, names)) if all(names) else None

    def score(self, row: PaperRow, column: PaperColumn, setting: str) -> Score | None:
        """Return the score that fills a cell for a model trained in `setting`; None if nothing is
        measured for it.
        """
        task: str | None = row.task or column.task
        if self.stands is not None:
            task = self.stands.tasks.get(column.suite, {}).get(str(task))
        if task is None or column.published_only:
            return None
        return Score(
            column.suite,
            self.tests.get(parse_setting(setting).name, {}).get(task, task),
            column.metric,
        )

    def has_suite(self, name: str) -> bool:
        return self.stands is None or bool(self.stands.tasks.get(name))

    def _translate_setting(self, text: str, stands: StandsFor) -> str | None:
        """Options of a setting carry over to its stand-in, unless the setting with its options has
        one of its own.
        """
        if text == UNTRAINED or text in stands.settings:
            return stands.settings.get(text, text)
        setting = parse_setting(text)
        name = stands.settings.get(setting.name)
        return str(replace(setting, name=name)) if name else None

    def _translate_variant(self, text: str) -> str | None:
        variant = Variant.parse(text)
        if not variant.options:
            return text
        naming = teacher_options(variant.name)
        # a batch size or a number of epochs is that of the paper's data: a profile has its own
        options = {
            key: self._translate_teachers(value) if key in naming else value
            for key, value in variant.options
            if key not in Training.model_fields
        }
        return (
            None
            if None in options.values()
            else str(Variant.make(variant.name, options, variant.reading))
        )

    def _translate_teachers(self, value: str) -> str | None:
        known = self.stands.teachers if self.stands else {}
        names = [
            name if name in NO_TEACHER else known.get(name, "") for name in split_teachers(value)
        ]
        return "+".join(names) if all(names) else None


def find_wanted_runs(
    profile: Profile,
    tables: Sequence[str],
    figures: Sequence[str],
    papers: Sequence[str],
    seeds: Sequence[int] | None,
    read_as: Sequence[str] = (),
) -> dict[str, Runs]:
    """Return the runs of tables and figures of papers, by entry.

    `tables` and `figures` are PAPER:NAME, `papers` whole papers, `read_as` readings (see
    `expand_readings`). Raises UserError for an unknown name, for a reading that no method of the
    entries has, and when nothing that was asked for has a stand-in in the profile.
    """
    known = read_papers()
    names = StandIns.of(profile)
    wanted: dict[str, Runs] = {}
    for text in papers:
        wanted |= paper_runs(find_paper(known, text), names, seeds, read_as)
    entries = dict(
        (
            *(find_table(known, text) for text in tables),
            *(find_figure(known, text) for text in figures),
        )
    )
    wanted |= {name: entry_runs(entry, names, seeds, read_as) for name, entry in entries.items()}
    if not any(wanted.values()):
        raise UserError(
            f"the profile {profile.name} has no stand-ins for {', '.join(wanted)}; add some to its table "
            "[stands_for], or use --profile paper"
        )
    _check_readings(read_as, wanted)
    return wanted


def entry_runs(
    entry: PaperEntry,
    names: StandIns,
    seeds: Sequence[int] | None = None,
    read_as: Sequence[str] = (),
) -> Runs:
    """Return the runs of a table or figure, with the seeds given or those of the entry, in the
    readings given.

    Seeds count from 0; an untrained encoder has seed 0 only.
    """
    parts = []
    places = (
        _list_table_places(entry, names, read_as)
        if isinstance(entry, PaperTable)
        else _list_entry_places(entry, names, read_as)
    )
    for run, count, asked in places:
        suites = tuple(name for name in asked if names.has_suite(name))
        variant = Variant.parse(run.variant)
        setting = parse_setting(run.setting)
        chosen = (0,) if run.setting == UNTRAINED else range(count) if seeds is None else seeds
        parts.append({RunSpec(variant, setting, run.encoder, seed): suites for seed in chosen})
    return merged(parts)


def paper_runs(
    paper: Paper, names: StandIns, seeds: Sequence[int] | None = None, read_as: Sequence[str] = ()
) -> dict[str, Runs]:
    """Return the runs of all tables and figures of a paper, by entry: `dalr:T3`, `dalr:F4`."""
    entries: dict[str, PaperEntry] = {**paper.run_tables, **paper.figures}
    return {
        f"{paper.name}:{name}": entry_runs(entry, names, seeds, read_as)
        for name, entry in entries.items()
    }


def expand_readings(variant: str, read_as: Sequence[str]) -> list[str]:
    """Return a variant in each of the readings that its method has.

    It is unchanged if it names a reading itself, if its method has none of these readings, or if
    none is given.
    """
    parsed = Variant.parse(variant)
    has = list_readings(parsed.name) if read_as else ()
    return list(
        dict.fromkeys(str(parsed.read_as(reading)) for reading in read_as if reading in has)
    ) or [variant]


def _check_readings(read_as: Sequence[str], entries: Mapping[str, Runs]) -> None:
    methods = {spec.variant.name for runs in entries.values() for spec in runs} if read_as else ()
    known = sorted({reading for method in methods for reading in list_readings(method)})
    for reading in read_as:
        if reading not in known:
            raise UserError(
                f"--readings {reading}: no method of {', '.join(entries)} has this reading; {suggest(reading, known)}"
            )


def merged(parts: Iterable[Runs]) -> Runs:
    """Return every run once, with the suites of all parts that need it."""
    runs: Runs = {}
    for part in parts:
        for spec, suites in part.items():
            runs[spec] = tuple(dict.fromkeys((*runs.get(spec, ()), *suites)))
    return runs


def find_table(papers: Sequence[Paper], text: str) -> tuple[str, PaperTable | NeighbourTable]:
    """Look up a table by PAPER:TABLE, ignoring case; return its exact name and the table.

    Raises UserError with the nearest names, or for a table without runs.
    """
    configuration = {
        f"{paper.name}:{name}": table
        for paper in papers
        for name, table in paper.configuration.items()
    }
    if table := configuration.get(match_case(text, configuration)):
        raise UserError(
            f"--table {text}: this table needs no runs ({table.title}); choose another table"
        )
    known = {
        f"{paper.name}:{name}": table
        for paper in papers
        for name, table in paper.run_tables.items()
    }
    return _look_up("table", known, text)


def find_figure(papers: Sequence[Paper], text: str) -> tuple[str, FigureSpec]:
    """Look up a figure by PAPER:FIGURE, ignoring case; return its exact name and the figure.

    Raises UserError with the nearest names.
    """
    known = {
        f"{paper.name}:{name}": figure for paper in papers for name, figure in paper.figures.items()
    }
    return _look_up("figure", known, text)


def find_paper(papers: Sequence[Paper], text: str) -> Paper:
    """Look up a paper by its key, ignoring case. Raises UserError with the nearest names."""
    return _look_up("paper", {paper.name: paper for paper in papers}, text)[1]


def match_case(text: str, known: Iterable[str]) -> str:
    """Return the known name that equals a text up to case, such as mcse:T2 for MCSE:t2; else the
    text itself.
    """
    return next((name for name in known if name.casefold() == text.strip().casefold()), text)


def _look_up(kind: str, known: Mapping[str, Named], text: str) -> tuple[str, Named]:
    name = match_case(text, known)
    if name not in known:
        hint = suggest(text, known, f"`harness list {kind}s` lists them")
        raise UserError(f"--{kind} {text}: no such {kind}; {hint}")
    return name, known[name]


def _list_table_places(
    table: PaperTable, names: StandIns, read_as: Sequence[str]
) -> Iterator[tuple[Place, int, Sequence[str]]]:
    """Place, number of seeds and suites of each row that the table itself asks for, in each
    reading.
    """
    for encoder in table.encoders:
        for _, row in table.rows_of(encoder):
            if row.planned and any(
                names.score(row, column, row.setting) for column in table.columns
            ):
                for variant in expand_readings(row.variant, read_as):
                    if wanted := names.place(variant, row.setting, encoder):
                        yield wanted, row.seeds or table.seeds, table.suites


def _list_entry_places(
    entry: FigureSpec | NeighbourTable, names: StandIns, read_as: Sequence[str]
) -> Iterator[tuple[Place, int, Sequence[str]]]:
    extra = get("figure kind", entry.kind).suites if isinstance(entry, FigureSpec) else ()
    for encoder in entry.encoders:
        for named, setting in pairs_of(entry):
            for variant in expand_readings(named, read_as):
                if wanted := names.place(variant, setting, encoder):
                    yield wanted, entry.seeds, (entry.suite, *extra)


class RowKey(NamedTuple):
    """The key of a row of the papers' tables; `table` is PAPER:TABLE."""

    table: str
    encoder: str
    published: str
    setting: str
    source: str

    @classmethod
    def of(cls, paper: str, table: str, row: PaperRow, encoder: str) -> RowKey:
        return cls(f"{paper}:{table}", encoder, row.published, row.setting, row.source)


def make_released_spec(name: str, weights: ReleasedTable) -> RunSpec:
    """Return the run of public weights, the same that `harness eval` makes of a model from outside."""
    variant = Variant.make(UNTRAINED, {"pooling": weights.pooling})
    return RunSpec(variant, Variant(UNTRAINED), parse_encoder(name), 0)


def find_released_places(profile: Profile) -> dict[RowKey, tuple[Place, ...]]:
    """Return the places of public weights by the rows that they should reproduce."""
    released: dict[RowKey, tuple[Place, ...]] = {}
    for key, spec in _list_released(profile):
        released[key] = (
            *released.get(key, ()),
            Place(str(spec.variant), str(spec.setting), spec.encoder),
        )
    return released


def check_released(profile: Profile, papers: Sequence[Paper]) -> None:
    """Raise UserError for a row of public weights that the papers' tables do not have."""
    known = {
        RowKey.of(paper.name, name, row, encoder)
        for paper in papers
        for name, table in paper.tables.items()
        for encoder in table.encoders
        for _, row in table.rows_of(encoder)
    }
    for key, spec in _list_released(profile):
        if key not in known:
            mine = sorted({other.published for other in known if other.table == key.table})
            raise UserError(
                f"the profile {profile.name}, table [released.{spec.encoder}]: {key.table} has no row {key.published} "
                f"in {key.setting} for {key.encoder} with source {key.source}; {suggest(key.published, mine)}"
            )


def find_released_runs(
    profile: Profile, tables: Sequence[str], papers: Sequence[str]
) -> dict[str, Runs]:
    """Return the runs of public weights by table, each on the table's suites.

    `tables` are PAPER:TABLE and `papers` whole papers, of which tables without public weights are
    left out. Raises UserError for an unknown name, and when there are no weights for anything that
    was asked for.
    """
    known = read_papers()
    released = list(_list_released(profile))
    check_released(profile, known)
    have = sorted({key.table for key, _ in released})
    suites = {
        f"{paper.name}:{name}": table.suites
        for paper in known
        for name, table in paper.tables.items()
    }
    asked = [find_table(known, text)[0] for text in tables]
    for paper in (find_paper(known, text) for text in papers):
        asked += [name for name in suites if name in have and name.partition(":")[0] == paper.name]
    runs = {
        name: {spec: suites[name] for key, spec in released if key.table == name} for name in asked
    }
    if not any(runs.values()):
        raise UserError(
            f"the profile {profile.name} has no public weights for {', '.join([*tables, *papers])}; "
            + (
                f"there are some for {', '.join(have)}"
                if have
                else "add some to its table [released]"
            )
        )
    return runs


def _list_released(profile: Profile) -> Iterator[tuple[RowKey, RunSpec]]:
    """Each row that public weights should reproduce, and their run."""
    for name, weights in profile.released.items():
        for rows in weights.rows:
            for table in rows.tables:
                key = RowKey(table, weights.encoder, rows.published, rows.setting, rows.source)
                yield key, make_released_spec(name, weights)
