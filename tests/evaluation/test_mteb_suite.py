"""The suite of mteb tasks, with the toy tasks and an embedder of word counts."""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scripts import script

from harness import registry
from harness.encoders.sentence_modules import SentenceModules
from harness.errors import MissingData, UserError
from harness.evaluation.mteb_local import build, make_classification
from harness.evaluation.mteb_suite import MTEBSuite, OwnTasks, find_datasets_cache
from harness.evaluation.sts import STSSuite
from harness.evaluation.suites import Embedder, TaskScores
from harness.sources import digest
from harness.toy import student_folder
from harness.toy import tasks as toy

TOYS = [f"ToyMTEB-{kind}" for kind in ("STS", "Classification", "Retrieval", "Reranking")]


@pytest.fixture(autouse=True)
def _own_mteb_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb-home"))


def embed(sentences: Sequence[str]) -> np.ndarray:
    """A sum of one random vector a word."""
    known: dict[str, np.ndarray] = {}
    rows = np.zeros((len(sentences), 64), dtype=np.float32)
    for row, sentence in enumerate(sentences):
        for word in sentence.split():
            if word not in known:
                known[word] = np.random.default_rng(zlib.crc32(word.encode())).normal(size=64)
            rows[row] += known[word]
    return rows


MODEL = Embedder(embed)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_every_type_of_task_runs_with_no_hub() -> None:
    evaluation = MTEBSuite(TOYS).evaluate(MODEL, None)
    assert evaluation.warnings == []
    kinds = ["STS", "Classification", "Retrieval", "Reranking"]
    assert list(evaluation.scores) == [*TOYS, *(f"Avg[{kind}]" for kind in kinds), "Avg"]
    for task, kind in zip(TOYS, kinds, strict=True):
        assert 5 < evaluation.scores[task]["main_score"] < 95
        assert evaluation.scores[f"Avg[{kind}]"] == {
            "main_score": evaluation.scores[task]["main_score"]
        }
    mean = np.mean([evaluation.scores[task]["main_score"] for task in TOYS])
    assert evaluation.scores["Avg"] == {"main_score": pytest.approx(mean)}
    assert [evaluation.scores[task]["n"] for task in TOYS] == [1000, 400, 800, 800]
    json.dumps(evaluation.scores, allow_nan=False)


def test_retrieval_and_reranking_scores_are_those_of_a_plain_loop() -> None:
    """NDCG at 10 over the whole corpus, and mean average precision over the candidates."""
    data = toy.TOY_RERANKING.load(None)
    documents = list(data["corpus"])
    vectors = dict(zip(documents, unit(embed(list(data["corpus"].values()))), strict=True))
    gains, precisions = [], []
    for query, vector in zip(
        data["queries"], unit(embed(list(data["queries"].values()))), strict=True
    ):
        right = data["relevant"][query]
        ranked = sorted(documents, key=lambda name: -float(vectors[name] @ vector))
        gain = sum(1 / np.log2(rank + 2) for rank, name in enumerate(ranked[:10]) if name in right)
        gains.append(gain / sum(1 / np.log2(rank + 2) for rank in range(len(right))))
        among = [name in right for name in ranked if name in data["candidates"][query]]
        hits = [rank for rank, hit in enumerate(among) if hit]
        precisions.append(np.mean([(count + 1) / (rank + 1) for count, rank in enumerate(hits)]))
    scores = MTEBSuite(["ToyMTEB-Retrieval", "ToyMTEB-Reranking"]).evaluate(MODEL, None).scores
    # mteb rounds both to five decimals.
    assert scores["ToyMTEB-Retrieval"]["main_score"] == pytest.approx(
        100 * np.mean(gains), abs=1e-3
    )
    assert scores["ToyMTEB-Reranking"]["main_score"] == pytest.approx(
        100 * np.mean(precisions), abs=1e-3
    )


def test_the_benchmark_has_the_score_of_the_sts_suite(data_root: Path) -> None:
    ours = STSSuite(["STS-B"]).evaluate(MODEL, data_root).scores["STS-B"]
    theirs = MTEBSuite(["STSBenchmark-file"]).evaluate(MODEL, data_root).scores["STSBenchmark-file"]
    assert theirs["main_score"] == pytest.approx(ours["spearman"], abs=1e-3)
    assert theirs["n"] == ours["n"]


def test_means_are_by_type_and_over_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "ToyMTEB-STS": 10.0,
        "ToyMTEB-Retrieval": 30.0,
        "ToyMTEB-Reranking": 50.0,
        "Second": 20.0,
    }
    scored = {name: TaskScores({"main_score": value, "n": 1}) for name, value in values.items()}
    monkeypatch.setattr(
        "harness.evaluation.mteb_suite._score_task",
        lambda model, task, cache: scored[task.metadata.name],
    )
    second = copy.copy(toy.TOY_STS_TASK)
    second.name = "Second"
    suite = MTEBSuite(list(values)[:3])
    suite._tasks["Second"] = second
    scores = suite.evaluate(MODEL, None).scores
    means = {name: row["main_score"] for name, row in scores.items() if name.startswith("Avg")}
    assert means == {"Avg[STS]": 15, "Avg[Retrieval]": 30, "Avg[Reranking]": 50, "Avg": 27.5}


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_a_constant_model_has_no_similarity_score_but_a_warning(tmp_path: Path) -> None:
    calls: list[int] = []

    def constant(texts: Sequence[str]) -> np.ndarray:
        calls.append(len(texts))
        return np.ones((len(texts), 3), np.float32)

    for asked in (True, False):
        calls.clear()
        evaluation = MTEBSuite(["ToyMTEB-STS"]).evaluate(
            Embedder(constant, keep=tmp_path / "run"), None
        )
        assert evaluation.scores == {"ToyMTEB-STS": {"n": 1000}, "Avg[STS]": {}, "Avg": {}}
        assert evaluation.warnings == ["mteb: ToyMTEB-STS: no score: undefined"]
        assert bool(calls) == asked


def test_results_are_kept_in_mtebs_own_layout_and_not_computed_again(tmp_path: Path) -> None:
    import mteb

    suite = MTEBSuite(["ToyMTEB-STS"])
    first = suite.evaluate(Embedder(embed, keep=tmp_path / "run"), None)
    again = Embedder(lambda texts: pytest.fail("embedded again"), keep=tmp_path / "run")
    assert suite.evaluate(again, None) == first
    folder = tmp_path / "run" / "mteb" / suite.fingerprint(None)[:12]
    cache = mteb.ResultCache(folder)
    kept = cache.load_task_result("ToyMTEB-STS", "harness/run", "1")
    assert 100 * kept.get_score() == first.scores["ToyMTEB-STS"]["main_score"]


def test_the_fingerprint_follows_the_data_the_settings_and_mteb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.tsv").write_text("label\ttext\n0\ta\n")
    eight, nine = (make_classification("x", "x.tsv", "x.tsv", samples=count) for count in (8, 9))
    assert eight.fingerprint(tmp_path) != nine.fingerprint(tmp_path)
    first, again, other = (
        MTEBSuite([f"ToyMTEB-{kind}"]).fingerprint(None) for kind in ("STS", "STS", "Retrieval")
    )
    assert first == again != other
    monkeypatch.setattr("harness.evaluation.mteb_suite.version", lambda name: "0")
    assert MTEBSuite(["ToyMTEB-STS"]).fingerprint(None) != first


@pytest.mark.long
def test_the_groups_of_the_english_benchmark_are_mtebs_and_in_its_languages() -> None:
    """Two groups of DALR Table 5; the benchmark's paper counts their tasks."""
    for kind, size in (("Reranking", 4), ("STS", 10)):
        tasks = OwnTasks(f"MTEB(eng, v1):{kind}").build()
        assert [str(task.metadata.type) for task in tasks] == [kind] * size
    (of_benchmark,), (by_name,) = (
        OwnTasks(name).build() for name in ("MTEB(eng, v1):STS17", "STS17")
    )
    assert list(of_benchmark.hf_subsets) == ["en-en"]
    assert len(by_name.hf_subsets) > 5


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["SICKR"], "mteb task 'SICKR': .*Did you mean: 'SICK-R'"),
        (["MTEB(eng,v1):STS"], r"not found. Did you mean: MTEB\(eng, v1\)"),
        (["MTEB(eng, v1):Sts"], "has no type or task 'Sts'; its types are Classification, "),
        (["SICK-R", "MTEB(eng, v1):SICK-R"], "names SICK-R twice"),
    ],
)
def test_unknown_names_are_reported_with_the_nearest_and_repeated_ones(
    names: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        MTEBSuite(names).evaluate(MODEL, None)


def test_own_tasks_without_data_are_missing_with_the_command_that_fetches_them() -> None:
    *parts, last = MTEBSuite(["MTEB(eng, v1):CQADupstackRetrieval", "SICK-R"]).missing(None)
    assert len(parts) == 12
    assert str(last).startswith("cannot find the mteb task SICK-R; ")
    assert "python -c \"import mteb; mteb.get_task('SICK-R').load_data()\"" in str(last)
    with pytest.raises(MissingData, match="cannot find the mteb task SICK-R; "):
        MTEBSuite(["SICK-R"]).evaluate(MODEL, None)


@pytest.mark.parametrize("variable", ["HF_DATASETS_CACHE", "HF_HOME", "XDG_CACHE_HOME", None])
def test_the_cache_of_datasets_is_where_datasets_looks(
    variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import config

    for name in ("HF_DATASETS_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path))
    assert find_datasets_cache() == script(Path(config.__file__)).HF_DATASETS_CACHE, (
        "as the module is when imported now"
    )


def test_what_mteb_knows_is_kept_and_made_again_if_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mteb is asked once for each name and version; the kept answer is the same."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    tasks = OwnTasks("MTEB(eng, v1):STS")
    first, fingerprint = tasks.list_known(), tasks.fingerprint(None)
    built = tasks.build()
    expected = [
        [t.metadata.name, t.metadata.dataset, list(t.eval_splits), list(t.hf_subsets)]
        for t in built
    ]
    assert fingerprint == digest(expected)
    asked: list[str] = []
    monkeypatch.setattr(OwnTasks, "build", lambda self: asked.append(self.name) or built)
    assert (tasks.list_known(), tasks.fingerprint(None), asked) == (first, fingerprint, [])
    (note,) = (tmp_path / "mteb").iterdir()
    for damage in ("", "[{}]", "{}]", '["row"]', '[{"splits": [], "subsets": []}]'):
        note.write_text(damage)
        assert tasks.list_known() == first
    assert len(asked) == 5
    monkeypatch.setattr("harness.evaluation.mteb_suite.version", lambda name: "another")
    assert tasks.list_known() == first
    assert len(asked) == 6


def put(downloads: Path, name: str) -> None:
    """A data set of the hub as `datasets` leaves it after a download: the pairs of the toy task."""
    import datasets
    from datasets.arrow_writer import ArrowWriter

    (task,) = OwnTasks(name).build()
    owner, _, data = task.metadata.dataset["path"].partition("/")
    folder = (
        downloads / f"{owner}___{data}" / "default" / "0.0.0" / task.metadata.dataset["revision"]
    )
    folder.mkdir(parents=True)
    pairs = [
        {"sentence1": a, "sentence2": b, "score": gold}
        for a, b, gold in toy.TOY_STS_TASK.load(None)["pairs"]
    ]
    with ArrowWriter(path=str(folder / f"{data}-test.arrow")) as writer:
        for pair in pairs:
            writer.write(pair)
        count, size = writer.finalize()
    splits = datasets.SplitDict(
        {"test": datasets.SplitInfo("test", size, count, dataset_name=data)}, dataset_name=data
    )
    names = {
        "builder_name": "parquet",
        "dataset_name": data,
        "config_name": "default",
        "version": "0.0.0",
    }
    features = datasets.Dataset.from_list(pairs).features
    datasets.DatasetInfo(features=features, splits=splits, **names).write_to_directory(str(folder))


def test_own_tasks_in_the_local_cache_run_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A download that was cut short is reported."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    # `datasets` reads the variable on import alone
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    suite = MTEBSuite(["SICK-R"])
    assert len(suite.missing(None)) == 1
    put(tmp_path, "SICK-R")
    assert suite.missing(None) == []
    expected = MTEBSuite(["ToyMTEB-STS"]).evaluate(MODEL, None).scores["ToyMTEB-STS"]["main_score"]
    assert suite.evaluate(MODEL, None).scores["SICK-R"]["main_score"] == pytest.approx(
        expected, abs=1e-6
    )
    # queries and judgements of a retrieval task are data sets of their own; here its corpus alone
    # has come
    (task,) = OwnTasks("SciFact").build()
    (tmp_path / "mteb___scifact" / "corpus" / "0.0.0" / task.metadata.dataset["revision"]).mkdir(
        parents=True
    )
    cut = MTEBSuite(["SciFact"])
    assert len(cut.missing(None)) == 1
    with pytest.raises(
        MissingData, match=r"cannot find the mteb task SciFact; .*Couldn't find cache"
    ):
        cut.evaluate(MODEL, None)


def test_errors_of_the_embedder_are_not_taken_for_missing_data() -> None:
    broken = Embedder(
        lambda texts: np.where(np.arange(len(texts))[:, None] == 0, np.nan, embed(texts))
    )
    evaluation = MTEBSuite(["ToyMTEB-STS"]).evaluate(broken, None)
    assert "main_score" not in evaluation.scores["ToyMTEB-STS"]
    assert "mteb: ToyMTEB-STS: no score: 1 of the" in evaluation.warnings[0]
    with pytest.raises(UserError, match=r"the embedder returned shape \(1,\)"):
        MTEBSuite(["ToyMTEB-STS"]).evaluate(Embedder(lambda texts: np.ones(1)), None)


@pytest.mark.parametrize(
    ("prompts", "default"),
    [
        pytest.param(
            {"query": "the big red ", "passage": "a blue square "}, "query", marks=pytest.mark.long
        ),
        pytest.param(
            {"STS": "a ring of the ", "Retrieval-query": "the big ", "ToyMTEB-Retrieval": "a "},
            None,
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"query": "the big red ", "document": "a blue square "}, None, marks=pytest.mark.long
        ),
        pytest.param({"STS": "", "any": "the big red "}, "any", marks=pytest.mark.long),
        pytest.param({"any": "the big red "}, "any", marks=pytest.mark.long),
    ],
)
def test_scores_of_a_model_with_prompts_are_those_of_mteb(
    prompts: dict[str, str], default: str | None, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    modules = [Transformer(str(student_folder())), Pooling(64, "mean", include_prompt=False)]
    library = SentenceTransformer(
        modules=modules, device="cpu", prompts=prompts, default_prompt_name=default
    )
    library.save(str(tmp_path / "model"))
    check_scores(tmp_path / "model", library)


def check_scores(folder: Path, library: Any) -> None:
    """The scores of a folder are those of mteb with the model that was saved there."""
    import mteb
    from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper

    model = SentenceModules.load(folder)
    assert model.depends_on_task
    tasks = ["ToyMTEB-STS", "ToyMTEB-Retrieval"]
    ours = MTEBSuite(tasks).evaluate(Embedder(model.embed, library=model.model), None).scores
    for name in tasks:
        task = build(registry.get("mteb task", name), None)
        wrapped = SentenceTransformerEncoderWrapper(library)
        theirs = mteb.evaluate(
            wrapped, task, co2_tracker=False, cache=None, show_progress_bar=False
        )
        assert ours[name]["main_score"] == pytest.approx(
            100 * theirs.task_results[0].get_score(), abs=1e-3
        )


def test_a_router_embeds_queries_and_documents_as_mteb_calls_it(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router, StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(student_folder() / "tokenizer.json"))
    torch.manual_seed(0)
    routes = [StaticEmbedding(tokenizer, embedding_dim=16) for _ in range(2)]
    router = Router.for_query_document([routes[0]], [routes[1]])
    library = SentenceTransformer(modules=[router], device="cpu")
    library.save(str(tmp_path / "model"))
    check_scores(tmp_path / "model", library)
