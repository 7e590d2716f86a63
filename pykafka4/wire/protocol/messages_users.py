"""Declares the messages of credentials, quotas and delegation tokens."""

from __future__ import annotations

from pykafka4.wire.protocol.fields import array, boolean, bytestring, float64, int8, int16, int32, int64, string, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct


@response(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Response):
    """The mechanism and iterations of each credential."""

    @struct
    class Result:
        @struct
        class CredentialInfo:
            mechanism: int = wire(int8)
            iterations: int = wire(int32)

        user: str = wire(string)
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)
        credential_infos: list[CredentialInfo] = wire(array(CredentialInfo))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", words=True)
    results: list[Result] = wire(array(Result))


@request(api_key=50, versions="0", flexible="0+", since="2.7")
class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    """Ask for the SCRAM credentials of users; `users=None` means all users."""

    @struct
    class User:
        name: str = wire(string)

    users: list[User] | None = wire(array(User), nullable="0+")


@response(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Response):
    """The result for each user."""

    @struct
    class Result:
        user: str = wire(string)
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)

    throttle_time_ms: int = wire(int32)
    results: list[Result] = wire(array(Result))


@request(api_key=51, versions="0", flexible="0+", since="2.7")
class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    """Set or delete SCRAM credentials."""

    @struct
    class Deletion:
        name: str = wire(string)
        mechanism: int = wire(int8)

    @struct
    class Upsertion:
        name: str = wire(string)
        mechanism: int = wire(int8)
        iterations: int = wire(int32)
        salt: bytes = wire(bytestring, secret=True)
        salted_password: bytes = wire(bytestring, secret=True)

    deletions: list[Deletion] = wire(array(Deletion))
    upsertions: list[Upsertion] = wire(array(Upsertion))


@response(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Response):
    """The quotas of each entity."""

    @struct
    class Entry:
        @struct
        class Entity:
            entity_type: str = wire(string)
            entity_name: str | None = wire(string, nullable="0+")

        @struct
        class Value:
            key: str = wire(string)
            value: float = wire(float64)

        entity: list[Entity] = wire(array(Entity))
        values: list[Value] = wire(array(Value))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", words=True)
    entries: list[Entry] | None = wire(array(Entry), nullable="0+")


@request(api_key=48, versions="0-1", flexible="1+", since="2.6")
class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    """Ask for the quotas of entities that match all components."""

    @struct
    class Component:
        entity_type: str = wire(string)
        match_type: int = wire(int8)
        match: str | None = wire(string, nullable="0+")

    components: list[Component] = wire(array(Component))
    strict: bool = wire(boolean)


@response(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Response):
    """The result for each entity."""

    @struct
    class Entry:
        @struct
        class Entity:
            entity_type: str = wire(string)
            entity_name: str | None = wire(string, nullable="0+")

        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)
        entity: list[Entity] = wire(array(Entity))

    throttle_time_ms: int = wire(int32)
    entries: list[Entry] = wire(array(Entry))


@request(api_key=49, versions="0-1", flexible="1+", since="2.6")
class AlterClientQuotasRequest(Request[AlterClientQuotasResponse]):
    """Set or remove quotas of entities."""

    @struct
    class Entry:
        @struct
        class Entity:
            entity_type: str = wire(string)
            entity_name: str | None = wire(string, nullable="0+")

        @struct
        class Op:
            key: str = wire(string)
            value: float = wire(float64)
            remove: bool = wire(boolean)

        entity: list[Entity] = wire(array(Entity))
        ops: list[Op] = wire(array(Op))

    entries: list[Entry] = wire(array(Entry))
    validate_only: bool = wire(boolean)


@response(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse(Response):
    """The new token."""

    error_code: int = wire(int16)
    principal_type: str = wire(string)
    principal_name: str = wire(string)
    token_requester_principal_type: str = wire(string, "3+")
    token_requester_principal_name: str = wire(string, "3+")
    issue_timestamp_ms: int = wire(int64)
    expiry_timestamp_ms: int = wire(int64)
    max_timestamp_ms: int = wire(int64)
    token_id: str = wire(string)
    hmac: bytes = wire(bytestring, secret=True)
    throttle_time_ms: int = wire(int32)


@request(api_key=38, versions="1-3", flexible="2+", since="2.0")
class CreateDelegationTokenRequest(Request[CreateDelegationTokenResponse]):
    """Create a delegation token."""

    @struct
    class Renewer:
        principal_type: str = wire(string)
        principal_name: str = wire(string)

    owner_principal_type: str | None = wire(string, "3+", nullable="3+")
    owner_principal_name: str | None = wire(string, "3+", nullable="3+")
    renewers: list[Renewer] = wire(array(Renewer))
    max_lifetime_ms: int = wire(int64)


@response(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse(Response):
    """The new expiry of the token."""

    error_code: int = wire(int16)
    expiry_timestamp_ms: int = wire(int64)
    throttle_time_ms: int = wire(int32)


@request(api_key=39, versions="1-2", flexible="2+", since="2.0")
class RenewDelegationTokenRequest(Request[RenewDelegationTokenResponse]):
    """Renew a token, which sets a new expiry."""

    hmac: bytes = wire(bytestring, secret=True)
    renew_period_ms: int = wire(int64)


@response(api_key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse(Response):
    """The new expiry of the token."""

    error_code: int = wire(int16)
    expiry_timestamp_ms: int = wire(int64)
    throttle_time_ms: int = wire(int32)


@request(api_key=40, versions="1-2", flexible="2+", since="2.0")
class ExpireDelegationTokenRequest(Request[ExpireDelegationTokenResponse]):
    """Set the expiry of a token; a negative period expires the token now."""

    hmac: bytes = wire(bytestring, secret=True)
    expiry_time_period_ms: int = wire(int64)


@response(api_key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse(Response):
    """The tokens, with their secrets."""

    @struct
    class Token:
        @struct
        class Renewer:
            principal_type: str = wire(string)
            principal_name: str = wire(string)

        principal_type: str = wire(string)
        principal_name: str = wire(string)
        token_requester_principal_type: str = wire(string, "3+")
        token_requester_principal_name: str = wire(string, "3+")
        issue_timestamp: int = wire(int64)
        expiry_timestamp: int = wire(int64)
        max_timestamp: int = wire(int64)
        token_id: str = wire(string)
        hmac: bytes = wire(bytestring, secret=True)
        renewers: list[Renewer] = wire(array(Renewer))

    error_code: int = wire(int16)
    tokens: list[Token] = wire(array(Token))
    throttle_time_ms: int = wire(int32)


@request(api_key=41, versions="1-3", flexible="2+", since="2.0")
class DescribeDelegationTokenRequest(Request[DescribeDelegationTokenResponse]):
    """Ask for the tokens of owners; `owners=None` means all owners."""

    @struct
    class Owner:
        principal_type: str = wire(string)
        principal_name: str = wire(string)

    owners: list[Owner] | None = wire(array(Owner), nullable="0+")
