"""Recorded output of redis-benchmark, by version."""

import json
from dataclasses import dataclass

from recorded import RECORDINGS

from steelyard.core.outside import Completed

_HOME = RECORDINGS / "redis_benchmark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One call of redis-benchmark that really happened."""

    version: str
    name: str
    arguments: tuple[str, ...]
    exit_status: int

    def __str__(self) -> str:
        return f"{self.version}-{self.name}"

    def completed(self) -> Completed:
        """Return what it printed, carriage returns included."""
        base = _HOME / self.version / self.name
        return Completed(
            argv=("redis-benchmark", *self.arguments),
            exit_status=self.exit_status,
            stdout=base.with_suffix(".stdout").read_bytes().decode(),
            stderr=base.with_suffix(".stderr").read_bytes().decode(),
        )


def recordings() -> tuple[Recording, ...]:
    """Return all recordings of redis-benchmark."""
    entries = json.loads((_HOME / "index.json").read_text())
    return tuple(Recording(**{**e, "arguments": tuple(e["arguments"])}) for e in entries)


def recorded(name: str) -> Completed:
    """Return what was printed in one recording."""
    return next(r for r in recordings() if r.name == name).completed()
