"""The oracle of all crash tests: `kerolox store check` on the recovered store."""

import re
from collections.abc import Iterable

from kerolox.runtime.files import Disk
from kerolox.store.check.check import check
from kerolox.store.check.report import Report
from kerolox.store.config import StoreConfig
from kerolox.store.log.scan import Damage

_NO_RECORD = re.compile(r"log: no record from (\d+) ")
_POINTS_TO = re.compile(r"points to (\d+), but ")


def verified(disk: Disk, settings: StoreConfig, damages: Iterable[Damage] = ()) -> Report:
    """Check a store and return the report; AssertionError for complaints that known damage does not explain."""
    known = list(damages)
    report = check(settings, disk=disk)
    unexplained = [complaint for complaint in report.complaints if not _is_explained(complaint, known)]
    assert not unexplained, unexplained
    assert report.complaints_left_out == 0
    if report.is_clean:
        # A cleanly stopped store is complete.
        assert not report.notes, report.notes
    return report


def _is_explained(complaint: str, damages: list[Damage]) -> bool:
    missing = _NO_RECORD.match(complaint)
    # The start of the damage may be in a file that was deleted since.
    if missing is not None and any(damage.offset <= int(missing[1]) < damage.end_offset for damage in damages):
        return True
    # An entry that was written before the record was damaged.
    found = _POINTS_TO.search(complaint)
    return found is not None and any(damage.offset <= int(found[1]) < damage.end_offset for damage in damages)
