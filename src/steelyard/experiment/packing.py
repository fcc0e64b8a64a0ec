"""A campaign to run elsewhere, packed: the resolved experiment with every script in it.

Nothing that it refers to has to be there, no name is looked up again, and the seed is drawn: what
was checked here is what runs there.
"""

import base64
import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

import steelyard
from steelyard.experiment.session import Request
from steelyard.gateways.files import translated
from steelyard.model.errors import InputError
from steelyard.model.experiment import Experiment
from steelyard.model.findings import Finding
from steelyard.model.target import (
    CloudNativePgTarget,
    EndpointTarget,
    KubernetesPlace,
    RedisKubernetesTarget,
    Target,
)
from steelyard.model.units import format_bytes

FORMAT: Final = 1
# A ConfigMap holds 1 MiB (Kubernetes documentation, "ConfigMaps"); its other parts need little.
MOST_BYTES: Final = 1024**2 - 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packed:
    format: int
    version: str
    campaign_id: str
    text: str
    command: str
    experiment: Experiment
    findings: tuple[Finding, ...]


_PACKED: Final = TypeAdapter(_Packed)


def pack(request: Request) -> str:
    """Return a request as a ConfigMap takes it: compressed and in base64.

    Raises:
        InputError: It is too large for one.
    """
    packed = _Packed(
        format=FORMAT,
        version=steelyard.__version__,
        campaign_id=request.campaign_id,
        text=request.text,
        command=request.command,
        experiment=request.experiment,
        findings=request.findings,
    )
    content = base64.b64encode(gzip.compress(_PACKED.dump_json(packed), mtime=0))
    if len(content) > MOST_BYTES:
        raise InputError(
            f"the experiment with its scripts takes {format_bytes(len(content))} when it is"
            f" compressed, and a ConfigMap has room for {format_bytes(MOST_BYTES)}",
            hint="Have SQL make the data (generate_series), or run it from here, without"
            " --in-cluster.",
        )
    return content.decode()


def unpack(path: Path) -> Request:
    """Return the request in a file.

    Raises:
        InputError: It is none, or one of another version.
    """
    with translated(path, InputError):
        content = path.read_bytes()
    try:
        packed = _PACKED.validate_json(gzip.decompress(content))
    except (ValidationError, OSError, EOFError) as error:
        raise InputError(
            f"{path} holds no campaign that this version of Steelyard ({steelyard.__version__})"
            " can read",
            hint="Name an image with the version that started it: --image.",
        ) from error
    if packed.version != steelyard.__version__:
        raise InputError(
            f"the campaign was packed by Steelyard {packed.version}, and this is"
            f" {steelyard.__version__}",
            hint="Name an image with that version: --image.",
        )
    return Request(
        experiment=packed.experiment,
        text=packed.text,
        command=packed.command,
        findings=packed.findings,
        campaign_id=packed.campaign_id,
    )


def at_home(experiment: Experiment, namespace: str) -> Experiment:
    """Return an experiment as its Job runs it: in the cluster that it is in.

    Targets that name no namespace are in the Job's, where its account may work.
    """
    return replace(
        experiment,
        treatments=tuple(
            replace(treatment, target=_at_home(treatment.target, namespace))
            for treatment in experiment.treatments
        ),
    )


def _at_home(target: Target, namespace: str) -> Target:
    if isinstance(target, CloudNativePgTarget):
        return replace(target, place=_place(target.place, namespace))
    if isinstance(target, RedisKubernetesTarget):
        return target.at(_place(target.home, namespace))
    if isinstance(target, EndpointTarget) and target.inside is not None:
        inside = replace(target.inside, place=_place(target.inside.place, namespace))
        return replace(target, inside=inside)
    return target


def _place(place: KubernetesPlace, namespace: str) -> KubernetesPlace:
    return replace(place, context=None, namespace=place.namespace or namespace)
