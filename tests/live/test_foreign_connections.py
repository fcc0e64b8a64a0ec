"""Servers as other people name them: every keyword of libpq, roles with odd settings, refusals.

The inputs are those of cnpj-data-pipeline pull 80, pgadmin4 issue 2918, psycopg issues 571, 698 and
1007, prisma/orm issues 4752 and 23438, hashicorp/boundary issue 729, and of PostgreSQL's manuals.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from steelyard.campaign.file.overrides import target_at
from steelyard.cli import main as entry
from steelyard.core.outside import POSTGRES_MARK, ServerAddress
from steelyard.core.wording import SteelyardError
from steelyard.gateways.host import LocalHost
from steelyard.gateways.sql import Sql, parsed_uri
from steelyard.systems.postgres.cloudnative_pg.existing import CLIENTS
from steelyard.systems.postgres.existing.server import STARTED_AT
from steelyard.systems.postgres.factory import read_running
from steelyard.systems.postgres.pgbench import environment
from steelyard.tuning.facts.servers import collect_postgres
from support.endpoint import ADMIN_PASSWORD, PLAIN_PASSWORD, Server, make_home, started
from support.endpoint import run as run_quietly
from support.lacking import lacking
from support.waiting import eventually

pytestmark = pytest.mark.live

SCRIPT = Path(__file__).parents[1] / "recordings/foreign/connections/acc.sql"
TRIAL = ("try", "--set", "random_page_cost=1.1", "--seed", "5")
READS = (*TRIAL, "--script", str(SCRIPT))
BENCH = "foreign bench \N{LATIN SMALL LETTER U WITH DIAERESIS}"
ROLES = ("full", "closed", "presented", '"odd ""role\'s"')

Run = Callable[..., tuple[int, str]]
Answers = tuple[dict[str, str], ...]


@pytest.fixture(scope="module")
def bench(server: Server) -> Iterator[Server]:
    """The server with a database that has one table of pgbench, and roles of other people."""
    database, allowed = f'"{BENCH}"', f"plain, presented, {ROLES[-1]}"
    server.do(
        f"CREATE DATABASE {database}",
        f"REVOKE CONNECT ON DATABASE {database} FROM public",
        *(f"CREATE ROLE {role} LOGIN" for role in ROLES),
        f"GRANT CONNECT ON DATABASE {database} TO {allowed}",
        "ALTER ROLE full CONNECTION LIMIT 0",
    )
    rows = "AS SELECT aid, 0 AS abalance FROM generate_series(1, 9) aid"
    grant = "GRANT SELECT ON pgbench_accounts TO public"
    server.do(f"CREATE TABLE pgbench_accounts {rows}", grant, database=BENCH)
    yield server
    server.do(f"DROP DATABASE {database}", *(f"DROP ROLE {role}" for role in ROLES))


@pytest.fixture
def run(
    bench: Server,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Return what runs the command line here, without a variable of libpq but those it gets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)

    def outcome(*words: str, **variables: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["steelyard", *words])
        with monkeypatch.context() as variables_of_it:
            for name, value in variables.items():
                variables_of_it.setenv(name, value)
            code = int(entry._outcome())
        out, err = capsys.readouterr()
        return code, out + err

    assert bench.port
    return outcome


def at(server: Server, role: str = "postgres", **keywords: str) -> str:
    """Return a URI of the server's socket."""
    query = "".join(f"&{name}={quote(value)}" for name, value in keywords.items())
    place = f"host={server.home}&port={server.port}{query}"
    return f"postgresql://{quote(role)}@/{quote(BENCH)}?{place}"


_TAKEN: Mapping[str, str] = {
    "application_name": "theirs",
    "fallback_application_name": "theirs",
    "passfile": "/nonexistent",
    "connect_timeout": "7",
    "hostaddr": "",
    "client_encoding": "latin1",
    "options": "-c random_page_cost=3",
    "tcp_user_timeout": "1000",
    "sslmode": "disable",
    "sslnegotiation": "postgres",
    "channel_binding": "disable",
    "sslcertmode": "disable",
    "require_auth": "none",
    "min_protocol_version": "3.0",
    "max_protocol_version": "3.0",
    "ssl_min_protocol_version": "TLSv1.2",
    "ssl_max_protocol_version": "TLSv1.3",
    "gssencmode": "disable",
    "replication": "off",
    "target_session_attrs": "read-write",
    "load_balance_hosts": "random",
    "oauth_issuer": "https://example.com",
}
_SECRET = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
_OPTIONS = psycopg.pq.Conninfo.get_defaults()
_OF_PLACE = ("service", "user", "dbname", "host", "port")
_KEYWORDS = sorted({o.keyword.decode() for o in _OPTIONS} - set(_OF_PLACE))


@pytest.mark.parametrize("value", ["right", "odd"])
@pytest.mark.parametrize("keyword", _KEYWORDS)
def test_every_keyword_of_libpq_is_taken_or_refused(
    run: Run, bench: Server, monkeypatch: pytest.MonkeyPatch, keyword: str, value: str
) -> None:
    """In a DSN, in a URI and as a variable; sessions are named by Steelyard whoever names them."""
    assert run  # without variables of libpq
    given = _TAKEN.get(keyword, "1") if value == "right" else "odd 'value"
    place = at(bench, "plain")
    ways = [f"{place}&{keyword}={quote(given)}"]
    words = f"host={bench.home} port={bench.port} user=plain dbname='{BENCH}'"
    target, _ = target_at(f'{words} {keyword}="{given or "::1"}"')
    ways.append(str(target["uri"]))
    if variable := {o.keyword.decode(): o.envvar for o in _OPTIONS}[keyword]:
        monkeypatch.setenv(variable.decode(), given)
        ways.append(place)
    may_refuse = value == "odd" or keyword in (*_SECRET, "hostaddr", "requirepeer")
    for error in filter(None, map(_refused, ways)):
        assert may_refuse, error
        assert error.hint
        assert "Is it running" not in error.hint
        assert keyword not in _SECRET or given not in error.message


def _refused(dsn: str) -> SteelyardError | None:
    try:
        address = Sql().reach(parsed_uri(dsn))
        names = Sql().rows(address, "SHOW application_name")
    except SteelyardError as error:
        return error
    assert names == [("steelyard",)]
    assert environment(address)["PGAPPNAME"] == "steelyard-pgbench"
    return None


def test_a_trial_and_an_inspection_name_their_sessions(run: Run, bench: Server) -> None:
    """An ``application_name`` in the DSN or in the file's ``uri:`` is taken, and overridden."""
    named = at(bench, "plain", application_name="foo")
    code, text = run(*READS, "--dsn", named, "--dry-run")
    assert code == 0, text
    assert "Traceback" not in text
    assert f"database {BENCH}, which was there before: the scripts only read" in text
    code, text = run("inspect", "--dsn", named)
    assert "PG00" in text, text
    code, text = run(*READS, "--dsn", named, "--save", "trial.yaml")
    assert code == 0, text
    code, text = run("run", "trial.yaml", "--dry-run")
    assert code == 0, text


_SERVICES = """\
[lab]
host={home}
port={port}
user=plain
dbname={database}
[place]
host={home}
port={port}
user=plain
[named]
dbname=nowhere
"""


@pytest.mark.parametrize(
    ("dsn", "variables", "database"),
    [
        ("service=lab", {}, BENCH),
        ("postgresql:///?service=lab", {}, BENCH),
        (None, {"PGSERVICE": "lab"}, BENCH),
        ("service=place", {"PGDATABASE": BENCH}, BENCH),
        ("service=lab", {"PGDATABASE": "nowhere"}, BENCH),
        ("user=plain", {"PGDATABASE": BENCH, "PGHOST": "HOME", "PGPORT": "PORT"}, BENCH),
        ("service=place", {"PGSERVICE": "named"}, None),
        ("service=lab dbname=nowhere", {}, None),
        ("service=place", {"PGDATABASE": "nowhere"}, None),
        ("service=place", {}, None),
    ],
)
def test_the_database_is_the_one_in_which_libpq_ends_up(
    run: Run, bench: Server, dsn: str | None, variables: Mapping[str, str], database: str | None
) -> None:
    """Of the service file and of PG* variables, too; one that is not there is named."""
    place = {"HOME": str(bench.home), "PORT": str(bench.port)}
    text = _SERVICES.format(home=bench.home, port=bench.port, database=BENCH)
    Path("services.conf").write_text(text)
    words = ("--dsn", dsn) if dsn else ()
    resolved = {name: place.get(value, value) for name, value in variables.items()}
    code, text = run(*READS, *words, "--dry-run", PGSERVICEFILE="services.conf", **resolved)
    if database:
        assert code == 0, text
        assert f"database {database}, which was there before" in text
        return
    assert code == 4, text
    assert f"the server at {bench.home}:{bench.port} refused" in text
    assert "Name a database that exists" in text


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("{uri}&schema=public", "does not know `schema`", "`options=-csearch_path%3DSCHEMA`"),
        ("{uri}&pgbouncer=true&connection_limit=1", "`pgbouncer` or `connection_limit`", "driver"),
        ("{uri}&sslMode=require&schema=a", "`sslMode` or `schema`", "Leave it out, or write"),
        ("host=db bogus=1", "does not know `bogus`", "Leave it out"),
        ("postgresql+asyncpg://u@h/d", "`postgresql+asyncpg://` is the URI", "Write postgresql://"),
        ("postgresql+psycopg2://u@h/d", "`postgresql+psycopg2://`", "Write postgresql://"),
        ("jdbc:postgresql://h/d", "`jdbc:postgresql://` is the URI", "Write postgresql://"),
        ("mysql://h/d", "`mysql://` is the URI of another driver", "Write postgresql://"),
        ("127.0.0.1:54151", "neither a URI nor a list of libpq's keywords", "Write postgresql://"),
        ("db.example.com", "neither a URI nor a list of libpq's keywords", "'host=HOST"),
        ("{uri}&port=abc", "its port is not a number", "Write postgresql://"),
        ("{uri}&sslmode=%zz", "libpq understands: invalid percent-encoded token", "Write"),
        ("{uri}&target_session_attrs=standby", "target_session_attrs asks for", "further hosts"),
        ("{uri}&channel_binding=require", "with these options: channel binding", "PG* variable"),
        ("{uri}&replication=database", "takes no queries", "Leave `replication` out"),
        ("{uri}&dbname=template0", 'refused: FATAL: database "template0"', "another database"),
        ("{uri}&dbname=nowhere", 'refused: FATAL: database "nowhere"', "`psql -l`"),
        ("{uri}&user=missing", 'does not let missing in: FATAL: role "missing"', "CREATE ROLE"),
        ("{uri}&user=closed", "does not let closed in: FATAL: permission denied", "Grant the role"),
        ("{uri}&user=full", "has no connection left: FATAL: too many", "CONNECTION LIMIT"),
        (
            "{uri}&options=-cnothing%3D1",
            'FATAL: unrecognized configuration parameter "not',
            "PGOPT",
        ),
        ("service=nowhere", "service nowhere with these options", "the service file"),
    ],
)
def test_what_is_wrong_with_a_connection_is_said(
    run: Run, bench: Server, words: str, message: str, hint: str
) -> None:
    """The parameter, the prefix or the kind of fault, and a way out that fits it."""
    code, text = run(*READS, "--dsn", words.format(uri=at(bench, "plain")), "--dry-run")
    assert code in (2, 4), text
    sentence, _, way_out = text.partition("hint: ")
    assert message in sentence
    assert hint in way_out
    assert "Is it running" not in text
    assert len(re.findall(r"FATAL", text)) <= 1


@pytest.mark.parametrize(
    "variable", ["PGPORT", "PGTARGETSESSIONATTRS", "PGREQUIREAUTH", "PGSSLMODE"]
)
def test_a_variable_that_libpq_refuses_is_no_server_that_is_down(
    run: Run, bench: Server, variable: str
) -> None:
    """`PGPORT=abc` is said in libpq's words; nobody is asked whether the server runs."""
    code, text = run(*READS, "--dsn", f"host={bench.home}", "--dry-run", **{variable: "abc"})
    assert code == 4, text
    assert 'abc"' in text
    assert "a PG* variable" in text


@pytest.mark.parametrize(
    "words",
    [
        "{uri}",
        "host={home} port={port} user=plain dbname='{bench}'",
        "postgresql://plain@{socket}:{port}/{quoted}",
        "host=/nowhere,{home} port={port},{port} user=plain dbname='{bench}'",
        "host={home} port={port} user=plain dbname='{bench}' target_session_attrs=read-write",
        "hostaddr=127.0.0.1 port={port} user=plain dbname='{bench}'",
        "{uri}&user=odd%20%22role%27s",
        "{uri}&options=-c%20random_page_cost%3D3",
        "{uri}&options=-csearch_path%3Dnowhere,public",
    ],
)
def test_what_libpq_takes_is_taken(run: Run, bench: Server, words: str) -> None:
    """Sockets in three spellings, several hosts, blanks and umlauts in names, options."""
    home, port = str(bench.home), bench.port
    spelled = words.format(
        uri=at(bench, "plain"),
        home=home,
        port=port,
        bench=BENCH,
        socket=quote(home, safe=""),
        quoted=quote(BENCH),
    )
    code, text = run(*READS, "--dsn", spelled, "--dry-run", PGPASSWORD=PLAIN_PASSWORD)
    assert code == 0, text
    assert f"database {BENCH}, which was there before" in text
    assert ("now 3" in text) == ("random_page_cost" in words)


_PRESENTED = (
    "DateStyle = 'SQL, DMY'",
    "DateStyle = 'Postgres, MDY'",
    "DateStyle = German",
    "IntervalStyle = sql_standard",
    "IntervalStyle = iso_8601",
    "timezone = 'Asia/Kathmandu'",
    "search_path = ''",
    "client_encoding = LATIN1",
    "lc_messages = 'C'",
    "lc_numeric = 'C'",
    "lc_monetary = 'C'",
    "lc_time = 'C'",
    "bytea_output = escape",
    "extra_float_digits = -10",
    "quote_all_identifiers = on",
    "default_transaction_isolation = serializable",
    "standard_conforming_strings = off",
    "xmlbinary = hex",
    "backslash_quote = off",
    "row_security = off",
    "array_nulls = off",
    "geqo = off",
    "transform_null_equals = on",
    "gin_fuzzy_search_limit = 1",
)


@pytest.fixture(scope="module")
def plainly(bench: Server) -> Answers:
    """What a server answers to a role without settings of its own."""
    return _answers(bench)


def _answers(server: Server) -> Answers:
    address = Sql().reach(parsed_uri(at(server, "presented")))
    running = read_running(address, Sql())
    in_force = {name: setting.value for name, setting in running.in_force.items()}
    facts = collect_postgres(Sql(), address, LocalHost()).facts
    started_at = Sql().rows(address, STARTED_AT)
    return in_force, dict(running.shown), dict(facts.settings or {}), {"start": str(started_at)}


def _without(name: str, answers: Answers) -> Answers:
    """Leave out a setting, and what is one with it: transaction_isolation with its default."""
    return tuple(
        {key: value for key, value in answer.items() if key.lower() not in name.lower()}
        for answer in answers
    )


@pytest.mark.parametrize("setting", _PRESENTED)
def test_a_setting_of_presentation_changes_no_other_answer(
    bench: Server, plainly: Answers, setting: str
) -> None:
    """Of the role: settings, facts and the start of the server are read as without it."""
    bench.do("ALTER ROLE presented RESET ALL", f"ALTER ROLE presented SET {setting}")
    name = setting.partition(" ")[0]
    assert _without(name, _answers(bench)) == _without(name, plainly)


def test_a_trial_and_an_inspection_say_the_same_whatever_the_presentation(
    run: Run, bench: Server
) -> None:
    """With all settings at once."""
    bench.do("ALTER ROLE presented RESET ALL")
    plain = _said(run, bench)
    bench.do(*(f"ALTER ROLE presented SET {setting}" for setting in _PRESENTED[::-1]))
    assert _said(run, bench) == plain


def _said(run: Run, server: Server) -> tuple[int, str, int, list[str]]:
    dsn = at(server, "presented")
    trial = run(*TRIAL, "--script", str(SCRIPT.with_name("one.sql")), "--dsn", dsn, "--dry-run")
    code, text = run("inspect", "--dsn", dsn)
    verdicts = re.findall(r"^.*\bPG\d+.*$", text, re.MULTILINE)
    assert (trial[0], bool(verdicts)) == (0, True), trial[1] + text
    return *trial, code, verdicts


def test_what_own_sessions_set_is_not_what_is_in_force(run: Run, bench: Server) -> None:
    """A role's DateStyle stays what the generator gets; numbers of a session have all digits."""
    bench.do("ALTER ROLE presented RESET ALL", "ALTER ROLE presented SET DateStyle = German")
    bench.do("ALTER ROLE presented SET extra_float_digits = -10")
    code, text = run(*READS, "--dsn", at(bench, "presented"), "--set", "DateStyle=SQL", "--dry-run")
    assert code == 0, text
    assert "DateStyle = SQL (now German, DMY)" in text
    address = Sql().reach(parsed_uri(at(bench, "presented")))
    session = Sql().session(address, "numbers", patience_s=10)
    values = session.rows("SELECT 123456.789::float8, '1 day'::interval, '2026-01-02'::timestamptz")
    session.close()
    assert values[0][0] == 123456.789
    assert str(values[0][1]) == "1 day, 0:00:00"
    assert str(values[0][2]).startswith("2026-01-02 00:00:00")


_LANGUAGES = {"de_DE": "Rolle", "fr_FR": "r\xf4le", "ru_RU": "роль", "ja_JP": "ロール"}
_REFUSED = {
    "missing role": "user=missing",
    "missing database": "user=plain dbname=nowhere",
    "wrong password": "user=scram",
    "no line": "user=unlisted dbname=postgres",
    "template0": "user=plain dbname=template0",
    "role's limit": "user=full dbname=postgres",
    "database's limit": "user=plain dbname=closed",
    "no permission": "user=plain dbname=postgres options=-clog_statement=all",
    "unknown option": "user=plain dbname=postgres options=-cnothing=1",
}


@pytest.fixture(scope="module")
def abroad() -> Iterator[Server]:
    """A server of the distribution, whose messages are translated, with the locales for it."""
    programs = Path("/usr/lib/postgresql/15/bin")
    if not (programs / "initdb").exists() or shutil.which("localedef") is None:
        lacking("Debian's PostgreSQL 15 with its translations, or localedef, is not installed")
    locales = make_home()
    for name in _LANGUAGES:
        place = str(locales / f"{name}.UTF-8")
        run_quietly(["localedef", "-i", name, "-f", "UTF-8", place])
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("LOCPATH", str(locales))
        with started(programs) as made:
            made.do(
                "CREATE ROLE scram LOGIN PASSWORD 'right'",
                "CREATE ROLE full LOGIN CONNECTION LIMIT 0",
                "CREATE DATABASE closed CONNECTION LIMIT 0",
            )
            lines = ("local all postgres trust", "host all scram all scram-sha-256")
            others = "host all plain,full,missing all trust\n"
            (made.data / "pg_hba.conf").write_text("\n".join((*lines, others)))
            yield made
    shutil.rmtree(locales)


@pytest.mark.slow
@pytest.mark.parametrize("language", _LANGUAGES)
def test_a_refusal_is_understood_in_any_language(
    abroad: Server, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    """By its SQLSTATE: each has the sentence and the way out that it has in English."""
    monkeypatch.setenv("PGPASSWORD", "wrong")
    english, other = (_refusals(abroad, name) for name in ("C", f"{language}.UTF-8"))
    assert _LANGUAGES[language] in other["missing role"][0]
    for kind, (sentence, hint) in english.items():
        ours = sentence.partition("FATAL")[0]
        assert (other[kind][0][: len(ours)], other[kind][1]) == (ours, hint)
        assert "Is it running" not in hint


def _refusals(server: Server, locale: str) -> dict[str, tuple[str, str]]:
    server.do(f"ALTER SYSTEM SET lc_messages = '{locale}'")
    run_quietly(server.control("reload"))
    assert eventually(lambda: server.rows("SHOW lc_messages") == [(locale,)])
    place = Sql().reach(parsed_uri(f"host=127.0.0.1 port={server.port} user=plain"))
    assert place.database == "postgres"  # none is called like the role
    return {kind: _refusal(server, kind) for kind in _REFUSED}


def _refusal(server: Server, kind: str) -> tuple[str, str]:
    with pytest.raises(SteelyardError) as caught:
        Sql().reach(parsed_uri(f"host=127.0.0.1 port={server.port} {_REFUSED[kind]}"))
    return caught.value.message, caught.value.hint


_ROLES = ("billing", "shop")


def _rows(server: Server, user: str, password: str) -> list[tuple[object, ...]]:
    way = ServerAddress(
        host="127.0.0.1", port=server.port, user=user, database="postgres", password=password
    )
    return Sql().rows(way, CLIENTS, [POSTGRES_MARK])


@pytest.mark.parametrize("asks", ["postgres", "shop"])
def test_a_session_of_another_user_is_seen(server: Server, asks: str) -> None:
    """The application's user, to whom other sessions are hidden but for their names, sees it too.

    Without the other session both see nobody: neither the server's own processes nor themselves.
    """
    server.do(*(f"CREATE ROLE {role} LOGIN PASSWORD 'planted'" for role in _ROLES))
    try:
        password = ADMIN_PASSWORD if asks == "postgres" else "planted"
        assert _rows(server, asks, password) == []
        with psycopg.connect(
            host="127.0.0.1",
            port=server.port,
            user="billing",
            password="planted",
            dbname="postgres",
        ):
            assert _rows(server, asks, password) == [("billing", 1)]
    finally:
        server.do(*(f"DROP ROLE {role}" for role in _ROLES))
