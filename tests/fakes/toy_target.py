"""Where toys run, as somebody adds kinds of target: a class each, whose fields say its keys."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from fakes.toy import TOY, toy_engine
from steelyard.core.experiment import Experiment
from steelyard.core.quantities import TEXT, key
from steelyard.core.target import CONNECTION, PROGRAMS, DatabaseSystem, Here
from steelyard.gateways.doors import Doors
from steelyard.places.local.server import ProgramReach
from steelyard.systems.protocol import Engine
from steelyard.targets.assembly import Assembly, assemble_here
from steelyard.targets.endpoint import Asked


def _engine(
    experiment: Experiment, _doors: Doors, account: str | None, reach: ProgramReach
) -> Engine:
    return toy_engine(experiment, account, reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyTarget(Here):
    """A toy that Steelyard starts on this machine."""

    system: ClassVar[DatabaseSystem] = TOY
    kind: Literal["local"] = "local"
    server: str = key("toy", PROGRAMS, "Its program.")
    connection: str = key("tcp", CONNECTION, "How the generator connects.")

    def assembled(self, asked: Asked) -> Assembly:
        """Return the assembly of an experiment on toys."""
        return assemble_here(asked, _engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyInMemory(ToyTarget):
    """Another place: data directories are in memory."""

    kind: Literal["memory"] = "memory"  # type: ignore[assignment]
    shelf: str = key("steelyard-toy", TEXT, "Name of the directory below ``/dev/shm``.")

    def __post_init__(self) -> None:
        """Put the data there."""
        object.__setattr__(self, "directory", f"/dev/shm/{self.shelf}")  # noqa: S108 - its name is its owner's
