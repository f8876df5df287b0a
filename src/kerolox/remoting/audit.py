"""The audit log: administrative changes, with the address of the client and the outcome."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kerolox.errors import AnswerError
from kerolox.remoting.router import Incoming

log = logging.getLogger(__name__)

_CHANGE_LENGTH_MAX = 300


@contextmanager
def audited(request: Incoming[Any], change: str) -> Iterator[None]:
    """Log a change when its block ends, with the outcome: done, refused, failed or interrupted."""
    remote, change = request.connection.remote, change[:_CHANGE_LENGTH_MAX]
    try:
        yield
    except AnswerError as error:
        # An AnswerError caused by an OSError, such as a full disk, is a failure: part of the change may be in effect.
        outcome = "failed" if isinstance(error.__cause__, OSError) else "refused"
        log.warning("%s: %s: %s: %s", remote, change, outcome, error)
        raise
    except Exception as error:
        log.warning("%s: %s: failed: %s: %s", remote, change, type(error).__name__, error)
        raise
    except BaseException:
        log.warning("%s: %s: interrupted", remote, change)
        raise
    log.info("%s: %s: done", remote, change)
