"""Access lists of 4.x: ours has none, and says so; a broker that has is in tests/admin/test_access.py."""

import pytest

from tests.cli.admin.tools import Tool


@pytest.mark.parametrize(
    "arguments",
    [
        ("updateAclConfig", "-a", "user", "-s", "12345678", "-t", "orders=PUB|SUB,bills=DENY", "-m", "true"),
        ("deleteAclConfig", "-a", "user"),
        ("deleteAccessConfig", "-a", "user"),
        ("updateGlobalWhiteAddr", "-g", "192.0.2.1,192.0.2.*"),
        ("clusterAclConfigVersion",),
    ],
)
@pytest.mark.parametrize("place", ["broker", "cluster"])
def test_a_broker_without_lists_says_so(tool: Tool, arguments: tuple[str, ...], place: str) -> None:
    where = ("-b", tool.broker_addr) if place == "broker" else ("-c", "DefaultCluster")

    told = tool.fails(*arguments, *where)

    assert "(REQUEST_CODE_NOT_SUPPORTED, 3); it takes a broker of another release" in told


def test_permissions_that_are_none_are_refused(tool: Tool) -> None:
    result = tool.run("updateAclConfig", "-a", "user", "-s", "12345678", "-t", "orders", "-b", tool.broker_addr)

    assert "expected such as topicA=DENY" in result.stderr
