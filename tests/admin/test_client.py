"""The client's life."""

import pytest

from kerolox.admin import AdminClient
from kerolox.client import WrongState
from kerolox.errors import ConfigurationError, RemotingError
from kerolox.testing import Cluster
from tests.client.sessions import options, silent_server


async def test_it_is_used_between_start_and_close(cluster: Cluster) -> None:
    admin = AdminClient(namesrv_addr=cluster.namesrv_addr)
    with pytest.raises(WrongState, match="admin client has not been started"):
        await admin.topics.names()

    async with admin:
        assert "TBW102" in await admin.topics.names()
        with pytest.raises(WrongState, match="started once"):
            await admin.start()

    with pytest.raises(WrongState, match="has been closed"):
        await admin.cluster.info()
    await admin.close()


async def test_it_shares_the_session_of_its_options(cluster: Cluster) -> None:
    shared = options(cluster)
    async with AdminClient(options=shared) as one, AdminClient(options=shared) as other:
        assert one._servers.session is other._servers.session
        await one.close()
        assert await other.topics.names()


async def test_a_namespace_is_refused_for_names_are_the_brokers_own() -> None:
    with pytest.raises(ConfigurationError, match="takes names as brokers know them"):
        AdminClient(namesrv_addr="127.0.0.1:1", namespace="mine")


async def test_a_silent_name_server_is_given_up_in_time() -> None:
    with silent_server() as address:
        async with AdminClient(namesrv_addr=address, timeout_seconds=0.05) as admin:
            with pytest.raises(RemotingError, match="no answer to GET_BROKER_CLUSTER_INFO"):
                await admin.cluster.info()
