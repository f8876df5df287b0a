"""Request codes, compared with those in Apache's jar."""

import re
import subprocess

import pytest

from kerolox.codes import RequestCode
from tests.apache.maven import classpath
from tests.apache.requirements import require_java

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

_CLASS = "org.apache.rocketmq.remoting.protocol.RequestCode"
_CONSTANT = re.compile(r"public static final (?:int|short) (\w+) = (\d+);")


def test_every_request_code_has_the_name_and_number_of_java() -> None:
    require_java()
    command = ["javap", "-constants", "-cp", classpath("5.5.0"), _CLASS]

    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    theirs = {name: int(number) for name, number in _CONSTANT.findall(printed)}
    assert len(theirs) > 150
    assert theirs.items() - {code.name: code.value for code in RequestCode}.items() == set()
