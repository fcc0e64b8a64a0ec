"""What is assembled in a cluster, and what comes of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.engines.engine import Engine
from steelyard.experiment.doors import Doors
from steelyard.experiment.kubernetes_site import KubernetesSite, Told
from steelyard.model.experiment import Experiment
from steelyard.platforms.platform import Ledger, Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is assembled.

    Attributes:
        campaign_id: In names and labels; for looking one of a moment.
        ledger: Is told what is made.
        runs: The campaign begins: its pods are made. Else the cluster is looked at, and what can
            be known to fail fails.
        told: Is told what goes on, which takes seconds.
    """

    experiment: Experiment
    doors: Doors
    campaign_id: str
    ledger: Ledger
    runs: bool
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What runs an experiment in a cluster."""

    engine: Engine
    platforms: Mapping[str, Platform]
    site: KubernetesSite
