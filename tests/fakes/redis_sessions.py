"""A session on a Redis server whose answers are written down, command by command."""

from collections.abc import Mapping, Sequence

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import TargetError
from steelyard.gateways.redis import RedisDoor, Reply, ReplyError, parse_info


class ToldSession:
    """Gives the answers to each command in their order, the last one for ever.

    What nobody wrote down is refused, as a server refuses what a user may not ask.
    """

    def __init__(self, answers: Mapping[str, Sequence[Reply]]) -> None:
        self._left = {words: list(replies) for words, replies in answers.items()}
        self.asked: list[str] = []
        self.closed = False

    def command(self, *words: str | bytes | int) -> Reply:
        """Return the next answer to these words."""
        if self.closed:
            raise TargetError("the session is closed")
        asked = " ".join(str(word) for word in words)
        self.asked.append(asked)
        if asked not in self._left:
            raise ReplyError(f"NOPERM this user has no permissions to run '{asked}'")
        left = self._left[asked]
        return left.pop(0) if len(left) > 1 else left[0]

    def pipeline(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Reply]:
        """Return the answers to all of them."""
        return [self.command(*words) for words in commands]

    def info(self, *sections: str) -> Mapping[str, str]:
        """Return the lines of INFO."""
        return parse_info(self.command("INFO", *(sections or ("everything",))))

    def close(self) -> None:
        """End it."""
        self.closed = True


class ToldDoor(RedisDoor):
    """Opens one session, which it was given."""

    def __init__(self, session: ToldSession) -> None:
        self._session = session

    def connect(self, address: ServerAddress, *, timeout_s: float = 30.0) -> ToldSession:
        """Return it, wherever the server is said to be."""
        del address, timeout_s
        return self._session
