"""The only door to Amazon Web Services: calls by boto3, and their errors in words of fact.

boto3 finds credentials, region and address as it always does (environment, files, the instance's
role; ``AWS_ENDPOINT_URL``). It is imported when an account is connected to. Calls that are
throttled or fail on the way are tried again by botocore's own rules.

A refusal for want of a permission names the action, as an IAM policy writes it: that is what has to
be added, and nobody guesses it from a stack trace.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.core.wording import (
    LoginError,
    PreflightError,
    PrivilegeError,
    RefusedError,
    TargetError,
)

_TRIES: Final = 8  # of a throttled call, with growing pauses of up to 20 s
_SECONDS: Final = 30.0  # for one answer
_DENIED: Final = (
    "AccessDenied",
    "AccessDeniedException",
    "UnauthorizedOperation",
    "NotAuthorizedException",
)
_UNKNOWN: Final = (
    *("InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException"),
    *("UnrecognizedClientException", "AuthFailure", "IncompleteSignature"),
)


class AwsRefusalError(RefusedError):
    """A call was refused; the code is Amazon's word for why."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code

    @property
    def is_absent(self) -> bool:
        """Return whether what was named is not there."""
        return "NotFound" in self.code or self.code == "ResourceNotFoundException"

    @property
    def is_there(self) -> bool:
        """Return whether something of that name is there already."""
        return "AlreadyExists" in self.code or self.code in (
            "InvalidGroup.Duplicate",
            "ConflictException",
        )

    @property
    def is_busy(self) -> bool:
        """Return whether it would be taken later: something is in use or in another state now."""
        return self.code in _BUSY


_BUSY: Final = (
    *("InvalidDBInstanceState", "InvalidDBInstanceStateFault", "InvalidDBClusterStateFault"),
    *("InvalidDBParameterGroupState", "InvalidDBParameterGroupStateFault"),
    *("InvalidDBSubnetGroupStateFault", "DependencyViolation"),
)


class Aws:
    """The account that boto3 finds."""

    def connect(self, region: str) -> "AwsApi":
        """Return a region of it; nothing is asked yet.

        Raises:
            PreflightError: boto3 is not installed.
        """
        try:
            import boto3  # noqa: PLC0415 - large, and for accounts only
        except ImportError as error:
            raise PreflightError(
                "servers of AWS need boto3, which is not installed",
                hint="Install it: pip install boto3.",
            ) from error
        return AwsApi(boto3.session.Session(region_name=region), region)


class AwsApi:
    """One region of one account."""

    def __init__(self, session: Any, region: str) -> None:  # noqa: ANN401 - boto3 has no types
        self.region = region
        self._session = session
        self._clients: dict[str, Any] = {}
        self._account = ""

    @property
    def account(self) -> str:
        """Return the number of the account whose credentials are used.

        Raises:
            LoginError: There are none, or they are wrong.
        """
        if not self._account:
            self._account = str(self.call("sts", "GetCallerIdentity")["Account"])
        return self._account

    def call(self, service: str, action: str, **given: object) -> Mapping[str, Any]:
        """Return the answer to a call, such as ``rds``, ``CreateDBInstance``.

        Raises:
            PrivilegeError: The account may not do that; the action is named.
            LoginError: There are no credentials, or they are wrong.
            AwsRefusalError: It was refused for another reason.
            TargetError: Nobody answers.
        """
        from botocore import exceptions, xform_name  # noqa: PLC0415 - comes with boto3

        name = f"{service}:{action}"
        try:
            answer: Mapping[str, Any] = getattr(self._client(service), xform_name(action))(**given)
        except exceptions.ClientError as error:
            raise _translated(name, error.response.get("Error", {})) from error
        except (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.ProfileNotFound,
            exceptions.CredentialRetrievalError,
        ) as error:
            raise LoginError(
                f"there are no credentials for AWS: {error}", hint=_CREDENTIALS
            ) from error
        except exceptions.ParamValidationError as error:
            raise AwsRefusalError(
                f"{name} was not sent: {error}", code="ParamValidation"
            ) from error
        except (exceptions.HTTPClientError, exceptions.BotoCoreError) as error:
            raise TargetError(
                f"{name} in {self.region} got no answer: {error}",
                hint="Check the network, the region's name, and AWS_ENDPOINT_URL where it is set.",
            ) from error
        return answer

    def listed(
        self, service: str, action: str, key: str, **given: object
    ) -> Iterator[Mapping[str, Any]]:
        """Yield what a call lists below a key, page after page; raises as ``call`` does.

        A key with dots leads into what is inside, as ``EngineDefaults.Parameters``, where the mark
        of the next page is, too.
        """
        return self._pages(service, action, key, given)

    def texts(self, service: str, action: str, key: str, **given: object) -> Iterator[str]:
        """Yield the same where what is listed are texts."""
        return self._pages(service, action, key, given)

    def _pages(
        self, service: str, action: str, key: str, given: Mapping[str, object]
    ) -> Iterator[Any]:
        page: dict[str, object] = {}
        *above, last = key.split(".")
        while True:
            answer = self.call(service, action, **given, **page)
            for step in above:
                answer = answer[step]
            yield from answer.get(last) or ()
            way = next((each for each in ("Marker", "NextToken") if answer.get(each)), None)
            if way is None:
                return
            page = {way: answer[way]}

    def _client(self, service: str) -> Any:  # noqa: ANN401 - likewise
        from botocore.config import Config  # noqa: PLC0415 - comes with boto3

        if service not in self._clients:
            patient = Config(
                retries={"mode": "standard", "max_attempts": _TRIES},
                read_timeout=_SECONDS,
                connect_timeout=_SECONDS,
            )
            self._clients[service] = self._session.client(service, config=patient)
        return self._clients[service]


_CREDENTIALS: Final = (
    "Set AWS_PROFILE, or log in: aws sso login; `aws sts get-caller-identity` tries it."
)


def _translated(name: str, told: Mapping[str, Any]) -> TargetError | PrivilegeError:
    code, said = str(told.get("Code", "")), str(told.get("Message", ""))
    if code in _DENIED:
        return PrivilegeError(
            f"the account may not do {name}: {said}",
            hint=f"Add {name} to its policy; docs/aws.md has the whole policy.",
        )
    if code in _UNKNOWN:
        return LoginError(
            f"AWS does not take these credentials ({code}): {said}", hint=_CREDENTIALS
        )
    return AwsRefusalError(f"{name} was refused ({code}): {said}", code=code)
