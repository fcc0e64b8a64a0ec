"""The files of ``steelyard redis split`` for this machine, started as they say."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.core.outside import ServerAddress
from steelyard.core.redis import Role, SplitPlan, SplitRequest, SplitServer
from steelyard.core.wording import MIB, TargetError
from steelyard.gateways.doors import RedisPy
from steelyard.gateways.redis import RedisSession
from steelyard.tuning.plan.redis_split import make_split
from support.endpoint import free_port
from support.redis import require_redis
from support.redis_pairs import wait_until


@dataclass
class RenderedPair:
    """Both servers by ``start.sh``, in a directory of their own.

    Attributes:
        shell: That runs the script.
        password: Of both; empty: none.
        further: Lines added to the rendered configurations.
    """

    home: Path
    plan: SplitPlan
    shell: tuple[str, ...] = ("sh",)
    password: str = ""
    further: Mapping[Role, str] = field(default_factory=dict)
    processes: dict[Role, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def write(self) -> None:
        """Write the rendered files and make the directories that they name."""
        for file in self.plan.files:
            name = file.name.removeprefix("redis/")
            if "/" in name:
                continue
            role = name.removesuffix(".conf")
            more = self.further.get(role, "")  # type: ignore[call-overload]
            (self.home / name).write_text(file.content + more)
        for role in ("primary", "replica"):
            Path(self._place(role).directory).mkdir(exist_ok=True)

    def _place(self, role: Role) -> SplitServer:
        return self.plan.design.request.server(role)

    def start(self, role: Role) -> None:
        """Start one by the script; it may wait for the other for ever."""
        environment = {"PATH": os.environ["PATH"]}
        if self.password:
            environment["REDISCLI_AUTH"] = self.password
        with (self.home / f"{role}.log").open("ab") as log:
            self.processes[role] = subprocess.Popen(
                [*self.shell, str(self.home / "start.sh"), role],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def kill(self, role: Role) -> None:
        """Kill it with what works beside it."""
        process = self.processes.pop(role)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)

    def log(self, role: Role) -> str:
        """Return what the script and the server said, over all starts."""
        path = self.home / f"{role}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def session(self, role: Role) -> RedisSession:
        """Return a session."""
        place = self._place(role)
        address = ServerAddress(host="127.0.0.1", port=place.port, password=self.password)
        return RedisPy().connect(address)

    def command(self, role: Role, *words: str | int) -> object:
        """Return the answer to one command."""
        session = self.session(role)
        try:
            return session.command(*words)
        finally:
            session.close()

    def info(self, role: Role) -> Mapping[str, str]:
        """Return what INFO says; empty where nobody answers."""
        try:
            session = self.session(role)
        except TargetError:
            return {}
        try:
            return session.info()
        except TargetError:
            return {}
        finally:
            session.close()

    def is_whole(self) -> bool:
        """Return whether the primary is one that takes writes, and the replica follows it."""
        primary, replica = self.info("primary"), self.info("replica")
        return (
            primary.get("role") == "master"
            and primary.get("connected_slaves") == "1"
            and primary.get("min_slaves_good_slaves") == "1"
            and replica.get("master_link_status") == "up"
            and replica.get("aof_rewrite_in_progress") == "0"
        )

    def wait_whole(self) -> None:
        """Wait until it is so."""
        wait_until(self.is_whole, f"the pair did not find together:\n{self.log('primary')[-3000:]}")


@contextmanager
def rendered_pair(
    *,
    shell: tuple[str, ...] = ("sh",),
    password: str = "",
    further: Mapping[Role, str] | None = None,
    most_lag_s: int = 10,
) -> Iterator[RenderedPair]:
    """Give a pair whose files are written and whose servers are not started; end it afterwards."""
    require_redis()
    home = Path(tempfile.mkdtemp(prefix="redis-pair-", dir="/var/tmp"))
    request = SplitRequest(
        memory_bytes=128 * MIB,
        most_lag_s=most_lag_s,
        primary=SplitServer(host="localhost", port=free_port(), directory=str(home / "of-primary")),
        replica=SplitServer(host="127.0.0.1", port=free_port(), directory=str(home / "of-replica")),
    )
    pair = RenderedPair(
        home=home,
        plan=make_split(request),
        shell=shell,
        password=password,
        further=further or {},
    )
    try:
        pair.write()
        yield pair
    finally:
        for role in tuple(pair.processes):
            pair.kill(role)
        shutil.rmtree(home, ignore_errors=True)
