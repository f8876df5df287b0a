"""Which half messages have been committed or rolled back: a bit for each that is not yet passed."""

from array import array

# So many bytes of bits that are no longer asked for are let go at once.
_TRIM_SIZE = 64 * 1024
_TRIM_COUNT = 8192


class Ended:
    """Half messages by queue offset. Those before `cursor` are behind: whatever became of them is settled."""

    def __init__(self) -> None:
        self.cursor = 0
        # The offset of the first bit; a multiple of 8.
        self._base = 0
        self._bits = bytearray()

    def start(self, cursor: int) -> None:
        self.cursor, self._base, self._bits = cursor, cursor & ~7, bytearray()

    def mark(self, queue_offset: int) -> None:
        place = (queue_offset - self._base) >> 3
        if queue_offset < self.cursor:
            return
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        self._bits[place] |= 1 << (queue_offset & 7)

    def __contains__(self, queue_offset: int) -> bool:
        place = (queue_offset - self._base) >> 3
        return 0 <= place < len(self._bits) and bool(self._bits[place] >> (queue_offset & 7) & 1)

    def advance(self, cursor: int) -> None:
        """Passes what lies before `cursor`."""
        assert cursor >= self.cursor
        self.cursor = cursor
        passed = (cursor - self._base) >> 3
        if passed >= _TRIM_SIZE or passed >= len(self._bits):
            del self._bits[:passed]
            self._base += passed << 3


class OpProgress:
    """How far the op queue is done with: an op is, when all half messages that it names are behind."""

    def __init__(self, next_offset: int = 0) -> None:
        # The first op that is not done with, and of each from there on the last half message it names.
        self.done_offset = next_offset
        self._last = array("q")
        self._head = 0

    @property
    def next_offset(self) -> int:
        """The op that is read next."""
        return self.done_offset + len(self._last) - self._head

    def read(self, queue_offset: int, last_half: int) -> None:
        """Notes an op, and counts as done with those before it that are not there."""
        while self.next_offset < queue_offset:
            self._last.append(-1)
        self._last.append(last_half)

    def skip(self, next_offset: int) -> None:
        """Goes on at a later op."""
        if next_offset > self.next_offset:
            self.read(next_offset - 1, -1)

    def settle(self, cursor: int) -> int:
        """Returns the first op that names a half message at `cursor` or after it, or one before that does."""
        last, head = self._last, self._head
        while head < len(last) and last[head] < cursor:
            head += 1
        self.done_offset += head - self._head
        self._head = head
        if head >= _TRIM_COUNT or head == len(last):
            del last[:head]
            self._head = 0
        return self.done_offset
