"""Attributes of topics and groups, as 5.x has them: which there are, and how they are changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from kerolox.errors import SystemFailure

MESSAGE_TYPE = "message.type"
MIXED = "MIXED"


@dataclass(frozen=True, slots=True)
class Attribute:
    """What values it may have; one that is not changeable is given when the topic is made, or never."""

    is_changeable: bool
    # None stands for a number, not below -1.
    values: tuple[str, ...] | None = None


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    "queue.type": Attribute(False, ("BatchCQ", "SimpleCQ")),
    "cleanup.policy": Attribute(False, ("DELETE", "COMPACTION")),
    MESSAGE_TYPE: Attribute(True, ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", MIXED)),
    "reserve.time": Attribute(True),
}
GROUP_ATTRIBUTES: Mapping[str, Attribute] = {}

_NUMBER_MAX = 2**63 - 1


def parse(text: str | None) -> dict[str, str]:
    """Returns the changes that a text such as `+message.type=FIFO,-reserve.time` asks for, each with its sign.

    SystemFailure, in the original's words, if it is not written so.
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
    """Returns the attributes after the changes; `current` is None for what is being made.

    SystemFailure, in the original's words, if one of them cannot be.
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
            result[key] = _checked(attribute, value)
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


def _checked(attribute: Attribute, value: str) -> str:
    if attribute.values is not None:
        if value not in attribute.values:
            raise SystemFailure(f"value is not in set: [{', '.join(attribute.values)}]")
        return value
    # Longer texts are slow to read, and out of range.
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise SystemFailure(f'For input string: "{value[:100]}"')
    if len(value) > 19 or not -1 <= int(value) <= _NUMBER_MAX:
        raise SystemFailure(f"value is not in range(-1, {_NUMBER_MAX})")
    return value
