"""Sends as columns: a list per field with one element per request, in the order of arrival."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Self

from kerolox.broker.send.header_blocks import HeaderBlock
from kerolox.broker.send.put import born_host
from kerolox.message.plain_properties import PlainProperties
from kerolox.message.records.message_columns import MessageColumns
from kerolox.message.tags import tags_code
from kerolox.remoting.connection import Connection
from kerolox.remoting.router import Incoming
from kerolox.store.log.commit_log import KeyColumns

_NO_COLUMNS = ("cluster", "messages", "blocks")


@dataclass(slots=True)
class SendColumns:
    """Where the requests came from, the messages, and what was found in their properties.

    The unique key of a message with unusual properties is empty.
    """

    # A property that the broker adds to each message.
    cluster: bytes
    # The decoded requests; None for those that were read as columns.
    requests: list[Incoming[Any] | None] = field(default_factory=list)
    origins: list[Connection] = field(default_factory=list)
    opaques: list[int] = field(default_factory=list)
    request_flags: list[int] = field(default_factory=list)
    serializations: list[int] = field(default_factory=list)
    # Whether each request is a batch.
    batches: list[bool] = field(default_factory=list)
    messages: MessageColumns = field(default_factory=MessageColumns)
    unique_keys: list[bytes] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    tags: list[bytes] = field(default_factory=list)
    tags_codes: list[int] = field(default_factory=list)
    # Blocks that were read as columns, each with the index of its first row.
    blocks: list[tuple[int, HeaderBlock]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.requests)

    def part(self, first: int, end: int) -> Self:
        """Return the rows from `first` to `end`."""
        if first == 0 and end == len(self):
            return self
        columns = {name: getattr(self, name)[first:end] for name in self.__slots__ if name not in _NO_COLUMNS}
        blocks = [(start - first, block) for start, block in self.blocks]
        return type(self)(self.cluster, messages=self.messages.part(first, end), blocks=blocks, **columns)

    @property
    def key_columns(self) -> KeyColumns:
        return KeyColumns(self.unique_keys, self.keys, self.tags, self.tags_codes)

    @classmethod
    def without_messages(cls, groups: Sequence[list[Incoming[Any]] | HeaderBlock]) -> Self:
        """Return the requests only, to handle them one by one."""
        sends = cls(b"")
        for group in groups:
            if isinstance(group, HeaderBlock):
                sends.blocks.append((len(sends), group))
                sends.requests += [None] * len(group)
                sends.origins += group.origins
            else:
                sends.requests += group
                sends.origins += [request.origin for request in group]
        return sends

    def add_all(self, groups: Sequence[list[Incoming[Any]] | HeaderBlock], plain: PlainProperties) -> None:
        for group in groups:
            if isinstance(group, HeaderBlock):
                self.add_block(group, plain)
            else:
                self.add_requests(group, plain)

    def add_requests(self, requests: Sequence[Incoming[Any]], plain: PlainProperties) -> None:
        """Add decoded requests."""
        headers = [request.header for request in requests]
        origins = [request.origin for request in requests]
        hosts = {origin: born_host(origin.remote) for origin in set(origins)}
        self.requests += requests
        self.origins += origins
        self.opaques += [request.opaque for request in requests]
        self.request_flags += [request.flag for request in requests]
        self.serializations += [request.serialization for request in requests]
        self.batches += [bool(header.batch) for header in headers]
        properties = [(header.properties or "").encode("utf-8", "surrogateescape") for header in headers]
        messages = self.messages
        messages.queues += [(header.topic, header.queue_id) for header in headers]
        messages.flags += [header.flag for header in headers]
        messages.sys_flags += [header.sys_flag for header in headers]
        messages.born_timestamps += [header.born_timestamp for header in headers]
        messages.born_hosts += map(hosts.__getitem__, origins)
        messages.reconsume_times += [header.reconsume_times or 0 for header in headers]
        messages.bodies += [request.body for request in requests]
        cluster, end_and_cluster = self.cluster, b"\x02" + self.cluster
        messages.properties += [data + (cluster if data.endswith(b"\x02") else end_and_cluster) for data in properties]
        unique_keys, keys, tags = plain.read_all(properties)
        self.unique_keys += unique_keys
        self.keys += keys
        self.tags += tags
        self.tags_codes += [tags_code(tag) if tag else 0 for tag in tags]

    def add_block(self, block: HeaderBlock, plain: PlainProperties) -> None:
        """Add requests whose headers were read as columns."""
        equal = block.equal
        assert equal is not None
        template, count, messages = equal.template, len(block), self.messages
        header, request = template.sending, template.request
        self.blocks.append((len(self), block))
        for connection, number in block.owners:
            self.origins += [connection] * number
            messages.born_hosts += [born_host(connection.remote)] * number
        self.requests += [None] * count
        self.opaques += equal.opaques
        self.request_flags += [request.flag] * count
        self.serializations += [template.serialization] * count
        self.batches += [bool(header.batch)] * count
        messages.queues += zip(repeat(header.topic), equal.queue_ids, strict=False)
        messages.flags += [header.flag] * count
        messages.sys_flags += [header.sys_flag] * count
        messages.born_timestamps += equal.born_timestamps
        messages.reconsume_times += [header.reconsume_times or 0] * count
        messages.bodies += block.bodies
        before, after = template.before, template.after
        after += self.cluster if after.endswith(b"\x02") else b"\x02" + self.cluster
        messages.properties += [before + key + after for key in equal.unique_keys]
        # All but the unique keys are the same.
        found = plain.read(equal.properties(0))
        _, keys, tag = found or (b"", b"", b"")
        self.unique_keys += equal.unique_keys if found else [b""] * count
        self.keys += [keys] * count
        self.tags += [tag] * count
        self.tags_codes += [tags_code(tag)] * count

    def request(self, index: int) -> Incoming[Any]:
        """Return the request of a row."""
        request = self.requests[index]
        if request is None:
            start, block = next(found for found in reversed(self.blocks) if found[0] <= index)
            request = block.request(index - start, self.origins[index])
        return request
