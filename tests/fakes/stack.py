"""What configurations set outside their servers, in a world without a machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fakes.campaigns import an_experiment
from fakes.kernel import FakeKernel
from fakes.processes import FakeProcesses
from steelyard.core.experiment import Configuration, Experiment, Layer, ManualStep, Setting
from steelyard.core.wording import TargetError
from steelyard.gateways.host import CpuLatency
from steelyard.gateways.process import Operator
from steelyard.targets.stack import Hooks, StackMeans, StackSettings
from steelyard.tuning.apply.applier import SnapshotLedger
from steelyard.tuning.apply.kernel import kernel_doors

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
SWAPPINESS = "/proc/sys/vm/swappiness"
READ_AHEAD = "/sys/dev/block/8:0/queue/read_ahead_kb"


def a_kernel(*, pages: int = 10, fits: int = 400) -> FakeKernel:
    """Return a machine with one node, some huge pages and memory for so many."""
    files = {THP: "always [madvise] never\n", SWAPPINESS: "60\n", READ_AHEAD: "8192\n"}
    return FakeKernel(files=files).with_pools({0: pages}, fits=fits)


@dataclass(kw_only=True)
class FakeLatency(CpuLatency):
    """A limit of wake-ups that somebody may hold."""

    why_not: str | None = None
    heeded: bool = True
    held: int | None = None

    def obstacle(self) -> str | None:
        """Return what a test says."""
        return self.why_not

    def in_force_us(self) -> int | None:
        """Return what is held, where the kernel heeds it."""
        return 2_000_000_000 if self.held is None or not self.heeded else self.held

    def hold(self, microseconds: int) -> None:
        """Hold a limit."""
        if self.why_not:
            raise TargetError(self.why_not)
        self.held = microseconds

    def release(self) -> None:
        """Hold none."""
        self.held = None


@dataclass(kw_only=True)
class FakeOperator(Operator):
    """Somebody who confirms everything, or nothing."""

    is_there: bool = True
    willing: bool = True
    asked: list[str] = field(default_factory=list)

    def confirms(self, request: str, *, timeout_s: float, then: str = "when it is done") -> bool:
        """Keep the request."""
        assert timeout_s > 0
        assert then
        self.asked.append(request)
        return self.willing


@dataclass(kw_only=True)
class FakeNeeds:
    """Servers that take so many huge pages each."""

    pages: int = 75
    counted: int = 0

    def estimate(self, configuration: Configuration) -> int:
        """Return it."""
        assert configuration.name
        return self.pages

    def count(self, configurations: Iterable[Configuration]) -> Mapping[str, int]:
        """Return it for each."""
        self.counted += 1
        return {configuration.name: self.pages for configuration in configurations}


@dataclass(kw_only=True)
class Outside:
    """Everything outside the servers of a campaign."""

    kernel: FakeKernel = field(default_factory=a_kernel)
    latency: FakeLatency = field(default_factory=FakeLatency)
    operator: FakeOperator = field(default_factory=FakeOperator)
    processes: FakeProcesses = field(default_factory=FakeProcesses)
    needs: FakeNeeds = field(default_factory=FakeNeeds)

    def settings(self, experiment: Experiment, ledger: SnapshotLedger) -> StackSettings:
        """Return what the configurations of an experiment set in it."""
        means = StackMeans(
            doors=kernel_doors(self.kernel, self.kernel),
            host=self.kernel,
            latency=self.latency,
            hooks=Hooks(processes=self.processes, operator=self.operator),
            ledger=ledger,
            devices={t.name: "8:0" for t in experiment.configurations},
            needs=self.needs,  # type: ignore[arg-type]
        )
        return StackSettings(experiment, means)


def asking(
    slow: Mapping[str, str], fast: Mapping[str, str], *, manual: tuple[ManualStep, ...] = ()
) -> Experiment:
    """Return the usual experiment whose two configurations ask the kernel for something."""
    experiment = an_experiment(restart=False)
    configurations = []
    for place, (configuration, asked) in enumerate(
        zip(experiment.configurations, (slow, fast), strict=True)
    ):
        own = tuple(Setting(layer=Layer.LINUX, name=n, value=v) for n, v in asked.items())
        step = manual[place] if manual else None
        settings = tuple(sorted((*configuration.settings, *own)))
        configurations.append(replace(configuration, settings=settings, manual=step))
    return replace(experiment, configurations=tuple(configurations))
