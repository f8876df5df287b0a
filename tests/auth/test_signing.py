"""Signatures of requests."""

from kerolox.auth.signing import Credentials, signature, signed

CREDENTIALS = Credentials("rocketmq2", "12345678")


def test_a_request_is_signed_as_java_signs_it() -> None:
    """The vector was computed with Java's AclSigner over `rocketmq2PGTopicTesthello`."""
    fields = signed(CREDENTIALS, {"b": "TopicTest", "a": "PG"}, b"hello")

    assert fields == {
        "a": "PG",
        "b": "TopicTest",
        "AccessKey": "rocketmq2",
        "Signature": "kPeHuN8vZS6OdrdL1aTymXEUBik=",
    }


def test_a_request_without_fields_or_body_is_signed_over_its_access_key() -> None:
    assert signed(CREDENTIALS, None, b"")["Signature"] == signature("12345678", {"any": "rocketmq2"}, b"")


def test_the_signature_does_not_cover_itself() -> None:
    once = signed(CREDENTIALS, {"a": "PG"}, b"hello")

    assert signed(CREDENTIALS, once, b"hello") == once


def test_a_security_token_is_sent_and_signed() -> None:
    fields = signed(Credentials("rocketmq2", "12345678", "token"), {"a": "PG"}, b"")

    assert fields["SecurityToken"] == "token"
    assert fields["Signature"] == signature("12345678", {"1": "rocketmq2", "2": "token", "3": "PG"}, b"")


def test_the_repr_of_credentials_contains_no_secret() -> None:
    assert "12345678" not in repr(CREDENTIALS)
