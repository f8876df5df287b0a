"""A NameServer and brokers in this process."""

from contextlib import AsyncExitStack
from pathlib import Path

from kerolox.broker import Broker, Settings
from kerolox.namesrv import NameServer, NamesrvConfig

# Small enough that making the files takes no time; a test that needs more says so.
_SMALL = {
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 3000),
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    # A machine that runs tests may be busy, and nobody's test should fail for that.
    "waitTimeMillsInSendQueue": "30000",
}


class Cluster:
    """`async with Cluster(directory) as cluster: ... cluster.namesrv_addr`. Stores are kept in `directory`."""

    def __init__(
        self, directory: Path, *, brokers: int = 1, settings: dict[str, str] | None = None, name: str = "DefaultCluster"
    ) -> None:
        self._directory = directory
        self._count = brokers
        self._settings = settings or {}
        self._name = name
        self._running = AsyncExitStack()
        self.name_server = NameServer(
            NamesrvConfig(
                listen_port=0,
                kv_config_path=directory / "namesrv" / "kvConfig.json",
                config_store_path=directory / "namesrv" / "namesrv.properties",
            )
        )
        self.brokers: list[Broker] = []

    @property
    def namesrv_addr(self) -> str:
        """What clients are configured with."""
        return self.name_server.address

    async def __aenter__(self) -> "Cluster":
        async with AsyncExitStack() as starting:
            await starting.enter_async_context(self.name_server)
            for number in range(self._count):
                broker = self._broker(f"broker-{chr(ord('a') + number)}")
                self.brokers.append(await starting.enter_async_context(broker))
            self._running = starting.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._running.aclose()

    def _broker(self, name: str) -> Broker:
        settings = Settings()
        settings.update(
            {
                **_SMALL,
                "brokerName": name,
                "brokerClusterName": self._name,
                "namesrvAddr": self.namesrv_addr,
                "listenPort": "0",
                "storePathRootDir": str(self._directory / name),
                **self._settings,
            }
        )
        return Broker(settings)
