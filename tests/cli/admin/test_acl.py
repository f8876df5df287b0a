"""Access lists of 4.x: ours has none, and says so; a broker that has is in tests/admin/test_access.py."""

import pytest

from tests.cli.admin.tools import Tool


@pytest.mark.parametrize(
    "arguments",
    [
        ("updateAclConfig", "-a", "somebody", "-s", "12345678", "-t", "orders=PUB|SUB,bills=DENY", "-m", "true"),
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
    result = tool.run("updateAclConfig", "-a", "somebody", "-s", "12345678", "-t", "orders", "-b", tool.broker_addr)

    assert "expected such as topicA=DENY" in result.stderr


@pytest.mark.parametrize(
    ("access", "secret", "named"), [("short", "12345678", "access"), ("somebody", "1234", "secret")]
)
def test_keys_that_no_broker_takes_are_not_sent(tool: Tool, access: str, secret: str, named: str) -> None:
    """A broker would answer with the secret in its reason."""
    result = tool.run("updateAclConfig", "-a", access, "-s", secret, "-b", tool.broker_addr)

    assert result.exit_code == 1
    assert f"--{named}Key is too short: brokers take 7 characters and more" in result.stderr
    assert secret not in result.output
