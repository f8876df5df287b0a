"""What a session of a command is made of, short of starting one."""

import builtins
from typing import Any

import pytest

from kerolox.errors import ConfigurationError
from kerolox.spark.pipelines import session


def test_without_spark_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pyspark":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(ConfigurationError, match=r"pip install 'kerolox\[spark\]'"):
        session.check_installed()


def test_spark_is_kept_quiet_unless_somebody_has_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dlog4j2.configurationFile=mine")
    session._be_quiet()
    assert session.os.environ["SPARK_SUBMIT_OPTS"] == "-Dlog4j2.configurationFile=mine"

    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dx=1")
    session._be_quiet()
    assert session.os.environ["SPARK_SUBMIT_OPTS"].startswith("-Dx=1 -Dlog4j2.configurationFile=file:///")
