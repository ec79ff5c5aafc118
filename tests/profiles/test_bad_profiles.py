"""Wrong values for every key of a profile, found in the schema: a key of tomorrow is tried the day
it comes.

Each is one line that names the table and the key, or a value that the key takes.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from harness.errors import UserError
from harness.evaluation.suites import Suite
from harness.method import method_named
from harness.planning.inventory import Inventory
from harness.profiles import Profile, load_profile
from harness.registry import get, get_class, list_registered

#: what is wrong for any key, and what is wrong for some
NEVER: dict[str, Any] = {"nested": {"x": [[[1]]]}, "date": "1979-05-27"}
SOMETIMES: dict[str, Any] = {
    **{"text": "\x1b[31mx", "empty": "", "long": "n" * 5000, "path": "../../x"},
    **{
        "negative": -1,
        "zero": 0,
        "huge": 10**30,
        "nan": math.nan,
        "inf": math.inf,
        "small": 1e-300,
        "true": True,
    },
    **{"list": ["x"], "nothing": [], "mixed": [1, "x"], "deep": [[[[[[1]]]]]]},
}
#: tables that the profile tiny does not have
MORE: dict[str, Any] = {
    "teachers": {
        "words": {"kind": "text", "folder": "words", "pooling": "cls"},
        "fitted": {"kind": "lit", "images": "toy-clip", "captions": "words", "corpus": "toy-pairs"},
    },
    "patches": {"hub": {"hub": "a/b", "revision": "0" * 40}},
    "released": {
        "x/y": {
            **{
                "hub": "x/y",
                "revision": "0" * 40,
                "pooling": "cls",
                "encoder": "bert",
                "source": "the paper",
            },
            "rows": [{"tables": ["mcse:T1"], "published": "mcse", "setting": "wiki"}],
        }
    },
}
Path_ = tuple[str | int, ...]


#: a line that a user added to a profile -> what is said of its key
MISTYPED = {
    "descripton = 'x'": "table [top level], key 'descripton': there is no such key; did you mean description?",
    "[training]\nbatchsize = 2": "table [training], key 'batchsize': there is no such key; did you mean batch_size?",
    "[settings.mine]\ncorpora = ['toy-text']\ntest = {}": "key 'test': there is no such key; did you mean tests?",
    "[encoders.mine]\nfoldr = 'x'": "table [encoders.mine], key 'foldr': there is no such key; did you mean folder?",
    "[tasks.mine]\nkind = 'similarity'\nfile = 'x'\nscores = 'y'": "there is no such key; did you mean score?",
    "[corpora.mine]\nkind = 'captions-file'\nflie = 'x'": "table [corpora.mine] has no key 'flie'; did you mean file?",
    "[corpora.mine]\nkind = 'captions-file'": "table [corpora.mine]: missing a required key: 'file'",
    "[corpora.mine]\nkind = 'sentences-file'\nfile = 3": "[corpora.mine], key 'file': it must be a text, not 3",
    "[corpora.mine]\nkind = 'sentences-file'\nfile = 'x'\nlimit = 2.5": "it must be a whole number, not 2.5",
    "[suites.sts]\ntasks = ['ToySTS-dev']\nall = 1": "table [suites.sts] has no key 'all'; ",
    "[defaults]\nseeds = 0": "key 'seeds': it must be greater than or equal to 1",
    "[training]\nprecision = 'fp8'": "key 'precision': it must be 'fp32', 'tf32', 'bf16' or 'fp16'",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_a_mistyped_key_or_value_is_named_with_the_nearest_or_what_it_must_be(
    line: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(f'extends = "tiny"\n{line}\n')

    def inventory() -> Inventory:
        return Inventory(load_profile(str(tmp_path / "mine.toml")), tmp_path, {})

    with pytest.raises(UserError) as error:
        assert not (inventory().corpora and inventory().suites)
    assert MISTYPED[line] in str(error.value)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{json.dumps(key)} = {_toml(held)}' for key, held in value.items())}}}"
        )
    return value if value == NEVER["date"] else json.dumps(value)


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    """A profile with every kind of table."""
    text = files("harness.profiles").joinpath("tiny.toml").read_text("utf-8")
    tables = tomllib.loads(text) | {"training": {}}
    return tables | {name: tables.get(name, {}) | more for name, more in MORE.items()}


def _tables(held: Any, path: Path_ = ()) -> Iterator[tuple[type[BaseModel], Path_]]:
    """Each table that a profile gives with its class, two of a family and one of a list."""
    inner: dict[Any, Any] = {}
    if isinstance(held, BaseModel):
        yield type(held), path
        inner = {name: getattr(held, name) for name in sorted(held.model_fields_set)}
    elif isinstance(held, dict):
        inner = dict(list(held.items())[-2:])
    elif isinstance(held, tuple):
        inner = dict(enumerate(held[:1]))
    for key, value in inner.items():
        yield from _tables(value, (*path, key))


def _written(whole: dict[str, Any], path: Path_ = (), value: Any = None) -> str:
    """The text of the profile, with one more key if there is one."""
    changed = table = copy.deepcopy(whole)
    for part in path[:-1]:
        table = table[part]
    if path:
        table[path[-1]] = value
    return "\n".join(f"{json.dumps(name)} = {_toml(held)}" for name, held in changed.items())


#: values that no key with numbers takes: they are finite, of a size that can be meant, and no
#: switches
NO_NUMBERS = ("text", "negative", "huge", "nan", "inf", "true")


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
def test_every_key_of_a_profile_names_itself(
    whole: dict[str, Any], tmp_path: Path, every: int
) -> None:
    """Each wrong value of each key, or in short every seventh of these pairs."""
    file, tried, refused = tmp_path / "mine.toml", 0, 0
    file.write_text(_written(whole))
    pairs = itertools.count()
    for model, path in list(_tables(load_profile(str(file)))):
        for key, field in model.model_fields.items():
            if model is Profile and key in ("name", "origin"):
                continue
            numbers = {int, float} & {field.annotation, *get_args(field.annotation)}
            for name, value in {**NEVER, **SOMETIMES}.items():
                if next(pairs) % every:
                    continue
                tried += 1
                file.write_text(_written(whole, (*path, key), value))
                try:
                    load_profile(str(file))
                except UserError as error:
                    refused += 1
                    text = str(error)
                    assert str(file) in text
                    assert {key, *map(str, path)} & {
                        *re.split(r"[.'\[\]:]", text.partition(str(file))[2])
                    }, text
                else:
                    assert name not in NEVER, f"{path} {key} = {value}"
                    # `about` are bytes, shown only; a fraction may be as large as one likes
                    huge = name == "huge" and (key == "about" or field.annotation is float)
                    assert huge or name not in NO_NUMBERS or not numbers, f"{path} {key} = {value}"
    assert tried > 1000 / every
    assert refused > tried / 2


#: a wrong value for each type that the classes declare
WRONG = {
    "int": (True, "x", 1.5, math.nan, [1]),
    "float": (True, "x", math.inf),
    "str": (3, True, ["x"]),
    "bool": (1, "x"),
}


def _declared(kind: type) -> Iterator[tuple[str, str]]:
    """The arguments of a class that have one of the types of WRONG."""
    for name, argument in inspect.signature(kind).parameters.items():
        if (declared := str(argument.annotation).removesuffix(" | None")) in WRONG:
            yield name, declared


@pytest.mark.parametrize(("table", "registered"), [("corpora", "corpus"), ("suites", "suite")])
def test_options_of_registered_classes_are_checked(table: str, registered: str) -> None:
    tiny, tried = load_profile("tiny"), 0
    for name in list_registered(registered):
        kind = get_class("suite", name, Suite) if registered == "suite" else get("corpus", name)
        needed = {
            each.name: "x"
            for each in inspect.signature(kind).parameters.values()
            if each.default is each.empty
        }
        given = {"tasks": ["ToySTS"]} if registered == "suite" else {"kind": name, **needed}
        for option, declared in _declared(kind):
            for value in WRONG[declared]:
                tried += 1
                tables = {name: {**given, option: value}}
                changed = Profile.model_validate(
                    {**tiny.model_dump(), table: {**tiny.model_dump()[table], **tables}}
                )
                with pytest.raises(
                    UserError, match=rf"table \[{table}\.{name}\], key '{option}': "
                ):
                    getattr(Inventory(changed, None, {}), table)
    assert tried > 20


def test_numbers_of_every_method_are_checked() -> None:
    tried = 0
    for name in list_registered("method"):
        kind = method_named(name).Hyperparameters
        for option, field in kind.options().items():
            for value in (
                ("nan", "inf", "x", "", math.nan, [1])
                if type(field.default) in (int, float)
                else ()
            ):
                tried += 1
                with pytest.raises(UserError, match=f"'{option}' must be"):
                    kind.read(name, {option: value})
    assert tried > 100


@pytest.mark.parametrize("name", ["a b", "日本", ".hid", "a/b/c", "x[shot=1]"])
@pytest.mark.parametrize("kind", ["settings", "encoders"])
def test_a_name_that_no_command_can_select_is_refused(
    kind: str, name: str, whole: dict[str, Any]
) -> None:
    (table, *_) = whole[kind].values()
    whole = {**whole, kind: {**whole[kind], name: table}, "name": "mine", "origin": "file"}
    with pytest.raises(ValidationError, match=re.escape(name)):
        Profile.model_validate(whole)
