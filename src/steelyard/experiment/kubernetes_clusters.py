"""What can be known to fail of Clusters before one is made: operator, classes, sizes, fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.engines.engine import Dataset
from steelyard.experiment.kubernetes_manifests import cluster_of
from steelyard.experiment.kubernetes_site import KubernetesSite, trial_namespace
from steelyard.experiment.volume_room import require_room
from steelyard.model.environment import Fact
from steelyard.model.errors import PreflightError
from steelyard.model.experiment import Experiment
from steelyard.model.kubernetes import Manifest
from steelyard.model.target import CloudNativePgTarget
from steelyard.platforms.cloudnative_pg.operator import Operator, discover, require_known
from steelyard.platforms.cloudnative_pg.parameters import require_taken
from steelyard.platforms.kubernetes.claims import require_class


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedClusters:
    """What a look at the cluster said.

    Attributes:
        images: Of each treatment's server, the operator's default filled in.
    """

    operator: Operator
    images: Mapping[str, str]

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the operator."""
        version = self.operator.version or f"not known: {self.operator.unseen}"
        facts = {"CloudNativePG": version, "its definition of a Cluster": self.operator.definition}
        named = {name: value for name, value in facts.items() if value}
        return tuple(Fact(name=n, value=value, subject="Kubernetes") for n, value in named.items())


def check_clusters(
    experiment: Experiment, site: KubernetesSite, datasets: Sequence[Dataset]
) -> CheckedClusters:
    """Return what the cluster says of the Clusters that an experiment makes; nothing is made.

    Raises:
        InputError: A field is not known to the operator's definition.
        PreflightError: There is no operator, no such storage class, no room in the volume, or the
            operator or a quota refuses a Cluster.
    """
    operator = discover(site.api)
    images: dict[str, str] = {}
    for name, target in experiment.cluster_targets.items():
        if not target.is_made:
            continue
        require_taken(experiment.treatment(name).asked())
        treatment = experiment.treatment(name)
        _require_classes(target, site)
        require_room(target, treatment.asked_folded(), datasets)
        campaign_id = site.belongings.campaign_id
        manifest = cluster_of(treatment, target, campaign_id, trial_namespace(site))
        require_known(manifest, operator)
        tried = site.api.apply(manifest, dry_run=True)  # the operator judges its settings, too
        images[name] = target.image or _image_of(tried)
    return CheckedClusters(operator=operator, images=images)


def _image_of(cluster: Manifest) -> str:
    """Return the image that the operator would take by itself.

    Raises:
        PreflightError: It does not say.
    """
    spec: Mapping[str, Any] = cluster["spec"]
    image = spec.get("imageName")
    if not image:
        raise PreflightError(
            "the operator does not say which image it would take",
            hint="Name one with `image:` in the target.",
        )
    return str(image)


def _require_classes(target: CloudNativePgTarget, site: KubernetesSite) -> None:
    """Look for the storage classes.

    Raises:
        PreflightError: One is not there.
    """
    classes = {target.storage_class}
    if target.wal_storage is not None:
        classes.add(target.wal_storage_class or target.storage_class)
    for name in sorted(classes, key=str):
        require_class(site.api, name)
