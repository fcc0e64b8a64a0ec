"""``steelyard stack verify``: whether a plan is in effect."""

import json
from pathlib import Path

import click

from steelyard.cli.options import NAMESPACE, layers_option
from steelyard.cli.stack.apply import ApplyOptions, is_here, read_applied_server
from steelyard.core.errors import ExitCode
from steelyard.core.stack import Knob
from steelyard.tuning.apply.applier import still_to_do, verify_all
from steelyard.tuning.apply.door import Check
from steelyard.tuning.apply.doors import (
    Outside,
    doors_of,
    inside,
    reached,
    read_plan,
    selection_of,
    with_node,
)


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
    params = dict(context.params)
    as_json = params.pop("as_json")
    verify(ApplyOptions(**params), as_json=as_json)


_FORMAT = 1  # of what --json prints


def verify(options: ApplyOptions, *, as_json: bool, outside: Outside | None = None) -> None:
    """Say of every knob of a plan whether it is in effect; leaves with a code when one is not."""
    outside = outside or Outside()
    plan = read_plan(options.directory)
    server = read_applied_server(options.directory)
    address = None
    if options.dsn is not None:
        _, address = reached(options.dsn, outside.sql)
    elif server is not None:
        address = server.address()
    cluster = inside(plan, outside, options.context, options.namespace)
    local_server = cluster is None and is_here(address, outside)
    selection = selection_of(plan.knobs, options.layers, local_server=local_server)
    knobs = [knob for knob in plan.knobs if selection.wants(knob)]
    doors = doors_of(plan, options.directory, outside, address, inside=cluster)
    if cluster is not None:
        name, probe = plan.design.request.name, options.node_probe
        doors = with_node(doors, knobs, name, cluster, outside, probe=probe)
    checked = verify_all(knobs, doors)
    if as_json:
        found = [_as_json(knob, check) for knob, check in checked]
        click.echo(json.dumps({"format": _FORMAT, "knobs": found}, indent=2))
    else:
        for knob, check in checked:
            _say_check(knob, check)
    if any(check.holds is False for _, check in checked):
        raise click.exceptions.Exit(ExitCode.GATE)


def _as_json(knob: Knob, check: Check) -> dict[str, object]:
    return {
        "name": knob.name,
        "layer": knob.layer,
        "kind": knob.kind,
        "place": knob.place,
        "asked": knob.value,
        "in_effect": check.holds,
        "facts": list(check.facts),
        "pending": check.pending,
        "remedy": check.remedy,
    }


def _say_check(knob: Knob, check: Check) -> None:
    words = {True: "OK", False: "NOT IN EFFECT", None: "NOT VISIBLE"}
    click.echo(f"[{words[check.holds]}] {knob.name}")
    for fact in check.facts:
        click.echo(f"    {fact}")
    remedy = still_to_do(check.pending) if check.pending else check.remedy
    if remedy and not check.holds:
        click.echo(f"    {remedy}")
