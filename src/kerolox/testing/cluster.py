"""A small cluster in the process of the tests."""

from pathlib import Path

from kerolox.broker import Settings
from kerolox.local import cluster
from kerolox.namesrv import NamesrvConfig

# Small files are created quickly. A test that needs larger ones passes `settings`.
_SMALL = {
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 3000),
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    # Long, so that tests do not fail on a busy machine.
    "waitTimeMillsInSendQueue": "30000",
}


class Cluster(cluster.Cluster):
    """`async with Cluster(directory) as cluster: ... cluster.namesrv_addr`. Stores are kept in `directory`."""

    def __init__(
        self, directory: Path, *, brokers: int = 1, settings: dict[str, str] | None = None, name: str = "DefaultCluster"
    ) -> None:
        name_server = NamesrvConfig(
            listen_port=0,
            kv_config_path=directory / "namesrv" / "kvConfig.json",
            config_store_path=directory / "namesrv" / "namesrv.properties",
        )
        names = [cluster.broker_name(number) for number in range(brokers)]
        super().__init__(name_server, [_settings(directory / each, name, settings or {}) for each in names])


def _settings(directory: Path, cluster_name: str, changes: dict[str, str]) -> Settings:
    settings = Settings()
    settings.update(
        {
            **_SMALL,
            "brokerName": directory.name,
            "brokerClusterName": cluster_name,
            "listenPort": "0",
            "storePathRootDir": str(directory),
            **changes,
        }
    )
    return settings
