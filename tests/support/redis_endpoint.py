"""What tests ask of a Redis server that was there already, and the certificates for one."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from support.lacking import lacking
from support.redis import RedisServer, redis_started

LIMIT_S = 60.0


def keys_of(server: RedisServer) -> dict[int, int]:
    """Return how many keys each database has that has any, by number."""
    told = {name: value for name, value in server.info("keyspace").items() if name[:2] == "db"}
    return {int(n[2:]): int(v.removeprefix("keys=").split(",")[0]) for n, v in told.items()}


def setting_of(server: RedisServer, name: str) -> str:
    """Return a setting in force."""
    answer = server.command("CONFIG", "GET", name)
    assert isinstance(answer, list)
    return answer[1].decode()


def restart(server: RedisServer, **settings: str) -> None:
    """Kill a server and start it with further settings."""
    server.kill()
    server.settings |= {name.replace("_", "-"): value for name, value in settings.items()}
    server.start()


def restart_command_of(server: RedisServer) -> tuple[str, ...]:
    """Return what restarts a server with the settings that it is handed; ``ended`` ends it."""
    home = server.home
    (home / "redis.conf").write_text(f"{server._configuration()}include {home}/added.conf\n")
    (home / "added.conf").touch()
    (home / "pid").write_text(str(server.pid))
    script = (
        f'printf "%s" "$STEELYARD_SETTINGS" > {home}/added.conf; kill -9 $(cat {home}/pid);'
        f" sleep 0.1; rm -f {home}/pid; {server.program} {home}/redis.conf --daemonize yes"
        f" --logfile {home}/log --pidfile {home}/pid;"
        f" while [ ! -s {home}/pid ]; do sleep 0.05; done"
    )
    return ("sh", "-c", script)


def ended(server: RedisServer) -> None:
    """End what the restart command has started."""
    server.kill()
    with suppress(ProcessLookupError):
        os.kill(int((server.home / "pid").read_text()), signal.SIGKILL)


def await_info(server: RedisServer, section: str, name: str, value: str) -> None:
    """Wait until INFO says so."""
    deadline = time.monotonic() + LIMIT_S
    while server.info(section).get(name) != value:
        assert time.monotonic() < deadline, server.info(section)
        time.sleep(0.02)


@contextmanager
def tls_started(
    settings: Mapping[str, str] | None = None,
) -> Iterator[tuple[RedisServer, dict[str, Path]]]:
    """Run a server whose port speaks TLS only and asks for a client's certificate."""
    with redis_started(settings) as own:
        files = with_certificates(own.home)
        own.settings |= {
            "port": "0",
            "tls-port": str(own.port),
            "tls-cert-file": str(files["server.crt"]),
            "tls-key-file": str(files["server.key"]),
            "tls-ca-cert-file": str(files["ca.crt"]),
        }
        restart(own)
        yield own, files


def with_certificates(home: Path, host: str = "localhost") -> dict[str, Path]:
    """Make an authority, and certificates of it for a server and a client; return the files."""
    if shutil.which("openssl") is None:
        lacking("making a certificate needs openssl")
    files = {name: home / name for name in ("ca.key", "ca.crt")}
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test CA"),
        *("-keyout", str(files["ca.key"]), "-out", str(files["ca.crt"])),
    )
    for who in ("server", "client"):
        key, asked, made = (home / f"{who}.{ending}" for ending in ("key", "csr", "crt"))
        extension = home / f"{who}.ext"
        extension.write_text(f"subjectAltName=DNS:{host}\n")
        subject = ("-subj", f"/CN={host}")
        _openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", *subject),
            *("-keyout", str(key), "-out", str(asked)),
        )
        signing = ("-CA", str(files["ca.crt"]), "-CAkey", str(files["ca.key"]), "-CAcreateserial")
        _openssl(
            *("x509", "-req", "-in", str(asked), *signing, "-days", "2"),
            *("-extfile", str(extension), "-out", str(made)),
        )
        files |= {key.name: key, made.name: made}
    return files


def _openssl(*words: str) -> None:
    program = str(shutil.which("openssl"))
    subprocess.run([program, *words], check=True, capture_output=True, timeout=120, cwd="/")
