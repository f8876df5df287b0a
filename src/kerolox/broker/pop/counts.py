"""What metrics tell of popping."""

from kerolox.runtime.tallies import Tally

CHECKPOINT, ACK = "CK", "ACK"


class PopCounts:
    """What was written to the revive log and read from it, and what came again: by topic and group."""

    def __init__(self) -> None:
        # And by CHECKPOINT or ACK.
        self.written = Tally()
        # And by the queue of the revive log before that.
        self.read = Tally()
        self.revived = Tally()
