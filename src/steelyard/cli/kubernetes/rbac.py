"""``steelyard kubernetes rbac``: the least that an account must be allowed."""

from typing import TYPE_CHECKING, Any

import click

from steelyard.cli.options import NAMESPACE, OBJECT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steelyard.places.kubernetes.permissions import Permission, Purpose


@click.command("rbac")
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    metavar="NAME",
    help="Where campaigns run; without it they make a namespace each, which takes more.",
)
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
def command(context: click.Context, /, **_: object) -> None:
    """Print the least RBAC that campaigns need, for `kubectl apply -f -`.

    Each permission has its reason in a comment. What is optional costs the record some facts when
    it is taken out, and nothing else. No cluster is asked.
    """
    from steelyard.cli.manifest_text import manifest_text  # noqa: PLC0415 - lazy
    from steelyard.places.kubernetes import permissions as rbac  # noqa: PLC0415
    from steelyard.places.kubernetes.permissions import needed  # noqa: PLC0415

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
    head = list(_head(permissions, namespace))
    click.echo(manifest_text([rbac.account(grant), *rbac.grants(grant)], head=head), nl=False)


def _purposes(given: "Mapping[str, Any]") -> "Iterator[Purpose]":
    """Yield what the account is for, by the options."""
    from steelyard.places.kubernetes.permissions import Purpose  # noqa: PLC0415 - lazy

    asked = {
        Purpose.CLUSTERS: True,
        Purpose.REDIS: True,
        Purpose.INSIDE: given["runner"],
        Purpose.OUTSIDE: not given["runner"],
        Purpose.RUNNER: given["in_cluster"],
        Purpose.RUNNER_ACCOUNT: given["in_cluster"],
        Purpose.INSPECT: given["inspect"] or given["stack"],
        Purpose.STACK: given["stack"],
        Purpose.CLEAN: given["clean"],
        Purpose.OWN_NAMESPACE: given["namespace"] is None,
    }
    yield from (purpose for purpose, wanted in asked.items() if wanted)


def _head(permissions: "tuple[Permission, ...]", namespace: str | None) -> "Iterator[str]":
    from steelyard.places.kubernetes.permissions import reasons  # noqa: PLC0415 - lazy

    where = f"in namespace {namespace}" if namespace else "in namespaces of their own"
    yield f"What campaigns {where} need, and why:"
    yield from (f"  {line}" for line in reasons(permissions))
