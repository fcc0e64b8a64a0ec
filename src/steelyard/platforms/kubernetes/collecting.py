"""What programs in a pod printed and logged, brought back whole.

A log is fetched in parts, each with its checksum, into a file of the same name with the number of
its pod. It is fetched while it grows only where the pod has no more room for it: a fetch takes CPU
from the generator.
"""

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.files import free_bytes, translated
from steelyard.model.errors import MeasurementError
from steelyard.model.units import MIB
from steelyard.platforms.kubernetes.agent import Agent, PodFile, log_path, order_path
from steelyard.platforms.kubernetes.orders import Order
from steelyard.platforms.kubernetes.outcomes import Outcome, Printed

# A guess: what reads the logs here needs room, and is waited for while there is less.
_ROOM_BYTES: Final = 16 * MIB
_ROOM_S: Final = 30.0
_LOOK_S: Final = 0.5


@dataclass(slots=True)
class Collector:
    """Brings back what one order left.

    Args:
        agent: Of its pod.
        order: The order.
        number: Of the pod; tells files of several apart that have one name.
        clock: Ours.
    """

    agent: Agent
    order: Order
    number: int
    clock: Clock
    _fetched: dict[str, int] = field(default_factory=dict)

    def printed(self, outcome: Outcome, *, until: float) -> dict[str, str]:
        """Return the text of each stream.

        Raises:
            MeasurementError: It is damaged in the pod itself.
        """
        return {each.name: self._text(each, until) for each in outcome.printed}

    def _text(self, stream: Printed, until: float) -> str:
        content = stream.content
        if content is None:
            path = order_path(self.order.identifier, stream.name)
            file = PodFile(path=path, size_bytes=stream.size_bytes)
            content = b"".join(self.agent.read(file, until=until))
            if not stream.accepts(content):
                raise MeasurementError(
                    f"{stream.name} of {self.order.argv[0]} in pod {self.agent.where.pod} is not"
                    " what was printed: its checksum differs",
                    hint="Is something wrong with the node's memory or disk?",
                )
        return self.order.as_here(content.decode(errors="replace"))

    def logs(self, outcome: Outcome, *, until: float) -> None:
        """Bring back what is missing of all logs of an order that has ended."""
        for name, size_bytes in outcome.logs:
            path = log_path(self.order.identifier, name)
            self._bring(PodFile(path=path, size_bytes=size_bytes), until)

    def make_room(self, *, until: float) -> None:
        """Bring back what there is of the logs of an order that goes on, and free its space."""
        for file in self.agent.logs(self.order.identifier, until=until):
            self._bring(file, until)
            self.agent.punch(file, until=until)

    def _bring(self, file: PodFile, until: float) -> None:
        if self.order.logs is None:
            return
        name = PurePosixPath(file.path).name
        target = self.order.logs / (f"{name}.{self.number}" if self.number else name)
        for part in self.agent.read(file, until=until, offset=self._fetched.get(file.path, 0)):
            self._await_room(target.parent, len(part))
            with translated(target, MeasurementError), target.open("ab") as here:
                here.write(part)
            self._fetched[file.path] = self._fetched.get(file.path, 0) + len(part)

    def _await_room(self, directory: Path, size_bytes: int) -> None:
        """Wait until what reads the logs here has given back the space of others."""
        deadline = self.clock.monotonic() + _ROOM_S
        while free_bytes(directory) < size_bytes + _ROOM_BYTES:
            if self.clock.monotonic() > deadline:
                raise MeasurementError(
                    f"{directory} has no room for the logs of the load generators",
                    hint="Log a share of the transactions (`measure.log_sampling`).",
                )
            self.clock.sleep(_LOOK_S)
