"""``steelyard kubernetes campaign``: what the Job of ``run --in-cluster`` runs in its pod."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.answers.results import CampaignAnalysis
    from steelyard.campaign.run.runner import Progress

_FILE = click.Path(path_type=Path)


@click.command("campaign")
@click.option(
    "--request",
    type=_FILE,
    default="/request/request.json.gz",
    help="The packed campaign; /request/request.json.gz.",
)
@click.option(
    "--record", type=_FILE, default="/record/campaign", help="Of the record; /record/campaign."
)
def command(request: Path, record: Path) -> None:
    """Run the campaign that `run --in-cluster` packed; where it has begun, go on with it.

    Nobody needs to type this: it is the command of the Job. What it prints is for `kubectl logs`.
    """
    from steelyard.cli.campaigns import (  # noqa: PLC0415
        show,
        write_reports,
    )
    from steelyard.cli.progress import PlainProgress  # noqa: PLC0415 - lazy
    from steelyard.record.directory import read_campaign  # noqa: PLC0415

    with PlainProgress() as progress:
        analysis = _work(request, record)(progress)
    show(analysis, record)
    write_reports(read_campaign(record), analysis, record)


def _work(request: Path, record: Path) -> "Callable[[Progress], CampaignAnalysis]":
    """Return how to run it: from its beginning, or from where a pod that is gone left it."""
    from steelyard.campaign.away.packing import unpack  # noqa: PLC0415
    from steelyard.campaign.run import session  # noqa: PLC0415 - lazy
    from steelyard.gateways.doors import system_doors  # noqa: PLC0415
    from steelyard.record.directory import has_begun  # noqa: PLC0415

    doors = system_doors()
    if has_begun(record):
        return lambda progress: session.resume_campaign(record, doors, progress)
    asked = unpack(request)
    return lambda progress: session.new_campaign(asked, record, doors, progress)
