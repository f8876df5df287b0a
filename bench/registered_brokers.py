"""Brokers that stay registered with a NameServer during a run."""

from __future__ import annotations

import socket
import time

from bench.connections import ask, connect
from bench.frames import decode, encode
from bench.measure import cpu_seconds
from bench.requests import Broker
from bench.servers import Server

_UNREGISTER_SECONDS_MAX = 30.0


class RegisteredBrokers:
    """The brokers registered with one NameServer, each on its own connection.

    A NameServer unregisters a broker when the connection that registered it is closed.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._brokers: list[tuple[Broker, socket.socket]] = []

    def add(self, brokers: list[Broker]) -> tuple[float, float]:
        """Register the brokers one by one; return wall seconds and CPU seconds of the server."""
        frames = [broker.registration() for broker in brokers]
        connections = [connect(self._server.port) for _ in brokers]
        cpu, started = cpu_seconds(self._server.pid), time.perf_counter()
        for connection, frame in zip(connections, frames, strict=True):
            answer = decode(ask(connection, frame))
            if answer.code:
                raise RuntimeError(f"{self._server.name} refused a registration: {answer.header}")
        costs = time.perf_counter() - started, cpu_seconds(self._server.pid) - cpu
        self._brokers += zip(brokers, connections, strict=True)
        return costs

    def refresh(self) -> None:
        """Send a heartbeat of every broker, and check that it is still registered."""
        for broker, connection in self._brokers:
            answer = decode(ask(connection, broker.version_query()))
            if answer.header["extFields"]["changed"] != "false":
                raise RuntimeError(f"{self._server.name} lost {broker.name}: {answer.header}")

    def close(self) -> None:
        """Close the connections and return when the NameServer has unregistered all brokers."""
        for _, connection in self._brokers:
            connection.close()
        deadline = time.monotonic() + _UNREGISTER_SECONDS_MAX
        with connect(self._server.port) as connection:
            for broker in (broker for broker, _ in self._brokers):
                query = encode(105, {"topic": broker.topics[-1]})
                while decode(ask(connection, query)).code == 0:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{self._server.name} still has a route to {broker.name}")
                    time.sleep(0.02)
        self._brokers.clear()
