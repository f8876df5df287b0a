from dataclasses import fields

from kerolox.client.options import Options, Shared
from kerolox.client.producer.settings import ProducerKeywords, ProducerSettings, split_keywords


def test_keywords_of_producers_are_the_fields_of_their_settings() -> None:
    own = set(ProducerKeywords.__annotations__) - set(Shared.__annotations__)

    assert own == {field.name for field in fields(ProducerSettings)}


def test_keywords_are_split_into_options_and_settings() -> None:
    options, settings = split_keywords(None, {"namesrv_addr": "a:1", "send_timeout_seconds": 5.0})

    assert options.name_servers == ["a:1"]
    assert settings == ProducerSettings(send_timeout_seconds=5.0)


def test_options_may_be_combined_with_producer_keywords() -> None:
    given = Options(namesrv_addr="a:1")

    options, settings = split_keywords(given, {"auto_batch": True})

    assert options is given
    assert settings.auto_batch
