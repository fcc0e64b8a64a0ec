"""Recorded output of real programs, by version."""

import json
from dataclasses import dataclass
from pathlib import Path

from steelyard.model.command import Completed

RECORDINGS = Path(__file__).parents[2] / "recordings"
VERSIONS = (15, 16, 18)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One call of pgbench that really happened."""

    version: int
    name: str
    arguments: tuple[str, ...]
    exit_status: int
    started_at: float

    def __str__(self) -> str:
        return f"{self.version}-{self.name}"

    def completed(self) -> Completed:
        """Return what pgbench printed."""
        base = RECORDINGS / "pgbench" / str(self.version) / self.name
        return Completed(
            argv=("pgbench", *self.arguments),
            exit_status=self.exit_status,
            stdout=base.with_suffix(".stdout").read_text(),
            stderr=base.with_suffix(".stderr").read_text(),
        )


def recordings() -> tuple[Recording, ...]:
    """Return all recordings of pgbench."""
    entries = json.loads((RECORDINGS / "pgbench" / "index.json").read_text())
    return tuple(Recording(**{**e, "arguments": tuple(e["arguments"])}) for e in entries)


def recorded(version: int, name: str) -> Recording:
    """Return one recording."""
    return next(r for r in recordings() if (r.version, r.name) == (version, name))


def catalogue_text(version: int) -> str:
    """Return the output of ``postgres --describe-config``."""
    return (RECORDINGS / "postgres" / f"describe-config-{version}.tsv").read_text()
