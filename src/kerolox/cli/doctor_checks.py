"""The checks of `kerolox doctor`: each returns what it found, and a remedy."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kerolox.admin import BrokerStatus
from kerolox.admin.consistency import View, differences
from kerolox.errors import ConnectFailed, KeroloxError
from kerolox.wire.bodies.routes import ClusterInfo

# Brokers refuse to write at 0.9 by default, and delete old files early from 0.75 on.
DISK_WARNING, DISK_FAILURE = 0.75, 0.90
CLOCK_WARNING_SECONDS = 5.0
FILES_MIN = 65_536
MAPS_MIN = 262_144
# Default ports of `kerolox up`, with the server that uses each and the flag that changes it.
PORTS = {
    9876: ("NameServer", "--namesrv-port"),
    10911: ("broker", "--broker-port"),
    10909: ("broker, VIP channel", "--broker-port"),
    8080: ("dashboard", "--dashboard-port"),
}

_START = "start one (kerolox up), or give its address with -n or NAMESRV_ADDR"
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


def check_reachable(what: str, address: str, error: Exception | None, remedy: str) -> Finding:
    """Report whether a server answered."""
    if error is None:
        return Finding(Level.OK, f"{what} {address} answers")
    return Finding(Level.FAILURE, f"{what} {address} does not answer: {' '.join(str(error).split())}", remedy)


def check_name_server(address: str, error: KeroloxError | None) -> Finding:
    """Report whether the server at an address is a NameServer that answers."""
    if error is None or isinstance(error, ConnectFailed):
        return check_reachable("NameServer", address, error, _START)
    port = address.rpartition(":")[2]
    return Finding(
        Level.FAILURE,
        f"something listens at {address}, but does not answer like a NameServer: {' '.join(str(error).split())}",
        f"see which process it is (`ss -ltnp 'sport = :{port}'`): if it is not a NameServer, stop it, or give the "
        "NameServer's address with -n or NAMESRV_ADDR; if it is one, it hangs: see its log",
    )


def check_agreement(views: Sequence[View]) -> Finding:
    """Report whether all NameServers list the same brokers, topics and topic routes."""
    found = differences(views)
    if not found:
        what = f"{len(views[0].brokers)} brokers, {len(views[0].topics)} topics and their routes"
        return Finding(Level.OK, f"{len(views)} NameServers agree on {what}")
    more = f" And {len(found) - _DIFFERENCES_MAX} more." if len(found) > _DIFFERENCES_MAX else ""
    return Finding(
        Level.FAILURE,
        f"NameServers do not agree: {' '.join(found[:_DIFFERENCES_MAX])}{more}",
        "list all NameServers in namesrvAddr of every broker, and look for a broker that cannot reach one",
    )


def check_masters(info: ClusterInfo) -> list[Finding]:
    """Report brokers without a master, and a cluster without brokers."""
    if not info.broker_addr_table:
        return [Finding(Level.FAILURE, "no broker is registered", "start one: kerolox broker -n NAMESERVER")]
    lost = [name for name, data in info.broker_addr_table.items() if 0 not in data.broker_addrs]
    return [
        Finding(Level.FAILURE, f"broker {name} has no master, so nothing can be sent to it", "start its master")
        for name in sorted(lost)
    ]


def check_advertised_address(name_servers: Iterable[str], broker: BrokerStatus) -> Finding | None:
    """Report a broker that advertises a loopback address, which clients on other machines cannot reach."""
    if not _is_loopback(broker.address):
        return None
    if all(map(_is_loopback, name_servers)):
        return Finding(Level.OK, f"broker {broker.name} serves this machine only ({broker.address})")
    return Finding(
        Level.FAILURE,
        f"broker {broker.name} advertises {broker.address}, which other machines cannot reach",
        "set its bindAddress=0.0.0.0, and brokerIP1 to the address at which clients reach it",
    )


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_port(number: int, is_free: bool, listener: str | None) -> Finding:
    """Report whether a default port of `kerolox up` is free."""
    what, flag = PORTS[number]
    if is_free:
        return Finding(Level.OK, f"port {number} ({what}) is free on this machine")
    who = listener or "a process of another user"
    return Finding(
        Level.WARNING,
        f"port {number} ({what}) is used on this machine by {who}",
        f"stop it, or choose another port with `kerolox up {flag} PORT`",
    )


def check_disk(broker: BrokerStatus) -> Finding | None:
    ratio = _number(broker.info.get("commitLogDiskRatio"))
    if ratio is None or ratio < 0:
        return None
    return _disk_finding(f"the disk of broker {broker.name}", ratio)


def check_local_disk(folder: Path, used: int, free: int) -> Finding:
    """Report how full the disk of `kerolox up` is, counted as a broker does.

    Blocks reserved for root are neither used nor free, so the ratio is used / (used + free) and not used / total.
    """
    return _disk_finding(
        f"the disk of {folder} ({free / 1e9:.1f} GB free)", used / (used + free) if used + free else 0.0
    )


def unusable_folder(folder: Path, error: OSError) -> Finding:
    """Report that `kerolox up` cannot use its data folder."""
    remedy = "give `kerolox up` another folder with --data, or set KEROLOX_HOME for all commands"
    return Finding(Level.FAILURE, f"folder {folder} cannot be used: {error.strerror or error}", remedy)


def _disk_finding(disk: str, ratio: float) -> Finding:
    what = f"{disk} is {ratio:.0%} full"
    if ratio >= DISK_FAILURE:
        return Finding(Level.FAILURE, what, "the broker refuses messages: free space, or lower fileReservedTime")
    if ratio >= DISK_WARNING:
        return Finding(Level.WARNING, what, "old messages are deleted early: free space, or lower fileReservedTime")
    return Finding(Level.OK, what)


def check_clock(broker: BrokerStatus, now_millis: int) -> Finding | None:
    """Compare a broker's clock with ours; its time is its boot timestamp plus its uptime, which is in whole seconds."""
    boot = _number(broker.info.get("bootTimestamp"))
    parts = _RUNTIME.search(broker.info.get("runtime", ""))
    if boot is None or parts is None:
        return None
    days, hours, minutes, seconds = map(int, parts.groups())
    there = boot / 1000 + ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    ahead = there - now_millis / 1000
    if abs(ahead) <= CLOCK_WARNING_SECONDS:
        return Finding(Level.OK, f"the clock of broker {broker.name} agrees with this machine's")
    return Finding(
        Level.WARNING,
        f"the clock of broker {broker.name} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this one",
        "run NTP on both: delayed messages, searches by time and traces depend on these clocks",
    )


def check_load(broker: BrokerStatus) -> Finding | None:
    """Report requests that wait long in a broker's queues."""
    waits = {
        name: int(_number(broker.info.get(f"{name}ThreadPoolQueueHeadWaitTimeMills")) or 0) for name in ("send", "pull")
    }
    slow = {name: wait for name, wait in waits.items() if wait > 200}
    if not slow:
        return None
    waiting = ", ".join(f"{name} requests wait {wait} ms" for name, wait in slow.items())
    return Finding(Level.WARNING, f"broker {broker.name}: {waiting}", "it is overloaded: add a broker")


def check_limits(files: int, maps: int | None) -> list[Finding]:
    """Report limits of this machine on open and mapped files that are too low for a busy server."""
    found = []
    if files < FILES_MIN:
        remedy = f"before you start a server: ulimit -n {FILES_MIN}, or LimitNOFILE={FILES_MIN} with systemd"
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
