"""The place of crash tests that names engines: what each brings, and its modes."""

from dataclasses import replace
from typing import Final

from steelyard.engines.postgres.installation import find_installation, wheel_parts
from steelyard.engines.postgres.numbered import NumberedRows
from steelyard.engines.postgres.server import PostgresProgram
from steelyard.engines.redis.installation import find_redis
from steelyard.engines.redis.numbered import NumberedKeys
from steelyard.engines.redis.server import RedisProgram
from steelyard.engines.redis.succession import RedisSuccession
from steelyard.experiment.crash.testing import Subject
from steelyard.experiment.doors import Doors
from steelyard.model.crash import CrashMode
from steelyard.platforms.local.staging import staged

# The shortest save point there is: a snapshot must be due within a crash's seconds to count.
_SAVE: Final = "1 1"
_NO_LOG: Final = (("appendonly", "no"),)
_LOG: Final = (("appendonly", "yes"), ("save", ""))
REDIS_MODES: Final = (
    CrashMode(name="off", settings=(*_NO_LOG, ("save", ""))),
    CrashMode(name="rdb", settings=(*_NO_LOG, ("save", _SAVE))),
    CrashMode(name="no", settings=(*_LOG, ("appendfsync", "no"))),
    CrashMode(name="everysec", settings=(*_LOG, ("appendfsync", "everysec"))),
    CrashMode(name="always", settings=(*_LOG, ("appendfsync", "always"))),
    CrashMode(
        name="split",
        settings=(*_NO_LOG, ("save", "")),
        replica=(*_LOG, ("appendfsync", "everysec")),
    ),
)
_ON: Final = ("fsync", "on")
_OFF: Final = ("fsync", "off")
POSTGRES_MODES: Final = (
    CrashMode(name="sync", settings=(_ON, ("synchronous_commit", "on"))),
    CrashMode(name="async", settings=(_ON, ("synchronous_commit", "off"))),
    CrashMode(name="no-fsync", settings=(_OFF, ("synchronous_commit", "on"))),
    CrashMode(name="neither", settings=(_OFF, ("synchronous_commit", "off"))),
)


def redis_subject(bin_: str, account: str | None, doors: Doors) -> Subject:
    """Return an installed Redis or Valkey, where the account can reach it.

    Raises:
        PreflightError: It is not here.
    """
    found = find_redis(bin_, doors.processes)
    home = found.server.parent
    label = f"{found.flavour}-{found.version}"
    reached = staged(home, (home,), label, account=account, processes=doors.processes)
    found = replace(found, server=reached / found.server.name)
    program = RedisProgram(installation=found, redis=doors.redis)
    return Subject(
        engine="redis",
        label=found.label,
        program=program,
        writes=NumberedKeys(doors.redis),
        succession=RedisSuccession(program),
    )


def postgres_subject(bin_: str, account: str | None, doors: Doors) -> Subject:
    """Return an installed PostgreSQL, where the account can reach it.

    Raises:
        PreflightError: It is not here.
    """
    found = find_installation(bin_, doors.processes)
    label = f"{found.root.name}-{'.'.join(map(str, found.version_key))}"
    programs = staged(
        found.programs, wheel_parts(found), label, account=account, processes=doors.processes
    )
    found = replace(found, programs=programs)
    return Subject(
        engine="postgres",
        label=f"PostgreSQL {found.version}",
        program=PostgresProgram(installation=found, initdb=(), sql=doors.sql),
        writes=NumberedRows(doors.sql),
    )
