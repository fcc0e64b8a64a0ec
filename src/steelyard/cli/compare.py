"""``steelyard compare``: two configurations of one campaign, or several campaigns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from steelyard.cli.completion import complete_campaign, complete_compared
from steelyard.cli.options import gate_options, output_option, renaming
from steelyard.core.wording import InputError

_USAGE: Final = "DIR REFERENCE CONFIGURATION | DIR1 DIR2..."


@click.command("compare")
@click.argument("directory", type=click.Path(path_type=Path), shell_complete=complete_campaign)
@click.argument(
    "others",
    nargs=-1,
    metavar="REFERENCE CONFIGURATION | DIR2...",
    shell_complete=complete_compared,
)
@click.option(
    "--as",
    "renamed",
    multiple=True,
    metavar="OLD=NEW",
    help="Campaigns: count configuration OLD as NEW, whose role it has; may be given several"
    " times.",
)
@output_option()
@gate_options
def command(
    directory: Path,
    others: tuple[str, ...],
    *,
    renamed: tuple[str, ...],
    form: str,
    **gate: Any,  # noqa: ANN401 - the options of a gate
) -> int:
    """Compare two configurations of one campaign, or several campaigns.

    `compare DIR REFERENCE CONFIGURATION` takes two configurations of the campaign in DIR: their
    blocks are interleaved. A pair that the campaign's plan does not compare is labelled as an
    additional analysis.

    `compare DIR1 DIR2...` takes campaigns: not interleaved, so time is confounded. A table has a
    row per workload and load and a column per environment; then each campaign is set against the
    first. What differs between the two comes first, and no word is stronger than "differs".

    --gate, --undecided and --junit are for two configurations of one campaign: campaigns were
    measured at different times.
    """
    if not others:
        raise click.UsageError(f"compare takes {_USAGE}")
    # A configuration has no journal.
    are_campaigns = all((Path(name) / "journal.jsonl").exists() for name in others)
    if len(others) == 2 and not (renamed or are_campaigns):
        return _configurations(directory, *others, form=form, gate=gate)
    directories = [directory, *map(Path, others)]
    if gate["conditions"] or gate["junit"] is not None:
        from steelyard.record.directory import read_campaign

        for each in directories:
            read_campaign(each)  # first what is not there, which no gate would help
        raise InputError(
            "campaigns were measured at different times, so no gate can rest on them",
            hint="Measure both configurations in one campaign: steelyard run --gate.",
        )
    _campaigns(directories, dict(map(renaming, renamed)), form=form)
    return 0


def _configurations(
    directory: Path, reference: str, configuration: str, *, form: str, gate: Mapping[str, Any]
) -> int:
    from steelyard.answers.campaign import analyse
    from steelyard.answers.comparison import compare_pair, pair_document, pair_summary
    from steelyard.cli import campaigns
    from steelyard.record.directory import read_campaign

    record = read_campaign(directory)
    pair = compare_pair(record, analyse(record), reference=reference, configuration=configuration)
    failed = campaigns.unprinted(
        lambda: campaigns.print_answer(
            form, lambda: pair_document(pair), lambda: pair_summary(pair)
        )
    )
    return campaigns.ended(campaigns.Gate(**gate).code(pair.campaign), failed)


def _campaigns(directories: Sequence[Path], names: Mapping[str, str], *, form: str) -> None:
    from steelyard.answers.environments import (
        compare_environments,
        environments_document,
        environments_summary,
    )
    from steelyard.cli import campaigns
    from steelyard.record.directory import read_campaign

    found = compare_environments([read_campaign(each) for each in directories], names)
    campaigns.print_answer(
        form, lambda: environments_document(found), lambda: environments_summary(found)
    )
