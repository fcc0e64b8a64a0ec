"""Help of a verb with more options than a screen has lines: the usual ones, or all in groups."""

from typing import Final

import click

# Group -> its options, in the order that `--help-all` shows them.
GROUPS: Final = {
    "Question": (
        "override set profile script top parameters rewrite ddl "
        "builtin scale clients protocol rate slo run-time executions switch seed"
    ),
    "Database": (
        "cpus memory shared-buffers max-connections for postgres-version storage page-size "
        "no-huge-pages shared-cpus logical-decoding name"
    ),
    "Time": "budget width trial stop-early margin short no-verdict plans anyway resume",
    "Target": (
        "target scheduler wait on dsn redis server data-directory server-memory server-cpus "
        "allow-existing restart-command reset-command"
    ),
    "Facts": "from facts host-facts domain-xml ping-pong instance-metadata",
    "Virtual machine": "disk bridge",
    "Kubernetes": (
        "context namespace cluster pod node-probe in-cluster image index-url secret "
        "service-account storage-class record-size detach instances volume-size"
    ),
    "AWS": "max-cost ttl prices",
    "Output": "dir save dry-run output all verbose quiet yes",
    "Gate": "gate undecided junit fail-on",
    "Help": "help-all help",
}
_ALL: Final = "steelyard.help-all"


class LongCommand(click.Command):
    """A verb whose `--help` shows the usual options, and whose `--help-all` shows all in groups.

    Args:
        arguments: Of click.
        usual: Long names of the usual options in the order to list them, blanks between them.
        settings: Of click.
    """

    def __init__(self, *arguments: object, usual: str, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]  # click's own
        self._usual = usual
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                help="Show all options, in groups.",
            )
        )

    def get_help_of_all(self, context: click.Context) -> str:
        """Return the help with every option."""
        context.meta[_ALL] = True
        return self.get_help(context)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usual options, or all in groups."""
        options = {each.opts[-1][2:]: each for each in self.get_params(context)}
        usual = {"Options": f"{self._usual} help-all"}
        groups = GROUPS if context.meta.get(_ALL) else usual
        for group, names in groups.items():
            shown = [options[name] for name in names.split() if name in options]
            records = (option.get_help_record(context) for option in shown)
            if rows := [record for record in records if record is not None]:
                with formatter.section(group):
                    formatter.write_dl(rows)


def _show_all(context: click.Context, _: click.Parameter, is_given: bool) -> None:  # noqa: FBT001
    if is_given and isinstance(context.command, LongCommand):
        click.echo(context.command.get_help_of_all(context))
        context.exit()
