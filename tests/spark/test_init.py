"""The package."""

import subprocess
import sys


def test_importing_the_package_does_not_import_spark() -> None:
    program = (
        "import sys, kerolox.spark, kerolox.client, kerolox.admin.sync, kerolox.broker, kerolox.cli.app\n"
        "print([name for name in ('pyspark', 'pyarrow', 'py4j') if name in sys.modules])"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
