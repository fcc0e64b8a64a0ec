"""Facts of one Linux machine from its own files."""

from dataclasses import dataclass

from steelyard.gateways.host import Host
from steelyard.model.linux_facts import LinuxFacts
from steelyard.model.stack_facts import Origin
from steelyard.tuning.facts.cpus import cpu_facts, steal
from steelyard.tuning.facts.devices import balloon_fact, device_fact
from steelyard.tuning.facts.found import Found, origins_of, unknown, values_of
from steelyard.tuning.facts.identity import identity_facts
from steelyard.tuning.facts.memory import memory_facts
from steelyard.tuning.facts.pools import pool_facts
from steelyard.tuning.facts.processes import pool_users
from steelyard.tuning.facts.topology import topology_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideFiles:
    """What the files of a machine do not say.

    Attributes:
        later: The same machine some time later; None: nothing that takes time is told.
        data_directory: Of the database, links resolved.
        ping_pong: What a wake-up costs, or why it was not measured.
        instance_type: From the cloud's metadata, or None where nobody asked.
    """

    later: Host | None = None
    data_directory: str | None = None
    ping_pong: Found = unknown("it was not measured")  # noqa: RUF009 - frozen
    instance_type: Found | None = None


def collect_linux(
    host: Host, beside: BesideFiles | None = None
) -> tuple[LinuxFacts, dict[str, Origin]]:
    """Return the facts of a machine, and their origins below ``linux``."""
    beside = beside or BesideFiles()
    identity = identity_facts(host)
    virtual = {None: None, "none": False}.get(identity["virtualization"].value, True)
    late = unknown("nobody looked twice") if beside.later is None else steal(host, beside.later)
    finds = {
        **identity,
        **topology_facts(host),
        **memory_facts(host),
        **pool_facts(host),
        **cpu_facts(host, virtual=virtual),
        "steal_fraction": late,
        "balloon": balloon_fact(host),
        "pool_users": pool_users(host),
        "device": device_fact(host, beside.data_directory),
        "ping_pong": beside.ping_pong,
    }
    if beside.instance_type is not None:
        finds["instance_type"] = beside.instance_type
    return LinuxFacts(**values_of(finds)), origins_of(finds, "linux")
