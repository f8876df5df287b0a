"""`mqadmin` and `kerolox admin`: arguments, help, confirmation and errors."""

import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from kerolox.admin.sync import AdminClient
from kerolox.cli.admin import tool as module
from kerolox.cli.admin.command_table import ALL_COMMANDS
from kerolox.cli.app import main
from tests.cli.admin.tools import ORDERS, Tool
from tests.golden.record_mqadmin_help import load

pytestmark = pytest.mark.usefixtures("sent")


@pytest.mark.parametrize(
    "arguments",
    [
        ("topicStatus", "-t", ORDERS),
        ("TOPICSTATUS", "--topic", ORDERS),
        ("topicstatus", "--topic=orders"),
        ("topicStatus", "-torders"),
        ("topicStatus", "--top", ORDERS),
        ("topicStatus", "-topic", ORDERS),
        ("topicStatus", "-t", ORDERS, "something", "more"),
    ],
)
def test_commands_and_flags_are_read_as_java_reads_them(tool: Tool, arguments: tuple[str, ...]) -> None:
    assert "broker-a" in tool(*arguments)


@pytest.mark.parametrize("arguments", [(), ("--wrong",), ("-t",)])
def test_unparsable_arguments_get_javas_help_and_one_line(tool: Tool, arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(module.mqadmin, ["topicStatus", *arguments])

    assert result.exit_code == 1
    assert result.stdout == load()[1]["topicStatus"]
    assert result.stderr.startswith("Error: ")


def test_exactly_one_choice_flag_is_required(tool: Tool) -> None:
    both = tool.run("updateTopic", "-t", "x", "-b", tool.broker_addr, "-c", "DefaultCluster")
    none = tool.run("updateTopic", "-t", "x")

    assert "give one of -b (--brokerAddr), -c (--clusterName)" in both.stderr
    assert "give one of -b (--brokerAddr), -c (--clusterName)" in none.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("topicStatus", "-t", ORDERS, "something"), "Got unexpected extra argument (something)"),
        (("topicStatus",), "missing: -t (--topic)"),
        (("topicStatus", "-z"), "No such option '-z'."),
        (("topicStat",), "No such command 'topicStat'. Did you mean topicStatus or topicList or topicClusterList?"),
        (("help", "topicStat"), "No such command 'topicStat'. Did you mean topicStatus or"),
        (("qqqqqqqq",), "No such command 'qqqqqqqq'."),
    ],
)
def test_a_mistyped_argument_is_named_with_a_pointer_to_help(arguments: tuple[str, ...], error: str) -> None:
    result = CliRunner().invoke(module.admin, list(arguments))

    assert result.exit_code == 2
    assert f"Error: {error}" in result.stderr
    assert "--help' for help." in result.stderr


def test_the_help_command_equals_the_help_flag() -> None:
    def run(*arguments: str) -> str:
        return CliRunner().invoke(module.admin, list(arguments)).stdout

    assert run("help", "TOPICLIST").partition("\n")[2] == run("topicList", "--help").partition("\n")[2]
    assert run("help") == run("--help")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("deleteTopic", "-c", "DefaultCluster", "-t", "nosuch", "--yes"),
            "no NameServer has a route of topic 'nosuch'",
        ),
        (("deleteSubGroup", "-c", "DefaultCluster", "-g", "nosuch", "--yes"), "group 'nosuch' is not known"),
        (("deleteKvConfig", "-s", "space", "-k", "nosuch", "--yes"), "namespace 'space' has no key 'nosuch'"),
        (("wipeWritePerm", "-b", "nosuch", "--yes"), "no topic has queues on broker 'nosuch'; "),
        (("addWritePerm", "-b", "nosuch"), "no topic has queues on broker 'nosuch'; "),
        (("updateBrokerConfig", "-c", "DefaultCluster", "-k", "nosuch", "-v", "1"), "unknown setting 'nosuch'; "),
        (("updateNamesrvConfig", "-k", "nosuch", "-v", "1"), "unknown setting 'nosuch'; "),
        (("statsAll", "-t", "nosuch"), "no NameServer has a route of topic 'nosuch'"),
    ],
)
def test_unknown_names_fail_in_kerolox_admin_but_not_in_mqadmin(
    tool: Tool, arguments: tuple[str, ...], error: str
) -> None:
    """Java reports success for names that do not exist; `kerolox admin` reports a mistyped name."""
    scripted = tool.run(*(word for word in arguments if word != "--yes"))
    strict = tool.run(*arguments, is_java=False)

    assert scripted.exit_code == 0
    assert strict.exit_code == 1
    assert error in strict.stderr


def test_offsets_of_a_deleted_group_can_be_removed(tool: Tool, client: AdminClient) -> None:
    client.groups.create("leaving")
    client.groups.delete("leaving")

    result = tool.run("deleteSubGroup", "-c", "DefaultCluster", "-g", "leaving", "-r", "true", "--yes", is_java=False)

    assert result.exit_code == 0


def test_mqadmin_has_javas_help() -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(module.mqadmin, list(arguments))

    listed, helps = load()
    assert run().stdout.startswith(listed[: listed.index("\n\nSee")])
    assert run("help").stdout == run().stdout
    assert run("help", "topicRoute").stdout == helps["topicRoute"]
    assert run("topicRoute", "-h").stdout == helps["topicRoute"]
    assert (run("help", "nothing").stdout, run("nothing").stdout) == ("The sub command nothing not exist.\n",) * 2
    assert run("nothing").exit_code == 1


def test_the_help_of_kerolox_admin_lists_all_flags(tool: Tool) -> None:
    printed = CliRunner().invoke(main, ["admin", "deleteTopic", "--help"]).stdout
    listed = CliRunner().invoke(main, ["admin", "--help"]).stdout

    assert "--topic" in printed
    assert "--json" in printed
    assert "--yes" in printed
    assert all(command.name in listed for command in ALL_COMMANDS)


def test_mqadmin_never_asks_for_confirmation(tool: Tool, client: AdminClient) -> None:
    client.topics.create("gone")

    tool("deleteTopic", "-c", "DefaultCluster", "-t", "gone")

    assert "gone" not in client.topics.names()


def test_kerolox_admin_asks_before_it_deletes(tool: Tool, client: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.topics.create("precious")
    command = ("deleteTopic", "-c", "DefaultCluster", "-t", "precious")

    in_script = tool.run(*command, is_java=False)
    monkeypatch.setattr(module, "_can_answer", lambda: True)
    refused = tool.run(*command, is_java=False, typed="n\n")
    kept = "precious" in client.topics.names()
    agreed = tool.run(*command, is_java=False, typed="y\n")

    assert in_script.exit_code == 1
    assert in_script.stderr == (
        "Error: this would delete topic precious with its messages from cluster DefaultCluster; add --yes to confirm\n"
    )
    assert (refused.exit_code, kept) == (1, True)
    assert "This will delete topic precious" in refused.stderr
    assert agreed.exit_code == 0
    assert "precious" not in client.topics.names()


def test_yes_skips_the_confirmation(tool: Tool, client: AdminClient) -> None:
    client.topics.create("gone")

    assert tool.run("deleteTopic", "-c", "DefaultCluster", "-t", "gone", "--yes", is_java=False).exit_code == 0
    assert "gone" not in client.topics.names()


def test_harmless_commands_need_no_confirmation(tool: Tool) -> None:
    assert tool.run("updateOrderConf", "-t", ORDERS, "-m", "put", "-v", "broker-a:2", is_java=False).exit_code == 0


def test_watch_repeats_a_command(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            raise OSError("enough")

    monkeypatch.setattr(module, "pause", wait)

    result = tool.run("topicClusterList", "-t", ORDERS, "--watch", "2")
    repeated = tool.run("topicStatus", "-t", ORDERS, "--watch", "2")

    assert "No such option '--watch'" in result.stderr
    assert repeated.stdout.count("#Broker Name") == 3
    assert waited == [2.0] * 3


def test_an_unreachable_cluster_is_reported_in_one_line() -> None:
    result = CliRunner().invoke(module.mqadmin, ["topicList", "-n", "127.0.0.1:1"])

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert "NAMESRV_ADDR" in result.stderr


def test_mqadmin_runs_as_a_program(tool: Tool) -> None:
    command = [sys.executable, "-c", "from kerolox.cli.admin.tool import mqadmin; mqadmin()"]
    arguments = ["topicClusterList", "-t", ORDERS, "-n", tool.namesrv_addr]

    result = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)

    assert (result.returncode, result.stdout, result.stderr) == (0, "DefaultCluster\n", "")


def test_the_tool_needs_neither_spark_nor_a_web_framework() -> None:
    code = (
        "import sys, kerolox.cli.admin.tool; "
        "print([name for name in ('pyspark', 'pyarrow', 'rich', 'starlette', 'nicegui') if name in sys.modules])"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert result.stdout == "[]\n"
