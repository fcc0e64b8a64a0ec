"""A container that sees the record: that of the Job while it runs, else that of a reader."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import PreflightError
from steelyard.model.kubernetes import CLAIM, POD, ContainerRef, ObjectRef, ref_of
from steelyard.platforms.job import manifests
from steelyard.platforms.job.finding import standing
from steelyard.platforms.job.making import remove_one
from steelyard.platforms.job.plan import JobPlan
from steelyard.platforms.job.record_files import RecordFiles
from steelyard.platforms.kubernetes.waiting import ReadyWait


@contextmanager
def record_files(
    plan: JobPlan, api: KubernetesApi, clock: Clock, told: Callable[[str], None]
) -> Iterator[RecordFiles]:
    """Give the files of a campaign's record; a pod made for that is removed afterwards.

    Raises:
        PreflightError: The volume is gone, or no pod comes up.
    """
    running = standing(plan, api).pod
    if running is not None:
        yield RecordFiles(api, running, manifests.RECORD)
        return
    place = ObjectRef(kind=POD, name=plan.reader, namespace=plan.namespace)
    remove_one(place, plan, api, clock)  # one of an attach that was killed has little time left
    try:
        yield RecordFiles(api, _reader(plan, api, clock, told), manifests.RECORD)
    finally:
        remove_one(place, plan, api, clock)


def _reader(
    plan: JobPlan, api: KubernetesApi, clock: Clock, told: Callable[[str], None]
) -> ContainerRef:
    claim = ObjectRef(kind=CLAIM, name=plan.claim, namespace=plan.namespace)
    owner = api.read(claim)
    if owner is None:
        raise PreflightError(
            f"{claim.label} is not there: the record is gone with it",
            hint="Start the campaign anew.",
        )
    place = ref_of(api.apply(manifests.owned(manifests.reader(plan), owner)))
    ReadyWait(api, clock, told).until_ready([place])
    return ContainerRef(namespace=plan.namespace, pod=plan.reader, container=manifests.CONTAINER)
