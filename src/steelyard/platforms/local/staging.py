"""Programs where the server's account can reach them."""

from pathlib import Path

from steelyard.gateways.files import (
    Lock,
    cache_directory,
    make_directory,
    reachable_by,
    remove_tree,
    rename,
)
from steelyard.gateways.process import Processes
from steelyard.model.command import Command
from steelyard.model.errors import PreflightError

_COPY_TIMEOUT_S = 300.0


def staged(
    programs: Path,
    parts: tuple[Path, ...],
    label: str,
    *,
    account: str | None,
    processes: Processes,
) -> Path:
    """Return a directory of programs that ``account`` can reach: itself, or a copy in the cache.

    A virtual environment below root's home is closed to every other account.

    Args:
        programs: Directory of the programs, inside the first of ``parts``.
        parts: Directories that must stay side by side for the programs to find their libraries.
        label: Name of the copy: equal for equal programs.
        account: Whose reach counts; None means our own.
        processes: Copies.

    Raises:
        PreflightError: Copying failed.
    """
    if reachable_by(programs, account):
        return programs
    home = cache_directory() / "programs" / label
    make_directory(home.parent)
    with Lock(home.with_name(f"{label}.lock")):
        if not home.exists():
            _copy(parts, home, processes)
    return home / parts[0].name / programs.relative_to(parts[0])


def _copy(parts: tuple[Path, ...], home: Path, processes: Processes) -> None:
    unfinished = home.with_name(f"{home.name}.unfinished")
    remove_tree(unfinished)
    make_directory(unfinished)
    argv = ("cp", "--archive", *map(str, parts), str(unfinished))
    completed = processes.run(Command(argv=argv), timeout_s=_COPY_TIMEOUT_S)
    if not completed.succeeded:
        raise PreflightError(
            f"copying the server's programs to {home} failed: {completed.tail(1)}",
            hint="Free some disk, or set STEELYARD_CACHE to another place.",
        )
    # A name may outlive a power cut that the content does not, and then half a copy looks whole.
    processes.run(
        Command(argv=("sync", "--file-system", str(unfinished))), timeout_s=_COPY_TIMEOUT_S
    )
    rename(unfinished, home)
