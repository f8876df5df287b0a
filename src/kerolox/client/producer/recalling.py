"""Taking back timed messages."""

from kerolox.client.errors import NoRoute
from kerolox.client.session import Session
from kerolox.message.ids import decode_handle
from kerolox.wire.headers.messages import RecallMessage


async def recall(session: Session, group: str, topic: str, recall_handle: str) -> str:
    """Returns the id of the message that was taken back; AnswerError if the broker does not, or no longer can."""
    handle = decode_handle(recall_handle)
    address = session.routes.address(handle.broker_name)
    if address is None:
        # Only if need be: of a topic that the message has made NameServers may not have heard yet.
        await session.routes.get(topic)
        address = session.routes.address(handle.broker_name)
    if address is None:
        raise NoRoute(f"broker {handle.broker_name!r}, which has the message, has no master now")
    request = RecallMessage(producer_group=group, topic=topic, recall_handle=recall_handle)
    reply = await session.call(
        session.options.vip(address), request, timeout_seconds=session.options.mq_client_api_timeout_seconds
    )
    return reply.fields.msg_id
