"""``steelyard kubernetes``: manifests that a cluster needs for campaigns, and the verb of Jobs."""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from steelyard.cli.main import LazyGroup
from steelyard.cli.options import OBJECT, PATH, namespace_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from steelyard.answers.results import CampaignAnalysis
    from steelyard.campaign.run.runner import Progress
    from steelyard.core.kubernetes import Manifest
    from steelyard.places.kubernetes.permissions import Purpose
    from steelyard.tuning.files.files import StorageClass

_VERBS = {
    "rbac": "Print the least RBAC that campaigns need, for kubectl apply -f -.",
    "storage-classes": "Print the storage classes that the presets for Kubernetes name.",
}


@click.group(cls=LazyGroup, verbs=_VERBS, unlisted={"campaign"})
def command() -> None:
    """Print what a cluster needs for campaigns, as manifests for `kubectl apply -f -`."""


@command.command("rbac")
@namespace_option("Namespace of campaigns; without it they make one each, which takes more.")
@click.option(
    "--account",
    type=OBJECT,
    metavar="NAME",
    default="steelyard",
    help="Name of the ServiceAccount; steelyard.",
)
@click.option("--in-cluster", is_flag=True, help="It also starts campaigns as Jobs and attaches.")
@click.option(
    "--runner", is_flag=True, help="It is the Jobs' own: for run --in-cluster --service-account."
)
@click.option("--inspect", is_flag=True, help="It also runs inspect and stack verify.")
@click.option("--clean", is_flag=True, help="It also runs clean --context or --namespace.")
@click.option("--stack", is_flag=True, help="It also runs stack apply; and what --inspect says.")
@click.pass_context
def rbac(context: click.Context, /, **_: object) -> None:
    """Print the least RBAC that campaigns need, for `kubectl apply -f -`.

    Each permission has its reason in a comment. What is optional costs the record some facts when
    it is taken out, and nothing else. No cluster is asked.
    """
    from steelyard.places.kubernetes import permissions as rbac
    from steelyard.places.kubernetes.permissions import needed

    given = context.params
    if given["runner"] and given["in_cluster"]:
        raise click.UsageError("--runner and --in-cluster are two accounts: print one at a time")
    namespace = given["namespace"]
    permissions = needed(_purposes(given))
    if namespace is None:
        permissions = rbac.everywhere(permissions)
    grant = rbac.Grant(
        name=given["account"],
        account_namespace=namespace or "default",
        namespaces=(namespace,) if namespace else (),
        permissions=permissions,
    )
    where = f"in namespace {namespace}" if namespace else "in namespaces of their own"
    head = [f"What campaigns {where} need, and why:"]
    head += [f"  {line}" for line in rbac.reasons(permissions)]
    click.echo(manifest_text([rbac.account(grant), *rbac.grants(grant)], head=head), nl=False)


def _purposes(given: "Mapping[str, Any]") -> "Iterator[Purpose]":
    from steelyard.places.kubernetes.permissions import Purpose

    asked = {
        Purpose.CLUSTERS: True,
        Purpose.REDIS: True,
        Purpose.INSIDE: given["runner"],
        Purpose.WORKERS: given["runner"] or given["in_cluster"],
        Purpose.OUTSIDE: not given["runner"],
        Purpose.RUNNER: given["in_cluster"],
        Purpose.RUNNER_ACCOUNT: given["in_cluster"],
        Purpose.INSPECT: given["inspect"] or given["stack"],
        Purpose.STACK: given["stack"],
        Purpose.CLEAN: given["clean"],
        Purpose.OWN_NAMESPACE: given["namespace"] is None,
    }
    yield from (purpose for purpose, wanted in asked.items() if wanted)


@command.command("storage-classes")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--longhorn", is_flag=True, help="Only those of Longhorn.")
def storage_classes(names: tuple[str, ...], *, longhorn: bool) -> None:
    """Print storage classes as manifests, all or those named, with the reason for each parameter.

    \b
    steelyard kubernetes storage-classes longhorn-1r longhorn-2r | kubectl apply -f -

    Longhorn must be there, and its disks carry the tags `dedicated` and `shared`.
    """  # noqa: D301 - \b keeps click from joining the lines
    from steelyard.tuning.files.files import class_text

    click.echo(
        "---\n".join(class_text(each) for each in chosen(names, longhorn=longhorn)), nl=False
    )


def chosen(names: Sequence[str], *, longhorn: bool) -> "tuple[StorageClass, ...]":
    """Return the classes of these names, or all; on request only those of Longhorn.

    Raises:
        InputError: There is none of a name.
    """
    from steelyard.core.quantities import shown
    from steelyard.core.wording import InputError, choice
    from steelyard.tuning.files.files import MATRIX

    known = {each.name: each for each in MATRIX if each.longhorn or not longhorn}
    for name in names:
        if name not in known:
            raise InputError(
                f"there is no storage class {shown(name)}", hint=choice(name, [*known])
            )
    return tuple(known[name] for name in dict.fromkeys(names or known))


@command.command("campaign")
@click.option(
    "--request",
    type=PATH,
    default="/request/request.json.gz",
    help="The packed campaign; /request/request.json.gz.",
)
@click.option(
    "--record", type=PATH, default="/record/campaign", help="Of the record; /record/campaign."
)
def campaign(request: Path, record: Path) -> None:
    """Run the campaign that `run --in-cluster` packed; where it has begun, go on with it.

    Nobody needs to type this: it is the command of the Job. What it prints is for `kubectl logs`.
    """
    from steelyard.cli.campaigns import show, write_reports
    from steelyard.cli.progress import PlainProgress
    from steelyard.record.directory import read_campaign

    with PlainProgress() as progress:
        analysis = _work(request, record)(progress)
    show(analysis, record)
    write_reports(read_campaign(record), analysis, record)


def _work(request: Path, record: Path) -> "Callable[[Progress], CampaignAnalysis]":
    """Return how to run it: from its beginning, or from where a pod that is gone left it."""
    from steelyard.campaign.in_cluster import unpack
    from steelyard.campaign.run import session
    from steelyard.gateways.doors import system_doors
    from steelyard.record.directory import has_begun

    doors = system_doors()
    if has_begun(record):
        return lambda progress: session.resume_campaign(record, doors, progress)
    asked = unpack(request)
    return lambda progress: session.new_campaign(asked, record, doors, progress)


_ONE_LINE: Final = 80
# What a YAML 1.1 reader, such as kubectl's, takes for something else than a text.
_AMBIGUOUS: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", ""}
)


def manifest_text(manifests: "Iterable[Manifest]", *, head: "Iterable[str]" = ()) -> str:
    """Return the objects as YAML documents, after a head of comment lines."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 4096  # lines are never folded
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = StringIO()
    text.writelines(f"# {line}".rstrip() + "\n" for line in head)
    for manifest in manifests:
        text.write("---\n")
        yaml.dump(_plain(manifest), text)
    return text.getvalue()


def _plain(value: Any) -> Any:  # noqa: ANN401 - any part of a manifest
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

    if isinstance(value, str) and "\n" in value:
        return LiteralScalarString(value)
    if isinstance(value, str):
        return DoubleQuotedScalarString(value) if value.lower() in _AMBIGUOUS else value
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return _sequence(value) if isinstance(value, list | tuple) else value


def _sequence(value: Sequence[Any]) -> Sequence[Any]:
    """Return a list; one of short words stands in one line."""
    from ruamel.yaml.comments import CommentedSeq

    made = CommentedSeq(_plain(each) for each in value)
    if all(isinstance(each, str) for each in value) and len(" ".join(value)) < _ONE_LINE:
        made.fa.set_flow_style()
    return made
