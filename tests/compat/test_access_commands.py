"""The commands of docs/how-to/access.md work on Apache's brokers with ACL enabled."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apache import VERSIONS, servers
from tests.apache.requirements import require_java
from tests.compat.acl_brokers import ROOT, acl_broker
from tests.compat.waiting import until_listed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "access.md"


def commands(heading: str) -> list[str]:
    """Return the commands below a heading."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)^(?=## )", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    joined = re.sub(r"\\\n +", "", section)
    return re.findall(r"^    (kerolox .*)$", joined, re.MULTILINE)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_account_commands_of_the_page_work(version: str, tmp_path: Path) -> None:
    require_java()
    is_4x = version.startswith("4.")
    script = tmp_path / "kerolox"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m kerolox "$@"\n')
    script.chmod(0o755)
    printed: dict[str, str] = {}
    with servers.name_server(version) as name_server, acl_broker(version, name_server.address):
        asyncio.run(until_listed(name_server.address))
        environment = os.environ | {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "NAMESRV_ADDR": name_server.address,
            "KEROLOX_ACCESS_KEY": ROOT["access_key"],
            "KEROLOX_SECRET_KEY": ROOT["secret_key"],
        }
        for command in commands(f"Administer Apache's brokers of {'4.x' if is_4x else '5.3 and later'}"):
            done = subprocess.run(
                ["/bin/sh", "-c", command], env=environment, capture_output=True, text=True, timeout=300, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), (command, done)
            printed[command.split()[2]] = done.stdout

    if is_4x:
        assert "plain_acl.yml" in printed["clusterAclConfigVersion"]
    else:
        assert re.search(r"^shop +\S+ +Normal +enable", printed["listUser"], re.MULTILINE | re.IGNORECASE)
        assert {"Topic:orders", "Group:packers"} <= set(printed["listAcl"].split())
