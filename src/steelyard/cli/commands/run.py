"""``steelyard run``: from an experiment to verdicts."""

from pathlib import Path

import click

_DEFAULT = "preset:quick"


@click.command(
    "run", epilog="pgbench flags follow `--`: steelyard run orders.yaml -- --random-seed=7"
)
@click.argument("source", default=_DEFAULT, metavar="[FILE | preset:NAME]")
@click.argument("flags", nargs=-1, metavar="[-- PGBENCH_FLAGS]")
@click.option("--budget", metavar="TIME", help="End after this long, such as 20m.")
@click.option("--precision", metavar="SHARE", help="Stop at this half-width, such as 1%.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the order; drawn if not given.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Campaign directory.")
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="DIR", help="Go on with this campaign."
)
@click.option(
    "--target",
    metavar="WHERE",
    help="Run all treatments there: a URI, a version, a directory, or YAML as below `target:`.",
)
@click.option(
    "--allow-existing", is_flag=True, help="Measure in an endpoint's database that is named."
)
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change the file.")
@click.option("--dry-run", is_flag=True, help="Show schedule, minutes and disk; start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json, not the report.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--yes", is_flag=True, help="Start even if the budget ends before the first look.")
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Weigh the treatments of an experiment.

    Without an argument `preset:quick`: PostgreSQL's defaults against settings fitted to this
    machine, in about six minutes. Record and reports lie in the campaign directory:
    campaigns/TIME-NAME unless --out is given.
    """
    from steelyard.cli import launching  # noqa: PLC0415 - lazy

    params = dict(context.params)
    if params["source"].startswith("-"):
        # `run -- --random-seed=7`: the file was left out, so the first flag stands in its place.
        params["flags"] = (params["source"], *params["flags"])
        params["source"] = _DEFAULT
    options = launching.RunOptions(**params)
    if options.resume is not None:
        launching.resume(options, given=_given(context))
    elif options.dry_run:
        launching.dry_run(options)
    else:
        launching.run(options)


def _given(context: click.Context) -> list[str]:
    """Return what stands on the command line and would change a campaign, as typed there."""
    on_command_line = click.core.ParameterSource.COMMANDLINE
    words = {
        "source": "an experiment",
        "budget": "--budget",
        "precision": "--precision",
        "seed": "--seed",
        "out": "--out",
        "overrides": "--set",
        "target": "--target",
        "flags": "pgbench flags",
        "allow_existing": "--allow-existing",
        "dry_run": "--dry-run",
    }
    return [
        word
        for name, word in words.items()
        if context.get_parameter_source(name) is on_command_line
        and context.params[name] not in (None, ())
    ]
