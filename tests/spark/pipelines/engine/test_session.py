"""Configuration of a command's session, without starting one."""

import builtins
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from kerolox.errors import ConfigurationError
from kerolox.spark.pipelines.engine import session
from tests.spark.conftest import environment


def test_a_missing_spark_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pyspark":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(ConfigurationError, match=r"pip install '.*\[spark\]'"):
        session.check_installed()


@pytest.mark.parametrize("is_submitted", [False, True])
@pytest.mark.timeout(600)
def test_existing_spark_settings_are_kept(tmp_path: Path, is_submitted: bool) -> None:
    settings = {"spark.master": "spark://127.0.0.1:1", "spark.sql.shuffle.partitions": "7", "spark.app.name": "theirs"}
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    script = tmp_path / "script.py"
    script.write_text(
        "from kerolox.spark import prepare\n"
        "prepare()\n"
        "from kerolox.spark.pipelines.engine.session import _configuration\n"
        "conf = _configuration('ours', None, {'spark.ui.port': '0'})\n"
        "names = ('master', 'sql.shuffle.partitions', 'app.name', 'ui.port', 'driver.host', 'sql.session.timeZone')\n"
        "print(*(conf.get(f'spark.{name}') for name in names))\n"
    )
    spark_submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")

    ended = subprocess.run(
        [spark_submit if is_submitted else sys.executable, str(script)],
        env={**environment(), "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    name = "theirs" if is_submitted else "ours"
    assert ended.stdout.split() == ["spark://127.0.0.1:1", "7", name, "0", "None", "UTC"], ended.stderr


def test_spark_is_silenced_unless_log4j_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dlog4j2.configurationFile=mine")
    session._silence_startup()
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dlog4j2.configurationFile=mine"

    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dx=1")
    session._silence_startup()
    assert os.environ["SPARK_SUBMIT_OPTS"].startswith("-Dx=1 -Dlog4j2.configurationFile=file:///")
