"""MemberSettings of a consumer group: rebalance, assigned queues and offsets."""
