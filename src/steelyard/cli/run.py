"""``steelyard run``: from an experiment to verdicts."""

from typing import TYPE_CHECKING, Any

import click

from steelyard.cli.options import (
    PATH,
    GeneratorCommand,
    campaign_options,
    gate_options,
    inside_options,
    source_argument,
)

if TYPE_CHECKING:
    from steelyard.cli.launching import RunOptions

_INSIDE = ("in_cluster", "image", "detach", "storage_class", "record_size", "service_account")


@click.command(
    "run",
    cls=GeneratorCommand,
    epilog="pgbench flags follow `--`: steelyard run orders.yaml -- --random-seed=7",
)
@source_argument
@click.option("--budget", metavar="TIME", help="End after this long, such as 20m.")
@click.option("--precision", metavar="SHARE", help="Stop at this half-width, such as 1%.")
@click.option("--resume", type=PATH, metavar="DIR", help="Go on with this campaign.")
@campaign_options
@gate_options
@inside_options
@click.pass_context
def command(context: click.Context, /, **_: object) -> int:
    """Weigh the configurations of an experiment.

    Without an argument `preset:quick`: shared buffers smaller than the data against larger ones,
    in about six minutes. `article:003` is what can be run here of a published article: several
    campaigns and one text of them (`steelyard presets` lists them). Record and reports lie in the
    campaign directory: campaigns/TIME-NAME unless --out is given.
    """
    from steelyard.cli import launching
    from steelyard.cli.campaigns import Gate

    given = dict(context.params)
    inside = {name: given.pop(name) for name in _INSIDE}
    gate = Gate(**{name: given.pop(name) for name in ("fail_if", "undecided", "junit")})
    options = launching.RunOptions(**given, gate=gate)
    if inside.pop("in_cluster"):
        _require_plain(options, context)
        return _run_inside(options, inside, context)
    _require_no_job(context)
    if options.source.startswith("article:"):
        launching.run_article(options)
    elif options.resume is not None:
        launching.resume(options, given=_given(context))
    elif options.dry_run:
        launching.dry_run(options)
    else:
        launching.run(options)
    return 0


def _run_inside(options: "RunOptions", inside: dict[str, Any], context: click.Context) -> int:
    """Run it as a Job; a record here has none to go on with."""
    from steelyard.cli.attaching import InsideOptions, run_inside

    if options.resume is not None:
        message = "--resume is for a record that is here; of a Job: steelyard attach NAME --resume"
        raise click.UsageError(message, ctx=context)
    return run_inside(options, InsideOptions(**inside))


def _require_plain(options: "RunOptions", context: click.Context) -> None:
    """Refuse for a Job what only a record that is here can have."""
    if options.gate.fail_if or options.gate.junit is not None:
        message = "--fail-if and --junit: not with --in-cluster; steelyard report DIR has both"
        raise click.UsageError(message, ctx=context)
    if options.max_cost is not None or options.ttl is not None:
        message = "--max-cost and --ttl: not with --in-cluster; `steelyard plan` has both"
        raise click.UsageError(message, ctx=context)


def _require_no_job(context: click.Context) -> None:
    """Refuse options of a Job where there is none, rather than pass over them."""
    given = [name for name in _INSIDE if _is_typed(context, name)]
    if given:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{named}: only with --in-cluster", ctx=context)


def _is_typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _given(context: click.Context) -> list[str]:
    """Return what stands on the command line and would change a campaign, as typed there."""
    words = {
        "source": "an experiment",
        "budget": "--budget",
        "precision": "--precision",
        "fail_if": "--fail-if",
        "seed": "--seed",
        "out": "--out",
        "overrides": "--set",
        "target": "--target",
        "memory": "--memory",
        "cpus": "--cpus",
        "flags": "pgbench flags",
        "allow_existing": "--allow-existing",
        "context": "--context",
        "namespace": "--namespace",
        "dry_run": "--dry-run",
        "max_cost": "--max-cost",
        "ttl": "--ttl",
        "prices": "--prices",
    }
    return [
        word
        for name, word in words.items()
        if _is_typed(context, name) and context.params[name] not in (None, ())
    ]
