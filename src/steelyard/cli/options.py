"""Options and arguments that several verbs share, so that they read alike everywhere."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Final, TypeVar

import click

DEFAULT_SOURCE: Final = "preset:quick"
Command = TypeVar("Command", bound=Callable[..., Any])

_EXPERIMENT: Final = (
    click.option(
        "--target",
        metavar="WHERE",
        help="For all treatments: a URI, a version, a directory, or YAML as below `target:`.",
    ),
    click.option(
        "--allow-existing",
        is_flag=True,
        help="Measure in an endpoint's database, or change a Cluster, that is named.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig, for pods."),
    click.option("-n", "--namespace", metavar="NAME", help="Namespace, for pods."),
    click.option(
        "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change the file."
    ),
)
_CAMPAIGN: Final = (
    click.option("--seed", type=click.IntRange(0), help="Seed of the order; drawn if not given."),
    click.option(
        "--out", type=click.Path(path_type=Path), metavar="DIR", help="Campaign directory."
    ),
    *_EXPERIMENT,
    click.option("--dry-run", is_flag=True, help="Show schedule, minutes and disk; start nothing."),
    click.option("--json", "as_json", is_flag=True, help="Print summary.json, not the report."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
    click.option(
        "--yes", is_flag=True, help="Start even if the budget ends before the first look."
    ),
)
_INSIDE: Final = (
    click.option(
        "--in-cluster", is_flag=True, help="Run it as a Job in the cluster, and attach to it."
    ),
    click.option(
        "--image",
        metavar="IMAGE",
        envvar="STEELYARD_IMAGE",
        show_envvar=True,
        help="With Steelyard in it, for --in-cluster.",
    ),
    click.option("--detach", is_flag=True, help="Do not attach to the Job."),
    click.option("--storage-class", metavar="NAME", help="Of the volume for the Job's record."),
    click.option(
        "--record-size", metavar="SIZE", default="2Gi", help="Of that volume; 2Gi if not given."
    ),
    click.option("--service-account", metavar="NAME", help="Of the Job; else it gets its own."),
)
_SOURCE: Final = (
    click.argument("source", default=DEFAULT_SOURCE, metavar="[FILE | preset:NAME]"),
    click.argument("flags", nargs=-1, metavar="[-- PGBENCH_FLAGS]"),
)


def experiment_options(command: Command) -> Command:
    """Add what changes the experiment that a file or preset describes."""
    return _with(_EXPERIMENT, command)


def campaign_options(command: Command) -> Command:
    """Add what changes the experiment, and what says how its campaign is run."""
    return _with(_CAMPAIGN, command)


def inside_options(command: Command) -> Command:
    """Add what says how a campaign runs as a Job in the cluster."""
    return _with(_INSIDE, command)


def source_arguments(command: Command) -> Command:
    """Add the experiment, which may be left out, and flags for pgbench after `--`."""
    return _with(_SOURCE, command)


def sourced(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a command line on which the experiment may be left out.

    In `run -- --random-seed=7` the first flag stands in the place of the file.
    """
    if not params["source"].startswith("-"):
        return dict(params)
    return {
        **params,
        "flags": (params["source"], *params["flags"]),
        "source": DEFAULT_SOURCE,
    }


def _with(parts: tuple[Callable[[Any], Any], ...], command: Command) -> Command:
    # Decorators apply from the last to the first: so help lists them in the order written.
    return reduce(lambda decorated, part: part(decorated), reversed(parts), command)
