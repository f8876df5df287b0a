"""Options of the ready-made pipelines, declared once for the function and for the command."""

import dataclasses
import re
from dataclasses import MISSING, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kerolox.spark.cluster.connection import parse_connection_options
from kerolox.spark.option_parser import OptionError, OptionParser

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
    """Return a dataclass field with the metadata for its command line option.

    On the command line it may have another name, `flag`, and a default from the environment, `envvar`.
    """
    metadata = {"help": help, "flag": flag, "envvar": envvar}
    return dataclasses.field(default=default, repr=not is_secret, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """The options that all pipelines share: how to connect, and options for format("rocketmq")."""

    name_server: str = option(
        DEFAULT_NAME_SERVER,
        help="NameServers, separated by ';'; by default those of NAMESRV_ADDR.",
        flag="-n,--namesrv",
        envvar="NAMESRV_ADDR",
    )
    access_key: str | None = option(None, help="Access key, if brokers require one.", envvar="KEROLOX_ACCESS_KEY")
    secret_key: str | None = option(None, help="Its secret key.", envvar="KEROLOX_SECRET_KEY", is_secret=True)
    tls: bool = option(False, help="Use TLS.")
    tls_ca: str | None = option(None, help="Use TLS, and verify servers with this CA file (on every machine).")
    format_options: tuple[str, ...] = option(
        (), help="An option of format rocketmq, such as failOnDataLoss=false; may be repeated.", flag="--option"
    )

    def __post_init__(self) -> None:
        parse_pairs(self.format_options, "option")

    @property
    def connection_options(self) -> dict[str, str]:
        """The connection as options of `format("rocketmq")`."""
        keys = {"accessKey": self.access_key, "secretKey": self.secret_key, "tlsTrustCertPath": self.tls_ca}
        given = {name: value for name, value in keys.items() if value is not None}
        return {"nameServer": self.name_server, **given, **({"tls": "true"} if self.tls else {})}

    @property
    def connection_fields(self) -> dict[str, Any]:
        """The shared fields, to create the options of another pipeline."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(PipelineOptions)}

    def topic_read_options(self, spark: "SparkSession", own: dict[str, str], *, is_stream: bool) -> dict[str, str]:
        """Return all options for reading topics: the pipeline's own, and those given with --option.

        They are checked here, because Spark hides the error if a stream fails to start. On a cluster, minPartitions is
        set to the number of its cores; by default the format assumes the cores of the driver's machine.
        """
        given = parse_pairs(self.format_options, "option")
        if any(name.lower().startswith("starting") for name in given):
            # A given starting option replaces the pipeline's own.
            own = {name: value for name, value in own.items() if name != "startingOffsets"}
        context = spark.sparkContext
        if "minpartitions" not in map(str.lower, given) and not (context.master or "").startswith("local"):
            own = {**own, "minPartitions": str(context.defaultParallelism)}
        from kerolox.spark.options import read_options

        options = merged_options({**self.connection_options, **own}, given)
        read_options(options, is_stream=is_stream)
        return options

    def client_options(self) -> "Options":
        """Return options for clients without Spark, with the connection options given with --option."""
        given = merged_options(self.connection_options, parse_pairs(self.format_options, "option"))
        return parse_connection_options(OptionParser(given)).client_options()


def parse_pairs(texts: tuple[str, ...], name: str) -> dict[str, str]:
    """Parse texts such as `failOnDataLoss=false`; OptionError names the option if one is malformed."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise OptionError(f"{name} is {text!r}: give KEY=VALUE, such as retryTimeout=5m")
        pairs[key] = value
    return pairs


def merged_options(own: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    """Return both; OptionError if a given option contradicts one that the pipeline sets itself."""
    known = {name.lower(): value for name, value in own.items()}
    for name, value in given.items():
        if known.get(name.lower(), value) != value:
            raise OptionError(f"option {name} is set to {known[name.lower()]!r} by the pipeline: leave it out")
    return {**own, **given}


def subscription_of(topics: tuple[str, ...], pattern: str | None) -> dict[str, str]:
    """Return the topics to read as options of `format("rocketmq")`; OptionError unless exactly one is given."""
    if bool(topics) == bool(pattern):
        what = "contradict each other" if topics else "are both missing"
        raise OptionError(f"topic and pattern {what}: give one of them")
    return {"subscribe": ",".join(topics)} if topics else {"subscribePattern": pattern or ""}


def parse_trigger(text: str) -> dict[str, Any]:
    """Return keyword arguments of `writeStream.trigger`; OptionError if the text is not a trigger."""
    if text.lower() == AVAILABLE_NOW.lower():
        return {"availableNow": True}
    if not _INTERVAL.fullmatch(text):
        raise OptionError(f"trigger is {text!r}: give {AVAILABLE_NOW}, or an interval such as '10 seconds'")
    return {"processingTime": text}


def parse_timestamp(text: str, name: str) -> int:
    """Parse a time to milliseconds; OptionError names the option if it is malformed."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(f"{name} is {text!r}: give 2026-01-31T12:00:00, or milliseconds since 1970") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
