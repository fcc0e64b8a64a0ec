"""Fixtures of the live tests, and their order."""

import os

import pytest

from support.endpoint import programs, server
from support.live import cache, memory_cache, steelyard

__all__ = ["cache", "memory_cache", "programs", "server", "steelyard"]


_MACHINE = ("test_stack_", "test_libvirt_")
# What takes a minute and more, the longest first; most of them wait for clocks, not for CPUs.
_LONG = (
    "test_a_campaign_killed_at_any_instant",
    "test_a_campaign_of_two_clusters_survives",
    "test_a_network_that_stays_broken",
    "test_a_slower_class_is_found",
    "test_a_block_bucket_that_closes",
    "test_a_settings_campaign_survives_a_kill",
    "test_an_ordinary_python_image_is_enough",
    "test_a_lost_pod_costs_a_block",
    "test_the_printed_rights_are_enough",
    "test_long_runs_follow_the_blocks",
    "test_a_campaign_survives_a_lost_server_and_a_kill",
    "test_a_synchronous_standby",
    "test_a_restart_campaign_ends",
    "test_a_factorial_is_measured",
    "test_a_killed_campaign_says_how_it_goes_on",
    "test_rollouts_of_one_cluster",
    "test_a_server_is_weighed_at_shares",
    "test_a_server_of_others_is_measured",
    "test_work_that_is_cut_off",
    "test_a_volume_that_nobody_makes",
    "test_a_set_up_is_weighed_against_itself",
    "test_lost_connections_cost_one_block",
    "test_a_killed_campaign_resumes_with_its_limits",
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what changes the machine: every PostgreSQL beside it would take of its huge pages."""
    if item.path.name.startswith(_MACHINE):
        item.add_marker("machine")


@pytest.hookimpl(trylast=True)  # of what is not deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let every worker begin with the longest tests: after them there is nobody to run beside."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = sorted((item for item in items if _place(item) < len(_LONG)), key=_place)
    rest = [item for item in items if _place(item) == len(_LONG)]
    if not long:
        return
    left = len(items)
    items.clear()
    for worker in range(workers):
        part = left // (workers - worker)  # xdist cuts the list like this
        left -= part
        begin = long[worker::workers]
        room = max(0, part - len(begin))
        items += begin + rest[:room]
        rest = rest[room:]
    items += rest


def _place(item: pytest.Item) -> int:
    names = (place for place, name in enumerate(_LONG) if item.name.startswith(name))
    return next(names, len(_LONG))
