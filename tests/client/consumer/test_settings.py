"""Settings of consumers."""

import dataclasses

import pytest

from kerolox.client.consumer.settings import (
    MemberKeywords,
    MemberSettings,
    PullKeywords,
    PullSettings,
    PushKeywords,
    PushSettings,
    split_keywords,
)
from kerolox.client.options import Shared
from kerolox.errors import ConfigurationError


@pytest.mark.parametrize(
    ("kind", "keywords"),
    [(MemberSettings, MemberKeywords), (PushSettings, PushKeywords), (PullSettings, PullKeywords)],
)
def test_settings_and_keywords_have_the_same_names(kind: type[MemberSettings], keywords: type) -> None:
    named = set(keywords.__annotations__) - set(Shared.__annotations__)

    assert named == {field.name for field in dataclasses.fields(kind)}


def test_keywords_are_split_into_options_and_settings() -> None:
    options, settings = split_keywords(
        PushSettings, None, {"namesrv_addr": "127.0.0.1:9876", "is_orderly": True, "pull_batch_size": 7}
    )

    assert options.name_servers == ["127.0.0.1:9876"]
    assert (settings.is_orderly, settings.pull_batch_size) == (True, 7)


def test_defaults_are_javas() -> None:
    settings = PushSettings()

    assert (settings.pull_batch_size, settings.pull_threshold_for_queue) == (32, 1000)
    assert (settings.consume_thread_max, settings.consume_message_batch_max_size) == (20, 1)
    assert (settings.consume_concurrently_max_span, settings.consume_timeout_minutes) == (2000, 15)
    assert (settings.max_reconsume_times, settings.suspend_current_queue_seconds) == (-1, 1)


@pytest.mark.parametrize("name", ["pull_batch_size", "pull_threshold_for_queue", "max_poll_records"])
def test_a_setting_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}=0"):
        split_keywords(PullSettings, None, {"namesrv_addr": "127.0.0.1:9876", name: 0})
