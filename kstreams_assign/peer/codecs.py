"""``encode-subscription`` and its siblings: user-data between hex and the field names of Java's harness.

Layouts are unknown here. These names do not include our trailer, so what Java cannot see is not shown.
"""

from __future__ import annotations

from uuid import UUID

from kstreams_assign.model import NO_PROBE_MS
from kstreams_assign.observe.forms import assignment_form, subscription_form, texts
from kstreams_assign.peer import fields
from kstreams_assign.peer.lines import Json
from kstreams_assign.wire import (
    OFFSET_SUMS_VERSION,
    AssignmentInfo,
    FutureSubscription,
    SubscriptionInfo,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)


def encode_subscription_line(request: Json) -> Json:
    """Return ``{"hex"}``. Raises ``ConfigError``."""
    end_point = request.get("user_end_point")
    info = SubscriptionInfo(
        version=fields.number(fields.need(request, "version"), "version", fields.INT32_MAX),
        latest_supported_version=fields.number(
            fields.need(request, "latest_supported_version"), "latest_supported_version", fields.INT32_MAX
        ),
        process_id=fields.process_id(request),
        user_end_point=None if end_point is None else fields.text(end_point, "user_end_point"),
        task_offset_sums=fields.longs(request, "task_offset_sums"),
        unique_field=_signed_byte(fields.number_or(request, "unique_field", 0)),
        error_code=fields.number_or(request, "error_code", 0, fields.INT32_MAX),
        client_tags=fields.texts(request, "client_tags"),
    )
    return {"hex": encode_subscription(info).hex()}


def decode_subscription_line(request: Json) -> Json:
    """Return every field, and the wire order of its entries. Raises ``MalformedUserData``, ``ConfigError``."""
    info = decode_subscription(fields.raw_bytes(request))
    if isinstance(info, FutureSubscription):
        # Java's class shows the two versions and, for all other fields, those of an empty message
        info = SubscriptionInfo(info.used_version, info.latest_supported_version, UUID(int=0))
    return {**subscription_form(info), "wire_order": _wire_order(info)}


def encode_assignment_line(request: Json) -> Json:
    """Return ``{"hex"}``. Raises ``ConfigError``."""
    info = AssignmentInfo(
        version=fields.number(fields.need(request, "version"), "version", fields.INT32_MAX),
        commonly_supported_version=fields.number(
            fields.need(request, "commonly_supported_version"), "commonly_supported_version", fields.INT32_MAX
        ),
        active_tasks=tuple(fields.tasks(request, "active_tasks")),
        standby_tasks={
            fields.task(name): fields.topic_partitions(held, "standby_tasks")
            for name, held in fields.members(request, "standby_tasks").items()
        },
        partitions_by_host=fields.hosts(request, "partitions_by_host"),
        standby_partitions_by_host=fields.hosts(request, "standby_partitions_by_host"),
        error_code=fields.number_or(request, "err_code", 0, fields.INT32_MAX),
        next_rebalance_ms=fields.number_or(request, "next_rebalance_ms", NO_PROBE_MS),
    )
    return {"hex": encode_assignment(info).hex()}


def decode_assignment_line(request: Json) -> Json:
    """Return every field. Raises ``MalformedUserData``, ``ConfigError``."""
    return assignment_form(decode_assignment(fields.raw_bytes(request)))


def _signed_byte(number: int) -> int:
    """Convert as Java's cast to ``byte``."""
    return (number + 128) % 256 - 128


def _wire_order(info: SubscriptionInfo) -> Json:
    """Return entries in wire order: two lists of tasks in versions 1 to 6, later a list of sums."""
    sums, prev_tasks, standby_tasks = info.task_offset_sums, info.prev_tasks, info.standby_tasks
    listed = info.version < OFFSET_SUMS_VERSION
    return {
        "prev_tasks": [str(task) for task in sums if listed and task in prev_tasks],
        "standby_tasks": [str(task) for task in sums if listed and task in standby_tasks],
        "task_offset_sums": [] if listed else texts(sums),
        "client_tags": list(info.client_tags),
    }
