from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from cases import mark_others_long
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from torch import nn

from harness.evaluation import transfer
from harness.evaluation.probes import L2, MODES, Mode, Split, lbfgs, senteval, split_into_folds
from harness.evaluation.probes.lbfgs import LBFGSProbe
from harness.evaluation.probes.senteval import SentEvalProbe

CPU = torch.device("cpu")
SHORT = {
    "adam": Mode(folds=3, optimizer="adam", batch=16, tenacity=2, passes=3),
    "rmsprop": Mode(folds=3, optimizer="rmsprop", batch=16, tenacity=4, passes=1),
}


def made(n: int, width: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features in float64 whose classes overlap."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    means = random.standard_normal((classes, width))
    return 0.6 * means[labels] + random.standard_normal((n, width)), labels


def one_at_a_time(
    x: np.ndarray, labels: np.ndarray, split: Split, l2: float, mode: Mode, last: int = 200
) -> tuple[np.ndarray, float, int]:
    """The published algorithm with PyTorch's own layer, loss and optimizers, for one split and one
    l2 weight.

    Returns weights (C, d + 1), dev accuracy and passes.
    """
    random = np.random.RandomState(1111)
    random.permutation(split.drawn)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1111)
        layer = nn.Linear(x.shape[1], labels.max() + 1).double()
    made_by = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[mode.optimizer]
    optimizer = made_by(layer.parameters(), weight_decay=l2)
    features, classes = torch.from_numpy(x), torch.from_numpy(labels)
    best, kept, failures, passes, stopped = -1.0, layer, 0, 0, False
    while not stopped and passes <= last:
        for _ in range(mode.passes):
            order = split.train[random.permutation(len(split.train))]
            for start in range(0, len(order), mode.batch):
                rows = order[start : start + mode.batch]
                loss = nn.functional.cross_entropy(layer(features[rows]), classes[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        passes += mode.passes
        with torch.no_grad():
            accuracy = (
                (layer(features[split.dev]).argmax(1) == classes[split.dev]).double().mean().item()
            )
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(layer)
        else:
            stopped = failures >= mode.tenacity
            failures += 1
    weights = torch.cat([kept.weight, kept.bias.unsqueeze(1)], dim=1).detach().numpy()
    return weights, best, passes


def check(
    x: np.ndarray, labels: np.ndarray, splits: list[Split], l2: np.ndarray, mode: Mode
) -> list[int]:
    """Classifiers trained together are those trained one at a time, of which the passes are
    returned.
    """
    together = SentEvalProbe(mode, CPU).fit(x, labels, splits, l2)
    passes = []
    for split, weights, accuracies, decays in zip(
        splits, together.weights, together.dev, l2, strict=True
    ):
        for weight, accuracy, decay in zip(weights, accuracies, decays, strict=True):
            expected, best, count = one_at_a_time(x, labels, split, float(decay), mode)
            np.testing.assert_allclose(weight, expected, atol=1e-6)
            assert accuracy == best
            passes.append(count)
    return passes


@pytest.mark.parametrize("mode", SHORT.values(), ids=SHORT)
@pytest.mark.parametrize("classes", mark_others_long([2, 5], [5]))
def test_classifiers_trained_together_equal_those_trained_one_at_a_time(
    mode: Mode, classes: int
) -> None:
    x, labels = made(103, 6, classes)
    splits = split_into_folds(np.arange(len(x)), labels, 3)
    passes = check(x, labels, splits, np.tile([1e-5, 1e-2, 0.3], (len(splits), 1)), mode)
    assert len({len(split.train) for split in splits}) > 1, (
        "splits of several sizes have batches of their own"
    )
    assert len(set(passes)) > 1, "some stop earlier than others"


def test_refits_hold_rows_out_and_go_on_with_the_same_random_numbers() -> None:
    """Splits that are trained together may have dev rows of different numbers."""
    x, labels = made(101, 4, 2)
    probe = SentEvalProbe(SHORT["adam"], CPU)
    refits = [probe.split_for_refit(np.arange(start, 100 + start)) for start in (0, 1)]
    splits = [Split(np.arange(95), np.arange(95, 101)), *refits]
    assert len({len(split.train) for split in splits}) == 1
    check(x, labels, splits, np.array([[1e-4], [1e-4], [1e-2]]), SHORT["adam"])
    splits = [Split(np.arange(40), np.arange(40, 70)), Split(np.arange(30, 70), np.arange(7))]
    check(*made(70, 4, 2), splits, np.full((2, 2), 1e-3), SHORT["rmsprop"])


@pytest.mark.parametrize("mode", SHORT.values(), ids=SHORT)
@pytest.mark.parametrize("chunk", mark_others_long([3, 8], [3]))
def test_splits_may_stop_in_any_order(
    monkeypatch: pytest.MonkeyPatch, mode: Mode, chunk: int
) -> None:
    monkeypatch.setattr(senteval, "CHUNK", chunk)
    x, labels = made(96, 4, 3)
    passes = check(
        x, labels, split_into_folds(np.arange(len(x)), labels, 8), np.full((8, 1), 1e-3), mode
    )
    assert passes != sorted(passes), "an earlier split goes on when a later one stops"
    assert passes != sorted(passes, reverse=True), "a later split goes on when an earlier one stops"


@pytest.mark.long
def test_the_last_block_begins_after_pass_200() -> None:
    """Classes far from zero are learnt slowly, so the last block is still the best."""
    labels, split = np.arange(60) % 2, Split(*np.split(np.arange(60), 2))
    x = np.random.default_rng(0).standard_normal((60, 1)) + 3 * labels[:, None] + 4
    mode = Mode(folds=2, optimizer="adam", batch=8, tenacity=1000, passes=200)
    assert check(x, labels, [split], np.array([[1e-4]]), mode) == [400]
    accuracies, passes = zip(
        *(one_at_a_time(x, labels, split, 1e-4, mode, last)[1:] for last in (199, 200)), strict=True
    )
    assert passes == (200, 400)
    assert accuracies[0] < accuracies[1]


def test_a_probe_is_made_by_its_name() -> None:
    made = {name: type(transfer.make_probe(name, SHORT["adam"], "cpu")) for name in transfer.PROBES}
    assert made == {"senteval": SentEvalProbe, "lbfgs": LBFGSProbe}


def test_the_modes_are_the_published_ones() -> None:
    assert MODES["dev"] == MODES["fast"] == Mode(5, "rmsprop", 128, 3, 2)
    assert MODES["full"] == Mode(10, "adam", 64, 5, 4)
    assert L2 == (1e-5, 1e-4, 1e-3, 1e-2)


def test_no_global_generator_is_touched() -> None:
    x, labels = made(40, 3, 2)
    splits, l2 = split_into_folds(np.arange(40), labels, 4), np.full((4, 1), 1e-3)
    before, kept = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    for probe in (SentEvalProbe(SHORT["adam"], CPU), LBFGSProbe(4, CPU)):
        probe.fit(x.astype(np.float32), labels, splits, l2)
        probe.split_for_refit(np.arange(40))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], kept)  # noqa: NPY002


def test_folds_and_held_out_rows_are_the_published_ones() -> None:
    rows, labels = np.arange(100, 203), np.repeat([0, 1, 2], [60, 30, 13])
    splits = split_into_folds(rows, labels, 5)
    published = StratifiedKFold(n_splits=5, shuffle=True, random_state=1111).split(rows, labels)
    for split, (train, dev) in zip(splits, published, strict=True):
        np.testing.assert_array_equal(split.train, rows[train])
        np.testing.assert_array_equal(split.dev, rows[dev])
    rows = np.arange(50, 129)
    split, order = (
        SentEvalProbe(SHORT["adam"], CPU).split_for_refit(rows),
        rows[np.random.RandomState(1111).permutation(79)],
    )
    np.testing.assert_array_equal(split.dev, order[:3])
    np.testing.assert_array_equal(split.train, order[3:])
    assert split.drawn == 79


@pytest.mark.parametrize("classes", [2, 4])
def test_the_optimum_is_that_of_scikit_learn(classes: int) -> None:
    x, labels = made(200, 5, classes, seed=1)
    splits = split_into_folds(np.arange(200), labels, 2)
    l2 = np.array([[1e-3, 1e-1], [1e-2, 1e-4]])
    fitted = LBFGSProbe(2, CPU).fit(x.astype(np.float32), labels, splits, l2)
    rows = np.c_[x.astype(np.float32), np.ones(200)]
    for number, column in np.ndindex(2, 2):
        split = splits[number]
        # two classes: its one row of weights u stands for -u/2 and u/2, which weigh half as much
        scale = l2[number, column] * len(split.train) * (0.5 if classes == 2 else 1)
        model = LogisticRegression(C=1 / scale, fit_intercept=False, tol=1e-10, max_iter=10_000)
        model.fit(rows[split.train], labels[split.train])
        expected = np.r_[-model.coef_ / 2, model.coef_ / 2] if classes == 2 else model.coef_
        np.testing.assert_allclose(fitted.weights[number, column], expected, atol=1e-4)
        assert fitted.dev[number, column] == pytest.approx(
            model.score(rows[split.dev], labels[split.dev])
        )


def test_refits_at_the_optimum_use_all_rows_and_have_no_dev_accuracy() -> None:
    x, labels = made(30, 3, 2)
    split = LBFGSProbe(2, CPU).split_for_refit(np.arange(30))
    fitted = LBFGSProbe(2, CPU).fit(x, labels, [split], np.array([[1e-2]]))
    assert len(split.train) == 30
    assert np.isnan(fitted.dev).all()
    assert (fitted.predict(0, 0, x) == labels).mean() > 0.7


def test_solving_in_parts_changes_nothing_and_what_does_not_reach_its_optimum_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    x, labels = made(60, 4, 2)
    splits, l2 = split_into_folds(np.arange(60), labels, 4), np.tile([1e-3, 1e-2], (4, 1))
    whole = LBFGSProbe(4, CPU).fit(x, labels, splits, l2)
    monkeypatch.setattr(lbfgs, "CELLS", 1)
    parts = LBFGSProbe(4, CPU).fit(x, labels, splits, l2)
    np.testing.assert_allclose(parts.weights, whole.weights, atol=1e-5)
    np.testing.assert_array_equal(parts.dev, whole.dev)
    assert not caplog.text
    monkeypatch.setattr(lbfgs, "MOST", 2)
    LBFGSProbe(4, CPU).fit(x, labels, splits[:1], np.array([[1e-4]]))
    assert "1 of 1 regressions" in caplog.text


def test_the_curvature_given_is_at_least_that_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked at zero, where a softmax is steepest, with penalties from none to more than the rows'
    own.
    """
    x, labels = made(30, 3, 2)
    bounds, penalties = [], [0.0, 1e-2, 3.0]

    def noted(
        objective: lbfgs.Objective, start: torch.Tensor, curvature: torch.Tensor, _: torch.Tensor
    ) -> tuple:
        def loss(point: torch.Tensor) -> torch.Tensor:
            return objective(point.unsqueeze(0), which)[0].sum()

        for number, bound in enumerate(curvature):
            which = torch.tensor([number])
            bounds.append(
                (bound, torch.autograd.functional.hessian(loss, start[number]).diagonal())
            )
        return start, 0

    monkeypatch.setattr(lbfgs, "minimise", noted)
    LBFGSProbe(2, CPU).fit(x, labels, [Split(np.arange(30), np.arange(0))], np.array([penalties]))
    assert len(bounds) == len(penalties)
    for bound, curvature in bounds:
        assert ((curvature <= bound + 1e-9) & (bound < 3 * curvature + 1e-9)).all()


def test_losses_of_problems_solved_together_are_each_ones_own_and_so_are_their_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mean cross-entropy of the rows, plus half the penalty times the squared weights."""
    x, labels = made(12, 3, 3)
    penalties = [0.1, 1.0]
    looked: list[lbfgs.Objective] = []

    def look(
        objective: lbfgs.Objective, start: torch.Tensor, *given: torch.Tensor
    ) -> tuple[torch.Tensor, int]:
        looked.append(objective)
        return start, 0

    monkeypatch.setattr(lbfgs, "minimise", look)
    LBFGSProbe(3, CPU).fit(x, labels, [Split(np.arange(12), np.arange(0))], np.array([penalties]))
    points = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 3 * 4)))
    points.requires_grad_()
    losses, gradients = looked[0](points, torch.arange(2))

    rows = np.c_[x, np.ones(12)]
    _, basis = np.linalg.eigh(rows.T @ rows / 12)
    for point, penalty, loss in zip(points.tolist(), penalties, losses.tolist(), strict=True):
        weights = np.array(point).reshape(3, 4) @ basis.T
        expected = penalty / 2 * sum(weight**2 for weight in point)
        for row, label in zip(rows, labels, strict=True):
            logits = [float(row @ weight) for weight in weights]
            total = np.log(sum(np.exp(logit) for logit in logits))
            expected += (total - logits[label]) / 12
        assert loss == pytest.approx(expected)
    (exact,) = torch.autograd.grad(losses.sum(), points)
    torch.testing.assert_close(gradients, exact)


def test_separate_problems_are_minimised_together_even_where_a_step_is_too_long() -> None:
    """Quartics of very different scale, with curvature given ten times too small."""
    scales = torch.tensor([1.0, 100.0, 1e-2], dtype=torch.float64)
    targets = torch.tensor([[1.0, -2.0], [3.0, 0.5], [-1.0, 0.0]], dtype=torch.float64)

    def objective(points: torch.Tensor, which: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        away, scale = points - targets[which], scales[which]
        values = scale * (away.square().sum(1) / 2 + away.pow(4).sum(1))
        return values, scale.unsqueeze(1) * (away + 4 * away.pow(3))

    curvature = (scales.unsqueeze(1) / 10).expand(3, 2)
    points, unfinished = lbfgs.minimise(
        objective, torch.zeros(3, 2, dtype=torch.float64), curvature, scales * 1e-8
    )
    assert unfinished == 0
    torch.testing.assert_close(points, targets, atol=1e-7, rtol=0)


def test_far_fewer_evaluations_than_down_the_gradient_are_needed() -> None:
    """A chain of springs whose curvatures differ a thousandfold; the given diagonal is ten times
    too large.
    """
    springs = 2.002 * torch.eye(40, dtype=torch.float64)
    springs -= torch.diag(torch.ones(39, dtype=torch.float64), 1) + torch.diag(
        torch.ones(39, dtype=torch.float64), -1
    )
    target = torch.linspace(-1, 1, 40, dtype=torch.float64)
    evaluations = []

    def objective(points: torch.Tensor, which: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        evaluations.append(len(which))
        slopes = (points - target) @ springs
        return ((points - target) * slopes).sum(1) / 2, slopes

    start = torch.zeros(1, 40, dtype=torch.float64)
    points, unfinished = lbfgs.minimise(
        objective, start, torch.full_like(start, 20.0), torch.tensor([1e-9], dtype=torch.float64)
    )
    assert unfinished == 0
    assert len(evaluations) < 150
    torch.testing.assert_close(points[0], target, atol=1e-6, rtol=0)
