"""Reading topics: offsets, partitioning and the tasks that pull."""
