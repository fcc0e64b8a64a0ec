"""A user of a Redis server for the load generator, which cannot keep a password to itself.

redis-benchmark and memtier_benchmark take a password as an argument only, where every account of
their machine can read it. So they come as a user who is made for the campaign, may send the load
and nothing else, and is gone at its end.
"""

import secrets
from collections.abc import Callable
from typing import Final

from steelyard.gateways.redis import opened
from steelyard.model.command import Guest, ServerAddress
from steelyard.model.findings import Finding, Severity
from steelyard.platforms.redis_endpoint.connection import RedisMeans

_NAME_BYTES: Final = 4
_PASSWORD_BYTES: Final = 18


class Guests:
    """The guest of one campaign on one server.

    Args:
        rules: For ACL SETUSER: what it may do.
        means: To reach the server.
        announce: Is told the name before the user is made.
    """

    def __init__(
        self, rules: tuple[str, ...], means: RedisMeans, announce: Callable[[str], None]
    ) -> None:
        self._rules = rules
        self._means = means
        self._announce = announce
        self._guest: Guest | None = None

    def invite(self, entrance: ServerAddress) -> Guest | None:
        """Return the guest, made now where the server has lost it; None where nobody has to hide.

        Raises:
            ReplyError: The user may make no other.
        """
        if not entrance.password:
            return None
        if self._guest is None:
            guest = Guest(
                name=f"steelyard-{secrets.token_hex(_NAME_BYTES)}",
                password=secrets.token_urlsafe(_PASSWORD_BYTES),
            )
            self._announce(guest.name)
            self._guest = guest
        with opened(self._means.redis, entrance) as session:
            session.command(*making(self._guest, self._rules))
        return self._guest

    def findings(self, entrance: ServerAddress, where: str) -> tuple[Finding, ...]:
        """Return what a guest leaves in the server's own books, where one comes."""
        if not entrance.password:
            return ()
        found = Finding(
            code="guest-in-acl-log",
            severity=Severity.INFO,
            message=f"the ACL LOG of the server at {where} will hold entries of the load"
            " generator: redis-benchmark asks for settings, which its user may not see",
            remedy="Leave them; ACL LOG RESET would remove those of others, too.",
            subject=where,
        )
        return (found,)

    def needed(self, entrance: ServerAddress) -> tuple[tuple[str, ...], ...]:
        """Return the commands that making one takes and removing it, for a rehearsal."""
        if not entrance.password:
            return ()
        nobody = Guest(name="steelyard-rehearsal", password="")
        return (making(nobody, self._rules), ("ACL", "DELUSER", nobody.name))


def making(guest: Guest, rules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that makes a user who may do this alone."""
    return ("ACL", "SETUSER", guest.name, "reset", "on", f">{guest.password}", *rules)
