"""A group of verbs that are imported when they are called, so that ``--help`` stays fast."""

from collections.abc import Collection, Mapping
from importlib import import_module
from keyword import iskeyword

import click

from steelyard.core.errors import InputError, did_you_mean


class LazyGroup(click.Group):
    """Verbs by name with the first line of their help; each is a module that has a ``command``.

    A verb that was declared in this group needs no module of its own.

    Args:
        verbs: First line of help by name, in the order to list them.
        package: Holds a module for each other verb.
        unlisted: Further verbs, which no person types.
        elsewhere: What other tools call a verb or an option, and how it is called here.
        settings: Of click.
    """

    def __init__(
        self,
        *,
        verbs: Mapping[str, str],
        package: str = "",
        unlisted: Collection[str] = (),
        elsewhere: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # click's own, passed through
        self._verbs = verbs
        self._unlisted = unlisted
        self._elsewhere = elsewhere or {}
        self._package = package

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return list(self._verbs)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a verb, imported now; None where there is none of that name."""
        if not self._has(name):
            return None
        declared = super().get_command(context, name)
        if declared is not None:
            return declared
        module = name.replace("-", "_") + "_" * iskeyword(name)
        command = import_module(f"{self._package}.{module}").command
        assert isinstance(command, click.Command)  # noqa: S101 - a module without one is a bug
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that the first word names, and the words behind it.

        Raises:
            InputError: There is no such verb.
        """
        word = args[0]
        is_option = word.startswith("-")
        if not is_option and not context.resilient_parsing and not self._has(word):
            meant = self._elsewhere.get(word)
            raise InputError(
                f"`{context.command_path}` has no command `{word}`",
                hint=(f"did you mean `{context.command_path} {meant}`?" if meant else "")
                or did_you_mean(word, self._verbs)
                or f"`{context.command_path} --help` lists the commands.",
            )
        return super().resolve_command(context, args)

    def _has(self, name: str) -> bool:
        return name in self._verbs or name in self._unlisted

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._verbs.items()))
