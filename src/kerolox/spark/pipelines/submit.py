"""The application for spark-submit: the commands of `kerolox pipeline`, on the master given to spark-submit.

spark-submit --master yarn "$(python -m kerolox.spark.pipelines.submit --where)" run orders.toml
"""

import importlib
import sys


def main() -> None:
    if sys.argv[1:] == ["--where"]:
        sys.stdout.write(f"{__file__}\n")
        return
    # Imported by name: this package may not depend on the command line.
    command = importlib.import_module("kerolox.cli.commands.pipeline").pipeline
    command(prog_name="kerolox pipeline")


if __name__ == "__main__":
    main()
