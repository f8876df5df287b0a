"""Writes the generated pages, and renders all of docs/ to HTML in build/docs. `make docs`.

It fails if a page links to a file or a heading that is not there, or says anything else that Sphinx warns of.
"""

import subprocess
import sys
from pathlib import Path

from docs import generate

DOCS = Path(__file__).parent
TARGET = DOCS.parent / "build" / "docs"


def render(source: Path, target: Path) -> int:
    """Render the pages of a folder; returns 0 if there were no warnings."""
    warnings_fail = ["--fail-on-warning", "--nitpicky"]
    kept = ["--fresh-env", "--doctree-dir", str(target.with_name(f"{target.name}-read"))]
    arguments = ["--quiet", *warnings_fail, *kept, "--conf-dir", str(DOCS), str(source), str(target)]
    return subprocess.run([sys.executable, "-m", "sphinx", *arguments], check=False).returncode  # noqa: S603


def main() -> int:
    generate.write()
    code = render(DOCS, TARGET)
    if code == 0:
        sys.stdout.write(f"rendered {TARGET / 'README.html'}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
