"""What no plan is made of: a request that contradicts itself, or that no layer would accept."""

import re
from typing import Final

from steelyard.model.errors import InputError
from steelyard.model.stack import Place, StackRequest
from steelyard.model.units import KIB, format_bytes
from steelyard.tuning.planning.postgres_settings import NEWEST, OLDEST

_LEAST_BUFFERS: Final = 128 * KIB  # of the server
# More than superuser_reserved_connections, whose default is 3: with fewer it does not start.
_FEWEST_CONNECTIONS: Final = 4
_LEAST_HUGE_PAGE: Final = 64 * KIB  # of any architecture
_LONGEST_BRIDGE: Final = 15  # characters that Linux takes
_BRIDGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
# Of an object of Kubernetes whose name is a label of its services; CloudNativePG takes 50.
_OF_CLUSTER: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,48}[a-z0-9])?")
_OF_GROUP: Final = re.compile(r"[A-Za-z](?:-?[A-Za-z0-9]){0,120}")
_OF_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NAMES: Final = {
    Place.LOCAL: (_OF_FILE, "letters, digits, `.`, `_` and `-`"),
    Place.KVM: (_OF_FILE, "letters, digits, `.`, `_` and `-`"),
    Place.CNPG: (_OF_CLUSTER, "50 small letters, digits and `-` at most, a letter first"),
    Place.RDS: (_OF_GROUP, "letters, digits and single `-`, a letter first"),
}


def require_sense(request: StackRequest) -> None:
    """Refuse what contradicts itself, whatever the machine.

    Raises:
        InputError: With what would be taken.
    """
    if not OLDEST <= request.postgres_version <= NEWEST:
        raise InputError(
            f"PostgreSQL {request.postgres_version} is not in the catalogue of settings",
            hint=f"It has {OLDEST} to {NEWEST}.",
        )
    if request.cpus < 1 or request.memory_bytes < 1 or request.instances < 1:
        raise InputError(
            "CPUs, memory and instances must be at least 1", hint="As in --cpus 2 --memory 8GiB."
        )
    _require_name(request)
    _require_server(request)
    _require_layers(request)


def _require_name(request: StackRequest) -> None:
    form, words = _NAMES[request.place]
    if not form.fullmatch(request.name):
        raise InputError(
            f"{request.name!r} is no name that every layer of {request.place.value} takes",
            hint=f"--name has {words}.",
        )


def _require_server(request: StackRequest) -> None:
    buffers, connections = request.shared_buffers_bytes, request.max_connections
    if buffers is not None and buffers < _LEAST_BUFFERS:
        raise InputError(
            f"shared_buffers of {format_bytes(buffers)} is less than any server takes",
            hint=f"The least is {format_bytes(_LEAST_BUFFERS)}; leave the option out for a quarter"
            " of the memory.",
        )
    if connections is not None and connections < _FEWEST_CONNECTIONS:
        raise InputError(
            f"with max_connections = {connections} a server does not start: 3 are reserved for"
            " superusers",
            hint=f"The least is {_FEWEST_CONNECTIONS}.",
        )
    size = request.page_bytes
    if request.place is not Place.RDS and (size < _LEAST_HUGE_PAGE or size & (size - 1)):
        raise InputError(
            f"{format_bytes(size)} is no size of huge pages", hint="As in --page-size 2MiB."
        )


def _require_layers(request: StackRequest) -> None:
    """Refuse options of a layer that the place does not have, and names that it cannot read."""
    if request.place is not Place.CNPG:
        for option, given in (
            ("--volume-size", request.volume_bytes),
            ("--storage-class", request.storage_class),
        ):
            if given is not None:
                raise InputError(
                    f"{option} is of a cluster, and this plan is for {request.place.value}",
                    hint="Say --for cnpg, or leave it out.",
                )
    if request.place in (Place.LOCAL, Place.RDS) and (request.disks or request.bridge):
        raise no_domain(request)
    for path in request.disks:
        if not path.startswith("/"):
            raise InputError(f"{path!r} is no path of a disk", hint="As in --disk /dev/vg0/pg.")
    bridge = request.bridge
    if bridge is not None and (len(bridge) > _LONGEST_BRIDGE or not _BRIDGE.fullmatch(bridge)):
        raise InputError(f"{bridge!r} is no name of a bridge", hint="As in --bridge br0.")


def no_domain(request: StackRequest) -> InputError:
    """Return the refusal of disks or a bridge where there is no virtual machine to have them."""
    option = "--disk" if request.disks else "--bridge"
    return InputError(
        f"{option} is of a virtual machine, and this plan has none",
        hint="Say --for kvm, give --host-facts of the hypervisor, or leave it out.",
    )
