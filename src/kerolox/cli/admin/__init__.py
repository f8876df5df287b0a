"""`kerolox admin` and `mqadmin`: every command of Java's mqadmin, one module for each area.

A command is declared in one place, with its name, its flags and a function that yields what there is to print:

    @command("topicClusterList", "get cluster info for topic", TOPIC)
    async def topic_cluster_list(call: Call) -> Parts:
        for cluster in await call.admin.topics.clusters(call["topic"]):
            yield Text(f"{cluster}\\n", {"cluster": cluster})

The rest follows from it: the parser, the help, Java's text in a pipe, tables on a terminal, and JSON.
"""
