"""What a killed server leaves in the kernel, whichever engine it was."""

from pathlib import Path

from steelyard.engines.postgres.server import shared_memory_residue
from steelyard.model.command import Command


def residue_of(data: Path) -> tuple[Command, ...]:
    """Return the commands that free what the server of a data directory left when it was killed."""
    command = shared_memory_residue(data)
    return () if command is None else (command,)
