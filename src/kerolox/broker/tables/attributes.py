"""Attributes of topics and groups in RocketMQ 5.x: which exist and how they are changed (AttributeUtil)."""

from collections.abc import Mapping
from dataclasses import dataclass

from kerolox.broker.errors import InvalidParameter
from kerolox.errors import SystemFailure
from kerolox.store.queue.queue_types import BATCH_QUEUE, QUEUE_TYPE

MESSAGE_TYPE = "message.type"
MIXED = "MIXED"


@dataclass(frozen=True, slots=True)
class Attribute:
    """The values that an attribute accepts. One that is not changeable can be set only when the topic is created."""

    is_changeable: bool
    # None: an integer of at least -1.
    values: tuple[str, ...] | None = None
    # Values that are valid in Java but not supported by this broker.
    unsupported: tuple[str, ...] = ()


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    QUEUE_TYPE: Attribute(False, (BATCH_QUEUE, "SimpleCQ"), unsupported=(BATCH_QUEUE,)),
    "cleanup.policy": Attribute(False, ("DELETE", "COMPACTION")),
    MESSAGE_TYPE: Attribute(True, ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", MIXED)),
    "reserve.time": Attribute(True),
}
GROUP_ATTRIBUTES: Mapping[str, Attribute] = {}

_NUMBER_MAX = 2**63 - 1


def parse(text: str | None) -> dict[str, str]:
    """Parse a text such as `+message.type=FIFO,-reserve.time` into signed keys and their values.

    Raises SystemFailure with Java's message if the syntax is wrong.
    """
    changes: dict[str, str] = {}
    for change in text.split(",") if text else ():
        key, equals, value = change.partition("=")
        if equals and "+" not in key:
            raise SystemFailure(f"add/alter attribute format is wrong: {key}")
        if not equals and "-" not in key:
            raise SystemFailure(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise SystemFailure(f"key duplication: {key}")
        changes[key] = value
    return changes


def alter(
    known: Mapping[str, Attribute], current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """Return the attributes after applying `changes`; `current` is None if the topic or group is being created.

    Raises SystemFailure with Java's message if a change is not valid, InvalidParameter if this broker does not support
    the value.
    """
    result = dict(current or {})
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key:
            raise SystemFailure("kv string format wrong.")
        if key in seen:
            raise SystemFailure(f"alter duplication key. key: {key}")
        seen.add(key)
        _check_sign(sign, key, current)
        attribute = known.get(key)
        if attribute is None:
            raise SystemFailure(f"unsupported key: {key}")
        if current is not None and not attribute.is_changeable:
            raise SystemFailure(f"attempt to update an unchangeable attribute. key: {key}")
        if sign == "-":
            del result[key]
        else:
            result[key] = _validated(key, attribute, value)
    return result


def _check_sign(sign: str, key: str, current: Mapping[str, str] | None) -> None:
    if current is None:
        if sign != "+":
            raise SystemFailure(f"only add attribute is supported while creating topic. key: {key}")
    elif sign == "-":
        if key not in current:
            raise SystemFailure(f"attempt to delete a nonexistent key: {key}")
    elif sign != "+":
        raise SystemFailure(f"wrong format key: {key}")


def _validated(key: str, attribute: Attribute, value: str) -> str:
    if value in attribute.unsupported:
        raise InvalidParameter(f"{key}={value} is not supported: leave {key} out")
    if attribute.values is not None:
        if value not in attribute.values:
            raise SystemFailure(f"value is not in set: [{', '.join(attribute.values)}]")
        return value
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise SystemFailure(f'For input string: "{value[:100]}"')
    # The length is checked first: int() takes quadratic time, and a longer number is out of range anyway.
    if len(value) > 19 or not -1 <= int(value) <= _NUMBER_MAX:
        raise SystemFailure(f"value is not in range(-1, {_NUMBER_MAX})")
    return value
