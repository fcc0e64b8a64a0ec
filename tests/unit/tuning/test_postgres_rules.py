"""Rules of PostgreSQL: on both sides of each, by version where versions differ."""

from dataclasses import replace
from typing import Any

import pytest

from steelyard.core.findings import State
from steelyard.core.linux import BlockDevice, LinuxFacts, PagePool
from steelyard.core.stack import KubernetesFacts, PodFacts, PostgresFacts, StackFacts
from steelyard.core.wording import GIB, MIB
from support.judged_rules import HOLDS, NOTHING, judged, rows_of, said

POOL = PagePool(page_bytes=2 * MIB, total=3200, free=3200, reserved=0)
LINUX = LinuxFacts(memory_bytes=16 * GIB, cpus=(0, 1, 2, 3), huge_page_bytes=2 * MIB, pools=(POOL,))
POD = PodFacts(
    name="pg-1", database=True, limits={"cpu": "2", "memory": "4Gi", "hugepages-2Mi": "8Gi"}
)


def stack(
    linux: LinuxFacts | None = LINUX,
    pod: PodFacts | None = None,
    storage: str | None = None,
    facts: dict[str, Any] | None = None,
    **settings: str,
) -> StackFacts:
    """Return the facts of a server with these settings, in a pod where one is given."""
    known: dict[str, Any] = {"version": 18, "settings": settings, **(facts or {})}
    return StackFacts(
        linux=linux,
        kubernetes=KubernetesFacts(pods=(pod,)) if pod is not None else None,
        postgres=PostgresFacts(**known),
        storage=storage,
    )


def pages(free: int, reserved: int = 0) -> LinuxFacts:
    """Return a machine with so many free huge pages."""
    return replace(LINUX, pools=(replace(POOL, free=free, reserved=reserved),))


NEEDS = {"huge_pages_needed": 3177}
SEVEN = {"huge_pages_needed": 7}
GIGANTIC = replace(LINUX, pools=(replace(POOL, page_bytes=GIB, total=7, free=7),))
UNKNOWN = {"settings": None}


FELL_BACK = {"huge_pages_status": "off"}
BEFORE_17 = {"version": 16, "running": True}


def test_the_count_that_is_told_is_of_huge_pages() -> None:
    """PG002: the number has its noun, for one page and for more."""
    for pages, told in ((1, "has 1 huge page in the pool"), (2, "has 2 huge pages in the pool")):
        linux = replace(LINUX, pools=(replace(POOL, total=pages),))
        assert told in said("PG002", stack(linux, facts=FELL_BACK))


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
def test_durability_is_not_traded(name: str) -> None:
    """PG005: off in any spelling; the defaults are on, and local is no loss of this server."""
    assert said("PG005", stack()) == HOLDS
    assert said("PG005", stack(synchronous_commit="local")) == HOLDS
    for off in ("off", "false", "no", "0", "OFF"):
        assert said("PG005", stack(**{name: off})) == f"{name} is off"


def checkpoints(requested: int | None, timed: int | None) -> dict[str, Any]:
    """Return how checkpoints came about."""
    return {"checkpoints_requested": requested, "checkpoints_timed": timed}


@pytest.mark.parametrize(
    ("version", "settings", "told"),
    [
        (17, {"effective_io_concurrency": "127"}, HOLDS),
        (17, {"effective_io_concurrency": "200"}, "prefetches for bitmap heap scans"),
        (17, {}, HOLDS),
        (18, {}, HOLDS),
        (18, {"effective_io_concurrency": "64"}, HOLDS),
        (18, {"effective_io_concurrency": "200"}, "200 reads in flight asked of 3 io_workers"),
        (18, {"effective_io_concurrency": "200", "io_workers": "16"}, "of 16 io_workers"),
        (18, {"effective_io_concurrency": "200", "io_method": "io_uring"}, "by io_method"),
        (None, {"effective_io_concurrency": "200"}, NOTHING),
    ],
)
def test_read_depth_is_told_by_version(
    version: int | None, settings: dict[str, str], told: str
) -> None:
    """PG008: what 200 means up to 17, and what it means from 18 on."""
    assert told in said("PG008", stack(facts={"version": version}, **settings))


# What each rule says of facts, or its state.
SAID = {
    # Free less promised, of the size asked for; a running server has what it needs.
    "PG001": [
        (stack(pages(3177), huge_pages="on", facts=NEEDS), HOLDS),
        (stack(pages(3176), huge_pages="on", facts=NEEDS), "needs 3177 pages, 3176 are free"),
        (stack(pages(3200, 24), huge_pages="on", facts=NEEDS), "3176 are free and not promised"),
        (stack(pages(0), huge_pages="try", facts=NEEDS), NOTHING),
        (stack(pages(0), huge_pages="on", facts={**NEEDS, "running": True}), NOTHING),
        (stack(pages(0), huge_pages="on"), NOTHING),
        (stack(replace(LINUX, pools=None), huge_pages="on", facts=NEEDS), NOTHING),
        (stack(replace(LINUX, huge_page_bytes=None), huge_pages="on", facts=NEEDS), NOTHING),
        (stack(GIGANTIC, huge_pages="on", huge_page_size="1GB", facts=SEVEN), HOLDS),
        (
            stack(pages(3200), huge_pages="on", huge_page_size="1GB", facts=SEVEN),
            "needs 7 pages of 1.0 GiB, 0 are free",
        ),
        (
            stack(pages(3200), huge_pages="on", facts={**SEVEN, "huge_page_bytes": GIB}),
            "needs 7 pages of 1.0 GiB, 0 are free",
        ),
    ],
    # The server says it from 17 on, before that its mapping does.
    "PG002": [
        (stack(facts={"huge_pages_status": "on"}), HOLDS),
        (stack(facts=FELL_BACK), "huge_pages = try, the server runs without"),
        (stack(facts=FELL_BACK, huge_pages="off"), NOTHING),
        (stack(replace(LINUX, pools=(replace(POOL, total=0),)), facts=FELL_BACK), NOTHING),
        (stack(facts={**BEFORE_17, "huge_page_mapping_bytes": 0}), "the server runs without"),
        (stack(facts={**BEFORE_17, "huge_page_mapping_bytes": 6 * GIB}), HOLDS),
        (stack(facts={"running": False, "huge_page_mapping_bytes": 0}), NOTHING),
        (stack(facts={"huge_pages_status": "unknown"}), NOTHING),
        (stack(facts=BEFORE_17), NOTHING),
    ],
    # Of the pod with its huge pages, else of the machine.
    "PG003": [
        (stack(shared_buffers="6553MB"), HOLDS),  # 40 % of 16 GiB is 6553.6 MiB
        (stack(shared_buffers="6554MB"), "6.4 GiB, 40.0 % of 16.0 GiB"),
        (stack(shared_buffers="786432"), HOLDS),  # bare numbers are pages of 8 kB
        (stack(shared_buffers="1048576"), "8.0 GiB, 50.0 % of 16.0 GiB"),
        (stack(), HOLDS),  # the default, 128MB
        (stack(pod=POD, shared_buffers="4GB"), HOLDS),
        (stack(pod=POD, shared_buffers="6GB"), "6.0 GiB, 50.0 % of 12.0 GiB"),
        (stack(replace(LINUX, memory_bytes=None), shared_buffers="6GB"), NOTHING),
        (stack(shared_buffers="much"), NOTHING),
        (stack(facts=UNKNOWN), NOTHING),
    ],
    # Of the pod, else those that the machine lets us use.
    "PG004": [
        (stack(max_connections="200"), HOLDS),
        (stack(max_connections="201"), "201 connections on 4 CPUs"),
        (stack(replace(LINUX, allowed_cpus=(0,))), "100 connections on 1 CPUs"),  # the default
        (stack(pod=POD, max_connections="100"), HOLDS),
        (stack(pod=POD, max_connections="200"), "200 connections on 2 CPUs"),
        (stack(None, max_connections="200"), NOTHING),
    ],
    # -1 is the server's own choice.
    "PG006": [
        (stack(), HOLDS),
        (stack(wal_buffers="-1"), HOLDS),
        (stack(wal_buffers="16MB"), HOLDS),
        (stack(wal_buffers="2048"), HOLDS),
        (stack(wal_buffers="2049"), "wal_buffers is 16.0 MiB"),
        (stack(wal_buffers="64MB"), "wal_buffers is 64.0 MiB"),
    ],
    # By what the server counted, else by max_wal_size against shared_buffers.
    "PG007": [
        (stack(facts=checkpoints(5, 5)), HOLDS),
        (stack(facts=checkpoints(6, 5)), "6 of 11 checkpoints were requested"),
        (stack(facts={**checkpoints(6, 5), "settings": None}), "6 of 11"),
        # What was counted weighs more than what the sizes let expect; few say nothing.
        (stack(facts=checkpoints(0, 9), shared_buffers="6GB"), HOLDS),
        (stack(facts=checkpoints(2, 1), shared_buffers="6GB"), "max_wal_size is 1.0 GiB"),
        (stack(shared_buffers="2GB"), HOLDS),
        (stack(shared_buffers="2049MB"), "max_wal_size is 1.0 GiB with 2.0 GiB"),
        (stack(shared_buffers="6GB", max_wal_size="3072"), HOLDS),  # bare numbers are MB
        (stack(facts=UNKNOWN), NOTHING),
        (stack(facts={**checkpoints(9, None), "settings": None}), NOTHING),
    ],
    # What is below a virtual disk nobody knows, whatever its rotational flag says.
    "PG009": [
        (stack(storage="ssd", random_page_cost="1.1"), HOLDS),
        (stack(storage="ssd", random_page_cost="2"), HOLDS),
        (stack(storage="ssd"), "random_page_cost is 4 on ssd"),  # the default
        (stack(storage="hdd"), HOLDS),
        (stack(storage="hdd", random_page_cost="1.1"), "random_page_cost is 1.1 on hdd"),
        (
            stack(replace(LINUX, device=BlockDevice(name="nvme0n1", kind="nvme"))),
            "random_page_cost is 4 on nvme",
        ),
        (
            stack(replace(LINUX, device=BlockDevice(name="vdb", kind="virtio", rotational=True))),
            NOTHING,
        ),
        (stack(), NOTHING),
    ],
    # By version, program, container and kernel; unknown is no pass.
    "PG010": [
        (stack(io_method="io_uring", facts={"io_uring_available": True}), HOLDS),
        (stack(io_method="io_uring", facts={"io_uring_available": False}), "does not take"),
        (stack(io_method="io_uring", facts={"version": 17}), "which has no io_method"),
        (stack(replace(LINUX, io_uring_disabled=2), io_method="io_uring"), "refuses to everybody"),
        (stack(replace(LINUX, io_uring_disabled=0), io_method="io_uring"), NOTHING),
        (stack(io_method="io_uring"), NOTHING),
        (stack(io_method="worker"), NOTHING),
        (stack(), NOTHING),
    ],
    # Elsewhere the setting is lost.
    "PG011": [
        (stack(), HOLDS),
        (stack(shared_memory_type="mmap", huge_pages="on"), HOLDS),
        (stack(shared_memory_type="sysv"), "huge_pages = try with shared_memory_type = sysv"),
        (stack(shared_memory_type="sysv", huge_pages="off"), HOLDS),
        (stack(facts=UNKNOWN), NOTHING),
    ],
}


@pytest.mark.parametrize(("code", "facts", "told"), rows_of(SAID))
def test_a_rule_says_what_is_wrong(code: str, facts: StackFacts, told: str) -> None:
    """On both sides of its limit, and where there is nothing to judge."""
    assert told in said(code, facts)


@pytest.mark.parametrize(
    ("there", "settings", "told"),
    [
        (256 * MIB, {}, HOLDS),
        (64 * MIB + 1, {}, HOLDS),
        (64 * MIB, {}, "64.0 MiB and parallel query is on"),
        (64 * MIB, {"max_parallel_workers_per_gather": "0"}, HOLDS),
        (None, {}, NOTHING),
    ],
)
def test_shared_memory_has_room_for_workers(
    there: int | None, settings: dict[str, str], told: str
) -> None:
    """PG012: a container's default is too small unless parallel query is off."""
    facts = stack(facts={"shared_memory_directory_bytes": there}, **settings)
    assert told in said("PG012", facts)


def test_parallel_query_that_nobody_saw_is_no_finding() -> None:
    """PG012 lacks the settings where the directory is small, and needs none where it is large."""
    small = judged("PG012", stack(facts={"shared_memory_directory_bytes": 64 * MIB, **UNKNOWN}))
    assert small.state is State.NOT_APPLICABLE
    assert small.missing[0].startswith("postgres.settings")
    large = {"shared_memory_directory_bytes": GIB, **UNKNOWN}
    assert HOLDS in said("PG012", stack(facts=large))
