"""The parts of a target in Kubernetes: resources, replication, generators, a service."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from steelyard.experiment import form_values as values
from steelyard.experiment import kubernetes_values as kubernetes
from steelyard.experiment.form_values import Form, empty_as_mapping


class ResourcesForm(Form):
    """What a container asks for and gets at most; where one is given, the other is the same."""

    requests: kubernetes.Amounts | None = Field(
        default=None,
        description="What is set aside for it.",
        examples=[{"cpu": "2", "memory": "4Gi", "hugepages-2Mi": "1Gi"}],
    )
    limits: kubernetes.Amounts | None = Field(
        default=None,
        description="What it gets at most.",
        examples=[{"cpu": "2", "memory": "4Gi"}],
    )


Resources = Annotated[ResourcesForm, BeforeValidator(empty_as_mapping)]


class SynchronousForm(Form):
    """Synchronous replication, as CloudNativePG takes it."""

    method: kubernetes.Method | None = Field(
        default=None, description="`any` of the standbys, or the `first` of a list."
    )
    number: values.Count | None = Field(
        default=None, description="How many standbys a commit waits for.", examples=[1]
    )
    data_durability: kubernetes.Durability | None = Field(
        default=None,
        description="`required` stops writes where standbys are missing, `preferred` goes on.",
    )


class GeneratorsForm(Form):
    """The pods of the load generators; equal in all treatments."""

    image: kubernetes.Image | None = Field(
        default=None,
        description="Image with pgbench, psql and bash; the database's when left out.",
        examples=["ghcr.io/cloudnative-pg/postgresql:18"],
    )
    resources: Resources | None = Field(
        default=None, description="Of each pod.", examples=[{"limits": {"cpu": "2"}}]
    )
    node_selector: kubernetes.Labels | None = Field(
        default=None,
        description="Labels of the nodes they may run on.",
        examples=[{"role": "load"}],
    )
    tolerations: kubernetes.Tolerations | None = Field(
        default=None,
        description="Taints they tolerate, as in a manifest.",
        examples=[[{"key": "load", "operator": "Exists"}]],
    )
    same_node: values.Switch | None = Field(
        default=None, description="They may share a node with the database.", examples=[False]
    )


Generators = Annotated[GeneratorsForm, BeforeValidator(empty_as_mapping)]
_CONTEXT: Final = "Context of the kubeconfig; the current one when left out."


class ServiceForm(Form):
    """A PostgreSQL server in a Kubernetes cluster, under load from pods there."""

    service: kubernetes.ServiceName | None = Field(
        default=None, description="Name of its Service.", examples=["db"]
    )
    port: values.Port | None = Field(
        default=None, description="Port of the Service.", examples=[5432]
    )
    secret: kubernetes.ObjectName | None = Field(
        default=None, description="Name of the Secret with user and password.", examples=["db-user"]
    )
    user_key: kubernetes.SecretKey | None = Field(
        default=None, description="Key of the user in it.", examples=["username"]
    )
    password_key: kubernetes.SecretKey | None = Field(
        default=None, description="Key of the password in it.", examples=["password"]
    )
    namespace: kubernetes.NamespaceName | None = Field(
        default=None,
        description="Of the Service and the Secret; the context's when left out.",
        examples=["prod"],
    )
    context: values.Text | None = Field(default=None, description=_CONTEXT, examples=["lab"])
    generators: Generators | None = Field(
        default=None, description="The pods of the load generators.", examples=[{"same_node": True}]
    )


Service = Annotated[ServiceForm, BeforeValidator(empty_as_mapping)]


class ClusterForm(Form):
    """What a target has that is a Cluster of CloudNativePG."""

    context: values.Text | None = Field(default=None, description=_CONTEXT, examples=["lab"])
    namespace: kubernetes.NamespaceName | None = Field(
        default=None,
        description="Where the Cluster is made, or is; one of the campaign's own when left out.",
        examples=["bench"],
    )
    cluster: kubernetes.ClusterName | None = Field(
        default=None,
        description="An existing Cluster, used as it is instead of one that is made.",
        examples=["pg"],
    )
    image: kubernetes.Image | None = Field(
        default=None,
        description="Image of the database; the operator's default when left out.",
        examples=["ghcr.io/cloudnative-pg/postgresql:18"],
    )
    instances: values.Count | None = Field(
        default=None, description="The primary and its standbys.", examples=[1]
    )
    storage: kubernetes.Storage | None = Field(
        default=None, description="Size of the volume of the data.", examples=["20Gi"]
    )
    storage_class: kubernetes.ObjectName | None = Field(
        default=None,
        description="Its StorageClass; the cluster's default when left out.",
        examples=["local-path"],
    )
    wal_storage: kubernetes.Storage | None = Field(
        default=None,
        description="Size of a volume of its own for WAL; it has none when left out.",
        examples=["5Gi"],
    )
    wal_storage_class: kubernetes.ObjectName | None = Field(
        default=None, description="Its StorageClass; that of the data when left out."
    )
    resources: Resources | None = Field(
        default=None,
        description="Of each instance.",
        examples=[{"requests": {"cpu": "2", "memory": "4Gi"}}],
    )
    synchronous: Annotated[SynchronousForm, BeforeValidator(empty_as_mapping)] | None = Field(
        default=None,
        description="Synchronous replication; needs two instances.",
        examples=[{"method": "any", "number": 1}],
    )
    node_selector: kubernetes.Labels | None = Field(
        default=None,
        description="Labels of the nodes that instances may run on.",
        examples=[{"disk": "nvme"}],
    )
    tolerations: kubernetes.Tolerations | None = Field(
        default=None,
        description="Taints that instances tolerate, as in a manifest.",
        examples=[[{"key": "db", "operator": "Exists"}]],
    )
    affinity: kubernetes.Affinity | None = Field(
        default=None,
        description="Further keys of the Cluster's `spec.affinity`.",
        examples=[{"podAntiAffinityType": "required"}],
    )
    generators: Generators | None = Field(
        default=None, description="The pods of the load generators.", examples=[{"same_node": True}]
    )


CLUSTER_KEYS: Final = frozenset(ClusterForm.model_fields)
# What belongs to the making of a Cluster: it has no meaning for one that is there.
MAKING_KEYS: Final = CLUSTER_KEYS - {"context", "namespace", "cluster", "generators"}
# Sections whose keys are inherited one by one; other mappings are inherited whole.
NESTED: Final = ("kubernetes", "generators", "synchronous")
