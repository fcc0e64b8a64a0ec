"""Installed Redis programs: where they are, which version they are, and whose."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final, Literal

from steelyard.gateways.process import Processes
from steelyard.model.command import Command, Completed
from steelyard.model.errors import PreflightError, TargetError

# Run in the project's own tests; other versions follow their documentation and are labelled so.
VERSIONS_RUN: Final = (("redis", 7), ("valkey", 8))
MEMTIER: Final = "memtier_benchmark"
_FLAVOURS: Final[tuple[Literal["redis", "valkey"], ...]] = ("redis", "valkey")
_VERSION: Final = re.compile(r"^(Redis|Valkey) server v=(\S+)")
_TIMEOUT_S: Final = 20.0
_HINTS: Final = {
    "redis": "apt-get install redis-server redis-tools (its service may stay off), or name the"
    " directory of the programs in `bin:`.",
    "valkey": "apt-get install valkey-server valkey-tools (Debian: of its backports), or name the"
    " directory of the programs in `bin:`.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisInstallation:
    """One server program with the load generators that are there.

    Attributes:
        server: Path of the server program.
        benchmark: Of ``redis-benchmark`` or ``valkey-benchmark``; None: it is not here.
        memtier: Of ``memtier_benchmark``; None: it is not here.
        version: As printed: ``7.0.15``.
    """

    server: Path
    benchmark: Path | None
    memtier: Path | None
    version: str
    flavour: Literal["redis", "valkey"]

    @property
    def label(self) -> str:
        """Return what it is called: ``Redis 7.0.15``."""
        return f"{self.flavour.capitalize()} {self.version}"

    @property
    def version_key(self) -> tuple[int, ...]:
        """Return numbers that order versions."""
        return tuple(int(number) for number in re.findall(r"\d+", self.version))


def find_redis(bin_: str, processes: Processes) -> RedisInstallation:
    """Return the installation that ``bin:`` means.

    Args:
        bin_: Name of the server program as PATH finds it, its path, or a directory with it.
        processes: Runs it for its version.

    Raises:
        PreflightError: There is no such program, or it does not run.
    """
    server = _located(bin_)
    flavour, version = _version(server, processes)
    return RedisInstallation(
        server=server,
        benchmark=find_benchmark(server.parent, flavour),
        memtier=_program(MEMTIER, server.parent),
        version=version,
        flavour=flavour,
    )


def find_benchmark(beside: Path | None = None, flavour: str = "redis") -> Path | None:
    """Return the benchmark program: of that directory, else of PATH; the flavour's own first."""
    names = sorted((f"{one}-benchmark" for one in _FLAVOURS), key=lambda n: flavour not in n)
    for place in (beside, None) if beside is not None else (None,):
        for name in names:
            found = _program(name, place) if place is None or (place / name).is_file() else None
            if found is not None:
                return found
    return None


def find_memtier(beside: Path | None = None) -> Path | None:
    """Return memtier_benchmark: of that directory, else of PATH; None: it is not here."""
    return _program(MEMTIER, beside)


def benchmark_hint(flavour: str = "redis") -> str:
    """Return how the benchmark program is installed."""
    return _HINTS[flavour].replace(f"{flavour}-server {flavour}-tools", f"{flavour}-tools")


def _program(name: str, beside: Path | None) -> Path | None:
    if beside is not None and (beside / name).is_file():
        return beside / name
    found = which(name)
    return None if found is None else Path(found)


def _located(bin_: str) -> Path:
    path = Path(bin_).expanduser()
    if path.is_dir():
        for candidate in _servers_in(path):
            if candidate.is_file():
                return candidate
        raise PreflightError(
            f"{path} has neither redis-server nor valkey-server",
            hint="Name the directory of the programs, or a program, in `bin:`.",
        )
    if "/" in bin_ and path.is_file():
        return path.absolute()
    found = which(bin_) if "/" not in bin_ else None
    if found is None:
        flavour = "valkey" if "valkey" in bin_ else "redis"
        raise PreflightError(f"there is no {bin_} on this machine", hint=_HINTS[flavour])
    return Path(found)


def _servers_in(directory: Path) -> Iterator[Path]:
    for place in (directory, directory / "bin"):
        for flavour in _FLAVOURS:
            yield place.absolute() / f"{flavour}-server"


def _version(server: Path, processes: Processes) -> tuple[Literal["redis", "valkey"], str]:
    try:
        completed = processes.run(Command(argv=(str(server), "--version")), timeout_s=_TIMEOUT_S)
    except TargetError as error:
        raise PreflightError(error.message, hint=error.hint) from error
    if not completed.succeeded:
        raise PreflightError(
            f"{server} does not run on this machine: {completed.tail(1)}",
            hint="Was it built for another machine, or does it miss a library?",
        )
    return read_version(str(server), completed)


def read_version(server: str, completed: Completed) -> tuple[Literal["redis", "valkey"], str]:
    """Return whose server a program is, and its version, by what ``--version`` printed.

    Raises:
        PreflightError: It is none.
    """
    said = _VERSION.match(completed.stdout)
    if said is None:
        raise PreflightError(
            f"{server} is no Redis server: it says {completed.tail(1)!r} of its version",
            hint="Name redis-server or valkey-server in `bin:`.",
        )
    return ("valkey" if said[1] == "Valkey" else "redis"), said[2]
