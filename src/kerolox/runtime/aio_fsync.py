"""Asynchronous fdatasync through Linux kernel AIO (io_submit(2) with IOCB_CMD_FDSYNC).

A thread that calls fdatasync has to win the GIL from the event loop several times per sync. Kernel AIO needs one system
call to start a sync, and reports its completion on an eventfd that the event loop polls. Callers use threads where the
platform lacks it or a seccomp profile forbids it.
"""

import asyncio
import ctypes
import errno
import itertools
import logging
import os
import platform
import struct
import sys
from collections.abc import Callable

from kerolox.runtime.event_loop import add_reader, remove_reader

log = logging.getLogger(__name__)

# Called once when a sync has completed: with None, or with its error.
SyncCallback = Callable[[OSError | None], object]

# System call numbers of io_setup, io_destroy, io_getevents, io_submit.
_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
# struct iocb: data, key, rw_flags, opcode, reqprio, fildes, buf, nbytes, offset, reserved, flags, resfd
_IOCB = struct.Struct("=QIIHhIQQqQII")
# struct io_event: data, obj, res, res2
_EVENT = struct.Struct("=QQqq")
_IOCB_CMD_FDSYNC = 3
_IOCB_FLAG_RESFD = 1
_PENDING_MAX = 16


class AioFsync:
    """The pending syncs of one event loop, at most sixteen at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """OSError if the platform or the kernel does not support it."""
        numbers = _CALLS.get(platform.machine())
        if sys.platform != "linux" or numbers is None:
            raise OSError(f"kernel AIO is not supported on {sys.platform} {platform.machine()}")
        setup, self._destroy, self._get_events, self._submit = numbers
        # PyDLL keeps the GIL during the call: none of these calls blocks.
        library = ctypes.PyDLL(None, use_errno=True)
        self._call = library.syscall
        self._context = ctypes.c_ulong(0)
        if self._call(setup, _PENDING_MAX, ctypes.byref(self._context)):
            raise _error()
        self._loop = loop
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._iocb = ctypes.create_string_buffer(_IOCB.size)
        self._iocbs = (ctypes.c_void_p * 1)(ctypes.addressof(self._iocb))
        self._events = ctypes.create_string_buffer(_EVENT.size * _PENDING_MAX)
        self._numbers = itertools.count(1)
        self._pending: dict[int, SyncCallback] = {}
        add_reader(loop, self._event, self._complete)

    def begin(self, descriptor: int, callback: SyncCallback) -> None:
        """Start what `os.fdatasync` does; OSError, and no callback, if it could not be started."""
        if len(self._pending) >= _PENDING_MAX:
            raise BlockingIOError(errno.EAGAIN, f"{_PENDING_MAX} syncs are pending, no more are allowed")
        number = next(self._numbers)
        _IOCB.pack_into(
            self._iocb, 0, number, 0, 0, _IOCB_CMD_FDSYNC, 0, descriptor, 0, 0, 0, 0, _IOCB_FLAG_RESFD, self._event
        )
        if self._call(self._submit, self._context, ctypes.c_long(1), self._iocbs) != 1:
            raise _error()
        self._pending[number] = callback

    def _complete(self) -> None:
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return
        count_max = ctypes.c_long(_PENDING_MAX)
        count = self._call(self._get_events, self._context, ctypes.c_long(0), count_max, self._events, None)
        for number, _, result, _ in _EVENT.iter_unpack(self._events.raw[: max(count, 0) * _EVENT.size]):
            callback = self._pending.pop(number)
            try:
                callback(None if result >= 0 else OSError(-result, os.strerror(-result)))
            except Exception:
                # The other completions must still be delivered: their events are already taken from the kernel.
                log.exception("the callback of a sync failed")

    def close(self) -> None:
        """Must not be called while syncs are pending: their callbacks would never be called."""
        assert not self._pending
        remove_reader(self._loop, self._event)
        os.close(self._event)
        self._call(self._destroy, self._context)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
