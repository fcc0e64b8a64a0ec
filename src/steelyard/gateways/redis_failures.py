"""Why no session with a Redis server came about: the library's and the server's words, explained.

The texts are those of redis-py, of Python's ssl and of the server itself; there are no codes.
"""

import re
from typing import Final

from steelyard.model.errors import LoginError, TargetError

_FROM_OUTSIDE: Final = (
    "The password comes from REDISCLI_AUTH, the user from the target's `user:` or its URI."
)
_FAILURES: Final = (
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "no TLS connection to {where} came about: {text}",
        "Name the authority's certificates with `cacert:`, and the server as its certificate does.",
    ),
    (
        r"WRONG_VERSION_NUMBER|wrong version number|RECORD_LAYER_FAILURE",
        "{where} does not speak TLS: {text}",
        "Write the URI with redis://, leave out `tls`, or name the port for TLS.",
    ),
    (
        r"CERTIFICATE_REQUIRED|certificate required|HANDSHAKE_FAILURE|\[SSL|violation of protocol",
        "no TLS connection to {where} came about: {text}",
        "Where the server asks for a certificate of the client, name it with `cert:` and `key:`.",
    ),
    (
        r"No such file or directory: '|cannot load|PEM lib|NO_CERTIFICATE_OR_CRL",
        "the files for TLS cannot be used: {text}",
        "Look at `cacert`, `cert` and `key`.",
    ),
    (
        r"max number of clients",
        "{where} has no connection left: {text}",
        "Close some, or raise maxclients.",
    ),
    (
        r"DENIED|protected mode",
        "{where} lets in nobody from elsewhere without a password (protected-mode)",
        "Give it a password, or run Steelyard beside it.",
    ),
    (
        r"loading the dataset",
        "{where} still loads its data",
        "Wait until it has.",
    ),
    (
        r"Connection refused|No such file or directory",
        "{where} cannot be reached: {text}",
        "Nothing listens there: is the server running, and on this host, port or socket?",
    ),
    (
        r"[Tt]imeout|timed out",
        "{where} does not answer: {text}",
        "Look whether a Redis server runs there, and speaks TLS where that is asked for (`tls`).",
    ),
    (
        r"Name or service not known|nodename|No address|Temporary failure in name",
        "{where} cannot be reached: {text}",
        "Correct the name of the host.",
    ),
)


def refused_login(text: str, *, where: str) -> TargetError:
    """Return that a server does not take user and password."""
    return LoginError(f"{where} refuses user and password: {text}", hint=_FROM_OUTSIDE)


def connection_failure(text: str, *, where: str) -> TargetError:
    """Return a failed connection in words of fact, with the way out."""
    for pattern, message, hint in _FAILURES:
        if re.search(pattern, text):
            return TargetError(message.format(where=where, text=text), hint=hint)
    return TargetError(
        f"{where} cannot be reached as a Redis server: {text}",
        hint="Look whether a Redis server runs there, whether it wants TLS (rediss://), and a"
        " certificate of the client (`cert:`, `key:`).",
    )
