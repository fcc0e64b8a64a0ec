"""This machine as a platform: prepared states, one live server at a time, commands.

Beside the live server there may be a second one: a replica, which follows it and is measured with
it.

Invariant: everything made outside the record lies in one live directory, one socket directory and
one directory for logs in memory, and in control groups where a configuration has limits; all are in
the ledger before they exist and are gone after ``destroy``.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steelyard.core import outside
from steelyard.core.findings import Finding
from steelyard.core.linux import limits_of
from steelyard.core.measurement import Vantage
from steelyard.core.wording import PreflightError, TargetError
from steelyard.gateways import files
from steelyard.gateways.cgroups import Families
from steelyard.gateways.files import free_bytes
from steelyard.gateways.host import Clock, require_free_port
from steelyard.gateways.process import Processes
from steelyard.gateways.workers import Workers
from steelyard.places import protocol
from steelyard.places.local.groups import PausedGenerators, ServerGroups
from steelyard.places.local.server import (
    COPY_MEANS,
    LocalServer,
    PreparedStates,
    ServerLogs,
    WithCampaignDirectory,
    end_processes,
    state_key,
)
from steelyard.places.workers import WorkerGenerators

_HOME: Final = "beside"  # within the home of the first


class Beside:
    """The second server of a platform, while there is one.

    Its data begin empty at each start. It is in no control group: it stands for a server on
    another machine.

    Args:
        made: Makes a server that has a home.
        account: Whose its directories are; None: our own.
        run: Runs a command to its end, with what it is for.
    """

    def __init__(
        self,
        made: Callable[[outside.ServerProgram, Path], LocalServer],
        *,
        account: str | None,
        run: Callable[[outside.Command, str], None],
    ) -> None:
        self._made = made
        self._account = account
        self._run = run
        self._server: LocalServer | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """Return its first process."""
        return () if self._server is None else (self._server.pid,)

    @property
    def address(self) -> outside.ServerAddress | None:
        """Return where it is reached, while there is one."""
        return None if self._server is None else self._server.address

    def require_running(self) -> None:
        """Check that it lives, where there is one.

        Raises:
            TargetError: It is dead.
        """
        if self._server is not None and not self._server.is_running:
            raise TargetError(f"the replica is not running:\n{self._server.log_tail()}")

    def start(self, companion: outside.Companion | None, home: Path) -> None:
        """Start what belongs beside the server of a home, and return when it is ready.

        Raises:
            TargetError: It did not start, or did not get all that the first has.
        """
        if companion is None:
            return
        own = home / _HOME
        files.make_directory(own, account=self._account, mode=0o700)
        files.remove_tree(own / "data")
        self._run(companion.program.create(own / "data", self._account), "making a data directory")
        self._server = self._made(companion.program, own)
        try:
            self._server.start(companion.settings, port=None)
        except TargetError as error:
            message = f"the replica beside the server: {error.message}"
            raise TargetError(message, hint=error.hint) from error

    def stop(self) -> Path | None:
        """End it and remove its data; return its log, if it had one."""
        if self._server is None:
            return None
        self._server.stop(keep_data=False)
        files.remove_tree(self._server.data)
        log = self._server.log
        self._server = None
        return log


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """How a campaign uses this machine.

    Attributes:
        root: Directory for prepared states and live data.
        account: Account of the servers when Steelyard is root; None means our own.
        port: TCP port, or None for a free one at each start.
        slot: Number of the place of one of several servers that are up at the same time, from 1;
            None: there is one server at a time.
        templates: Its servers can keep copies of their data and copy from there.
        goes_on: Between turns the server goes on, and its load generators alone stand still: as
            with servers elsewhere that it takes turns with.
        refill: Fills the burst credits of storage that is simulated at ``root``; tells whether it
            is.
    """

    root: Path
    campaign_id: str
    account: str | None
    port: int | None
    templates: bool = True
    slot: int | None = None
    goes_on: bool = False
    refill: Callable[[Path], bool] = lambda _: False

    @property
    def live(self) -> Path:
        """Return the directory of all live data."""
        campaign = self.root / "live" / self.campaign_id
        return campaign if self.slot is None else campaign / f"slot-{self.slot}"


class LocalPlatform(WithCampaignDirectory):
    """Servers on this machine, one at a time; ``root`` is the directory that holds the data."""

    def __init__(
        self,
        options: LocalOptions,
        ledger: protocol.Ledger,
        processes: Processes,
        clock: Clock,
        groups: ServerGroups | None = None,
        families: Families | None = None,
        *,
        workers: Workers | None = None,
    ) -> None:
        here = PausedGenerators(processes, clock, families)
        generators = here if workers is None else WorkerGenerators(workers, clock)
        super().__init__(options.live, ledger, generators, options.account)
        self.root: Path = options.root
        self._groups = groups
        self._standstill: protocol.Standstill | None = None
        self._options = options
        self._processes = processes
        self._clock = clock
        self._states = PreparedStates(
            options.root, account=options.account, processes=processes, clock=clock
        )
        self._sockets: Path | None = None
        self._server: LocalServer | None = None
        self._beside = Beside(self._server_at, account=options.account, run=self._checked)
        self._said = ServerLogs(self._live)

    @property
    def server(self) -> LocalServer:
        """Return the live server.

        Raises:
            TargetError: None is running.
        """
        if self._server is None or not self._server.is_running:
            tail = f":\n{self._server.log_tail()}" if self._server else ""
            raise TargetError(f"the server is not running{tail}")
        self._beside.require_running()
        return self._server

    @property
    def address(self) -> outside.ServerAddress:
        return replace(self.server.address, beside=self._beside.address)

    def refill(self) -> bool:
        """Fill the burst credits of its storage; return whether that is simulated."""
        return self._options.refill(self.root)

    def require_ready(self) -> None:
        """Check control groups, port and directory before anything is started."""
        if self._groups is not None:
            self._groups.require_ready()
        if self._options.port is not None:
            require_free_port(self._options.port)
        root = files.existing_parent(self._options.root)
        if not files.may_write(root):
            raise PreflightError(
                f"{root} may not be written by this account",
                hint="Set STEELYARD_CACHE or `directory:` in the target to another place.",
            )

    def find(
        self, program: outside.ServerProgram, content: Sequence[object]
    ) -> protocol.PreparedState | None:
        """Return a prepared state that is in the cache already, or None."""
        return self._states.find(state_key(program.identity, content))

    def prepare(
        self,
        program: outside.ServerProgram,
        content: Sequence[object],
        build: Callable[[outside.ServerAddress], None],
    ) -> protocol.PreparedState:
        """Return the state with this content, made now when it is not in the cache."""

        def make(home: Path) -> None:
            self._create(program, home, build)

        facts = {"program": list(program.identity), "content": outside.canonical(content)}
        return self._states.ensure(state_key(program.identity, content), make, facts)

    def _create(
        self,
        program: outside.ServerProgram,
        home: Path,
        build: Callable[[outside.ServerAddress], None],
    ) -> None:
        """Leave a stopped, complete data directory in ``home / "data"``."""
        data = home / "data"
        self._checked(program.create(data, self._options.account), "making a data directory")
        server = self._server_at(program, home)
        server.start(program.while_preparing, port=None)
        try:
            build(server.address)
        except BaseException:
            server.stop(keep_data=False)
            raise
        server.stop(keep_data=True)
        server.log.unlink(missing_ok=True)

    def restore(self, state: protocol.PreparedState, means: str) -> float:
        self.stop(keep_data=False)
        return self._states.restore(state, self._home(state.key), means)

    def reprovision(
        self,
        program: outside.ServerProgram,
        content: Sequence[object],
        build: Callable[[outside.ServerAddress], None],
    ) -> protocol.PreparedState:
        """Make a data directory from nothing where the last one was; the cache is not used."""
        self.stop(keep_data=False)
        key = state_key(program.identity, content)
        home = self._home(key)
        files.remove_tree(home / "data")
        self._create(program, home, build)
        self._states.sync(home)
        return protocol.PreparedState(
            key=key, data=home / "data", size_bytes=files.tree_bytes(home / "data")
        )

    def has_live_copy(self, state: protocol.PreparedState) -> bool:
        return (self._live / state.key / "data").exists()

    def start(
        self,
        state: protocol.PreparedState,
        program: outside.ServerProgram,
        settings: Mapping[str, str],
    ) -> None:
        self._server = self._server_at(program, self._home(state.key))
        if self._groups is not None:
            self._groups.make()
        groups = () if self._groups is None else self._groups.server
        self._server.start(settings, port=self._options.port, groups=groups)
        companion = program.companion(settings, self._server.address)
        self._beside.start(companion, self._home(state.key))

    @property
    def standstill(self) -> protocol.Standstill:
        """Return what pauses the live server with the generators that were started here."""
        if self._standstill is None:
            frozen = None if self._groups is None else self._groups.standstill
            self._standstill = frozen or self._generators.with_server(
                None if self._options.goes_on else self.server.pid
            )
        return self._standstill

    @property
    def guarded(self) -> protocol.Guarded:
        """Return what a guard watches of this place."""
        groups = () if self._groups is None else self._groups.freezing
        return protocol.Guarded(groups=groups, directory=self._live)

    @property
    def is_running(self) -> bool:
        return self._server is not None and self._server.is_running

    def configure(self, settings: Mapping[str, str]) -> bool:
        self.server.configure(settings)
        return True

    def unfit(self, limits: Mapping[str, str]) -> tuple[protocol.Unfit, ...]:
        return () if self._groups is None else self._groups.unfit(limits)

    def limit(self, limits: Mapping[str, str]) -> protocol.LimitsInForce:
        """Limit the running server and the generator, and read back what is in force."""
        if self._groups is None:
            return protocol.LimitsInForce()
        asked = limits_of(limits)
        if asked.memory is not None:
            # What is cached counts where it was read first: a copy of the data, outside the group.
            files.drop_cached(self.server.data)
        self._groups.put(asked)
        return protocol.LimitsInForce(
            effective=self._groups.effective(),
            deviations=(*self._groups.deviations(), *self._outside(self._groups)),
        )

    def _outside(self, groups: ServerGroups) -> tuple[str, ...]:
        """Return a sentence when processes of the server are not in its group."""
        before = frozenset(self._processes.within(self.server.data))
        strangers = groups.strangers(before)
        # A process that ended between two looks is in no group any more.
        lasting = strangers & frozenset(self._processes.within(self.server.data))
        pids = ", ".join(map(str, sorted(lasting)))
        return (f"server processes {pids} are outside their control group",) if lasting else ()

    def stop(self, *, keep_data: bool) -> None:
        """Stop the live server, if there is one; pauses and limits would only delay that.

        Raises:
            LeftBehindError: A process on its data does not end, whatever it is told.
        """
        if self._standstill is not None:
            with suppress(TargetError):  # its groups are gone
                self._standstill.proceed()
            self._standstill = None
        log = self._beside.stop()
        if log is not None:
            self._said.retire(log)
        if self._server is not None:
            if self._groups is not None:
                with suppress(TargetError):  # then it takes longer
                    self._groups.lift()
            self._server.stop(keep_data=keep_data)
            try:  # somebody may have restarted it: then another server is on our data
                end_processes(self._live, self._processes, self._clock)
            finally:
                self._said.retire(self._server.log)
                self._server = None

    @property
    def _generator_groups(self) -> tuple[Path, ...]:
        return () if self._groups is None else self._groups.generator

    def vantage(self) -> Vantage | None:
        """Return the running server's first process and data directory."""
        return Vantage(
            pid=self.server.pid,
            data=self.server.data,
            beside=self._beside.pids,
            groups=() if self._groups is None else self._groups.limiting,
        )

    def means(self) -> tuple[str, ...]:
        """Return all means; which is best depends on the file system."""
        return (*COPY_MEANS, *(("template",) if self._options.templates else ()))

    def copies_by_reflink(self, state: protocol.PreparedState) -> bool:
        """Return whether the file system of the states shares blocks between copies."""
        probe = self._made(self._live) / "reflink-probe"
        source = state.data.parent / "ready.json"
        argv = ("cp", COPY_MEANS["reflink"], str(source), str(probe))
        works = self._processes.run(outside.Command(argv=argv), timeout_s=10).succeeded
        probe.unlink(missing_ok=True)
        return works

    def free_bytes(self) -> int:
        return free_bytes(self._options.root)

    def logs(self) -> str:
        return self._said.with_current(self._server.log if self._server else None)

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of the limits, where there are any."""
        return () if self._groups is None else self._groups.findings()

    def destroy(self) -> None:
        """Stop the server and remove everything that was made for this campaign.

        Raises:
            LeftBehindError: A process does not end; then what it works in stays.
        """
        self.stop(keep_data=False)
        # One may have been started in the instant of an interruption, before we knew its number.
        end_processes(self._live, self._processes, self._clock)
        made: list[Path] = []
        if self._sockets is not None and self._sockets.exists():
            files.remove_tree(self._sockets)
            made.append(self._sockets)
        self._sockets = None
        made += self._removed_here()
        if self._groups is not None:
            self._groups.remove()
        # Last, because the journal may be what has failed.
        for directory in made:
            self._ledger.removed(outside.MadeDirectory(path=directory))
        if self._groups is not None:
            self._groups.note_removed()

    def _server_at(self, program: outside.ServerProgram, home: Path) -> LocalServer:
        return LocalServer(
            program,
            home,
            self._socket_directory(),
            account=self._options.account,
            processes=self._processes,
            clock=self._clock,
        )

    def _noted(self, directory: Path) -> None:
        self._ledger.created(outside.MadeDirectory(path=directory))

    def _socket_directory(self) -> Path:
        if self._sockets is None:
            self._sockets = files.short_directory(
                "steelyard-", account=self._options.account, announce=self._noted
            )
        return self._sockets

    def _home(self, key: str) -> Path:
        self._made(self._live)
        home = self._live / key
        files.make_directory(home, account=self._options.account, mode=0o700)
        return home

    def _checked(self, command: outside.Command, what: str) -> None:
        completed = self._processes.run(command, timeout_s=600)
        if not completed.succeeded:
            raise TargetError(f"{what} failed: {completed.tail(3)}")
