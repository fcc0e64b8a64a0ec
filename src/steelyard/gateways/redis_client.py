"""Sessions of redis-py, and in our words why none came about.

Apart from ``redis``, so that only who opens a session imports that library. The texts of failures
are those of redis-py, of Python's ssl and of the server itself; there are no codes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionInterface
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from steelyard.core.outside import ServerAddress, host_and_port
from steelyard.core.wording import LoginError, TargetError
from steelyard.gateways import redis as redis_gateway

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
        # A socket's path begins with a slash; a host is connected to without files but those.
        r"No such file or directory: '|connecting to [^/].*No such file|\[X509|cannot load|PEM lib",
        "the files for TLS cannot be used: {text}",
        "Look at `cacert`, `cert` and `key`.",
    ),
    (
        r"CERTIFICATE_REQUIRED|certificate required|HANDSHAKE_FAILURE|\[SSL|violation of protocol",
        "no TLS connection to {where} came about: {text}",
        "Where the server asks for a certificate of the client, name it with `cert:` and `key:`.",
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


_CONNECT_TIMEOUT_S: Final = 10.0
_LACKING: Final = re.compile("no permissions|unknown (sub)?command", re.IGNORECASE)
_GREETING_TIMEOUT_S: Final = 30.0  # TLS and the first answer


def connect(address: ServerAddress, timeout_s: float) -> redis_gateway.RedisSession:
    """Return a session; see ``gateways.redis.RedisDoor``."""
    path = redis_gateway.socket_path(address)
    where = str(path) if path is not None else host_and_port(address.host, address.port)
    try:
        # Connects already; however long the commands may take, who is silent is no server.
        client = _named(address, min(timeout_s, _GREETING_TIMEOUT_S))
        connection = _greeted(client, timeout_s)
    except AuthenticationError as error:
        message = f"{where} refuses user and password: {error}"
        raise LoginError(message, hint=_FROM_OUTSIDE) from error
    except (RedisError, OSError) as error:
        if isinstance(error, ResponseError) and "DENIED" not in str(error):
            raise _refused(error, where) from error  # of what a session begins with
        raise connection_failure(str(error), where=where) from error
    return _Session(client, connection, where)


def _named(address: ServerAddress, timeout_s: float) -> redis.Redis:
    """Return a client with a name that the server shows, if it takes one."""
    try:
        return _client(address, timeout_s, name="steelyard")
    except ResponseError as error:
        if _LACKING.search(str(error)) is None:
            raise
    return _client(address, timeout_s)


def _greeted(client: redis.Redis, timeout_s: float) -> ConnectionInterface:
    """Return the connection of a client, on which the server has answered."""
    connection = client.connection
    assert connection is not None  # noqa: S101 - a client of a single connection has it
    try:
        # Not PING, which a server that cannot save refuses (MISCONF): it may be put right.
        connection.send_command("ECHO", "steelyard")  # type: ignore[no-untyped-call]
        try:
            connection.read_response()
        except ResponseError as error:
            if _LACKING.search(str(error)) is None:  # a refusal is an answer, too
                raise
        connection.update_current_socket_timeout(timeout_s)
    except BaseException:
        connection.disconnect()  # type: ignore[no-untyped-call]
        raise
    return connection


def _refused(error: ResponseError, where: str) -> redis_gateway.ReplyError:
    return redis_gateway.ReplyError(f"{where} refuses a command: {error}")


def _client(address: ServerAddress, timeout_s: float, name: str | None = None) -> redis.Redis:
    path = redis_gateway.socket_path(address)
    given = dict(address.parameters)
    return redis.Redis(
        host=address.host,
        port=address.port,
        unix_socket_path=None if path is None else str(path),
        db=int(address.database or 0),
        username=address.user or None,
        password=address.password or None,
        socket_timeout=timeout_s,
        socket_connect_timeout=_CONNECT_TIMEOUT_S,
        ssl=given.get(redis_gateway.TLS) == "on",
        ssl_ca_certs=given.get(redis_gateway.CACERT),
        ssl_certfile=given.get(redis_gateway.CERT),
        ssl_keyfile=given.get(redis_gateway.KEY),
        client_name=name,
        single_connection_client=True,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )


class _Session:
    """One connection and no other: redis-py would make a new one where the first is lost.

    Its client is bypassed, whose pipelines take a second connection, with another time limit. It is
    kept, because it ends the connection when it goes.
    """

    def __init__(self, client: redis.Redis, connection: ConnectionInterface, where: str) -> None:
        self._client = client
        self._connection = connection
        self._where = where
        self._is_over = False

    def command(self, *words: str | bytes | int) -> redis_gateway.Reply:
        return self.pipeline([words])[0]

    def pipeline(
        self, commands: Sequence[Sequence[str | bytes | int]]
    ) -> list[redis_gateway.Reply]:
        with self._told():
            packed = self._connection.pack_commands(commands)  # type: ignore[no-untyped-call]
            self._connection.send_packed_command(packed)  # type: ignore[no-untyped-call]
            answers = [self._answer() for _ in commands]
        for answer in answers:
            if isinstance(answer, ResponseError):
                raise _refused(answer, self._where) from answer
        return answers

    def _answer(self) -> redis_gateway.Reply:
        """Return an answer, also a refusal: those after it are to be read, too."""
        try:
            answer: redis_gateway.Reply = self._connection.read_response()
        except ResponseError as error:
            return error
        return answer

    def info(self, *sections: str) -> Mapping[str, str]:
        return redis_gateway.parse_info(self.command("INFO", *(sections or ("everything",))))

    def close(self) -> None:
        self._is_over = True
        self._connection.disconnect()  # type: ignore[no-untyped-call]

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say that the session is over where it is; whatever breaks a command off ends it.

        Answers that nobody read would be taken for those of the next command.
        """
        try:
            self._require_open()
            yield
            self._require_open()  # closed meanwhile, it may have been connected anew
        except BaseException as error:
            was_over = self._is_over
            self.close()
            # Closed under a command by another thread, redis-py trips over what is gone.
            if isinstance(error, RedisError | OSError) or (
                was_over and isinstance(error, Exception)
            ):
                raise TargetError(f"{self._where} does not answer any more: {error}") from error
            raise

    def _require_open(self) -> None:
        if self._is_over:
            raise RedisConnectionError("the session is over")
