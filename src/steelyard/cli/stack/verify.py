"""``steelyard stack verify``: whether a plan is in effect."""

from pathlib import Path

import click

from steelyard.cli.options import NAMESPACE, layers_option


@click.command("verify")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@layers_option
@click.option(
    "--dsn",
    metavar="URI",
    help="URI of the server, if it is not the one that the plan was applied to.",
)
@click.option(
    "--context",
    metavar="NAME",
    help="Context of the kubeconfig: objects and node of this cluster are checked.",
)
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    metavar="NAME",
    help="Namespace of the database (default: that of the context).",
)
@click.option(
    "--node-probe/--no-node-probe", default=True, help="Start a short-lived probe pod on the node."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Say of every knob of the plan in DIR whether it is in effect, and by what that was seen.

    Exit code 10 when one is not. What cannot be seen from here is said to be so, and is no "yes".
    With --context or -n the objects of that cluster are looked at, and the database's node.
    """
    from steelyard.cli.stack.applying import ApplyOptions
    from steelyard.cli.stack.verifying import verify

    params = dict(context.params)
    as_json = params.pop("as_json")
    verify(ApplyOptions(**params), as_json=as_json)
