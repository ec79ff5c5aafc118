"""Groups of commands: help without a subcommand, and the nearest name for a misspelt one."""

from __future__ import annotations

from collections.abc import Sequence

import click

from harness.errors import UserError


class CommandGroup(click.Group):
    """A group that prints its help when no subcommand is given, and suggests one when the name is unknown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help and exit with code 0 where nothing was typed."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand. Raises UserError with the nearest names for an unknown one."""
        if not ctx.resilient_parsing and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UserError(f"unknown command `{ctx.command_path} {args[0]}`; {_nearest(args[0], self, ctx)}")
        return super().resolve_command(ctx, args)


def _nearest(word: str, group: click.Group, ctx: click.Context) -> str:
    from harness.registry import suggest

    known: Sequence[str] = group.list_commands(ctx)
    return suggest(word, known)
