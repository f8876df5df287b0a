"""ACL files of 4.x with a broker that has none; brokers that have them are in tests/admin/test_access.py."""

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
@pytest.mark.parametrize("target", ["broker", "cluster"])
def test_a_broker_without_acl_files_is_reported(tool: Tool, arguments: tuple[str, ...], target: str) -> None:
    flags = ("-b", tool.broker_addr) if target == "broker" else ("-c", "DefaultCluster")

    error = tool.fails(*arguments, *flags)

    assert "(REQUEST_CODE_NOT_SUPPORTED, 3); the broker's release does not have this feature" in error


def test_malformed_permissions_are_refused(tool: Tool) -> None:
    result = tool.run("updateAclConfig", "-a", "somebody", "-s", "12345678", "-t", "orders", "-b", tool.broker_addr)

    assert "expected a list like topicA=DENY" in result.stderr


@pytest.mark.parametrize(
    ("access", "secret", "named"), [("short", "12345678", "access"), ("somebody", "1234", "secret")]
)
def test_keys_that_are_too_short_are_not_sent(tool: Tool, access: str, secret: str, named: str) -> None:
    """The error of a broker would contain the secret key."""
    result = tool.run("updateAclConfig", "-a", access, "-s", secret, "-b", tool.broker_addr)

    assert result.exit_code == 1
    assert f"--{named}Key is too short: brokers require at least 7 characters" in result.stderr
    assert secret not in result.output
