"""From an experiment to the engine and platforms that run it.

The one place that knows which engines and which kinds of target there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from steelyard.engines.engine import Engine
from steelyard.engines.postgres.factory import Surroundings, postgres_engine
from steelyard.experiment.doors import Doors
from steelyard.experiment.endpoints import assemble_endpoints
from steelyard.experiment.hooks import Hooks
from steelyard.experiment.huge_page_needs import HugePageNeeds
from steelyard.experiment.stack_doors import stack_doors
from steelyard.experiment.stack_settings import StackMeans, StackSettings
from steelyard.gateways.files import cache_directory
from steelyard.model.experiment import Experiment, Layer
from steelyard.model.outside import OnServer
from steelyard.model.stack import Knob
from steelyard.model.target import LocalTarget
from steelyard.platforms.local.account import server_account
from steelyard.platforms.local.groups import GroupPlan, ServerGroups
from steelyard.platforms.local.platform import LocalOptions, LocalPlatform
from steelyard.platforms.local.staging import staged
from steelyard.platforms.platform import Ledger, Platform
from steelyard.tuning.applying.turning import SnapshotLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What runs an experiment.

    Attributes:
        platforms: Of each treatment, by name; treatments on one target share one.
        stack: What treatments set outside their servers; None where none does.
    """

    engine: Engine
    platforms: Mapping[str, Platform]
    stack: StackSettings | None = None


class CampaignLedger(Ledger, SnapshotLedger, Protocol):
    """Notes what platforms make, and what knobs of the stack were before."""


class NoLedger:
    """A ledger for looking only: nothing is made."""

    def created(self, directory: Path) -> None:
        """Nothing is made."""

    def removed(self, directory: Path) -> None:
        """Nothing was made."""

    def changed(self, thing: OnServer) -> None:
        """Nothing is changed."""

    def undone(self, thing: OnServer) -> None:
        """Nothing was changed."""

    def group_made(self, directory: Path) -> None:
        """Nothing is made."""

    def group_removed(self, directory: Path) -> None:
        """Nothing was made."""

    def kept(self, knob: Knob) -> str | None:
        """Nothing was turned."""

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Nothing is turned."""

    def put_back(self, knob: Knob) -> None:
        """Nothing was turned."""


def assemble(
    experiment: Experiment,
    doors: Doors,
    *,
    campaign_id: str = "",
    ledger: CampaignLedger | None = None,
) -> Assembly:
    """Return engine and platforms of an experiment; nothing is started yet.

    Args:
        experiment: What is to run.
        doors: To the outside.
        campaign_id: Names the live data; not needed for looking only.
        ledger: Where the platforms note what they make; None for looking only, when no program
            is copied either.

    Raises:
        PreflightError: Programs are absent.
        PrivilegeError: There is no account to run the server as.
        TargetError: An endpoint cannot be reached.
    """
    if experiment.endpoint_targets:
        engine, platforms = assemble_endpoints(
            experiment, doors, campaign_id=campaign_id, ledger=ledger or NoLedger()
        )
        return Assembly(
            engine=engine,
            platforms=platforms,
            stack=_stack(experiment, doors, ledger or NoLedger(), None),
        )
    return _local(experiment, doors, campaign_id=campaign_id, ledger=ledger)


def _local(
    experiment: Experiment, doors: Doors, *, campaign_id: str, ledger: CampaignLedger | None
) -> Assembly:
    targets = experiment.local_targets
    account = server_account({target.run_as for target in targets.values() if target.run_as})
    reach = partial(staged, account=account, processes=doors.processes)
    surroundings = Surroundings(
        processes=doors.processes,
        sql=doors.sql,
        account=account,
        reach=reach if ledger is not None else _where_it_is,
    )
    engine = postgres_engine(experiment, surroundings)
    limited = frozenset(
        key for treatment in experiment.treatments for key in treatment.asked(Layer.CGROUP)
    )
    by_place: dict[tuple[Path, int | None], Platform] = {}
    for target in targets.values():
        root, port = data_root(target), target.port
        if (root, port) not in by_place:
            options = LocalOptions(root=root, campaign_id=campaign_id, account=account, port=port)
            number = f"-{len(by_place) + 1}" if by_place else ""
            plan = GroupPlan(name=f"steelyard-{campaign_id}{number}", keys=limited, place=root)
            noted = ledger or NoLedger()
            groups = ServerGroups(plan, doors.cgroups, noted, doors.clock) if limited else None
            by_place[root, port] = LocalPlatform(
                options, noted, doors.processes, doors.clock, groups
            )
    platforms = {name: by_place[data_root(t), t.port] for name, t in targets.items()}
    needs = HugePageNeeds(
        {name: engine.program(name).installation for name in targets},
        doors.processes,
        account,
        doors.host,
    )
    stack = _stack(experiment, doors, ledger or NoLedger(), needs)
    return Assembly(engine=engine, platforms=platforms, stack=stack)


def _stack(
    experiment: Experiment, doors: Doors, ledger: CampaignLedger, needs: HugePageNeeds | None
) -> StackSettings | None:
    """Return what the treatments set outside their servers; None where none does."""
    if not any(
        treatment.manual or treatment.asked(Layer.LINUX) or treatment.asked(Layer.KVM)
        for treatment in experiment.treatments
    ):
        return None
    places = {name: data_root(target) for name, target in experiment.local_targets.items()}
    means = StackMeans(
        doors=stack_doors(doors),
        host=doors.host,
        latency=doors.latency,
        hooks=Hooks(processes=doors.processes, operator=doors.operator),
        ledger=ledger,
        devices={name: doors.cgroups.device(place) for name, place in places.items()},
        needs=needs,
    )
    return StackSettings(experiment, means)


def _where_it_is(programs: Path, _parts: tuple[Path, ...], _label: str) -> Path:
    return programs


def data_root(target: LocalTarget) -> Path:
    """Return where a target's prepared states and live data lie."""
    return Path(target.directory).absolute() if target.directory else cache_directory()
