"""The package itself."""

import subprocess
import sys


def test_importing_clients_and_the_package_itself_imports_no_spark() -> None:
    program = (
        "import sys, kerolox.spark, kerolox.client, kerolox.admin.sync, kerolox.broker, kerolox.cli.app\n"
        "print([name for name in ('pyspark', 'pyarrow', 'py4j') if name in sys.modules])"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
