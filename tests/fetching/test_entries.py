"""The entries of the catalogue: complete, one for each corpus of the papers, refused with a reason
when wrong.
"""

from __future__ import annotations

from types import SimpleNamespace

import huggingface_hub
import pytest
from pydantic import ValidationError

from harness import fetching
from harness.fetching.data_sets import RECIPES
from harness.fetching.entries import read_entries
from harness.profiles import load_profile


@pytest.mark.long
def test_sets_of_the_bundle_have_the_counts_of_the_catalogue(data_root):
    for name in ("senteval", "stsb-multi"):
        assert fetching.verify(data_root, fetching.find_entry(name)) == []


def test_every_entry_is_whole():
    for entry in fetching.entries().values():
        assert entry.recipe in RECIPES
        assert entry.how.startswith("by hand, then `harness data import") == bool(entry.by_hand), (
            entry.how
        )
        files = {origin.file for origin in entry.origins}
        for output in entry.outputs:
            assert (
                output.origin in files
                if entry.recipe in ("place", "unpack")
                else output.origin is None
            )
        made_from = [origin.output for origin in entry.origins if origin.output]
        assert all(len(fetching.find_providers(path)) == 1 for path in made_from)
        if entry.recipe == "unpack":
            inside = entry.options["inside"]
            assert files == set(inside)
    placed = [output.path for entry in fetching.entries().values() for output in entry.outputs]
    assert len(placed) == len(set(placed))


def test_every_file_of_the_papers_corpora_has_an_entry():
    """Captions, the files that they are matched to, published features and images."""
    for name, corpus in load_profile("paper").corpora.items():
        options = corpus.options
        tables = [options.get("matched", {}), *options.get("features", {}).values()]
        files = [
            options.get("file"),
            options.get("images"),
            *(table.get("file") for table in tables),
        ]
        assert all(fetching.find_providers(file) for file in files if file), name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('file = "../x", hand = "h"', "is outside the data root"),
        ('file = "x", url = "http://h/x"', "needs a checksum"),
        ('file = "x", url = "file:///etc/passwd"', "url"),
        ('file = "x", hub = "o/n"', "needs 'revision'"),
        ('file = "x", hand = "h", url = "https://h/x"', "exactly one"),
        (
            'file = "x", drive = "1TBNIM9-zL-wXb2kH8YtuYPig2oYInSSm", url = "https://h/x"',
            "exactly one",
        ),
        ('file = "x", drive = "https://drive.google.com/x"', "drive"),
        ('file = "x", hand = "h", checksum = "sha256:12"', "checksum"),
        ('file = "x", hand = "h", sha = "1"', "sha"),
    ],
)
def test_a_wrong_entry_is_refused(change, words):
    text = f'[bad]\ntitle="t"\nlicence="l"\norigins=[{{ {change} }}]\noutputs=[{{ path = "a", origin = "x" }}]'
    with pytest.raises(ValidationError, match=words):
        read_entries(text)


@pytest.mark.parametrize(
    ("sizes", "total"), [((5,), 5), ((None,), None), ((), None)], ids=["stated", "no size", "gone"]
)
def test_bytes_on_a_hub_are_known_where_it_states_those_of_each_file(sizes, total, monkeypatch):
    origins = [
        origin
        for entry in fetching.entries().values()
        for origin in entry.origins
        if origin.hub and not origin.pick
    ]
    entry = fetching.find_entry("stsb-multi").model_copy(update={"origins": tuple(origins[:1])})
    infos = [SimpleNamespace(size=size) for size in sizes]
    monkeypatch.setattr(huggingface_hub.HfApi, "get_paths_info", lambda *args, **named: infos)
    assert fetching.measure_on_hub(entry) == total
