"""Release names by version number."""

from kerolox.message.client_versions import release_name


def test_releases_have_the_names_that_java_uses() -> None:
    known = {0: "V3_0_0_SNAPSHOT", 37: "V3_0_11", 121: "V3_4_9", 232: "V4_1_0_SNAPSHOT", 409: "V4_9_8", 513: "V5_5_0"}

    assert {number: release_name(number) for number in known} == known
    assert release_name(99_999) == "HIGHER_VERSION"
    assert release_name(-1) == "V3_0_0_SNAPSHOT"
