"""Syncs that the kernel carries out by itself: begun with one call, and their ends are told to the event loop.

A thread that syncs takes the interpreter from the event loop several times for each sync, and waits until it gets it.
Linux can do without (io_submit(2) with IOCB_CMD_FDSYNC); elsewhere, and where it is forbidden, there are threads.
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

from kerolox.runtime.server_loop import add_reader, remove_reader

log = logging.getLogger(__name__)

# Told once how a sync has ended: None, or what the disk said.
Ended = Callable[[OSError | None], object]

# io_setup, io_destroy, io_getevents, io_submit.
_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
# data, key, flags, operation, priority, descriptor, buffer, size, offset, reserved, flags, descriptor of the event
_REQUEST = struct.Struct("=QIIHhIQQqQII")
# data, request, result, reserved
_EVENT = struct.Struct("=QQqq")
_FDSYNC = 3
_TELLS = 1
_UNDER_WAY_MAX = 16


class KernelSyncs:
    """Those of one event loop; at most sixteen are under way at the same time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """OSError where the kernel does not offer it."""
        numbers = _CALLS.get(platform.machine())
        if sys.platform != "linux" or numbers is None:
            raise OSError("the kernel is not known to sync by itself")
        setup, self._destroy, self._get_events, self._submit = numbers
        # These calls do not wait, so that nobody else need have the interpreter meanwhile.
        library = ctypes.PyDLL(None, use_errno=True)
        self._call = library.syscall
        self._context = ctypes.c_ulong(0)
        if self._call(setup, _UNDER_WAY_MAX, ctypes.byref(self._context)):
            raise _error()
        self._loop = loop
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._events = ctypes.create_string_buffer(_EVENT.size * _UNDER_WAY_MAX)
        self._numbers = itertools.count(1)
        self._under_way: dict[int, Ended] = {}
        add_reader(loop, self._event, self._take)

    def begin(self, descriptor: int, ended: Ended) -> None:
        """Has what was written to a file synced, as `os.fdatasync` does; OSError if that was not even begun."""
        if len(self._under_way) >= _UNDER_WAY_MAX:
            raise BlockingIOError(errno.EAGAIN, f"{_UNDER_WAY_MAX} syncs are under way, and no more are allowed")
        number = next(self._numbers)
        _REQUEST.pack_into(self._request, 0, number, 0, 0, _FDSYNC, 0, descriptor, 0, 0, 0, 0, _TELLS, self._event)
        if self._call(self._submit, self._context, ctypes.c_long(1), self._requests) != 1:
            raise _error()
        self._under_way[number] = ended

    def _take(self) -> None:
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return
        most = ctypes.c_long(_UNDER_WAY_MAX)
        count = self._call(self._get_events, self._context, ctypes.c_long(0), most, self._events, None)
        for number, _, result, _ in _EVENT.iter_unpack(self._events.raw[: max(count, 0) * _EVENT.size]):
            ended = self._under_way.pop(number)
            try:
                ended(None if result >= 0 else OSError(-result, os.strerror(-result)))
            except Exception:
                # Whatever is wrong with one, the others must be told too.
                log.exception("what follows a sync has failed")

    def close(self) -> None:
        """Must not be called while some are under way; nobody would be told."""
        assert not self._under_way
        remove_reader(self._loop, self._event)
        os.close(self._event)
        self._call(self._destroy, self._context)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
