"""From what an experiment says of an endpoint to what libpq is asked."""

from collections.abc import Mapping

from steelyard.gateways.libpq import parsed_uri
from steelyard.model.target import EndpointTarget


def keywords_of(target: EndpointTarget) -> Mapping[str, str]:
    """Return the libpq keywords that the target gives; libpq finds the rest.

    Raises:
        InputError: Its URI is none.
    """
    given = {
        "host": target.host,
        "port": target.port,
        "user": target.user,
        "dbname": target.dbname,
        "service": target.service,
    }
    keywords = dict(parsed_uri(target.uri)) if target.uri else {}
    return keywords | {name: str(value) for name, value in given.items() if value is not None}


def named_database(target: EndpointTarget) -> str | None:
    """Return the database that the target names, by ``dbname:`` or in its URI."""
    return keywords_of(target).get("dbname")
