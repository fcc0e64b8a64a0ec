"""``steelyard noise``: what this set-up can and cannot see."""

import click

from steelyard.cli.options import (
    JOB_OPTIONS,
    GeneratorCommand,
    campaign_options,
    job_options,
    source_argument,
)

_SWITCHES = ("session", "reload", "restart")


@click.command(
    "noise",
    cls=GeneratorCommand,
    usual="budget switch override target dir dry-run output quiet yes no-verdict",
    epilog="pgbench flags follow `--`: steelyard noise orders.yaml -- --random-seed=7",
)
@source_argument
@click.option("--budget", metavar="TIME", help="End after this long, such as 20m.")
@click.option(
    "--switch",
    type=click.Choice(_SWITCHES),
    help="How to switch between the two (default: as the experiment's differences need).",
)
@campaign_options
@job_options
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
    from steelyard.cli import launching
    from steelyard.cli.attaching import JobOptions
    from steelyard.cli.questions import measure_noise

    params = dict(context.params)
    switch = params.pop("switch")
    job = JobOptions(**{name: params.pop(name) for name in JOB_OPTIONS})
    options = launching.RunOptions(width=None, resume=None, job=job, **params)
    measure_noise(options, switch)
