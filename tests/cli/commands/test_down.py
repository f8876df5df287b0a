"""`kerolox down` and `kerolox status`: no cluster, a running one, and one that was killed or hangs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.ups import kerolox, running, status

pytestmark = pytest.mark.timeout(400)


def test_without_a_cluster_down_and_status_report_that(tmp_path: Path) -> None:
    folder = tmp_path / "kerolox" / "up"

    stopped, shown = kerolox(tmp_path, "down"), kerolox(tmp_path, "status")

    assert (stopped.returncode, stopped.stdout) == (0, f"No cluster runs in {folder}.\n")
    assert (shown.returncode, shown.stdout) == (3, f"No cluster runs in {folder}. Start one with `kerolox up`.\n")
    assert not folder.exists()


def test_status_shows_the_running_cluster(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard", "--data", str(tmp_path / "mine")) as (process, ready_lines):
        shown = kerolox(tmp_path, "status", "--data", str(tmp_path / "mine"))

    lines = shown.stdout.splitlines()
    assert lines[0].startswith("Kerolox 0.")
    assert f" has been running as process {process.pid} for " in lines[0]
    assert lines[1:3] == ready_lines[1:3]
    assert ready_lines[-1].endswith(f"kerolox down --data {tmp_path / 'mine'}, or Ctrl-C")
    assert (shown.returncode, lines[-1].split()) == (0, ["Data", str(tmp_path / "mine")])


def test_a_process_that_reuses_the_number_of_a_killed_one_is_left_alone(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard") as (process, _):
        process.kill()
        process.communicate(timeout=60)
    folder = tmp_path / "kerolox" / "up"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        file = folder / "up.json"
        file.write_text(file.read_text().replace(str(process.pid), str(other.pid)))

        assert kerolox(tmp_path, "down").stdout == f"No cluster runs in {folder}.\n"
        assert status(tmp_path)["running"] is False
        assert other.poll() is None


def test_a_process_that_does_not_stop_in_time_is_reported_with_a_remedy(tmp_path: Path) -> None:
    holding = (
        "import signal, sys; from pathlib import Path; from kerolox.local.folder import Folder\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "with Folder(Path(sys.argv[1])).taken(): print('taken', flush=True); sys.stdin.read()\n"
    )
    folder = tmp_path / "kerolox" / "up"
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        shown, stopped = kerolox(tmp_path, "status"), kerolox(tmp_path, "down", "--timeout", "0.1")

    assert shown.stdout == f"Process {process.pid} is starting or stopping.\n"
    assert stopped.returncode == 1
    assert f"process {process.pid} did not stop within 0.1 s" in stopped.stderr
    assert f"kill -9 {process.pid}" in stopped.stderr
