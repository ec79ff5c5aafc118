"""The gradient of a batch, computed in pieces if the batch does not fit in memory, and the update.

In pieces (GradCache, Gao et al. 2021), a first pass encodes each piece without a graph, so that the
loss sees the vectors of all rows. The backward pass encodes each piece again, under the same
dropout masks, and propagates the gradient of its vectors to the parameters.

AdamW is that of the papers' public code, from transformers 3 and 4, which differs from torch's in
two ways.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from harness.encoders.rows import TokenRows
from harness.method import Encode, OwnSteps
from harness.profiles import Training

#: one of the two calls of an `Encode`
Passes = Callable[..., Tensor]
#: decay rates of AdamW's moments
BETA1 = 0.9
BETA2 = 0.999


class Stepper:
    """AdamW over all trainable parameters; parameters that its losses never reach are not changed.

    The main stepper follows the profile's training table. The stepper of a stream with its own
    steps (`own`) has that stream's rate, decay and schedule, and the rest of the table. Each
    stepper has its own moments, so that it never changes parameters that only the other's losses
    reach.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        training: Training,
        steps: int,
        device: torch.device,
        own: OwnSteps | None,
    ) -> None:
        self.training = training
        self.steps = steps
        self.own = own

        decay = training.weight_decay if own is None else own.weight_decay
        moving = training.unreached == "momentum"
        self.optimizer = AdamW(
            make_groups(modules, decay), epsilon=training.adam_epsilon, moving=moving
        )
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]

        self.scaler = torch.amp.GradScaler(device.type, enabled=training.precision == "fp16")

    def step(self, loss: Tensor, number: int) -> None:
        """Update the parameters by the gradients of a loss; `number` is the step, from 0."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.get_rate(number)

        torch.autograd.backward(self.scaler.scale(loss))
        self.scaler.unscale_(self.optimizer)

        # keeps the Python objects of the gradients to the end of the step, or torch would make each
        # one several times
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        clip_gradients(gradients, self.training.max_grad_norm)

        self.scaler.step(self.optimizer)
        self.scaler.update()

        # freed before the next forward pass, since they would fragment the memory of its
        # activations
        for parameter in self.parameters:
            parameter.grad = None

    def get_rate(self, number: int) -> float:
        """Return the learning rate of a step, counted from 0.

        Without a stream's own schedule: linear warm-up, then linear decay that would reach 0 at
        `steps`.
        """
        if self.own is None:
            warmup = self.training.warmup_steps
            peak = self.training.learning_rate
            if number < warmup:
                return peak * number / warmup
            return peak * (self.steps - number) / max(1, self.steps - warmup)

        if self.own.schedule == "cosine":
            return self.own.learning_rate * (1 + math.cos(math.pi * number / self.steps)) / 2
        return self.own.learning_rate * (self.steps - number) / self.steps

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])


def clip_gradients(gradients: list[Tensor], largest: float) -> None:
    """Scale gradients to a norm of `largest` at most, as `clip_grad_norm_` does, but without
    waiting for a device.
    """
    if not gradients:
        return

    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, torch.clamp(largest / (norm + 1e-6), max=1.0))


def make_groups(modules: Sequence[nn.Module], weight_decay: float) -> list[dict[str, Any]]:
    """Make AdamW's two groups: biases and normalisation weights are not decayed."""
    decaying: list[nn.Parameter] = []
    constant: list[nn.Parameter] = []
    for name, parameter in chain.from_iterable(module.named_parameters() for module in modules):
        if not parameter.requires_grad:
            continue
        is_constant = name.endswith("bias") or "norm" in name.lower()
        group = constant if is_constant else decaying
        group.append(parameter)

    return [
        {"params": decaying, "weight_decay": weight_decay},
        {"params": constant, "weight_decay": 0.0},
    ]


class AdamW(torch.optim.Optimizer):
    """AdamW with epsilon added before the bias correction and the decay applied after the update.

    At a parameter's own step t = 1, 2, ..., with gradient g, rate r and decay w:

        m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
        p = p - r sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
        p = p - r w p

    (`transformers.AdamW`.) torch's AdamW adds epsilon after the correction and applies the decay
    first.

    A parameter is unchanged until its first gradient, which is its step 1. With `moving`, a later
    step without a gradient counts as gradient 0, so that momentum still moves the parameter;
    otherwise the parameter stays as it is.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], *, epsilon: float, moving: bool) -> None:
        """`groups` have `params` and `weight_decay`; `lr` is set before each step."""
        super().__init__(groups, {"lr": 0.0, "weight_decay": 0.0})
        self.epsilon = epsilon
        self.moving = moving

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update parameters, those of a group with equal step counts together."""
        for group in self.param_groups:
            by_step: dict[int, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                steps_before = self.state[parameter]["step"] if parameter in self.state else 0
                is_still_moving = self.moving and steps_before > 0
                if parameter.grad is not None or is_still_moving:
                    by_step[steps_before + 1].append(parameter)

            for number, parameters in by_step.items():
                self._update(group, parameters, number)

    def _update(self, group: dict[str, Any], parameters: list[Tensor], number: int) -> None:
        """Update parameters by torch's fused Adam, in their step `number`: one pass over them, no
        tensors between.

        torch adds epsilon after the bias correction, so epsilon is divided by the correction
        beforehand.
        """
        if number == 1:
            for parameter in parameters:
                self.state[parameter] = {
                    "mean": torch.zeros_like(parameter),
                    "square": torch.zeros_like(parameter),
                }

        states = [self.state[parameter] for parameter in parameters]
        for state in states:
            state["step"] = number
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for parameter in parameters
        ]

        count = torch.full((), number, dtype=torch.float32, device=parameters[0].device)
        torch._fused_adam_(
            parameters,
            gradients,
            [state["mean"] for state in states],
            [state["square"] for state in states],
            [],
            [count] * len(parameters),
            lr=group["lr"],
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=0.0,
            eps=self.epsilon / math.sqrt(1 - BETA2**number),
            amsgrad=False,
            maximize=False,
        )

        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])


@dataclass(frozen=True)
class Chunked:
    """An `Encode` that calls another one on `size` rows (sentences, images or recordings) at a
    time, None for all.

    Its gradient is that of the whole batch under the same dropout masks. Masks are drawn piece by
    piece, so the random numbers of a batch depend on `size`, as they do on the device. `seen` is
    told the arguments and the vectors. A pass that is changed goes by `plain`, where `encode` is
    compiled.
    """

    encode: Encode
    size: int | None
    seen: Callable[[Mapping[str, Tensor], int, Tensor], None] = lambda inputs, views, vectors: None
    plain: Encode | None = None

    def __call__(self, inputs: Mapping[str, Tensor], views: int, **changes: Any) -> Tensor:
        if changes:
            return self._run_in_parts(partial(self.plain or self.encode, **changes), inputs, views)
        return self._run_in_parts(self.encode, inputs, views)

    def states(self, inputs: Mapping[str, Tensor], views: int = 1, **changes: Any) -> Tensor:
        if changes:
            passes = (self.plain or self.encode).states
            return self._run_in_parts(partial(passes, **changes), inputs, views)
        return self._run_in_parts(self.encode.states, inputs, views)

    def _run_in_parts(self, encode: Passes, inputs: Mapping[str, Tensor], views: int) -> Tensor:

        rows = len(next(iter(inputs.values())))
        size = self.size or rows
        if rows <= size:
            vectors = encode(inputs, views)
        else:
            starts = range(0, rows, size)
            parts = [take_rows(inputs, start, min(rows, start + size)) for start in starts]
            # neither inputs nor parameters make the result require a gradient, so this scalar does
            vectors = _TwoPasses.apply(encode, parts, views, torch.zeros((), requires_grad=True))

        self.seen(inputs, views, vectors)
        return vectors


def take_rows(inputs: Mapping[str, Tensor], start: int, stop: int) -> Mapping[str, Tensor]:
    """Rows `start` to `stop` of a batch, without `stop`."""
    if isinstance(inputs, TokenRows):
        return inputs.take(start, stop)
    return {name: value[start:stop] for name, value in inputs.items()}


def get_random_states(device: torch.device) -> tuple[Tensor, ...]:
    """The states of the generators that dropout on a device draws from: the CPU's, and a card's
    own.
    """
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return tuple(states)


def set_random_states(states: tuple[Tensor, ...], device: torch.device) -> None:
    """Set the generators to states of `get_random_states`."""
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)


class _TwoPasses(torch.autograd.Function):
    """Encodes parts of a batch without a graph, and again with a graph in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, encode: Passes, parts: Sequence[Mapping[str, Tensor]], views: int, anchor: Tensor
    ) -> Tensor:
        """Compute (B, views, ...) from parts of B rows together. `anchor` is a scalar that requires
        a gradient.
        """
        ctx.encode = encode
        ctx.views = views
        ctx.parts = parts
        ctx.states = []
        device = next(iter(parts[0].values())).device

        vectors = []
        for part in parts:
            ctx.states.append(get_random_states(device))
            vectors.append(encode(part, views))

        ctx.sizes = [len(rows) for rows in vectors]
        kind = device.type
        ctx.autocast = torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
        return torch.cat(vectors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, None]:
        """Add the parameters' gradients, piece by piece; a backward pass runs within this one."""
        dtype, enabled = ctx.autocast
        device = gradient.device
        with (
            torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
            torch.enable_grad(),
        ):
            for part, states, share in zip(
                ctx.parts, ctx.states, torch.split(gradient, ctx.sizes), strict=True
            ):
                set_random_states(states, device)
                # one context per part, since autocast keeps cast weights, with their graph, until
                # its context ends
                with torch.autocast(device.type, dtype, enabled):
                    vectors = ctx.encode(part, ctx.views)
                torch.autograd.backward(vectors, share)
        return None, None, None, None
