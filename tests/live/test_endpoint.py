"""Servers that are there already: measured, and left exactly as they were found."""

import gzip
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard.gateways.sql import Sql, parsed_uri
from support.endpoint import ADMIN_PASSWORD, PLAIN_PASSWORD, Server, started
from support.endpoint import run as command
from support.lacking import lacking
from support.live import LIMIT_S, Steelyard, ending, interrupted, lasting, wait_for, whole_report

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.live

TINY = """\
version: 1
name: tiny endpoint
baseline: default
workloads:
  - {name: writes, builtin: simple-update, scale: 1}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 1s, discard_start: 0s, warm_up: 0s, runs_per_start: 1}
stop: {budget: 5m, width: 99%}
seed: 7
configurations:
  default:
    target: {kind: existing}
  other:
    extends: default
    postgres: {work_mem: 9MB, checkpoint_timeout: 7min}
"""


def at(server: Server, text: str = TINY, **keys: object) -> str:
    """Return the experiment at the server's socket, with further keys of the target."""
    target = json.dumps({"kind": "existing", "uri": server.uri, **keys})
    return text.replace("{kind: existing}", target)


@pytest.fixture
def untouched(server: Server) -> Iterator[None]:
    """After the test the server is as it was: its settings, its databases."""
    before = (server.configuration, server.databases)
    yield
    assert (server.configuration, server.databases) == before
    assert server.rows("SHOW work_mem") == [("5MB",)]


def _measured(steelyard: Steelyard, text: str, *more: str) -> None:
    """Run a campaign for one block; what it made is undone at every end."""
    source = steelyard.experiment(lasting(text))
    steelyard.until_blocks(1, "run", source, "--dir", "c", "--no-verdict", *more)


def _run(steelyard: Steelyard, text: str, *more: str) -> "subprocess.CompletedProcess[str]":
    return steelyard.run("run", steelyard.experiment(text), "--dir", "c", "--no-verdict", *more)


@pytest.mark.slow
@pytest.mark.usefixtures("untouched")
def test_a_campaign_at_a_socket_leaves_the_server_as_it_was(
    steelyard: Steelyard, server: Server
) -> None:
    """A whole campaign through a URI: settings by ALTER SYSTEM, own databases, all undone."""
    done = _run(steelyard, at(server, ending(TINY)))
    assert done.returncode == 0, done.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert summary["blocks"] == 3
    report = whole_report(steelyard.directory / "c")
    assert "that was there already" in report
    made = [e for e in steelyard.journal if e["kind"] == "created"]
    assert {e["resource"] for e in made} == {"directory", "on-server"}


@pytest.mark.usefixtures("untouched")
def test_pg_variables_and_a_password_that_nobody_sees(steelyard: Steelyard, server: Server) -> None:
    """PGPASSWORD over TCP works, and the password is in no argument, record, log or report."""
    secret = replace(steelyard, extra=server.tcp)
    process = secret.start("run", secret.experiment(lasting(TINY)), "--dir", "c", "--no-verdict")
    seen, stop = set[str](), threading.Event()
    watcher = threading.Thread(target=_watch, args=(seen, stop))
    watcher.start()
    try:
        wait_for(lambda: secret.complete_blocks >= 1, process)
        done = interrupted(process)
    finally:
        stop.set()
        watcher.join()
    assert any("pgbench" in line for line in seen)
    assert [line for line in seen if ADMIN_PASSWORD in line] == []
    assert ADMIN_PASSWORD not in done.stdout + done.stderr
    assert [path for path, text in _everything(steelyard) if ADMIN_PASSWORD in text] == []


def test_a_server_without_an_encoding_is_measured_as_any(
    steelyard: Steelyard, programs: Path
) -> None:
    """Initdb under the C locale: settings are known by name, and in others' text is what is."""
    with started(programs, encoding="SQL_ASCII") as bare:
        before = (bare.configuration, bare.databases)
        _measured(steelyard, at(bare))
        assert {e["kind"] for e in steelyard.journal} >= {"planned", "run", "block-ended"}
        assert (bare.configuration, bare.databases) == before
        server = Sql().reach(parsed_uri(bare.uri))
        odd = "SELECT convert_from(decode('6772fc6e', 'hex'), 'SQL_ASCII')"
        assert Sql().rows(server, odd) == [("gr\N{REPLACEMENT CHARACTER}n",)]


def _watch(seen: set[str], stop: threading.Event) -> None:
    while not stop.wait(0.05):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    seen.add((entry / "cmdline").read_text().replace("\0", " "))
                except OSError:
                    continue


def _everything(steelyard: Steelyard) -> Iterator[tuple[Path, str]]:
    places = (steelyard.directory, steelyard.cache / "campaigns")
    for path in (p for place in places for p in place.rglob("*") if p.is_file()):
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        yield path, content.decode(errors="replace")


@pytest.mark.usefixtures("untouched")
def test_clean_puts_everything_back_after_kill_9(steelyard: Steelyard, server: Server) -> None:
    """What a killed campaign changed is listed by `clean --dry-run` and undone by `clean`."""
    source = steelyard.experiment(at(server, lasting(TINY)))
    process = steelyard.start("run", source, "--dir", "c", "--no-verdict")
    wait_for(lambda: len(steelyard.runs) >= 1, process)
    process.kill()
    process.communicate()
    assert server.databases
    refused = steelyard.run("run", "tiny.yaml", "--dir", "d", "--no-verdict")
    assert refused.returncode == 3, refused.stderr
    assert "another campaign" in refused.stderr
    looked = steelyard.run("clean", "--dry-run")
    assert "settings checkpoint_timeout, work_mem" in looked.stdout
    assert "database steelyard_s1_" in looked.stdout
    cleaned = steelyard.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "No campaign has left anything" in steelyard.run("clean", "--yes").stdout


@pytest.mark.usefixtures("untouched")
def test_an_ordinary_role_goes_on_with_session_settings(
    steelyard: Steelyard, server: Server
) -> None:
    """Without superuser rights user settings travel with the sessions, and findings say so."""
    text = TINY.replace(", checkpoint_timeout: 7min", "")
    text = text.replace("{kind: existing}", "{kind: existing, service: lab}")
    _measured(replace(steelyard, extra=_by_service(steelyard.directory, server)), text)
    assert [path for path, found in _everything(steelyard) if PLAIN_PASSWORD in found] == [
        steelyard.directory / "pgpass"
    ]
    codes = {e["finding"]["code"] for e in steelyard.journal if e["kind"] == "finding"}
    assert {"no-superuser", "endpoint-unseen"} <= codes
    assert "by ALTER SYSTEM" not in whole_report(steelyard.directory / "c")


def _by_service(home: Path, server: Server) -> dict[str, str]:
    """Write a service file and a pgpass for the ordinary role; return where they are."""
    (home / "service").write_text(
        f"[lab]\nhost=127.0.0.1\nport={server.port}\nuser=plain\ndbname=postgres\n"
    )
    (home / "pgpass").write_text(f"127.0.0.1:{server.port}:*:plain:{PLAIN_PASSWORD}\n")
    (home / "pgpass").chmod(0o600)
    return {"PGSERVICEFILE": str(home / "service"), "PGPASSFILE": str(home / "pgpass")}


@pytest.mark.usefixtures("untouched")
def test_an_ordinary_role_is_told_what_it_cannot_change(
    steelyard: Steelyard, server: Server
) -> None:
    """A setting that no session can have is refused with its line and the way out."""
    variables = {**server.tcp, "PGUSER": "plain", "PGPASSWORD": PLAIN_PASSWORD}
    done = _run(replace(steelyard, extra=variables), TINY)
    assert done.returncode == 2, done.stderr
    assert "`checkpoint_timeout` is changed for all sessions" in done.stderr
    assert "GRANT ALTER SYSTEM ON PARAMETER" in done.stderr
    assert "tiny.yaml:" in done.stderr


@pytest.mark.usefixtures("untouched")
def test_who_was_granted_a_setting_alters_it_and_puts_it_back(
    steelyard: Steelyard, server: Server
) -> None:
    """From PostgreSQL 15 on, with what it takes to see and to reload; no superuser is needed."""
    view, functions = "pg_file_settings", "pg_show_all_file_settings(), pg_reload_conf()"
    rights = ("PARAMETER checkpoint_timeout", view, f"FUNCTION {functions}")
    verbs = ("ALTER SYSTEM", "SELECT", "EXECUTE")
    pairs = list(zip(verbs, rights, strict=True))
    server.do(*(f"GRANT {verb} ON {right} TO plain" for verb, right in pairs))
    try:
        variables = {**server.tcp, "PGUSER": "plain", "PGPASSWORD": PLAIN_PASSWORD}
        granted = replace(steelyard, extra=variables)
        _measured(granted, TINY.replace("work_mem: 9MB, ", ""))
        made = [each for each in steelyard.journal if each["kind"] == "created"]
        assert {each["resource"] for each in made} == {"directory", "on-server"}
        shown = [
            setting["value"]
            for each in steelyard.journal
            if each["kind"] == "environment"
            for one in each["environment"]["servers"]  # type: ignore[index]
            for setting in one["settings"]
            if setting["name"] == "checkpoint_timeout"
        ]
        assert "420" in shown
    finally:
        server.do(*(f"REVOKE {verb} ON {right} FROM plain" for verb, right in pairs))


@pytest.mark.usefixtures("untouched")
def test_a_setting_that_needs_a_restart_is_refused(steelyard: Steelyard, server: Server) -> None:
    """Without `restart_command:` nothing is asked that only a restart brings into force."""
    text = TINY.replace("work_mem: 9MB", "shared_buffers: 24MB")
    done = _run(steelyard, at(server, text))
    assert done.returncode == 2, done.stderr
    assert "needs a restart" in done.stderr
    assert "restart_command" in done.stderr


@pytest.mark.usefixtures("untouched")
def test_a_restart_command_brings_it_into_force(steelyard: Steelyard, server: Server) -> None:
    """With one, every start restarts the server, and the end restores the old value."""
    text = TINY.replace("work_mem: 9MB, checkpoint_timeout: 7min", "shared_buffers: 24MB")
    text = text.replace("simple-update", "select-only")
    _measured(steelyard, at(server, text, restart_command=server.restart_command))
    environment = json.loads((steelyard.directory / "c" / "environment.json").read_text())
    found = [
        setting["value"]
        for configuration in environment["servers"]
        for setting in configuration["settings"]
        if setting["name"] == "shared_buffers"
    ]
    assert found == ["2048", "3072"]
    assert server.rows("SHOW shared_buffers") == [("16MB",)]


SMALL_MATRIX = (
    "load.clients=[1, 4]",
    "load.threads=1",
    "measure.run_time=1s",
    "measure.max_other_load=ignore",
    *(f"workloads.{name}.scale=1" for name in ("select-only", "simple-update", "tpcb-like")),
)


@pytest.mark.slow
@pytest.mark.usefixtures("untouched")
def test_the_published_matrix_runs_on_a_server_that_is_there(
    steelyard: Steelyard, server: Server
) -> None:
    """`--target URI` is enough: every cell once, max_connections untouched, repeatable."""
    changes = [word for each in SMALL_MATRIX for word in ("--override", each)]
    source = ("run", "preset:published-matrix", "--target", server.uri)
    done = steelyard.run(*source, *changes, "--dir", "c")
    assert done.returncode == 0, done.stderr
    assert len(steelyard.runs) == 6
    assert "single pass done" in done.stdout or "single unrepeated pass" in done.stdout.lower()
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert f"target={server.uri}" in summary["command"]
    full = steelyard.run(*source, "--dry-run", *changes, "--override", "load.clients=[1, 100]")
    assert full.returncode == 3, full.stderr
    assert "100 clients need 102" in full.stderr


@pytest.mark.usefixtures("untouched")
def test_a_restart_command_that_fails_ends_the_campaign(
    steelyard: Steelyard, server: Server
) -> None:
    """Its exit status and last words are told; the settings are put back."""
    text = TINY.replace("work_mem: 9MB", "shared_buffers: 24MB")
    done = _run(steelyard, at(server, text, restart_command=["sh", "-c", "echo no luck; exit 3"]))
    assert done.returncode == 4, done.stderr
    assert "exited with 3: no luck" in done.stderr
    assert "left behind" not in done.stderr


@pytest.mark.slow
def test_a_database_that_steelyard_did_not_make_is_left_alone(
    steelyard: Steelyard, server: Server
) -> None:
    """Unless it is allowed: then the generator's tables are made in it and dropped again."""
    server.do("CREATE DATABASE shop OWNER poor")
    server.do("CREATE TABLE goods AS SELECT 1 AS id", database="shop")
    try:
        variables = {**server.tcp, "PGUSER": "poor", "PGPASSWORD": PLAIN_PASSWORD}
        poor = replace(steelyard, extra=variables)
        text = TINY.replace(", checkpoint_timeout: 7min", "")
        text = text.replace("{kind: existing}", "{kind: existing, dbname: shop}")
        refused = _run(poor, text)
        assert refused.returncode == 3, refused.stderr
        assert "--allow-existing" in refused.stderr
        _measured(poor, text, "--allow-existing")
        tables = server.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", "shop")
        assert tables == [("goods",)]
        report = whole_report(steelyard.directory / "c")
        assert "vacuum and truncate only" in report
        server.do("CREATE TABLE pgbench_accounts ()", database="shop")
        taken = steelyard.run("run", "tiny.yaml", "--dir", "d", "--no-verdict", "--allow-existing")
        assert taken.returncode != 0
        taken = poor.run("run", "tiny.yaml", "--dir", "d", "--no-verdict", "--allow-existing")
        assert taken.returncode == 3, taken.stderr
        assert "pgbench_accounts" in taken.stderr
    finally:
        server.do("DROP DATABASE shop WITH (FORCE)")


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"PGPASSWORD": "wrong"}, 4, "refused the password of postgres"),
        ({"PGPORT": "1"}, 4, "cannot be reached"),
        ({"PGSSLMODE": "require"}, 4, "no TLS connection"),
        ({"PGOPTIONS": "-c default_transaction_read_only=on"}, 3, "read-only"),
    ],
)
def test_what_keeps_steelyard_out_is_said(
    steelyard: Steelyard, server: Server, variables: dict[str, str], code: int, words: str
) -> None:
    """Each a sentence of fact with the way out, and nothing is started."""
    done = _run(replace(steelyard, extra={**server.tcp, **variables}), TINY)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "hint:" in done.stderr
    assert ADMIN_PASSWORD not in done.stderr
    assert not (steelyard.directory / "c").exists()


_DATABASE = ("for the database postgres (ALTER DATABASE)", 'ALTER DATABASE "postgres" RESET wal_')
_ALL = ("for all users (ALTER ROLE ALL)", "ALTER ROLE ALL RESET wal_compression")
_ROLE = ("for the user postgres (ALTER ROLE)", 'ALTER ROLE "postgres" RESET wal_compression')
_BOTH = (
    "log_min_duration_statement=9",
    "for the user postgres in the database postgres",
    'IN DATABASE "postgres" RESET log_min',
)
_PENDING = ("`shared_buffers` was changed on the server and waits for a restart", "Restart the")


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("before", "setting", "told", "way"),
    [
        ("ALTER DATABASE postgres SET wal_compression = off", "wal_compression=on", *_DATABASE),
        ("ALTER ROLE ALL SET wal_compression = off", "wal_compression=on", *_ALL),
        ("ALTER ROLE postgres SET wal_compression = off", "wal_compression=on", *_ROLE),
        ("ALTER ROLE postgres IN DATABASE postgres SET log_min_duration_statement = 7", *_BOTH),
        ("ALTER SYSTEM SET shared_buffers = '17MB'", "shared_buffers=18MB", *_PENDING),
    ],
)
def test_what_no_change_of_files_reaches_is_told_before_the_start(
    steelyard: Steelyard, server: Server, before: str, setting: str, told: str, way: str
) -> None:
    """Where the setting comes from, by pg_settings, and what to do there."""
    after = re.sub(r"SET (\w+) = .*", r"RESET \1", before)
    server.do(before, "SELECT pg_reload_conf()")
    wait_for(lambda: "SYSTEM" not in before or server.rows(_WAITING) != [])
    done = _tried(steelyard, server, setting)
    server.do(after, "SELECT pg_reload_conf()")
    wait_for(lambda: server.rows(_WAITING) == [])
    assert done.returncode == 3, done.stderr
    assert told in done.stderr
    assert way in done.stderr


@pytest.mark.usefixtures("untouched")
def test_what_the_servers_command_line_says_is_told_before_the_start(
    steelyard: Steelyard, server: Server
) -> None:
    """As Patroni and the files of docker-compose set it."""
    log = ["-l", str(server.home / "log")]
    command(server.control("restart", "-m", "fast", "-o", "-c wal_compression=off", *log))
    done = _tried(steelyard, server, "wal_compression=on")
    command(server.control("stop", "-m", "fast"))  # a restart would keep what it was given
    command(server.control("start", *log))
    assert done.returncode == 3, done.stderr
    assert "`wal_compression` is set on the command line of the server" in done.stderr
    assert "Patroni" in done.stderr


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nosuch = 1", "10.conf, line 2: `nosuch`: unrecognized configuration parameter"),
        ("work_mem = 'x", "10.conf, line 2: syntax error"),
        ("include 'gone.conf'", "could not open file"),
        ("work_mem = banana", ""),  # this line alone is not taken
    ],
)
def test_a_file_that_the_server_cannot_read_is_named_before_the_start(
    steelyard: Steelyard, server: Server, line: str, told: str
) -> None:
    """With its line and parameter: no change would come into force, and none is made."""
    main, other = server.data / "postgresql.conf", server.home / "10.conf"
    text = main.read_text()
    other.write_text(f"# of somebody\n{line}\n")
    main.write_text(f"{text}include '{other}'\n")
    done = _tried(steelyard, server, "wal_compression=on")
    main.write_text(text)
    assert done.returncode == (3 if told else 0), done.stderr
    assert told in done.stderr
    assert ("cannot read its configuration" in done.stderr) is bool(told)


_WAITING = "SELECT name FROM pg_settings WHERE pending_restart"


def _tried(
    steelyard: Steelyard, server: Server, setting: str
) -> "subprocess.CompletedProcess[str]":
    (steelyard.directory / "q.sql").write_text("SELECT 1;\n")
    words = ["try", "--dsn", server.uri, "--set", setting, "--script", "q.sql", "--dry-run"]
    return steelyard.run(*words, "--restart-command", "true")


def test_a_server_that_wants_tls_is_said(steelyard: Steelyard, server: Server) -> None:
    """Where pg_hba.conf has a line for TLS only, the way out is named."""
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(before.replace("host ", "hostssl "))
    server.do("SELECT pg_reload_conf()")
    try:
        variables = {**server.tcp, "PGSSLMODE": "disable"}
        done = _run(replace(steelyard, extra=variables), TINY)
        assert done.returncode == 4, done.stderr
        assert "without TLS" in done.stderr
        assert "sslmode=require" in done.stderr
    finally:
        rules.write_text(before)
        server.do("SELECT pg_reload_conf()")


@pytest.mark.slow
@pytest.mark.usefixtures("untouched")
def test_a_server_that_dies_is_told_and_cleaned_later(steelyard: Steelyard, server: Server) -> None:
    """The campaign fails, says what it could not put back, and `clean` does it afterwards."""
    source = steelyard.experiment(at(server, lasting(TINY)))
    process = steelyard.start("run", source, "--dir", "c", "--no-verdict")
    wait_for(lambda: len(steelyard.runs) >= 1, process)
    command(server.control("stop", "-m", "immediate"))
    try:
        _, err = process.communicate(timeout=LIMIT_S)
    finally:
        command(server.control("start", "-l", str(server.home / "log")))
    assert process.returncode == 5, err
    assert "left behind: " in err
    assert "steelyard clean" in err
    cleaned = steelyard.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr


def test_a_password_in_the_uri_is_refused_and_not_repeated(steelyard: Steelyard) -> None:
    """Exit 2 with the way out; the password is in no output and no record."""
    uri = "postgresql://bench@db/x?p%61ssword=hunter2"
    text = TINY.replace("{kind: existing}", json.dumps({"kind": "existing", "uri": uri}))
    done = _run(steelyard, text)
    assert done.returncode == 2, done.stderr
    assert "PGPASSWORD" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert not (steelyard.directory / "c").exists()


def test_a_standby_is_refused(steelyard: Steelyard, server: Server) -> None:
    """A server in recovery takes no data: exit 3, and the primary is the way out."""
    signal_file = server.data / "standby.signal"
    signal_file.touch()
    os.chown(signal_file, server.data.stat().st_uid, server.data.stat().st_gid)
    command(server.restart_command)
    try:
        done = _run(steelyard, at(server))
        assert done.returncode == 3, done.stderr
        assert "is a standby" in done.stderr
    finally:
        signal_file.unlink()
        command(server.restart_command)


OVER_TLS = """\
version: 1
name: over TLS
baseline: default
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 1s, discard_start: 0s, warm_up: 0s}
stop: {budget: 5m, width: 99%}
seed: 7
configurations:
  default:
    target: {kind: existing, uri: URI}
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
    trusting.until_blocks(1, "run", "tiny.yaml", "--dir", "c", "--no-verdict")
    facts = json.loads((steelyard.directory / "c" / "environment.json").read_text())["facts"]
    assert [fact["value"] for fact in facts if fact["name"] == "TLS"] == ["yes"]
    assert len(steelyard.runs) >= 2
    assert all(run["validity"] == "valid" for run in steelyard.runs)
    assert secure.databases == set()


def test_another_servers_certificate_is_refused(steelyard: Steelyard, secure: Server) -> None:
    """A certificate for another name gives exit 4, the fact and where to look."""
    trusting = _trusting(steelyard, secure, "127.0.0.1")
    done = trusting.run("run", "tiny.yaml", "--dir", "c", "--no-verdict")
    assert done.returncode == 4, done.stderr
    assert "no TLS connection" in done.stderr
    assert "sslrootcert" in done.stderr
    assert not (steelyard.directory / "c").exists()
