"""methods x settings x encoders x seeds -> runs, each with every value decided."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING

from pydantic import ValidationError

from harness.code import get_declarations
from harness.command_line import parse_overrides, parse_set
from harness.corpora.base import CorpusSource
from harness.errors import PlugInError, UnavailableError, UserError, describe_problems
from harness.method import CaptionRows, Feature, Neighbours, OwnSteps
from harness.method.declared import DeclaredMethod, Layers, get_declared_method
from harness.method.interface import MixingRule
from harness.profiles import Profile, Rule, Training
from harness.registry import convert_errors, get_class, list_registered, suggest
from harness.setting import Captions, SettingOption, read_setting_options
from harness.spec import UNTRAINED, OptionValue, RunSpec, SpecError, Stream, Variant, split

if TYPE_CHECKING:
    from harness.method import Hyperparameters, Method

Overrides = Mapping[str, OptionValue]


@dataclass(frozen=True)
class Resolved:
    """A run with every value decided; its method is imported only when it is needed.

    `layers` are the values of the method's options, later layers overriding earlier ones;
    `identity` are the values that distinguish experiments. `streams` maps the setting's corpora
    that the method learns from, in order, to their streams. `features` has the teacher features
    that the method reads, by role, and `captions` which captions of an image; `dev` is the
    similarity task that selects the best checkpoint. `options` are the setting's, and any that the
    method requires of the corpora. `own_steps` are the streams that the method trains in steps of
    their own; `pooling` names the pooling of its sentence vectors, `dropout` are the rates of the
    encoder's, of states and of attention, -1 for its own. `neighbours` are the rows that it searches
    for, by name. `sources` has the origin of each value
    that is not a default of the method or of `Training`: the `source` of a rule, '[training]' of
    the profile, '--set', or the variant with the option.
    """

    spec: RunSpec
    trains: bool
    layers: Layers
    identity: Mapping[str, OptionValue]
    training: Training
    overrides: Overrides
    streams: Mapping[str, Stream]
    features: Mapping[str, Feature]
    captions: CaptionRows
    dev: str
    options: tuple[SettingOption, ...]
    own_steps: Mapping[Stream, OwnSteps]
    pooling: str
    dropout: tuple[float, float]
    neighbours: Mapping[str, Neighbours]
    sources: Mapping[str, str]

    @property
    def method(self) -> type[Method]:
        from harness.method import method_named  # imports torch

        return method_named(self.spec.variant.name)

    @cached_property
    def hyperparameters(self) -> Hyperparameters:
        """The method's options."""
        with convert_errors("method", self.spec.variant.name):
            configured: Hyperparameters = self.method.configure(
                self.spec.variant.reading, *self.layers
            )
        return configured

    @property
    def mixing_rule(self) -> MixingRule:
        """The method's rule that decides which steps are paired; the method is not imported."""
        variant = self.spec.variant
        return get_declared_method(variant.name).mixing(variant.reading, self.layers)

    def check_declared(self) -> None:
        """Raise UserError where the method's class in this process differs from what the run was
        planned with.
        """
        # imported: from here on, its class is asked
        variant = self.spec.variant
        method = self.method
        values = get_declared_method(method.name).configured(
            str(variant), variant.reading, self.layers
        )
        has_changed = any(getattr(self, name) != value for name, value in values.items())
        if has_changed or method.trains != self.trains:
            get_declarations().save()  # in place of the answers that the plan was made with
            raise UserError(
                f"{variant.name} has changed since the run was planned; run the same command again"
            )


@dataclass(frozen=True)
class Skipped:
    """A combination that cannot be trained, and why."""

    what: str
    why: str


class UnfitSettingError(UserError):
    """A method that cannot be trained in a setting."""


def make_grid(
    profile: Profile,
    methods: Sequence[Variant],
    settings: Sequence[Variant],
    encoders: Sequence[str],
    seeds: Sequence[int],
) -> list[RunSpec]:
    """The runs of a grid, seeds outermost, so that every row of a table has its first seed early.

    A method that does not train has one run of each encoder. Raises UserError for an unknown method
    or setting and for more than MOST_RUNS, and PlugInError for a method that cannot be used.
    """
    number = len(methods) * len(settings) * len(encoders) * len(seeds)
    if number > MOST_RUNS:
        raise UserError(
            f"this grid has {number:,} runs, more than {MOST_RUNS:,}; name fewer methods or seeds"
        )

    trains = {variant: get_declared_method(variant.name).trains for variant in methods}
    for setting in settings:
        check_setting(profile, setting)

    runs = dict[RunSpec, None]()
    for seed, encoder, setting, variant in itertools.product(seeds, encoders, settings, methods):
        run = RunSpec(variant, setting, encoder, seed)
        if not trains[variant]:
            run = RunSpec(variant, Variant(UNTRAINED), encoder, 0)
        runs[run] = None
    return list(runs)


def resolve_all(
    profile: Profile, specs: Collection[RunSpec], overrides: Overrides, *, strict: bool = True
) -> tuple[list[Resolved], list[Skipped]]:
    """Resolve runs in their order; those that cannot be trained in their setting are skipped.

    Unless `strict`, a run whose setting the profile does not have, or whose plug-in fails, is
    skipped too. Raises UserError and PlugInError.
    """
    runs = list[Resolved]()
    skipped = dict[Skipped, None]()
    check_overrides({spec.variant for spec in specs}, overrides)
    # a seed decides no value
    resolve_without_seed = cache(lambda spec: resolve(profile, spec, overrides))
    for spec in specs:
        try:
            run = replace(resolve_without_seed(replace(spec, seed=0)), spec=spec)
        except (UnfitSettingError, UnavailableError, PlugInError) as error:
            if strict and not isinstance(error, UnfitSettingError):
                raise
            skipped[Skipped(f"{spec.variant}/{spec.setting}", str(error))] = None
        else:
            if strict:
                _refuse_idle_epochs(profile, run)
            runs.append(run)

    return runs, list(skipped)


def resolve(profile: Profile, spec: RunSpec, overrides: Overrides) -> Resolved:
    """Decide every value of a run.

    Method: dataclass defaults, the reading's values, the profile's rules, --set, the variant's
    options. Training: the profile's [training] table, its rules, --set, the variant's options.
    Later ones win. Raises UnfitSettingError for a method that cannot be trained in the setting, and
    UserError.
    """
    variant = spec.variant
    method = get_declared_method(variant.name)
    _check_rules(profile.name, profile.hyperparameters, method.name)
    values: dict[str, OptionValue] = {}
    sources = dict.fromkeys(profile.training.model_fields_set, "[training]")
    changeable = _list_changeable(method)
    applicable = {key: value for key, value in overrides.items() if key in changeable}
    for source, layer in (*_find_rules(profile, spec), ("--set", applicable)):
        if "epochs" in layer:  # epochs replace the steps of earlier layers
            values.pop("steps", None)
        values |= layer
        sources |= dict.fromkeys(layer, source)

    options = dict(variant.options)
    sources |= dict.fromkeys(options, str(variant))

    dev = str(values.pop("dev", profile.find_dev_task(spec.setting.name)))
    layers = (values, options) if method.trains else (values,)
    training: dict[str, OptionValue | None] = {}
    if "epochs" in values and "steps" not in values:
        training["steps"] = None
    for layer in layers:
        for key in Training.model_fields.keys() & layer.keys():
            training[key] = layer.pop(key)

    configured = method.configured(str(variant), variant.reading, (values, options))
    options_of_setting: tuple[SettingOption, ...] = ()
    streams = {}
    if method.trains:
        options_of_setting = check_setting(profile, spec.setting)
        if configured["captions"] == "all":
            options_of_setting = (*options_of_setting, Captions("all"))
        streams = _select_corpora(profile, method, spec.setting)

    return Resolved(
        spec,
        method.trains,
        (values, options),
        training=_make_training(profile, training),
        overrides=dict(overrides),
        streams=streams,
        dev=dev,
        options=options_of_setting,
        sources=sources,
        **configured,
    )


def _find_rules(profile: Profile, spec: RunSpec) -> Iterator[tuple[str, Mapping[str, OptionValue]]]:
    """Source and values of each profile rule that applies to a run, in order."""
    for rule in profile.hyperparameters:
        _refuse_both(f"the rule with source '{rule.source}'", rule.options)
        if rule.matches(spec.variant.name, spec.variant.reading, spec.setting.name, spec.encoder):
            yield rule.source, rule.options


def _list_changeable(method: DeclaredMethod) -> set[str]:
    """The values that rules and `--set` can change in a run of a method."""
    return {"dev", *Training.model_fields, *method.options}


@lru_cache(maxsize=64)
def _check_rules(profile: str, rules: tuple[Rule, ...], method: str) -> None:
    """Refuse a rule for a method that is not installed, and one that would silently replace a value
    of a reading.

    Raises UserError. Only the readings of this method are checked, so that no other method is
    imported.
    """
    installed = list_registered("method")
    for rule in rules:
        for name in rule.methods:
            if name not in installed:
                raise UserError(
                    f"the profile '{profile}' has a rule for the method '{name}': {suggest(name, installed)}"
                )

    for rule in rules:
        if rule.readings or (rule.methods and method not in rule.methods):
            continue
        for reading, values in get_declared_method(method).reading_values.items():
            for name in sorted(rule.options.keys() & values.keys()):
                raise UserError(
                    f"the profile '{profile}', rule with source '{rule.source}': {name} = {rule.options[name]} "
                    f"would also replace {name} = {values[name]} of {method}@{reading}; add the readings that it "
                    'applies to, such as readings = ["paper"]'
                )


def _refuse_idle_epochs(profile: Profile, run: Resolved) -> None:
    steps = run.training.steps
    if steps is None or "epochs" not in dict(run.spec.variant.options):
        return
    raise UserError(
        f"{run.spec.variant}: the profile '{profile.name}' sets steps = {steps}, which replace epochs; write steps=N "
        "in the brackets, or --set epochs=N"
    )


def _make_training(profile: Profile, values: Mapping[str, OptionValue | None]) -> Training:
    try:
        return Training.model_validate({**profile.training.model_dump(), **values})
    except ValidationError as error:
        problems = error.errors()
        place = problems[0]["loc"][:1]
        subject = "these training values are"
        if place:
            subject = f"the training value '{place[0]}' = {problems[0]['input']!r} is"
        # a value that may be of several types has a problem with each
        reasons = describe_problems(
            *(problem for problem in problems if problem["loc"][:1] == place)
        )
        raise UserError(f"{subject} refused: {reasons}") from error


def check_overrides(methods: Iterable[Variant], overrides: Overrides) -> None:
    """Raise UserError for a key of `--set` that is an option neither of the training nor of any of
    the methods.
    """
    _refuse_both("--set", overrides)
    options = set(Training.model_fields)
    for variant in methods:
        with suppress(PlugInError):
            options |= _list_changeable(get_declared_method(variant.name))
    for key in overrides:
        if key not in options:
            raise UserError(f"--set {key}: no such hyperparameter; {suggest(key, sorted(options))}")


def _refuse_both(source: str, values: Mapping[str, OptionValue]) -> None:
    if {"steps", "epochs"} <= values.keys():
        raise UserError(f"{source} gives both steps and epochs; give one of them")


def check_setting(profile: Profile, setting: Variant) -> tuple[SettingOption, ...]:
    """The options of a setting. Raises UserError, UnavailableError for a setting that the profile
    does not have.
    """
    if setting.name not in profile.settings:
        hint = suggest(setting.name, sorted(profile.settings))
        raise UnavailableError(
            f"the profile '{profile.name}' has no setting '{setting.name}'; {hint}"
        )
    return read_setting_options(setting, _find_streams(profile, setting).values())


def _find_streams(profile: Profile, setting: Variant) -> dict[str, Stream]:
    """The stream of each corpus of a setting."""
    streams = {}
    for name in profile.settings[setting.name].corpora:
        kind = profile.corpora[name].kind
        streams[name] = get_class("corpus", kind, CorpusSource).stream
    return streams


#: a grid with more runs is a mistake, such as two long lists; planning 20,000 takes half a minute
MOST_RUNS = 200_000
#: a stream in messages
_NAMED = {"pairs": "image-caption pairs", "triplets": "NLI triplets", "audio": "recordings"}


def _select_corpora(
    profile: Profile, method: DeclaredMethod, setting: Variant
) -> dict[str, Stream]:
    """The setting's corpora that the method reads, each with its stream; captions count as
    sentences.

    Raises UnfitSettingError if the setting has no corpus of a stream that the method needs.
    """
    streams = _find_streams(profile, setting)
    available = set(streams.values())
    if "pairs" in available:
        available.add("sentences")
    absent = [_NAMED.get(stream, stream) for stream in method.streams if stream not in available]
    if absent:
        raise UnfitSettingError(
            f"{method.name} needs {' and '.join(absent)}, the setting {setting} has none"
        )

    read_streams = set(method.streams)
    if "sentences" in read_streams:
        read_streams.add("pairs")
    return {name: stream for name, stream in streams.items() if stream in read_streams}


#: the most variants that lists of values may make; more are a mistake
MOST_VARIANTS = 1_000
#: key -> its values, as texts
Lists = Mapping[str, Sequence[str]]


def split_set_values(
    values: str | Mapping[str, object] | Sequence[str],
) -> tuple[Overrides, Lists]:
    """Split the values of `--set` (KEY=VALUE or a mapping) into single values and lists. Raises
    UserError.
    """
    if isinstance(values, Mapping):
        values = [f"{key}={_format_set_value(value)}" for key, value in values.items()]
    single = []
    lists = {}
    for key, text in parse_set(values).items():
        parts = _split_values(f"--set {key}={text}", text, ",")
        if len(parts) > 1:
            lists[key] = parts
        else:
            single.append(f"{key}={text}")

    return parse_overrides(single), lists


def require_single_values(
    values: str | Mapping[str, object] | Sequence[str], where: str
) -> Overrides:
    """Values of `--set` where there is no grid. Raises UserError for a list."""
    overrides, lists = split_set_values(values)
    for key, parts in lists.items():
        raise UserError(
            f"--set {key}={','.join(parts)} lists several values, which makes a grid, but {where}; give one value"
        )
    return overrides


def expand_variants(methods: Sequence[str], overrides: Overrides, lists: Lists) -> list[Variant]:
    """Expand variants into every combination of the values listed in their brackets and in `lists`.

    A variant's own options are not replaced. Raises UserError for an unknown name, for lists that
    apply to no variant, and for more than MOST_VARIANTS.
    """
    bases = [Variant.parse(text) for text in methods]
    if lists:
        check_overrides(bases, {**overrides, **dict.fromkeys(lists, 0)})

    variants: dict[Variant, None] = {}
    unused = set(lists)
    for text, base in zip(methods, bases, strict=True):
        values = {key: _split_values(text, value, "|") for key, value in base.options}
        sweepable = _list_sweepable(base) - values.keys() if lists else set()
        for key in lists:
            if key in sweepable:
                values[key] = list(lists[key])
        unused -= values.keys() & sweepable
        if len(variants) + prod(map(len, values.values())) > MOST_VARIANTS:
            raise UserError(
                f"these lists of values make more than {MOST_VARIANTS:,} variants; give fewer values"
            )

        for combination in itertools.product(*values.values()):
            options = dict(zip(values, combination, strict=True))
            variants[Variant.make(base.name, options, base.reading)] = None

    for key in unused:
        raise UserError(
            f"--set {key}={','.join(lists[key])} changes no method of this grid: each sets its own {key}, or trains "
            "nothing; remove it"
        )
    return list(variants)


def _list_sweepable(variant: Variant) -> set[str]:
    """The options of a variant's method and, if it trains, those of the training."""
    method = get_declared_method(variant.name)
    options = set(method.options)
    if method.trains:
        options.update(Training.model_fields)
    return options


def _split_values(whole: str, text: str, separator: str) -> list[str]:
    parts = list(dict.fromkeys(split(text, separator)))
    if not all(parts):
        raise SpecError(
            f"'{whole}' has an empty value in a list; write a value on both sides of '{separator}'"
        )
    return parts


def _format_set_value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
