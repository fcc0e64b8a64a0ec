"""The only door to a cloud's metadata of the machine we are on; asked only when the user says so.

Amazon's service with a token (IMDSv2): one request for the token, one for the type.
"""

import http.client
from typing import Final

from steelyard.model.errors import TargetError

ADDRESS: Final = "169.254.169.254"
_TIMEOUT_S: Final = 1.0  # it answers in milliseconds or is not there
_TOKEN: Final = "/latest/api/token"  # noqa: S105 - a path
_TYPE: Final = "/latest/meta-data/instance-type"
_LIFETIME: Final = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
_MOST_BYTES: Final = 200


def instance_type(address: str = ADDRESS) -> str:
    """Return what the service calls this machine's type, such as ``m6i.large``.

    Raises:
        TargetError: No such service answers.
    """
    token = _asked(address, "PUT", _TOKEN, _LIFETIME)
    return _asked(address, "GET", _TYPE, {"X-aws-ec2-metadata-token": token})


def _asked(address: str, method: str, path: str, headers: dict[str, str]) -> str:
    connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        text = answer.read(_MOST_BYTES).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise TargetError(f"no metadata service answers at {address}: {error}") from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK or not text:
        raise TargetError(f"the metadata service at {address} answered {answer.status}")
    return text
