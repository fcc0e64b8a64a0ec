"""``steelyard capacity``: the most that a server sustains, and its latency below that."""

import click

from steelyard.cli.options import (
    JOB_OPTIONS,
    PATH,
    SEED,
    GeneratorCommand,
    job_options,
    no_verdict_option,
    output_option,
    verbose_option,
)


@click.command(
    "capacity",
    cls=GeneratorCommand,
    usual="clients scale builtin rate slo run-time budget dir dry-run output yes no-verdict",
    epilog="pgbench flags follow `--`: steelyard capacity 17 -- --random-seed=7",
)
@click.argument("place", metavar="TARGET | FILE")
@click.option(
    "-c", "--clients", type=click.IntRange(1), help="Sessions of the open loops (default: 16)."
)
@click.option("-s", "--scale", type=click.IntRange(1), help="Scale factor (default: 10).")
@click.option("-b", "--builtin", metavar="LIST", help="pgbench's scripts (default: select-only).")
@click.option("-M", "--protocol", metavar="NAME", help="Query mode (default: prepared).")
@click.option(
    "--rate", metavar="LIST", help="Rates as shares of the capacity (default: 50%,70%,90%)."
)
@click.option(
    "--slo", metavar="GOAL", help="Find the highest rate that keeps this goal: 'p99 < 10ms'."
)
@click.option("--run-time", metavar="TIME", help="Length of a run (default: 5s).")
@click.option("--budget", metavar="TIME", help="End after this long (default: 10m).")
@click.option("--seed", type=SEED, help="Seed of the order; drawn if not given.")
@click.option("--dir", "out", type=PATH, metavar="DIR", help="Campaign directory.")
@click.option(
    "--allow-existing", is_flag=True, help="Measure in an endpoint's database that is named."
)
@click.option("--dry-run", is_flag=True, help="Show design, minutes and disk; start nothing.")
@output_option()
@click.option("--quiet", is_flag=True, help="Show no progress.")
@verbose_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@no_verdict_option
@job_options
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Find the highest rate a server sustains, and its latency at shares of it.

    TARGET is a URI, a version, a directory with PostgreSQL's programs, `embedded` or `local`.
    Closed loops with 1, 2, 4 clients and so on find the capacity; then transactions are started
    at 50, 70 and 90 % of it, whatever the server does, and their latency counts from the scheduled
    start. With `--slo` the highest rate that keeps a latency goal is told, with its interval.

    Of a FILE or a preset all configurations are measured at the same rates. The record is like that
    of `steelyard run`, and `steelyard run --resume DIR` goes on with it.
    """
    from steelyard.cli.attaching import JobOptions
    from steelyard.cli.questions import CapacityOptions, measure_capacity

    params = dict(context.params)
    job = JobOptions(**{name: params.pop(name) for name in JOB_OPTIONS})
    measure_capacity(CapacityOptions(**params, job=job))
