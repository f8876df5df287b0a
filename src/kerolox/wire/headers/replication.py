"""Requests between the brokers of a group, and those of operators about replication."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request
from kerolox.wire.integers import Int64


class HaInfo(Header):
    """The addresses of a master; `master_flush_offset` is the end of its log when it started."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeBrokerHaInfo(Request[HaInfo], code=RequestCode.EXCHANGE_BROKER_HA_INFO):
    """With an HA address, a master tells a slave where it is; without, a slave asks its master."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class GetBrokerHaStatus(Request[Empty], code=RequestCode.GET_BROKER_HA_STATUS):
    """Response body: HaRuntimeInfo."""


class ResetMasterFlushOffset(Request[Empty], code=RequestCode.RESET_MASTER_FLUSH_OFFSET):
    master_flush_offset: Int64 | None = None


class GetTimerCheckPoint(Request[Empty], code=RequestCode.GET_TIMER_CHECK_POINT):
    pass


class GetTimerMetrics(Request[Empty], code=RequestCode.GET_TIMER_METRICS):
    pass


class GetMetadataChanges(Request[Empty], code=RequestCode.GET_METADATA_CHANGES):
    """From a slave to a master of ours, twice a second. Request body: MetadataQuery. Response body: MetadataChanges."""
