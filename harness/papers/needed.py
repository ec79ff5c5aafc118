"""The runs that the papers' tables and figures need under a profile: stand-ins for their names, and
public weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple, TypeVar

from harness.errors import PlugInError, UserError
from harness.method.declared import get_declared_method
from harness.metrics import Score
from harness.papers.published import Ablation, Paper, list_claims, read_papers
from harness.papers.schema import (
    Configuration,
    FigureSpec,
    NeighbourTable,
    PaperColumn,
    PaperRow,
    PaperTable,
    list_pairs,
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


def list_teacher_options(method: str) -> Collection[str]:
    """Return the options of a method that name teachers; none if it cannot be imported, since
    planning reports that.
    """
    try:
        return get_declared_method(method).teacher_options
    except PlugInError:
        return ()


def list_readings(method: str) -> Collection[str]:
    """Return the readings of a method; only the default one if it cannot be imported, since
    planning reports that.
    """
    try:
        return get_declared_method(method).readings
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
        if self.stands is None:
            return Place(variant, setting, encoder)

        own_variant = self._translate_variant(variant)
        own_setting = self._translate_setting(setting, self.stands)
        own_encoder = self.stands.encoders.get(encoder)
        if own_variant and own_setting and own_encoder:
            return Place(own_variant, own_setting, own_encoder)
        return None

    def score(self, row: PaperRow, column: PaperColumn, setting: str) -> Score | None:
        """Return the score that fills a cell for a model trained in `setting`; None if nothing is
        measured for it.
        """
        task: str | None = row.task or column.task
        if self.stands is not None:
            task = self.stands.tasks.get(column.suite, {}).get(str(task))
        if task is None or column.published_only:
            return None

        tests_of_setting = self.tests.get(parse_setting(setting).name, {})
        return Score(column.suite, tests_of_setting.get(task, task), column.metric)

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

        teacher_options = list_teacher_options(variant.name)
        options = {}
        for key, value in variant.options:
            if key in Training.model_fields:
                continue  # a batch size or a number of epochs is that of the paper's data
            own_value = self._translate_teachers(value) if key in teacher_options else value
            if own_value is None:
                return None
            options[key] = own_value
        return str(Variant.make(variant.name, options, variant.reading))

    def _translate_teachers(self, value: str) -> str | None:
        stand_ins = self.stands.teachers if self.stands else {}
        names = []
        for name in split_teachers(value):
            own_name = name if name in NO_TEACHER else stand_ins.get(name)
            if not own_name:
                return None
            names.append(own_name)
        return "+".join(names)


class Narrowing(NamedTuple):
    """The parts of tables and figures that are wanted, by the papers' names or by those of their
    stand-ins; an empty one is all of them.

    `rows` are variants, each with the other side of every claim that it is in. The name of an
    encoder may be cut short.
    """

    rows: Sequence[str] = ()
    settings: Sequence[str] = ()
    encoders: Sequence[str] = ()


#: everything
WHOLE = Narrowing()


class NeededRuns(NamedTuple):
    """Runs that a table or figure needs in one place, and suites to evaluate them on.

    `rows` are the paper's variants that bring them, `setting` and `encoder` the paper's names. A
    row that is `quoted` is run only where it is named, or is a side of a claim.
    """

    rows: tuple[str, ...]
    setting: str
    encoder: str
    place: Place
    seeds: int
    suites: Sequence[str]
    quoted: bool = False

    def is_in(self, part: Narrowing) -> bool:
        """Whether it belongs to the wanted part of its table or figure."""
        if part.rows and set(part.rows).isdisjoint(self.rows):
            return False
        if self.quoted and not part.rows:
            return False
        if not _is_named(self.setting, self.place.setting, part.settings):
            return False
        return is_named_encoder(self.encoder, self.place.encoder, part.encoders)


def _is_named(printed: str, stand_in: str, words: Sequence[str]) -> bool:
    return not words or printed in words or stand_in in words


def is_named_encoder(printed: str, stand_in: str, words: Sequence[str]) -> bool:
    """Whether an encoder is one of those named; all are where none is."""
    if _is_named(printed, stand_in, words):
        return True
    return any(printed.startswith(word) for word in words)


def find_wanted_runs(
    profile: Profile,
    tables: Sequence[str],
    figures: Sequence[str],
    papers: Sequence[str],
    seeds: Sequence[int] | None,
    read_as: Sequence[str] = (),
    part: Narrowing = WHOLE,
) -> dict[str, Runs]:
    """Return the runs of tables and figures of papers, by entry.

    `tables` and `figures` are PAPER:NAME, `papers` whole papers, `read_as` readings (see
    `expand_readings`), and `part` is what is wanted of each. Raises UserError for an unknown name,
    for a reading that no method of the entries has, and when nothing that was asked for has a
    stand-in in the profile.
    """
    known_papers = read_papers()
    stand_ins = StandIns.of(profile)
    entries: dict[str, PaperEntry] = {}
    for text in papers:
        entries |= list_entries(find_paper(known_papers, text))
    for text in tables:
        name, table = find_table(known_papers, text)
        entries[name] = table
    for text in figures:
        name, figure = find_figure(known_papers, text)
        entries[name] = figure

    needed = {
        name: list(list_needed(name, entry, stand_ins, read_as)) for name, entry in entries.items()
    }
    if not any(needed.values()):
        raise make_stand_in_error(profile, needed)
    check_part(part, list(chain.from_iterable(needed.values())), needed)

    selected = {}
    for name, runs_of_entry in needed.items():
        runs_in_part = [runs for runs in runs_of_entry if runs.is_in(part)]
        selected[name] = collect_runs(runs_in_part, stand_ins, seeds)
    if not any(selected.values()):
        raise UserError(
            f"{', '.join(selected)}: no run has these --rows, --settings and --encoders at once; "
            "name fewer of them"
        )
    _check_readings(read_as, selected)
    return selected


def make_stand_in_error(profile: Profile, entries: Iterable[str]) -> UserError:
    """The error for entries of papers of which a profile has nothing."""
    return UserError(
        f"the profile {profile.name} has no stand-ins for {', '.join(entries)}; add some to its table "
        "[stands_for], or use --profile paper"
    )


def check_part(part: Narrowing, needed: Sequence[NeededRuns], entries: Iterable[str]) -> None:
    """Raise UserError for a row, a setting or an encoder that none of the entries has."""
    rows = set[str]()
    settings = set[str]()
    encoders = set[str]()
    for runs in needed:
        rows.update(runs.rows)
        settings.update((runs.setting, runs.place.setting))
        encoders.update((runs.encoder, runs.place.encoder))

    for option, words, names in (
        ("rows", part.rows, rows),
        ("settings", part.settings, settings),
        ("encoders", part.encoders, encoders),
    ):
        for word in words:
            is_short = option == "encoders" and any(name.startswith(word) for name in names)
            if word not in names and not is_short:
                hint = suggest(word, sorted(names))
                raise UserError(f"--{option} {word}: {', '.join(entries)} has no such name; {hint}")


def list_entry_runs(
    name: str,
    entry: PaperEntry,
    names: StandIns,
    seeds: Sequence[int] | None = None,
    read_as: Sequence[str] = (),
) -> Runs:
    """Return the runs of the table or figure PAPER:NAME, with the seeds given or those of the
    entry, in the readings given.

    Seeds count from 0; an untrained encoder has seed 0 only. Both sides of each claim of a table
    are among its runs.
    """
    needed = list_needed(name, entry, names, read_as)
    return collect_runs([runs for runs in needed if not runs.quoted], names, seeds)


def list_needed(
    name: str, entry: PaperEntry, names: StandIns, read_as: Sequence[str] = ()
) -> Iterator[NeededRuns]:
    """Yield what the table or figure PAPER:NAME needs, quoted rows too."""
    if isinstance(entry, PaperTable):
        yield from _list_table_places(entry, names, read_as)
        yield from _list_claim_sides(name, entry, names, read_as)
    else:
        yield from _list_entry_places(entry, names, read_as)


def collect_runs(
    needed: Iterable[NeededRuns], names: StandIns, seeds: Sequence[int] | None = None
) -> Runs:
    """Return the runs of all places, each once, with the seeds given or those of the places."""
    parts = []
    for runs in needed:
        place = runs.place
        suites = tuple(name for name in runs.suites if names.has_suite(name))
        variant = Variant.parse(place.variant)
        setting = parse_setting(place.setting)
        seeds_of_runs = range(runs.seeds) if seeds is None else seeds
        if place.setting == UNTRAINED:
            seeds_of_runs = (0,)
        parts.append(
            {RunSpec(variant, setting, place.encoder, seed): suites for seed in seeds_of_runs}
        )
    return merge_runs(parts)


def list_entries(paper: Paper) -> dict[str, PaperEntry]:
    """The tables and figures of a paper that have runs, by PAPER:NAME."""
    entries: dict[str, PaperEntry] = {**paper.run_tables, **paper.figures}
    return {f"{paper.name}:{name}": entry for name, entry in entries.items()}


def list_paper_runs(
    paper: Paper, names: StandIns, seeds: Sequence[int] | None = None, read_as: Sequence[str] = ()
) -> dict[str, Runs]:
    """Return the runs of all tables and figures of a paper, by entry: `dalr:T3`, `dalr:F4`."""
    return {
        name: list_entry_runs(name, entry, names, seeds, read_as)
        for name, entry in list_entries(paper).items()
    }


def expand_readings(variant: str, read_as: Sequence[str]) -> list[str]:
    """Return a variant in each of the readings that its method has.

    It is unchanged if it names a reading itself, if its method has none of these readings, or if
    none is given.
    """
    if not read_as:
        return [variant]

    parsed = Variant.parse(variant)
    readings = list_readings(parsed.name)
    variants = dict.fromkeys(
        str(parsed.read_as(reading)) for reading in read_as if reading in readings
    )
    return list(variants) or [variant]


def _check_readings(read_as: Sequence[str], entries: Mapping[str, Runs]) -> None:
    """Raise UserError for a reading that no method of the entries has."""
    readings = set[str]()
    if read_as:
        for runs in entries.values():
            for method in {spec.variant.name for spec in runs}:
                readings.update(list_readings(method))

    for reading in read_as:
        if reading not in readings:
            hint = suggest(reading, sorted(readings))
            raise UserError(
                f"--readings {reading}: no method of {', '.join(entries)} has this reading; {hint}"
            )


def merge_runs(parts: Iterable[Runs]) -> Runs:
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
    configuration: dict[str, Configuration] = {}
    tables: dict[str, PaperTable | NeighbourTable] = {}
    for paper in papers:
        configuration |= {
            f"{paper.name}:{name}": table for name, table in paper.configuration.items()
        }
        tables |= {f"{paper.name}:{name}": table for name, table in paper.run_tables.items()}

    without_runs = configuration.get(match_case(text, configuration))
    if without_runs:
        raise UserError(
            f"--table {text}: this table needs no runs ({without_runs.title}); choose another table"
        )
    return _look_up("table", tables, text)


def find_figure(papers: Sequence[Paper], text: str) -> tuple[str, FigureSpec]:
    """Look up a figure by PAPER:FIGURE, ignoring case; return its exact name and the figure.

    Raises UserError with the nearest names.
    """
    figures: dict[str, FigureSpec] = {}
    for paper in papers:
        figures |= {f"{paper.name}:{name}": figure for name, figure in paper.figures.items()}
    return _look_up("figure", figures, text)


def find_paper(papers: Sequence[Paper], text: str) -> Paper:
    """Look up a paper by its key, ignoring case. Raises UserError with the nearest names."""
    return _look_up("paper", {paper.name: paper for paper in papers}, text)[1]


def match_case(text: str, known: Iterable[str]) -> str:
    """Return the known name that equals a text up to case, such as mcse:T2 for MCSE:t2; else the
    text itself.
    """
    folded = text.strip().casefold()
    return next((name for name in known if name.casefold() == folded), text)


def _look_up(kind: str, known: Mapping[str, Named], text: str) -> tuple[str, Named]:
    name = match_case(text, known)
    if name not in known:
        hint = suggest(text, known, f"`harness list {kind}s` lists them")
        raise UserError(f"--{kind} {text}: no such {kind}; {hint}")
    return name, known[name]


def _list_table_places(
    table: PaperTable, names: StandIns, read_as: Sequence[str]
) -> Iterator[NeededRuns]:
    """Yield each row that can be run, in each reading."""
    for encoder in table.encoders:
        for _, row in table.select_rows(encoder):
            if row.published_only or not _has_score(table, row, names):
                continue

            rows = (row.variant,)
            seeds = row.seeds or table.seeds
            for variant in expand_readings(row.variant, read_as):
                place = names.place(variant, row.setting, encoder)
                if place:
                    yield NeededRuns(
                        rows, row.setting, encoder, place, seeds, table.suites, row.quoted
                    )


def _list_claim_sides(
    name: str, table: PaperTable, names: StandIns, read_as: Sequence[str]
) -> Iterator[NeededRuns]:
    """Yield both sides of each claim of the table PAPER:NAME wherever it has the better one."""
    for claim in list_claims(name):
        sides = (claim.better, claim.worse)
        for row, encoder in list_claim_rows(claim, table):
            if not _has_score(table, row, names):
                continue
            for side in sides:
                for variant in expand_readings(side, read_as):
                    place = names.place(variant, row.setting, encoder)
                    if place:
                        seeds = row.seeds or table.seeds
                        yield NeededRuns(sides, row.setting, encoder, place, seeds, table.suites)


def list_claim_rows(claim: Ablation, table: PaperTable) -> Iterator[tuple[PaperRow, str]]:
    """Yield the rows of a claim's better side in a table, each with its encoder."""
    for encoder in table.encoders:
        for _, row in table.select_rows(encoder):
            if row.variant == claim.better and row.planned:
                yield row, encoder


def _has_score(table: PaperTable, row: PaperRow, names: StandIns) -> bool:
    """Whether a run of a row would fill one of its cells."""
    return any(names.score(row, column, row.setting) for column in table.columns)


def _list_entry_places(
    entry: FigureSpec | NeighbourTable, names: StandIns, read_as: Sequence[str]
) -> Iterator[NeededRuns]:
    suites = [entry.suite]
    if isinstance(entry, FigureSpec):
        suites += get("figure kind", entry.kind).suites
    for encoder in entry.encoders:
        for printed_variant, setting in list_pairs(entry):
            for variant in expand_readings(printed_variant, read_as):
                place = names.place(variant, setting, encoder)
                if place:
                    rows = (printed_variant,)
                    yield NeededRuns(rows, setting, encoder, place, entry.seeds, suites)


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
    places: dict[RowKey, tuple[Place, ...]] = {}
    for key, spec in _list_released(profile):
        place = Place(str(spec.variant), str(spec.setting), spec.encoder)
        places[key] = (*places.get(key, ()), place)
    return places


def check_released(profile: Profile, papers: Sequence[Paper]) -> None:
    """Raise UserError for a row of public weights that the papers' tables do not have."""
    printed_rows = set[RowKey]()
    for paper in papers:
        for name, table in paper.tables.items():
            for encoder in table.encoders:
                for _, row in table.select_rows(encoder):
                    printed_rows.add(RowKey.of(paper.name, name, row, encoder))

    for key, spec in _list_released(profile):
        if key not in printed_rows:
            names = {row.published for row in printed_rows if row.table == key.table}
            hint = suggest(key.published, sorted(names))
            raise UserError(
                f"the profile {profile.name}, table [released.{spec.encoder}]: {key.table} has no row {key.published} "
                f"in {key.setting} for {key.encoder} with source {key.source}; {hint}"
            )


def find_released_runs(
    profile: Profile, tables: Sequence[str], papers: Sequence[str]
) -> dict[str, Runs]:
    """Return the runs of public weights by table, each on the table's suites.

    `tables` are PAPER:TABLE and `papers` whole papers, of which tables without public weights are
    left out. Raises UserError for an unknown name, and when there are no weights for anything that
    was asked for.
    """
    known_papers = read_papers()
    check_released(profile, known_papers)
    released = list(_list_released(profile))
    released_tables = sorted({key.table for key, _ in released})
    suites_by_table: dict[str, Sequence[str]] = {}
    for paper in known_papers:
        for name, table in paper.tables.items():
            suites_by_table[f"{paper.name}:{name}"] = table.suites

    wanted_tables = [find_table(known_papers, text)[0] for text in tables]
    for text in papers:
        paper = find_paper(known_papers, text)
        wanted_tables += [
            table_name
            for table_name in suites_by_table
            if table_name in released_tables and table_name.partition(":")[0] == paper.name
        ]

    runs: dict[str, Runs] = {}
    for table_name in wanted_tables:
        runs[table_name] = {
            spec: tuple(suites_by_table[table_name])
            for key, spec in released
            if key.table == table_name
        }
    if not any(runs.values()):
        instead = "add some to its table [released]"
        if released_tables:
            instead = f"there are some for {', '.join(released_tables)}"
        raise UserError(
            f"the profile {profile.name} has no public weights for {', '.join([*tables, *papers])}; {instead}"
        )
    return runs


def _list_released(profile: Profile) -> Iterator[tuple[RowKey, RunSpec]]:
    """Each row that public weights should reproduce, and their run."""
    for name, weights in profile.released.items():
        for rows in weights.rows:
            for table in rows.tables:
                key = RowKey(table, weights.encoder, rows.published, rows.setting, rows.source)
                yield key, make_released_spec(name, weights)
