"""Mutation testing: changes one comparison at a time, and reports the changes that no test notices.

`python -m tests.mutants` mutates the modules of TARGETS in a copy of the source and runs the tests of each module.
`python -m tests.mutants remoting/router.py` does so for one module. A survivor that cannot be killed, because the
change makes no difference, is explained in EQUIVALENT.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "kerolox"
_TEST_SECONDS_MAX = 300

# Modules, and the tests that must notice a change in them.
TARGETS: dict[str, tuple[str, ...]] = {
    "remoting/router.py": (
        "tests/remoting/test_router.py",
        "tests/remoting/test_router_responses.py",
        "tests/remoting/test_calls.py",
        "tests/broker/processors/test_pull.py",
        "tests/namesrv/test_policies.py",
        "tests/broker/test_policies.py",
    ),
    "broker/send/admission.py": ("tests/broker/processors/test_send.py", "tests/broker/send"),
    "broker/send/collector.py": ("tests/broker/send", "tests/broker/processors/test_send.py"),
    "broker/send/header_blocks.py": ("tests/broker/send", "tests/broker/test_policies.py"),
    "wire/header_templates/reader.py": ("tests/wire/header_templates",),
    "message/records/record.py": ("tests/message", "tests/store/test_message_encoder.py"),
    "store/log/commit_log.py": ("tests/store/log", "tests/store/test_store.py"),
    "namesrv/route_table.py": ("tests/namesrv",),
    "store/recovery/recovery.py": ("tests/store/recovery", "tests/store/test_crash.py", "tests/store/test_damage.py"),
}
# Replacements of each comparison: the boundary moves, or the result is negated.
_REPLACEMENTS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=",),
    ast.LtE: ("<",),
    ast.Gt: (">=",),
    ast.GtE: (">",),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_TEXTS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
# Equivalent mutants: (module, source line after the change) → reason.
_FASTER_ONLY = "the general decoder handles the header, too, only slower"
_THRESHOLD = "a threshold of the fast path: sends are stored and answered alike on both sides of it"
_CACHE = "how many templates are kept: sends without a template are stored and answered alike"
_LEARNING = "when, and from which frames, a template is learnt: sends without one are stored and answered alike"
_READER = "wire/header_templates/reader.py"
_COLLECTOR = "broker/send/collector.py"
_RECOVERY = "store/recovery/recovery.py"
EQUIVALENT: dict[tuple[str, str], str] = {
    ("remoting/router.py", "if _BEGINNING_SIZE < len(beginning) <= _BEGINNING_SIZE + 1:"): _FASTER_ONLY,
    ("remoting/router.py", "if _BEGINNING_SIZE <= len(beginning) < _BEGINNING_SIZE + 1:"): _FASTER_ONLY,
    ("remoting/router.py", "if route is not None and header.startswith(_CODE_FIRST):"): _FASTER_ONLY,
    (_READER, "if self._wait_count >= 0:"): _LEARNING,
    (_READER, "if len(self) > self._max:"): _CACHE,
    (_READER, "if learnt is not None and len(learnt[0]) < _SIZE_MAX:"): _CACHE,
    (_READER, "if len(header) >= _SIZE_MAX or not self._columns_pace.is_due(count):"): _CACHE,
    (
        _READER,
        "if template is not variants[0] and variants.index(template) > _VARIANTS_MAX // 2:",
    ): "how soon a template in use moves to the front: one that is used still moves before it is dropped",
    (
        _READER,
        "key_size = 0 if template is None else next((n for n in _KEY_SIZES if n < len(template.beginning)), 0)",
    ): _CACHE,
    (_COLLECTOR, "self._is_busy = sum(map(len, arrived)) > FEW"): _THRESHOLD,
    (_COLLECTOR, "if len(frames) <= FEW and not self._is_busy:"): _THRESHOLD,
    (
        _COLLECTOR,
        "elif len(group.owners) > 1 and max(count for _, count in group.owners) > FEW:",
    ): _THRESHOLD,
    (
        _COLLECTOR,
        "elif len(group.owners) >= 1 and max(count for _, count in group.owners) >= FEW:",
    ): "the block of a single connection is split into itself",
    (
        "message/records/record.py",
        "if properties_size >= PROPERTIES_SIZE_MAX:",
    ): "check_properties, which is called then, compares the exact size",
    ("store/log/commit_log.py", "if sum(map(len, records)) >= room:"): "if all just fit, all of them are counted",
    (_RECOVERY, "if run.end_offset - reported > _PROGRESS_SIZE:"): "when progress is logged, and nothing else",
    (
        _RECOVERY,
        "if recovered.records - flushed > _RECORDS_BETWEEN_FLUSHES:",
    ): "a bound of memory: entries are written one run later, or with the next flush",
}


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    line: int
    before: str
    after: str
    # The source of the whole module with the change.
    text: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.before.strip()}  ->  {self.after.strip()}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", help="modules below src/kerolox; all targets if none is given")
    parser.add_argument("--workers", type=int, default=2, help="test runs at a time")
    options = parser.parse_args()
    unknown = [name for name in options.modules if name not in TARGETS]
    if unknown:
        parser.error(f"no tests are known for {', '.join(unknown)}; known are {', '.join(TARGETS)}")
    found = [mutant for name in options.modules or TARGETS for mutant in mutants(name, (SOURCE / name).read_text())]
    print(f"{len(found)} mutants")
    survivors = run(found, options.workers)
    unexplained = [mutant for mutant in survivors if (mutant.module, mutant.after.strip()) not in EQUIVALENT]
    explained = len(survivors) - len(unexplained)
    print(f"{len(found) - len(survivors)} killed, {explained} explained, {len(unexplained)} survived")
    for mutant in unexplained:
        print(f"survived: {mutant}")
    return 1 if unexplained else 0


def mutants(module: str, text: str) -> Iterator[Mutant]:
    """Yield a mutant for each comparison outside of assertions and annotations."""
    tree = ast.parse(text)
    ignored = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.Assert) or (isinstance(outer, ast.If) and _is_type_checking(outer.test))
        for node in ast.walk(outer)
    }
    lines = text.splitlines(keepends=True)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or id(node) in ignored:
            continue
        operands = [node.left, *node.comparators]
        for number, operator in enumerate(node.ops):
            left, right = operands[number], operands[number + 1]
            for replacement in _REPLACEMENTS[type(operator)]:
                changed = _replaced(lines, left, right, _TEXTS[type(operator)], replacement)
                if changed is not None:
                    at, line, whole = changed
                    yield Mutant(module, at, lines[at - 1], line, whole)


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _replaced(
    lines: list[str], left: ast.expr, right: ast.expr, text: str, replacement: str
) -> tuple[int, str, str] | None:
    """Return line number, line and text with one operator replaced; None if operator and operands span lines."""
    assert left.end_lineno is not None
    assert left.end_col_offset is not None
    if left.end_lineno != right.lineno:
        return None
    line = lines[left.end_lineno - 1].encode()
    between = line[left.end_col_offset : right.col_offset]
    if text.encode() not in between:
        return None
    changed = between.replace(text.encode(), replacement.encode(), 1)
    line = line[: left.end_col_offset] + changed + line[right.col_offset :]
    at = left.end_lineno
    return at, line.decode(), "".join([*lines[: at - 1], line.decode(), *lines[at:]])


def run(found: list[Mutant], workers: int) -> list[Mutant]:
    """Run the tests of each mutant, and return those that pass."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            tree = Path(folder, str(number))
            shutil.copytree(ROOT / "src", tree, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            trees.put(tree)

        def survives(mutant: Mutant) -> bool:
            tree = trees.get()
            path = tree / "kerolox" / mutant.module
            original = path.read_text()
            try:
                path.write_text(mutant.text)
                is_alive = _passes(tree, TARGETS[mutant.module])
                print("survives" if is_alive else "killed", mutant, flush=True)
                return is_alive
            finally:
                path.write_text(original)
                trees.put(tree)

        with ThreadPoolExecutor(workers) as pool:
            return [mutant for mutant, is_alive in zip(found, pool.map(survives, found), strict=True) if is_alive]


def _passes(tree: Path, tests: tuple[str, ...]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=_TEST_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
