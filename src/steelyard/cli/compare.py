"""``steelyard compare``: two configurations of one campaign, or two campaigns."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from steelyard.cli.completion import complete_campaign, complete_compared
from steelyard.cli.options import gate_options
from steelyard.core.errors import InputError

if TYPE_CHECKING:
    from steelyard.answers.results import CampaignAnalysis

_USAGE: Final = "DIR REFERENCE CONFIGURATION | DIR1 DIR2"


@click.command("compare")
@click.argument("directory", type=click.Path(path_type=Path), shell_complete=complete_campaign)
@click.argument(
    "others",
    nargs=-1,
    metavar="REFERENCE CONFIGURATION | DIR2",
    shell_complete=complete_compared,
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@gate_options
def command(
    directory: Path,
    others: tuple[str, ...],
    *,
    as_json: bool,
    fail_if: tuple[str, ...],
    undecided: str,
    junit: Path | None,
) -> int:
    """Compare two configurations of one campaign, or two campaigns.

    `compare DIR REFERENCE CONFIGURATION` takes two configurations of the campaign in DIR: their
    blocks are interleaved. A pair that the campaign's plan does not compare is labelled as an
    additional analysis.

    `compare DIR1 DIR2` takes two campaigns: not interleaved, so time is confounded. What differs
    between the two comes first, and no word is stronger than "differs".
    """
    if len(others) == 2:
        analysis = _configurations(directory, *others, as_json=as_json)
        from steelyard.cli.campaigns import Gate

        return Gate(fail_if=fail_if, undecided=undecided, junit=junit).code(analysis)
    if len(others) != 1:
        raise click.UsageError(f"compare takes {_USAGE}")
    if fail_if or junit is not None:
        raise InputError(
            "two campaigns were measured at different times, so no gate can rest on them",
            hint="Measure both configurations in one campaign: steelyard run --fail-if.",
        )
    _campaigns(directory, Path(others[0]), as_json=as_json)
    return 0


def _configurations(
    directory: Path, reference: str, configuration: str, *, as_json: bool
) -> "CampaignAnalysis":
    from steelyard.answers.campaign import analyse
    from steelyard.answers.comparison import compare_pair, pair_document, pair_summary
    from steelyard.cli import campaigns
    from steelyard.record.directory import read_campaign

    record = read_campaign(directory)
    pair = compare_pair(record, analyse(record), reference=reference, configuration=configuration)
    if as_json:
        campaigns.print_json(pair_summary(pair))
    else:
        campaigns.print_whole(pair_document(pair))
    return pair.campaign


def _campaigns(first: Path, second: Path, *, as_json: bool) -> None:
    from steelyard.answers.comparison import across_document, across_summary, compare_campaigns
    from steelyard.cli import campaigns
    from steelyard.record.directory import read_campaign

    pair = compare_campaigns(read_campaign(first), read_campaign(second))
    if as_json:
        campaigns.print_json(across_summary(pair))
        return
    campaigns.print_whole(across_document(pair))
