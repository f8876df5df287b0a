"""What became of messages."""

from kerolox.admin import AdminClient, Track, TrackType
from kerolox.testing import Cluster
from kerolox.wire.bodies.clients import SubscriptionData
from tests.admin.clients import GROUP, QUEUE, TOPIC, Owner, consuming, numbered, prepared, send


class OddOnly(Owner):
    def subscriptions(self) -> list[SubscriptionData]:
        return [SubscriptionData(topic=TOPIC, sub_string="odd", tags_set=["odd"], sub_version=1)]


class Puller(Owner):
    consume_type = "CONSUME_ACTIVELY"


class Broadcast(Owner):
    message_model = "BROADCASTING"


async def test_what_became_of_a_message_is_told_by_group(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster)
    sent = await send(cluster, *numbered(1))
    message = await admin.messages.by_id(sent[0].offset_id)
    for group, offset in ((GROUP, 1), ("late", 0), ("odd", 1), ("away", 1)):
        await admin.groups.create(group)
        await admin.offsets.commit(group, QUEUE, offset)

    async with (
        consuming(cluster),
        consuming(cluster, group="late"),
        consuming(cluster, group="odd", consumer=OddOnly(TOPIC)),
        consuming(cluster, group="pull", consumer=Puller(TOPIC)),
        consuming(cluster, group="all", consumer=Broadcast(TOPIC)),
        consuming(cluster, group="new"),
    ):
        tracks: list[Track] = await admin.tracks.of_message(message)

    assert {track.group: track.type for track in tracks} == {
        GROUP: TrackType.CONSUMED,
        "late": TrackType.NOT_CONSUME_YET,
        "odd": TrackType.CONSUMED_BUT_FILTERED,
        "pull": TrackType.PULL,
        "all": TrackType.CONSUME_BROADCASTING,
        "new": TrackType.NOT_CONSUME_YET,
        "away": TrackType.NOT_ONLINE,
    }
