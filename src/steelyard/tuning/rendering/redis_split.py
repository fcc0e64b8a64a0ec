"""The files of a split pair: two redis.conf, the script that starts them, objects of a cluster."""

from importlib.resources import files
from typing import Final

from steelyard.model.redis_split import Role, SplitDesign, SplitServer
from steelyard.model.stack import PlannedSetting, RenderedFile
from steelyard.tuning.rendering.redis_split_cluster import cluster_objects
from steelyard.tuning.rendering.remarks import hashed, remark

START: Final = "start.sh"
_HEAD: Final = "Made by `steelyard redis split`."
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ROLES: Final[tuple[Role, ...]] = ("primary", "replica")
_HEADS: Final = {
    "primary": "The primary: it serves, and writes no disk. It is started by start.sh alone, which"
    " keeps it from coming back empty and wiping its replica (RED001).",
    "replica": "The replica: it follows the primary and keeps the data on its disk.",
}


def render_split(design: SplitDesign) -> tuple[RenderedFile, ...]:
    """Return the files of a design: for two machines, and for Kubernetes."""
    pair = design.request
    primary = configuration(design, "primary", pair.primary, pair.replica)
    replica = configuration(design, "replica", pair.replica, pair.primary)
    objects = cluster_objects(design, in_the_cluster(design))
    return (
        _file("redis/primary.conf", primary),
        _file("redis/replica.conf", replica),
        _file(f"redis/{START}", start_script(pair.primary, pair.replica), "sh -n {}"),
        _file("kubernetes/redis-split.yaml", objects, "kubectl apply --dry-run=server -f {}"),
    )


def _file(name: str, content: str, check: str = "") -> RenderedFile:
    layer = name.partition("/")[0]
    return RenderedFile(name=name, layer=layer, content=content, validated_by=check.format(name))


def in_the_cluster(design: SplitDesign) -> dict[str, str]:
    """Return the files of the ConfigMap: the same pair by the names of its pods."""
    name = design.request.name
    primary, replica = (
        SplitServer(host=f"{name}-{role}-0.{name}-peers", directory="/data") for role in _ROLES
    )
    return {
        "primary.conf": configuration(design, "primary", primary, replica),
        "replica.conf": configuration(design, "replica", replica, primary),
        START: start_script(primary, replica),
    }


def configuration(design: SplitDesign, role: Role, own: SplitServer, other: SplitServer) -> str:
    """Return the redis.conf of one of the two, with the reason above every line."""
    lines = (*_place(role, own, other), *design.settings(role))
    return "\n".join((hashed(f"{_HEAD} {_HEADS[role]}"), *map(_text, lines)))


def _text(setting: PlannedSetting) -> str:
    return f"{hashed(remark(setting))}{setting.name} {setting.value}\n"


def _place(role: Role, own: SplitServer, other: SplitServer) -> tuple[PlannedSetting, ...]:
    """Return where a server is and whom it follows."""
    alone = {own.host, other.host} <= _LOOPBACK
    follows = _line(
        "replicaof",
        f"{other.host} {other.port}",
        "It copies the primary, again and again, and whatever that holds",
    )
    return (
        _line(
            "bind",
            "127.0.0.1 -::1" if alone else "* -::*",
            "Both are on this machine"
            if alone
            else "The other server and the clients come from outside; while there is no password,"
            " protected-mode refuses them",
        ),
        _line("port", str(own.port), "As the other server and the clients reach it"),
        _line("dir", own.directory, "Its files, and nobody else's"),
        _line(
            "replica-announce-ip",
            own.host,
            "The other server knows it by this name, whatever its address is: FAILOVER needs it",
        ),
        _line("replica-announce-port", str(own.port), "Likewise"),
        *((follows,) if role == "replica" else ()),
    )


def _line(name: str, value: str, reason: str) -> PlannedSetting:
    source = f"Redis 7.0, redis.conf, comments on {name}"
    return PlannedSetting(name=name, value=value, reason=reason, source=source)


def start_script(primary: SplitServer, replica: SplitServer) -> str:
    """Return the script that starts either server, with the fence of the primary."""
    template = files(__package__).joinpath("redis_split_files", START).read_text("utf-8")
    for word, server in (("PRIMARY", primary), ("REPLICA", replica)):
        template = template.replace(f"@{word}@", server.host)
        template = template.replace(f"@{word}_PORT@", str(server.port))
    return template
