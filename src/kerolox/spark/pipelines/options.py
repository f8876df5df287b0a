"""How a ready-made pipeline declares its options: once, for its function and for its command."""

import dataclasses
import re
from dataclasses import MISSING, dataclass
from datetime import UTC, datetime
from typing import Any

from kerolox.spark.given import OptionError

DEFAULT_NAME_SERVER = "127.0.0.1:9876"
AVAILABLE_NOW = "availableNow"
_INTERVAL = re.compile(r"(\d+\s+(milli|micro)?(second|minute|hour|day|week)s?(\s+|$))+", re.IGNORECASE)


def option(
    default: Any = MISSING,
    *,
    help: str,  # noqa: A002
    flag: str | None = None,
    envvar: str | None = None,
    is_secret: bool = False,
) -> Any:
    """Returns a field with what is told about it.

    In a command it may have another name, `flag`, and is taken from a variable of the environment.
    """
    told = {"help": help, "flag": flag, "envvar": envvar}
    return dataclasses.field(default=default, repr=not is_secret, metadata=told)


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where the cluster is, and who asks it."""

    name_server: str = option(
        DEFAULT_NAME_SERVER,
        help="NameServers, several parted by ';'; else those of NAMESRV_ADDR.",
        flag="-n,--namesrv",
        envvar="NAMESRV_ADDR",
    )
    access_key: str | None = option(None, help="Who asks, if brokers want to know.", envvar="KEROLOX_ACCESS_KEY")
    secret_key: str | None = option(None, help="How that is proved.", envvar="KEROLOX_SECRET_KEY", is_secret=True)
    tls: bool = option(False, help="Encrypt connections.")

    @property
    def connecting(self) -> dict[str, str]:
        """The same for `format("rocketmq")`."""
        keys = {"accessKey": self.access_key, "secretKey": self.secret_key}
        given = {name: value for name, value in keys.items() if value is not None}
        return {"nameServer": self.name_server, **given, **({"tls": "true"} if self.tls else {})}


def chosen(topics: tuple[str, ...], pattern: str | None) -> dict[str, str]:
    """Returns which topics are read, for `format("rocketmq")`; OptionError unless it is said once."""
    if bool(topics) == bool(pattern):
        what = "contradict each other" if topics else "are both missing"
        raise OptionError(f"topic and pattern {what}: give one of them")
    return {"subscribe": ",".join(topics)} if topics else {"subscribePattern": pattern or ""}


def trigger_of(text: str) -> dict[str, Any]:
    """Returns what `writeStream.trigger` takes; OptionError if it is no trigger."""
    if text.lower() == AVAILABLE_NOW.lower():
        return {"availableNow": True}
    if not _INTERVAL.fullmatch(text):
        raise OptionError(f"trigger is {text!r}: give {AVAILABLE_NOW}, or an interval such as '10 seconds'")
    return {"processingTime": text}


def moment(text: str, name: str) -> int:
    """Returns a time in milliseconds; OptionError names the option if it is none."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(f"{name} {text!r} is no time: give 2026-01-31T12:00:00, or milliseconds since 1970") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
