"""The request queues of a broker, with the capacities of Java's thread pool queues (BrokerController)."""

from kerolox.broker.config import BrokerConfig
from kerolox.runtime.request_queue import RequestQueue


def build_request_queues(config: BrokerConfig) -> dict[str, RequestQueue]:
    """Return the request queues by the names that processors use; only requests that have to wait are counted."""
    capacities = {
        "send": config.send_thread_pool_queue_capacity,
        "pull": config.pull_thread_pool_queue_capacity,
        "litePull": config.lite_pull_thread_pool_queue_capacity,
        "ack": config.ack_thread_pool_queue_capacity,
        "reply": config.reply_thread_pool_queue_capacity,
        "query": config.query_thread_pool_queue_capacity,
        "heartbeat": config.heartbeat_thread_pool_queue_capacity,
        "clientManager": config.client_manager_thread_pool_queue_capacity,
        "consumerManager": config.consumer_manager_thread_pool_queue_capacity,
        "endTransaction": config.end_transaction_pool_queue_capacity,
        "loadBalance": config.load_balance_thread_pool_queue_capacity,
        # For processors that name no queue.
        "default": config.admin_broker_thread_pool_queue_capacity,
    }
    return {name: RequestQueue(name, capacity) for name, capacity in capacities.items()}
