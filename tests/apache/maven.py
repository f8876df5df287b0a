"""Downloads a version of Apache RocketMQ from Maven into the user's cache and returns its class path."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_RESOLVE_SECONDS = 900.0

# Published artifacts by version: 4.9.8 has only the client side, and 5.5 has no rocketmq-acl.
_ARTIFACTS = {
    "4.9.7": ("namesrv", "broker"),
    "4.9.8": ("client", "tools", "acl"),
    "5.5.0": ("namesrv", "broker", "client", "tools", "example"),
}

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kerolox.test</groupId>
  <artifactId>apache-{version}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""

_DEPENDENCY = """\
    <dependency>
      <groupId>org.apache.rocketmq</groupId>
      <artifactId>rocketmq-{artifact}</artifactId>
      <version>{version}</version>
    </dependency>
"""


class MavenError(Exception):
    """Maven failed to resolve the jars; the message ends with its output."""


def cache_directory() -> Path:
    """Return the directory of these tests in the user's cache; creates it if needed."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(root) / "kerolox"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@functools.cache
def classpath(version: str) -> str:
    """Return the class path of all artifacts of that version; resolves it at most once.

    For a server ask with `SERVER_VERSIONS[version]`. Two processes may ask at once: each works in
    a directory of its own and the last rename wins.
    """
    return resolved(_pom(version), f"apache/{version}")


def resolved(pom: str, name: str) -> str:
    """Return the class path of a POM, cached under `name`. Raises MavenError if it cannot be resolved."""
    directory = cache_directory() / name
    directory.mkdir(parents=True, exist_ok=True)
    stored = directory / f"classpath-{hashlib.sha256(pom.encode()).hexdigest()[:16]}.txt"
    if stored.exists():
        jars = stored.read_text()
        if _all_exist(jars):
            return jars
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        _resolve(pom, Path(scratch)).replace(stored)
    return stored.read_text()


def _pom(version: str) -> str:
    artifacts = _ARTIFACTS[version]
    dependencies = "".join(_DEPENDENCY.format(artifact=artifact, version=version) for artifact in artifacts)
    return _POM.format(version=version, dependencies=dependencies)


def _all_exist(jars: str) -> bool:
    return all(Path(jar).exists() for jar in jars.split(os.pathsep))


def _resolve(pom: str, directory: Path) -> Path:
    (directory / "pom.xml").write_text(pom)
    target = directory / "classpath.txt"
    maven = shutil.which("mvn")
    if maven is None:
        raise MavenError("mvn is not on the PATH")
    finished = subprocess.run(
        [maven, "-B", "-q", "-U", f"{_DEPENDENCY_PLUGIN}:build-classpath", f"-Dmdep.outputFile={target}"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_RESOLVE_SECONDS,
        check=False,
    )
    if finished.returncode != 0 or not target.exists():
        printed = finished.stdout + finished.stderr
        raise MavenError(f"mvn ended with {finished.returncode}: {printed[-2000:]}")
    return target
