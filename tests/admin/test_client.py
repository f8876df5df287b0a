"""Start, use and close of the admin client."""

import pytest

from kerolox.admin import AdminClient
from kerolox.client import WrongState
from kerolox.errors import ConfigurationError, RemotingError
from kerolox.testing import Cluster
from tests.client.sessions import options, silent_server


async def test_the_client_works_only_between_start_and_close(cluster: Cluster) -> None:
    admin = AdminClient(namesrv_addr=cluster.namesrv_addr)
    with pytest.raises(WrongState, match="admin client has not been started"):
        await admin.topics.names()

    async with admin:
        assert "TBW102" in await admin.topics.names()
        with pytest.raises(WrongState, match="cannot be started again"):
            await admin.start()

    with pytest.raises(WrongState, match="has been closed"):
        await admin.cluster.info()
    await admin.close()


async def test_the_client_shares_the_session_of_its_options(cluster: Cluster) -> None:
    shared = options(cluster)
    async with AdminClient(options=shared) as one, AdminClient(options=shared) as other:
        assert one._servers.session is other._servers.session
        await one.close()
        assert await other.topics.names()


async def test_a_namespace_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no namespace"):
        AdminClient(namesrv_addr="127.0.0.1:1", namespace="mine")


async def test_a_silent_name_server_times_out() -> None:
    with silent_server() as address:
        async with AdminClient(namesrv_addr=address, timeout_seconds=0.05) as admin:
            with pytest.raises(RemotingError, match="no answer to GET_BROKER_CLUSTER_INFO"):
                await admin.cluster.info()
