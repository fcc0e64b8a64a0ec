"""What of an address a generator's arguments need."""

from collections.abc import Mapping
from typing import Final

from steelyard.gateways.redis import CACERT, CERT, KEY, TLS
from steelyard.model.command import ServerAddress
from steelyard.model.errors import PreflightError

_HIDDEN: Final = "{steelyard-guest-password}"
_ANY: Final = "none"  # a user without a password takes any, and the programs want one


def tls_files(address: ServerAddress) -> tuple[tuple[str, str], ...] | None:
    """Return the files that TLS needs, by the flag's name; None where there is no TLS."""
    asked = dict(address.parameters)
    if asked.get(TLS) != "on":
        return None
    return tuple((name, asked[name]) for name in (CACERT, CERT, KEY) if asked.get(name))


def credentials(address: ServerAddress) -> tuple[str, str] | None:
    """Return the user and the password that go into a command line; None: the default user, bare.

    The password is that of a guest, which ``secrets_of`` has, or of a user who needs none: never
    one of the server's owner.
    """
    if address.guest is not None:
        return address.guest.name, _HIDDEN
    return (address.user, _ANY) if address.user else None


def secrets_of(address: ServerAddress) -> Mapping[str, str]:
    """Return what stands in a command line for the password of a guest, and the password."""
    return {} if address.guest is None else {_HIDDEN: address.guest.password}


def refuse_password(address: ServerAddress, program: str) -> None:
    """Raise where the server asks for a password, which the generators take in argv only.

    Raises:
        PreflightError: It does, and there is no guest.
    """
    if address.password and address.guest is None:
        raise PreflightError(
            f"{program} takes a password only as an argument, where every account of its machine"
            " can read it",
            hint="Give it a user without a password, limited by ACL to the database's keys and to"
            " the commands of the workload.",
        )
