"""A cluster on its own thread, whose brokers can be stopped and started."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kerolox.admin.sync import AdminClient
from kerolox.broker import Broker, Settings
from kerolox.client import Message
from kerolox.client.sync import Producer
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.wire.bodies.queues import MessageQueue

R = TypeVar("R")

_SMALL = {
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 3000),
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    "waitTimeMillsInSendQueue": "30000",
    "autoCreateTopicEnable": "false",
}


class Brokers:
    """`with Brokers(directory) as cluster`: a NameServer, and brokers by name."""

    def __init__(self, directory: Path, *names: str, **settings: str) -> None:
        self._directory = directory
        self._names = names or ("broker-a",)
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="brokers", daemon=True)
        self.brokers: dict[str, Broker] = {}

    def __enter__(self) -> "Brokers":
        self._thread.start()
        config = NamesrvConfig(
            listen_port=0,
            kv_config_path=self._directory / "kvConfig.json",
            config_store_path=self._directory / "namesrv.properties",
        )
        config.update({key: value for key, value in self._settings.items() if key.startswith("tls.")})
        self._name_server = NameServer(config)
        self.wait(self._name_server.open())
        self._has_name_server = True
        for name in self._names:
            self.start(name)
        self.admin = AdminClient(namesrv_addr=self.namesrv_addr).__enter__()
        self._producer = Producer("tests", namesrv_addr=self.namesrv_addr).__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._producer.__exit__(None, None, None)
        self.admin.__exit__(None, None, None)
        for name in list(self.brokers):
            self.stop(name)
        self.stop_name_server()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    @property
    def namesrv_addr(self) -> str:
        return self._name_server.address

    def start(self, name: str, **settings: str) -> None:
        """Start a broker on its old store, on a new port."""
        broker = self._broker(name, settings)
        self.wait(broker.open())
        self.brokers[name] = broker

    def stop(self, name: str) -> None:
        self.wait(self.brokers.pop(name).close())

    def stop_name_server(self) -> None:
        if self._has_name_server:
            self._has_name_server = False
            self.wait(self._name_server.close())

    def _broker(self, name: str, settings: dict[str, str]) -> Broker:
        all_settings = Settings()
        all_settings.update(
            {
                **_SMALL,
                "brokerName": name,
                "brokerClusterName": "DefaultCluster",
                "namesrvAddr": self.namesrv_addr,
                "listenPort": "0",
                "storePathRootDir": str(self._directory / name),
                **self._settings,
                **settings,
            }
        )
        return Broker(all_settings)

    def create(self, topic: str, queues: int = 2, broker: str | None = None) -> None:
        self.admin.topics.create(topic, broker=broker, write_queues=queues, read_queues=queues)

    def send(
        self, topic: str, *bodies: bytes, queue_id: int = 0, broker: str = "broker-a", **fields: Any
    ) -> list[bytes]:
        """Send messages to one queue, in order; on return they are visible to readers."""
        queue = MessageQueue(broker, queue_id, topic)
        for first in range(0, len(bodies), 500):
            messages = [Message(topic, body, **fields) for body in bodies[first : first + 500]]
            self._producer.send(messages, queue=queue)
        # The broker responds before it dispatches to queues and index; that happens by its next loop iteration.
        self.wait(asyncio.sleep(0))
        return list(bodies)

    def fill(self, topic: str, count: int, queues: int = 2, broker: str = "broker-a") -> list[bytes]:
        """Send numbered messages to all queues of a broker; return their bodies."""
        numbers = [b"%06d" % number for number in range(count)]
        for queue_id in range(queues):
            self.send(topic, *numbers[queue_id::queues], queue_id=queue_id, broker=broker)
        return numbers


def numbered(count: int, prefix: bytes = b"") -> Sequence[bytes]:
    return [prefix + b"%d" % number for number in range(count)]
