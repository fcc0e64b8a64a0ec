"""Records of others: what they claim is shown, never done; taking one over is the user's word."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from steelyard.experiment import registry
from steelyard.experiment.doors import Doors
from steelyard.model.campaign import CampaignRecord
from steelyard.model.errors import PreflightError
from steelyard.model.experiment import Treatment
from steelyard.model.workload import Workload
from steelyard.platforms.endpoint import undoing
from steelyard.platforms.redis_endpoint import undoing as redis_undoing
from steelyard.record.directory import CampaignDirectory, read_campaign, read_standing
from steelyard.record.entries import Created, Removed

_TREATMENT: Final = TypeAdapter(Treatment)
_WORKLOAD: Final = TypeAdapter(Workload)


def require_ours(record: CampaignRecord, path: Path) -> None:
    """Refuse to go on with a campaign that this account did not begin here.

    Raises:
        PreflightError: It would run somebody else's commands with this user's rights.
    """
    if not registry.began(record.campaign_id, path, record.experiment):
        raise PreflightError(
            f"{path} holds a campaign that this account did not begin here: its cache does not know"
            " it, and going on would use its servers and run its commands with your rights",
            hint=f"Look at what it does with `steelyard clean --adopt --dry-run {path}`; `steelyard"
            f" clean --adopt {path}` takes it over.",
        )


def claim(made: Created) -> Iterator[str]:
    """Yield what undoing would have done, exactly, for somebody who does it by hand or not."""
    if made.thing is not None:
        thing = made.thing
        yield f"{thing.label}, as user {thing.user}"
        of = redis_undoing if thing.resource.is_of_redis else undoing
        yield from (f"  {line}" for line in of.described(thing))
    elif made.placed is not None:
        placed = made.placed
        yield f"{placed.label} ({placed.server})"
        where = f" -n {placed.ref.namespace}" if placed.ref.namespace else ""
        what = f"{placed.ref.kind.name} {placed.ref.name}{where}"
        patch = f" --type merge -p {shlex.quote(placed.before)}" if placed.before else ""
        yield f"  kubectl {'patch' if placed.before else 'delete'} {what}{patch}"
    elif made.knob is not None:
        yield f"knob {made.knob.label}; it was"
        yield f"  {made.knob.snapshot}"
    else:
        yield f"{'control group' if made.resource == 'cgroup' else made.resource} {made.name}"


def does(record: CampaignRecord) -> Iterator[str]:
    """Yield what going on with a campaign would use and run, by configuration."""
    for treatment in record.experiment.treatments:
        yield f"configuration {treatment.name}:"
        yield f"  {_TREATMENT.dump_json(treatment, exclude_defaults=True).decode()}"
    if record.experiment.generator_flags:
        yield f"flags of the load generator: {shlex.join(record.experiment.generator_flags)}"
    for workload in record.experiment.workloads:
        yield f"workload {workload.name}:"
        yield f"  {_WORKLOAD.dump_json(workload, exclude_defaults=True).decode()}"


def adopt(path: Path, shown: CampaignRecord, doors: Doors) -> None:
    """Take a record over: what it lists outside counts as dealt with, and nothing there is touched.

    Args:
        path: Its directory.
        shown: As the user has seen it.
        doors: For the clock.

    Raises:
        PreflightError: It is a copy of one that is here, lists what is this account's, or is not
            what was shown any more.
        RecordError: There is none, it is damaged, or another process holds it.
    """
    record = read_campaign(path)
    if record != shown:
        raise PreflightError(
            f"{path} was changed while it was looked at", hint="Look at it again, when it is quiet."
        )
    own = registry.directories(record.campaign_id)[:1]
    if own and not registry.is_noted(record.campaign_id, path):
        raise PreflightError(
            f"{path} is a copy of the record in {own[0]}",
            hint=f"Go on with that one, or remove it first: steelyard clean {own[0]}",
        )
    stands = read_standing(path)
    ours, others = registry.known(record.campaign_id, path, stands)
    if ours:
        raise PreflightError(
            f"{path} lists {ours[0].name}, which this account's campaign left behind",
            hint=f"Remove that first: steelyard clean {path}",
        )
    directory = CampaignDirectory.reopen(path, doors.clock)
    try:
        for made in others:
            directory.journal.append(Removed(resource=made.resource, name=made.name))
        if not stands.status.is_finished:
            registry.register(record.campaign_id, path, record.experiment)
    finally:
        directory.close()
