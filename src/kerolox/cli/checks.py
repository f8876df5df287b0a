"""What `kerolox doctor` checks: each returns what it found, and what to do about it."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kerolox.admin import BrokerStatus
from kerolox.admin.agreement import View, differences
from kerolox.errors import ConnectFailed, KeroloxError
from kerolox.wire.bodies.routes import ClusterInfo

# Brokers refuse to write at 0.9 by default, and delete old files early from 0.75 on.
DISK_WARNING, DISK_FAILURE = 0.75, 0.90
CLOCK_WARNING_SECONDS = 5.0
FILES_MIN = 65_536
MAPS_MIN = 262_144
# Where `kerolox up` listens, for what, and by which flag it is told otherwise.
PORTS = {
    9876: ("NameServer", "--namesrv-port"),
    10911: ("broker", "--broker-port"),
    10909: ("broker, for senders", "--broker-port"),
    8080: ("dashboard", "--dashboard-port"),
}

_START = "start one (kerolox up), or give the address of one by -n or NAMESRV_ADDR"
_DIFFERENCES_MAX = 5

_RUNTIME = re.compile(r"(\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")


class Level(Enum):
    OK = "ok"
    WARNING = "warning"
    FAILURE = "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str
    remedy: str = ""


def reached(what: str, address: str, error: Exception | None, remedy: str) -> Finding:
    """Whether somebody answered."""
    if error is None:
        return Finding(Level.OK, f"{what} {address} answers")
    return Finding(Level.FAILURE, f"{what} {address} does not answer: {' '.join(str(error).split())}", remedy)


def answered(address: str, error: KeroloxError | None) -> Finding:
    """Whether a NameServer is there; or something that is none."""
    if error is None or isinstance(error, ConnectFailed):
        return reached("NameServer", address, error, _START)
    port = address.rpartition(":")[2]
    return Finding(
        Level.FAILURE,
        f"something listens at {address}, and does not answer as a NameServer: {' '.join(str(error).split())}",
        f"something else listens there (`ss -ltnp 'sport = :{port}'` says what): end it, or give the NameServer's "
        "address by -n or NAMESRV_ADDR; if it is one, it hangs, and its log says why",
    )


def agreement(views: Sequence[View]) -> Finding:
    """Whether all NameServers list the same brokers and topics, and the same routes of topics."""
    found = differences(views)
    if not found:
        what = f"{len(views[0].brokers)} brokers, {len(views[0].topics)} topics and their routes"
        return Finding(Level.OK, f"{len(views)} NameServers agree on {what}")
    more = f" And {len(found) - _DIFFERENCES_MAX} more." if len(found) > _DIFFERENCES_MAX else ""
    return Finding(
        Level.FAILURE,
        f"NameServers do not agree: {' '.join(found[:_DIFFERENCES_MAX])}{more}",
        "have namesrvAddr of every broker name all NameServers, and look for a broker that cannot reach one",
    )


def masters(info: ClusterInfo) -> list[Finding]:
    """Whether each broker has a master, and whether there is a broker at all."""
    if not info.broker_addr_table:
        return [Finding(Level.FAILURE, "no broker is registered", "start one: kerolox broker -n NAMESERVER")]
    lost = [name for name, data in info.broker_addr_table.items() if 0 not in data.broker_addrs]
    return [
        Finding(Level.FAILURE, f"broker {name} has no master, so that nothing can be sent to it", "start its master")
        for name in sorted(lost)
    ]


def advertised(name_servers: Iterable[str], broker: BrokerStatus) -> Finding | None:
    """Whether others could reach a broker at the address that clients are given."""
    if not _is_loopback(broker.address):
        return None
    if all(map(_is_loopback, name_servers)):
        return Finding(Level.OK, f"broker {broker.name} is for this machine only ({broker.address})")
    return Finding(
        Level.FAILURE,
        f"broker {broker.name} has clients come to {broker.address}, which is their own machine",
        "set its bindAddress=0.0.0.0 and brokerIP1 to the address that they reach it by",
    )


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def port(number: int, is_free: bool, listener: str | None) -> Finding:
    """Whether a server could be started here without being told of another port."""
    what, flag = PORTS[number]
    if is_free:
        return Finding(Level.OK, f"port {number} ({what}) is free here")
    who = listener or "somebody else's process"
    return Finding(
        Level.WARNING,
        f"port {number} ({what}) is taken here by {who}",
        f"end it, or choose another with `kerolox up {flag} PORT`",
    )


def disk(broker: BrokerStatus) -> Finding | None:
    ratio = _number(broker.info.get("commitLogDiskRatio"))
    if ratio is None or ratio < 0:
        return None
    return _disk(f"the disk of broker {broker.name}", ratio)


def local_disk(folder: Path, used: int, free: int) -> Finding:
    """Whether there is room where `kerolox up` keeps its data, as a broker would count it.

    What a file system keeps for its administrator is neither used nor free.
    """
    return _disk(f"the disk of {folder} ({free / 1e9:.1f} GB free)", used / (used + free) if used + free else 0.0)


def no_folder(folder: Path, error: OSError) -> Finding:
    """That `kerolox up` could not keep its data where it would."""
    remedy = "give `kerolox up` another folder with --data, or all commands one with KEROLOX_HOME"
    return Finding(Level.FAILURE, f"folder {folder} cannot be used: {error.strerror or error}", remedy)


def _disk(whose: str, ratio: float) -> Finding:
    what = f"{whose} is {ratio:.0%} full"
    if ratio >= DISK_FAILURE:
        return Finding(Level.FAILURE, what, "messages are refused there: free room, or lower fileReservedTime")
    if ratio >= DISK_WARNING:
        return Finding(Level.WARNING, what, "old messages are deleted early: free room, or lower fileReservedTime")
    return Finding(Level.OK, what)


def clock(broker: BrokerStatus, now_millis: int) -> Finding | None:
    """Whether a broker's clock is ours; it says when it began and for how long it has run since, in seconds."""
    boot = _number(broker.info.get("bootTimestamp"))
    parts = _RUNTIME.search(broker.info.get("runtime", ""))
    if boot is None or parts is None:
        return None
    days, hours, minutes, seconds = map(int, parts.groups())
    there = boot / 1000 + ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    ahead = there - now_millis / 1000
    if abs(ahead) <= CLOCK_WARNING_SECONDS:
        return Finding(Level.OK, f"the clock of broker {broker.name} is right")
    return Finding(
        Level.WARNING,
        f"the clock of broker {broker.name} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this one",
        "run a time service on both: delays, searches by time and traces go by these clocks",
    )


def load(broker: BrokerStatus) -> Finding | None:
    """Whether requests wait in a broker."""
    waits = {
        name: int(_number(broker.info.get(f"{name}ThreadPoolQueueHeadWaitTimeMills")) or 0) for name in ("send", "pull")
    }
    slow = {name: wait for name, wait in waits.items() if wait > 200}
    if not slow:
        return None
    told = ", ".join(f"{name} requests {wait} ms" for name, wait in slow.items())
    return Finding(Level.WARNING, f"in broker {broker.name} wait {told}", "it has more to do than it can: add a broker")


def limits(files: int, maps: int | None) -> list[Finding]:
    """Whether a server on this machine could have as many connections and files as it may need."""
    found = []
    if files < FILES_MIN:
        remedy = f"ulimit -n {FILES_MIN}, or LimitNOFILE={FILES_MIN} with systemd, before a server is started"
        found.append(Finding(Level.WARNING, f"a process here may open {files} files", remedy))
    else:
        found.append(Finding(Level.OK, f"a process here may open {files} files"))
    if maps is not None and maps < MAPS_MIN:
        remedy = f"sysctl -w vm.max_map_count={MAPS_MIN}"
        found.append(Finding(Level.WARNING, f"a process here may map {maps} files into memory", remedy))
    return found


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
