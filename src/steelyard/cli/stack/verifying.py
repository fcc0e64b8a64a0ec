"""``steelyard stack verify``: whether a plan is in effect."""

import json

import click

from steelyard.cli.stack.applying import ApplyOptions, is_here, read_applied_server
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
