"""Programs that run in the pods of load generators.

Every command is an order: it is placed, runs without us, and what came of it is fetched. So it
survives a lost connection, and this machine may sleep meanwhile.
"""

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from steelyard.core.errors import MeasurementError, TargetError
from steelyard.core.outside import Command, Completed
from steelyard.core.schedule import Pausing
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.agent import Agent, Collector, Reins, compose, order_path
from steelyard.places.kubernetes.generators import (
    GeneratorPods,
    Member,
    Members,
    PodKnowledge,
    ReadyPod,
)
from steelyard.places.kubernetes.outcomes import Outcome, PodRun, StartSkew, start_skew
from steelyard.places.kubernetes.pods import NothingGoesOn

RESULT_PATIENCE_S: Final = 900.0  # after its deadline, for a laptop to wake up; a guess
_LEAD_S: Final = 0.5  # the least between the agreement on an instant and the instant
_LEAD_TRIPS: Final = 3.0  # or so many of the slowest answers of late
_LEAD_MOST_S: Final = 10.0
_AGREEMENTS: Final = 4
_NOT_FOUND: Final = 127


class PodProcesses(NothingGoesOn):
    """Runs programs of the image in pods, as `gateways.process.Processes` asks for it.

    Args:
        api: The cluster.
        generators: The pods: ``run`` takes the first, the i-th of ``run_together`` the i-th.
        clock: Of this machine.
        roots: Directories of this machine whose files commands may name: scripts are copied into
            the pod, and what is written beside a path that is no file (a log's prefix) is brought
            back.
        told: Is told when pods are made anew.
    """

    def __init__(
        self,
        api: KubernetesApi,
        generators: GeneratorPods,
        clock: Clock,
        *,
        roots: Sequence[Path],
        told: Callable[[str], None],
    ) -> None:
        self._api = api
        self._generators = generators
        self._clock = clock
        self._roots = tuple(roots)
        self._told = told
        self._known: dict[ReadyPod, PodKnowledge] = {}
        self._last: tuple[PodRun, ...] = ()

    @property
    def last_runs(self) -> tuple[PodRun, ...]:
        """Return what ``run_together`` ran last: one run for each command, in their order."""
        return self._last

    @property
    def last_skew(self) -> StartSkew | None:
        """Return how far apart these began; None for a single one."""
        return start_skew(self._last)

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command in the first pod to its end; it outlives a lost connection.

        A PGPASSWORD in the command's environment is left out: the pod has its own, of a Secret.

        Raises:
            TargetError: The image has no such program.
            MeasurementError: It did not end in time, or the pod was lost.
        """
        with self._members([command]) as members:
            members.each(partial(self._send, stdin=stdin.encode()))
            members.each(partial(self._place, timeout_s=timeout_s))
            return self._completed(members, timeout_s)[0]

    def run_together(
        self, commands: Sequence[Command], *, timeout_s: float
    ) -> tuple[Completed, ...]:
        """Run commands at the same time, each in its pod, from an agreed instant.

        When one fails, the others are ended. Lost pods are made anew before.

        Raises:
            TargetError: The image has no such program.
            MeasurementError: One did not end in time, a pod was lost, or there are fewer pods.
        """
        self._last = ()
        with self._members(commands) as members:
            members.each(self._send)
            self._begin(members, timeout_s)
            completed = self._completed(members, timeout_s)
            self._last = tuple(_run_of(member) for member in members)
        return completed

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> "PodPrograms":
        """Start commands, each in its pod, and return them while they run.

        Each hangs on a connection of its own: where that is lost, it is ended.

        Raises:
            TargetError: A pod cannot be reached.
            MeasurementError: There are fewer pods than commands.
        """
        members = self._members(commands)
        members.each(self._send)
        members.each(partial(self._place, timeout_s=timeout_s))
        return PodPrograms(
            members,
            members.each(lambda member: member.agent.steer(member.order.identifier)),
            lambda within_s: self._completed(members, timeout_s, within_s=within_s),
            timeout_s,
        )

    def _members(self, commands: Sequence[Command]) -> Members:
        self._generators.renew(self._told)
        pods = self._generators.ready
        if len(pods) < len(commands):
            raise MeasurementError(
                f"{len(commands)} load generators need as many pods, and there are {len(pods)}"
            )
        return Members(
            [
                Member(
                    number=number,
                    known=self._knowledge(pod),
                    command=command,
                    order=compose(command, _identifier(), self._roots),
                )
                for number, (command, pod) in enumerate(zip(commands, pods, strict=False))
            ]
        )

    def _knowledge(self, pod: ReadyPod) -> PodKnowledge:
        if pod not in self._known:
            agent = Agent(self._api, pod.where, pod.uid, self._clock)
            self._known[pod] = PodKnowledge(pod=pod, agent=agent)
        return self._known[pod]

    def _send(self, member: Member, stdin: bytes = b"") -> None:
        """Bring into the pod what its program reads; a file that is there stays."""
        for file in member.order.enclosed:
            if file.place not in member.known.files:
                member.agent.put(file.place, file.content)
                member.known.files.add(file.place)
        if stdin:
            member.agent.put(order_path(member.order.identifier, "stdin"), stdin)

    def _place(self, member: Member, *, timeout_s: float, instant: float | None = None) -> float:
        """Let a program begin at an instant of our clock; return it when that was understood."""
        offset = member.agent.pod_clock.offset
        ahead_s = 0.0 if offset is None else offset.seconds
        old = tuple(member.known.old)
        understood_at = member.agent.place(
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
            MeasurementError: The cluster's API is too slow for any agreement.
        """
        if len(members) == 1:
            members.each(partial(self._place, timeout_s=timeout_s))
            return
        members.each(_look_at_clock)
        lead_s = _LEAD_S
        for _ in range(_AGREEMENTS):
            slowest_s = max(member.agent.pod_clock.slowest_s for member in members)
            lead_s = min(max(lead_s, _LEAD_TRIPS * slowest_s), _LEAD_MOST_S)
            instant = self._clock.now() + lead_s
            place = partial(self._place, instant=instant, timeout_s=timeout_s)
            understood = members.each(place)
            if max(understood) < instant:
                return
            members.end()
            for member in members:
                member.known.old.append(member.order.identifier)
                member.order = compose(member.command, _identifier(), self._roots)
            lead_s *= 2
        raise MeasurementError(
            f"the pods could not be told to begin together within {lead_s:.0f} s",
            hint="The cluster's API is slow; look at its load.",
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
                spare_kib=self._generators.spare_log_kib if member.order.logs else 0,
                scarce=lambda: collectors[member.number].make_room(until=until),
            )
        )
        for member in members:
            _require_end(member, timeout_s)
        return members.each(lambda member: _collected(member, collectors[member.number], until))


class PodPrograms:
    """Programs in pods that take turns with others.

    Args:
        members: The programs.
        reins: Of each.
        complete: Waits for all, so long at most, and returns what they printed.
        timeout_s: How long they were given when they began.
    """

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
        self._is_open = True

    @property
    def pids(self) -> tuple[int, ...]:
        """Return nothing: no process id of a pod is known here."""
        return ()

    @property
    def is_open(self) -> bool:
        """Return whether they can be told something."""
        return self._is_open

    @property
    def ahead_s(self) -> float:
        """Return how much later it is by the clock of their pods than here, of the first."""
        offset = next(iter(self._members)).agent.pod_clock.offset
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
        """Return what each printed once all have ended; when one fails, the others are ended.

        Raises:
            MeasurementError: One did not end in time, or its pod was lost.
        """
        return self._complete(self._timeout_s if within_s is None else within_s)

    def close(self) -> None:
        """End all that still run; a second time changes nothing."""
        if self._is_open:
            self._is_open = False
            for reins in self._reins:
                reins.close()
            with self._members:
                self._members.end()


class PausedInPods:
    """Starts the generators of one server in pods, and stops them between its turns.

    It is its own standstill: the server goes on.
    """

    kind: Final = Pausing.GENERATOR

    def __init__(self, processes: PodProcesses) -> None:
        self._processes = processes
        self._running: PodPrograms | None = None

    @property
    def ahead_s(self) -> float:
        """Return how much later it is by their pods' clock than here; 0.0 before they ran."""
        return 0.0 if self._running is None else self._running.ahead_s

    @property
    def standstill(self) -> "PausedInPods":
        """Return what stops them: this."""
        return self

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> PodPrograms:
        """Start generators and return them while they run."""
        self._running = self._processes.begin_together(commands, timeout_s=timeout_s)
        return self._running

    def pause(self) -> bool:
        """Stop what runs; return whether it stands still.

        Raises:
            TargetError: The connection was lost.
        """
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
    def _open(self) -> PodPrograms | None:
        running = self._running
        return running if running is not None and running.is_open else None


def _identifier() -> str:
    return secrets.token_hex(8)


def _look_at_clock(member: Member) -> None:
    if member.agent.pod_clock.offset is None:
        member.agent.look_at_clock()


def _outcome(member: Member) -> Outcome:
    assert member.outcome is not None  # noqa: S101 - await_all has it, or raised
    return member.outcome


def _require_end(member: Member, timeout_s: float) -> None:
    """Raise where a program did not end by itself, as far as that is nobody's wish.

    Raises:
        MeasurementError: Its time was over, or its pod was lost.
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
            f"{program} does not exist in the image of pod {member.agent.where.pod}",
            hint="Name an image with psql and pgbench: `generators: {image: ...}`.",
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


def _run_of(member: Member) -> PodRun:
    outcome, pod = _outcome(member), member.known.pod
    return PodRun(
        pod=pod.where,
        node=pod.node,
        began_at=outcome.began_at,
        ended_at=outcome.ended_at,
        offset=member.agent.pod_clock.offset,
        before=outcome.before,
        after=outcome.after,
    )
