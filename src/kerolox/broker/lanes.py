"""How many requests of each kind a broker admits at once: where Java has a thread pool with a queue, we have a lane."""

from kerolox.broker.configuration import BrokerConfig
from kerolox.runtime.lanes import Lane


def lanes(config: BrokerConfig) -> dict[str, Lane]:
    """Returns the lanes that processors name, with the capacities of Java's queues; they count what has to wait."""
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
        # Whoever names none.
        "default": config.admin_broker_thread_pool_queue_capacity,
    }
    return {name: Lane(name, capacity) for name, capacity in capacities.items()}
