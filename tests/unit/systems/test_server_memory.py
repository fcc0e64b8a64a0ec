"""How much memory a server may take, by what is asked of it: never less than its buffers."""

import pytest

from fakes.campaigns import asks
from steelyard.core.experiment import Configuration
from steelyard.core.target import LocalTarget
from steelyard.core.wording import GIB, KIB, MIB
from steelyard.systems.postgres import settings as memory


def a_configuration(**settings: str) -> Configuration:
    """Return one with these settings."""
    return Configuration(name="t", target=LocalTarget(), settings=asks(**settings))


def growth(settings: dict[str, str], clients: int = 8) -> int:
    """Return how much more a configuration may take than one that asks for nothing."""
    return memory.most_bytes(a_configuration(**settings), clients) - memory.most_bytes(
        a_configuration(), clients
    )


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("128MB", 128 * MIB),
        ("16384", 128 * MIB),  # pages
        (" 16384 ", 128 * MIB),
        ("0x4000", 128 * MIB),
        ("131072kB", 128 * MIB),
        ("2GB", 2 * GIB),
        ("2.5GB", 2.5 * GIB),
        ("262144", 2 * GIB),
        ("0x40000", 2 * GIB),
    ],
)
def test_buffers_in_every_spelling(written: str, size: int) -> None:
    """As the server reads them: a bare number counts pages, also as a hexadecimal one."""
    assert growth({"shared_buffers": written}) == pytest.approx(1.1 * (size - 128 * MIB), abs=1)


@pytest.mark.parametrize(
    ("written", "size"),
    [("64MB", 64 * MIB), ("65536", 64 * MIB), ("0x10000", 64 * MIB), ("64kB", 64 * KIB)],
)
def test_every_client_may_fill_its_work_memory(written: str, size: int) -> None:
    """A bare number counts kilobytes."""
    for clients in (1, 50):
        assert growth({"work_mem": written}, clients) == clients * (size - 4 * MIB)


def test_names_of_settings_have_no_case() -> None:
    """As in a configuration file."""
    assert growth({"Shared_Buffers": "1GB"}) == growth({"shared_buffers": "1GB"}) > 0


def test_a_value_that_is_no_size_is_left_to_the_server() -> None:
    """It refuses to start with it; until then the default stands for it."""
    assert growth({"shared_buffers": "much"}) == 0


def test_backends_count_even_without_buffers() -> None:
    """50 clients take more than one, whatever is asked."""
    asked = a_configuration(shared_buffers="128kB", work_mem="64kB")
    assert memory.most_bytes(asked, 50) > 10 * memory.most_bytes(asked, 1)


@pytest.mark.parametrize("word", ["on", "ON", "true", "yes", "1"])
def test_a_pool_is_needed_by_who_says_on(word: str) -> None:
    """In every spelling of yes; the buffers and what is beside them come from it."""
    asked = a_configuration(huge_pages=word, shared_buffers="1GB")
    assert GIB <= (memory.huge_bytes(asked) or 0) <= 1.2 * GIB


@pytest.mark.parametrize("word", ["off", "false", "no", "0"])
def test_who_says_off_takes_nothing(word: str) -> None:
    """Nor does it take what it finds."""
    asked = a_configuration(huge_pages=word, shared_buffers="1GB")
    assert memory.huge_bytes(asked) == 0


@pytest.mark.parametrize("settings", [{}, {"huge_pages": "try"}, {"huge_pages": "TRY"}])
def test_who_tries_takes_what_is_there(settings: dict[str, str]) -> None:
    """It is the default."""
    assert memory.huge_bytes(a_configuration(**settings)) is None
