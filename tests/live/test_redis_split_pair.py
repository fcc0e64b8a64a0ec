"""The rendered pair on real servers: its settings are taken, and its fence holds."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread

import pytest
from ruamel.yaml import YAML

from steelyard.core.findings import State
from steelyard.core.outside import ServerAddress
from steelyard.core.redis import Role
from steelyard.core.stack import StackFacts
from steelyard.core.wording import TargetError
from steelyard.gateways.doors import RedisPy, system_doors
from steelyard.gateways.redis import ReplyError
from steelyard.tuning.facts.servers import collect_redis
from support.judged_rules import judged
from support.lacking import lacking
from support.redis_pairs import wait_until
from support.rendered_pair import RenderedPair, rendered_pair

pytestmark = pytest.mark.live
WRITTEN = 500
ROLES: tuple[Role, ...] = ("replica", "primary")
PASSWORD = 'it\'s "quoted" \\ $HOME `id` %s'
SHELLS = {"dash": ("dash",), "bash": ("bash", "--posix"), "busybox": ("busybox", "sh")}


def fill(pair: RenderedPair, names: range) -> None:
    """Write numbered keys and wait until the replica has them."""
    session = pair.session("primary")
    try:
        writes = [("SET", f"key:{number}", "value") for number in names]
        assert session.pipeline([*writes, ("WAIT", "1", "10000")])[-1] == 1
    finally:
        session.close()


@contextmanager
def fewest_keys(pair: RenderedPair) -> Iterator[list[int]]:
    """Give a list that afterwards holds how many keys the replica had, looked at all the time."""
    seen: list[int] = []
    over = Event()

    def look() -> None:
        while not over.wait(0.01):
            try:
                keys = pair.command("replica", "DBSIZE")
            except TargetError:
                continue
            assert isinstance(keys, int)
            seen.append(keys)

    thread = Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def test_the_servers_take_every_line() -> None:
    """CONFIG GET gives each setting of the files back, sizes in bytes."""
    with rendered_pair() as pair:
        for role in ROLES:
            pair.start(role)
        pair.wait_whole()
        for role in ROLES:
            for setting in pair.plan.design.settings(role):
                reply = pair.command(role, "CONFIG", "GET", setting.name)
                assert isinstance(reply, list)
                words = reply[1].decode().split()
                asked = [in_bytes(word) for word in setting.value.replace('""', "").split()]
                if setting.name == "client-output-buffer-limit":
                    at = words.index("slave")  # as this version names replicas there
                    asked, words = asked[1:], words[at + 1 : at + 4]
                assert asked == words, setting.name


def in_bytes(word: str) -> str:
    """Return a size as CONFIG GET says it; other words as they are."""
    number = word.removesuffix("mb")
    return str(int(number) * 1024**2) if word.endswith("mb") and number.isdigit() else word


@pytest.mark.parametrize("shell", SHELLS)
def test_a_killed_primary_comes_back_with_the_data(shell: str) -> None:
    """Its replica never loses a key, and it is the primary again: in every shell, with a password.

    The same death wipes the replica where the server is simply started again
    (test_redis_split_trap).
    """
    if shutil.which(shell) is None:
        lacking(f"there is no {shell}")
    with rendered_pair(shell=SHELLS[shell], password=PASSWORD) as pair:
        for role in ROLES:
            pair.start(role)
        pair.wait_whole()
        fill(pair, range(WRITTEN))
        with fewest_keys(pair) as seen:
            pair.kill("primary")
            pair.start("primary")
            pair.wait_whole()
        assert min(seen) == WRITTEN
        assert pair.command("primary", "DBSIZE") == WRITTEN
        fill(pair, range(WRITTEN, 2 * WRITTEN))
        assert pair.command("replica", "DBSIZE") == 2 * WRITTEN
        assert PASSWORD not in pair.log("primary") + pair.log("replica")
        assert "start.sh: the replica holds data and is promoted: OK" in pair.log("primary")


def test_after_both_died_the_primary_waits_for_the_replica_to_load() -> None:
    """Neither an absent replica nor one that has loaded half is taken for an empty one."""
    # Microseconds for each key, made for tests like this one; it answers after every 1,024 of them.
    slowly = "key-load-delay 600\n"
    many = 10 * WRITTEN
    with rendered_pair(further={"replica": slowly}) as pair:
        for role in ROLES:
            pair.start(role)
        pair.wait_whole()
        fill(pair, range(many))
        for role in reversed(ROLES):  # the replica last, with what it was sent in its file
            pair.kill(role)
        pair.start("primary")
        wait_until(lambda: "does not answer" in pair.log("primary"), "the primary did not wait")
        pair.start("replica")
        pair.wait_whole()
        assert "waits: the replica is loading" in pair.log("primary")
        assert pair.command("primary", "DBSIZE") == many
        assert pair.command("replica", "DBSIZE") == many


def test_a_replica_that_dies_while_it_holds_the_data_harms_nothing() -> None:
    """It comes back as a replica of the one that copies it, and is told to hold the data again."""
    slowly = "key-load-delay 10000\n"
    with rendered_pair(further={"primary": slowly}) as pair:
        for role in ROLES:
            pair.start(role)
        pair.wait_whole()
        fill(pair, range(WRITTEN))
        pair.kill("primary")
        pair.start("primary")
        wait_until(
            lambda: pair.info("replica").get("role") == "master", "the replica was not promoted"
        )
        pair.kill("replica")
        pair.start("replica")
        pair.wait_whole()
        assert pair.command("primary", "DBSIZE") == WRITTEN
        assert pair.command("replica", "DBSIZE") == WRITTEN


def says(pair: RenderedPair, name: str, place: Role) -> bool:
    """Run the rendered readiness probe of an object against one of the two; return its answer."""
    text = next(f.content for f in pair.plan.files if f.name.startswith("kubernetes/"))
    objects = [each for each in YAML(typ="safe").load_all(text) if each["metadata"]["name"] == name]
    (pod,) = [each["spec"]["template"]["spec"] for each in objects if "template" in each["spec"]]
    check: str = pod["containers"][0]["readinessProbe"]["exec"]["command"][-1]
    words = check.replace(" -h redis-replica-0.redis-peers", "")
    port = pair.plan.design.request.server(place).port
    words = words.replace("redis-cli", f"redis-cli -p {port}")
    ended = subprocess.run(["/bin/sh", "-c", words], check=False, capture_output=True)
    return ended.returncode == 0


def ready(pair: RenderedPair) -> tuple[bool, bool, bool]:
    """Return whether primary, replica and watch are ready by their probes."""
    return (
        says(pair, "redis-primary", "primary"),
        says(pair, "redis-replica", "replica"),
        says(pair, "redis-watch", "replica"),
    )


@pytest.mark.slow
def test_promoted_by_hand_it_serves_and_the_primary_takes_its_place_back() -> None:
    """The documented way: by the probes exactly one is found at each step, and no key is lost.

    A promoted replica that is started again takes no writes until it is promoted again, and who
    was connected to it is cut off once the primary has taken over.
    """
    with rendered_pair() as pair:
        for role in ROLES:
            pair.start(role)
        pair.wait_whole()
        assert ready(pair) == (True, False, True)
        fill(pair, range(WRITTEN))
        pair.kill("primary")
        wait_until(lambda: ready(pair) == (False, False, False), "one is ready without a primary")
        assert pair.command("replica", "REPLICAOF", "NO", "ONE") == b"OK"
        assert ready(pair) == (False, True, False)
        assert pair.command("replica", "SET", "promoted", "1") == b"OK"
        pair.processes["replica"].terminate()
        pair.processes.pop("replica").wait(60)
        pair.start("replica")
        wait_until(lambda: pair.info("replica").get("loading") == "0", "it does not come back")
        assert ready(pair) == (False, False, False)
        with pytest.raises(ReplyError, match="read only replica"):
            pair.command("replica", "SET", "again", "1")
        assert pair.command("replica", "REPLICAOF", "NO", "ONE") == b"OK"
        assert pair.command("replica", "SET", "again", "1") == b"OK"
        stays = pair.session("replica")
        pair.start("primary")
        pair.wait_whole()
        assert ready(pair) == (True, False, True)
        assert pair.command("primary", "DBSIZE") == WRITTEN + 2
        assert pair.command("replica", "DBSIZE") == WRITTEN + 2
        wait_until(lambda: "to connect anew" in pair.log("primary"), "clients are left there")
        with pytest.raises(TargetError, match=r"(?i)clos|connect|reset"):
            stays.command("GET", "again")
        stays.close()


def test_the_rule_knows_the_fence_of_a_real_server() -> None:
    """Started again by systemd the primary holds RED001; the same past start.sh does not."""
    with rendered_pair() as pair:
        for role in ROLES:
            pair.start(role)
        pair.wait_whole()
        port = pair.plan.design.request.server("primary").port
        address = ServerAddress(host="127.0.0.1", port=port)
        facts = collect_redis(RedisPy(), address, system_doors().host).facts
        facts = replace(facts, auto_restart=True)
        assert facts.fenced is True
        assert judged("RED001", StackFacts(redis=(facts,))).state is State.HOLDS
        unmarked = "{title} {listen-addr} {server-mode}"
        pair.command("primary", "CONFIG", "SET", "proc-title-template", unmarked)
        past = collect_redis(RedisPy(), address, system_doors().host).facts
        past = replace(past, auto_restart=True)
        assert judged("RED001", StackFacts(redis=(past,))).state is State.VIOLATED


def test_with_another_password_it_waits() -> None:
    """What the replica refuses to say is not taken for nothing; the log has its words."""
    with rendered_pair(password="right") as pair:
        pair.start("replica")
        pair.password = "wrong"
        pair.start("primary")
        wait_until(lambda: "WRONGPASS" in pair.log("primary"), "the refusal was not told")
        assert pair.info("primary") == {}


def test_an_orderly_restart_loses_nothing_that_was_just_written() -> None:
    """SIGTERM waits until the replica has everything, without anybody asking for that before."""
    with rendered_pair(most_lag_s=60) as pair:  # the replica may be starved for a while
        for role in ROLES:
            pair.start(role)
        pair.wait_whole()
        session = pair.session("primary")
        try:
            session.pipeline([("SET", f"key:{number}", "v" * 1000) for number in range(20_000)])
        finally:
            session.close()
        pair.processes["primary"].terminate()
        assert pair.processes.pop("primary").wait(60) == 0
        pair.start("primary")
        pair.wait_whole()
        assert pair.command("primary", "DBSIZE") == 20_000


def test_without_its_replica_the_primary_takes_no_writes() -> None:
    """After the seconds of min-replicas-max-lag a write is refused, and taken when it is back."""
    with rendered_pair(most_lag_s=1) as pair:
        for role in ROLES:
            pair.start(role)
        pair.wait_whole()
        assert pair.command("primary", "SET", "before", "1") == b"OK"
        pair.kill("replica")

        def is_refused() -> bool:
            try:
                pair.command("primary", "SET", "without", "1")
            except ReplyError as error:
                return "NOREPLICAS" in error.message
            return False

        wait_until(is_refused, "writes are taken though nobody keeps them")
        pair.start("replica")
        pair.wait_whole()
        wait_until(lambda: not is_refused(), "writes are refused though the replica is back")
