"""The model card: front matter that huggingface_hub reads back, and a body that hostile texts
cannot break.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import yaml
from builders import result, sts
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from harness.runs.export import ModelFacts, make_display_name, make_model_card
from harness.store import Result

FACTS = ModelFacts("cls", modules=True, width=64, longest=512, encoder="toy-bert", setting="a toy")
HOSTILE = 'x | y\n---\n# <script>alert(1)</script> `a` [b](http://c.example) {{ 1 }} *d* : "e" #'


def made(variant: str = "mcse@official", seed: int = 0, **given: Any) -> Result:
    values = {
        "method": {"temperature": 0.05, "without": ""} | given.pop("method", {}),
        "training": {"steps": 400, "compile": False},
        "encoder": {"pooling": "cls"},
    }
    return result(
        variant,
        seed,
        given.pop("scores", sts(STS12=70.0 + seed, STS13=60.0)),
        hyperparameters=values,
        **given,
    )


def test_the_front_matter_is_read_back_and_the_body_has_licence_and_bibtex() -> None:
    run, base = made(), "google-bert/bert-base-uncased"
    facts = ModelFacts(
        "cls", True, 64, 512, "BERT", base_model=base, language="en", licence="apache-2.0"
    )
    card = ModelCard(make_model_card(run, facts, [run]))
    data = card.data
    assert (data.base_model, data.language, data.license) == (base, "en", "apache-2.0")
    assert data.library_name == "sentence-transformers"
    assert {"sentence-transformers", "feature-extraction", "sentence-similarity", "mcse"} == set(
        data.tags
    )
    assert data.pipeline_tag == "sentence-similarity"
    read = {
        (entry.dataset_name, entry.metric_type, entry.metric_value) for entry in data.eval_results
    }
    assert read == {("STS12", "spearman", 70.0), ("STS13", "spearman", 60.0)}, (
        "averages are no data set"
    )
    assert data.model_name == make_display_name(run)
    again = ModelCard(str(card))
    assert (again.data.to_dict(), again.text) == (data.to_dict(), card.text)
    assert "states the licence apache-2.0" in card.text
    assert "\n# toy-bert trained by mcse@official on toy, seed 0\n" in card.content
    (block,) = re.findall(r"```bibtex\n(.*?)```", card.text, re.S)
    assert block.startswith("@inproceedings{zhang-2022-mcse,")
    assert "author = {Miaoran Zhang and Marius Mosbach" in block


def test_unknown_facts_are_left_out() -> None:
    run = made(
        "none[pooling=mean]", scores={"geometry": {"STS12": {"uniformity": -1.0, "alignment": 0.5}}}
    )
    facts = ModelFacts("avg-first-last", modules=False, width=64, longest=64, encoder="toy-bert")
    text = make_model_card(run, facts, [run])
    names = set(yaml.safe_load(text.split("---")[1]))
    assert names == {"license", "library_name", "pipeline_tag", "pooling", "tags"}
    assert "sentence-transformers" not in ModelCard(text).data.tags
    assert "The licence of toy-bert is not known here" in text
    assert not [word for word in ("bibtex", "Loss terms", "## Data") if word in text]
    assert "Smaller is better for alignment, uniformity." in text, "as their suite says"
    assert "| geometry | STS12 | uniformity | -1.000 | -1.000 | 1 |" in text


def test_scores_are_shown_with_mean_and_deviation() -> None:
    runs = [*(made(seed=seed) for seed in range(2)), made(seed=2, scores=sts(STS12=72.0))]
    text = make_model_card(runs[1], FACTS, runs)
    assert (
        f"| sts | STS12 | spearman | 71.00 | 71.00 ± {np.std([70, 71, 72], ddof=1):.2f} | 3 |"
        in text
    )
    assert "| sts | STS13 | spearman | 60.00 | 60.00 ± 0.00 | 2 |" in text, (
        "one seed was not scored on it"
    )
    alone = make_model_card(runs[0], FACTS, runs[:1])
    assert "| sts | STS12 | spearman | 70.00 | 70.00 | 1 |" in alone
    assert "(1 seed)" in alone
    assert "Smaller is better" not in alone
    text = make_model_card(
        made(scores=sts(STS12=70.0)), FACTS, [made(scores=sts(STS12=70.0)), made(seed=1)]
    )
    assert "| sts | STS13 | spearman | – | 60.00 | 1 |" in text
    assert [entry.dataset_name for entry in ModelCard(text).data.eval_results] == ["STS12"]


def test_the_method_is_described_with_what_was_left_out() -> None:
    run = made(method={"without": "info"})
    text = make_model_card(run, FACTS, [run])
    assert "Zhang et al., MCSE" in text
    assert "Loss terms: text; left out: info." in text
    assert "Reading official: the public code: the two views" in text
    assert "| training | compile | false |" in text
    assert re.search(r"No licence is granted.*inherit their terms", text, re.S)
    assert run.fingerprint in text


@pytest.mark.parametrize("pooling", ["cls", "pooler", "mean", "avg-first-last"])
def test_each_pooling_has_lines_that_compile(pooling: str) -> None:
    run = made()
    text = make_model_card(
        run, ModelFacts(pooling, pooling != "avg-first-last", 64, 77, "toy-bert"), [run]
    )
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == (1 if pooling == "avg-first-last" else 2)
    for block in blocks:
        compile(block, "card", "exec")
    assert "max_length=77" in blocks[-1]


def test_hostile_texts_stay_texts() -> None:
    run = made(
        profile=HOSTILE,
        overrides={"steps": HOSTILE},
        warnings=[HOSTILE],
        revision=HOSTILE,
        packages={"torch": HOSTILE},
        hardware={"processor": HOSTILE},
        method={"images": HOSTILE},
        scores={"sts": {HOSTILE: {"spearman": 1.0}}},
    )
    run = run.model_copy(update={"dev": run.dev.model_copy(update={"task": HOSTILE})})
    one_of = {HOSTILE: HOSTILE}
    facts = ModelFacts("cls", True, 64, 64, HOSTILE, HOSTILE, None, HOSTILE, one_of, one_of)
    text = make_model_card(run, facts, [run])
    data = ModelCard(text).data
    assert data.base_model == HOSTILE
    assert data.model_name == make_display_name(run)
    assert data.eval_results[0].dataset_name == HOSTILE
    render = MarkdownIt("commonmark", {"html": True}).enable("table").render
    shown = render(text.split("\n---\n", 1)[1])
    plain = made()
    calm = ModelFacts("cls", True, 64, 64, "a", "b", None, "c", {"d": "e"}, {"f": "g"})
    expected = render(make_model_card(plain, calm, [plain]).split("\n---\n", 1)[1])

    def tags(page: str, *names: str) -> list[int]:
        return [page.count(f"<{name}>") + page.count(f"<{name} ") for name in names]

    assert tags(shown, "script", "a", "em", "hr") == [0, 0, 0, 0]
    assert tags(shown, "h1", "h2", "table", "code") == tags(expected, "h1", "h2", "table", "code")
    for table in re.findall(r"<table>.*?</table>", shown, re.S):
        rows = [
            len(re.findall(r"<t[dh][ >]", row)) for row in re.findall(r"<tr>.*?</tr>", table, re.S)
        ]
        assert len(set(rows)) == 1, "a cell ended early"
    assert shown.count("alert(1)") >= 12
