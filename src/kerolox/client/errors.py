"""What goes wrong on the side of a client. Answers of servers are AnswerErrors, lost ones RemotingErrors."""

from kerolox.errors import KeroloxError


class ClientError(KeroloxError):
    """The root of what clients raise on their own account."""


class WrongState(ClientError):
    """Used before it was started, after it was closed, or started a second time."""


class GroupTaken(ClientError):
    """This client id already has a producer, or a consumer, of that group; brokers could not tell the two apart."""


class NoRoute(ClientError):
    """The topic is known, and there is nowhere to send to or read from: no writable queue, or no living broker."""


class SendFailed(ClientError):
    """No broker took the message. What was tried last is the `__cause__`."""

    def __init__(self, topic: str, attempts: int, brokers: list[str], seconds: float, cause: BaseException) -> None:
        super().__init__(topic, attempts, brokers, seconds, cause)
        self.topic = topic
        # How often a broker was asked, and which, in the order of the attempts.
        self.attempts = attempts
        self.brokers = brokers
        self.seconds = seconds
        self.cause = cause

    def __str__(self) -> str:
        where = ", ".join(dict.fromkeys(self.brokers)) or "no broker"
        times = "attempt" if self.attempts == 1 else "attempts"
        return (
            f"sending to topic {self.topic!r} failed after {self.attempts} {times} "
            f"in {self.seconds:.1f} s ({where}); at last: {self.cause}"
        )


class RequestTimeout(ClientError):
    """The message was sent, and nobody replied to it in time."""
