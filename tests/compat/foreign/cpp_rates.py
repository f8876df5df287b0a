"""cpp_rates.py NAMESRV TOPIC MODE BODY_SIZE WARM_UP SECONDS, or NAMESRV TOPIC push GROUP SKIP COUNT: the C++ client.

Prints "measured COUNT SECONDS CPU_SECONDS", like bench/client_ours.py. "many" sends with callbacks, "threads" waits
for each response in a thread; which of the two is faster depends on the machine.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections import deque

import rocketmq.client as client  # type: ignore[import-not-found]
from rocketmq.exceptions import ffi_check  # type: ignore[import-not-found]
from rocketmq.ffi import SEND_EXCEPTION_CALLBACK, SEND_SUCCESS_CALLBACK, dll  # type: ignore[import-not-found]

IN_FLIGHT = 256
BATCH_SIZE = 16
TIMEOUT_MILLIS = 30000

HAS_ENDED = threading.Event()


def main() -> None:
    namesrv, topic, mode = sys.argv[1:4]
    if mode == "push":
        consume(namesrv, topic, sys.argv[4], int(sys.argv[5]), int(sys.argv[6]))
    else:
        send(namesrv, topic, mode, int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6]))
    # Threads of the library may crash during a normal exit.
    sys.stdout.flush()
    os._exit(0)


def send(namesrv: str, topic: str, mode: str, body_size: int, warm_up: float, seconds: float) -> None:
    producer = client.Producer("bench_producer", timeout=TIMEOUT_MILLIS)
    producer.set_namesrv_addr(namesrv)
    producer.start()
    body = "x" * body_size

    def new_message() -> client.Message:
        message = client.Message(topic)
        message.set_body(body)
        return message

    def send_one_by_one(counts: list[int], number: int) -> None:
        while not HAS_ENDED.is_set():
            producer.send_sync(new_message())
            counts[number] += 1

    def send_batches(counts: list[int], number: int) -> None:
        while not HAS_ENDED.is_set():
            producer.send_batch([new_message() for _ in range(BATCH_SIZE)])
            counts[number] += BATCH_SIZE

    def send_with_callbacks(counts: list[int], number: int) -> None:
        """Do not use `Producer.send_async`, which keeps two callbacks per message and searches all of them."""
        free = threading.Semaphore(IN_FLIGHT)

        def succeeded(_: object) -> None:
            counts[number] += 1
            free.release()

        def failed(_: object) -> None:
            print("a message was not sent", flush=True)
            os._exit(1)

        on_success, on_exception = SEND_SUCCESS_CALLBACK(succeeded), SEND_EXCEPTION_CALLBACK(failed)
        # A message must stay alive until it is sent.
        kept: deque[client.Message] = deque(maxlen=16 * IN_FLIGHT)
        while not HAS_ENDED.is_set():
            free.acquire()
            message = new_message()
            kept.append(message)
            ffi_check(dll.SendMessageAsync(producer._handle, message, on_success, on_exception))
        for _ in range(IN_FLIGHT):
            free.acquire()

    work = {"batches": send_batches, "many": send_with_callbacks}.get(mode, send_one_by_one)
    counts = [0] * (IN_FLIGHT if mode == "threads" else 1)

    def run(number: int) -> None:
        try:
            work(counts, number)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    # The first message makes the client query the route; 256 threads that query it at once would fail.
    producer.send_sync(new_message())
    for number in range(len(counts)):
        threading.Thread(target=run, args=(number,), daemon=True).start()
    while not any(counts):
        time.sleep(0.01)
    time.sleep(warm_up)
    first, started, cpu = sum(counts), time.perf_counter(), time.process_time()
    time.sleep(seconds)
    print_result(sum(counts) - first, started, cpu)


def consume(namesrv: str, topic: str, group: str, skip: int, count: int) -> None:
    lock, is_complete = threading.Lock(), threading.Event()
    consumed = size = 0
    started, cpu = time.perf_counter(), time.process_time()

    def handle(message: client.RecvMessage) -> None:
        nonlocal consumed, size, started, cpu
        length = len(message.body)
        with lock:
            size += length
            consumed += 1
            if consumed == skip:
                started, cpu = time.perf_counter(), time.process_time()
            elif consumed == count:
                print_result(count - skip, started, cpu)
                is_complete.set()

    consumer = client.PushConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, handle)
    consumer.start()
    is_complete.wait()
    consumer.shutdown()


def print_result(count: int, started: float, cpu: float) -> None:
    print(f"measured {count} {time.perf_counter() - started:.6f} {time.process_time() - cpu:.6f}", flush=True)


main()
