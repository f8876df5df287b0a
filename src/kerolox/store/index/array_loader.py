"""Imports `key_arrays`, and with it numpy, when a broker is busy enough to need it.

The import takes a tenth of a second and 11 MiB, which a broker with little traffic need not pay. It happens in a
thread, so that the event loop does not wait for it; until then keys are hashed one by one.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from kerolox.store.index.key_hashes import RecordKeys

if TYPE_CHECKING:
    from kerolox.store.index.key_arrays import KeyArrays

log = logging.getLogger(__name__)

# `key_arrays.key_arrays`
Hashing: TypeAlias = Callable[[RecordKeys], "Iterator[KeyArrays | RecordKeys]"]


class ArrayLoader:
    def __init__(self) -> None:
        self._hashing: Hashing | None = None
        self._loading: threading.Thread | None = None

    def get(self, *, may_wait: bool = False) -> Hashing | None:
        """Return the function that hashes many keys; None while it is being imported, unless the caller may wait."""
        if self._hashing is None and self._loading is None:
            self._loading = threading.Thread(target=self._load, name="import of numpy", daemon=True)
            self._loading.start()
        if self._hashing is None and may_wait and self._loading is not None:
            self._loading.join()
        return self._hashing

    def _load(self) -> None:
        try:
            self._hashing = importlib.import_module("kerolox.store.index.key_arrays").key_arrays
        except ImportError as error:
            log.warning("numpy cannot be imported, so busy topics with keys cost more: %s", error)


ARRAYS = ArrayLoader()
