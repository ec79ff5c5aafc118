"""Missing inputs of a plan or profile, and how to get them: catalogue entries, hub models, data
sets of mteb.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from huggingface_hub import constants

from harness import fetching
from harness.command_line import harness_command
from harness.encoders.locate import MAIN, MissingModel
from harness.errors import UserError
from harness.evaluation.mteb_suite import MissingTask
from harness.fetching import Entry, Say, Watch, find_providers, format_size
from harness.fetching.downloads import Fetchable, FetchList
from harness.grid import resolve
from harness.papers.needed import StandIns, paper_runs
from harness.papers.published import read_papers
from harness.planning.experiments import Experiments
from harness.planning.inventory import Inventory
from harness.planning.plan import Plan
from harness.profiles import Profile
from harness.sources import Checkable, Missing, MissingHubFile

Answer = TypeVar("Answer")
#: parallel requests to the hub
REQUESTS = 8
#: licences, as the hub and mteb write them, that leave everyone free to train and to evaluate
_FREE = re.compile(
    r"apache|mit$|bsd|isc$|unlicense|cc0|cc-by-\d|cc-by-sa|cc-by$|gpl|lgpl|agpl|mpl|afl|odc|odbl|pddl|cdla-p|public"
)
_UNSTATED = ("", "unknown", "not specified")


def lacking(plan: Plan) -> list[Missing]:
    """All missing inputs of a plan's runs and suites, each once."""
    suites = (item for missing in plan.without_data.values() for item in missing)
    return list(dict.fromkeys((*plan.missing, *suites)))


def fetch_command(plan: Plan) -> str:
    """The command that downloads a plan's missing inputs."""
    request = plan.request
    given = request.selection
    methods = [str(variant) for variant in request.methods]
    names = (
        "table",
        "figure",
        "paper",
        "claim",
        "rows",
        "readings",
        "settings",
        "encoders",
        "seeds",
        "suites",
        "tasks",
    )
    chosen = {name: getattr(given, name) for name in names}
    grid = request.strict and methods != list(request.profile.defaults.methods)
    return harness_command(
        "fetch",
        *(["--released"] if given.released else []),
        profile=given.profile,
        methods=methods if grid else None,
        **chosen,
        set=request.overrides,
        results=plan.store.root,
        data_root=given.data_root,
    )


def how_to_get(plan: Plan) -> str:
    """How to get a plan's missing inputs, in a few words."""
    listed = fetch_list(lacking(plan), plan.inventory.root, ask=False)
    absent = missing_encoders(plan)
    given = (
        f", or give --encoders {','.join(f'{name}=FOLDER' for name in absent)}"
        if len(absent) == len(plan.missing) > 0
        else ""
    )
    left = ", ".join(item.what for item in listed.by_hand)
    if not listed.items:
        return listed.by_hand[0].how
    also = f", and {left} by hand" if left else ""
    return f"run `{fetch_command(plan)}` ({listed.size_text}{also}){given}"


def fetch_list(missing: Iterable[Missing], root: Path | None, ask: bool = True) -> FetchList:
    """Downloads for missing data and models. With `ask`, sizes, commits and licences come from the
    hub.

    If the hub does not answer, sizes are taken from the catalogue and the profile, or unknown.
    """
    entries: dict[str, Entry] = {}
    models: dict[tuple[str, str], list[MissingModel]] = {}
    data: dict[tuple[str, str], list[MissingHubFile]] = {}
    tasks: dict[str, MissingTask] = {}
    by_hand: dict[str, Missing] = {}
    for item in missing:
        if isinstance(item, MissingModel):
            models.setdefault((item.hub, item.revision), []).append(item)
        elif isinstance(item, MissingHubFile):
            data.setdefault((item.hub, item.revision), []).append(item)
        elif isinstance(item, MissingTask):
            tasks[item.task] = item
        elif entry := provider(item):
            needed = (
                each
                for each in fetching.add_inputs(entry)
                if each == entry or fetching.find_state(root, each).absent
            )
            entries |= {each.name: each for each in needed}
        else:
            by_hand[item.what] = item
    manual = {
        name: Missing(name, _steps(entry)) for name, entry in entries.items() if entry.by_hand
    }
    makers: list[Callable[[], Fetchable]] = [
        *(
            partial(_entry, entry, root, ask)
            for name, entry in entries.items()
            if name not in manual
        ),
        *(partial(_model, same, root, ask) for same in models.values()),
        *(partial(_data_set, same, ask) for same in data.values()),
        *(partial(_task, task, ask) for task in tasks.values()),
    ]
    with ThreadPoolExecutor(REQUESTS) as pool:
        items = tuple(pool.map(lambda make: make(), makers))
    return FetchList(items, (*manual.values(), *by_hand.values()))


def missing_encoders(plan: Plan) -> list[str]:
    """The encoders of a plan whose weights are not on this machine; a folder with them can be given
    instead.
    """
    missing = (run.resolved.spec.encoder for run in plan.todo if run.experiment.encoder.missing)
    return list(dict.fromkeys(missing))


def costly_suites(plan: Plan) -> Iterator[str]:
    """Name each suite that alone causes a quarter of a plan's download or more, with the option
    that leaves it out.
    """
    request = plan.request
    root = plan.inventory.root
    whole = fetch_list(lacking(plan), root, ask=False)
    for name in plan.without_data if request.strict and len(request.suites) > 1 else ():
        others = (
            item
            for suite, missing in plan.without_data.items()
            if suite != name
            for item in missing
        )
        size = whole.size - fetch_list([*plan.missing, *others], root, ask=False).size
        if size and size >= whole.size / 4:
            kept = ",".join(suite for suite in request.suites if suite != name)
            yield f"{name} causes {format_size(size)} of {whole.size_text}; `--suites {kept}` leaves it out"


def provider(missing: Missing) -> Entry | None:
    """The catalogue entry that provides a missing file; an automatic download is preferred."""
    entries = fetching.find_providers(missing.what)
    return min(entries, key=lambda entry: bool(entry.by_hand), default=None)


def disk_need(missing: Iterable[Missing]) -> str:
    """The size of data and models in words, including those to download by hand."""
    listed = list(missing)
    fetchable = fetch_list(listed, None, ask=False)
    manual = {
        entry.name: entry.about for item in listed if (entry := provider(item)) and entry.by_hand
    }
    known = fetchable.size + sum(size or 0 for size in manual.values())
    unknown = [
        *fetchable.unknown,
        *(item.what for item in fetchable.by_hand if manual.get(item.what) is None),
    ]
    size = format_size(known) if known else ""
    more = f"{len(unknown)} of unknown size" if unknown else ""
    return " and ".join(filter(None, (size, more))) or "none"


def paper_needs(profile: Profile, root: Path | None) -> Iterator[tuple[str, str, FetchList]]:
    """Yield for each table and figure the option that selects it, its name, and the missing inputs
    of its runs.

    Runs that cannot be planned are left out. Nothing is downloaded, and no content is hashed.
    """
    inventory = Inventory(profile, root, {})
    experiments = Experiments(inventory, {})
    for paper in read_papers():
        for name, runs in paper_runs(paper, StandIns.of(profile), seeds=(0,)).items():
            missing: dict[Missing, None] = {}
            for spec, suites in runs.items():
                for suite in suites:
                    missing |= dict.fromkeys(inventory.once(inventory.suites[suite]).missing)
                with suppress(UserError):
                    run = experiments.of(resolve(profile, spec, {}))
                    missing |= dict.fromkeys(run.missing)
                    needed = (run.missing_for(inventory.suites[suite], root) for suite in suites)
                    missing |= dict.fromkeys(item for items in needed for item in items)
            option = "figure" if name.partition(":")[2] in paper.figures else "table"
            yield option, name, fetch_list(missing, root, ask=False)


def restricts(licence: str | None) -> bool:
    """Whether a licence, as the hub writes it, restricts who may use the data or for what."""
    stated = (licence or "").lower()
    return stated not in _UNSTATED and ("-nc" in stated or not _FREE.match(stated))


def _steps(entry: Entry) -> str:
    how = "; ".join(f"{origin.file}: {origin.hand}" for origin in entry.by_hand)
    return f"{how}; then `{entry.import_command}` ({entry.licence})"


def _entry(entry: Entry, root: Path | None, ask: bool) -> Fetchable:
    size = 0 if all(origin.output for origin in entry.origins) else entry.about
    if size is None and ask:
        size = _answer(partial(fetching.measure_on_hub, entry))

    def bring(say: Say, watch: Watch) -> None:
        if root is not None:
            fetching.fetch(root, entry, say, watch)

    spare = 0 if entry.recipe == "place" else size or 0
    return Fetchable(
        entry.name, entry.title, size, spare, root, entry.licence if entry.restricted else "", bring
    )


def _model(same: Sequence[MissingModel], root: Path | None, ask: bool) -> Fetchable:
    hub = same[0].hub
    revision = same[0].revision
    about = same[0].about
    readers = list(dict.fromkeys(model.reader for model in same))
    beside = [name for name in dict.fromkeys(model.beside for model in same) if name]
    files = partial(fetching.select_model_files, readers=readers, beside=beside)
    answer, size, bring = _of_hub(hub, "model", revision, files, ask, about, root)
    terms = answer.licence if answer is not None and restricts(answer.licence) else None
    # `main` needs a data root, where the commit is recorded
    cache = root if revision == MAIN and root is None else Path(constants.HF_HUB_CACHE)
    return Fetchable(
        hub, "model weights, configuration and tokenizer", size, 0, cache, terms or "", bring
    )


def _data_set(same: Sequence[MissingHubFile], ask: bool) -> Fetchable:
    hub = same[0].hub
    revision = same[0].revision
    patterns = list(dict.fromkeys(item.file for item in same))
    answer, size, bring = _of_hub(
        hub, "dataset", revision, partial(fetching.select_files, patterns=patterns), ask
    )
    licence = answer.licence if answer is not None else None
    stated = (
        f"licence {licence}"
        if licence
        else f"no licence {'stated' if answer is not None else 'known yet'}"
    )
    terms = licence if licence and restricts(licence) else ""
    place = Path(constants.HF_HUB_CACHE)
    return Fetchable(
        hub, f"{', '.join(patterns)} of the hub's data set, {stated}", size, 0, place, terms, bring
    )


def _of_hub(
    hub: str,
    kind: fetching.RepositoryKind,
    revision: str,
    chosen: Callable[[fetching.HubRepository], list[fetching.HubFile]],
    ask: bool,
    about: int | None = None,
    root: Path | None = None,
) -> tuple[fetching.HubRepository | None, int | None, Callable[[Say, Watch], None]]:
    """What the hub says of a repository, the size of the chosen files (else `about`), and what
    downloads them.
    """
    look_up = partial(fetching.look_up, hub, kind, revision, fetching.INSTEAD[kind])
    answer = _answer(look_up) if ask else None
    size = (
        _answer(lambda: sum(file.size or 0 for file in chosen(answer)))
        if answer is not None
        else None
    )
    size = size or about

    def bring(say: Say, watch: Watch) -> None:
        known = answer or look_up()
        files = chosen(known)
        say(f"{hub}: fetching {len(files)} files ({format_size(size)}) at {known.commit[:7]}")
        folder = fetching.fetch_files(known, files, watch(hub))
        if revision == MAIN and root is not None:
            fetching.record_commit(root, hub, known.commit, say)
        say(f"{hub}: in place: {folder}")

    return answer, size, bring


def _task(task: MissingTask, ask: bool) -> Fetchable:
    answer = _answer(partial(fetching.look_up, task.hub, "dataset", task.revision)) if ask else None
    size = sum(file.size or 0 for file in answer.files) if answer is not None else None

    def bring(say: Say, watch: Watch) -> None:
        say(f"{task.task}: fetching {task.hub} ({format_size(size)} with all its parts)")
        task.fetch()
        say(f"{task.task}: in the cache of data sets")

    licence = answer.licence if answer is not None and answer.licence else task.licence
    terms = str(licence) if restricts(licence) else ""
    what = f"the hub's {task.hub}"
    folder = Path(constants.HF_HUB_CACHE)
    # `datasets` keeps a second copy, as Arrow files
    return Fetchable(task.task, what, size, 0, folder, terms, bring, copied=size or 0)


def _answer(ask: Callable[[], Answer]) -> Answer | None:
    """The hub's answer, or None if the request fails: the download will report the error."""
    try:
        return ask()
    except UserError:
        return None


def data_needs(inventory: Inventory) -> Iterator[tuple[str, Checkable]]:
    """Corpora, the image features stored with them, and suites, each named such as "corpus wiki
    (setting wiki)".
    """
    settings = inventory.profile.settings.items()
    for name, corpus in inventory.corpora.items():
        users = [key for key, setting in settings if name in setting.corpora]
        used = (
            f" ({'settings' if len(users) > 1 else 'setting'} {', '.join(users)})" if users else ""
        )
        yield f"corpus {name}{used}", corpus.plain.source
        for (of, teacher), stored in corpus.stored.items():
            yield (
                f"{teacher} features of {'' if of == 'image' else 'the captions of '}{name}",
                stored.source,
            )
    for name, suite in inventory.suites.items():
        yield f"suite {name}", suite


def all_needs(inventory: Inventory) -> Iterator[tuple[str, Checkable]]:
    """Encoders, and the data."""
    for name in inventory.profile.encoders:
        yield f"encoder {name}", inventory.encoder(name).source
    yield from data_needs(inventory)


def disk_needs(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """The disk space for each suite, of all models and of the whole profile, in words."""
    suites = {name: suite.missing(None) for name, suite in inventory.suites.items()}
    for name, files in suites.items():
        yield f"the suite {name}", disk_need(files)
    profile = inventory.profile
    tables = (
        *profile.encoders.values(),
        *profile.teachers.values(),
        *profile.patches.values(),
        *profile.released.values(),
    )
    models = [
        MissingModel(table.hub, "", table.hub, str(table.revision), about=table.about)
        for table in tables
        if table.hub
    ]
    yield "all models", disk_need(models)
    data = [item for _, source in data_needs(inventory) for item in source.missing(None)]
    pixels = (corpus.pixels for corpus in inventory.corpora.values())
    images = [
        item for corpus in pixels if corpus is not None for item in corpus.source.missing(None)
    ]
    yield f"the profile {profile.name}", disk_need([*models, *data, *images])


def needed_files(inventory: Inventory) -> Iterator[tuple[str, str, str, str]]:
    """Yield rows: the reader of files, the files, 'found' or 'missing', and the catalogue entries
    that provide them.

    Files of one corpus or suite with the same state and entries share a row.
    """
    for label, source in data_needs(inventory):
        missing = {item.what for item in source.missing(inventory.root)}
        groups: dict[tuple[str, str], list[str]] = {}
        for item in source.missing(None):
            entries = ", ".join(entry.name for entry in find_providers(item.what))
            absent = item.what in missing
            text = str(item) if absent and not entries else item.what
            groups.setdefault(("missing" if absent else "found", entries), []).append(text)
        for (state, entries), files in groups.items():
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            yield label, f"{files[0]}{more}", state, entries
