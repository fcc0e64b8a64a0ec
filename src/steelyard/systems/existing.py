"""Servers that are there already, whatever database system they are of.

Nothing of the server is ours to stop, to limit, to look into or to make anew. It is reached at an
address or in a Kubernetes cluster. What is changed there is announced before, and undone in the
end.

Here also stands what every engine says in the same words of settings, loads and versions, and what
crash tests ask of an engine. They ask for writes with numbers, so that it can be told which are
gone: each connection is a writer with a number of its own, and numbers its writes from 1 on. And
they ask for a replica that takes the place of a dead server.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from steelyard.core import outside, wording
from steelyard.core.experiment import Configuration
from steelyard.core.findings import Fact, Finding, Severity, facts_about
from steelyard.core.places import Provision
from steelyard.core.schedule import Load
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places import protocol
from steelyard.places.elsewhere import ServerElsewhere
from steelyard.places.kubernetes.reaching import Knock, PodBehind, Reach, pod_behind


class SettingStore(Protocol):
    """Where the settings of one server are kept for everyone, and how they come into force."""

    @property
    def label(self) -> str:
        """Return how settings are changed, for people: ``by ALTER SYSTEM``."""

    def change(self, settings: Mapping[str, str]) -> bool:
        """Take the settings of a configuration; those it does not ask for go back to what was.

        Returns whether the server has yet to be told to read them.
        """

    def activate(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Bring the settings of a configuration into force, by a restart where asked.

        Raises:
            TargetError: The server does not take them.
        """


class ServerPlace(Protocol):
    """The place of one server that is there already; what has a body is so where nothing is known.

    Then what can be known the server says itself.
    """

    @property
    def label(self) -> str:
        """Return what it is called in messages."""

    @property
    def inside(self) -> outside.ServerInCluster | None:
        """Return how it is found again in its cluster; None where it is in none."""
        return None

    def entrance(self) -> outside.ServerAddress:
        """Return where it is reached now.

        Raises:
            TargetError: It is not.
        """

    def store(self, own_file: SettingStore) -> SettingStore | None:
        """Return where its settings are changed for everyone; None: nowhere.

        As with every server it is its own file, where a superuser may.
        """
        return own_file

    def require_ready(self) -> None:
        """Raise a PreflightError when the place keeps the server from being measured."""
        return

    def sight(self) -> protocol.PodSight | None:
        """Return what of its pod can be watched; None where it is in none."""
        return None

    def provision(self) -> Provision:
        """Return what it gives the server; nothing is guessed."""
        return Provision()

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the place."""
        return ()

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth knowing of the place."""
        return ()

    def leave(self) -> None:
        """Put back what was changed there beside the server's own files."""
        return


class Anywhere(ServerPlace):
    """A server of which nothing is known but its address."""

    def __init__(self, entrance: outside.ServerAddress) -> None:
        self._entrance = entrance

    @property
    def label(self) -> str:
        """Return host and port, or the socket where there is no port."""
        host, port = self._entrance.host, self._entrance.port
        return outside.host_and_port(host, port) if port else host

    def entrance(self) -> outside.ServerAddress:
        """Return where libpq found it."""
        return self._entrance


class Undo(Protocol):
    """Undoes one thing on a server."""

    def __call__(
        self,
        thing: outside.OnServer,
        doors: Doors,
        *,
        password: str,
        reached: outside.ServerAddress | None,
    ) -> None:
        """Undo it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcing:
    """How changes are written down and undone.

    Attributes:
        place: Of the server.
        mark: What is made carries it.
        undo: Undoes one thing, by way of the gateways. It takes the password of the server's user
            and where a server in a cluster is reached now; None: where it was.
        restart_command: Restarts it after its settings were put back; empty: a reload does.
        settings: What its settings are called among the kinds of things.
    """

    place: ServerPlace
    mark: str
    undo: Undo
    restart_command: tuple[str, ...] = ()
    settings: outside.Foreign = outside.Foreign.SETTINGS


class Changes:
    """The changes of one campaign on one server; the ledger is told before each."""

    def __init__(self, announcing: Announcing, ledger: protocol.Ledger, doors: Doors) -> None:
        self._how = announcing
        self._ledger = ledger
        self._doors = doors
        self._done: list[outside.OnServer] = []
        self._troubles: list[wording.SteelyardError] = []
        self._told: set[object] = set()

    @property
    def databases(self) -> frozenset[str]:
        """Return the databases that were announced, and those of announced tables."""
        return frozenset(thing.database for thing in self._done)

    def announce(self, resource: outside.Foreign, database: str, names: tuple[str, ...]) -> None:
        """Note a database, tables, keys or a user about to be made."""
        entrance = "" if resource is outside.Foreign.DATABASE else database
        self._note(replace(self._thing(resource, database, entrance), names=names))

    def keep(self, saved: tuple[outside.SavedSetting, ...]) -> None:
        """Note how the server's settings were, before the first change there."""
        again = self._how.restart_command
        thing = self._thing(self._how.settings, "", "")
        self._note(replace(thing, saved=saved, restart_command=again))

    def _thing(self, resource: outside.Foreign, database: str, entrance: str) -> outside.OnServer:
        """Return a change; without names, database and entrance are what is connected to."""
        way, inside = self._how.place.entrance(), self._how.place.inside
        host, port = (way.service or (way.host, way.port)) if inside else (way.host, way.port)
        return outside.OnServer(
            resource=resource,
            host=host,
            port=port,
            user=way.user,
            parameters=way.parameters,
            database=database or way.database,
            entrance=entrance or way.database,
            mark=self._how.mark,
            inside=inside,
        )

    def _note(self, thing: outside.OnServer) -> None:
        self._ledger.created(thing)
        self._done.append(thing)
        self._troubles = []

    def undo(self, asks: object) -> list[wording.SteelyardError]:
        """Undo everything, each whatever becomes of others; return the troubles.

        What failed is tried once more: the server may have been away. Who asks for the first time
        after that is told what is stuck, without a further try: sessions of several configurations
        ask for the same, and each would wait for a dead server.
        """
        if self._troubles and asks not in self._told:
            self._told.add(asks)
            return self._troubles
        self._troubles = self._undo_each() and self._undo_each()
        self._told = {asks}
        return self._troubles

    def _undo_each(self) -> list[wording.SteelyardError]:
        troubles: list[wording.SteelyardError] = []
        for thing in outside.in_undoing_order(self._done):
            try:
                self._undo(thing)
            except wording.SteelyardError as error:
                troubles.append(error)
        return troubles

    def _undo(self, thing: outside.OnServer) -> None:
        way = self._how.place.entrance()
        reached = None if thing.inside is None else way
        self._how.undo(thing, self._doors, password=way.password, reached=reached)
        self._done.remove(thing)
        self._ledger.removed(thing)


UNSEEN: Final = "endpoint-unseen"


def unseen(where: str) -> Finding:
    """Return that the server's machine is out of sight."""
    return server_finding(
        UNSEEN,
        f"the machine, the disks and the log of the server at {where} are not visible from here",
        where,
    )


def require_no_campaign(marks: Sequence[str], where: str) -> None:
    """Raise when another campaign may be changing the settings.

    Raises:
        PreflightError: There are marks of others on the server.
    """
    if marks:
        raise wording.PreflightError(
            f"another campaign works on the server at {where}, or died there: {', '.join(marks)}",
            hint="Wait for it, or undo what it left by `steelyard clean`: its settings may be in"
            " force now.",
        )


def without_secrets(saved: Iterable[outside.SavedSetting]) -> tuple[outside.SavedSetting, ...]:
    """Return what settings of a server were, as the record keeps it to put it back.

    Raises:
        PreflightError: One holds a secret, which no record may have.
    """
    kept = tuple(saved)
    for setting in kept:
        value = setting.value or ""
        is_secret = wording.is_secret_setting(setting.name) and not setting.name.endswith(
            "_command"
        )
        if is_secret or wording.command_holds_secret(value):
            raise wording.PreflightError(
                f"`{setting.name}` is a secret or holds one, and what it was would go into the"
                " record",
                hint="Remove it from the configurations.",
            )
    return kept


def server_finding(
    code: str, message: str, where: str, remedy: str = "", severity: Severity = Severity.INFO
) -> Finding:
    """Return a finding whose subject is a server, by what it is called."""
    return Finding(code=code, severity=severity, message=message, remedy=remedy, subject=where)


class OthersServer(ServerElsewhere):
    """One running server that somebody else has started.

    Args:
        campaign_id: Names the directory of this machine where scripts and logs go.
        announcing: How changes on the server are written down, and where it is.
    """

    def __init__(
        self,
        campaign_id: str,
        announcing: Announcing,
        ledger: protocol.Ledger,
        doors: Doors,
    ) -> None:
        super().__init__(campaign_id, ledger, doors)
        self._place = announcing.place
        self._mark = announcing.mark
        self._changes = Changes(announcing, ledger, doors)
        # The start of the server under which a configuration is in force.
        self._since: object = None

    @property
    def _where(self) -> str:
        return self._place.label

    @property
    def _entrance(self) -> outside.ServerAddress:
        return self._place.entrance()

    @property
    def address(self) -> outside.ServerAddress:
        """Return where sessions under the configuration in force go.

        Raises:
            TargetError: No configuration is in force.
        """
        if self._since is None:
            raise wording.TargetError("no configuration is in force on the server")
        return self._inside(self._entrance)

    @abstractmethod
    def _inside(self, entrance: outside.ServerAddress) -> outside.ServerAddress:
        """Return the way in under the configuration: its databases, its user, its sessions."""

    @property
    def is_running(self) -> bool:
        """Return whether the server answers and was not restarted since the start."""
        try:
            return self._since is not None and self._started_at() == self._since
        except wording.TargetError:
            return False

    @abstractmethod
    def _started_at(self) -> object:
        """Return what tells one start of the server from another.

        Raises:
            TargetError: It does not answer.
        """

    def sight(self) -> protocol.PodSight | None:
        """Return what of its pod can be watched; None where it is in no cluster."""
        return self._place.sight()

    def reprovision(
        self,
        program: outside.ServerProgram,
        content: Sequence[object],
        build: Callable[[outside.ServerAddress], None],
    ) -> protocol.PreparedState:
        """Refuse: nobody may remake what somebody else made."""
        raise wording.PreflightError(
            f"Steelyard did not make the server at {self._where} and cannot make it anew",
            hint="Use a target that Steelyard makes (`kind: local`), or leave `switch` out.",
        )

    def stop(self, *, keep_data: bool) -> None:
        """Leave the server alone: it is not ours to stop."""
        self._since = None

    def _with_place(self, said: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return what is said of the server, and of its place.

        In a cluster the pod shows what is unseen elsewhere.
        """
        unseen = self._place.inside is None
        return (
            *(each for each in said if unseen or each.code != UNSEEN),
            *self._place.findings(),
        )

    def _undone(self) -> list[wording.SteelyardError]:
        self._since = None
        troubles: list[wording.SteelyardError] = []
        try:
            self._place.leave()
        except wording.SteelyardError as error:
            troubles.append(error)
        return troubles + self._changes.undo(id(self))


def named_in(names: Sequence[str], fixed: Mapping[str, str]) -> Mapping[str, str]:
    """Return those of the names that are fixed, as they were given, with what to do instead.

    They do not differ by case; the fixed ones are in lower case.
    """
    folded = {name: name.lower() for name in names}
    return {name: fixed[low] for name, low in folded.items() if low in fixed}


def fixed_settings(refused: Mapping[str, str]) -> Iterator[wording.Complaint]:
    """Yield a complaint for each of these settings, given with what to do instead."""
    for name, instead in refused.items():
        yield wording.Complaint(setting=name, message=f"`{name}` is set by Steelyard", hint=instead)


def too_few_connections(
    configuration: Configuration,
    loads: Sequence[Load],
    *,
    limit: str,
    default: int | None,
    kept: int,
    most: int,
) -> Iterator[wording.Complaint]:
    """Yield a complaint when the clients do not fit into what a server lets in.

    The setting that limits its connections is named in small letters, with its default, how
    many are kept from clients, and the most that it takes. Without a default only what a
    configuration sets is judged: the server itself is asked for the rest.
    """
    written = {name.lower(): name for name in configuration.asked()}.get(limit)
    text = str(default) if written is None else configuration.asked()[written]
    clients = max(load.clients for load in loads)
    if clients > most - kept:
        yield wording.Complaint(
            setting=None,
            message=f"{clients} clients are more than any server takes: its `{limit}` is at most"
            f" {most}",
            hint=f"Use at most {most - kept} clients.",
        )
    elif text.isdigit() and clients > int(text) - kept:
        yield wording.Complaint(
            setting=written,
            message=f"{clients} clients do not fit into {limit} = {text} of configuration"
            f" `{configuration.name}`",
            hint=f"Set `{limit}` to at least {clients + kept} in every configuration.",
        )


def version_not_run(label: str, subject: str) -> Finding:
    """Return the finding that Steelyard's own tests do not run a version."""
    return Finding(
        code="version-not-run",
        severity=Severity.INFO,
        message=f"{label} is supported by its documentation; Steelyard's own tests do not run it",
        remedy="Report what does not work.",
        subject=subject,
    )


class NumberedWriter(Protocol):
    """One connection that writes."""

    def write(self, first: int, count: int) -> None:
        """Write so many numbers from the first on; return when each of them is acknowledged.

        Raises:
            TargetError: The server is gone or refuses; some may be there without an answer.
        """

    def close(self) -> None:
        """End the connection; also from another thread, while a write hangs."""


class NumberedWrites(Protocol):
    """What an engine brings for that."""

    def prepare(self, address: outside.ServerAddress) -> None:
        """Make what the writes go into, on a server that has time to make it last."""

    def writer(self, address: outside.ServerAddress, writer: int) -> NumberedWriter:
        """Return a connection that writes."""

    def missing(self, address: outside.ServerAddress, writer: int, last: int) -> Sequence[int]:
        """Return which of a writer's numbers up to the last are not there as written, in order.

        Raises:
            TargetError: The server cannot read its data.
        """


_LOOKED_EVERY_S: Final = 5.0  # so long the pod behind a Service is taken to be the same; a guess
ENTRANCE: Final = "postgres"


class ServicePlace(ServerPlace):
    """The place of a server behind a Service; the pod there may be another from time to time."""

    def __init__(
        self, found: outside.ServerInCluster, reach: Reach, database: str = ENTRANCE
    ) -> None:
        self._found = found
        self._reach = reach
        self._database = database
        self._pod: PodBehind | None = None
        self._looked_at = 0.0

    @property
    def label(self) -> str:
        """Return the Service and its namespace."""
        return f"{self._found.service}.{self._found.namespace}:{self._found.port}"

    @property
    def inside(self) -> outside.ServerInCluster | None:
        return self._found

    @property
    def pod(self) -> PodBehind:
        """Return the pod that the Service leads to.

        Raises:
            PreflightError: There is no such Service, or not one pod behind it.
        """
        now = self._reach.clock.monotonic()
        if self._pod is None or now - self._looked_at > _LOOKED_EVERY_S:
            found = self._found
            self._pod = pod_behind(self._reach.api, found.service, found.namespace, found.port)
            self._looked_at = now
        return self._pod

    def entrance(self) -> outside.ServerAddress:
        """Return where it is reached now.

        Raises:
            TargetError: There is no such Service, no pod behind it, or the way there is closed.
        """
        try:
            found, pod = self._found, self.pod
        except wording.PreflightError as error:  # it was there when the campaign began
            raise wording.TargetError(error.message, hint=error.hint) from error
        return self._reach.address(
            pod.where,
            found.service,
            found.namespace,
            found.secret,
            self._database,
            port=found.port,
            pod_port=pod.port,
        )

    def require_ready(self) -> None:
        """Look for the pod."""
        self._pod = None
        _ = self.pod

    def sight(self) -> protocol.PodSight | None:
        return protocol.PodSight(api=self._reach.api, database=self.pod.where)

    def facts(self) -> tuple[Fact, ...]:
        """Return where it is."""
        facts = {"service": self.label, "pod": self.pod.where.pod, "node": self.pod.node}
        return facts_about("endpoint", facts)


@contextmanager
def reached(
    found: outside.ServerInCluster,
    api: KubernetesApi,
    knock: Knock,
    clock: Clock,
    *,
    database: str = ENTRANCE,
) -> Iterator[outside.ServerAddress]:
    """Give the way to a server that a campaign left something on.

    Raises:
        LeftBehindError: Its context means another cluster now.
        TargetError: It is not there any more, or the way there is closed.
    """
    if found.context and found.server != api.server:
        raise wording.LeftBehindError(
            f"{found.service}.{found.namespace} is at {found.server}, and the context"
            f" {found.context} means {api.server} now",
            hint="Name a kubeconfig in KUBECONFIG whose context means that cluster.",
        )
    reach = Reach(api, knock, clock)
    try:
        yield ServicePlace(found, reach, database).entrance()
    finally:
        reach.close()
