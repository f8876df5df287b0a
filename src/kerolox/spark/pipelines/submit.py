"""What spark-submit runs: the same commands as `kerolox pipeline`, on the master that spark-submit was given.

spark-submit --master yarn "$(python -m kerolox.spark.pipelines.submit --where)" run orders.toml
"""

import importlib
import sys


def main() -> None:
    if sys.argv[1:] == ["--where"]:
        sys.stdout.write(f"{__file__}\n")
        return
    # The commands know this package, not the other way round.
    command = importlib.import_module("kerolox.cli.pipeline").pipeline
    command(prog_name="kerolox pipeline")


if __name__ == "__main__":
    main()
