"""A primary that comes back empty, on real servers: the trap, and the recipe of docs/redis.md."""

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from steelyard.answers.campaign import analyse
from steelyard.answers.durability.compute import measured_lags
from steelyard.core.findings import State
from steelyard.core.measurement import Quantity
from steelyard.core.stack import RedisFacts, StackFacts
from steelyard.core.wording import TargetError
from steelyard.gateways.doors import system_doors
from steelyard.gateways.redis import RedisDoor
from steelyard.record.directory import read_campaign
from steelyard.tuning.facts.servers import collect_redis
from support.endpoint import free_port
from support.judged_rules import judged
from support.live import Steelyard, living_servers, whole_report
from support.redis import RedisServer, require_redis
from support.redis_pairs import RedisPair, keys_of, pair_started, wait_until

pytestmark = pytest.mark.live
WRITTEN = 200
PAGE = Path(__file__).parents[2] / "docs" / "redis.md"
_COPIED_S = 3.0  # an empty primary is copied in a fraction of it


def state_of_the_rule(primary: RedisServer, *, restarts: bool) -> State:
    """Return what RED001 says of a primary as it is configured and followed now."""
    session = primary.session()
    try:
        reply = session.command("CONFIG", "GET", "save", "appendonly")
        assert isinstance(reply, list)
        words = [word.decode() for word in reply]
        settings = dict(zip(words[::2], words[1::2], strict=True))
        replicas = int(session.info("replication")["connected_slaves"])
    finally:
        session.close()
    facts = RedisFacts(
        name="primary",
        role="primary",
        save=settings["save"],
        appendonly=settings["appendonly"] == "yes",
        replicas=replicas,
        auto_restart=restarts,
    )
    return judged("RED001", StackFacts(redis=(facts,))).state


def restarted_alone(server: RedisServer) -> None:
    """Restart a replica as a server of its own, on what its disk holds."""
    server.kill()
    server.settings = {name: text for name, text in server.settings.items() if name != "replicaof"}
    server.start()


def wait_followed_again(pair: RedisPair) -> None:
    """Wait until the replica has copied the primary that came back."""
    wait_until(
        lambda: pair.primary.info("replication").get("connected_slaves") == "1",
        "the replica did not come back to the primary",
    )
    pair.wait_linked()


def test_an_empty_primary_that_comes_back_wipes_its_replica() -> None:
    """The replica copies the nothing, in memory and on its disk; RED001 says it before."""
    with pair_started() as pair:
        pair.write(range(WRITTEN))
        assert keys_of(pair.replica) == WRITTEN
        assert state_of_the_rule(pair.primary, restarts=True) is State.VIOLATED
        pair.primary.kill()
        pair.primary.start()
        wait_followed_again(pair)
        assert keys_of(pair.replica) == 0
        restarted_alone(pair.replica)
        assert keys_of(pair.replica) == 0


def test_without_a_restart_the_replica_keeps_everything() -> None:
    """A primary that stays down harms nobody: the replica is promoted and also its disk has all."""
    with pair_started() as pair:
        pair.write(range(WRITTEN))
        assert state_of_the_rule(pair.primary, restarts=False) is State.HOLDS
        pair.primary.kill()
        assert pair.replica.command("REPLICAOF", "NO", "ONE") == b"OK"
        assert keys_of(pair.replica) == WRITTEN
        pair.replica.stop()  # orderly: what it holds is flushed
        restarted_alone(pair.replica)
        assert keys_of(pair.replica) == WRITTEN


def test_a_snapshot_on_the_primary_keeps_what_is_in_it_and_no_more() -> None:
    """With save points a restart gives the last snapshot, and the replica loses what came since."""
    with pair_started({"save": "3600 1"}) as pair:
        pair.write(range(WRITTEN))
        assert pair.primary.command("SAVE") == b"OK"
        pair.write(range(WRITTEN, 2 * WRITTEN))
        assert keys_of(pair.replica) == 2 * WRITTEN
        assert state_of_the_rule(pair.primary, restarts=True) is State.HOLDS
        pair.primary.kill()
        pair.primary.start()
        wait_followed_again(pair)
        assert keys_of(pair.replica) == WRITTEN


class RecipeServer(RedisServer):
    """A server with a file of the page; it is ready before it has a copy to answer from."""

    def _wait(self) -> None:
        wait_until(lambda: self.answer().get("loading") == "0", "the server did not start")

    def answer(self) -> Mapping[str, str]:
        """Return what INFO says; nothing while the server does not answer."""
        try:
            return self.info()
        except TargetError:
            return {}

    def start_with(self, text: str) -> None:
        """Start it with this file beside a port and a directory."""
        file = self.home / "recipe.conf"
        file.write_text(text)
        # There is no second replica to wait for.
        self.settings = {"include": str(file), "repl-diskless-sync-delay": "0"}
        self.start()


@dataclass
class Recipe:
    """Both servers of the recipe, and its script, as the page has them."""

    primary: RecipeServer
    replica: RecipeServer
    page: str

    def block(self, name: str) -> str:
        """Return the block of the page with this name in its first comment, for these ports."""
        (text,) = re.findall(
            rf"^```(?:sh|text)\n((?:#!/bin/sh\n)?# {name}: .*?)^```$",
            self.page,
            re.MULTILINE | re.DOTALL,
        )
        for host, server in (("redis-primary", self.primary), ("redis-replica", self.replica)):
            text = text.replace(f"{host} -p 6379", f"127.0.0.1 -p {server.port}")
            text = text.replace(f"{host} 6379", f"127.0.0.1 {server.port}")
        assert "redis-primary" not in text
        return str(text)

    def start(self, *names: str) -> None:
        """Start servers by their files."""
        for name in names:
            server: RecipeServer = getattr(self, name)
            server.start_with(self.block(f"{name}.conf"))

    def give_back(self) -> None:
        """Run the script to its end: the primary is a primary, with a replica."""
        script = self.primary.home / "give-back.sh"
        script.write_text(self.block("give-back.sh"))
        ended = subprocess.run(
            ["/bin/sh", str(script)], check=False, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert self.primary.answer()["role"] == "master"
        RedisPair(self.primary, self.replica).wait_linked()

    def sizes(self) -> tuple[int, int]:
        """Return how many keys primary and replica hold."""
        return keys_of(self.primary), keys_of(self.replica)


@contextmanager
def recipe_of(page: str) -> Iterator[Recipe]:
    """Give a new pair by the recipe of a page, with data in both servers."""
    program = require_redis()
    with ExitStack() as stack:
        servers = []
        for _ in range(2):
            home = Path(tempfile.mkdtemp(prefix="redis-", dir="/var/tmp"))
            stack.callback(shutil.rmtree, home, ignore_errors=True)
            server = RecipeServer(home=home, port=free_port(), program=program)
            stack.callback(server.kill)
            servers.append(server)
        recipe = Recipe(*servers, page=page)
        recipe.start("replica", "primary")
        recipe.give_back()
        RedisPair(recipe.primary, recipe.replica).write(range(WRITTEN))
        # While a flush goes on, the replica holds writes back that its file shall have here.
        wait_until(
            lambda: recipe.replica.info("persistence")["aof_buffer_length"] == "0",
            "the replica does not write",
        )
        yield recipe


@pytest.mark.parametrize("killed", [("primary",), ("primary", "replica")], ids="+".join)
def test_by_the_recipe_a_restarted_primary_keeps_the_data(killed: Sequence[str]) -> None:
    """The files alone keep the data, and the script makes the primary a primary again."""
    with recipe_of(PAGE.read_text("utf-8")) as recipe:
        for name in killed:
            getattr(recipe, name).kill()
        recipe.start(*killed)
        time.sleep(_COPIED_S)
        assert keys_of(recipe.replica) == WRITTEN
        recipe.give_back()
        assert recipe.sizes() == (WRITTEN, WRITTEN)
        RedisPair(recipe.primary, recipe.replica).write(range(WRITTEN, 2 * WRITTEN))
        assert recipe.sizes() == (2 * WRITTEN, 2 * WRITTEN)


def test_by_the_recipe_a_replica_that_holds_the_data_may_restart() -> None:
    """Promoted and killed it is a replica again; the script promotes it once more."""
    with recipe_of(PAGE.read_text("utf-8")) as recipe:
        recipe.primary.kill()
        assert recipe.replica.command("REPLICAOF", "NO", "ONE") == b"OK"
        recipe.start("primary")
        wait_until(
            lambda: recipe.primary.answer().get("master_link_status") == "up", "it has no copy"
        )
        recipe.replica.kill()
        recipe.start("replica")
        recipe.give_back()
        assert recipe.sizes() == (WRITTEN, WRITTEN)


def test_an_empty_replica_is_not_promoted_over_a_copy() -> None:
    """The script ends with an error where only the primary's memory holds the data."""
    with recipe_of(PAGE.read_text("utf-8")) as recipe:
        recipe.primary.kill()
        assert recipe.replica.command("REPLICAOF", "NO", "ONE") == b"OK"
        recipe.start("primary")
        wait_until(
            lambda: recipe.primary.answer().get("master_link_status") == "up", "it has no copy"
        )
        recipe.replica.kill()
        shutil.rmtree(recipe.replica.home / "appendonlydir")
        recipe.start("replica")
        with pytest.raises(AssertionError, match="decide by hand"):
            recipe.give_back()
        assert keys_of(recipe.replica) == 0
        assert recipe.primary.answer()["db0"].startswith(f"keys={WRITTEN},")


def test_without_its_fence_the_recipe_loses_the_data() -> None:
    """A page without the line replicaof in the primary's file fails the test of the recipe."""
    page, lines = re.subn(
        r"^replicaof redis-replica 6379\n", "", PAGE.read_text("utf-8"), flags=re.MULTILINE
    )
    assert lines == 1
    with recipe_of(page) as recipe:
        recipe.primary.kill()
        recipe.start("primary")
        wait_until(lambda: keys_of(recipe.replica) == 0, "the replica kept its data")


def test_the_rule_knows_the_recipe_on_a_real_server() -> None:
    """Restarted by itself, a primary with the recipe's mark holds RED001; one without does not."""
    with recipe_of(PAGE.read_text("utf-8")) as recipe:
        states = []
        for _ in range(2):
            facts = collect_redis(RedisDoor(), recipe.primary.address, system_doors().host).facts
            facts = replace(facts, auto_restart=True)
            states.append(judged("RED001", StackFacts(redis=(facts,))).state)
            recipe.primary.command("CONFIG", "SET", "proc-title-template", "{title} {listen-addr}")
        assert states == [State.HOLDS, State.VIOLATED]


_PAIR = """\
version: 1
engine: redis
name: persistence on the replica
baseline: logged
workloads:
  - {name: writes, builtin: set, value_bytes: 2000, keys: 500, loaded: 500}
load: {clients: 4, threads: 1}
measure: {run_time: 1s, warm_up: 0s}
stop: {budget: 60m, width: 0.1%}
seed: 7
configurations:
  logged:
    target: {kind: local}
    redis: {appendonly: yes, appendfsync: always, save: ""}
  split:
    extends: logged
    target: {replica: {appendonly: yes, appendfsync: always}}
    redis: {appendonly: no}
"""


@pytest.mark.slow
def test_a_pair_is_weighed_against_a_log_on_the_primary(steelyard: Steelyard) -> None:
    """Both primaries have latencies, the one replica its lag, and losses stand beside them.

    The pair's primary writes no log, and yet a killed server is not said to lose everything.
    """
    require_redis()
    steelyard.until_blocks(2, "run", steelyard.experiment(_PAIR), "--dir", "c")
    campaign = steelyard.directory / "c"
    analysis = analyse(read_campaign(campaign))
    for run in analysis.runs:
        assert run.evidence is not None
        assert run.latency is not None
        is_pair = run.configuration == "split"
        logged = run.evidence.total(Quantity.AOF_BYTES)
        assert logged is not None
        assert (logged == 0) is is_pair
        assert run.evidence.level(Quantity.REPLICAS) == is_pair
    (lag,) = analysis.answer(measured_lags) or ()
    assert (lag.configuration, lag.cell.workload, lag.compared) == ("split", "writes", True)
    summary = json.loads((campaign / "summary.json").read_text())
    assert [each["configuration"] for each in summary["replica_lag"]] == ["split"]
    page = whole_report(campaign)
    assert "## What may be lost of acknowledged writes" in page
    assert "the replica has all but what had not reached it" in page
    assert living_servers(steelyard.cache) == []
