"""Records the results of tests for `make chaos`."""

import json
import os
from pathlib import Path


def record_proof(what: str, **counts: int) -> None:
    """Append counts to the file KEROLOX_PROOFS, if set; `tests.crash.chaos` makes its table from them."""
    target = os.environ.get("KEROLOX_PROOFS")
    if target:
        with Path(target).open("a") as file:
            file.write(json.dumps({"what": what, **counts}) + "\n")
