"""Huge pages counted by the servers' own programs, and the formula against them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from steelyard.core.stack import StackFacts, StackRequest
from steelyard.core.wording import GIB, MIB, PreflightError
from steelyard.gateways.process import Processes
from steelyard.places.local.server import server_account
from steelyard.systems.postgres.server import find_installation
from steelyard.tuning.plan.arithmetic import (
    FORMULA_ERROR,
    PageCounter,
    formula_counter,
    server_counter,
)
from steelyard.tuning.plan.designing import design_stack
from support.lacking import lacking

pytestmark = pytest.mark.live
PAGE = 2 * MIB
VERSIONS = (15, 18)


@contextmanager
def counting(version: int) -> Iterator[PageCounter]:
    """Give a counter that asks the program of a version."""
    processes = Processes()
    try:
        installation = find_installation(str(version), processes)
    except PreflightError as error:
        lacking(error.message)
    with server_counter(installation, processes, server_account(())) as counter:
        yield counter


@pytest.mark.parametrize("version", VERSIONS)
def test_the_formula_is_as_near_as_it_says(version: int) -> None:
    """From 512 MB to 16 GB, with few and many connections: never too few, 1 % too many at most."""
    estimate = formula_counter(version)
    with counting(version) as asked:
        for buffers in ("512MB", "2GB", "16GB"):
            for connections in ("50", "300"):
                settings = {"shared_buffers": buffers, "max_connections": connections}
                said = asked(settings, PAGE)
                assert f"PostgreSQL {version}." in said.counted_by
                most = (1 + 2 * FORMULA_ERROR) * said.pages + 3
                assert said.pages <= estimate(settings, PAGE).pages <= most


@pytest.mark.parametrize("version", VERSIONS)
def test_the_program_takes_every_planned_setting(version: int) -> None:
    """The whole plan is given to the program, which refuses names and values it does not know."""
    request = StackRequest(cpus=2, memory_bytes=8 * GIB, postgres_version=version)
    with counting(version) as asked:
        made = design_stack(request, StackFacts(), asked)
        planned = {each.name: each.value for each in made.postgres.settings}
        assert asked(planned, PAGE).pages == made.postgres.huge_pages
        with pytest.raises(PreflightError, match="could not count the huge pages"):
            asked({**planned, "io_method": "carrier-pigeon"}, PAGE)


def test_nothing_is_left_behind() -> None:
    """The data directory that was made for counting goes when the counting ends, also badly."""
    places = []

    def count_badly() -> None:
        with counting(15) as asked:
            places.append(getattr(asked, "__self__")._data)  # noqa: B009 - a method's object
            assert places[0].is_dir()
            asked({"no_such_setting": "1"}, PAGE)

    with pytest.raises(PreflightError, match="no_such_setting"):
        count_badly()
    assert not places[0].parent.exists()
