"""What is asked of a server, and of which data."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script file with its text, so that the record needs no other file.

    Attributes:
        name: File name as given.
        text: Its content.
        weight: Relative frequency among the workload's scripts.
    """

    name: str
    text: str
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpace:
    """The keys of a Redis workload, and which of them are there before it.

    Attributes:
        keys: Requests choose among so many keys at random; 1: all use one key.
        loaded: So many of the first keys, or of further ones where there are more, exist when a
            visit begins.
        value_bytes: Size of each value, loaded or written.
        first: Number of the first key.
    """

    keys: int = 100_000
    loaded: int = 0
    value_bytes: int = 3
    first: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisWork:
    """What is asked of a Redis server.

    Attributes:
        space: The keys.
        command: One command with its arguments, in which ``__rand_int__`` stands for the number of
            a key and ``__data__`` for a value; empty where ``Workload.builtin`` names a test.
        read_share: Of the requests, where they are a mix of GET and SET (memtier_benchmark only);
            None: they are no mix.
    """

    space: KeySpace = field(default_factory=KeySpace)
    command: tuple[str, ...] = ()
    read_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of the server.

    Attributes:
        name: As in the experiment file.
        builtin: Name of a builtin script, or of a test of redis-benchmark; None when ``scripts``
            or a command are given.
        scale_factor: Size of the generator's own data set; None when ``prepare`` makes the data.
        prepare: SQL scripts run once; their result is part of the prepared state.
        scripts: Own scripts with weights.
        redis: None for every other engine.
    """

    name: str
    builtin: str | None = None
    scale_factor: int | None = None
    prepare: tuple[Script, ...] = ()
    scripts: tuple[Script, ...] = ()
    redis: RedisWork | None = None
