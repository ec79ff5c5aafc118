"""Commands on results: write a report, print a table, compare variants, cite, and export models."""

from __future__ import annotations

import math
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from harness.cli.options import (
    FOLDER,
    any_profile_option,
    complete_profile,
    completer,
    names_option,
    results_option,
)
from harness.cli.output import (
    echo,
    print_table,
    read_results,
    show_grid,
    tell_waiting,
    warn,
)
from harness.command_line import (
    DEFAULT_MARGIN,
    DEFAULT_REPORT,
    TABLE_FORMATS,
    TableFormat,
    parse_overrides,
)
from harness.errors import PlugInError, UserError
from harness.formatting import count_of, fixed, from_markdown
from harness.spec import MOST_SEEDS, Variant, split

if TYPE_CHECKING:
    from harness.commands import Commands
    from harness.reporting.seeds.comparison import Comparison

TextRow = tuple[str, str, str, str]
F = TypeVar("F", bound=Callable[..., object])

#: seconds between two reports of runs in progress
FOLLOW_S = 60.0
#: budgets whose ratio is at most this are equal
SAME_BUDGET = 1.01
_POSITIVE = click.FloatRange(0.0, 1e6, True)


def margin_option(text: str) -> Callable[[F], F]:
    """The option --margin, which decides beforehand what is equal."""
    default = "default of equal: 0.1 or a tenth of the deviation over seeds, if larger"
    return click.option(
        "--margin", metavar="POINTS", type=float, help=f"{text.removesuffix('.')}; {default}."
    )


@click.command()
@any_profile_option
@results_option
@click.option(
    "--out",
    default=DEFAULT_REPORT,
    show_default=True,
    metavar="DIR",
    type=FOLDER,
    help="Folder to write.",
)
@margin_option(
    f"Largest difference that counts as equal, and from print as reproduced ({DEFAULT_MARGIN:g} there)."
)
@click.option(
    "--one-file",
    is_flag=True,
    help="Also write report.html: all pages except those of runs, for sending.",
)
@click.option("--open", "open_it", is_flag=True, help="Open the report in a browser.")
@click.option(
    "--follow", is_flag=True, help="Write it again each minute until no run is in progress."
)
def report(
    profile: str | None,
    results: Path,
    out: Path,
    margin: float | None,
    one_file: bool,
    open_it: bool,
    follow: bool,
) -> None:
    """Write a report: Markdown, LaTeX, CSV and a static site."""
    tell_waiting("reading results, testing differences and drawing figures")
    from harness import reading

    written = reading.report(results, out, profile, margin, one_file)
    warn(written.warnings)
    page = written.page.resolve()
    echo(f"{written.results} results rendered; open {page}")
    if one_file:
        whole_report = page.with_name("report.html")
        echo(f"to send: {whole_report} ({whole_report.stat().st_size / 1e6:.1f} MB)")
    if open_it and not webbrowser.open(page.as_uri()):
        echo("cannot open a browser; open the file yourself", err=True)

    while follow and written.running:
        sleep(FOLLOW_S)
        written = reading.report(results, out, profile, margin, one_file)
        echo(f"{written.results} results rendered, {count_of(written.running, 'run')} in progress")


@click.command()
@click.argument("name", shell_complete=completer("suite or table"))
@click.option(
    "--format",
    "text_format",
    help="Default: a table in a terminal, else Markdown.",
    type=click.Choice(TABLE_FORMATS),
)
@click.option(
    "--rows",
    metavar="A,B",
    help="Only these variants, in this order; a paper's table gets a row for a new one.",
    shell_complete=completer("method"),
)
@names_option("--columns", "A,B", "Only the columns with these headings, in this order.")
@names_option("--tasks", "T,U", "Only these tasks, in this order.")
@click.option(
    "--digits", type=click.IntRange(0), metavar="N", help="Decimals of numbers, such as 1."
)
@click.option("--no-seeds", is_flag=True, help="Leave out the column of seeds.")
@click.option("--no-std", is_flag=True, help="Leave out deviations over seeds.")
@margin_option("Largest difference that counts as equal, or in a paper's table as reproduced.")
@any_profile_option
@results_option
def table(
    name: str,
    text_format: TableFormat | None,
    margin: float | None,
    profile: str | None,
    results: Path,
    digits: int | None,
    no_seeds: bool,
    no_std: bool,
    **names: str | None,
) -> None:
    """Print one table, also as Markdown, LaTeX or CSV.

    NAME is a suite, such as sts, or a table of a paper, such as mcse:T1. In a terminal, Markdown
    has no escapes. LaTeX is one float of a document of two columns: it needs booktabs, and a table
    that a page cannot hold in text of 7 pt is refused with the option that helps.
    """
    shape: dict[str, Any] = {"digits": digits, "seeds": not no_seeds, "std": not no_std}
    shape |= {option: text for option, text in names.items() if text}
    loaded = read_results(results, profile).with_margin(margin)
    if text_format is None and is_terminal():
        show_grid(loaded.pick_grid(name, profile, **shape))
        return

    text_format = text_format or "markdown"
    text = loaded.text(name, text_format, profile, **shape).removesuffix("\n")
    if text_format == "markdown" and is_terminal():
        text = from_markdown(text)
    click.echo(text)


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


@click.command()
@click.argument("name", required=False)
@click.option(
    "--width",
    default="page",
    show_default=True,
    type=click.Choice(["column", "page"]),
    help="Width of a column or of the page of a paper.",
)
@click.option(
    "--out",
    default="figures",
    show_default=True,
    metavar="DIR",
    type=FOLDER,
    help="Folder to write.",
)
@any_profile_option
@results_option
def figure(
    name: str | None,
    width: Literal["column", "page"],
    out: Path,
    profile: str | None,
    results: Path,
) -> None:
    """Write a chart of the report as PDF, SVG, PNG and CSV.

    NAME is its id on the page, as links to it have it; without NAME, all of them are listed.
    """
    tell_waiting("reading results and testing differences")
    from harness import reading

    if name is None:
        for figure_id, title in reading.figure_names(results, profile):
            echo(f"{figure_id}  {title}")
        return

    drawn = reading.figure(name, results=results, profile=profile, width=width)
    for path in drawn.save(out):
        echo(path)


@click.command()
@any_profile_option
@names_option("--methods", "A,B", "Only these methods; without results, their papers are cited.")
@results_option
def cite(profile: str | None, methods: str | None, results: Path) -> None:
    """Print BibTeX for everything that the results used.

    These are methods, encoders, teachers, training and test data, and this harness. Anything
    without a known reference is listed in a comment at the end.
    """
    from harness.commands import explain_no_results
    from harness.method import method_named
    from harness.papers.citing import Used, find_works, list_used, make_bibtex
    from harness.profiles import load_profile
    from harness.registry import list_registered as registered

    profile_name = load_profile(profile).name if profile else None
    named_methods = [text.strip() for text in methods.split(",")] if methods else []
    selected = {}
    if profile_name:
        selected["profile"] = [profile_name]
    if named_methods:
        selected["method"] = named_methods

    loaded = read_results(results)
    frames = loaded.frames.where(**selected)
    if not frames and not named_methods:
        raise UserError(
            f"{explain_no_results(results, loaded.problems, profile_name)}, or give --methods"
        )

    used = dict.fromkeys(Used("methods", method) for method in named_methods)
    used |= dict.fromkeys(list_used(frames))
    declared = {method: method_named(method) for method in named_methods}
    for kind, method in used:
        # the class of a plug-in's method says what to cite
        if kind == "methods" and method in registered("method") and not find_works(method):
            with suppress(PlugInError):
                declared[method] = method_named(method)
    echo(make_bibtex(list(used), declared), nl=False)


@click.command()
@click.argument("a", metavar="A", shell_complete=completer("method"))
@click.argument("b", metavar="B", shell_complete=completer("method"))
@click.option(
    "--metric",
    required=True,
    metavar="SUITE.TASK[.METRIC]",
    help="The score to compare, such as sts.Avg.",
)
@any_profile_option
@names_option("--setting", "S", "Only runs of this setting.")
@names_option("--encoder", "E", "Only runs of this encoder.")
@click.option(
    "--set", "set", multiple=True, metavar="KEY=VALUE", help="Only runs with these overrides."
)
@click.option(
    "--equal",
    type=click.Choice(["steps", "rows", "flops"]),
    help="Refuse to compare unequal budgets.",
)
@margin_option("Largest difference that counts as equal.")
@results_option
def compare(
    a: str, b: str, metric: str, results: Path, equal: str | None, margin: float | None, **only: Any
) -> None:
    """Compare variant A with variant B over their seeds.

    Each may be a VARIANT/SETTING/ENCODER, and NAME#GROUP names the runs of an earlier state of
    code, data or values; a variant is found under any spelling of its options. Without --set, runs
    without overrides are preferred.
    """
    from harness.planning.names import find_stored_spelling
    from harness.profiles import load_profile
    from harness.reporting.seeds.lookup import split_group

    loaded = read_results(results, only["profile"]).with_margin(margin)
    if only["profile"] is not None:
        # what other profiles have need not be judged
        loaded = loaded.of_profile(load_profile(only["profile"]).name)
    spellings = []
    for text in (a, b):
        name, group = split_group(text)
        spelling = find_stored_spelling(loaded.runs, name, only["profile"])
        spellings.append(f"{spelling}#{group}" if group else spelling)

    first, second = spellings
    if first == second:
        raise UserError(f"{a} and {b} are the same variant; name two")
    comparison = loaded.compare(first, second, metric, **only)
    if equal:
        _check_budgets(comparison, {"rows": "text_rows"}.get(equal, equal), loaded.commands)
    _show_comparison(comparison, loaded.commands)


def _check_budgets(comparison: Comparison, name: str, commands: Commands) -> None:
    """Raise UserError where the two sides differ by more than 1 %, in what was spent or up to the
    weights that are scored, with the command that makes them equal.
    """
    from harness.reporting.seeds.spent import BUDGET

    rows = (comparison.a, comparison.b)
    shorter, longer = sorted(rows, key=lambda row: row.spent.budget.get(name, 0))
    least = shorter.spent.budget.get(name, 0)
    if not least:
        raise UserError(
            f"{shorter.name} has no count of {BUDGET[name]}: it trains nothing, or its results are older"
        )

    ratio = longer.spent.budget.get(name, 0) / least
    if ratio <= SAME_BUDGET:
        _check_scored(comparison, name, commands)
        return

    label = shorter.label
    variant = Variant.parse(label.variant)
    steps = round(shorter.spent.budget["steps"] * ratio)
    options = {**dict(variant.options), "steps": steps}
    lengthened = str(Variant.make(variant.name, options, variant.reading))
    command = commands.run(
        profile=label.profile,
        methods=lengthened,
        settings=label.setting,
        encoders=label.encoder,
        set=parse_overrides(split(label.overrides)) if label.overrides else {},
    )
    raise UserError(
        f"{longer.name} has {ratio:.2f} times as many {BUDGET[name]} as {shorter.name}; `{command}` makes them equal, "
        f"then compare {lengthened}"
    )


def _check_scored(comparison: Comparison, name: str, commands: Commands) -> None:
    """Raise UserError where trainings of equal budgets are scored by weights of unequal ones."""
    from harness.reporting.seeds.spent import BUDGET

    rows = (comparison.a, comparison.b)
    shorter, longer = sorted(rows, key=lambda row: row.spent.count_scored(name))
    ratio = longer.spent.count_scored(name) / shorter.spent.count_scored(name)
    if ratio <= SAME_BUDGET:
        return

    label = shorter.label
    command = commands.run(
        profile=label.profile,
        methods=[row.label.variant for row in rows],
        settings=label.setting,
        encoders=label.encoder,
        set={"checkpoint": "last"},
    )
    shorter_steps = shorter.spent.texts()["steps"]
    longer_steps = longer.spent.texts()["steps"]
    raise UserError(
        f"the trainings are equal, but the weights that are scored are not: those of {longer.name} have seen "
        f"{ratio:.2f} times as many {BUDGET[name]} as those of {shorter.name} ({longer_steps} steps against "
        f"{shorter_steps}); `{command}` scores the last weights, then compare with --set checkpoint=last"
    )


def _show_comparison(comparison: Comparison, commands: Commands) -> None:
    a = comparison.a
    b = comparison.b
    places = " and ".join(dict.fromkeys(row.label.place for row in (a, b)))
    score = " ".join(comparison.score)
    echo(f"{a.name} against {b.name}: {score}, profile {a.label.profile}, {places}")
    print_table(("", "value", "95% interval", "p"), list(_list_numbers(comparison)))

    spent_by_a = a.spent.texts()
    spent_by_b = b.spent.texts()
    budgets = [
        (what, spent_by_a.get(what, ""), spent_by_b.get(what, ""))
        for what in spent_by_a | spent_by_b
    ]
    print_table(("median", a.name, b.name), budgets)

    untrained = commands.explain_untrained(a.label.profile, comparison.lacking)
    if untrained:
        echo(untrained)
    for line in comparison.warnings():
        echo(f"warning: {line}")
    echo(comparison.conclusion())


def _list_numbers(comparison: Comparison) -> Iterator[TextRow]:
    """Name, value, interval and p-value of the two sides, of untrained encoders, and of what is
    tested.
    """
    from harness.reporting.seeds.comparison import format_ends
    from harness.reporting.tables.grids import format_summary
    from harness.stats import mean_interval

    digits = comparison.metric.digits
    for row in (comparison.a, comparison.b, *comparison.untrained):
        summary = comparison.cell(row).summary
        seeds = count_of(summary.n, "seed")
        if row.freshness.mark:
            seeds += f", {row.freshness.mark}"
        value = str(format_summary(summary, digits, extra=seeds))
        yield row.name, value, format_ends(mean_interval(summary), digits), ""

    yield from comparison.rows()
    effect = comparison.effect
    if effect:
        yield "Hedges' g", fixed(effect.g, 2), format_ends(effect, 2), ""


@click.command()
@click.option("--effect", required=True, type=_POSITIVE, help="The true difference of means.")
@click.option(
    "--std", required=True, type=_POSITIVE, help="The standard deviation over seeds, on both sides."
)
@click.option(
    "--seeds", type=click.IntRange(2, MOST_SEEDS), help="One more number of seeds for the table."
)
def power(effect: float, std: float, seeds: int | None) -> None:
    """Show how many seeds a difference needs.

    Welch's two-sided t-test at 0.05, equal numbers of seeds and deviations on both sides.
    """
    from harness.stats import detectable_difference, power_of_verdict, seeds_to_decide

    for name, value in (("effect", effect), ("std", std)):
        if not math.isfinite(value):
            raise UserError(f"--{name} {value}: not a finite number; give another value")

    needed = seeds_to_decide(effect, std, None)
    if needed is None:
        raise UserError(
            f"--effect {effect:g} is too small for --std {std:g} (no number of seeds can detect this difference); "
            "give a larger one"
        )
    echo(
        f"a difference of {effect:g} with a deviation of {std:g} needs {needed} seeds of each variant "
        "(80% power, two-sided t-test at 0.05)"
    )

    counts = {3, 5, 10, 20}
    if seeds:
        counts.add(seeds)
    rows = []
    for count in sorted(counts):
        power_in_percent = 100 * power_of_verdict(effect, std, count, None)
        least_difference = detectable_difference(std, count)
        rows.append((str(count), f"{fixed(power_in_percent, 0)}%", f"{least_difference:.3g}"))
    print_table(("seeds each", "power", "minimum detectable difference (80% power)"), rows)


@click.command("export")
@click.argument("run", metavar="RUN")
@click.option("--to", metavar="DIR", type=FOLDER, help="A new or empty folder for the model.")
@click.option(
    "--mteb", metavar="DIR", type=FOLDER, help="A new or empty folder for mteb's result files."
)
@click.option(
    "--as",
    "named",
    metavar="OWNER/NAME@COMMIT",
    help="With --mteb: the model's name on the hub (default: that of the encoder, where the run trains nothing).",
)
@click.option(
    "--push", metavar="OWNER/NAME", help="A new repository of the hub for the model; it is private."
)
@results_option
@click.option(
    "--profile",
    metavar="FILE.toml",
    help="The run's profile, if it is your own file.",
    shell_complete=complete_profile,
)
@click.option(
    "--encoder", metavar="DIR", type=FOLDER, help="The encoder's folder, for an untrained run."
)
def export_command(
    run: str,
    to: Path | None,
    mteb: Path | None,
    named: str | None,
    push: str | None,
    results: Path,
    profile: str | None,
    encoder: Path | None,
) -> None:
    """Write a run's model, or its scores as mteb's files.

    The model is that of the best checkpoint, in a folder with a model card that transformers and
    sentence-transformers load. The scores are written as mteb's repository of results takes them.
    RUN is a run's key (simcse/toy/toy-bert/seed-0) or result file. The token of --push is that of
    `hf auth login` or HF_TOKEN.
    """
    if to is None and mteb is None and push is None:
        raise UserError(
            "no output is given; add --to DIR or --push OWNER/NAME for the model, or --mteb DIR for its scores"
        )
    if mteb is not None:
        if to is not None or push is not None:
            raise UserError(
                "--mteb writes scores only; remove --to and --push, and export the model in a command of its own"
            )
        _export_scores(run, mteb, results, named, profile)
        return
    if named is not None:
        raise UserError("--as works only with --mteb; add --mteb DIR, or remove --as")

    with TemporaryDirectory() as temporary:
        folder = to or Path(temporary) / "model"
        libraries = _export_model(run, folder, results, profile, encoder)
        if to is not None:
            echo(f"{run} is in {to}; {libraries}")
        if push is not None:
            from harness.runs.export import push_model

            commit = push_model(folder, push, run)
            echo(f"{run} is in {push} at commit {commit}; {libraries}")


def _export_model(
    run: str, folder: Path, results: Path, profile: str | None, encoder: Path | None
) -> str:
    """Write the model's folder; return a text that says which libraries load it."""
    from harness.runs.export import export

    exported = export(run, folder, results, profile, encoder)
    warn(exported.problems)
    if exported.modules:
        return "transformers and sentence-transformers load it, README.md is its model card"
    echo("sentence-transformers has no module for its pooling; the model card shows how to pool")
    return "transformers loads it, README.md is its model card"


def _export_scores(
    run: str, mteb: Path, results: Path, hub_name: str | None, profile: str | None
) -> None:
    from harness.runs.mteb_files import export_mteb, parse_hub_model

    model = parse_hub_model(hub_name) if hub_name else None
    exported = export_mteb(run, mteb, results, model, profile)
    for line in exported.left_out:
        echo(f"left out: {line}", err=True)
    tasks = count_of(len(exported.tasks), "task")
    echo(f"{tasks} of {exported.model.hub} at {exported.model.revision} in {mteb}/results")
