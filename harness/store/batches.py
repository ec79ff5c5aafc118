"""Which runs share their batches, from what their results record and never from their scores.

`harness.training.streams` makes the batches; their order is seeded by seed and setting.
"""

from __future__ import annotations

from harness.sources import digest
from harness.store.schema import Result

#: the mixing rule of this project's methods without such a hyperparameter
#: (`harness.method.Method.mixing`)
_DEFAULT = "floor"


def batches_of(result: Result) -> str:
    """A digest of all that decides a run's batches but the seed; empty where its result does not
    record that.

    Two runs with one digest and one seed read the same rows at each step. Without an identity, as
    in older results, the captions that were asked for stand for the content of the corpora; without
    its mixing, the code of another package's method stands for its rule.
    """
    method = result.hyperparameters.get("method", {})
    training = result.hyperparameters.get("training", {})
    if training.get("steps"):
        length = "steps"
    elif training.get("epochs"):
        length = "epochs"
    else:
        return ""

    if "batch_size" not in training:
        return ""

    corpora = result.identity.get("corpora")
    content = corpora or method.get("captions", "setting")
    rows = [content, str(result.spec.setting), result.backend]
    steps = [training["batch_size"], length, training[length]]
    if isinstance(corpora, list) and len(corpora) == 1:  # nothing is mixed
        return digest(rows, steps)

    rule = method.get("mixing", _DEFAULT)
    foreign_code = None
    code = result.identity.get("code")
    if isinstance(code, dict):
        foreign_code = code.get(f"method {result.spec.variant.name}")
    if foreign_code is not None and result.mixing is not None:
        foreign_code = None
        rule = _DEFAULT
        if not result.mixing.common:
            rule = [result.mixing.cycle, result.mixing.place]

    sizes = {key: value for key, value in method.items() if key.endswith("_batch_size")}
    return digest(rows, steps, rule, foreign_code, sizes)
