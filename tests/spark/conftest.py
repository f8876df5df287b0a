"""One Spark session for all tests, since it takes seconds to start."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pyspark = pytest.importorskip("pyspark", reason="kerolox[spark] is not installed")

from kerolox.spark import prepare  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parents[2]
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
}


def environment() -> dict[str, str]:
    """Return the environment for processes with their own Spark, with this source tree on the path."""
    environ = dict(os.environ)
    prepare(environ)
    environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT / "src"), str(_ROOT), environ.get("PYTHONPATH", "")])
    environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers start often, and should not compile their imports each time.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    environ["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / f"kerolox-tests-{os.getuid()}")
    return environ


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests with Spark more time: a timeout would leave the shared session unusable."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession

    for name in set(os.environ) - set(environment()):
        del os.environ[name]
    os.environ.update(environment())
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
