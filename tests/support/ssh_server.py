"""A real sshd on the loopback network, for this account alone, with keys of its own."""

import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import steelyard
from steelyard.gateways.host import free_port
from support.lacking import lacking
from support.live import wait_for

SOURCE = Path(steelyard.__file__).parents[1]  # that programs over there have, too
_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {home}/host
PidFile none
AuthorizedKeysFile {home}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv TMPDIR={home}/tmp PYTHONPATH={source}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshServer:
    """One that runs, and the settings by which ssh finds it.

    Attributes:
        programs: Directory of an ``ssh`` that reads ``settings`` instead of the account's own. It
            reaches no host whose name is that of a file in ``down``, beside this directory.
        port: Where it listens.
        temporary: Where programs over there make temporary files: of this server alone.
    """

    programs: Path
    port: int
    temporary: Path


@contextmanager
def ssh_server(home: Path) -> Iterator[SshServer]:
    """Yield a server that lets this account in with a key in ``home``; skip where there is none."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    ssh, keygen = shutil.which("ssh"), shutil.which("ssh-keygen")
    if sshd is None or ssh is None or keygen is None:
        lacking("openssh-server or openssh-client is not installed")
    for name in ("host", "key"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", home / name], check=True)
    port = free_port()
    (home / "sshd_config").write_text(_CONFIG.format(port=port, home=home, source=SOURCE))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd wants it, and root has it gone
    (home / "tmp").mkdir()
    log = (home / "log").open("w")
    server = subprocess.Popen([sshd, "-D", "-e", "-f", home / "sshd_config"], stderr=log)
    try:
        wait_for(lambda: "Server listening" in (home / "log").read_text())
        yield SshServer(programs=_client(home, ssh, port), port=port, temporary=home / "tmp")
    finally:
        server.terminate()
        server.wait(timeout=20)
        log.close()


def _client(home: Path, ssh: str, port: int) -> Path:
    """Return the directory of an ssh with settings of its own, as a user has them in ~/.ssh."""
    host_key = (home / "host.pub").read_text()
    (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    (home / "ssh_config").write_text(
        "Host lab lab2\n  HostName 127.0.0.1\n"
        f"  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {home}/key\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {home}/known_hosts\n"
    )
    programs = home / "bin"
    programs.mkdir()
    (home / "down").mkdir()
    (programs / "ssh").write_text(
        f'#!/bin/sh\nfor word; do [ ! -e "{home}/down/$word" ] || exit 255; done\n'
        f'exec {ssh} -F {home}/ssh_config "$@"\n'
    )
    (programs / "ssh").chmod(0o755)
    return programs
