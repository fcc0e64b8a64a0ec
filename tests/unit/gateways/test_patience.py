"""Statements on a server that does not answer: a long one goes on, a lost one is given up."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import ExitCode, TargetError
from steelyard.gateways.sql import Sql

_READY = b"Z" + struct.pack("!ic", 5, b"I")
_LET_IN = b"R" + struct.pack("!ii", 8, 0) + _READY
_BIGINT, _TEXT = 20, 25  # pg_type.oid
_DONE = b"C" + struct.pack("!i", 4 + 9) + b"SELECT 1\0" + _READY


def _one_row(value: bytes, type_: int) -> bytes:
    """Return the answer of one column in text form, as protocol 3.0 writes it."""
    column = b"n\0" + struct.pack("!ihihih", 0, 0, type_, -1, -1, 0)
    head = b"T" + struct.pack("!ih", 6 + len(column), 1) + column
    body = struct.pack("!hi", 1, len(value)) + value
    return head + b"D" + struct.pack("!i", 4 + len(body)) + body + _DONE


class _Wire:
    """A server of a few bytes: what it says to a question is the test's."""

    def __init__(self, port: int) -> None:
        self.address = ServerAddress(host="127.0.0.1", port=port, user="u", database="d")
        self.questions: list[bytes] = []
        self.let_in = True
        self.works = False
        self.silent = threading.Event()  # set: the first question is answered at last

    def serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while self._read(connection, typed=False)[:4] == struct.pack("!i", 80877103):
                connection.sendall(b"N")  # no TLS here
            if not self.let_in:
                return
            connection.sendall(_LET_IN)
            while question := self._read(connection, typed=True):
                self.questions.append(question)
                self._answer(connection, question)

    def _answer(self, connection: socket.socket, question: bytes) -> None:
        if b"pg_stat_activity" in question:
            if question[:1] == b"P":
                answer = b"1" + struct.pack("!i", 4) + b"2" + struct.pack("!i", 4)
                connection.sendall(answer + _one_row(b"1" if self.works else b"0", _BIGINT))
        elif b"set_config" in question:
            connection.sendall(_one_row(b"1", _TEXT))
        elif question[:1] == b"Q":
            self.silent.wait(20)
            connection.sendall(_one_row(b"at last", _TEXT))

    @staticmethod
    def _read(connection: socket.socket, *, typed: bool) -> bytes:
        head = connection.recv(5 if typed else 4, socket.MSG_WAITALL)
        if len(head) < (5 if typed else 4):
            return b""
        (length,) = struct.unpack("!i", head[-4:])
        body = connection.recv(length - 4, socket.MSG_WAITALL) if length > 4 else b""
        return head[:1] + body if typed else body


@contextmanager
def _wire() -> Iterator[_Wire]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire = _Wire(listener.getsockname()[1])
        threads: list[threading.Thread] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threads.append(threading.Thread(target=wire.serve, args=(connection,)))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield wire
        finally:
            wire.silent.set()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def test_a_statement_that_nobody_works_on_is_given_up() -> None:
    """The server lets others in and has no such statement: the answer was lost on the way."""
    with _wire() as wire, pytest.raises(TargetError, match="it hangs") as caught:
        Sql(patience_s=0.3).execute(wire.address, ["VACUUM"])
    assert caught.value.exit_code is ExitCode.TARGET
    assert caught.value.hint
    assert any(b"pg_stat_activity" in question for question in wire.questions)


def test_a_statement_on_a_server_that_takes_nobody_is_given_up() -> None:
    """The second connection is refused: nobody is there to wait for."""
    with _wire() as wire:
        sql = Sql(patience_s=0.3)
        deny = threading.Timer(0.2, lambda: setattr(wire, "let_in", False))
        deny.start()
        with pytest.raises(TargetError, match="it hangs"):
            sql.execute(wire.address, ["VACUUM"])
        deny.join()


def test_a_long_statement_is_waited_for() -> None:
    """While the server is at work on it, patience is had again and again."""
    with _wire() as wire:
        wire.works = True

        def answer() -> None:
            while sum(b"pg_stat_activity" in question for question in wire.questions) < 3:
                threading.Event().wait(0.02)
            wire.silent.set()

        answering = threading.Thread(target=answer)
        answering.start()
        rows = Sql(patience_s=0.2).rows(wire.address, "SELECT long()")
        answering.join()
    assert rows == [("at last",)]


def test_a_session_gives_a_silent_server_up() -> None:
    """It has no second connection to ask: its patience is the end."""
    with _wire() as wire:
        session = Sql().session(wire.address, "watcher", patience_s=0.3)
        with pytest.raises(TargetError, match="it hangs") as caught:
            session.rows("SELECT 1")
        session.close()
    assert caught.value.exit_code is ExitCode.TARGET
    assert not any(b"pg_stat_activity" in question for question in wire.questions)


def test_another_thread_ends_the_wait_of_a_session() -> None:
    """Closing needs no answer of the server, and the thread that waits gets its error at once."""
    failures: list[TargetError] = []
    with _wire() as wire:
        session = Sql().session(wire.address, "watcher", patience_s=600)

        def wait() -> None:
            try:
                session.rows("SELECT 1")
            except TargetError as error:
                failures.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while not wire.questions:
            threading.Event().wait(0.02)
        session.close()
        waiting.join(60)
        assert not waiting.is_alive()
        with pytest.raises(TargetError, match="closed"):
            session.rows("SELECT 1")
    assert "nobody waits" in failures[0].message
