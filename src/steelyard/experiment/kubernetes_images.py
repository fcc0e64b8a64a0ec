"""What images a campaign runs, and what their programs say: each is asked once in a process."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from steelyard.engines.postgres.in_image import ImagePrograms, describe_image
from steelyard.experiment.kubernetes_site import KubernetesSite
from steelyard.gateways.clock import Clock
from steelyard.gateways.process import Processes
from steelyard.model.experiment import Experiment
from steelyard.model.kubernetes import POD
from steelyard.platforms.kubernetes.belongings import Belongings
from steelyard.platforms.kubernetes.image_pod import image_pod

# A preflight and the campaign after it ask the same: by cluster, image, and what is asked of it.
_KNOWN: Final[dict[tuple[object, ...], Any]] = {}
AnswerT = TypeVar("AnswerT")


def describe_images(
    experiment: Experiment,
    images: Mapping[str, str],
    site: KubernetesSite,
    clock: Clock,
    told: Callable[[str], None],
) -> Mapping[str, ImagePrograms]:
    """Return what each image of the servers says.

    Args:
        experiment: Whose settings are asked about.
        images: By treatment.
        site: Where a pod of each image is made for a moment.
        clock: Waits for it.
        told: Is told.

    Raises:
        PreflightError: An image is not found, or is none of PostgreSQL.
    """
    found: dict[str, ImagePrograms] = {}
    for image in dict.fromkeys(images.values()):
        treatments = [t for t in experiment.treatments if images.get(t.name) == image]
        asked = tuple((t.name, tuple(t.asked().items())) for t in treatments)
        ask = partial(describe_image, image, treatments)
        found[image] = asked_once((image, asked), site, clock, told, ask=ask)
    return found


def asked_once(
    question: Sequence[object],
    site: KubernetesSite,
    clock: Clock,
    told: Callable[[str], None],
    *,
    ask: Callable[[Processes], AnswerT],
) -> AnswerT:
    """Return what a pod of an image answers, or answered before.

    Args:
        question: The image, and what tells its answer from others.
        site: Where the pod is made for a moment.
        clock: Waits for it.
        told: Is told.
        ask: Asks it.
    """
    key = (site.api.server, *question)
    if key not in _KNOWN:
        belongings = _somewhere(site)
        try:
            with image_pod(belongings, str(question[0]), clock, told) as processes:
                _KNOWN[key] = ask(processes)
        finally:
            if belongings is not site.belongings:
                belongings.remove_all()
    answer: AnswerT = _KNOWN[key]
    return answer


def _somewhere(site: KubernetesSite) -> Belongings:
    """Return where a pod can be made now.

    Before a campaign its own namespace is not there; then the context's serves, as for
    `kubectl run`, where the account may use it.
    """
    if site.is_opened or not site.makes_namespace:
        return site.belongings
    if not site.api.allowed("create", POD, site.api.namespace):
        site.open()
        return site.belongings
    return site.elsewhere(site.api.namespace)
