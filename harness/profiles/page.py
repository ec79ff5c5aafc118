"""The page docs/profiles.md, made from the schema: `python -m harness.profiles.page > docs/profiles.md`."""

from __future__ import annotations

import inspect
import json
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from harness import registry
from harness.profiles.layers import MOST_LAYERS
from harness.profiles.schema import Profile
from harness.sources import OWN_FILE

_HEAD = f"""# Profiles

<!-- made by `python -m harness.profiles.page > docs/profiles.md` from the schema; edit the schema -->

A profile is a TOML file. `--profile NAME` takes a shipped one, `--profile FILE.toml` one of your own; `harness new
profile NAME` and `harness new task NAME` write starts that work as they are. An unknown key is refused.

**Paths.** A path that begins with `./`, `../` or `~/` is read from the folder of the file that it stands in, an
absolute path is taken as it is, and any other lies below the data root (`--data-root`, or the variable `HARNESS_DATA`).

**`extends`** takes over the tables of another profile: a shipped one by name, or a file by a path that ends in `.toml`,
relative to this file. Tables are merged by key, rules are appended (the later one wins), and everything else is
replaced, lists too. A table of another `kind` replaces the whole table; `hub`, `folder` and `registered` take the place
of each other, and `epochs` that of `steps`. At most {MOST_LAYERS} profiles stand above each other. Results name the
file itself, and no file may have the name of a shipped profile.

**Tables of your own** are named `.tsv` (tab-separated, no quoting), `.csv` (quoted where it has to be) or `.jsonl` (an
object a line), plain or with `.gz`, in UTF-8; `.tsv` and `.csv` have a header. Captions need none: two columns, the
file name of an image and a caption, are read as they are, with several captions an image and with Flickr's `#0`. A
mistake names file and line; one in a task or in captions is found before anything is trained. What is read of a file
belongs to a run's fingerprint, and for a task to the protocol of its scores; where the file lies does not.
"""
#: options of corpora and suites whose meaning depends on the kind, and those of all kinds
_MEANINGS = {
    "file": "the file",
    "path": "the file or folder",
    "how": "how to get the data, for those who lack them",
    "limit": "the first rows only; fewer are refused",
    "column": "of a .tsv, .csv or .jsonl: the column of the sentences; without it, each line is one",
    "columns": "of a .tsv, .csv or .jsonl: three columns, premise, entailed and contradicted hypothesis",
    "captions-file.captions": "'one' caption of each image, drawn once, or 'all'",
    "caption_seed": "the seed of the draw",
    "features": "stored image features: a table for each teacher, with file, how and transform",
    "images": "the folder of the image files, or 'jpeg' for that column of a Parquet file",
    "matched": "of a text file: file and how of the Parquet file with image and captions of each line",
    "image": "of a table: the column of the images' file names",
    "caption": "of a table: the column of the captions",
    "index": "a tab-separated list of the recordings, with the column file; without it, LibriSpeech's folders",
    "labelled-audio.label": "the index's column of labels",
    "labelled-audio.split": "rows of the index with this value in the column split",
    "top": "the classes with most recordings only",
    "bins": "mel bins",
    "frames": "frames that a recording is cut or padded to",
    "labelled-images.size": "pixels of each side",
    "labelled": "whether labels are used; else each image is a class",
    "per_class": "images of each class, drawn by sample_seed",
    "sample_seed": "the seed of that draw",
    "bad": "unreadable images that are replaced by the next ones; more are refused",
    "seed": "the seed of what is drawn",
    "size": "the number of rows; default: all of the toy world",
    "toy-pairs.split": "the split of the toy world",
    "repeats": "share of pairs that show one of 60 frequent scenes",
    "figures.captions": "captions of each retrieval task, at most",
    "clusters": "clusters of captions",
    "views": "encodings of a caption under dropout",
    "queries": "captions whose neighbours are listed",
    "seen_images": "'refuse' leaves out the images that training read, 'keep' ranks them",
    "probe": "'senteval', the published algorithm, or 'lbfgs', the optimum that it approaches",
    "mode": "'full' or 'fast', as SentEval",
}
_PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}
_BOUNDS = {"ge": "at least", "gt": "above"}


def page() -> str:
    """The text of docs/profiles.md."""
    sections = [_HEAD, _section("The file", Profile)]
    for name, field in Profile.model_fields.items():
        models = _models(field.annotation)
        for model in models:
            kind = get_args(model.model_fields["kind"].annotation)[0] if len(models) > 1 else ""
            sections.append(_section(_title(name, field.annotation, kind), model))
            sections += [_section(f"`[[{name}.NAME.{key}]]`", one) for key, one in _inside(model)]
        sections += [_registered(name, *kinds) for kinds in _KINDS.get(name, ())]
    return "\n".join(sections)


def _title(name: str, annotation: Any, kind: str) -> str:
    if get_origin(annotation) is dict:
        return f"`[{name}.NAME]`" + (f", kind `{kind}`" if kind else "")
    return f"`[[{name}]]`" if get_origin(annotation) is tuple else f"`[{name}]`"


def _section(title: str, model: type[BaseModel]) -> str:
    about = inspect.cleandoc(model.__doc__ or "") if model is not Profile else "All tables, and the keys above them."
    rows = [
        (key, _type(field.annotation, field), _default(field), field.description or "")
        for key, field in model.model_fields.items()
        if key not in ("name", "origin") or model is not Profile
    ]
    return f"## {title}\n\n{about}\n\n{_table(rows)}"


#: table of a profile -> (registry kind, how its section is called, arguments that are no options)
_KINDS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "corpora": (("corpus", "kind", "kind"),),
    "suites": (("suite", "suite", "tasks"),),
}


def _registered(table: str, kind: str, word: str, beside: str) -> str:
    """The options of the kinds that this project registers."""
    sections = []
    for name in registry.names(kind):
        if registry.target(kind, name).partition(".")[0] not in registry.OWN:
            continue
        found = registry.get(kind, name)
        rows = [
            (option.name, _type(option.annotation), _default(option), _meaning(name, option.name))
            for option in inspect.signature(found, eval_str=True).parameters.values()
            if option.name != beside
        ]
        text = inspect.cleandoc(found.__doc__ or "").partition("\n\n")[0]
        sections.append(f"### `[{table}.{'NAME' if word == 'kind' else name}]`, {word} `{name}`\n\n{text}\n")
        sections.append(_table(rows) if rows else "No further keys.\n")
    return "\n".join(sections)


def _meaning(kind: str, option: str) -> str:
    return _MEANINGS.get(f"{kind}.{option}") or _MEANINGS[option]


def _table(rows: Sequence[tuple[str, str, str, str]]) -> str:
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    lines += [f"| `{key}` | {kind} | {default} | {meaning} |" for key, kind, default, meaning in rows]
    return "\n".join(lines) + "\n"


def _default(field: FieldInfo | inspect.Parameter) -> str:
    value = field.default
    if value in (PydanticUndefined, inspect.Parameter.empty):
        return "required"
    if value is None or value in ("", (), {}, OWN_FILE) or isinstance(value, BaseModel):
        return ""
    return f"`{json.dumps(value)}`"


def _type(annotation: Any, field: FieldInfo | None = None) -> str:
    """A type in words, with the bounds of a number."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(one) for one in arguments if one is not type(None)))
    if origin is Literal:
        return ", ".join(f"`{json.dumps(one)}`" for one in arguments)
    if origin is dict or origin is Mapping:
        return "tables by name" if _models(annotation) else "table"
    if origin in (tuple, Sequence):
        inner = [one for one in arguments if one is not Ellipsis]
        plural = "tables" if _models(annotation) else f"{_type(inner[0])}s"
        return f"{'two' if len(inner) == 2 else 'list of'} {plural}"
    if annotation in _PLAIN:
        return ", ".join([_PLAIN[annotation], *_bounds(field)])
    return "table"


def _bounds(field: FieldInfo | None) -> Iterator[str]:
    for one in field.metadata if field else ():
        for name, word in _BOUNDS.items():
            if (bound := getattr(one, name, None)) is not None:
                yield f"{word} {bound:,}"


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The tables in a type."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _inside(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The tables in a table."""
    for name, field in model.model_fields.items():
        yield from ((name, one) for one in _models(field.annotation))


if __name__ == "__main__":
    sys.stdout.write(page())
