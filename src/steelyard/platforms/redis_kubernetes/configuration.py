"""What of a Redis server's configuration its pod decides."""

from typing import Final

PORT: Final = 6379
USERS: Final = "/etc/steelyard/users.acl"
# Who may come is said by the file of users, so the guard against servers without a password is off.
_OF_THE_POD: Final = f"""\
port {PORT}
protected-mode no
daemonize no
logfile ""
dir /data/live
aclfile {USERS}
"""


def pod_configuration(text: str) -> str:
    """Return a redis.conf with what is the pod's after all else, where it counts."""
    return f"{text.rstrip()}\n{_OF_THE_POD}".lstrip()
