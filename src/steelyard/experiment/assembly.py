"""From an experiment to the engine and platforms that run it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.engines.postgres.engine import PostgresEngine
from steelyard.engines.postgres.installation import (
    Installation,
    find_installation,
    wheel_parts,
)
from steelyard.engines.postgres.server import PostgresProgram
from steelyard.engines.postgres.settings import read_catalogue
from steelyard.experiment.doors import Doors
from steelyard.gateways.files import (
    Lock,
    cache_directory,
    make_directory,
    reachable_by,
    remove_tree,
    rename,
)
from steelyard.gateways.process import account_entry
from steelyard.model.command import Command
from steelyard.model.errors import PreflightError, PrivilegeError
from steelyard.model.experiment import Experiment, LocalTarget
from steelyard.platforms.local.platform import LocalOptions, LocalPlatform
from steelyard.platforms.platform import Ledger

# PostgreSQL refuses to run as root; the first of these that exists is used then.
_ACCOUNTS = ("nobody", "postgres")
_COPY_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What runs an experiment.

    Attributes:
        platforms: Of each treatment, by name; treatments on one target share one.
        installations: Programs of each treatment, by name, where its account can reach them.
        account: Account of servers and generator when Steelyard is root.
    """

    engine: PostgresEngine
    platforms: Mapping[str, LocalPlatform]
    installations: Mapping[str, Installation]
    account: str | None


def find_installations(experiment: Experiment, doors: Doors) -> Mapping[str, Installation]:
    """Return the programs of each treatment.

    Raises:
        PreflightError: Some are absent or do not run.
    """
    by_bin = {
        treatment.target.bin: find_installation(treatment.target.bin, doors.processes)
        for treatment in experiment.treatments
    }
    return {t.name: by_bin[t.target.bin] for t in experiment.treatments}


def assemble(experiment: Experiment, campaign_id: str, ledger: Ledger, doors: Doors) -> Assembly:
    """Return engine and platforms of an experiment; nothing is started yet.

    Raises:
        PreflightError: Programs are absent.
        PrivilegeError: There is no account to run the server as.
    """
    account = server_account(experiment)
    found = find_installations(experiment, doors)
    staged = {name: _staged(one, account, doors) for name, one in found.items()}
    programs = {
        t.name: PostgresProgram(installation=staged[t.name], initdb=t.target.initdb, sql=doors.sql)
        for t in experiment.treatments
    }
    catalogues = {
        name: read_catalogue(one.program("postgres"), doors.processes)
        for name, one in staged.items()
    }
    engine = PostgresEngine(
        experiment,
        programs,
        catalogues,
        processes=doors.processes,
        sql=doors.sql,
        account=account,
    )
    by_place: dict[tuple[str, int | None], LocalPlatform] = {}
    platforms = {}
    for treatment in experiment.treatments:
        place = (str(data_root(treatment.target)), treatment.target.port)
        if place not in by_place:
            options = LocalOptions(
                root=data_root(treatment.target),
                campaign_id=campaign_id,
                account=account,
                port=treatment.target.port,
            )
            by_place[place] = LocalPlatform(options, ledger, doors.processes, doors.clock)
        platforms[treatment.name] = by_place[place]
    return Assembly(engine=engine, platforms=platforms, installations=staged, account=account)


def data_root(target: LocalTarget) -> Path:
    """Return where a target's prepared states and live data lie."""
    return Path(target.directory).absolute() if target.directory else cache_directory()


def server_account(experiment: Experiment) -> str | None:
    """Return the account for the servers, or None when Steelyard is an ordinary user already.

    Raises:
        PrivilegeError: Steelyard is root and no account was found, or an ordinary user asks for
            another one.
    """
    asked = {t.target.run_as for t in experiment.treatments if t.target.run_as}
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


def _staged(installation: Installation, account: str | None, doors: Doors) -> Installation:
    """Return the installation where the account can reach it; copied into the cache if needed.

    A virtual environment below root's home is closed to every other account.
    """
    if reachable_by(installation.programs, account):
        return installation
    version = ".".join(map(str, installation.version_key))
    home = cache_directory() / "programs" / f"{installation.root.name}-{version}"
    relative = installation.programs.relative_to(installation.root)
    result = replace(
        installation,
        programs=home / installation.root.name / relative,
        root=home / installation.root.name,
    )
    make_directory(home.parent)
    with Lock(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            _copy(wheel_parts(installation), home, doors)
    return result


def _copy(parts: tuple[Path, ...], home: Path, doors: Doors) -> None:
    unfinished = home.with_name(f"{home.name}.unfinished")
    remove_tree(unfinished)
    make_directory(unfinished)
    argv = ("cp", "--archive", *map(str, parts), str(unfinished))
    completed = doors.processes.run(Command(argv=argv), timeout_s=_COPY_TIMEOUT_S)
    if not completed.succeeded:
        raise PreflightError(
            f"copying the server's programs to {home} failed: {completed.tail(1)}",
            hint="Free some disk, or set STEELYARD_CACHE to another place.",
        )
    rename(unfinished, home)
