"""The comparison of clients."""

from pathlib import Path

from click.testing import CliRunner

from bench.client import main
from bench.client_programs import CPP, JAVA, Measured
from bench.client_tables import clients
from bench.report import KEROLOX


def test_our_client_is_compared_with_the_cpp_client() -> None:
    def rates(ours: int, cpp: int) -> dict[str, list[Measured]]:
        return {name: [Measured(count, 2.0, 1.0)] for name, count in ((KEROLOX, ours), (JAVA, 9000), (CPP, cpp))}

    section = clients(
        (KEROLOX, JAVA, CPP),
        "Sending",
        {"one": rates(50, 100), "many": rates(100, 100), "auto": rates(198, 100), "push": rates(200, 100)},
        ["C++ 0.4.4 failed once: why"],
    )

    lines = [line for line in section.lines() if "CPU" not in line[0]]
    assert [line[1:5] for line in lines] == [
        ["25/s", "4,500/s", "50/s", "0.50x"],
        ["50/s", "4,500/s", "50/s", "1.00x"],
        ["99/s", "4,500/s", "50/s", "1.98x"],
        ["100/s", "4,500/s", "50/s", "2.00x"],
    ]
    assert [line[5:] for line in lines] == [["", ""], ["≥ 1x C++", "met"], ["≥ 2x C++", "MISSED"], ["≥ 2x C++", "met"]]
    assert section.notes[-1] == "C++ 0.4.4 failed once: why"


def test_a_client_that_failed_was_not_measured() -> None:
    section = clients((KEROLOX, CPP), "Push", {"push": {KEROLOX: [Measured(1, 1.0, 1.0)], CPP: []}}, [])

    assert section.lines()[0][1:] == ["1/s", "–", "–", "≥ 2x C++", "not measured"]


def test_a_quick_run_writes_the_clients_part_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("# Store: kept\n")

    wanted = ["--quick", "--only", KEROLOX, "--part", "auto", "--part", "push", "--messages", "400"]
    result = CliRunner().invoke(main, [*wanted, "--markdown", str(page)])

    assert result.exit_code == 0, result.output
    written = page.read_text()
    assert written.startswith("# Store: kept\n\n# Client: Kerolox")
    assert "| 256 at once, auto-batched |" in written
    assert "| consumed |" in written
