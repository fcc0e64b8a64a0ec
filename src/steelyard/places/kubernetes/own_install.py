"""Steelyard in a pod: looked for in an image, or sent there from this installation.

An image that has Python alone is enough. The wheel is made of this installation's own files, so it
is this version however it came here (pip, pipx, uv, a checkout); pip in the pod installs it from an
index, at the versions that everything has here, into the volume of the record.
"""

import base64
import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import steelyard
from steelyard.core import kubernetes as k8s
from steelyard.core.outside import Command
from steelyard.core.wording import MeasurementError, PreflightError, TargetError
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.process import Runner

PYTHON_IMAGE: Final = "docker.io/library/python:{}.{}-slim".format(*sys.version_info[:2])
PIPS_OWN: Final = "the index that pip takes by itself"
_LEAST: Final = (3, 11)  # pyproject.toml, `requires-python`
_TAG: Final = "py3-none-any"
_LOOK_S: Final = 30.0
_INDEX_S: Final = 90.0
_SEND_S: Final = 300.0  # some megabytes over a slow line

_LOOK: Final = """
import importlib.metadata, importlib.util, json, sys
try:
    version = importlib.metadata.version("steelyard")
except importlib.metadata.PackageNotFoundError:
    version = ""
pip = importlib.util.find_spec("pip") is not None
print(json.dumps([list(sys.version_info[:2]), version, pip]))
"""
# Whole or not at all: the directory gets its name last.
_TAKE: Final = """
import base64, json, os, sys, tempfile
home, sent = sys.argv[1], json.load(sys.stdin)
os.makedirs(home, exist_ok=True)
if not any(os.path.isdir(os.path.join(home, name)) for name in ("sent", "installed")):
    part = tempfile.mkdtemp(dir=home, prefix="coming-")
    for name, content in sent.items():
        with open(os.path.join(part, name), "wb") as file:
            file.write(base64.b64decode(content))
    os.rename(part, os.path.join(home, "sent"))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobImage:
    """What an image is to the Job.

    Attributes:
        name: As it is named to Kubernetes.
        python: Version of its Python: (3, 11).
        steelyard: Version of the Steelyard in it; empty: it has none.
        has_pip: Its Python has pip.
    """

    name: str
    python: tuple[int, ...]
    steelyard: str
    has_pip: bool

    @property
    def is_complete(self) -> bool:
        """Return whether this version of Steelyard is in it."""
        return self.steelyard == steelyard.__version__


def look(image: str, processes: Runner) -> JobImage:
    """Return what an image has that Steelyard needs.

    Raises:
        PreflightError: It has no Python that is new enough, or neither Steelyard nor pip.
    """
    hint = (
        "Name an image with Python, pip and `sh`, such as the one that is taken without --image;"
        " or one with Steelyard, as the Containerfile makes it."
    )
    try:
        ended = processes.run(Command(argv=("python3", "-c", _LOOK)), timeout_s=_LOOK_S)
        python, version, has_pip = json.loads(ended.stdout)
    except (TargetError, ValueError) as error:
        raise PreflightError(f"the image {image} has no Python", hint=hint) from error
    found = JobImage(name=image, python=tuple(python), steelyard=version, has_pip=has_pip)
    if found.python < _LEAST:
        raise PreflightError(
            f"the image {image} has Python {'.'.join(map(str, found.python))}, and Steelyard needs"
            f" {'.'.join(map(str, _LEAST))} or newer",
            hint=hint,
        )
    if not found.is_complete and not found.has_pip:
        raise PreflightError(
            f"the image {image} has neither Steelyard {steelyard.__version__} nor pip", hint=hint
        )
    return found


def require_index(image: str, index_url: str | None, processes: Runner) -> None:
    """Look whether pods reach the index: one small package is loaded from it, and thrown away.

    Raises:
        PreflightError: It does not come.
    """
    program = distribution("click")
    options = ("--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--quiet")
    argv = (
        *("python3", "-m", "pip", "download", *options, "--timeout", "15", "--retries", "1"),
        *("--dest", "/tmp/steelyard-look", *pip_options(index_url)),  # noqa: S108 - in a pod
        f"click=={program.version}",
    )
    try:
        ended = processes.run(Command(argv=argv), timeout_s=_INDEX_S)
        # pip's last line says that there is no such version, whatever kept it from the index.
        lost = [line for line in ended.stderr.splitlines() if "connection broken by" in line]
        why = "" if ended.succeeded else (*lost, ended.tail(1))[0]
    except MeasurementError as error:
        why = error.message
    if why:
        raise PreflightError(
            f"pods with the image {image} cannot install from {index_url or PIPS_OWN}: {why}",
            hint="Name an index that pods reach by --index-url, or an image with Steelyard by"
            " --image.",
        )


def pip_options(index_url: str | None) -> tuple[str, ...]:
    """Return the options of pip for an index; one without TLS was named, so it is trusted."""
    if index_url is None:
        return ()
    parts = urlsplit(index_url)
    trusted = ("--trusted-host", parts.netloc.rpartition("@")[2]) if parts.scheme == "http" else ()
    return ("--index-url", index_url, *trusted)


def send(api: KubernetesApi, where: k8s.ContainerRef, directory: str) -> None:
    """Send this installation into a pod that waits for it; what is there already stays.

    Raises:
        TargetError: The pod did not take it, or the connection was lost.
    """
    name, content = wheel()
    sent = {name: content, "versions.txt": _versions().encode()}
    text = json.dumps({key: base64.b64encode(value).decode() for key, value in sent.items()})
    argv = ("python3", "-I", "-S", "-c", _TAKE, directory)
    ended = api.run(where, argv, timeout_s=_SEND_S, stdin=text)
    if not ended.succeeded:
        raise TargetError(
            f"Steelyard cannot be sent to pod {where.pod}: {ended.tail(1)}",
            hint="Has the volume of the record room? See --record-size.",
        )


def wheel() -> tuple[str, bytes]:
    """Return this installation as a wheel: its name and its bytes."""
    base = f"steelyard-{steelyard.__version__}"
    about = f"{base}.dist-info"
    files = dict(_files(about))
    files[f"{about}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: steelyard\nRoot-Is-Purelib: true\nTag: {_TAG}\n".encode()
    )
    record = "".join(
        f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items()
    )
    files[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return f"{base}-{_TAG}.whl", packed.getvalue()


def _files(about: str) -> Iterator[tuple[str, bytes]]:
    """Yield the package's files as they are, and what its metadata says."""
    package = Path(steelyard.__file__).parent
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"steelyard/{path.relative_to(package)}", path.read_bytes()
    for name in ("METADATA", "entry_points.txt"):
        text = distribution("steelyard").read_text(name)
        if text:
            yield f"{about}/{name}", text.encode()


def _digest(content: bytes) -> str:
    digest = hashlib.sha256(content).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _versions() -> str:
    """Return the version of everything that is installed here, as pip takes constraints."""
    found = {
        f"{each.metadata['Name']}=={each.version}"
        for each in distributions()
        if each.metadata["Name"] and "+" not in each.version
    }
    return "".join(f"{each}\n" for each in sorted(found) if not each.startswith("steelyard=="))
