"""Facts of one Linux machine from its own files."""

from collections.abc import Mapping
from dataclasses import replace

from steelyard.gateways.host import Host
from steelyard.model.linux_facts import LinuxFacts
from steelyard.model.stack_facts import Origin
from steelyard.tuning.facts.cpus import cpu_facts
from steelyard.tuning.facts.devices import balloon_fact, device_fact
from steelyard.tuning.facts.found import Finds, attempted, origins_of, unknown, values_of
from steelyard.tuning.facts.identity import identity_facts
from steelyard.tuning.facts.memory import memory_facts
from steelyard.tuning.facts.pools import pool_facts
from steelyard.tuning.facts.processes import pool_users
from steelyard.tuning.facts.topology import topology_facts

_LAYER = "linux"
_LATER = "it takes a measurement, which nobody took"

Sighted = tuple[LinuxFacts, dict[str, Origin]]


def collect_linux(host: Host, data_directory: str | None = None) -> Sighted:
    """Return what the files of a machine say at one moment, and the origins below ``linux``.

    Args:
        host: The machine.
        data_directory: Of the database, whose disk is looked at; its links are resolved.
    """
    identity = identity_facts(host)
    virtual = {None: None, "none": False}.get(identity["virtualization"].value, True)
    finds = {
        **identity,
        **topology_facts(host),
        **memory_facts(host),
        **pool_facts(host),
        **cpu_facts(host, virtual=virtual),
        "steal_fraction": unknown(_LATER),
        "balloon": balloon_fact(host),
        "pool_users": pool_users(host),
        "device": attempted("the disk", lambda: device_fact(host, data_directory)),
        "ping_pong": unknown(_LATER),
    }
    return LinuxFacts(**values_of(finds)), origins_of(finds, _LAYER)


def with_finds(facts: LinuxFacts, origins: Mapping[str, Origin], finds: Finds) -> Sighted:
    """Return the facts with others that were found later."""
    return replace(facts, **values_of(finds)), {**origins, **origins_of(finds, _LAYER)}
