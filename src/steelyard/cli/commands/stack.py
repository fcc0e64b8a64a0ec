"""``steelyard stack``: the tuning stack as one plan. Each verb is imported when it is used."""

from importlib import import_module

import click

_VERBS = {
    "plan": "Make one consistent plan for all layers, with ready files.",
    "apply": "Put a plan into effect, one knob at a time, each verified.",
    "verify": "Say of every knob of a plan whether it is in effect.",
    "revert": "Restore exactly what was there before a plan was applied.",
}


class _Verbs(click.Group):
    """The verbs, imported when they are called."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in _VERBS:
            return None
        command = import_module(f"steelyard.cli.stack.{name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - a module without one is a bug
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


@click.group(cls=_Verbs)
def command() -> None:
    """Plan, apply, verify and revert the tuning stack, from the hypervisor to PostgreSQL."""
