"""Where Redis programs are, and what they are called."""

from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.processes import Answer, FakeProcesses
from steelyard.core.wording import GIB, MIB, PreflightError
from steelyard.systems.redis.datasets import aof_bytes
from steelyard.systems.redis.server import RedisInstallation, find_redis, version_finding


def _programs(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch(mode=0o755)
    return directory


def _processes(directory: Path, stdout: str, name: str = "redis-server") -> FakeProcesses:
    made = FakeProcesses(FakeClock())
    made.on(name, "--version", answer=Answer(stdout=stdout))
    return made


def test_a_directory_holds_the_server_and_its_generator(tmp_path: Path) -> None:
    """The programs beside the server come before those of PATH; `bin` below it is looked into."""
    place = _programs(tmp_path / "x" / "bin", "valkey-server", "valkey-benchmark")
    said = "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64\n"
    found = find_redis(str(tmp_path / "x"), _processes(place, said, "valkey-server"))
    assert found.server == place / "valkey-server"
    assert found.benchmark == place / "valkey-benchmark"
    assert (found.label, found.version_key) == ("Valkey 8.0.1", (8, 0, 1))
    assert version_finding(found) is None


def test_what_is_no_server_is_told_with_what_it_says(tmp_path: Path) -> None:
    """A program of another kind is not taken for Redis of an unknown version."""
    place = _programs(tmp_path, "redis-server")
    with pytest.raises(PreflightError, match="is no Redis server") as caught:
        find_redis(str(place), _processes(place, "postgres (PostgreSQL) 15.3\n"))
    assert "PostgreSQL" in caught.value.message


@pytest.mark.parametrize(
    ("bin_", "hint"),
    [
        ("no-such-redis-server", "apt-get install redis-server"),
        ("no-such-valkey-server", "apt-get install valkey-server"),
    ],
)
def test_a_program_that_is_absent_is_told_with_its_package(bin_: str, hint: str) -> None:
    """The way out names the package of what was asked for."""
    with pytest.raises(PreflightError, match=f"there is no {bin_}") as caught:
        find_redis(bin_, FakeProcesses(FakeClock()))
    assert hint in caught.value.hint


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    """It has neither of the two servers."""
    with pytest.raises(PreflightError, match="neither redis-server nor valkey-server"):
        find_redis(str(tmp_path), FakeProcesses(FakeClock()))


def test_a_version_that_no_test_runs_is_told() -> None:
    """An unknown major version is a finding of no weight."""
    installation = RedisInstallation(
        server=Path("/x"), benchmark=None, version="9.1", flavour="redis"
    )
    finding = version_finding(installation)
    assert finding is not None
    assert "Redis 9.1" in finding.message


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 0),
        ({"appendonly": "no"}, 0),
        ({"appendonly": "yes"}, 2 * 2 * 100 * MIB),
        ({"appendonly": "yes", "auto-aof-rewrite-min-size": "1gb"}, 2 * 2 * GIB),
        ({"appendonly": "yes", "auto-aof-rewrite-percentage": "0"}, GIB),
    ],
)
def test_the_room_of_an_append_only_file(settings: dict[str, str], expected: int) -> None:
    """It grows to a share of the data before it is rewritten, and without rewriting for ever."""
    assert aof_bytes(settings, 100 * MIB) == expected
