"""Signatures of requests."""

from kerolox.auth.signing import Credentials, signature, signed

WHO = Credentials("rocketmq2", "12345678")


def test_a_request_is_signed_as_java_signs_it() -> None:
    """The vector was computed with Java's AclSigner over `rocketmq2PGTopicTesthello`."""
    fields = signed(WHO, {"b": "TopicTest", "a": "PG"}, b"hello")

    assert fields == {
        "a": "PG",
        "b": "TopicTest",
        "AccessKey": "rocketmq2",
        "Signature": "kPeHuN8vZS6OdrdL1aTymXEUBik=",
    }


def test_a_request_without_fields_or_body_is_signed_over_who_sends_it() -> None:
    assert signed(WHO, None, b"")["Signature"] == signature("12345678", {"any": "rocketmq2"}, b"")


def test_a_signature_does_not_count_itself() -> None:
    once = signed(WHO, {"a": "PG"}, b"hello")

    assert signed(WHO, once, b"hello") == once


def test_a_security_token_is_sent_and_signed() -> None:
    fields = signed(Credentials("rocketmq2", "12345678", "token"), {"a": "PG"}, b"")

    assert fields["SecurityToken"] == "token"
    assert fields["Signature"] == signature("12345678", {"1": "rocketmq2", "2": "token", "3": "PG"}, b"")


def test_what_is_printed_of_credentials_holds_no_secret() -> None:
    assert "12345678" not in repr(WHO)
