"""The phrases of a batch: which they are, and their vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.corpora.base import Pairs, Phrases
from harness.corpora.tokens import Tokens, get_tokens
from harness.encoders.student import Student
from harness.errors import UserError
from harness.method import by_batches
from harness.profiles import Training
from harness.toy import student_folder
from harness.toy.corpora import ToyPairs
from harness.training.phrases import TokenPhrases
from harness.training.streams import Batches, Subset, TrainingData

CPU = torch.device("cpu")
OBJECTS = np.arange(24, dtype=np.float32).reshape(12, 2)
ROLES = frozenset({"object"})


@pytest.fixture(scope="module")
def student() -> Student:
    return Student.load(student_folder())


def corpus(captions: list[int]) -> tuple[Pairs, Phrases]:
    """Five captions of twelve words with regions 5, 4 ...; a phrase is word k of its caption."""
    text = "the plain red circle at the left by noon"
    starts = [0, 4, 10, 14, 21, 24]
    spans = [[start, start + 2] for start in starts[: len(captions)]]
    regions = np.arange(len(captions))[::-1]
    images = np.sort(np.array(captions, int))
    return Pairs([text] * 5), Phrases(np.array(captions, int), np.array(spans), regions, images)


def test_phrases_follow_their_captions_into_batches_and_over_corpora(student: Student) -> None:
    first = corpus([0, 0, 3])
    second = corpus([1, 4])
    found = TokenPhrases.find([first, second], student.tokenizer, 32, ROLES)
    batch = found.batch(np.array([6, 2, 0, 9]), CPU)
    assert batch.captions.tolist() == [0, 2, 2, 3]
    assert batch.spans[:, 0].tolist() == [1, 1, 2, 2], "after [CLS]"
    assert batch.regions.tolist() == [3 + 1, 2, 1, 3 + 0]
    assert found.find_regions(np.array([6, 2, 0, 9])).tolist() == batch.regions.tolist()
    assert len(found.batch(np.array([2]), CPU)) == 0
    short = TokenPhrases.find([first], student.tokenizer, 3, ROLES)
    assert (len(short.spans), short.cut) == (1, 2)
    noon = Phrases(np.array([0]), np.array([[8, 12]]), np.array([0]), np.array([0]))
    with pytest.raises(UserError, match="none of the 1 phrases lies within the first 3 tokens"):
        TokenPhrases.find([(Pairs(["the red noon"]), noon)], student.tokenizer, 3, ROLES)


def test_a_batch_has_the_features_of_the_regions_of_its_phrases(student: Student) -> None:
    """Also with a part of the rows, whose numbers stay those of the whole corpus."""
    toy = ToyPairs(size=6)
    phrases = TokenPhrases.find(
        [(toy.load(None), toy.load_phrases())], student.tokenizer, 32, ROLES
    )
    file = get_tokens("toy 6", lambda: toy.texts(None), student.tokenizer, 32)
    data = TrainingData(
        {"pairs": Tokens([file], 0)},
        {"image": OBJECTS[::2], "object": OBJECTS},
        subsets={"pairs": Subset(np.array([5, 1, 3]), False)},
        phrases=phrases,
    )
    training = Training(steps=3, batch_size=2)
    made = Batches(student, data, training, {}, seed=0, setting="toy", rule=by_batches)
    ((_, batch),) = made.take(0)
    _, rows = made.get_text_rows(0)
    assert set(rows) < {1, 3, 5}
    expected = [place for row in rows for place in (2 * row, 2 * row + 1)]
    np.testing.assert_array_equal(batch.features["object"], OBJECTS[expected])
    np.testing.assert_array_equal(batch.features["image"], OBJECTS[::2][rows])
    assert batch.phrases.captions.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("padded", [False, True])
def test_the_vector_of_a_phrase_is_the_mean_of_the_states_of_its_tokens(
    padded: bool, student: Student
) -> None:
    toy = ToyPairs(size=4)
    texts = [*toy.load(None).texts]
    found = TokenPhrases.find([(toy.load(None), toy.load_phrases())], student.tokenizer, 32, ROLES)
    rows = found.batch(np.arange(4), CPU)
    tokens = student.tokenize(texts, 32)
    given = dict(tokens) if padded else tokens
    with torch.random.fork_rng():
        torch.manual_seed(0)
        states = student.train().states(given, 2)
    vectors = rows.vectors(states)
    assert vectors.shape == (8, 2, student.width)
    for number, (caption, (start, end)) in enumerate(zip(rows.captions, rows.spans, strict=True)):
        for view in range(2):
            own = [states[caption, view, place] for place in range(start, end)]
            torch.testing.assert_close(vectors[number, view], sum(own) / len(own))
    words = student.tokenizer.convert_ids_to_tokens(tokens["input_ids"][0].tolist())
    start, end = rows.spans[0].tolist()
    span = toy.load_phrases().spans[0]
    assert " ".join(words[start:end]) == texts[0][span[0] : span[1]]
