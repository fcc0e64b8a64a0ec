"""TLS to an endpoint, checked against a root certificate."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.endpoint import Server, started
from support.endpoint import run as command
from support.lacking import lacking
from support.live import Steelyard, lasting

pytestmark = pytest.mark.live

OVER_TLS = """\
version: 1
name: over TLS
baseline: default
workloads:
  - {name: reads, builtin: select-only, scale_factor: 1}
loads: {clients: 2, threads: 1}
measure: {slice: 1s, ramp: 0s, warm_up: 0s}
stop: {budget: 5m, precision: 99%}
seed: 7
configurations:
  default:
    target: {kind: endpoint, uri: URI}
  other:
    extends: default
    postgres: {work_mem: 9MB}
"""


def _certificate(data: Path, host: str) -> None:
    """Make a key and a certificate that signs itself, of the server's account."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    made += ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
    files = {"-keyout": data / "server.key", "-out": data / "server.crt"}
    command([*made, *(str(word) for pair in files.items() for word in pair)])
    owner = data.stat()
    for path in files.values():
        os.chown(path, owner.st_uid, owner.st_gid)
    files["-keyout"].chmod(0o600)


@pytest.fixture(scope="module")
def secure() -> Iterator[Server]:
    """Return a server that lets nobody in over the network without TLS."""
    if shutil.which("openssl") is None:
        lacking("making a certificate needs openssl")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not installed:
        lacking("the wheel's PostgreSQL has no TLS, and no other is installed")
    with started(installed[-1].parent) as made:
        _certificate(made.data, "localhost")
        rules = made.data / "pg_hba.conf"
        rules.write_text(rules.read_text().replace("host ", "hostssl "))
        made.do("ALTER SYSTEM SET ssl = on")
        command(made.restart_command)
        yield made


def _trusting(steelyard: Steelyard, server: Server, host: str) -> Steelyard:
    root = steelyard.directory / "root.crt"
    shutil.copyfile(server.data / "server.crt", root)
    secret = {"PGPASSWORD": server.tcp["PGPASSWORD"]}
    uri = f"postgresql://postgres@{host}:{server.port}/postgres"
    uri += f"?sslmode=verify-full&sslrootcert={root}"
    text = OVER_TLS.replace("URI", json.dumps(uri))
    steelyard.experiment(lasting(text))
    return replace(steelyard, extra=secret)


@pytest.mark.slow
def test_a_campaign_through_verified_tls(steelyard: Steelyard, secure: Server) -> None:
    """Own statements and pgbench follow `verify-full`; the server lets nobody in without TLS."""
    trusting = _trusting(steelyard, secure, "localhost")
    trusting.until_blocks(1, "run", "tiny.yaml", "--out", "c", "--yes")
    facts = json.loads((steelyard.directory / "c" / "environment.json").read_text())["facts"]
    assert [fact["value"] for fact in facts if fact["name"] == "TLS"] == ["yes"]
    assert len(steelyard.runs) >= 2
    assert all(run["validity"] == "valid" for run in steelyard.runs)
    assert secure.databases == set()


def test_another_servers_certificate_is_refused(steelyard: Steelyard, secure: Server) -> None:
    """A certificate for another name gives exit 4, the fact and where to look."""
    trusting = _trusting(steelyard, secure, "127.0.0.1")
    done = trusting.run("run", "tiny.yaml", "--out", "c", "--yes")
    assert done.returncode == 4, done.stderr
    assert "no TLS connection" in done.stderr
    assert "sslrootcert" in done.stderr
    assert not (steelyard.directory / "c").exists()
