"""From journal lines to the campaign they tell of."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.model.campaign import BlockOutcome, CampaignRecord
from steelyard.model.errors import RecordError
from steelyard.model.plan import Status
from steelyard.record.entries import (
    BlockEnded,
    BlockStarted,
    Created,
    Ended,
    Entry,
    EnvironmentRead,
    Line,
    Noted,
    Planned,
    Provisioned,
    Removed,
    RunFinished,
    Started,
    SustainedFinished,
)

IN_FLIGHT = "Steelyard ended while it ran"


def replay(lines: Sequence[Line]) -> CampaignRecord:
    """Return the campaign that journal lines tell of.

    Raises:
        RecordError: The journal does not begin with the start of a campaign.
    """
    start = _start(lines)
    entries = [line.entry for line in lines]
    plan = [entry.plan for entry in entries if isinstance(entry, Planned)]
    planned_at = [line.elapsed_s for line in lines if isinstance(line.entry, Planned)]
    environment = [entry.environment for entry in entries if isinstance(entry, EnvironmentRead)]
    return CampaignRecord(
        campaign_id=start.campaign_id,
        experiment=start.experiment,
        status=_status(entries),
        plan=plan[-1] if plan else None,
        environment=environment[-1] if environment else None,
        runs=tuple(entry.run for entry in entries if isinstance(entry, RunFinished)),
        blocks=_outcomes(entries),
        findings=tuple(entry.finding for entry in entries if isinstance(entry, Noted)),
        started_at=lines[0].at,
        elapsed_s=lines[-1].elapsed_s,
        command=start.command,
        sustained=tuple(entry.run for entry in entries if isinstance(entry, SustainedFinished)),
        planned_at_s=planned_at[-1] if planned_at else None,
        made=tuple(entry.server for entry in entries if isinstance(entry, Provisioned)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a campaign stands, as far as those need to know who clear up after it.

    Attributes:
        left: Made or changed outside the record and not undone again, last made first.
        ever: All that was made or changed, undone or not.
    """

    campaign_id: str
    status: Status
    left: tuple[Created, ...]
    ever: tuple[Created, ...]


def standing(lines: Sequence[Line]) -> Standing:
    """Return where the campaign stands that journal lines tell of.

    Raises:
        RecordError: The journal does not begin with the start of a campaign.
    """
    return Standing(
        campaign_id=_start(lines).campaign_id,
        status=_status([line.entry for line in lines]),
        left=_left(lines),
        ever=tuple(line.entry for line in lines if isinstance(line.entry, Created)),
    )


def _start(lines: Sequence[Line]) -> Started:
    if not lines or not isinstance(lines[0].entry, Started):
        raise RecordError(
            "the journal does not begin with the start of a campaign",
            hint="Name the directory of a campaign.",
        )
    return lines[0].entry


def _left(lines: Sequence[Line]) -> tuple[Created, ...]:
    left: list[Created] = []
    for line in lines:
        entry = line.entry
        if isinstance(entry, Created):
            left.append(entry)
        elif isinstance(entry, Removed):
            gone = [m for m in left if (m.resource, m.name) == (entry.resource, entry.name)]
            if gone:
                left.remove(gone[0])
    return tuple(reversed(left))


def _status(entries: Sequence[Entry]) -> Status:
    last = entries[-1]
    for entry in reversed(entries):
        if not isinstance(entry, Removed):  # clearing up comes after the end
            last = entry
            break
    return last.status if isinstance(last, Ended) else Status.RUNNING


def _outcomes(entries: Sequence[Entry]) -> tuple[BlockOutcome, ...]:
    """Return one outcome per try; a try that never ended was in flight at a death."""
    outcomes: list[BlockOutcome] = []
    open_try: BlockStarted | None = None
    for entry in entries:
        if isinstance(entry, BlockStarted):
            if open_try is not None:
                outcomes.append(_in_flight(open_try))
            open_try = entry
        elif isinstance(entry, BlockEnded):
            outcomes.append(entry.outcome)
            open_try = None
    if open_try is not None:
        outcomes.append(_in_flight(open_try))
    return tuple(outcomes)


def _in_flight(started: BlockStarted) -> BlockOutcome:
    return BlockOutcome(
        index=started.index, attempt=started.attempt, complete=False, reason=IN_FLIGHT
    )
