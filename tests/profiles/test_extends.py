"""Profiles that extend others: what is merged, what is replaced, where mistakes are seen, and where
paths lie.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from harness.errors import UserError
from harness.grid import resolve
from harness.profiles import load_profile, shipped_profiles
from harness.spec import RunSpec, Variant


def write(folder: Path, **texts: str) -> Path:
    """Write profiles; the path of the last one."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(dedent(text))
    return folder / f"{list(texts)[-1]}.toml"


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_profile(str(path))
    return str(caught.value)


@pytest.mark.parametrize("name", shipped_profiles())
def test_an_empty_extension_is_the_profile_but_for_name_and_origin(
    name: str, tmp_path: Path
) -> None:
    mine = load_profile(str(write(tmp_path, mine=f'extends = "{name}"')))
    assert mine == load_profile(name).model_copy(
        update={"name": "mine", "origin": "file", "extends": name}
    )


def test_tables_merge_by_key_rules_append_and_lists_are_replaced(tmp_path: Path) -> None:
    text = """
        extends = "./base.toml"
        [defaults]
        methods = ["simcse"]
        [settings.mine]
        corpora = ["toy-text"]
        [[hyperparameters]]
        methods = ["mcse"]
        lambda = 0.5
        source = "me"
    """
    base = 'extends = "tiny"\n[training]\nlearning_rate = 1e-4\n'
    mine, tiny = load_profile(str(write(tmp_path, base=base, mine=text))), load_profile("tiny")
    assert mine.defaults == tiny.defaults.model_copy(update={"methods": ("simcse",)})
    assert mine.settings.keys() == {*tiny.settings, "mine"}
    assert mine.training == tiny.training.model_copy(update={"learning_rate": 1e-4})
    assert mine.hyperparameters[:-1] == tiny.hyperparameters
    run = resolve(mine, RunSpec(Variant("mcse"), Variant("toy"), "toy-bert", 0), {})
    assert run.hyperparameters.lambda_ == 0.5, (
        "the rule of the file itself comes after those of tiny, which say 1.0"
    )


def test_a_key_takes_the_place_of_those_that_it_excludes(tmp_path: Path) -> None:
    text = """
        extends = "small"
        [training]
        epochs = 2
        [encoders.all-minilm-l6-v2]
        folder = "./model"
        [corpora.wiki]
        kind = "toy-sentences"
    """
    mine = load_profile(str(write(tmp_path, mine=text)))
    assert (mine.training.epochs, mine.training.steps) == (2, None)
    encoder = mine.encoders["all-minilm-l6-v2"]
    assert (encoder.hub, encoder.revision, encoder.folder) == (None, None, str(tmp_path / "model"))
    assert mine.corpora["wiki"].options == {}, "options of another kind of corpus are not kept"


def test_paths_are_read_from_the_folder_of_their_own_file(tmp_path: Path) -> None:
    base = """
        extends = "tiny"
        [corpora.text]
        kind = "sentences-file"
        file = "./text.txt"
        how = "./prepare.sh"
        [corpora.shared]
        kind = "sentences-file"
        file = "wiki/text.txt"
    """
    write(tmp_path / "base", base=base)
    mine = write(tmp_path, mine='extends = "base/base.toml"\n[encoders.own]\nfolder = "../model"\n')
    profile = load_profile(str(mine))
    assert profile.corpora["text"].options == {
        "file": str(tmp_path / "base" / "text.txt"),
        "how": "./prepare.sh",
    }
    assert profile.corpora["shared"].options["file"] == "wiki/text.txt", (
        "below the data root, as ever"
    )
    assert profile.encoders["own"].folder == str(tmp_path.parent / "model")


def test_a_mistake_names_the_file_and_the_place_where_it_was_written(tmp_path: Path) -> None:
    rule = "[[hyperparameters]]\nmethods = [1]\nsource = 'x'\n"
    below = f'extends = "tiny"\n[training]\nbatch_size = 0\n{rule}'
    mine = write(tmp_path, below=below, mine='extends = "below.toml"\n[training]\nepochs = 1\n')
    assert "below.toml, table [training], key 'batch_size'" in refusal(mine)
    write(tmp_path, below=below.replace("batch_size = 0", "batch_size = 8"))
    assert "below.toml, table [hyperparameters.0.methods], key '0'" in refusal(mine)
    write(tmp_path, mine='extends = "below.toml"\n[training]\nbatch_size = 1\n')
    assert "mine.toml, table [training], key 'batch_size'" in refusal(mine)


def test_unknown_parents_cycles_and_names_of_shipped_profiles_are_refused(tmp_path: Path) -> None:
    assert "no profile 'smal' is shipped; did you mean small" in refusal(
        write(tmp_path, mine='extends = "smal"')
    )
    assert "absent.toml cannot be read" in refusal(write(tmp_path, mine='extends = "absent.toml"'))
    assert "key 'extends'" in refusal(write(tmp_path, mine="extends = 3"))
    assert "extends itself" in refusal(
        write(tmp_path, one='extends = "two.toml"', two='extends = "./one.toml"')
    )
    mine = write(tmp_path, paper='extends = "small"', mine='extends = "paper.toml"')
    for path in (mine, tmp_path / "paper.toml"):
        assert "paper.toml has the name of a shipped profile; rename the file" in refusal(path)
    assert load_profile(str(write(tmp_path, mine='extends = "paper"'))).origin == "file", (
        "printed numbers keep away"
    )
