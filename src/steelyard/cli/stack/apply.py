"""``steelyard stack apply``: put a plan into effect."""

from pathlib import Path

import click

from steelyard.cli.options import NAMESPACE, layers_option


@click.command("apply")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@layers_option
@click.option(
    "--dsn", metavar="URI", help="URI of the server whose settings are changed, without a password."
)
@click.option("--remote", is_flag=True, help="The server is on another machine than this one.")
@click.option(
    "--context",
    metavar="NAME",
    help="Context of the kubeconfig: objects of this cluster are made and changed.",
)
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    metavar="NAME",
    help="Namespace of the objects (default: that of the context).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Put the plan in DIR into effect, one knob at a time, each verified by its effect.

    Everything is checked before the first change. What was there is kept in DIR/applied.jsonl
    before each change: an application that was cut off goes on when it is repeated, and `stack
    revert` restores exactly what was there. Settings that wait for a restart are marked; apply
    again after it; the exit code is 10 while something is not in effect yet. Without the
    privilege, the commands are printed, and the exit code is 8. Objects of a Kubernetes cluster are
    made and changed where --context or -n names it.
    """
    from steelyard.cli.stack import applying as stack_applying

    stack_applying.apply(stack_applying.ApplyOptions(**context.params))
