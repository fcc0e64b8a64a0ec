"""``steelyard noise``: what this set-up can and cannot see."""

from pathlib import Path

import click

_DEFAULT = "preset:quick"
_SWITCHES = ("session", "reload", "restart")


@click.command(
    "noise", epilog="pgbench flags follow `--`: steelyard noise orders.yaml -- --random-seed=7"
)
@click.argument("source", default=_DEFAULT, metavar="[FILE | preset:NAME]")
@click.argument("flags", nargs=-1, metavar="[-- PGBENCH_FLAGS]")
@click.option("--budget", metavar="TIME", help="End after this long, such as 20m.")
@click.option(
    "--switch",
    type=click.Choice(_SWITCHES),
    help="How the arms change places; as the experiment's differences need, if not given.",
)
@click.option("--seed", type=click.IntRange(0), help="Seed of the order; drawn if not given.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Campaign directory.")
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
    """Measure what this set-up can and cannot see.

    Takes an experiment (`preset:quick` without an argument) and weighs its baseline against
    itself, in the same blocks. What differs then is noise: the report says what difference the
    experiment can see in 10, 30, 60 and 120 minutes, what the noise is made of, and which length
    of slices to use. Ten minutes, or as long as twelve blocks take, unless --budget is given.

    The profile is kept in the cache, and later plans use it; `steelyard clean --cache` removes it.
    An interrupted campaign goes on with `steelyard run --resume DIR`.
    """
    from steelyard.cli import launching  # noqa: PLC0415 - lazy
    from steelyard.cli.noise import measure_noise  # noqa: PLC0415

    params = dict(context.params)
    if params["source"].startswith("-"):
        # `noise -- --random-seed=7`: the file was left out, so the first flag stands in its place.
        params["flags"] = (params["source"], *params["flags"])
        params["source"] = _DEFAULT
    switch = params.pop("switch")
    options = launching.RunOptions(precision=None, resume=None, **params)
    measure_noise(options, switch)
