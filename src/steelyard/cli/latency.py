"""``steelyard latency``: percentiles of log files of pgbench, or of a campaign."""

from pathlib import Path

import click

_COLUMNS = ("lag", "retries", "lag,retries")


@click.command("latency")
@click.argument("paths", nargs=-1, required=True, metavar="[NAME=]LOG... | DIR")
@click.option(
    "--columns",
    type=click.Choice(_COLUMNS),
    help="What the seventh column is, where a log has seven: no line of it tells.",
)
@click.option("--ramp", metavar="TIME", help="Leave out what ended before, such as 2s.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with the chart."
)
@click.option(
    "--svg", type=click.Path(path_type=Path), metavar="FILE", help="Write the chart alone."
)
@click.option(
    "--hlog",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write an HdrHistogram log: counts by second, a tag per script.",
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Show percentiles of every transaction in log files of pgbench, or of the campaign in DIR.

    LOG is what `pgbench --log` wrote, compressed or not. All files are one run; NAME=LOG gives
    runs names and shows them side by side, and files without a name belong to the run named last:
    `closed=a.log.1 a.log.2 open=b.log.*`. Logs of single runs have no intervals; `steelyard run`
    gives them. Aggregated logs have no percentiles.
    """
    from steelyard.cli.percentiles import LatencyOptions, show_latency

    show_latency(LatencyOptions(**context.params))
