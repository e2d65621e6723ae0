"""kafka-python's errors as ours, by one table."""

from __future__ import annotations

from collections.abc import Mapping

from kafka import errors as kafka_errors

from kstreams_assign.errors import (
    BrokerError,
    BrokerUnavailable,
    CommitDeferred,
    CommitRefused,
    ConfigError,
    InstanceFenced,
    KStreamsAssignError,
)

_ERRORS: Mapping[type[BaseException], type[KStreamsAssignError]] = {
    kafka_errors.RebalanceInProgressError: CommitDeferred,
    kafka_errors.CommitFailedError: CommitRefused,
    kafka_errors.FencedInstanceIdError: InstanceFenced,
    kafka_errors.UnknownMemberIdError: CommitRefused,
    kafka_errors.IllegalGenerationError: CommitRefused,
    kafka_errors.StaleMemberEpochError: CommitDeferred,
    kafka_errors.FencedMemberEpochError: CommitRefused,
    kafka_errors.KafkaTimeoutError: BrokerUnavailable,
    kafka_errors.KafkaConfigurationError: ConfigError,
    kafka_errors.InvalidSessionTimeoutError: ConfigError,
    kafka_errors.InconsistentGroupProtocolError: ConfigError,
    kafka_errors.UnknownBrokerIdError: BrokerUnavailable,  # how the leader of a partition without one is called
    kafka_errors.RetriableError: BrokerUnavailable,
    kafka_errors.KafkaError: BrokerError,
}
"""kafka-python's errors -> ours; the first row that matches counts."""

_MEANINGS: Mapping[type[BaseException], str] = {
    kafka_errors.InconsistentGroupProtocolError: (
        "the group named by application_id has members that share no protocol with this member: members of a streams "
        'group (group_protocol = "streams"), plain consumers, or members with another user_data. If they belong to '
        "this application, end them first; kstreams-assign migrate shows the members of a streams group and what a "
        "change of its protocol needs. Otherwise give this application an application_id of its own"
    ),
}
"""What an error means for an operator, where its own text does not say it."""


class translated:  # noqa: N801  # reads as a clause: with translated("commit offsets")
    """Turns kafka-python's errors into ours, by the table. ``texts``: the whole text of the errors of a type."""

    def __init__(self, doing: str, texts: Mapping[type[BaseException], str] | None = None) -> None:
        self._doing = doing
        self._texts = texts or {}

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if error is None or not isinstance(error, kafka_errors.KafkaError):
            return
        for refusal, text in self._texts.items():
            if isinstance(error, refusal):
                raise type(fault(error, self._doing))(text) from error
        raise fault(error, self._doing) from error


def session_refused(session_timeout_ms: int) -> Mapping[type[BaseException], str]:
    """Return the text of the error for a session timeout outside the brokers' limits, which they do not report."""
    return {
        kafka_errors.InvalidSessionTimeoutError: (
            f"session_timeout_ms = {session_timeout_ms}: the brokers refuse it; allowed is "
            "group.min.session.timeout.ms to group.max.session.timeout.ms of the brokers (6000 to 1800000 by default)"
        )
    }


def group_refused(group_id: str) -> Mapping[type[BaseException], str]:
    """Return the text of the error for a member without the right to its group."""
    return {
        kafka_errors.GroupAuthorizationFailedError: (
            f"group {group_id}: GROUP_AUTHORIZATION_FAILED: allow this member to read the group"
        )
    }


def fault(error: BaseException, doing: str) -> KStreamsAssignError:
    """Return our error for an error of the client; ``doing`` says what was being done."""
    ours = next(target for source, target in _ERRORS.items() if isinstance(error, source))
    name, text = type(error).__name__, str(error)
    meaning = "".join(f": {words}" for kind, words in _MEANINGS.items() if isinstance(error, kind))
    return ours(f"{doing}: {text if name in text else f'{name}: {text}'}{meaning}")
