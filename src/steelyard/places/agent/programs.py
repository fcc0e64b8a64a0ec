"""Programs of load generators that run elsewhere: in pods, or on a host.

Every command is an order: it is placed, runs without us, and what came of it is fetched. So it
survives a lost connection, and this machine may sleep meanwhile.

Programs in several places belong together: whatever ends one of them ends all. Each is asked in a
thread of its own, because one may be silent while others have ended.
"""

import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from steelyard.core.outside import Command, Completed
from steelyard.core.schedule import Pausing
from steelyard.core.wording import (
    MeasurementError,
    SteelyardError,
    TargetError,
)
from steelyard.gateways.host import Clock
from steelyard.gateways.process import RunningProcess
from steelyard.places.agent.agent import (
    PASSWORDS,
    Agent,
    AgentPlace,
    Collector,
    Order,
    Reins,
    compose,
)
from steelyard.places.agent.outcomes import AgentRun, Outcome, StartSkew, start_skew

RESULT_PATIENCE_S: Final = 900.0  # after its deadline, for a laptop to wake up; a guess
_LEAD_S: Final = 0.5  # the least between the agreement on an instant and the instant
_LEAD_TRIPS: Final = 3.0  # or so many of the slowest answers of late
_LEAD_MOST_S: Final = 10.0
_AGREEMENTS: Final = 4
_NOT_FOUND: Final = 127
_END_S: Final = 10.0  # for ending the others; then the limit of each order does
_JOIN_S: Final = 20.0
_Result = TypeVar("_Result")
_Answers = queue.Queue[tuple[int, _Result | BaseException]]


class NothingGoesOn:
    """What places elsewhere lack: programs that go on by themselves, and process ids of here."""

    def start(self, command: Command, *, output: Path) -> RunningProcess:  # noqa: ARG002
        """Refuse.

        Raises:
            TargetError: Always.
        """
        raise TargetError(f"{command.argv[0]} cannot be started elsewhere to go on by itself")

    def within(self, directory: Path) -> tuple[int, ...]:  # noqa: ARG002
        """Return nothing: no process elsewhere works in a directory of this machine."""
        return ()

    def signal(self, pid: int, number: int) -> None:
        """Do nothing: no process id elsewhere is known here."""


class _Run(Protocol):
    """Runs words elsewhere to their end."""

    def __call__(self, argv: Sequence[str], *, timeout_s: float, stdin: str = "") -> Completed:
        """Return what they printed."""
        ...


class ShortProcesses(NothingGoesOn):
    """Runs short programs elsewhere, without an agent; they die with the connection."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command to its end and return what it printed; it gets no password."""
        variables = [
            f"{name}={value}"
            for name, value in command.environment.items()
            if name not in PASSWORDS
        ]
        argv = ("env", *variables, *command.argv) if variables else command.argv
        return self._run(argv, timeout_s=timeout_s, stdin=stdin)

    def run_together(
        self, commands: Sequence[Command], *, timeout_s: float
    ) -> tuple[Completed, ...]:
        """Run commands one after the other: what is asked here takes no time."""
        return tuple(self.run(command, timeout_s=timeout_s) for command in commands)


class AgentPlaces(Protocol):
    """The places of a campaign's load generators, the i-th for the i-th of several programs."""

    @property
    def ready(self) -> Sequence[AgentPlace]:
        """Return those that take orders."""
        ...

    @property
    def spare_log_kib(self) -> int:
        """Return the room for logs below which they are fetched while they grow."""
        ...

    def renew(self, told: Callable[[str], None]) -> None:
        """Make those anew that are lost; nothing happens while all are there.

        Raises:
            MeasurementError: They cannot be made now.
            TargetError: They cannot be reached, or were never made.
        """
        ...


@dataclass(slots=True)
class Knowledge:
    """What is known of an agent for as long as it lives.

    Attributes:
        files: Places of files that it has.
        old: Orders that nobody needs any more.
    """

    agent: Agent
    files: set[str] = field(default_factory=set)
    old: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Member:
    """A program in its place.

    Attributes:
        number: Of the place.
        order: What is made of the command.
        outcome: None until it has ended.
    """

    number: int
    known: Knowledge
    command: Command
    order: Order
    outcome: Outcome | None = None

    @property
    def agent(self) -> Agent:
        """Return the agent that runs it."""
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
        """End those that go on, as far as they can be reached."""
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


class AgentProcesses(NothingGoesOn):
    """Runs programs elsewhere, as `gateways.process.Processes` asks for it.

    Args:
        places: Where: ``run`` takes the first, the i-th of ``run_together`` the i-th.
        roots: Directories of this machine whose files commands may name: scripts are copied there,
            and what is written beside a path that is no file (a log's prefix) is brought back.
        told: Is told when places are made anew.

    Attributes:
        last_runs: What ``run_together`` ran last: one run for each command, in their order.
    """

    def __init__(
        self,
        places: AgentPlaces,
        clock: Clock,
        *,
        roots: Sequence[Path],
        told: Callable[[str], None],
    ) -> None:
        self._places = places
        self._clock = clock
        self._roots = tuple(roots)
        self._told = told
        self._known: dict[AgentPlace, Knowledge] = {}
        self.last_runs: tuple[AgentRun, ...] = ()

    @property
    def last_skew(self) -> StartSkew | None:
        """Return how far apart these began; None for a single one."""
        return start_skew(self.last_runs)

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command in the first place to its end; it outlives a lost connection.

        A PGPASSWORD in the command's environment is left out for pods, which have a Secret.

        Raises:
            TargetError: There is no such program.
            MeasurementError: It did not end in time, or its place was lost.
        """
        with self._members([command]) as members:
            members.each(partial(self._send, stdin=stdin.encode()))
            members.each(partial(self._place, timeout_s=timeout_s))
            return self._completed(members, timeout_s)[0]

    def run_together(
        self, commands: Sequence[Command], *, timeout_s: float
    ) -> tuple[Completed, ...]:
        """Run commands at the same time, each in its place, from an agreed instant.

        When one fails, the others are ended. Lost places are made anew before.

        Raises:
            TargetError: There is no such program.
            MeasurementError: One did not end in time, a place was lost, or there are too few.
        """
        self.last_runs = ()
        with self._members(commands) as members:
            members.each(self._send)
            self._begin(members, timeout_s)
            completed = self._completed(members, timeout_s)
            self.last_runs = tuple(_run_of(member) for member in members)
        return completed

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> "AgentPrograms":
        """Start commands, each in its place, and return them while they run.

        Each hangs on a connection of its own: where that is lost, it is ended.

        Raises:
            TargetError: A place cannot be reached.
            MeasurementError: There are fewer places than commands.
        """
        members, reins = self._members(commands), dict[int, Reins]()
        lock, given_up = threading.Lock(), threading.Event()

        def steer(member: Member) -> None:
            opened = member.agent.steer(member.order.identifier)
            with lock:
                if not given_up.is_set():
                    reins[member.number] = opened
                    return
            opened.close()

        try:
            members.each(self._send)
            members.each(partial(self._place, timeout_s=timeout_s))
            members.each(steer)
        except BaseException:  # what has begun would put its load on for as long as it was given
            with lock:  # a thread may be at work where this one was interrupted
                given_up.set()
            try:
                for each in reins.values():
                    each.close()
            finally:
                with members:
                    members.end()
            raise
        return AgentPrograms(
            members,
            [reins[member.number] for member in members],
            lambda within_s: self._completed(members, timeout_s, within_s=within_s),
            timeout_s,
        )

    def _members(self, commands: Sequence[Command]) -> Members:
        self._places.renew(self._told)
        places = self._places.ready
        if len(places) < len(commands):
            raise MeasurementError(
                f"{len(commands)} load generators need as many pods, and there are {len(places)}"
            )
        return Members(
            [
                Member(
                    number=number,
                    known=self._knowledge(place),
                    command=command,
                    order=self._composed(command, place),
                )
                for number, (command, place) in enumerate(zip(commands, places, strict=False))
            ]
        )

    def _composed(self, command: Command, place: AgentPlace) -> Order:
        return compose(command, secrets.token_hex(8), self._roots, place.home)

    def _knowledge(self, place: AgentPlace) -> Knowledge:
        if place not in self._known:
            self._known[place] = Knowledge(agent=Agent(place, self._clock))
        return self._known[place]

    def _send(self, member: Member, stdin: bytes = b"") -> None:
        """Bring there what a program reads; a file that is there stays."""
        for file in member.order.enclosed:
            if file.place not in member.known.files:
                member.agent.put(file.place, file.content)
                member.known.files.add(file.place)
        if stdin:
            member.agent.put(member.agent.home.order(member.order.identifier, "stdin"), stdin)

    def _place(self, member: Member, *, timeout_s: float, instant: float | None = None) -> float:
        """Let a program begin at an instant of our clock; return it when that was understood."""
        offset = member.agent.clock_there.offset
        ahead_s = 0.0 if offset is None else offset.seconds
        old = tuple(member.known.old)
        understood_at = member.agent.begin(
            member.order.identifier,
            member.order.command,
            instant=None if instant is None else instant + ahead_s,
            limit_s=timeout_s,
            old=old,
        )
        member.known.old = [each for each in member.known.old if each not in old]
        return understood_at - ahead_s

    def _begin(self, members: Members, timeout_s: float) -> None:
        """Let all begin at one instant, which is agreed on anew where one heard of it too late.

        Raises:
            MeasurementError: The way to them is too slow for any agreement.
        """
        if len(members) == 1:
            members.each(partial(self._place, timeout_s=timeout_s))
            return
        members.each(_look_at_clock)
        lead_s = _LEAD_S
        for _ in range(_AGREEMENTS):
            slowest_s = max(member.agent.clock_there.slowest_s for member in members)
            lead_s = min(max(lead_s, _LEAD_TRIPS * slowest_s), _LEAD_MOST_S)
            instant = self._clock.now() + lead_s
            place = partial(self._place, instant=instant, timeout_s=timeout_s)
            understood = members.each(place)
            if max(understood) < instant:
                return
            members.end()
            for member in members:
                member.known.old.append(member.order.identifier)
                member.order = self._composed(member.command, member.agent.place)
            lead_s *= 2
        raise MeasurementError(
            f"the load generators could not be told to begin together within {lead_s:.0f} s",
            hint="The way to them is slow: the cluster's API, or the network.",
        )

    def _completed(
        self, members: Members, timeout_s: float, *, within_s: float | None = None
    ) -> tuple[Completed, ...]:
        patience_s = timeout_s + _LEAD_MOST_S + RESULT_PATIENCE_S if within_s is None else within_s
        until = self._clock.monotonic() + patience_s
        collectors = {
            member.number: Collector(member.agent, member.order, member.number, self._clock)
            for member in members
        }
        members.await_all(
            lambda member: member.agent.wait(
                member.order.identifier,
                until=until,
                spare_kib=self._places.spare_log_kib if member.order.logs else 0,
                scarce=lambda: collectors[member.number].make_room(until=until),
            )
        )
        for member in members:
            _require_end(member, timeout_s)
        return members.each(lambda member: _collected(member, collectors[member.number], until))


class AgentPrograms:
    """Programs elsewhere that take turns with others.

    Args:
        complete: Waits for all, so long at most, and returns what they printed.
        timeout_s: How long they were given when they began.

    Attributes:
        pids: Empty: no process id elsewhere is known here.
        is_open: Whether they can be told something.
    """

    pids: Final[tuple[int, ...]] = ()

    def __init__(
        self,
        members: Members,
        reins: Sequence[Reins],
        complete: Callable[[float], tuple[Completed, ...]],
        timeout_s: float,
    ) -> None:
        self._members = members
        self._reins = tuple(reins)
        self._complete = complete
        self._timeout_s = timeout_s
        self.is_open = True

    @property
    def ahead_s(self) -> float:
        """Return how much later it is by the clock there than here, of the first."""
        offset = next(iter(self._members)).agent.clock_there.offset
        return 0.0 if offset is None else offset.seconds

    def all_run(self) -> bool:
        """Return whether none had ended when it was last told something."""
        return not any(reins.has_ended for reins in self._reins)

    def stop(self) -> bool:
        """Stop all; return whether all stand still."""
        stood = [reins.stop() for reins in self._reins]
        return all(stood)

    def go(self) -> None:
        """Let all go on."""
        for reins in self._reins:
            reins.go()

    def signal(self, number: int) -> None:
        """Send a signal to each."""
        for reins in self._reins:
            reins.signal(number)

    def completed(self, *, within_s: float | None = None) -> tuple[Completed, ...]:
        """Return what each printed once all have ended; when one fails, the others are ended."""
        return self._complete(self._timeout_s if within_s is None else within_s)

    def close(self) -> None:
        """End all that still run; a second time changes nothing."""
        if self.is_open:
            self.is_open = False
            for reins in self._reins:
                reins.close()
            with self._members:
                self._members.end()


class PausedElsewhere:
    """Starts the generators of one server elsewhere, and stops them between its turns.

    It is its own standstill: the server goes on.
    """

    kind: Final = Pausing.GENERATOR

    def __init__(self, processes: AgentProcesses) -> None:
        self._processes = processes
        self._running: AgentPrograms | None = None

    @property
    def ahead_s(self) -> float:
        """Return how much later it is by the clock there than here; 0.0 before they ran."""
        return 0.0 if self._running is None else self._running.ahead_s

    @property
    def standstill(self) -> "PausedElsewhere":
        """Return what stops them: this."""
        return self

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> AgentPrograms:
        """Start generators and return them while they run."""
        self._running = self._processes.begin_together(commands, timeout_s=timeout_s)
        return self._running

    def pause(self) -> bool:
        """Stop what runs; return whether it stands still."""
        running = self._open
        if running is None:
            return True
        stands = running.stop()
        if not stands:
            running.go()
        return stands

    def proceed(self) -> None:
        """Let what stands still go on."""
        running = self._open
        if running is not None:
            running.go()

    @property
    def _open(self) -> AgentPrograms | None:
        running = self._running
        return running if running is not None and running.is_open else None


def _look_at_clock(member: Member) -> None:
    if member.agent.clock_there.offset is None:
        member.agent.look_at_clock()


def _outcome(member: Member) -> Outcome:
    assert member.outcome is not None  # noqa: S101 - await_all has it, or raised
    return member.outcome


def _require_end(member: Member, timeout_s: float) -> None:
    """Raise where a program did not end by itself, as far as that is nobody's wish.

    Raises:
        MeasurementError: Its time was over, or its place was lost.
        TargetError: There is no such program.
    """
    outcome, program = _outcome(member), member.order.argv[0]
    if outcome.took_too_long(timeout_s):
        raise MeasurementError(
            f"{program} did not end within {timeout_s:.0f} s and was killed",
            hint="Is the server hanging?",
        )
    if outcome.status == _NOT_FOUND and not any(each.size_bytes for each in outcome.printed):
        raise TargetError(
            f"{program} does not exist on {member.agent.place.label}",
            hint=member.agent.place.needs,
        )
    if outcome.exit_status < 0:  # an eviction ends programs before the pod
        member.agent.require_alive()


def _collected(member: Member, collector: Collector, until: float) -> Completed:
    outcome = _outcome(member)
    printed = collector.printed(outcome, until=until)
    if outcome.exit_status == 0:
        collector.logs(outcome, until=until)
    return Completed(
        argv=member.order.argv,
        exit_status=outcome.exit_status,
        stdout=printed.get("stdout", ""),
        stderr=printed.get("stderr", ""),
        began_at=outcome.began_at,
    )


def _run_of(member: Member) -> AgentRun:
    outcome = _outcome(member)
    return AgentRun(
        where=member.agent.place.label,
        began_at=outcome.began_at,
        program_s=outcome.program_s,
        offset=member.agent.clock_there.offset,
    )
