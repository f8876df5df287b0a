"""cpp_send.py NAMESRV TOPIC BODY: sends one message with the C++ client and prints its id."""

import sys

from rocketmq.client import Message, Producer  # type: ignore[import-not-found]

namesrv, topic, body = sys.argv[1:]
producer = Producer("compat_cpp", timeout=10000)
producer.set_namesrv_addr(namesrv)
producer.start()
message = Message(topic)
message.set_body(body)
print("sent", producer.send_sync(message).msg_id)
producer.shutdown()
