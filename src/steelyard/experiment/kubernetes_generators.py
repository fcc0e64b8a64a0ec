"""The load generators of a campaign in a cluster: their pods, and the programs in them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.engines.postgres.in_image import CLIENTS, ImagePrograms, find_in_image
from steelyard.engines.postgres.installation import Installation
from steelyard.experiment.kubernetes_images import asked_once
from steelyard.experiment.kubernetes_site import KubernetesSite
from steelyard.gateways.clock import Clock
from steelyard.gateways.files import cache_directory
from steelyard.model.environment import Fact
from steelyard.platforms.kubernetes.generator_manifest import GeneratorPlan
from steelyard.platforms.kubernetes.generators import GeneratorPods
from steelyard.platforms.kubernetes.pod_processes import PodProcesses
from steelyard.platforms.log_place import MEMORY

_TEMPORARY: Final = Path("/tmp")  # noqa: S108 - compared with, where platforms place files


@dataclass(frozen=True, slots=True, kw_only=True)
class Generators:
    """The pods and what runs programs in them; the pods are there once a campaign begins."""

    plan: GeneratorPlan
    pods: GeneratorPods
    processes: PodProcesses

    def make(self, site: KubernetesSite, told: Callable[[str], None]) -> None:
        """Make the pods, and note where they are.

        Raises:
            PreflightError: They cannot be.
        """
        self.pods.make(told)
        nodes = ", ".join(dict.fromkeys(self.pods.nodes))
        site.further.append(Fact(name="generators on", value=nodes, subject="Kubernetes"))
        site.further.append(
            Fact(name="generators' image", value=self.plan.image, subject="Kubernetes")
        )


def generators_of(
    plan: GeneratorPlan, site: KubernetesSite, clock: Clock, told: Callable[[str], None]
) -> Generators:
    """Return the generators of a plan; nothing is made yet."""
    pods = GeneratorPods(plan, site.belongings, site.api, clock)
    processes = PodProcesses(
        site.api,
        pods,
        clock,
        roots=(MEMORY, _TEMPORARY, cache_directory()),
        told=told,
    )
    return Generators(plan=plan, pods=pods, processes=processes)


def programs_of(
    plan: GeneratorPlan,
    known: Mapping[str, ImagePrograms],
    site: KubernetesSite,
    clock: Clock,
    told: Callable[[str], None],
) -> Installation:
    """Return the programs of the generators' image.

    Args:
        plan: Names the image.
        known: Images of servers that were asked already, by name.
        site: Where a pod of it is made for a moment.
        clock: Waits for it.
        told: Is told.

    Raises:
        PreflightError: It lacks pgbench or psql.
    """
    if plan.image in known:
        return known[plan.image].installation
    return asked_once(
        (plan.image, CLIENTS),
        site,
        clock,
        told,
        ask=lambda processes: find_in_image(plan.image, processes, CLIENTS),
    )
