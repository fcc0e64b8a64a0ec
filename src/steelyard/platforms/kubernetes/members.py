"""Programs in several pods that belong together: whatever ends one of them ends all.

Each pod is asked in a thread of its own, because one may be silent while others have ended.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

from steelyard.model.command import Command
from steelyard.model.errors import SteelyardError
from steelyard.platforms.kubernetes.agent import Agent
from steelyard.platforms.kubernetes.generators import ReadyPod
from steelyard.platforms.kubernetes.orders import Order
from steelyard.platforms.kubernetes.outcomes import Outcome

_END_S: Final = 10.0  # for ending the others; then the limit of each order does
_JOIN_S: Final = 20.0
_Result = TypeVar("_Result")
_Answers = queue.Queue[tuple[int, _Result | BaseException]]


@dataclass(slots=True)
class PodKnowledge:
    """What is known of a pod for as long as it lives.

    Attributes:
        files: Places of files that it has.
        old: Orders that nobody needs any more.
    """

    pod: ReadyPod
    agent: Agent
    files: set[str] = field(default_factory=set)
    old: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Member:
    """A program in its pod.

    Attributes:
        number: Of the pod.
        order: What is made of the command.
        outcome: None until it has ended.
    """

    number: int
    known: PodKnowledge
    command: Command
    order: Order
    outcome: Outcome | None = None

    @property
    def agent(self) -> Agent:
        """Return the agent of its pod."""
        return self.known.agent


class Members:
    """Programs that belong together; used as a context, which ends them where it is left early."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = tuple(members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.end()
        for member in self._members:
            member.known.old.append(member.order.identifier)

    def each(self, work: Callable[[Member], _Result]) -> tuple[_Result, ...]:
        """Do something for all at the same time; return what came of each.

        Raises:
            SteelyardError: The first trouble, once none is at work any more.
        """
        if len(self._members) == 1:
            return (work(self._members[0]),)
        answers = self._started(work)
        found: dict[int, _Result] = {}
        troubles: list[BaseException] = []
        for _ in self._members:
            number, answer = answers.get()
            if isinstance(answer, BaseException):
                troubles.append(answer)
            else:
                found[number] = answer
        if troubles:
            raise troubles[0]
        return tuple(found[member.number] for member in self._members)

    def await_all(self, wait: Callable[[Member], Outcome]) -> None:
        """Wait until all have ended; the first that fails ends the others.

        Raises:
            SteelyardError: The first trouble, once all have ended or been given up.
        """
        answers = self._started(wait) if len(self._members) > 1 else None
        trouble: BaseException | None = None
        for place in range(len(self._members)):
            if answers is None:
                self._members[0].outcome = wait(self._members[0])
                return
            number, answer = answers.get()
            failed = isinstance(answer, BaseException) or answer.exit_status != 0
            if isinstance(answer, BaseException):
                trouble = trouble or answer
            else:
                self._members[number].outcome = answer
            if failed and place + 1 < len(self._members):
                self.end()
        if trouble is not None:
            raise trouble

    def end(self) -> None:
        """End those that go on, as far as their pods can be reached."""
        threads = [
            threading.Thread(target=_end_quietly, args=(member,), daemon=True)
            for member in self._members
            if member.outcome is None
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_JOIN_S)

    def _started(self, work: Callable[[Member], _Result]) -> "_Answers[_Result]":
        answers: _Answers[_Result] = queue.Queue()

        def do(member: Member) -> None:
            try:
                answers.put((member.number, work(member)))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                answers.put((member.number, error))

        for member in self._members:
            threading.Thread(target=do, args=(member,), daemon=True).start()
        return answers


def _end_quietly(member: Member) -> None:
    with suppress(SteelyardError):
        member.agent.end(member.order.identifier, patience_s=_END_S)
