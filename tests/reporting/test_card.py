"""The model card: front matter that huggingface_hub reads back, and a body that hostile texts cannot break."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from builders import frame
from builders import result as fake
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from harness.reporting.card import About, Part, model_card

ABOUT = About("cls", modules=True, width=64, longest=512, encoder="toy-bert", setting="a toy")
HOSTILE = 'x | y\n---\n# <script>alert(1)</script> `a` [b](http://c.example) {{ 1 }} *d* : "e" #'


def sts(*values: float) -> dict[str, dict[str, dict[str, float]]]:
    tasks = {f"STS{12 + number}": {"spearman": value} for number, value in enumerate(values)}
    return {"sts": {**tasks, "Avg": {"spearman": float(np.mean(values))}}}


def made(variant: str = "mcse@official", seed: int = 0, **given: Any) -> SimpleNamespace:
    one = fake(variant, seed, given.pop("scores", sts(70.0 + seed, 60.0)), **given)
    one.spec.method = variant.partition("@")[0].partition("[")[0]
    one.training_fingerprint = "f" * 64
    one.hyperparameters = {
        "method": {"temperature": 0.05, "without": ""},
        "training": {"steps": 400, "compile": False},
        "teachers": {},
        "encoder": {"pooling": "cls"},
    }
    return one


def body(text: str) -> str:
    return text.split("\n---\n", 1)[1]


def test_the_front_matter_is_read_back() -> None:
    one = made()
    about = About("cls", True, 64, 512, "BERT", base_model="google-bert/bert-base-uncased", language="en")
    card = ModelCard(model_card(one, about, frame([one])))
    data = card.data
    assert data.base_model == "google-bert/bert-base-uncased"
    assert (data.language, data.license, data.library_name) == ("en", "unknown", "sentence-transformers")
    assert {"sentence-transformers", "feature-extraction", "sentence-similarity", "mcse"} == set(data.tags)
    assert data.pipeline_tag == "sentence-similarity"
    read = {(entry.dataset_name, entry.metric_type, entry.metric_value) for entry in data.eval_results}
    assert read == {("STS12", "spearmanr", 70.0), ("STS13", "spearmanr", 60.0)}, "averages are no data set"
    assert data.model_name == one.spec.key
    again = ModelCard(str(card))
    assert again.data.to_dict() == data.to_dict()
    assert again.text == card.text


def test_what_is_not_known_is_not_claimed() -> None:
    one = made("none[pooling=mean]", scores={"geometry": {"STS12": {"uniformity": -1.0, "alignment": 0.5}}})
    about = About("avg-first-last", modules=False, width=64, longest=64, encoder="toy-bert")
    text = model_card(one, about, frame([one]))
    names = set(yaml.safe_load(text.split("---")[1]))
    assert names == {"license", "library_name", "pipeline_tag", "tags"}
    assert "sentence-transformers" not in ModelCard(text).data.tags
    assert "Loss terms" not in text
    assert "## Data" not in text


def test_scores_stand_beside_their_mean_and_deviation() -> None:
    runs = [made(seed=seed) for seed in range(3)]
    runs[2].scores = sts(72.0)
    text = model_card(runs[1], ABOUT, frame(runs))
    assert f"| sts | STS12 | spearman | 71.00 | 71.00 ± {np.std([70, 71, 72], ddof=1):.2f} | 3 |" in text
    assert "| sts | STS13 | spearman | 60.00 | 60.00 ± 0.00 | 2 |" in text, "one seed was not scored on it"
    alone = model_card(runs[0], ABOUT, frame(runs[:1]))
    assert "| sts | STS12 | spearman | 70.00 | 70.00 | 1 |" in alone
    assert "(1 seed)" in alone


def test_a_score_that_this_run_lacks_is_no_number() -> None:
    runs = [made(seed=0, scores=sts(70.0)), made(seed=1)]
    text = model_card(runs[0], ABOUT, frame(runs))
    assert "| sts | STS13 | spearman | – | 60.00 | 1 |" in text
    assert [entry.dataset_name for entry in ModelCard(text).data.eval_results] == ["STS12"]


def test_the_method_is_told_with_what_was_left_out() -> None:
    one = made()
    one.hyperparameters["method"]["without"] = "info"
    text = model_card(one, ABOUT, frame([one]))
    assert "Zhang et al., MCSE" in text
    assert "Loss terms: text; left out: info." in text
    assert "Reading official: the public code: the two views" in text
    assert "| training | compile | false |" in text
    assert re.search(r"No licence is granted.*inherit their terms", text, re.S)
    assert one.fingerprint in text


@pytest.mark.parametrize("pooling", ["cls", "pooler", "mean", "avg-first-last"])
def test_each_pooling_has_lines_that_compile(pooling: str) -> None:
    one = made()
    text = model_card(one, About(pooling, pooling != "avg-first-last", 64, 77, "toy-bert"), frame([one]))
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == (1 if pooling == "avg-first-last" else 2)
    for block in blocks:
        compile(block, "card", "exec")
    assert "max_length=77" in blocks[-1]


def test_hostile_texts_stay_texts() -> None:
    one = made(profile=HOSTILE, encoder=HOSTILE, setting=HOSTILE, overrides={"steps": HOSTILE})
    one.warnings, one.revision = [HOSTILE], HOSTILE
    one.packages, one.hardware = {"torch": HOSTILE}, {"processor": HOSTILE}
    one.dev.task = HOSTILE
    one.hyperparameters["method"]["images"] = HOSTILE
    one.scores = {"sts": {HOSTILE: {"spearman": 1.0}}}
    part = Part(HOSTILE, HOSTILE)
    about = About("cls", True, 64, 64, HOSTILE, HOSTILE, None, HOSTILE, (part,), (part,))
    text = model_card(one, about, frame([one]))
    data = ModelCard(text).data
    assert data.base_model == HOSTILE
    assert data.model_name == one.spec.key
    assert data.eval_results[0].dataset_name == HOSTILE
    shown = MarkdownIt("commonmark", {"html": True}).enable("table").render(body(text))
    plain = made()
    calm = About("cls", True, 64, 64, "a", "b", None, "c", (Part("d", "e"),), (Part("f", "g"),))
    expected = (
        MarkdownIt("commonmark", {"html": True}).enable("table").render(body(model_card(plain, calm, frame([plain]))))
    )

    def tags(page: str, *names: str) -> list[int]:
        return [page.count(f"<{name}>") + page.count(f"<{name} ") for name in names]

    assert tags(shown, "script", "a", "em", "hr") == [0, 0, 0, 0]
    assert tags(shown, "h1", "h2", "table", "code") == tags(expected, "h1", "h2", "table", "code")
    for table in re.findall(r"<table>.*?</table>", shown, re.S):
        rows = [len(re.findall(r"<t[dh][ >]", row)) for row in re.findall(r"<tr>.*?</tr>", table, re.S)]
        assert len(set(rows)) == 1, "a cell ended early"
    assert shown.count("alert(1)") >= 12
