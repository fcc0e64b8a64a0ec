"""Settings profiles: what they ask for, and what they never touch."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.linux import LinuxFacts
from steelyard.core.stack import Place, PostgresFacts, StackFacts, StackRequest
from steelyard.core.wording import GIB, MIB, parse_bytes
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import design_stack
from steelyard.tuning.profiles import MachineFacts, profile_names, profiled_settings
from steelyard.tuning.rules.catalogue import judge

LAPTOP = MachineFacts(cpus=8.0, memory_bytes=16 * GIB, free_disk_bytes=100 * GIB)
DURABILITY = {"fsync", "synchronous_commit", "full_page_writes", "wal_level", "wal_sync_method"}

machines = st.builds(
    MachineFacts,
    cpus=st.floats(0.1, 512.0),
    memory_bytes=st.integers(128 * MIB, 4096 * GIB),
    free_disk_bytes=st.none() | st.integers(0, 1024 * GIB),
)


def values(facts: MachineFacts) -> dict[str, str]:
    """Return the fitted settings by name."""
    return {each.setting.name: each.setting.value for each in profiled_settings("fitted", facts)}


def test_a_machine_of_known_size() -> None:
    """The documented shares of memory, disk and CPUs come out as whole megabytes and counts."""
    assert values(LAPTOP) == {
        "shared_buffers": "4096MB",
        "effective_cache_size": "12288MB",
        "work_mem": "20MB",
        "maintenance_work_mem": "512MB",
        "checkpoint_timeout": "15min",
        "max_wal_size": "4096MB",
        "min_wal_size": "1024MB",
        "random_page_cost": "1.1",
        "effective_io_concurrency": "64",
        "max_worker_processes": "8",
        "max_parallel_workers": "8",
        "max_parallel_workers_per_gather": "4",
        "max_parallel_maintenance_workers": "4",
    }


def test_wal_follows_the_free_disk() -> None:
    """WAL takes 1/20 of the free disk, at most 4 GB, never less than PostgreSQL's default."""
    for free, expected in ((400, "4096MB"), (40, "2048MB"), (5, "1024MB")):
        facts = MachineFacts(cpus=1.0, memory_bytes=GIB, free_disk_bytes=free * GIB)
        assert values(facts)["max_wal_size"] == expected
    assert "max_wal_size" not in values(MachineFacts(cpus=1.0, memory_bytes=GIB))


@given(facts=machines)
def test_any_machine_gets_settings_within_its_means(facts: MachineFacts) -> None:
    """Memory stays below the machine's, durability is untouched, no name comes twice."""
    found = profiled_settings("fitted", facts)
    names = [each.setting.name for each in found]
    assert len(names) == len(set(names))
    assert not DURABILITY & set(names)
    sizes = {each.setting.name: each.setting.value for each in found}
    assert parse_bytes(sizes["shared_buffers"]) <= max(facts.memory_bytes // 4, 128 * MIB)
    assert parse_bytes(sizes["effective_cache_size"]) <= facts.memory_bytes
    assert int(sizes["max_parallel_workers"]) <= max(1, facts.cpus)


def test_guesses_say_so() -> None:
    """A reader sees which values are guesses."""
    found = profiled_settings("fitted", LAPTOP)
    guesses = {each.setting.name for each in found if "guess" in each.reason.lower()}
    assert {"random_page_cost", "effective_io_concurrency", "work_mem"} <= guesses


def test_an_unknown_profile_is_an_error_of_the_caller() -> None:
    """Files are checked against the names first; the lookup itself forgives nothing."""
    assert profile_names() == ("fitted", "aws-defaults", "published-maxed")
    with pytest.raises(KeyError):
        profiled_settings("fited", LAPTOP)


def asked(profile: str, facts: MachineFacts) -> dict[str, str]:
    """Return the settings of a profile by name."""
    return {each.setting.name: each.setting.value for each in profiled_settings(profile, facts)}


def test_aws_defaults_of_8_gib_are_those_of_a_t3_large() -> None:
    """839 connections, 1907 MiB of shared buffers and 3813 MiB of expected cache."""
    found = asked("aws-defaults", MachineFacts(cpus=2.0, memory_bytes=8 * GIB))
    assert found["max_connections"] == "839"
    page = 8192
    assert round(int(found["shared_buffers"]) * page / MIB) == 1907
    assert round(int(found["effective_cache_size"]) * page / MIB) == 3813
    assert set(found) == {"max_connections", "shared_buffers", "effective_cache_size"}


def test_aws_defaults_truncate_and_end_at_5000_connections() -> None:
    """Division truncates as in the parameter groups, and the connections have a ceiling."""
    memory = 512 * MIB
    left = memory * 931 // 1000
    found = asked("aws-defaults", MachineFacts(cpus=2.0, memory_bytes=memory))
    assert found["max_connections"] == str(left // 9_531_392) == "52"
    assert found["shared_buffers"] == str(left // 32_768)
    large = asked("aws-defaults", MachineFacts(cpus=64.0, memory_bytes=512 * GIB))
    assert large["max_connections"] == "5000"


def test_published_maxed_is_what_was_printed() -> None:
    """Its values do not depend on the machine, and huge pages are left to the host."""
    found = asked("published-maxed", LAPTOP)
    assert found == asked("published-maxed", MachineFacts(cpus=1.0, memory_bytes=GIB))
    assert found["shared_buffers"] == "6GB"
    assert found["random_page_cost"] == "1.1"
    assert found["effective_io_concurrency"] == "200"
    assert "huge_pages" not in found


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_gives_reasons_and_keeps_durability(name: str) -> None:
    """Each setting says why and from where, and none trades durability."""
    found = profiled_settings(name, LAPTOP)
    assert all(each.reason and each.source for each in found)
    assert not DURABILITY & {each.setting.name for each in found}


def setting_bytes(value: str) -> object:
    """Return a setting as the server understands it: 4GB and 4096MB are the same."""
    return parse_bytes(value) if value[-1] == "B" else value


@pytest.mark.slow
@pytest.mark.parametrize("version", [13, 16, 18])
@pytest.mark.parametrize("storage", ["ssd", "hdd", "network"])
@pytest.mark.parametrize("place", [Place.RDS, Place.LOCAL, Place.CNPG])
def test_profile_plan_and_rules_recommend_the_same(
    version: int, storage: str, place: Place
) -> None:
    """1 GiB to 256 GiB, 1 to 64 CPUs: what both set is equal, and no rule is violated by either."""
    for cpus, gib in product((1, 2, 4, 16, 64), (1, 2, 3, 4, 8, 24, 64, 256)):
        machine = MachineFacts(
            cpus=cpus, memory_bytes=gib * GIB, free_disk_bytes=8192 * GIB, storage=storage
        )
        request = StackRequest(
            cpus=cpus, memory_bytes=gib * GIB, place=place, postgres_version=version
        )
        made = design_stack(request, StackFacts(storage=storage), formula_counter(version))
        plan = {each.name: each.value for each in made.postgres.settings}
        profile = values(machine)
        told = f"{cpus} CPUs, {gib} GiB"
        shared = set(profile) & set(plan)
        assert len(shared) >= 11
        assert set(profile) <= set(plan), told
        assert {name: setting_bytes(profile[name]) for name in shared} == {
            name: setting_bytes(plan[name]) for name in shared
        }, told
        assert violated(profile, machine, version) == violated(plan, machine, version) == [], told


def violated(settings: dict[str, str], machine: MachineFacts, version: int) -> list[str]:
    """Return the messages of the rules that a machine with these settings violates."""
    facts = StackFacts(
        postgres=PostgresFacts(version=version, settings=settings),
        linux=LinuxFacts(cpus=tuple(range(int(machine.cpus))), memory_bytes=machine.memory_bytes),
        storage=machine.storage,
    )
    return [message for rule in judge(facts) for message in rule.messages]
