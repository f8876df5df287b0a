"""A NameServer: brokers register, clients query routes, brokers disconnect. Exits with 0 only if all checks pass."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from kerolox.errors import TopicNotFound
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.client import Client
from kerolox.wire.bodies.registration import RegisterBrokerBody, crc32
from kerolox.wire.bodies.routes import ClusterInfo, TopicRouteData
from kerolox.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from kerolox.wire.headers.namesrv import (
    GetBrokerClusterInfo,
    GetRouteInfoByTopic,
    RegisterBroker,
    WipeWritePermOfBroker,
)

console = Console()
BROKERS, TOPICS, QUERIES, CONCURRENCY = 3, 200, 20_000, 256


async def register(client: Client, address: str, number: int) -> None:
    """Registers a broker, as real brokers do every thirty seconds."""
    topics = {f"orders-{n}": TopicConfig(topic_name=f"orders-{n}", write_queue_nums=8) for n in range(TOPICS)}
    body = RegisterBrokerBody([], TopicConfigTable(DataVersion(counter=1), topics)).encode()
    header = RegisterBroker(
        cluster_name="DemoCluster",
        broker_name=f"broker-{number}",
        broker_id=0,
        broker_addr=f"127.0.0.1:1091{number}",
        ha_server_addr=f"127.0.0.1:1092{number}",
        body_crc32=crc32(body),
    )
    await client.call(address, header, body)


async def route(client: Client, address: str, topic: str) -> TopicRouteData:
    return TopicRouteData.decode((await client.call(address, GetRouteInfoByTopic(topic=topic))).body)


def show(title: str, found: TopicRouteData) -> None:
    table = Table("broker", "address", "queues", "permission", title=title, title_justify="left")
    addresses = {broker.broker_name: broker.broker_addrs for broker in found.broker_datas}
    for queues in found.queue_datas:
        perm = ("r" if queues.perm & 4 else "-") + ("w" if queues.perm & 2 else "-")
        table.add_row(queues.broker_name, addresses[queues.broker_name][0], str(queues.write_queue_nums), perm)
    console.print(table)


async def main(directory: Path) -> bool:
    config = NamesrvConfig(listen_port=0, kv_config_path=directory / "kvConfig.json")
    before = time.perf_counter()
    async with NameServer(config) as server, Client() as client:
        console.print(f"A NameServer listens on {server.address} ({(time.perf_counter() - before) * 1000:.0f} ms).\n")
        brokers = [Client() for _ in range(BROKERS)]
        for number, broker in track(list(enumerate(brokers)), f"registering {BROKERS} brokers", console=console):
            await register(broker, server.address, number)
        all_three = await route(client, server.address, "orders-7")
        show("\nThe route of topic orders-7", all_three)

        before = time.perf_counter()
        for _ in track(range(QUERIES // CONCURRENCY), f"client for {QUERIES:,} routes", console=console):
            await asyncio.gather(
                *(
                    client.call(server.address, GetRouteInfoByTopic(topic=f"orders-{n % TOPICS}"))
                    for n in range(CONCURRENCY)
                )
            )
        rate = QUERIES / (time.perf_counter() - before)
        console.print(f"{rate:,.0f} routes a second, with client and server in this one process.\n")

        wiped = (await client.call(server.address, WipeWritePermOfBroker(broker_name="broker-0"))).fields
        await brokers[1].close()
        while len((await route(client, server.address, "orders-7")).queue_datas) == BROKERS:
            pass
        left = await route(client, server.address, "orders-7")
        show("After broker-0 lost its write permission and broker-1 its connection", left)

        for broker in (brokers[0], brokers[2]):
            await broker.close()
        while ClusterInfo.decode((await client.call(server.address, GetBrokerClusterInfo())).body).broker_addr_table:
            pass
        try:
            await route(client, server.address, "orders-7")
            is_gone = False
        except TopicNotFound:
            is_gone = True
            console.print("\nAfter all brokers disconnected, topic orders-7 has no route any more.")
        return (
            len(all_three.queue_datas) == BROKERS
            and wiped.wipe_topic_count == TOPICS
            and {queues.broker_name: queues.perm for queues in left.queue_datas} == {"broker-0": 4, "broker-2": 6}
            and is_gone
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        agrees = asyncio.run(main(Path(temporary)))
    console.print(
        "Everything agrees. Next: `make up` runs a NameServer for your brokers, README.md says how to use it."
        if agrees
        else "[red]Something does not agree.[/red]"
    )
    sys.exit(not agrees)
