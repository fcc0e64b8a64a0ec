"""Why a server ended, out of the log of its pod."""

import json

from hypothesis import given
from hypothesis import strategies as st

from steelyard.systems.postgres.cloudnative_pg.operator import last_words, plain_log
from support.recorded_clusters import log


def _record(severity: str, message: str, code: str = "00000") -> str:
    record = {"error_severity": severity, "message": message, "sql_state_code": code}
    return json.dumps({"logger": "postgres", "msg": "record", "record": record}) + "\n"


def test_a_refused_setting_is_named_out_of_the_recorded_log() -> None:
    """The line before the grave one names the setting and its range; both are told."""
    words = last_words(log("refused-max-connections"))
    assert '999999999 is outside the valid range for parameter "max_connections"' in words
    assert "contains errors" in words


def test_what_initdb_printed_is_told_out_of_the_recorded_log() -> None:
    """Of a job that failed before there was a server, the program's own error is told."""
    assert last_words(log("initdb-fails")) == 'initdb: error: invalid locale name "xx_XX"'


def test_the_last_grave_record_counts() -> None:
    """Once the server logs records, the last FATAL among them is the reason."""
    text = _record("FATAL", "first") + _record("LOG", "started") + _record("PANIC", "no space")
    assert last_words(text) == "no space"


def test_refused_connections_are_no_reason() -> None:
    """Who came while the server was starting, or with a wrong password, did not end it."""
    text = _record("FATAL", "the database system is starting up", "57P03")
    assert last_words(text + _record("FATAL", "password authentication failed", "28P01")) == ""


def test_the_server_alone_is_in_the_plain_log() -> None:
    """Messages of the instance manager are left out."""
    manager = json.dumps({"logger": "instance-manager", "msg": "All workers finished"}) + "\n"
    assert plain_log(manager + _record("LOG", "ready")) == "LOG: ready\n"


@given(st.text() | st.lists(st.text()).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    """Cut lines, foreign lines and garbage raise nothing."""
    assert isinstance(last_words(text), str)
    assert isinstance(plain_log(text), str)


@given(st.dictionaries(st.sampled_from(["logger", "msg", "record", "level", "pipe"]), st.text()))
def test_any_object_is_read(line: dict[str, str]) -> None:
    """Keys with other values than expected raise nothing."""
    assert isinstance(last_words(json.dumps(line)), str)
