"""A synthetic campaign on Kubernetes: ways to lose no commit with a node, and what they cost."""

from dataclasses import replace
from functools import cache

from fakes.analyses import quick
from fakes.scenes import FACTS, Scene, record_of
from steelyard.answers.campaign import analyse
from steelyard.answers.durability.compute import with_trades
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import Status
from steelyard.core.experiment import EffectiveSetting, Workload
from steelyard.core.findings import Fact
from steelyard.core.kubernetes import class_facts
from steelyard.core.measurement import Environment, ServerEnvironment
from steelyard.core.places import Synchronous
from steelyard.core.stack import StorageClassFacts
from steelyard.core.target import CloudNativePgTarget

LOCAL = StorageClassFacts(
    name="local-path", provisioner="rancher.io/local-path", binding="WaitForFirstConsumer"
)
TWICE = StorageClassFacts(
    name="longhorn-2r",
    provisioner="driver.longhorn.io",
    binding="WaitForFirstConsumer",
    parameters={
        "numberOfReplicas": "2",
        "dataLocality": "best-effort",
        "replicaSoftAntiAffinity": "disabled",
    },
)
CLASSES: tuple[Fact, ...] = (*class_facts(LOCAL, is_default=True), *class_facts(TWICE))

ALONE = CloudNativePgTarget(
    storage_class="local-path", affinity='{"podAntiAffinityType": "required"}'
)
REQUIRED = replace(ALONE, instances=2, synchronous=Synchronous())
PREFERRED = replace(REQUIRED, synchronous=Synchronous(data_durability="preferred"))
REPLICATED = replace(ALONE, storage_class="longhorn-2r")
_TARGETS = {
    "local": ALONE,
    "standby-required": REQUIRED,
    "standby-preferred": PREFERRED,
    "longhorn-2r": REPLICATED,
}


def server(configuration: str, **settings: str) -> ServerEnvironment:
    """Return a server as it was found, with these settings and the usual delay."""
    shown = {
        "synchronous_commit": "on",
        "fsync": "on",
        "full_page_writes": "on",
        "wal_writer_delay": "200",
        **settings,
    }
    return ServerEnvironment(
        configuration=configuration,
        version="18.1",
        settings=tuple(EffectiveSetting(name=n, value=v) for n, v in shown.items()),
    )


@cache
def high_availability() -> CampaignAnalysis:
    """Return a synchronous standby, required and preferred, and replicated storage, weighed."""
    scene = Scene(
        name="a synchronous standby or replicated storage",
        configurations=tuple(_TARGETS),
        workloads=("reads", "writes", "tpcb-like"),
        clients=(1, 25),
        effects={
            (name, workload): effect
            for name, effect in (
                ("standby-required", -0.22),
                ("standby-preferred", -0.21),
                ("longhorn-2r", -0.31),
            )
            for workload in ("writes", "tpcb-like")
        },
        status=Status.DECIDED,
        max_blocks=20,
    )
    record = record_of(scene)
    configurations = tuple(
        replace(each, target=_TARGETS[each.name], settings=())
        for each in record.experiment.configurations
    )
    workloads = tuple(_named(each) for each in record.experiment.workloads)
    names = "ANY 1 (steelyard-2)"
    environment = Environment(
        facts=(*FACTS, *CLASSES),
        servers=tuple(
            server(each.name, synchronous_standby_names=names if "standby" in each.name else "")
            for each in configurations
        ),
    )
    return analyse(
        replace(
            record,
            experiment=replace(
                record.experiment, configurations=configurations, workloads=workloads
            ),
            environment=environment,
            command="steelyard run preset:high-availability",
        )
    )


def traded(**settings: dict[str, str]) -> CampaignAnalysis:
    """Return two local servers, ``default`` and ``fitted``, with these settings in force."""
    analysis = quick()
    names = [each.name for each in analysis.experiment.configurations]
    servers = tuple(server(name, **settings.get(name, {})) for name in names)
    environment = Environment(facts=(), servers=servers)
    compared = with_trades(analysis.comparisons, analysis.experiment, environment)
    return replace(analysis, comparisons=compared)


def _named(workload: Workload) -> Workload:
    return replace(workload, builtin="tpcb-like") if workload.name == "tpcb-like" else workload
