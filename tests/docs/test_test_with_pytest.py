"""The tests shown in the how-to pass."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "test-with-pytest.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.timeout(400)
def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    for number, block in enumerate(BLOCKS):
        (tmp_path / f"test_{number}.py").write_text(block)

    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert (result.returncode, f"{len(BLOCKS)} passed" in result.stdout) == (0, True), result.stdout
