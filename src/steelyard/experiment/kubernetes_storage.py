"""What volumes of the storage classes of an experiment can do, measured before it begins."""

from collections.abc import Callable, Iterator, Mapping

from steelyard.engines.postgres.ceilings import PostgresCeilings
from steelyard.experiment.doors import Doors
from steelyard.experiment.kubernetes_site import KubernetesSite
from steelyard.model.ceilings import CeilingsAsked
from steelyard.model.experiment import Experiment
from steelyard.model.target import CloudNativePgTarget
from steelyard.platforms.kubernetes.storage_probe import StorageQuestion, probe_storage


def probe_storages(
    experiment: Experiment,
    images: Mapping[str, str],
    site: KubernetesSite,
    doors: Doors,
    told: Callable[[str], None],
) -> None:
    """Measure what a volume of each class can do, and add it to the facts of the site.

    Args:
        experiment: Whose Clusters get such volumes; `ceilings: off` measures nothing.
        images: Of the servers, by treatment.
        site: Where a pod with a volume is made for a moment.
        doors: To the clock.
        told: Is told.

    Raises:
        PreflightError: A volume cannot be had.
    """
    if experiment.measure.ceilings is CeilingsAsked.OFF:
        return
    tools = PostgresCeilings((), processes=doors.processes, sql=doors.sql)

    def rates(text: str) -> Mapping[str, float | None] | None:
        found = tools.sync_rates(text)
        return None if found is None else {each.method: each.per_s for each in found}

    for question in dict.fromkeys(_questions(experiment, images)):
        facts = probe_storage(
            site.belongings, question, sync_rates=rates, told=told, clock=doors.clock
        )
        site.further.extend(facts)


def _questions(experiment: Experiment, images: Mapping[str, str]) -> Iterator[StorageQuestion]:
    """Yield which storage is measured: that of the data, and that of WAL where it has its own."""
    for name, target in experiment.cluster_targets.items():
        if target.is_made:
            for storage_class in dict.fromkeys(_classes(target)):
                yield StorageQuestion(
                    image=images[name],
                    storage_class=storage_class,
                    node_selector=target.node_selector,
                    tolerations=target.tolerations,
                )


def _classes(target: CloudNativePgTarget) -> Iterator[str | None]:
    yield target.storage_class
    if target.wal_storage is not None:
        yield target.wal_storage_class or target.storage_class
