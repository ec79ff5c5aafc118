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
from harness.papers.needed import StandIns, list_paper_runs
from harness.papers.published import read_papers
from harness.planning.experiments import Experiments
from harness.planning.inventory import Inventory
from harness.planning.plan import Plan
from harness.profiles import Profile
from harness.sources import Checkable, Missing, MissingHubFile
from harness.spec import RunSpec

Answer = TypeVar("Answer")
#: parallel requests to the hub
REQUESTS = 8
#: licences, as the hub and mteb write them, that leave everyone free to train and to evaluate
_FREE = re.compile(
    r"apache|mit$|bsd|isc$|unlicense|cc0|cc-by-\d|cc-by-sa|cc-by$|gpl|lgpl|agpl|mpl|afl|odc|odbl|pddl|cdla-p|public"
)
_UNSTATED = ("", "unknown", "not specified")
#: options of a selection that `harness fetch` takes as they are, in the order of its command
_FETCH_OPTIONS = (
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


def list_missing(plan: Plan) -> list[Missing]:
    """All missing inputs of a plan's runs and suites, each once."""
    missing = dict.fromkeys(plan.missing)
    for missing_of_suite in plan.without_data.values():
        missing |= dict.fromkeys(missing_of_suite)
    return list(missing)


def make_fetch_command(plan: Plan) -> str:
    """The command that downloads a plan's missing inputs."""
    request = plan.request
    selection = request.selection
    options = {name: getattr(selection, name) for name in _FETCH_OPTIONS}
    methods = [str(variant) for variant in request.methods]
    is_own_grid = request.strict and methods != list(request.profile.defaults.methods)
    return harness_command(
        "fetch",
        *(["--released"] if selection.released else []),
        profile=selection.profile,
        methods=methods if is_own_grid else None,
        **options,
        set=request.overrides,
        results=plan.store.root,
        data_root=selection.data_root,
    )


def explain_how_to_get(plan: Plan) -> str:
    """How to get a plan's missing inputs, in a few words."""
    downloads = make_fetch_list(list_missing(plan), plan.inventory.root, ask=False)
    if not downloads.items:
        return downloads.by_hand[0].how

    also = ""
    if downloads.by_hand:
        also = f", and {', '.join(item.what for item in downloads.by_hand)} by hand"
    instead = ""
    encoders = list_missing_encoders(plan)
    if encoders and len(encoders) == len(plan.missing):
        folders = ",".join(f"{name}=FOLDER" for name in encoders)
        instead = f", or give --encoders {folders}"
    return f"run `{make_fetch_command(plan)}` ({downloads.size_text}{also}){instead}"


def make_fetch_list(missing: Iterable[Missing], root: Path | None, ask: bool = True) -> FetchList:
    """Downloads for missing data and models. With `ask`, sizes, commits and licences come from the
    hub.

    If the hub does not answer, sizes are taken from the catalogue and the profile, or unknown.
    """
    entries: dict[str, Entry] = {}
    models_by_commit: dict[tuple[str, str], list[MissingModel]] = {}
    files_by_commit: dict[tuple[str, str], list[MissingHubFile]] = {}
    tasks: dict[str, MissingTask] = {}
    without_entry: dict[str, Missing] = {}
    for item in missing:
        if isinstance(item, MissingModel):
            models_by_commit.setdefault((item.hub, item.revision), []).append(item)
        elif isinstance(item, MissingHubFile):
            files_by_commit.setdefault((item.hub, item.revision), []).append(item)
        elif isinstance(item, MissingTask):
            tasks[item.task] = item
        elif entry := choose_provider(item):
            for needed in fetching.add_inputs(entry):
                if needed == entry or fetching.find_state(root, needed).absent:
                    entries[needed.name] = needed
        else:
            without_entry[item.what] = item

    by_hand: list[Missing] = []
    makers: list[Callable[[], Fetchable]] = []
    for name, entry in entries.items():
        if entry.by_hand:
            by_hand.append(Missing(name, _describe_manual_steps(entry)))
        else:
            makers.append(partial(_make_entry_download, entry, root, ask))
    makers += [
        partial(_make_model_download, models, root, ask) for models in models_by_commit.values()
    ]
    makers += [partial(_make_files_download, files, ask) for files in files_by_commit.values()]
    makers += [partial(_make_task_download, task, ask) for task in tasks.values()]

    # each may ask the hub
    with ThreadPoolExecutor(REQUESTS) as pool:
        downloads = tuple(pool.map(lambda make: make(), makers))
    return FetchList(downloads, (*by_hand, *without_entry.values()))


def list_missing_encoders(plan: Plan) -> list[str]:
    """The encoders of a plan whose weights are not on this machine; a folder with them can be given
    instead.
    """
    missing = (run.resolved.spec.encoder for run in plan.todo if run.experiment.encoder.missing)
    return list(dict.fromkeys(missing))


def find_costly_suites(plan: Plan) -> Iterator[str]:
    """Name each suite that alone causes a quarter of a plan's download or more, with the option
    that leaves it out.
    """
    request = plan.request
    if not request.strict or len(request.suites) < 2:
        return

    root = plan.inventory.root
    fetch_list = make_fetch_list(list_missing(plan), root, ask=False)
    for name in plan.without_data:
        missing_without = list(plan.missing)
        for suite, missing in plan.without_data.items():
            if suite != name:
                missing_without += missing

        size = fetch_list.size - make_fetch_list(missing_without, root, ask=False).size
        if size and size >= fetch_list.size / 4:
            suites = ",".join(suite for suite in request.suites if suite != name)
            yield f"{name} causes {format_size(size)} of {fetch_list.size_text}; `--suites {suites}` leaves it out"


def choose_provider(missing: Missing) -> Entry | None:
    """The catalogue entry that provides a missing file; an automatic download is preferred."""
    entries = fetching.find_providers(missing.what)
    return min(entries, key=lambda entry: bool(entry.by_hand), default=None)


def describe_disk_need(missing: Iterable[Missing]) -> str:
    """The size of data and models in words, including those to download by hand."""
    missing = list(missing)
    downloads = make_fetch_list(missing, None, ask=False)
    sizes_by_hand: dict[str, int | None] = {}
    for item in missing:
        entry = choose_provider(item)
        if entry is not None and entry.by_hand:
            sizes_by_hand[entry.name] = entry.about

    known_size = downloads.size + sum(size or 0 for size in sizes_by_hand.values())
    unknown = len(downloads.unknown)
    unknown += sum(sizes_by_hand.get(item.what) is None for item in downloads.by_hand)

    parts = []
    if known_size:
        parts.append(format_size(known_size))
    if unknown:
        parts.append(f"{unknown} of unknown size")
    return " and ".join(parts) or "none"


def list_paper_needs(profile: Profile, root: Path | None) -> Iterator[tuple[str, str, FetchList]]:
    """Yield for each table and figure the option that selects it, its name, and the missing inputs
    of its runs.

    Runs that cannot be planned are left out. Nothing is downloaded, and no content is hashed.
    """
    inventory = Inventory(profile, root, {})
    experiments = Experiments(inventory, {})
    for paper in read_papers():
        for name, runs in list_paper_runs(paper, StandIns.of(profile), seeds=(0,)).items():
            missing: dict[Missing, None] = {}
            for spec, suites in runs.items():
                missing |= dict.fromkeys(_list_missing_of_run(spec, suites, experiments))
            option = "figure" if name.partition(":")[2] in paper.figures else "table"
            yield option, name, make_fetch_list(missing, root, ask=False)


def _list_missing_of_run(
    spec: RunSpec, suites: Iterable[str], experiments: Experiments
) -> Iterator[Missing]:
    """The missing inputs of a run and of its suites; of its suites alone where it cannot be
    planned.
    """
    inventory = experiments.inventory
    for name in suites:
        yield from inventory.find_ingredient(inventory.suites[name]).missing

    with suppress(UserError):
        experiment = experiments.find(resolve(inventory.profile, spec, {}))
        yield from experiment.missing
        models: list[Missing] = []
        for name in suites:
            models += experiment.list_missing_models(inventory.suites[name], inventory.root)
        yield from models


def is_restrictive(licence: str | None) -> bool:
    """Whether a licence, as the hub writes it, restricts who may use the data or for what."""
    stated = (licence or "").lower()
    if stated in _UNSTATED:
        return False
    return "-nc" in stated or not _FREE.match(stated)


def _describe_manual_steps(entry: Entry) -> str:
    steps = "; ".join(f"{origin.file}: {origin.hand}" for origin in entry.by_hand)
    return f"{steps}; then `{entry.import_command}` ({entry.licence})"


def _make_entry_download(entry: Entry, root: Path | None, ask: bool) -> Fetchable:
    # what is made from other entries is not downloaded
    is_made_here = all(origin.output for origin in entry.origins)
    size = 0 if is_made_here else entry.about
    if size is None and ask:
        size = _ask_hub(partial(fetching.measure_on_hub, entry))

    def bring(say: Say, watch: Watch) -> None:
        if root is not None:
            fetching.fetch(root, entry, say, watch)

    spare = 0 if entry.recipe == "place" else size or 0
    terms = entry.licence if entry.restricted else ""
    return Fetchable(entry.name, entry.title, size, spare, root, terms, bring)


def _make_model_download(models: Sequence[MissingModel], root: Path | None, ask: bool) -> Fetchable:
    """The download of one model, whatever reads it."""
    model = models[0]
    readers = list(dict.fromkeys(model.reader for model in models))
    beside = [name for name in dict.fromkeys(model.beside for model in models) if name]
    select_files = partial(fetching.select_model_files, readers=readers, beside=beside)
    repository, size, bring = _prepare_hub_download(
        model.hub, "model", model.revision, select_files, ask, model.about, root
    )

    terms = ""
    if repository is not None and is_restrictive(repository.licence):
        terms = repository.licence or ""
    # `main` needs a data root, where the commit is recorded
    cache = Path(constants.HF_HUB_CACHE)
    parts = "model weights, configuration and tokenizer"
    needs_root = model.revision == MAIN and root is None
    return Fetchable(model.hub, parts, size, 0, None if needs_root else cache, terms, bring)


def _make_files_download(files: Sequence[MissingHubFile], ask: bool) -> Fetchable:
    """The download of files of one data set of the hub."""
    hub = files[0].hub
    patterns = list(dict.fromkeys(item.file for item in files))
    select_files = partial(fetching.select_files, patterns=patterns)
    repository, size, bring = _prepare_hub_download(
        hub, "dataset", files[0].revision, select_files, ask
    )

    licence = None if repository is None else repository.licence
    if licence:
        stated = f"licence {licence}"
    elif repository is not None:
        stated = "no licence stated"
    else:
        stated = "no licence known yet"
    terms = licence if licence and is_restrictive(licence) else ""
    cache = Path(constants.HF_HUB_CACHE)
    parts = f"{', '.join(patterns)} of the hub's data set, {stated}"
    return Fetchable(hub, parts, size, 0, cache, terms, bring)


def _prepare_hub_download(
    hub: str,
    kind: fetching.RepositoryKind,
    revision: str,
    select_files: Callable[[fetching.HubRepository], list[fetching.HubFile]],
    ask: bool,
    about: int | None = None,
    root: Path | None = None,
) -> tuple[fetching.HubRepository | None, int | None, Callable[[Say, Watch], None]]:
    """What the hub says of a repository, the size of the selected files (else `about`), and what
    downloads them.
    """
    look_up = partial(fetching.look_up, hub, kind, revision, fetching.INSTEAD[kind])
    repository = _ask_hub(look_up) if ask else None
    stated_size = None
    if repository is not None:
        stated_size = _ask_hub(lambda: sum(file.size or 0 for file in select_files(repository)))
    size = stated_size or about

    def bring(say: Say, watch: Watch) -> None:
        commit = repository or look_up()
        files = select_files(commit)
        say(f"{hub}: fetching {len(files)} files ({format_size(size)}) at {commit.commit[:7]}")
        folder = fetching.fetch_files(commit, files, watch(hub))
        if revision == MAIN and root is not None:
            fetching.record_commit(root, hub, commit.commit, say)
        say(f"{hub}: in place: {folder}")

    return repository, size, bring


def _make_task_download(task: MissingTask, ask: bool) -> Fetchable:
    repository = None
    if ask:
        repository = _ask_hub(partial(fetching.look_up, task.hub, "dataset", task.revision))
    size = None
    licence = task.licence
    if repository is not None:
        size = sum(file.size or 0 for file in repository.files)
        licence = repository.licence or licence

    def bring(say: Say, watch: Watch) -> None:
        say(f"{task.task}: fetching {task.hub} ({format_size(size)} with all its parts)")
        task.fetch()
        say(f"{task.task}: in the cache of data sets")

    terms = str(licence) if is_restrictive(licence) else ""
    place = f"the hub's {task.hub}"
    cache = Path(constants.HF_HUB_CACHE)
    # `datasets` keeps a second copy, as Arrow files
    return Fetchable(task.task, place, size, 0, cache, terms, bring, copied=size or 0)


def _ask_hub(ask: Callable[[], Answer]) -> Answer | None:
    """The hub's answer, or None if the request fails: the download will report the error."""
    try:
        return ask()
    except UserError:
        return None


def list_data_needs(inventory: Inventory) -> Iterator[tuple[str, Checkable]]:
    """Corpora, the image features stored with them, and suites, each named such as "corpus wiki
    (setting wiki)".
    """
    for name, corpus in inventory.corpora.items():
        yield f"corpus {name}{_name_users(name, inventory.profile)}", corpus.plain.source
        for (of, teacher), stored in corpus.stored.items():
            subject = name if of == "image" else f"the {of}s of {name}"
            yield f"{teacher} features of {subject}", stored.source

    for name, suite in inventory.suites.items():
        yield f"suite {name}", suite


def _name_users(corpus: str, profile: Profile) -> str:
    """`` (settings A, B)``: those that read a corpus; empty for none."""
    users = [name for name, setting in profile.settings.items() if corpus in setting.corpora]
    if not users:
        return ""
    return f" ({'settings' if len(users) > 1 else 'setting'} {', '.join(users)})"


def list_needs(inventory: Inventory) -> Iterator[tuple[str, Checkable]]:
    """Encoders, and the data."""
    for name in inventory.profile.encoders:
        yield f"encoder {name}", inventory.find_encoder(name).source
    yield from list_data_needs(inventory)


def describe_disk_needs(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """The disk space for each suite, of all models and of the whole profile, in words."""
    profile = inventory.profile
    for name, suite in inventory.suites.items():
        yield f"the suite {name}", describe_disk_need(suite.missing(None))

    models: list[Missing] = []
    for listed in (profile.encoders, profile.teachers, profile.patches, profile.released):
        for model in listed.values():
            if model.hub:
                revision = str(model.revision)
                models.append(MissingModel(model.hub, "", model.hub, revision, about=model.about))
    yield "all models", describe_disk_need(models)

    everything = list(models)
    for _, source in list_data_needs(inventory):
        everything += source.missing(None)
    for corpus in inventory.corpora.values():
        if corpus.pixels is not None:
            everything += corpus.pixels.source.missing(None)
    yield f"the profile {profile.name}", describe_disk_need(everything)


def list_needed_files(inventory: Inventory) -> Iterator[tuple[str, str, str, str]]:
    """Yield rows: the reader of files, the files, 'found' or 'missing', and the catalogue entries
    that provide them.

    Files of one corpus or suite with the same state and entries share a row.
    """
    for reader, source in list_data_needs(inventory):
        missing = {item.what for item in source.missing(inventory.root)}
        files_by_state: dict[tuple[str, str], list[str]] = {}
        for item in source.missing(None):
            entries = ", ".join(entry.name for entry in find_providers(item.what))
            state = "missing" if item.what in missing else "found"
            # without an entry, the user is told how to get the file
            text = str(item) if state == "missing" and not entries else item.what
            files_by_state.setdefault((state, entries), []).append(text)

        for (state, entries), files in files_by_state.items():
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            yield reader, f"{files[0]}{more}", state, entries
