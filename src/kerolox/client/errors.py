"""Errors that a client raises itself. Error responses of servers are AnswerErrors, missing responses RemotingErrors."""

from kerolox.errors import KeroloxError


class ClientError(KeroloxError):
    """The base class of errors that clients raise themselves."""


class WrongState(ClientError):
    """The client was used before `start` or after `close`, or started a second time."""


class GroupTaken(ClientError):
    """This client id already has a producer, or a consumer, of the group; brokers could not distinguish the two."""


class NoRoute(ClientError):
    """The topic exists, but has no writable or readable queue on a broker that is up."""


class SendFailed(ClientError):
    """No broker accepted the message. The last error is the `__cause__`."""

    def __init__(self, topic: str, attempts: int, brokers: list[str], seconds: float, cause: BaseException) -> None:
        super().__init__(topic, attempts, brokers, seconds, cause)
        self.topic = topic
        # The number of attempts, and the broker of each in order.
        self.attempts = attempts
        self.brokers = brokers
        self.seconds = seconds
        self.cause = cause

    def __str__(self) -> str:
        brokers = ", ".join(dict.fromkeys(self.brokers)) or "no broker"
        noun = "attempt" if self.attempts == 1 else "attempts"
        return (
            f"sending to topic {self.topic!r} failed after {self.attempts} {noun} "
            f"in {self.seconds:.1f} s ({brokers}); last error: {self.cause}"
        )


class RequestTimeout(ClientError):
    """The request was sent, but no reply arrived in time."""
