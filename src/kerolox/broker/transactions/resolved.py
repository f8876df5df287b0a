"""Which half messages are committed or rolled back: a bit map of those the check has not passed yet."""

from array import array

# Bytes of passed bits, and passed ops, that are freed at once.
_TRIM_SIZE = 64 * 1024
_TRIM_COUNT = 8192


class ResolvedHalves:
    """Resolved half messages, by queue offset. All before `cursor` are settled, and have no bit any more."""

    def __init__(self) -> None:
        self.cursor = 0
        # The offset of the first bit; a multiple of 8.
        self._base = 0
        self._bits = bytearray()

    def start(self, cursor: int) -> None:
        self.cursor, self._base, self._bits = cursor, cursor & ~7, bytearray()

    def mark(self, queue_offset: int) -> None:
        index = (queue_offset - self._base) >> 3
        if queue_offset < self.cursor:
            return
        if index >= len(self._bits):
            self._bits.extend(bytes(index + 1 - len(self._bits)))
        self._bits[index] |= 1 << (queue_offset & 7)

    def __contains__(self, queue_offset: int) -> bool:
        index = (queue_offset - self._base) >> 3
        return 0 <= index < len(self._bits) and bool(self._bits[index] >> (queue_offset & 7) & 1)

    def advance(self, cursor: int) -> None:
        """Move the cursor on, and free the bits before it."""
        assert cursor >= self.cursor
        self.cursor = cursor
        passed = (cursor - self._base) >> 3
        if passed >= _TRIM_SIZE or passed >= len(self._bits):
            del self._bits[:passed]
            self._base += passed << 3


class OpProgress:
    """Progress in the op queue: an op is done when the cursor has passed all half messages that it names."""

    def __init__(self, next_offset: int = 0) -> None:
        # The first op that is not done; `_last` has the highest half message offset of each op from there on.
        self.done_offset = next_offset
        self._last = array("q")
        self._head = 0

    @property
    def next_offset(self) -> int:
        """The next op to read."""
        return self.done_offset + len(self._last) - self._head

    def read(self, queue_offset: int, last_half: int) -> None:
        """Add an op; missing ops before it count as done."""
        while self.next_offset < queue_offset:
            self._last.append(-1)
        self._last.append(last_half)

    def skip(self, next_offset: int) -> None:
        """Continue at a later op."""
        if next_offset > self.next_offset:
            self.read(next_offset - 1, -1)

    def settle(self, cursor: int) -> int:
        """Return the first op that is not done: it names a half message at `cursor` or after it."""
        last, head = self._last, self._head
        while head < len(last) and last[head] < cursor:
            head += 1
        self.done_offset += head - self._head
        self._head = head
        if head >= _TRIM_COUNT or head == len(last):
            del last[:head]
            self._head = 0
        return self.done_offset
