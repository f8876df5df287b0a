"""cpp_rates.py NAMESRV TOPIC MODE BODY_SIZE WARM_UP SECONDS, or NAMESRV TOPIC push GROUP SKIP COUNT: the C++ client.

Prints "measured COUNT SECONDS CPU_SECONDS", as bench/client_ours.py does. "many" sends with callbacks, "threads" waits
for each answer in a thread: which of the two is faster depends on the machine.
"""

import os
import sys
import threading
import time
import traceback
from collections import deque

import rocketmq.client as client  # type: ignore[import-not-found]
from rocketmq.exceptions import ffi_check  # type: ignore[import-not-found]
from rocketmq.ffi import SEND_EXCEPTION_CALLBACK, SEND_SUCCESS_CALLBACK, dll  # type: ignore[import-not-found]

AT_ONCE = 256
BATCH_SIZE = 16
TIMEOUT_MILLIS = 30000

HAS_ENDED = threading.Event()


def main() -> None:
    namesrv, topic, mode = sys.argv[1:4]
    if mode == "push":
        consume(namesrv, topic, sys.argv[4], int(sys.argv[5]), int(sys.argv[6]))
    else:
        send(namesrv, topic, mode, int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6]))
    # Its threads have been seen to crash while they are taken down.
    sys.stdout.flush()
    os._exit(0)


def send(namesrv: str, topic: str, mode: str, body_size: int, warm_up: float, seconds: float) -> None:
    producer = client.Producer("bench_producer", timeout=TIMEOUT_MILLIS)
    producer.set_namesrv_addr(namesrv)
    producer.start()
    body = "x" * body_size

    def made():  # type: ignore[no-untyped-def]
        message = client.Message(topic)
        message.set_body(body)
        return message

    def send_one_by_one(counts: "list[int]", number: int) -> None:
        while not HAS_ENDED.is_set():
            producer.send_sync(made())
            counts[number] += 1

    def send_batches(counts: "list[int]", number: int) -> None:
        while not HAS_ENDED.is_set():
            producer.send_batch([made() for _ in range(BATCH_SIZE)])
            counts[number] += BATCH_SIZE

    def send_with_callbacks(counts: "list[int]", number: int) -> None:
        """Not by `Producer.send_async`, which keeps two callbacks of each message and looks through all of them."""
        free = threading.Semaphore(AT_ONCE)

        def succeeded(_: object) -> None:
            counts[number] += 1
            free.release()

        def failed(_: object) -> None:
            print("a message was not sent", flush=True)
            os._exit(1)

        on_success, on_exception = SEND_SUCCESS_CALLBACK(succeeded), SEND_EXCEPTION_CALLBACK(failed)
        # A message must outlive its sending.
        kept = deque(maxlen=16 * AT_ONCE)  # type: ignore[var-annotated]
        while not HAS_ENDED.is_set():
            free.acquire()
            message = made()
            kept.append(message)
            ffi_check(dll.SendMessageAsync(producer._handle, message, on_success, on_exception))
        for _ in range(AT_ONCE):
            free.acquire()

    work = {"batches": send_batches, "many": send_with_callbacks}.get(mode, send_one_by_one)
    counts = [0] * (AT_ONCE if mode == "threads" else 1)

    def run(number: int) -> None:
        try:
            work(counts, number)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    # With the first, the topic's route is known; 256 threads that ask for it at once are too much for it.
    producer.send_sync(made())
    for number in range(len(counts)):
        threading.Thread(target=run, args=(number,), daemon=True).start()
    while not any(counts):
        time.sleep(0.01)
    time.sleep(warm_up)
    first, began, cpu = sum(counts), time.perf_counter(), time.process_time()
    time.sleep(seconds)
    say(sum(counts) - first, began, cpu)


def consume(namesrv: str, topic: str, group: str, skip: int, count: int) -> None:
    lock, is_complete = threading.Lock(), threading.Event()
    seen = size = 0
    began, cpu = time.perf_counter(), time.process_time()

    def handle(message: "client.RecvMessage") -> None:
        nonlocal seen, size, began, cpu
        length = len(message.body)
        with lock:
            size += length
            seen += 1
            if seen == skip:
                began, cpu = time.perf_counter(), time.process_time()
            elif seen == count:
                say(count - skip, began, cpu)
                is_complete.set()

    consumer = client.PushConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, handle)
    consumer.start()
    is_complete.wait()
    consumer.shutdown()


def say(count: int, began: float, cpu: float) -> None:
    print(f"measured {count} {time.perf_counter() - began:.6f} {time.process_time() - cpu:.6f}", flush=True)


main()
