"""``--context`` and ``--namespace``: where in which cluster, in place of what the file says."""

from dataclasses import replace

from steelyard.experiment.assembly import Assembly
from steelyard.experiment.files import LoadedExperiment
from steelyard.model.errors import InputError
from steelyard.model.experiment import Experiment
from steelyard.model.target import (
    CloudNativePgTarget,
    EndpointTarget,
    KubernetesPlace,
    RedisKubernetesTarget,
    Target,
    place_of,
)


def placed(
    loaded: LoadedExperiment, *, context: str | None, namespace: str | None
) -> LoadedExperiment:
    """Return the experiment with all its targets in this context and namespace, where given.

    Raises:
        InputError: None of its targets is in Kubernetes.
    """
    given = {"--context": context, "--namespace": namespace}
    options = [option for option, value in given.items() if value is not None]
    if not options:
        return loaded
    if not loaded.experiment.is_in_kubernetes:
        raise InputError(
            f"{' and '.join(options)} are for targets in Kubernetes, and the experiment has none",
            hint="Leave it out, or give a target: --target cloudnative-pg, or redis-kubernetes.",
        )
    return replace(loaded, experiment=moved(loaded.experiment, context, namespace))


def moved(experiment: Experiment, context: str | None, namespace: str | None = None) -> Experiment:
    """Return an experiment with its targets in Kubernetes elsewhere; None leaves them."""
    return replace(
        experiment,
        treatments=tuple(
            replace(treatment, target=_moved(treatment.target, context, namespace))
            for treatment in experiment.treatments
        ),
    )


def settled(experiment: Experiment, assembly: Assembly) -> Experiment:
    """Return an experiment that names its context: tomorrow another one may be the current.

    In a pod there is none.
    """
    site = assembly.site
    if site is None or site.api.is_inside:
        return experiment
    return moved(experiment, site.api.context)


def _moved(target: Target, context: str | None, namespace: str | None) -> Target:
    place = place_of(target)
    if place is None:
        return target
    new = KubernetesPlace(
        context=context or place.context,
        namespace=namespace or place.namespace,
        generators=place.generators,
    )
    if isinstance(target, CloudNativePgTarget):
        return replace(target, place=new)
    if isinstance(target, RedisKubernetesTarget):
        return target.at(new)
    if isinstance(target, EndpointTarget) and target.inside is not None:
        return replace(target, inside=replace(target.inside, place=new))
    return target
