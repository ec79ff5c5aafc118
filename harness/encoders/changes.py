"""What code of others changes on an encoder that was tried: its modules and parameters, and hooks.

The packed pass goes by parameters, round the modules and their hooks; a saved model has the modules
of its architecture alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

#: where a module keeps its hooks
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def describe_layout(model: nn.Module) -> dict[str, str]:
    """The class of each module and the shape of each parameter and buffer, by name."""
    layout = {name: type(module).__name__ for name, module in model.named_modules()}
    layout |= {name: str(tuple(value.shape)) for name, value in model.state_dict().items()}
    return layout


def find_changed_part(before: Mapping[str, str], model: nn.Module) -> str | None:
    """The first module, parameter or buffer that is not as in an earlier layout, None if all are."""
    now = describe_layout(model)
    for name in (*before, *now):
        if before.get(name) != now.get(name):
            return f"{name} ({before.get(name, 'absent')}) is now {now.get(name, 'absent')}"
    return None


class Hooks:
    """The hooks on a model's modules but those of transformers, which record states alone.

    They are looked at before each pass, so that this must be quick.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = tuple(model.modules())
        # dictionaries that stay a module's own
        self._tables = tuple(getattr(module, name) for module in self._modules for name in _HOOKS)

    def __bool__(self) -> bool:
        """Whether a module has a hook, or a forward pass in place of its class's."""
        if any("forward" in vars(module) for module in self._modules):
            return True
        if not any(self._tables):
            return False
        hooks = [hook for table in self._tables for hook in table.values()]
        return not all(_is_of_transformers(hook) for hook in hooks)


def _is_of_transformers(hook: object) -> bool:
    return str(getattr(hook, "__module__", "")).partition(".")[0] == "transformers"
