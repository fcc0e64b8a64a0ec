"""``steelyard prices``: what plans and reports take for the prices of rented servers."""

from pathlib import Path

import click

_PRICE_LIST_REGION = "us-east-1"  # the Price List API answers in few regions, of all of them


@click.command("prices")
@click.option("--update", is_flag=True, help="Ask AWS for the prices of --region.")
@click.option("--region", metavar="REGION", help="Whose prices are asked for.")
@click.option(
    "--prices",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The file to start from; the one that comes with Steelyard if not given.",
)
def command(*, update: bool, region: str | None, prices: Path | None) -> None:
    """Print a price file, brought up to date on request.

    Only verified prices of AWS are in the one that comes with Steelyard. What is printed takes its
    place by --prices FILE.
    """
    from steelyard.gateways.files import read_text
    from steelyard.targets.prices import load_prices, own_text

    load_prices(prices)
    text = own_text() if prices is None else read_text(prices) or ""
    if update:
        if region is None:
            raise click.UsageError("--update needs --region.")
        text = _updated(text, region)
    elif region is not None:
        raise click.UsageError("--region is for --update.")
    click.echo(text, nl=False)


def _updated(text: str, region: str) -> str:
    from steelyard.core.wording import format_utc
    from steelyard.gateways.doors import system_doors
    from steelyard.targets.prices import updated

    doors = system_doors()
    given = {"regionCode": region, "locationType": "AWS Region"}
    filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in given.items()]
    listed = doors.aws.connect(_PRICE_LIST_REGION).texts(
        "pricing", "GetProducts", "PriceList", ServiceCode="AmazonRDS", Filters=filters
    )
    return updated(text, region, listed, format_utc(doors.clock.now())[:10])
