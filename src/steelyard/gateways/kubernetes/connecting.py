"""Finding a cluster as kubectl does."""

import os
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from steelyard.core.errors import InputError, PreflightError, UnconfiguredError
from steelyard.gateways.clock import Clock, SystemClock
from steelyard.gateways.kubernetes.api import KubernetesApi

if TYPE_CHECKING:
    from steelyard.gateways.kubernetes.access import Access
    from steelyard.gateways.kubernetes.kubeconfig import Kubeconfig

IN_CLUSTER: Final = "in-cluster"
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CONTEXT_HINT: Final = "`kubectl config get-contexts` lists them; `--context` names one."


@dataclass(frozen=True, slots=True, kw_only=True)
class KubectlConfiguration:
    """``KUBECONFIG``, ``~/.kube/config``, or the account of the pod that this process runs in.

    A context is connected to once: who cleans asks for it for every single thing.

    Attributes:
        account: Where a pod finds its account.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    account: Path = _ACCOUNT
    clock: Clock = field(default_factory=SystemClock)
    _connected: dict[str, KubernetesApi] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def connect(self, context: str | None = None) -> KubernetesApi:
        """Return the cluster of a context; nothing is asked of it yet.

        Args:
            context: None or empty: the current one, or the cluster this pod is in.

        Raises:
            PreflightError: The extra ``kubernetes`` is not installed.
            InputError: There is no such context, or no kubeconfig.
            PrivilegeError: A plugin gives no credentials.
        """
        name = context or ""
        if name not in self._connected:
            self._connected[name] = self._new_connection(name)
        return self._connected[name]

    def _new_connection(self, context: str) -> KubernetesApi:
        try:
            # The library takes half a second to import.
            from steelyard.gateways.kubernetes.client import ClusterApi  # noqa: PLC0415
        except ImportError as error:
            message = f"Kubernetes needs the extra `kubernetes`, which is not installed: {error}"
            hint = "pip install 'steelyard[kubernetes]'"
            raise PreflightError(message, hint=hint) from error
        return ClusterApi(self._access(context), clock=self.clock)

    def _access(self, context: str) -> "Access":
        from steelyard.gateways.kubernetes import access, kubeconfig  # noqa: PLC0415 - likewise

        paths = kubeconfig.default_paths(self.environment)
        config = kubeconfig.read_kubeconfig(paths)
        name = context or config.current
        if name in {"", IN_CLUSTER} and name not in config.contexts and self._is_inside:
            return access.by_account(IN_CLUSTER, self.account, self.environment)
        _require_context(config, paths, name)
        chosen = config.contexts[name]
        namespace = str(chosen.get("namespace") or "default")
        with ExitStack() as memory:
            found = access.by_kubeconfig(name, config.for_context(name, memory), namespace)
            # The library reads the files anew for every connection of its pool.
            weakref.finalize(found.configuration, memory.pop_all().close)
        return found

    @property
    def _is_inside(self) -> bool:
        has_server = bool(self.environment.get("KUBERNETES_SERVICE_HOST"))
        return has_server and (self.account / "token").is_file()


def _require_context(config: "Kubeconfig", paths: tuple[Path, ...], name: str) -> None:
    """Raise when there is no such context, with what there is."""
    if not config.files:
        where = " or ".join(str(path) for path in paths) or "the home directory"
        raise UnconfiguredError(
            f"there is no kubeconfig: {where} does not exist",
            hint="Set KUBECONFIG to the file that kubectl uses.",
        )
    if not name:
        raise UnconfiguredError("the kubeconfig has no current context", hint=_CONTEXT_HINT)
    if name not in config.contexts:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise InputError(
            f"there is no context {name!r} in the kubeconfig; it has: {known}", hint=_CONTEXT_HINT
        )
