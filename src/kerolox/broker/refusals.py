"""The requests a broker does not carry out on purpose, and why not."""

from kerolox.codes import RequestCode as R

# Answered with NO_PERMISSION and the reason.
REFUSED: dict[R, str] = {
    R.REGISTER_MESSAGE_FILTER_CLASS: "classes are not run here: filter by tags or by SQL92 expressions",
}

_COLD = "cold data are read like others, and need no flow control"
_CONTAINER = "one process is one broker"
_ROCKS = "queues and tables are files, and never RocksDB"
_CONTROLLER = "brokers keep their roles; there is no controller"
_ACCESS = "there is no access control here, and nothing to be told of it"
_REPLICATION = "a broker is a master alone, and is not copied"
_LITE = "there are no lite topics here"
_REMOVED = "was removed from the original, or never was in it"

# Answered with REQUEST_CODE_NOT_SUPPORTED.
UNSUPPORTED: dict[R, str] = {
    R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _COLD,
    R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _COLD,
    R.GET_COLD_DATA_FLOW_CTR_INFO: _COLD,
    R.SET_COMMITLOG_READ_MODE: "files are read, not mapped",
    R.ADD_BROKER: _CONTAINER,
    R.REMOVE_BROKER: _CONTAINER,
    R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _ROCKS,
    R.EXPORT_ROCKSDB_CONFIG_TO_JSON: _ROCKS,
    R.UPDATE_AND_CREATE_STATIC_TOPIC: "a topic has its queues on each broker, and there are no static topics",
    R.EXCHANGE_BROKER_HA_INFO: _REPLICATION,
    R.RESET_MASTER_FLUSH_OFFSET: _REPLICATION,
    **{code: _ACCESS for code in R if 50 <= code <= 54 or 3001 <= code <= 3010},
    **{code: _CONTROLLER for code in R if 1001 <= code <= 1018},
    **{code: _LITE for code in R if 200070 <= code <= 200079},
    R.SWITCH_TIMER_ENGINE: "there is one engine of timers, in files",
    **dict.fromkeys(
        (
            R.QUERY_BROKER_OFFSET,
            R.GET_TOPIC_CONFIG_LIST,
            R.GET_TOPIC_NAME_LIST,
            R.TRIGGER_DELETE_FILES,
            R.GET_CLIENT_CONFIG,
            R.SUSPEND_CONSUMER,
            R.RESUME_CONSUMER,
            R.RESET_CONSUMER_OFFSET_IN_CONSUMER,
            R.RESET_CONSUMER_OFFSET_IN_BROKER,
            R.ADJUST_CONSUMER_THREAD_POOL,
            R.WHO_CONSUME_THE_MESSAGE,
        ),
        _REMOVED,
    ),
}
