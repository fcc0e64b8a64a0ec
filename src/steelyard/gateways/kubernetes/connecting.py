"""Finding a cluster as kubectl does, by the files that say which clusters there are.

Source: "Organizing Cluster Access Using kubeconfig Files" of the Kubernetes documentation: files of
``KUBECONFIG`` are joined, the first to set a value or a name wins, absent files are passed over,
and relative paths are relative to the file that holds them.
"""

import base64
import binascii
import copy
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from steelyard.core.wording import InputError, PreflightError, UnconfiguredError
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi

if TYPE_CHECKING:
    from steelyard.gateways.kubernetes.requests import Access

_LISTS: Final = ("clusters", "users", "contexts")
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_EMBEDDED: Final = ("certificate-authority", "client-certificate", "client-key")
_FORM_HINT: Final = "`kubectl config view` shows what kubectl makes of it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """All files in one.

    Attributes:
        files: Those that are there.
        document: As one file would say it, with absolute paths.
    """

    files: tuple[Path, ...]
    document: Mapping[str, Any]

    @property
    def current(self) -> str:
        """Return the name of the current context; empty where none is set."""
        return str(self.document.get("current-context") or "")

    @property
    def contexts(self) -> dict[str, Mapping[str, Any]]:
        """Return what each context names: cluster, user and namespace."""
        return {str(entry["name"]): entry.get("context") or {} for entry in self.named("contexts")}

    def named(self, what: str) -> Sequence[Mapping[str, Any]]:
        """Return the entries of ``clusters``, ``users`` or ``contexts``."""
        return self.document.get(what) or ()

    def for_context(self, name: str, memory: ExitStack) -> dict[str, Any]:
        """Return a document of one context, its embedded certificates and keys as files.

        The files are in memory: gone when ``memory`` is closed, and with this process, however it
        ends.
        """
        context = self.contexts[name]
        wanted = {
            "contexts": name,
            "clusters": context.get("cluster"),
            "users": context.get("user"),
        }
        chosen: dict[str, Any] = {"current-context": name}
        for what, called in wanted.items():
            found = [each for each in self.named(what) if each["name"] == called]
            chosen[what] = [_in_memory(copy.deepcopy(dict(each)), memory) for each in found]
        return chosen


def default_paths(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where kubectl looks: ``KUBECONFIG``, several with colons between, or the home."""
    named = environment.get("KUBECONFIG", "")
    if named:
        return tuple(Path(path).expanduser() for path in named.split(os.pathsep) if path)
    home = environment.get("HOME")
    return (Path(home) / ".kube/config",) if home else ()


def read_kubeconfig(paths: Sequence[Path]) -> Kubeconfig:
    """Return the files that are there as one.

    Raises:
        InputError: One cannot be read, or is none.
    """
    there = tuple(path for path in paths if path.exists())
    document: dict[str, Any] = {}
    for path in there:
        _join(document, _load(path))
    return Kubeconfig(files=there, document=document)


def _load(path: Path) -> dict[str, Any]:
    try:
        loaded = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        # Not what the parser says: it quotes the line, and that may hold a key.
        raise InputError(f"{path} is no kubeconfig: it is not YAML", hint=_FORM_HINT) from error
    document = {} if loaded is None else loaded
    if not isinstance(document, dict):
        raise InputError(f"{path} is no kubeconfig", hint=_FORM_HINT)
    for what in _LISTS:
        _require_names(path, what, document.get(what))
        for entry in document.get(what) or ():
            _make_absolute(entry.get(what[:-1]), path.parent.absolute())
    return document


def _require_names(path: Path, what: str, entries: object) -> None:
    fits = entries is None or (
        isinstance(entries, list)
        and all(isinstance(entry, dict) and "name" in entry for entry in entries)
        and all(isinstance(entry.get(what[:-1]) or {}, dict) for entry in entries)
    )
    if not fits:
        raise InputError(f"`{what}` of {path} is no list of names", hint=_FORM_HINT)


def _make_absolute(entry: dict[str, Any] | None, directory: Path) -> None:
    for name in _FILES:
        if entry and entry.get(name):
            entry[name] = str(directory / str(entry[name]))
    plugin = (entry or {}).get("exec")
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        plugin["command"] = str(directory / str(plugin["command"]))


def _join(document: dict[str, Any], further: Mapping[str, Any]) -> None:
    """Add what a further file says to what those before it said."""
    for what in _LISTS:
        there = document.setdefault(what, [])
        names = {entry["name"] for entry in there}
        there.extend(entry for entry in further.get(what) or () if entry["name"] not in names)
    if not document.get("current-context"):
        document["current-context"] = further.get("current-context") or ""


def _in_memory(entry: dict[str, Any], memory: ExitStack) -> dict[str, Any]:
    """Return an entry of a list with files in memory for what is embedded in it.

    TLS takes keys from files only; a temporary one, as lightkube makes, would stay on the disk
    where the process is killed.
    """
    for value in (each for each in entry.values() if isinstance(each, dict)):
        for name in _EMBEDDED:
            coded = value.pop(f"{name}-data", None)
            if coded:
                value[name] = _memory_file(name, str(coded), memory)
    return entry


def _memory_file(name: str, coded: str, memory: ExitStack) -> str:
    try:
        content = base64.b64decode("".join(coded.split()), validate=True)
    except binascii.Error as error:
        raise InputError(f"`{name}-data` of the kubeconfig is not base64") from error
    descriptor = os.memfd_create(name)
    memory.callback(os.close, descriptor)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    return f"/proc/self/fd/{descriptor}"


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
    clock: Clock = field(default_factory=Clock)
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
        """
        name = context or ""
        if name not in self._connected:
            self._connected[name] = self._new_connection(name)
        return self._connected[name]

    def _new_connection(self, context: str) -> KubernetesApi:
        try:
            # The libraries take half a second to import.
            from steelyard.gateways.kubernetes import requests, streams  # noqa: F401, PLC0415
        except ImportError as error:
            message = f"Kubernetes needs the extra `kubernetes`, which is not installed: {error}"
            hint = "Install them: pip install lightkube websocket-client."
            raise PreflightError(message, hint=hint) from error
        return KubernetesApi(self._access(context), clock=self.clock)

    def _access(self, context: str) -> "Access":
        from steelyard.gateways.kubernetes import requests  # noqa: PLC0415 - likewise

        paths = default_paths(self.environment)
        config = read_kubeconfig(paths)
        name = context or config.current
        has_server = bool(self.environment.get("KUBERNETES_SERVICE_HOST"))
        is_inside = has_server and (self.account / "token").is_file()
        if name in {"", IN_CLUSTER} and name not in config.contexts and is_inside:
            return requests.by_account(IN_CLUSTER, self.account, self.environment)
        _require_context(config, paths, name)
        chosen = config.contexts[name]
        namespace = str(chosen.get("namespace") or "default")
        with ExitStack() as memory:
            return requests.by_kubeconfig(name, config.for_context(name, memory), namespace)


def _require_context(config: Kubeconfig, paths: tuple[Path, ...], name: str) -> None:
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
