"""What a Redis server says of itself: read from answers of a real one, and from made ones."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import RECORDINGS

from fakes.clock import FakeClock
from fakes.redis_sessions import ToldDoor, ToldSession
from steelyard.core.measurement import Quantity
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import MIB, TargetError
from steelyard.gateways.redis import RedisDoor, RedisSession, Reply, ReplyError, parse_info
from steelyard.systems.redis import reader as figures
from steelyard.systems.redis.reader import Passing, RedisReader, open_reader

_ADDRESS = ServerAddress(host="/fake", port=6379)
_TOLD = json.loads((RECORDINGS / "redis" / "reader-7.0.15.json").read_text())
_OF_REDIS = list(Quantity)[
    list(Quantity).index(Quantity.COMMANDS) : list(Quantity).index(Quantity.KEYS)
]
_SECTIONS = "persistence stats replication cpu memory commandstats keyspace"
_BY_PROC = {Quantity.MAIN_THREAD_RUN_QUEUE_S, Quantity.MAIN_THREAD_BLOCKED_S}


class _RecordedClock(FakeClock):
    """Says the times at which the server was looked at."""

    def __init__(self, times_s: Sequence[float]) -> None:
        super().__init__()
        self._times_s = list(times_s)

    def monotonic(self) -> float:
        """Return the next of them."""
        return self._times_s.pop(0)


def _bytes(reply: object) -> Reply:
    if isinstance(reply, str):
        return reply.encode()
    return [_bytes(each) for each in reply] if isinstance(reply, list) else reply


def _recorded() -> RedisReader:
    answers = {words: [_bytes(r) for r in told] for words, told in _TOLD["answers"].items()}
    return RedisReader(ToldSession(answers), _RecordedClock(_TOLD["times_s"]))


def _run_recorded(pause_s: float = 0.0) -> tuple[RedisReader, dict[str, float]]:
    """Return what the reader made of the recorded run, and the reader at its end.

    Args:
        pause_s: Of the time between two looks, in which nothing went on.
    """
    read = _recorded()
    before = read.counters()
    for _ in range(_TOLD["looks"]):
        read.skip(pause_s)
        read.waits()
    after = read.settled_counters()
    return read, {name: after[name] - before[name] for name in before}


def test_commands_are_those_of_the_generator() -> None:
    """To the last one: redis-benchmark sends its requests and two CONFIG GET; no INFO is in it."""
    _, found = _run_recorded()
    assert found[Quantity.COMMANDS] == _TOLD["requests"] + 2


def test_bytes_are_those_of_the_generator() -> None:
    """A SET of that length on the wire, and as much in the log; what the reader sends is not in."""
    _, found = _run_recorded()
    key, value = 16, _TOLD["value_bytes"]
    request = len(f"*3\r\n$3\r\nSET\r\n${key}\r\n\r\n${value}\r\n\r\n") + key + value
    assert found[Quantity.NETWORK_IN_BYTES] - request * _TOLD["requests"] == 77  # 2 CONFIG GET
    assert found[Quantity.AOF_BYTES] / _TOLD["requests"] == pytest.approx(request, rel=1e-3)


def test_the_log_was_rewritten_once_and_the_fork_is_told() -> None:
    """One rewrite under way for a part of the run; the fork took the two milliseconds it says."""
    read, found = _run_recorded()
    assert found[Quantity.AOF_REWRITES] == found[Quantity.FORKS] == 1.0
    assert 0.3 < found[Quantity.AOF_REWRITING_S] < 0.7
    assert 0.002 < found[Quantity.FORK_S] < 0.003
    assert found[Quantity.RDB_SAVES] == found[Quantity.RDB_SAVING_S] == 0.0
    assert read.levels()[Quantity.WORST_FORK_S] == 0.002


def test_pauses_are_in_no_sum_over_time() -> None:
    """With half of the time between looks in pauses a rewrite took half as long; counts stay."""
    (_, whole), (_, paused) = _run_recorded(), _run_recorded(pause_s=0.05)
    took_s = whole[Quantity.AOF_REWRITING_S]
    assert paused[Quantity.AOF_REWRITING_S] == pytest.approx(took_s / 2, rel=0.2)
    assert paused[Quantity.AOF_BYTES] == whole[Quantity.AOF_BYTES]


def test_the_main_thread_is_told_apart_from_the_others() -> None:
    """Executing is the smaller part of its CPU time; the threads behind it did little."""
    _, found = _run_recorded()
    assert 0 < found[Quantity.COMMAND_S] < found[Quantity.MAIN_THREAD_CPU_S]
    assert 0 < found[Quantity.BACKGROUND_CPU_S] < found[Quantity.MAIN_THREAD_CPU_S]


def test_the_worst_moments_of_the_run_are_levels() -> None:
    """Of the slow log how many and how long, of the latency monitor the worst of each kind."""
    read, _ = _run_recorded()
    told = read.levels()
    assert told[Quantity.SLOW_COMMANDS] == 11
    assert told[Quantity.SLOWEST_COMMAND_S] == 0.000152
    assert told[Quantity.WORST_AOF_WRITE_S] == 0.012
    assert told[Quantity.KEYS] == 999
    assert told[Quantity.USED_MEMORY_BYTES] > 60 * MIB


def test_what_is_counted_and_what_is_absent_are_all_there_is() -> None:
    """Nothing is both, nothing is neither; 7.0 has them all."""
    read = _recorded()
    absent = {absence.subject: absence.reason for absence in read.absent}
    counted = set(read.counters())
    assert counted | set(absent) == set(_OF_REDIS) - _BY_PROC | {"wait events"}
    assert not counted & set(absent)


def test_there_are_no_wait_events_and_the_reason_is_told() -> None:
    """Nothing was seen, which is not the same as nothing was waited for."""
    read = _recorded()
    assert read.waits() == ()
    (told,) = [absence for absence in read.absent if absence.subject == "wait events"]
    assert "one thread" in told.reason
    assert read.pid is None


def test_answers_are_counted_as_what_watching_costs() -> None:
    """By the server's own account of INFO: above nothing, far below the run's commands."""
    read, found = _run_recorded()
    assert 0 < read.answering_s < 0.2 * found[Quantity.COMMAND_S] + 0.01


def _info(**lines: object) -> bytes:
    told = {"redis_version": "7.0.15", "process_id": 7, "total_commands_processed": 10, **lines}
    return "\r\n".join(["# Made", *(f"{name}:{value}" for name, value in told.items())]).encode()


class _Made(ToldSession):
    """One that answers every INFO with the same lines."""

    def __init__(self, answers: Mapping[str, Sequence[Reply]], **lines: object) -> None:
        super().__init__(answers)
        self.lines = lines

    def command(self, *words: str | bytes | int) -> Reply:
        """Answer INFO whatever its sections, and the rest as it is written down."""
        if words[0] == "INFO":
            self.asked.append(" ".join(map(str, words)))
            return _info(**self.lines)
        return super().command(*words)


_TIME: Mapping[str, Sequence[Reply]] = {"TIME": [[b"1000", b"0"]]}


def test_a_user_without_rights_gets_counters_and_reasons() -> None:
    """INFO and TIME alone: slow log and latency monitor are absent with the command to allow."""
    read = RedisReader(_Made(_TIME), FakeClock())
    read.counters()
    levels = read.levels()
    assert Quantity.SLOW_COMMANDS not in levels
    assert Quantity.WORST_FORK_S not in levels
    told = " ".join(absence.reason for absence in read.absent)
    assert "refuses SLOWLOG GET 1 to this user" in told
    assert "refuses LATENCY LATEST to this user" in told


def test_a_monitor_that_is_off_is_told_with_the_way_out() -> None:
    """Nothing worse than its threshold is remembered where that is 0."""
    answers = {**_TIME, "CONFIG GET latency-monitor-threshold": [[b"latency", b"0"]]}
    (told,) = [
        absence
        for absence in RedisReader(_Made(answers), FakeClock()).absent
        if absence.subject == "latency events"
    ]
    assert "latency-monitor-threshold" in told.reason


def test_events_before_the_run_are_not_the_runs() -> None:
    """The monitor keeps old moments and the slow log old entries: both are told by their place."""
    answers: dict[str, Sequence[Reply]] = {
        **_TIME,
        "LATENCY LATEST": [[[b"fork", 1010, 5, 900], [b"unheard-of", 1010, 5, 900]]],
        "LATENCY HISTORY fork": [[[900, 900], [1010, 5]]],
        "SLOWLOG GET 1": [[[41, 900, 70_000, [b"SET"]]]],
        "SLOWLOG GET 128": [[[42, 1010, 30_000, [b"SET"]], [41, 900, 70_000, [b"SET"]]]],
    }
    told = RedisReader(_Made(answers), FakeClock()).levels()
    assert told[Quantity.WORST_FORK_S] == 0.005
    assert told[Quantity.SLOW_COMMANDS] == 1
    assert told[Quantity.SLOWEST_COMMAND_S] == 0.03


@pytest.mark.parametrize(("kept", "count"), [(range(499, 371, -1), 500), ((501, 500), 2)])
def test_a_slow_log_that_does_not_begin_with_the_run(kept: Sequence[int], count: int) -> None:
    """It keeps the newest 128, whose numbers say how many there were; emptied, they go on."""
    entries: Reply = [[number, 1010, 10_000, []] for number in kept]
    answers = {**_TIME, "SLOWLOG GET 1": [[]], "SLOWLOG GET 128": [entries]}
    assert RedisReader(_Made(answers), FakeClock()).levels()[Quantity.SLOW_COMMANDS] == count


def test_old_servers_are_asked_for_everything_at_once() -> None:
    """Before 7.0 INFO takes one name; the same lines come back."""
    session = _Made(_TIME, redis_version="6.0.16")
    RedisReader(session, FakeClock()).counters()
    assert set(session.asked) & {"INFO all"}
    assert not any("persistence" in asked for asked in session.asked)


def test_what_an_old_server_does_not_count_is_absent_with_the_line_it_lacks() -> None:
    """Rewrites are counted since 7.0, threads are told apart since 6.2."""
    answers = [_bytes(told) for told in _TOLD["answers"]["INFO " + _SECTIONS]]
    lines = parse_info(answers[0])
    old = {
        name: value
        for name, value in lines.items()
        if name not in ("aof_rewrites", "used_cpu_sys_main_thread", "used_cpu_user_main_thread")
    }
    read = RedisReader(_Made(_TIME, **{**old, "redis_version": "6.0.16"}), FakeClock())
    absent = {absence.subject: absence.reason for absence in read.absent}
    assert absent[Quantity.AOF_REWRITES] == "INFO of Redis 6.0.16 has no aof_rewrites."
    assert "used_cpu_user_main_thread" in absent[Quantity.MAIN_THREAD_CPU_S]
    assert Quantity.BACKGROUND_CPU_S in absent
    assert Quantity.COMMANDS not in absent


def test_valkey_is_called_by_its_name() -> None:
    """It says the version of Redis that it is compatible with, and its own."""
    read = RedisReader(_Made(_TIME, server_name="valkey", valkey_version="8.1.1"), FakeClock())
    assert any("Valkey 8.1.1 has no" in absence.reason for absence in read.absent)


def test_a_server_that_refuses_info_lets_go_of_the_session() -> None:
    """Nothing stays open behind a reader that never was."""
    session = ToldSession({})
    with pytest.raises(ReplyError, match="INFO server"):
        open_reader(ToldDoor(session), _ADDRESS)
    assert session.closed


def test_a_closed_reader_says_so() -> None:
    """The probe closes it from another thread; the next command tells what happened."""
    read = _recorded()
    read.close()
    with pytest.raises(TargetError):
        read.counters()


def _passed(*looks: dict[str, object]) -> Passing:
    passing = Passing()
    for place, lines in enumerate(looks):
        told = {name: str(value) for name, value in lines.items()}
        passing.look(told, 0.1 * place)
    return passing


_LOG = {"aof_enabled": 1, "aof_base_size": 100}


def test_a_rewritten_log_goes_on_from_its_new_size() -> None:
    """Growth before the rewrite and after it; across it as much as before, or as is seen."""
    passing = _passed(
        {**_LOG, "aof_current_size": 1000},
        {**_LOG, "aof_current_size": 1500},
        {**_LOG, "aof_base_size": 300, "aof_current_size": 340},
        {**_LOG, "aof_base_size": 300, "aof_current_size": 400},
    )
    assert passing.counters[Quantity.AOF_BYTES] == pytest.approx(500 + 500 + 60)
    grown = {**_LOG, "aof_base_size": 300, "aof_current_size": 2300, "aof_rewrites": 1}
    first = {**_LOG, "aof_current_size": 1000, "aof_rewrites": 0}
    assert _passed(first, grown).counters[Quantity.AOF_BYTES] == 2000
    assert Quantity.AOF_BYTES not in _passed(first, {**grown, "aof_rewrites": 2}).counters


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1, max_size=20))
def test_the_log_never_shrinks_in_the_sum(sizes: list[tuple[int, int]]) -> None:
    """Whatever the sizes are: a counter that steps back would count as reset."""
    looks = [{**_LOG, "aof_base_size": base, "aof_current_size": now} for base, now in sizes]
    sums = [_passed(*looks[:end]).counters[Quantity.AOF_BYTES] for end in range(1, len(looks) + 1)]
    assert all(before <= after for before, after in pairwise(sums))


def test_without_a_log_its_counters_are_zero() -> None:
    """It is known that there is none: that is a measurement, and the other side may have one."""
    told = {"aof_enabled": "0", "redis_version": "7.0.15"}
    passing = Passing()
    passing.look(told, 0.0)
    assert passing.counters[Quantity.AOF_BYTES] == 0.0
    assert passing.counters[Quantity.AOF_FSYNC_PENDING_S] == 0.0
    assert figures.count_told(told)[Quantity.AOF_DELAYED_FSYNCS] == 0.0


def test_forks_cost_what_each_of_them_took() -> None:
    """Two after one another, the second longer; an old one before the first look costs nothing."""
    passing = _passed(
        {"total_forks": 3, "latest_fork_usec": 99_000},
        {"total_forks": 4, "latest_fork_usec": 2_000},
        {"total_forks": 4, "latest_fork_usec": 2_000},
        {"total_forks": 5, "latest_fork_usec": 5_000},
    )
    assert passing.counters[Quantity.FORK_S] == pytest.approx(0.007)


def test_copies_are_those_of_the_runs_own_children() -> None:
    """While a child works and when it has ended; what one copied long ago is not told."""
    old = {"total_forks": 1, "rdb_last_cow_size": 9_000, "rdb_bgsave_in_progress": 0}
    assert _passed(old, old).levels[Quantity.COPIED_BYTES] == 0.0
    saving = {**old, "rdb_bgsave_in_progress": 1, "current_cow_size": 500}
    assert _passed(old, saving, saving).levels[Quantity.COPIED_BYTES] == 500
    ended = {**old, "rdb_last_cow_size": 700}
    assert _passed(old, saving, ended).levels[Quantity.COPIED_BYTES] == 700


def test_the_last_replica_says_how_far_behind_they_are() -> None:
    """The most of the run; a replica that is not online yet is not waited for."""
    line = "ip=::1,port=1,state={},offset={},lag=0"
    looks: list[dict[str, object]] = [
        {"master_repl_offset": 900, "slave0": line.format("online", 850)},
        {
            "master_repl_offset": 1000,
            "slave0": line.format("online", 990),
            "slave1": line.format("online", 700),
            "slave2": line.format("send_bulk", 0),
        },
        {"master_repl_offset": 1000, "slave0": line.format("online", 1000)},
    ]
    assert _passed(*looks).levels[Quantity.REPLICA_BEHIND_BYTES] == 300
    assert Quantity.REPLICA_BEHIND_BYTES not in _passed({"master_repl_offset": 5}).levels


def test_background_threads_never_step_back() -> None:
    """Two clocks are read one after the other, so that their difference may."""
    main = {"used_cpu_sys_main_thread": 1.0, "used_cpu_user_main_thread": 1.0}
    passing = _passed(
        {**main, "used_cpu_sys": 1.5, "used_cpu_user": 1.0},
        {**main, "used_cpu_sys": 1.4, "used_cpu_user": 1.0},
    )
    assert passing.counters[Quantity.BACKGROUND_CPU_S] == pytest.approx(0.5)


@given(st.binary(max_size=400))
def test_no_answer_of_info_breaks_the_parser(answer: bytes) -> None:
    """Whatever a server prints becomes lines, and of them what is a number."""
    told = parse_info(answer)
    figures.count_told(told)
    figures.readings(told)
    Passing().look(told, 0.0)


@given(
    st.dictionaries(
        st.sampled_from(["cmdstat_set", "cmdstat_info", "slave0", "db0", "aof_current_size"]),
        st.text(alphabet="abcoffsetkusy=,.0123456789-", max_size=30),
    )
)
def test_odd_lines_are_no_numbers(told: dict[str, str]) -> None:
    """Lines that INFO has, with values that it never had."""
    figures.count_told(told)
    figures.readings(told)
    figures.answering_s(told)
    passing = Passing()
    passing.look(told, 0.0)
    passing.look(told, 0.1)


_STREAMED = "total_net_repl_output_bytes"


@pytest.mark.parametrize(("streamed", "sent"), [({}, 900.0), ({_STREAMED: "600"}, 300.0)])
def test_the_stream_to_replicas_is_no_answer_to_clients(
    streamed: Mapping[str, str], sent: float
) -> None:
    """From 7.0 on total_net_output_bytes holds the stream, too, and says how much it is."""
    told = {"total_net_output_bytes": "900", **streamed}
    assert figures.count_told(told)[Quantity.NETWORK_OUT_BYTES] == sent


TIME: Mapping[str, Sequence[Reply]] = {"TIME": [[b"1000", b"0"]]}


class Primary(ToldSession):
    """A server whose stream has come so far at each look; the first INFO asks who it is."""

    def __init__(self, *offsets: int) -> None:
        super().__init__(TIME)
        self._offsets = [0, *offsets]

    def command(self, *words: str | bytes | int) -> Reply:
        """Answer INFO with the next offset."""
        if words[0] != "INFO":
            return super().command(*words)
        at = self._offsets.pop(0) if len(self._offsets) > 1 else self._offsets[0]
        return f"redis_version:7.0.15\r\nmaster_repl_offset:{at}\r\n".encode()


def replica(*offsets: int) -> ToldSession:
    """Return a session on a replica that has come so far at each look."""
    told = [f"role:slave\r\nslave_repl_offset:{at}\r\n".encode() for at in offsets]
    return ToldSession({"INFO replication": told})


def test_the_most_of_all_looks_is_the_lag() -> None:
    """A replica that is ahead of the earlier answer of its primary is not behind by less than 0."""
    read = RedisReader(Primary(100, 900, 1000), FakeClock(), replica(100, 400, 1005))
    read.waits()
    read.waits()
    assert read.levels()[Quantity.REPLICA_LAG_BYTES] == 500.0


def test_without_a_replica_to_ask_there_is_none() -> None:
    """Its absence is no lag of 0."""
    read = RedisReader(Primary(100, 900), FakeClock())
    read.waits()
    assert Quantity.REPLICA_LAG_BYTES not in read.levels()


def test_a_replica_that_does_not_answer_is_asked_once_and_told() -> None:
    """What it showed before stays; the reason is in the record, and the server is read on."""
    dead = ToldSession({})
    read = RedisReader(Primary(100, 900), FakeClock(), dead)
    read.waits()
    read.waits()
    assert dead.asked == ["INFO replication"]
    assert dead.closed
    (told,) = [each for each in read.absent if each.subject == Quantity.REPLICA_LAG_BYTES]
    assert "NOPERM" in told.reason


def test_both_sessions_end_together() -> None:
    """Closing the reader leaves none open."""
    sessions = (Primary(1), replica(1))
    read = RedisReader(sessions[0], FakeClock(), sessions[1])
    read.close()
    assert all(each.closed for each in sessions)


class Door(RedisDoor):
    """Opens the sessions it was given by port; others cannot be reached."""

    def __init__(self, sessions: Mapping[int, ToldSession]) -> None:
        self._sessions = sessions

    def connect(self, address: ServerAddress, *, timeout_s: float = 30.0) -> RedisSession:
        """Return the session of a port."""
        del timeout_s
        if address.port not in self._sessions:
            raise TargetError("nobody answers")
        return self._sessions[address.port]


ADDRESS = ServerAddress(host="/fake", port=1, beside=ServerAddress(host="/fake", port=2))


def test_the_reader_of_a_pair_asks_both() -> None:
    """The address says that there is a replica, and where."""
    door = Door({1: Primary(500), 2: replica(200)})
    read = open_reader(door, ADDRESS, FakeClock())
    assert read.levels()[Quantity.REPLICA_LAG_BYTES] == 300.0


def test_no_session_stays_open_when_the_replica_cannot_be_reached() -> None:
    """The failure is told, and the session on the server ended."""
    server = Primary(500)
    with pytest.raises(TargetError, match="nobody answers"):
        open_reader(Door({1: server}), ADDRESS, FakeClock())
    assert server.closed
