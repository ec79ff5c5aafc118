"""BibTeX for what results used: every work that is known, none that is made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from builders import result
from click.testing import CliRunner

from harness import __version__
from harness.cli.main import cli
from harness.errors import UserError
from harness.method import Method
from harness.papers.citing import Used, list_used, make_bibtex, make_entry, read_citations
from harness.registry import list_registered
from harness.store import Store

CFF = Path(__file__).parents[2] / "CITATION.cff"


def keys(text: str) -> list[str]:
    return re.findall(r"^@\w+\{(.*),$", text, re.M)


def test_the_methods_of_this_project_have_their_paper() -> None:
    listed = read_citations().uses["methods"]
    assert set(listed) == set(list_registered("method")) - {"none"}
    from harness.method import method_named

    for name, works in listed.items():
        title = read_citations().works[works[0]].title
        assert title in method_named(name).paper
        assert read_citations().works[works[0]].authors[0].split()[-1] in method_named(name).paper


def test_every_work_stands_for_something_and_its_facts_are_those_of_the_papers(
    papers_root: Path,
) -> None:
    """Authors, years and pages are found, near each other, in one of the papers' texts."""
    citations = read_citations()
    named = {key for group in citations.uses.values() for works in group.values() for key in works}
    assert set(citations.works) == named | {"harness"}
    texts = [
        re.sub(r"[\s*]+", " ", path.read_text("utf-8"))
        for path in (papers_root / "texts").glob("*.txt")
    ]
    for key in sorted(named - {"he-2025-dalr", "jian-2022-nonling", "nguyen-2024-kdmcse"}):
        work = citations.works[key]
        surnames = [name.split()[-1] for name in work.authors if name != "others"]
        start = work.title.lower()[:16].removeprefix("*sem").strip()
        near = [
            text[max(0, at.start() - 400) : at.end() + 500]
            for text in texts
            for at in re.finditer(re.escape(start), text, re.I)
        ]
        facts = [*surnames, str(work.year), work.pages.partition("--")[0]]
        assert any(all(fact in passage for fact in facts) for passage in near), key


def test_this_projects_entry_is_that_of_its_citation_file() -> None:
    told = yaml.safe_load(CFF.read_text("utf-8"))
    work = read_citations().works["harness"]
    assert (work.title, [name.strip("{}") for name in work.authors]) == (
        told["title"],
        [author["name"] for author in told["authors"]],
    )
    assert told["version"] == __version__
    assert f"note = {{version {__version__}}}" in make_entry("harness")


def test_a_run_cites_what_it_used_once() -> None:
    scores = {
        "sts": {"STS12": {"spearman": 1.0}, "Avg": {"spearman": 1.0}},
        "mteb": {"SICK-R": {"main_score": 1.0}},
    }
    runs = [
        result("mcse", seed, scores, setting="wiki+flickr", encoder="bert-base-uncased")
        for seed in range(2)
    ]
    text = make_bibtex(list_used(runs))
    assert keys(text) == [
        *(
            "harness",
            "zhang-2022-mcse",
            "devlin-2019-bert",
            "gao-2021-simcse",
            "young-2014-flickr30k",
        ),
        *("agirre-2012-sts", "muennighoff-2023-mteb"),
    ]
    assert text.count("% no known reference") == 1
    assert "% no known reference for the teacher toy-clip" in text
    for block in re.findall(r"^@.*?^\}", text, re.M | re.S):
        assert block.count("{") == block.count("}")


def test_what_is_unknown_is_named_with_what_its_method_says() -> None:
    mine = type("Mine", (Method,), {"paper": "Me, My method, 2026"})
    text = make_bibtex([Used("methods", "mine\nyours")], {"mine\nyours": mine})
    assert text.endswith("% no known reference for the method mine yours: Me, My method, 2026\n")
    assert keys(text) == ["harness"]
    mine.citation = """
        @misc{me-2026,
          title = {Mine},
        }
    """
    text = make_bibtex([Used("methods", "mine")], {"mine": mine})
    assert text.endswith("\n\n@misc{me-2026,\n  title = {Mine},\n}\n")


def test_the_command_reads_results_or_names(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for saved in (result("mcse"), result("simcse", profile="small", encoder="roberta-base")):
        store.save(saved)

    def cited(*words: str, folder: str = "results") -> list[str]:
        done = CliRunner().invoke(
            cli, ["cite", "--results", str(tmp_path / folder), *words], catch_exceptions=False
        )
        return keys(done.stdout)

    assert cited() == ["harness", "gao-2021-simcse", "liu-2019-roberta", "zhang-2022-mcse"]
    assert cited("--profile", "tiny") == ["harness", "zhang-2022-mcse"]
    assert cited("--methods", "simcse") == ["harness", "gao-2021-simcse", "liu-2019-roberta"]
    assert cited("--methods", "dalr", folder="none") == ["harness", "he-2025-dalr"]
    with pytest.raises(
        UserError, match=r"has no results; run `harness run .*` first, or give --methods"
    ):
        cited(folder="none")
