"""`kerolox admin` and `mqadmin`: every command of Java's mqadmin, one module per area.

A command is declared in one place, with its name, its flags and a function that yields its output:

    @command("topicClusterList", "get cluster info for topic", TOPIC)
    async def topic_cluster_list(call: Call) -> Output:
        for cluster in await call.admin.topics.clusters(call["topic"]):
            yield Text(f"{cluster}\\n", {"cluster": cluster})

Everything else is derived from it: the parser, the help, Java's text in a pipe, tables on a terminal, and JSON.
"""
