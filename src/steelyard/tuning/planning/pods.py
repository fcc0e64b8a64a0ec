"""The database's pod and the kubelet below it."""

from typing import Final

from steelyard.model.linux_facts import LinuxFacts
from steelyard.model.stack import PodDesign, StackRequest
from steelyard.model.units import GIB, MIB
from steelyard.tuning.planning.arithmetic import Budget
from steelyard.tuning.planning.postgres_settings import volume_bytes
from steelyard.tuning.planning.refusals import DoesNotFitError
from steelyard.tuning.planning.topology import cores_of, nodes_of, threads_per_core

# kubeReserved, systemReserved, evictionHard: a guess for a node that does nothing else.
RESERVED: Final = (1 * GIB, 512 * MIB, 500 * MIB)
# Of a node beside its pods' huge pages and the database's memory: what is reserved, and a gibibyte
# for the cluster's own pods, a guess. Rule K8S015 wants 2 GiB.
SYSTEM_BYTES: Final = 3 * GIB


def pod_design(
    request: StackRequest, budget: Budget, node: LinuxFacts, shm_bytes: int
) -> PodDesign:
    """Return the pod: requests equal to limits, whole CPUs, its huge pages beside its memory."""
    threads = threads_per_core(node)
    return PodDesign(
        cpus=request.cpus,
        memory_bytes=budget.beside_bytes // MIB * MIB,
        huge_pages_bytes=budget.reserved_bytes,
        page_bytes=request.page_bytes,
        reserved_cpus=cores_of(node)[0] if cores_of(node) else (0,),
        reserved_memory_bytes=RESERVED,
        numa_nodes=tuple(each.number for each in nodes_of(node)),
        smt=threads > 1,
        instances=request.instances,
        storage_class=request.storage_class,
        shm_bytes=shm_bytes,
        full_cores=request.exclusive_cpus and threads > 1,
        volume_bytes=volume_bytes(request, budget.shared_buffers_bytes),
    )


def require_whole_cores(request: StackRequest, threads: int) -> None:
    """Refuse exclusive CPUs that are no whole cores.

    Raises:
        DoesNotFitError: With how many make a core.
    """
    if request.exclusive_cpus and request.cpus % threads:
        raise DoesNotFitError(
            f"{request.cpus} exclusive CPUs are no whole cores of {threads} threads: the kubelet"
            " admits such a pod with SMTAlignmentError, or gives a core to two pods"
        )
