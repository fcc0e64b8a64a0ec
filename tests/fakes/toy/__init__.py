# ruff: noqa: ARG002 - what an engine is asked with stands in its protocol
"""A toy database system as somebody adds one: programs, engine, and what a file may say of it."""

import json
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.core.experiment import EffectiveSetting, Experiment, Setting, SwitchCost, Workload
from steelyard.core.measurement import Absence, Measurement, Quantity
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.target import DatabaseSystem, EngineName
from steelyard.core.wording import MeasurementError, TargetError, WorkWords
from steelyard.systems.protocol import Dataset, Engine, LoadProgram, RunRequest, Waiting

TOY = DatabaseSystem(
    name=EngineName("toy"),
    layer="toy",
    programs="toy",
    words=WorkWords(
        one="request",
        many="requests",
        many_first="Requests",
        rate="requests/s",
        rate_unit="",
        generator="toy-load",
        server="Toy",
    ),
    builtins=("get", "set"),
)
PYTHON = "/usr/bin/python3"
KEYS = 100
_PROGRAMS = Path(__file__).parent


def asked(address: ServerAddress, *lines: str) -> list[str]:
    """Return a server's answers to some lines.

    Raises:
        TargetError: It does not answer.
    """
    try:
        with socket.create_connection(("127.0.0.1", address.port), timeout=5.0) as connection:
            connection.sendall("".join(f"{line}\n" for line in lines).encode())
            answers = connection.makefile("r")
            return [answers.readline().strip() for _ in lines]
    except OSError as error:
        raise TargetError(f"the toy on port {address.port} does not answer: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyProgram:
    """The server program."""

    programs: Path
    version: str = "1.0"
    identity: tuple[str, ...] = ("toy", "1.0")
    superuser: tuple[str, str] = ("", "")
    stop_signals: tuple[int, int] = (signal.SIGTERM, signal.SIGKILL)

    @property
    def while_preparing(self) -> Mapping[str, str]:
        """Return that it does not sleep then."""
        return {"delay_ms": "0"}

    def create(self, data: Path, account: str | None) -> Command:
        """Return what makes an empty directory."""
        return Command(argv=("mkdir", "--mode=0700", str(data)), account=account)

    def start(self, data: Path, account: str | None) -> Command:
        """Return what runs the server."""
        argv = (PYTHON, str(self.programs / "server.py"), str(data))
        return Command(
            argv=argv, account=account, directory=data, parent_death_signal=signal.SIGKILL
        )

    def configuration(
        self, settings: Mapping[str, str], address: ServerAddress, sockets: Path
    ) -> Mapping[str, str]:
        """Return the configuration file."""
        own = {**settings, "port": str(address.port)}
        return {"toy.conf": "".join(f"{name}={value}\n" for name, value in own.items())}

    def is_ready(self, address: ServerAddress) -> bool:
        """Return whether it answers."""
        try:
            return bool(asked(address, "COUNT"))
        except TargetError:
            return False

    def is_loading(self, address: ServerAddress) -> bool:
        """Return that it does not load."""
        return False

    def companion(self, settings: Mapping[str, str], address: ServerAddress) -> None:
        """Return that nothing is started beside it."""


class ToyReader:
    """Reads how many requests a server has served."""

    source = "COUNT"
    pid = serving_pid = answering_s = None
    absent = (Absence(subject="wait events", reason="The toy does not tell them."),)

    def __init__(self, address: ServerAddress) -> None:
        self._address = address

    def skip(self, seconds: float) -> None:
        """Take note of nothing."""

    def waits(self) -> Sequence[Waiting]:
        """Return none."""
        return ()

    def counters(self) -> Mapping[str, float]:
        """Return the number of requests."""
        return {Quantity.COMMANDS: float(asked(self._address, "COUNT")[0].split()[1])}

    settled_counters = counters

    def levels(self) -> Mapping[str, float]:
        """Return none."""
        return {}

    def statements(self) -> None:
        """Return nothing."""

    def close(self) -> None:
        """Do nothing: no session stays open."""


class ToyEngine(Engine, LoadProgram):
    """Toys under toy-load."""

    def __init__(self, experiment: Experiment, programs: Path, account: str | None) -> None:
        self._experiment = experiment
        self._programs = programs
        self._account = account

    def label(self, configuration: str) -> str:
        """Return what the server is called."""
        return f"Toy {self.program(configuration).version}"

    def known_settings(self, configuration: str) -> frozenset[str]:
        """Return the one that it has."""
        return frozenset({"delay_ms"})

    def tools(self) -> Mapping[str, str]:
        """Return the versions."""
        servers = {
            f"server of {t.name}": self.label(t.name) for t in self._experiment.configurations
        }
        return {"toy-load": "1.0", **servers}

    def program(self, configuration: str) -> ToyProgram:
        """Return the server program."""
        return ToyProgram(programs=self._programs)

    def switch_cost(self, configuration: str, names: Sequence[str]) -> SwitchCost:
        """Return a restart: it reads its configuration at its start."""
        return SwitchCost.RESTART

    def asks_the_same(self, one: str, other: str, names: Sequence[str]) -> bool:
        """Return whether the delays are equal numbers."""
        values = [
            self._experiment.configuration(t).asked().get("delay_ms", "0") for t in (one, other)
        ]
        return float(values[0]) == float(values[1])

    def datasets(self) -> tuple[Dataset, ...]:
        """Return the keys, which are the same for all workloads."""
        return (Dataset(name="keys"),)

    def build(
        self,
        dataset: Dataset,
        address: ServerAddress,
        configuration: str,
        directory: Path | None = None,
    ) -> None:
        """Load the keys."""
        asked(address, *(f"SET key{number} value" for number in range(KEYS)), "SAVE")

    def writes(self) -> bool:
        """Return whether any workload sets keys."""
        return not all(map(self.only_reads, self._experiment.workloads))

    def only_reads(self, workload: Workload) -> bool:
        """Return whether it gets keys."""
        return workload.builtin == "get"

    def memory_bytes(self, configuration: str) -> int:
        """Return what a Python process takes, a guess."""
        return 50_000_000

    def effective(self, address: ServerAddress) -> tuple[EffectiveSetting, ...]:
        """Return what the server says of its settings."""
        told = json.loads(asked(address, "SETTINGS")[0])
        value = told.get("delay_ms", "0")
        return (EffectiveSetting(name="delay_ms", value=value, unit="ms", source="SETTINGS"),)

    def deviations(
        self, asked: Sequence[Setting], effective: Sequence[EffectiveSetting]
    ) -> tuple[str, ...]:
        """Return a sentence for each that differs."""
        seen = {each.name: each.value for each in effective}
        wrong = [s for s in asked if s.layer == "toy" and seen.get(s.name) != s.value]
        return tuple(f"{s.name} is {seen.get(s.name)}, not {s.value}" for s in wrong)

    def generator_address(self, address: ServerAddress, connection: str) -> ServerAddress:
        """Return the server itself."""
        return address

    def reader(self, address: ServerAddress, workload: Workload) -> ToyReader:
        """Return what reads its counter."""
        return ToyReader(address)

    def reload(self, address: ServerAddress, configuration: str, clock: object) -> None:
        """Refuse: nothing is taken by a running server."""
        raise NotImplementedError

    def run_commands(self, request: RunRequest) -> tuple[Command, ...]:
        """Return the command line of the generator."""
        words = (request.address.port, request.load.clients, request.seconds, KEYS)
        argv = (PYTHON, str(self._programs / "load.py"), *map(str, words))
        return (Command(argv=(*argv, request.workload.builtin or ""), account=self._account),)

    def turn_counter(self, request: RunRequest) -> None:
        """Return None: it is not asked where one server is up at a time."""

    @property
    def load(self) -> LoadProgram:
        """Return itself."""
        return self

    def parse_run(
        self,
        completed: Sequence[Completed],
        *,
        request: RunRequest,
        ramp_s: float,
        started_at: float,
        run_time_s: float | None = None,
    ) -> Measurement:
        """Return what the generator printed.

        Raises:
            MeasurementError: It failed.
        """
        if not completed[0].succeeded:
            raise MeasurementError(f"toy-load failed: {completed[0].tail(2)}")
        told = json.loads(completed[0].stdout)
        return Measurement(
            transactions=told["requests"],
            seconds=told["seconds"],
            latency_mean_s=told["mean_s"],
            latency_stddev_s=None,
            failed=0,
            connection_s=None,
            series=(),
        )

    def processed(self, completed: Sequence[Completed]) -> int:
        """Return how many requests were answered."""
        return int(json.loads(completed[0].stdout)["requests"])


def toy_engine(
    experiment: Experiment,
    account: str | None,
    reach: Callable[[Path, tuple[Path, ...], str], Path],
) -> ToyEngine:
    """Return the engine, with the programs where the server's account can reach them."""
    return ToyEngine(experiment, reach(_PROGRAMS, (_PROGRAMS,), "toy-1.0"), account)
