"""How a ready-made pipeline declares its options: once, for its function and for its command."""

import dataclasses
import re
from dataclasses import MISSING, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kerolox.spark.connecting import connect_of
from kerolox.spark.given import Given, OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kerolox.client.options import Options

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
    tls_ca: str | None = option(None, help="Encrypt, and verify servers by this CA; a file on every machine.")
    format_options: tuple[str, ...] = option(
        (), help="An option of format rocketmq, such as failOnDataLoss=false; may be repeated.", flag="--option"
    )

    def __post_init__(self) -> None:
        pairs_of(self.format_options, "option")

    @property
    def connecting(self) -> dict[str, str]:
        """Where the cluster is, for `format("rocketmq")`."""
        keys = {"accessKey": self.access_key, "secretKey": self.secret_key, "tlsTrustCertPath": self.tls_ca}
        given = {name: value for name, value in keys.items() if value is not None}
        return {"nameServer": self.name_server, **given, **({"tls": "true"} if self.tls else {})}

    @property
    def connection(self) -> dict[str, Any]:
        """The same for the options of another pipeline."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Connection)}

    def reading(self, spark: "SparkSession", own: dict[str, str], *, is_stream: bool) -> dict[str, str]:
        """Returns all options with which topics are read: the pipeline's own, and what was given beside.

        What is wrong with them is told here: of a stream, Spark tells something else.
        On a cluster there are tasks for all its cores; by itself the format knows only those of the driver's machine.
        """
        given = pairs_of(self.format_options, "option")
        if any(name.lower().startswith("starting") for name in given):
            # What was given says where to begin.
            own = {name: value for name, value in own.items() if name != "startingOffsets"}
        context = spark.sparkContext
        if "minpartitions" not in map(str.lower, given) and not (context.master or "").startswith("local"):
            own = {**own, "minPartitions": str(context.defaultParallelism)}
        from kerolox.spark.options import read_options

        options = joined({**self.connecting, **own}, given)
        read_options(options, is_stream=is_stream)
        return options

    def client_options(self) -> "Options":
        """The same for clients that do without Spark; of what was given beside they take how to connect."""
        given = joined(self.connecting, pairs_of(self.format_options, "option"))
        return connect_of(Given(given)).client_options()


def pairs_of(texts: tuple[str, ...], name: str) -> dict[str, str]:
    """Returns what texts such as `failOnDataLoss=false` say; OptionError names the option if one says nothing."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise OptionError(f"{name} is {text!r}: give KEY=VALUE, such as retryTimeout=5m")
        pairs[key] = value
    return pairs


def joined(own: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    """Returns both; OptionError if one that was given contradicts what the pipeline says itself."""
    known = {name.lower(): value for name, value in own.items()}
    for name, value in given.items():
        if known.get(name.lower(), value) != value:
            raise OptionError(f"option {name} is {known[name.lower()]!r} by the pipeline itself: leave it out")
    return {**own, **given}


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
