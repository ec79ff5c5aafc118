"""`harness cite`: BibTeX for what results used."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.completion import registered
from harness.cli.options import any_profile_option, names_option, results_option
from harness.cli.output import echo
from harness.cli.reading import read_results
from harness.command_line import harness_command
from harness.errors import UserError


@click.command()
@any_profile_option
@names_option("--methods", "A,B", "Only these methods; without results, their papers are cited.", registered("method"))
@results_option
def cite(profile: str | None, methods: str | None, results: Path) -> None:
    """Print BibTeX for everything that the results used.

    These are methods, encoders, teachers, training and test data, and this harness. Anything without a known reference
    is listed in a comment at the end.
    """
    from harness.method import method_named
    from harness.papers.citing import Used, bibtex, used_by
    from harness.profiles import load_profile

    name = load_profile(profile).name if profile else None
    asked = [text.strip() for text in methods.split(",")] if methods else []
    papers = {method: method_named(method).paper for method in asked}
    loaded = read_results(results)
    chosen = [one for one in loaded.runs if name in (None, one.profile) and (not asked or one.spec.method in asked)]
    if not (chosen or asked):
        run = harness_command("run", profile=profile or "tiny", results=str(results))
        raise UserError(f"{results} has no results; give --methods, or run `{run}` first")
    used = used_by(chosen)
    echo(bibtex(list(dict.fromkeys([*(Used("methods", method) for method in papers), *used])), papers), nl=False)
