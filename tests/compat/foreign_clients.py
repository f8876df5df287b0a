"""RocketMQ clients in other languages, installed from their registries into the user's cache."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.apache.maven import cache_directory
from tests.apache.processes import Completed, run, temporary_home
from tests.apache.requirements import unmet

ROOT = Path(__file__).parents[2]
_SCRIPTS = Path(__file__).parent / "foreign"
KERNEL = "ipykernel 7.4.0"
_CPP = "rocketmq==0.4.4"
_ALI_ONS = "ali-ons@3.12.0"
_INSTALL_SECONDS = 300.0
_SEND_SECONDS = 60.0


def cpp_send(namesrv: str, topic: str, body: str) -> Completed:
    """Send a message with the C++ client, which is part of the wheel of its Python bindings."""
    return _send(cpp_command("cpp_send.py", namesrv, topic, body))


def ali_ons_send(namesrv: str, topic: str, body: str) -> Completed:
    """Send a message with the JavaScript client."""
    return _send(ali_ons_command("ali_ons_send.js", namesrv, topic, body))


def cpp_command(script: str, *arguments: str) -> list[str]:
    """Return the command line of one of our scripts for the C++ client."""
    return ["env", f"PYTHONPATH={_cpp_packages()}", sys.executable, str(_SCRIPTS / script), *arguments]


def ali_ons_command(script: str, *arguments: str) -> list[str]:
    """Return the command line of one of our scripts for the JavaScript client."""
    return ["env", f"NODE_PATH={_ali_ons_modules()}", "node", str(_SCRIPTS / script), *arguments]


def notebook_command(*cells: str) -> list[str]:
    """Return the command line that runs notebook cells, which can import our package."""
    path = f"{_kernel_packages()}:{ROOT / 'src'}:{':'.join(site.getsitepackages())}"
    return ["env", f"PYTHONPATH={path}", sys.executable, str(_SCRIPTS / "notebook.py"), *cells]


def _send(command: Sequence[str]) -> Completed:
    with temporary_home() as home:
        return run(command, home, _SEND_SECONDS)


def _cpp_packages() -> Path:
    def install(target: Path) -> list[str]:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        return [*pip, "--only-binary=:all:", "--no-deps", f"--target={target}", _CPP]

    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return installed(f"{_CPP.replace('==', '-')}-{python}", install)


def _kernel_packages() -> Path:
    def install(target: Path) -> list[str]:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        return [*pip, "--only-binary=:all:", f"--target={target}", KERNEL.replace(" ", "==")]

    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return installed(f"{KERNEL.replace(' ', '-')}-{python}", install)


def _ali_ons_modules() -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        unmet("needs Node.js: no node or npm on the PATH")

    def install(target: Path) -> list[str]:
        return ["npm", "install", "--silent", "--no-audit", "--no-fund", f"--prefix={target}", _ALI_ONS]

    return installed(_ALI_ONS.replace("@", "-"), install) / "node_modules"


def installed(name: str, install: Callable[[Path], Sequence[str]], timeout_seconds: float = _INSTALL_SECONDS) -> Path:
    """Return the directory of that name in the cache; the command of `install` fills it the first time.

    If two processes install at the same time, the second one uses the directory of the first.
    """
    target = cache_directory() / "clients" / name
    if target.exists():
        return target
    target.parent.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent))
    command = install(scratch)
    finished = subprocess.run(
        command, cwd=scratch, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )
    if finished.returncode != 0:
        shutil.rmtree(scratch)
        unmet(f"{name} could not be installed: {(finished.stdout + finished.stderr)[-1000:]}")
    try:
        scratch.rename(target)
    except OSError:
        shutil.rmtree(scratch)
    return target
