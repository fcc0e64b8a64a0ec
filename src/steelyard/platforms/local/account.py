"""The account that servers run as: PostgreSQL refuses root."""

import os
from collections.abc import Collection

from steelyard.gateways.process import SHARED, account_entry
from steelyard.model.errors import PreflightError, PrivilegeError

# The first of these that exists is used when Steelyard is root and no account was named. Every
# machine has the last, and other programs run as it, too.
_ACCOUNTS = ("postgres", SHARED)


def server_account(asked: Collection[str]) -> str | None:
    """Return the account for the servers, or None when Steelyard is an ordinary user already.

    Args:
        asked: Different accounts that the treatments name.

    Raises:
        PrivilegeError: Steelyard is root and no account was found, or an ordinary user asks for
            another one.
    """
    if os.geteuid() != 0:
        if asked:
            raise PrivilegeError(
                "only root can start a server as another account",
                hint="Leave `run_as:` out, or run Steelyard as root.",
            )
        return None
    if len(asked) > 1:
        raise PreflightError(
            f"the treatments ask for different accounts: {', '.join(sorted(asked))}",
            hint="Use one `run_as:` in all of them.",
        )
    return _existing_account(tuple(asked) or _ACCOUNTS)


def _existing_account(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            if account_entry(name).pw_uid != 0:
                return name
        except PrivilegeError:
            continue
    raise PrivilegeError(
        f"PostgreSQL does not run as root, and there is no account {' or '.join(names)}",
        hint="Name an unprivileged account with `run_as:` in the target.",
    )
