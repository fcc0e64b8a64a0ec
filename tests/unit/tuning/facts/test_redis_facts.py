"""Facts of Redis servers and of domains."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from fakes.clock import FakeClock
from fakes.domains import FakeDomains
from fakes.facts import FakeStack
from fakes.host import FakeHost
from fakes.processes import FakeProcesses
from fakes.redis_sessions import ToldDoor, ToldSession
from steelyard.answers.stack.inspection import fact_tables
from steelyard.core.findings import State
from steelyard.core.outside import ServerAddress
from steelyard.core.stack import (
    DomainDesign,
    DomainFacts,
    Origin,
    RedisFacts,
    StackFacts,
    Visibility,
)
from steelyard.core.wording import GIB, MIB, InputError, PreflightError
from steelyard.gateways.redis import Reply, ReplyError
from steelyard.gateways.virsh import Domains
from steelyard.report.document import Table
from steelyard.tuning.facts.collecting import Asked, collect
from steelyard.tuning.facts.domains import collect_domains
from steelyard.tuning.facts.file import facts_json, facts_yaml, parse_facts
from steelyard.tuning.facts.servers import RedisSight, collect_redis, redis_address
from steelyard.tuning.files.files import domain_xml
from support.guest_files import Guest
from support.judged_rules import HOLDS, NOTHING, judged, said

_PID = 77
_DATA = "/var/lib/redis"
_SETTINGS = {
    "dir": _DATA,
    "save": "3600 1 300 100",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "no-appendfsync-on-rewrite": "no",
    "min-replicas-to-write": "0",
    "requirepass": "secret",
}
_HERE = ServerAddress(host="127.0.0.1", port=6379)
_GROUPS = """\
30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
"""
_UNIT = "/lib/systemd/system/redis-server.service"


def _session(
    info: Mapping[str, object] | None = None, settings: Mapping[str, str] | None = None
) -> ToldSession:
    """Return a server that says this; None for its settings: this user may not ask."""
    told = {
        "role": "master",
        "connected_slaves": 1,
        "maxmemory": 1073741824,
        "process_id": _PID,
        **(info or {}),
    }
    text = "\r\n".join(f"{name}:{value}" for name, value in told.items()).encode()
    if settings is None:
        return ToldSession({"INFO all": [text]})
    words = [word.encode() for pair in settings.items() for word in pair]
    return ToldSession({"INFO all": [text], "CONFIG GET *": [words]})


def _host(files: Mapping[str, str] | None = None) -> FakeHost:
    """Return the machine of the server, started by systemd, with further files."""
    own = {
        f"/proc/{_PID}/comm": "redis-server\n",
        f"/proc/{_PID}/cgroup": "0::/system.slice/redis-server.service\n",
        _UNIT: "[Service]\nRestart=always\n",
        "/proc/self/mountinfo": f"25 1 254:0 / / rw - ext4 /dev/vda rw\n{_GROUPS}",
        "/sys/dev/block/254:0/queue/rotational": "1\n",
    }
    return FakeHost(files={**own, **(files or {})})


def _seen(
    host: FakeHost | None = None,
    settings: Mapping[str, str] | None = _SETTINGS,
    address: ServerAddress = _HERE,
    **info: object,
) -> RedisSight:
    return collect_redis(ToldDoor(_session(info, settings)), address, host or _host())


def test_a_server_of_this_machine_is_seen_whole() -> None:
    """Every fact with its source; what may be a secret is not among them."""
    sight = _seen(_host({"/sys/fs/cgroup/system.slice/memory.max": "2147483648\n"}))
    assert sight.facts == RedisFacts(
        name="127.0.0.1:6379",
        role="primary",
        save="3600 1 300 100",
        appendonly=True,
        appendfsync="everysec",
        no_appendfsync_on_rewrite=False,
        replicas=1,
        auto_restart=True,
        fenced=False,
        storage="local",
        maxmemory="1073741824",
        memory_limit="2147483648",
        min_replicas_to_write=0,
    )
    assert sight.is_here
    assert sight.directory == _DATA
    assert sight.origins["redis.127.0.0.1:6379.auto_restart"].source == f"{_UNIT}, Restart=always"
    assert "secret" not in repr(sight)


@pytest.mark.parametrize("name", ["redis", "valkey-server", "redis-server"])
def test_a_process_counts_by_its_name(name: str) -> None:
    """Of either program; a process of another machine has its number here, and another name."""
    assert _seen(_host({f"/proc/{_PID}/comm": f"{name}\n"})).is_here
    assert not _seen(_host({f"/proc/{_PID}/comm": "postgres\n"})).is_here


def test_a_server_elsewhere_shows_no_process() -> None:
    """Its settings are told; whether it is restarted and where it writes cannot be seen."""
    sight = _seen(address=ServerAddress(host="10.0.0.7", port=6379))
    assert not sight.is_here
    assert sight.facts.appendonly is True
    for name in ("auto_restart", "storage", "memory_limit"):
        assert getattr(sight.facts, name) is None
        assert sight.origins[f"redis.10.0.0.7:6379.{name}"].visibility is Visibility.NO


def test_a_user_who_may_not_ask_for_settings_leaves_them_unknown() -> None:
    """INFO alone: the server's refusal is the reason, and nothing is taken for a default."""
    sight = _seen(settings=None)
    assert sight.facts.save is None
    assert sight.facts.appendonly is None
    origin = sight.origins["redis.127.0.0.1:6379.save"]
    assert origin.visibility is Visibility.UNKNOWN
    assert "no permissions" in origin.source
    assert sight.facts.replicas == 1


def test_a_replica_is_one() -> None:
    """As the server calls itself; its name is that of its socket where it has one."""
    sight = _seen(address=ServerAddress(host="/run/redis.sock", port=0), role="slave")
    assert (sight.facts.role, sight.facts.name) == ("replica", "/run/redis.sock")


@pytest.mark.parametrize(
    ("files", "restarted"),
    [
        ({}, True),
        ({_UNIT: "[Service]\nRestart=no\n"}, False),
        ({_UNIT: "[Service]\nRestart=\n"}, False),
        ({"/etc/systemd/system/redis-server.service": "[Service]\nRestart=no\n"}, False),
        ({"/etc/systemd/system/redis-server.service.d/a.conf": "[Service]\nRestart=no\n"}, False),
        ({_UNIT: "[Service]\nUser=redis\n"}, None),
        ({f"/proc/{_PID}/cgroup": "0::/user.slice/session-3.scope\n"}, None),
        ({f"/proc/{_PID}/cgroup": "0::/user.slice/user@0.service\n"}, None),
    ],
)
def test_who_starts_it_again(files: Mapping[str, str], restarted: bool | None) -> None:  # noqa: FBT001 - expected
    """By the files of its service, the administrator's last; by hand, nobody knows."""
    assert _seen(_host(files)).facts.auto_restart is restarted


@pytest.mark.parametrize(
    ("group", "files", "limit"),
    [
        (
            "0::/db.slice/redis.service\n",
            {
                "db.slice/memory.max": "1073741824",
                "db.slice/redis.service/memory.max": "2147483648",
            },
            "1073741824",
        ),
        ("0::/\n", {"memory.max": "268435456\n"}, "268435456"),
        ("9:memory:/redis\n", {"memory/redis/memory.limit_in_bytes": "268435456\n"}, "268435456"),
        (
            "9:memory:/docker/a\n0::/docker/a\n",
            {"memory/docker/a/memory.limit_in_bytes": "268435456\n"},
            "268435456",
        ),
        ("9:memory:/redis\n", {"memory/redis/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("0::/redis.service\n", {"redis.service/memory.max": "max\n"}, None),
    ],
)
def test_the_memory_limit_is_the_smallest_of_its_control_groups(
    group: str, files: Mapping[str, str], limit: str | None
) -> None:
    """Of version 1, version 2 and both, in a container and outside of one."""
    below = {f"/sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert _seen(_host({f"/proc/{_PID}/cgroup": group, **below})).facts.memory_limit == limit


def test_an_unseen_memory_limit_is_not_said_to_be_none() -> None:
    """The server is in another container, whose processes alone are shown here."""
    files = {f"/proc/{_PID}/cgroup": "0::/../docker-4f5e.scope\n", "/sys/fs/cgroup/memory.max": "9"}
    seen = _seen(_host(files))
    assert seen.facts.memory_limit is None
    assert "are not mounted here" in seen.origins["redis.127.0.0.1:6379.memory_limit"].source


def test_a_unit_of_a_template_is_told_by_the_template() -> None:
    """Several servers of one machine are instances of one file."""
    files = {
        f"/proc/{_PID}/cgroup": "1:name=systemd:/system.slice/redis-server@two.service\n",
        "/lib/systemd/system/redis-server@.service": "[Service]\nRestart=on-failure\n",
    }
    assert _seen(_host(files)).facts.auto_restart is True


@pytest.mark.parametrize(
    ("mount", "kind"),
    [
        ("25 1 254:0 / / rw - ext4 /dev/vda rw", "local"),
        ("25 1 254:0 / / rw - ext4 /dev/longhorn/pvc-1 rw", "longhorn"),
        ("25 1 0:41 / / rw - nfs4 10.0.0.9:/data rw", "nfs"),
        ("25 1 0:41 / / rw - ceph 10.0.0.9:/ rw", "ceph"),
        ("25 1 0:41 / / rw - cifs //10.0.0.9/x rw", "network"),
    ],
)
def test_storage_is_told_in_the_words_of_the_rules(mount: str, kind: str) -> None:
    """What copies to elsewhere, and what does not."""
    sight = _seen(_host({"/proc/self/mountinfo": f"{mount}\n"}))
    assert sight.facts.storage == kind


def test_rules_judge_what_was_collected() -> None:
    """The trap: a primary without persistence, a replica, a service that starts it again."""
    empty = {**_SETTINGS, "save": "", "appendonly": "no"}
    trap = StackFacts(redis=(_seen(settings=empty).facts,))
    assert "no persistence, 1 replicas, restarted by itself" in said("RED001", trap)
    marked = {**empty, "proc-title-template": "{title} {server-mode} starts-as-replica"}
    assert said("RED001", StackFacts(redis=(_seen(settings=marked).facts,))) == HOLDS
    kept = StackFacts(redis=(_seen().facts,))
    assert said("RED001", kept) == HOLDS
    remote = _seen(_host({"/proc/self/mountinfo": "25 1 0:4 / / rw - nfs4 a:/ rw\n"})).facts
    assert "its append-only file is on nfs" in said("RED002", StackFacts(redis=(remote,)))
    always = _seen(settings={**_SETTINGS, "appendfsync": "always"}).facts
    assert "appendfsync always" in said("RED003", StackFacts(redis=(always,)))
    limited = _seen(_host({"/sys/fs/cgroup/system.slice/memory.max": "1200000000\n"})).facts
    assert "maxmemory 1073741824" in said("RED004", StackFacts(redis=(limited,)))
    snapshots = _seen(settings={**_SETTINGS, "appendonly": "no"}).facts
    assert "may be lost" in said("RED005", StackFacts(redis=(snapshots,)))
    nothing = _seen(settings=None).facts
    assert said("RED005", StackFacts(redis=(replace(nothing, save=None),))) == NOTHING


def test_servers_are_collected_beside_the_machine_and_kept_in_a_file() -> None:
    """Their origins stand by server; what is saved is read again as it was."""
    doors = replace(FakeStack().doors(), redis=ToldDoor(_session(settings=_SETTINGS)))
    facts = collect(Asked(redis=("redis://10.0.0.7",), ping_pong=False), doors)
    assert facts.redis is not None
    assert facts.redis[0].name == "10.0.0.7:6379"
    assert facts.linux is None  # nobody is here: the kernel of this machine is not theirs
    assert facts.origin("redis.10.0.0.7:6379.save").source == "CONFIG GET save"
    for text in (facts_json(facts), facts_yaml(facts)):
        assert parse_facts(text, "saved") == facts


def test_nobody_asked_is_told_with_the_option() -> None:
    """No Redis is no fact: it is named how to ask one."""
    facts = collect(Asked(ping_pong=False), FakeStack().doors())
    assert facts.redis is None
    assert "--redis URI" in facts.origin("redis").source


def test_a_password_in_the_uri_is_refused_and_not_repeated() -> None:
    """It would stand in the list of processes already, and go no further."""
    with pytest.raises(InputError, match="password") as caught:
        redis_address("redis://:hunter2@host")
    assert "hunter2" not in str(caught.value)


def test_a_user_who_may_not_ask_for_info_is_told_what_allows_it() -> None:
    """Of a server that says nothing no rule holds."""
    address = replace(_HERE, user="bench")
    words = "user bench at 127.0.0.1:6379 may not use the command INFO"
    with pytest.raises(PreflightError, match=words) as caught:
        collect_redis(ToldDoor(_Deaf({})), address, FakeHost())
    assert "ACL SETUSER bench +info" in caught.value.hint


class _Deaf(ToldSession):
    def command(self, *words: str | bytes | int) -> Reply:
        """Refuse everything as Redis 7 does."""
        name = str(words[0]).lower()
        raise ReplyError(f"User bench has no permissions to run the '{name}' command")


_DESIGN = DomainDesign(
    name="guest",
    memory_bytes=256 * MIB,
    vcpu_pins=(0, 1),
    emulator_pins=(1,),
    io_thread_pins=(0,),
    nodes=(0,),
    emulated=True,
)


def _collected(
    domains: FakeDomains, guest: Guest | None = None
) -> tuple[tuple[DomainFacts, ...] | None, Mapping[str, Origin]]:
    host = FakeHost(files=guest.files() if guest else {})
    return collect_domains(domains, host, FakeClock(), moment_s=2.0)


def _defined() -> FakeDomains:
    domains = FakeDomains(starting={"guest"})
    domains.define(domain_xml(_DESIGN))
    return domains


def test_a_domain_that_is_shut_off_is_told_as_defined() -> None:
    """Its pins are those of the XML, and nothing is said of waiting."""
    found, origins = _collected(_defined())
    assert found is not None
    (facts,) = found
    assert facts.vcpu_pins == {0: (0,), 1: (1,)}
    assert (facts.running, facts.autostart, facts.vcpu_delay_fraction) == (False, True, None)
    assert origins["domains.guest"].source == "virsh dumpxml guest"


def test_a_running_domain_is_told_as_it_is() -> None:
    """A pin that did not take effect, ordinary pages and a balloon come from /proc, not the XML."""
    domains = _defined()
    domains.start("guest")
    strayed = Guest(vcpus={0: (0,), 1: (0, 1, 2, 3)}, emulator=(2,), node=1)
    found, origins = _collected(domains, strayed)
    assert found is not None
    (facts,) = found
    assert facts.running
    assert facts.vcpu_pins == {0: (0,)}  # a thread that may run anywhere is not pinned
    assert (facts.emulator_pins, facts.io_thread_pins) == ((2,), (0,))
    assert (facts.memory_nodes, facts.huge_page_bytes) == ((1,), 2 * MIB)
    assert facts.cells[0].memory_nodes == ()  # what was asked for is not what is
    assert "/proc/4711" in origins["domains.guest"].source


@pytest.mark.parametrize(
    ("size", "read"), [("2048", (None, None, 2 * MIB)), ("1048576", (2 * MIB, None, None))]
)
def test_page_sizes_of_cells_are_those_of_the_process(
    size: str, read: tuple[int | None, ...]
) -> None:
    """QEMU has pages of 2 MiB: those of the second cell, unless it was to have others."""
    xml = domain_xml(replace(_DESIGN, nodes=(0, 1)))
    page = f"<page size='{size}' unit='KiB' nodeset='1'/>"
    domains = FakeDomains()
    domains.define(re.sub("<page .*?/>", page, xml))
    domains.start("guest")
    ((facts,), _) = _collected(domains, Guest())
    assert (facts.huge_page_bytes, *(cell.huge_page_bytes for cell in facts.cells)) == read


def test_waiting_is_the_largest_share_of_the_moment() -> None:
    """Of two looks two seconds apart, the virtual CPU counts that waited longest."""
    domains = _defined()
    domains.start("guest")
    domains.delays = [{"guest": (1.0, 5.0)}, {"guest": (1.1, 5.5), "new": (1.0,)}]
    found, _ = _collected(domains, Guest())
    assert found is not None
    assert found[0].vcpu_delay_fraction == 0.25


def test_without_its_process_a_running_domain_is_told_by_its_xml() -> None:
    """From afar /proc is not there: then the origin says so."""
    domains = _defined()
    domains.start("guest")
    found, origins = _collected(domains)
    assert found is not None
    assert found[0].vcpu_pins == {0: (0,), 1: (1,)}
    assert "not visible" in origins["domains.guest"].source


def test_a_machine_without_libvirt_has_no_facts_of_domains() -> None:
    """None, not an empty list: nobody knows whether there are any, and the origin says why."""
    absent = Domains(processes=FakeProcesses())
    found, origins = collect_domains(absent, FakeHost(), FakeClock())
    assert found is None
    assert origins["domains"].visibility is Visibility.UNKNOWN
    assert "virsh" in origins["domains"].source


def test_one_unreadable_domain_does_not_hide_the_others() -> None:
    """What is no XML is told with the reason, and no rule of domains passes without it."""
    domains = _defined()
    domains.defined["broken"] = "<domain>"
    found, origins = _collected(domains)
    assert found is not None
    assert [facts.name for facts in found] == ["guest"]
    assert origins["domains.broken"].visibility is Visibility.UNKNOWN
    facts = StackFacts(domains=found, origins=origins)
    assert facts.unread_domains == ("domains.broken",)
    assert judged("KVM012", StackFacts(domains=found)).state is State.NOT_APPLICABLE  # no disks
    unmoved = judged("KVM004", facts)
    assert unmoved.state is State.NOT_APPLICABLE
    assert unmoved.missing[0].startswith("domains.broken: the domain XML cannot be read")
    assert judged("KVM004", StackFacts(domains=found)).state is State.HOLDS
    assert "domains.broken" in judged("KVM011", facts).missing[0]


def test_the_report_names_a_domain_that_could_not_be_read() -> None:
    """Among the virtual machines, with the reason; also where no other is there."""
    domains = FakeDomains()
    domains.defined["broken"] = "<domain>"
    found, origins = _collected(domains)
    told = fact_tables(StackFacts(domains=found, origins=origins))
    (table,) = [each for each in told if isinstance(each, Table) and "Virtual" in each.title]
    (row,) = table.rows
    assert row.cells[0] == "broken"
    assert "cannot be read" in row.cells[3]


def test_pages_without_a_size_are_of_the_hosts_default() -> None:
    """On a host booted with pages of 1 GiB, `<hugepages/>` asks for these."""
    domains = FakeDomains(starting={"guest"})
    text = re.sub(r"(?s)<memoryBacking>.*</memoryBacking>", "", domain_xml(_DESIGN))
    backed = "<memoryBacking><hugepages/></memoryBacking>"
    domains.define(text.replace("</domain>", f"{backed}</domain>"))
    host = FakeHost(files={"/proc/meminfo": "Hugepagesize:    1048576 kB\n"})
    found, _ = collect_domains(domains, host, FakeClock())
    assert found is not None
    assert found[0].huge_page_bytes == GIB
