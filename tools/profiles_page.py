"""The page docs/profiles.md, made from the schema: `python tools/profiles_page.py >
docs/profiles.md`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from schema_words import describe_default, describe_type, find_models, format_keys

from harness import registry
from harness.profiles import Profile
from harness.profiles.schema import ModelTable

_HEAD = """# Profiles: every key of the file

<!-- made by `python tools/profiles_page.py > docs/profiles.md` from the schema; edit the schema -->

For whoever writes a profile, a TOML file. `harness new profile NAME` and `harness new task NAME` write templates that
run as they are. Unknown keys are errors. In brackets stand a key's type, unless it is text, and its default.

**Paths.** A path that begins with `./`, `../` or `~/` is relative to the folder of the profile file, and any other that
is not absolute to the data root (`--data-root`, or the variable `HARNESS_DATA`).
`hf://datasets/OWNER/NAME@COMMIT/FILE` is [of the hub](your-data.md#data-sets-of-the-hub-and-folders-of-datasets).

**`extends`** inherits the tables of another profile: a shipped one by name, or a file by a path that ends in `.toml`.
Tables are merged by key, rules are appended (the later one wins), and everything else is replaced, lists too. A table
of another `kind` replaces the whole table; `hub`, `folder` and `registered` replace each other, and so do `epochs` and
`steps`. No file may have the name of a shipped profile.

[Your data](your-data.md#tables) says how files are read.
"""
#: below the first table of corpora
_OF_CORPORA = """
All kinds that read files also have `how`, which says how to get the data, and `ignore`, patterns of the names of
columns and files that may be left out unread.
"""
#: options of corpora and suites whose meaning depends on the kind, and those of all kinds
_MEANINGS = {
    "file": "the file",
    "path": "the file or folder",
    "limit": "use only the first rows; fewer are an error",
    "column": "table: the column of the sentences",
    "columns": "premise, entailed and contradicted hypothesis; default: sent0, sent1 and hard_neg",
    "captions-file.captions": "'one' caption of each image, drawn once, or 'all'",
    "caption_seed": "the seed of the draw",
    "features": "[stored features](your-data.md#stored-features) of images: file, how, transform, ids by teacher",
    "phrases-file.captions": "'one' caption of each image, drawn once, or 'all'",
    "phrases-file.images": "the folder of the image files",
    "phrases-file.split": "the part to read, as 'train+val'; or 'COLUMN=VALUE'",
    "region_features": "[stored features](your-data.md#stored-features) of regions, with the same keys",
    "caption_features": "[stored features](your-data.md#stored-features) of captions, with the same keys",
    "images": "the folder of the image files, or 'jpeg' for that column of a Parquet file",
    "matched": "text file: the Parquet file with image and captions of each line",
    "image": "table: the column of file names, or its number",
    "caption": "table: the column of the captions, or its number",
    "image_list": "text file with one caption a line: a file with the image of each line",
    "missing_images": "'refuse' captions whose image has no file, or 'skip' them",
    "split": "table: these rows of the column split, as 'train+dev'; or 'COLUMN=VALUE'",
    "nested": "whether images in folders within the folder of a class belong to it",
    "no_label": "table: a label that means none, such as -1: its rows are left out",
    "captions-file.split": "file with splits: the images to read, several as 'train+restval'",
    "index": "a tab-separated list with the column file; default: LibriSpeech's folders",
    "labelled-audio.label": "the index's column of labels",
    "labelled-audio.split": "these rows of the index's column split; or 'COLUMN=VALUE'",
    "top": "use only the classes with the most recordings",
    "bins": "mel bins",
    "frames": "frames that a recording is cut or padded to",
    "labelled-images.size": "pixels of each side",
    "labelled": "whether labels are used; if not, each image is its own class",
    "per_class": "images of each class, drawn by sample_seed",
    "sample_seed": "the seed of that draw",
    "bad": "unreadable images to replace by the next ones",
    "seed": "the seed of what is drawn",
    "size": "the number of rows; default: all of the toy world",
    "toy-pairs.split": "the split of the toy world",
    "repeats": "share of pairs that show one of 60 frequent scenes",
    "figures.captions": "maximum number of captions per retrieval task",
    "clusters": "clusters of captions",
    "views": "encodings of each caption under dropout",
    "queries": "captions whose neighbours are listed",
    "dims": "leading dimensions scored too, as METRIC@D",
    "seen_images": "'refuse' leaves out the images that training read, 'keep' ranks them",
    "probe": "'senteval': the published algorithm; 'lbfgs': the optimum that it approximates",
    "mode": "'full' or 'fast', as SentEval",
}


def make_page() -> str:
    """The text of docs/profiles.md."""
    sections = [_HEAD, _make_section("The file", Profile)]
    for table, field in Profile.model_fields.items():
        models = find_models(field.annotation)
        for model in models:
            kind = ""
            if len(models) > 1:
                kind = get_args(model.model_fields["kind"].annotation)[0]
            sections.append(_make_section(_format_title(table, field.annotation, kind), model))

            if table == "corpora":
                sections.append(_OF_CORPORA.lstrip())
            for key, inner in _list_inner_tables(model):
                sections.append(_make_section(f"`[[{table}.NAME.{key}]]`", inner))

        if table in _REGISTERED:
            sections.append(_make_option_sections(table, _REGISTERED[table]))
    return "\n".join(sections)


def _describe_type(annotation: Any, field: FieldInfo | None = None) -> str:
    """A type in words; empty for text."""
    words = describe_type(annotation, field)
    return "" if words == "text" else words


def _format_title(table: str, annotation: Any, kind: str) -> str:
    origin = get_origin(annotation)
    if origin is tuple:
        return f"`[[{table}]]`"
    if origin is not dict:
        return f"`[{table}]`"
    title = f"`[{table}.NAME]`"
    return f"{title}, kind `{kind}`" if kind else title


def _make_section(title: str, model: type[BaseModel]) -> str:
    if model is Profile:
        rows = _list_keys(model, but=("name", "origin"))
        return f"## {title}\n\nAll tables, and the keys above them.\n\n{format_keys(rows)}"

    about = inspect.cleandoc(model.__doc__ or "")
    if model is ModelTable:
        # the one model of two tables: its keys stand in the first
        if title != _format_title("encoders", dict[str, ModelTable], ""):
            return f"## {title}\n\n{about} Its keys are those of `[encoders.NAME]`.\n"
        return f"## {title}\n\n{about}\n\n{format_keys(_list_keys(model))}"

    if issubclass(model, ModelTable):
        about += "\n\nThe keys of `[encoders.NAME]`, and:"
        rows = _list_keys(model, but=ModelTable.model_fields)
    else:
        rows = _list_keys(model)
    return f"## {title}\n\n{about}\n\n{format_keys(rows)}"


def _list_keys(model: type[BaseModel], but: Collection[str] = ()) -> list[Sequence[str]]:
    """The key, type, default and meaning of each field, but of some."""
    rows: list[Sequence[str]] = []
    for key, field in model.model_fields.items():
        if key in but:
            continue
        meaning = field.description or ""
        rows.append(
            (key, _describe_type(field.annotation, field), describe_default(field), meaning)
        )
    return rows


#: options of all kinds that read files
_OF_FILES = ("how", "ignore")


class Registered(NamedTuple):
    """What is registered for a table of a profile."""

    #: of the registry
    kind: str
    #: how a section calls one
    word: str
    #: the argument that is no option
    beside: str


#: by the table of a profile
_REGISTERED = {
    "corpora": Registered("corpus", "kind", beside="kind"),
    "suites": Registered("suite", "suite", beside="tasks"),
}


def _make_option_sections(table: str, registered: Registered) -> str:
    """The options of the kinds that this project registers."""
    sections = []
    without_keys = []
    of_the_toy_world = []
    for name in registry.list_registered(registered.kind):
        package = registry.find_target(registered.kind, name).partition(".")[0]
        if package not in registry.OWN:
            continue

        build = registry.get(registered.kind, name)
        rows = _list_options(build, name, registered.beside)
        keys = {key for key, *_ in rows}
        if not keys:
            without_keys.append(f"`{name}`")
            continue
        if keys == {"seed", "size"}:
            of_the_toy_world.append(f"`{name}`")
            continue

        about = inspect.cleandoc(build.__doc__ or "").partition("\n\n")[0]
        place = "NAME" if registered.word == "kind" else name
        sections.append(f"### `[{table}.{place}]`, {registered.word} `{name}`\n\n{about}\n")
        sections.append(format_keys(rows))

    if of_the_toy_world:
        sections.append(f"With `seed` and `size` alone: {', '.join(of_the_toy_world)}.\n")
    if without_keys:
        sections.append(f"Without further keys: {', '.join(without_keys)}.\n")
    return "\n".join(sections)


def _list_options(build: Callable[..., Any], name: str, beside: str) -> list[Sequence[str]]:
    """The name, type, default and meaning of each option of a kind."""
    rows: list[Sequence[str]] = []
    for option in inspect.signature(build, eval_str=True).parameters.values():
        if option.name in (beside, *_OF_FILES):
            continue
        meaning = _find_meaning(name, option.name)
        kind = _describe_type(option.annotation)
        rows.append((option.name, kind, describe_default(option), meaning))
    return rows


def _find_meaning(kind: str, option: str) -> str:
    return _MEANINGS.get(f"{kind}.{option}") or _MEANINGS[option]


def _list_inner_tables(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The tables in a table."""
    for name, field in model.model_fields.items():
        for inner in find_models(field.annotation):
            yield name, inner


@click.command(help=__doc__)
def main() -> None:
    """Print the page."""
    click.echo(make_page(), nl=False)


if __name__ == "__main__":
    main()
