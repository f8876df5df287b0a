"""How a ready-made pipeline declares its options: once, for its function and for its command."""

import dataclasses
import os
from dataclasses import MISSING, dataclass
from typing import Any

from kerolox.spark.given import OptionError

DEFAULT_NAME_SERVER = "127.0.0.1:9876"


def option(default: Any = MISSING, *, help: str, flag: str | None = None) -> Any:  # noqa: A002
    """Returns a field with what is told about it; `flag` is its name in a command, if that is another."""
    return dataclasses.field(default=default, metadata={"help": help, "flag": flag})


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where the cluster is, and who asks it."""

    name_server: str = option(
        os.environ.get("NAMESRV_ADDR", DEFAULT_NAME_SERVER),
        help="NameServers, several parted by ';'; else those of NAMESRV_ADDR, else 127.0.0.1:9876.",
        flag="-n,--namesrv",
    )
    access_key: str | None = option(None, help="Who asks, if brokers want to know.")
    secret_key: str | None = dataclasses.field(
        default=None, repr=False, metadata={"help": "How that is proved.", "flag": None}
    )
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
