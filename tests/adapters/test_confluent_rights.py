"""Topics that may not be written to, in the answer to one question about several."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation, AdminClient

from kstreams_assign.adapters.confluent.rights import forbidden_topics

NO_BROKER = "127.0.0.1:1"
READS, WRITES = [AclOperation.READ], [AclOperation.READ, AclOperation.WRITE]


def test_a_topic_that_does_not_exist_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Future[Any]] = {name: Future() for name in ("closed", "missing", "old broker", "open")}
    answers["missing"].set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    for name, rights in (("closed", READS), ("old broker", None), ("open", WRITES)):
        answers[name].set_result(SimpleNamespace(authorized_operations=rights))

    def describe_topics(_admin: AdminClient, topics: Any, **_: Any) -> Mapping[str, Future[Any]]:
        return {name: answers[name] for name in topics.topic_names}

    monkeypatch.setattr(AdminClient, "describe_topics", describe_topics)
    assert forbidden_topics(NO_BROKER, None, answers.keys()) == ["closed"]
