// ali_ons_features.js NAMESRV PREFIX FEATURE...: runs features of the JavaScript client, like Features.java for Java's.
// Prints a line of three tab-separated fields for each feature: its name; ok, failed or absent; and the observed result.
// The line "please reset TOPIC GROUP" asks the test to reset offsets. "NAMESRV member TOPIC GROUP" consumes until killed.
'use strict';

const assert = require('assert');
const fs = require('fs');
const { spawn } = require('child_process');
const ons = require('ali-ons');

const { Producer, Consumer, Message } = ons;
const COUNT = 16;
const SECONDS = 60;
const [ nameSrv, prefix, ...rest ] = process.argv.slice(2);
const silentLogger = { info() {}, warn() {}, debug() {}, error() {} };
// The client requires an HTTP client, which it does not use if the NameServer address is given.
const httpclient = { request: () => Promise.reject(new Error('no address server here')) };
const common = { httpclient, nameSrv, logger: silentLogger, rebalanceInterval: 1000, persistConsumerOffsetInterval: 500,
  pollNameServerInteval: 5000, heartbeatBrokerInterval: 5000 };
let producer;

const sleep = millis => new Promise(resolve => setTimeout(resolve, millis));

async function waitFor(description, condition) {
  const deadline = Date.now() + SECONDS * 1000;
  while (!(await condition())) {
    assert(Date.now() < deadline, `not within ${SECONDS} s: ${description}`);
    await sleep(50);
  }
}

const text = message => message.body.toString();
const numbered = (topic, number) => new Message(topic, `message ${number}`);

async function send(message) {
  const result = await producer.send(message);
  assert.strictEqual(result.sendStatus, 'SEND_OK');
  return result;
}

async function sendAll(topic, from, to) {
  for (let number = from; number < to; number++) await send(numbered(topic, number));
}

function consume(topic, handler, options = {}) {
  const { expression = '*', ...others } = options;
  const consumer = new Consumer({ ...common, consumerGroup: `${topic}_group`, instanceName: topic,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', ...others });
  consumer.on('error', () => {});
  consumer.subscribe(topic, expression, async message => handler(message));
  return consumer;
}

function startConsumer(topic, options) {
  const received = [];
  return [ received, consume(topic, message => { received.push(message); }, options) ];
}

const bodies = received => new Set(received.map(text));

async function expectMessages(received, count) {
  await waitFor(`${count} consumed`, () => received.length >= count);
  assert.deepStrictEqual(received.map(text).sort(), Array.from({ length: count }, (_, number) => `message ${number}`).sort());
}

const FEATURES = {
  async 'send sync'(topic) {
    const [ received ] = startConsumer(topic);
    const brokers = new Set();
    for (let number = 0; number < COUNT; number++) {
      brokers.add((await send(numbered(topic, number))).messageQueue.brokerName);
    }
    await expectMessages(received, COUNT);
    assert.strictEqual(brokers.size, 2);
    return `${COUNT} over 2 brokers`;
  },
  async 'send async'(topic) {
    const [ received ] = startConsumer(topic);
    await Promise.all(Array.from({ length: COUNT }, (_, number) => send(numbered(topic, number))));
    await expectMessages(received, COUNT);
    return `${COUNT} answered and consumed`;
  },
  async 'send ordered'(topic) {
    const [ received ] = startConsumer(topic);
    for (let step = 0; step < 10; step++) {
      for (const order of [ 'a', 'b', 'c' ]) {
        const message = new Message(topic, `${order}:${step}`);
        message.shardingKey = order;
        await send(message);
      }
    }
    await waitFor('30 steps', () => received.length >= 30);
    const last = {};
    for (const message of received) {
      const [ order, step ] = text(message).split(':');
      const where = `${message.storeHost} ${message.queueId} ${order}`;
      assert(!(where in last) || last[where] < Number(step), `${where} has ${step} after ${last[where]}`);
      last[where] = Number(step);
    }
    return 'in order within each queue; the client spreads a key over brokers';
  },
  async 'send delayed'(topic) {
    const [ received ] = startConsumer(topic);
    for (let number = 0; number < 4; number++) {
      const message = numbered(topic, number);
      message.delayTimeLevel = 2;
      await send(message);
    }
    await expectMessages(received, 4);
    const least = Math.min(...received.map(message => Number(message.storeTimestamp) - Number(message.bornTimestamp)));
    assert(least >= 1900 && least < 10000, `after ${least} ms`);
    return '4 after two seconds';
  },
  async 'send keyed'(topic) {
    const [ received ] = startConsumer(topic);
    const message = numbered(topic, 3);
    message.keys = [ 'first3', 'second3' ];
    await send(message);
    await waitFor('keyed', () => received.length === 1);
    assert.strictEqual(received[0].keys, 'first3 second3');
    return 'found by key';
  },
  async 'send compressed'(topic) {
    const [ received ] = startConsumer(topic);
    const body = '0123456789'.repeat(10000);
    await send(new Message(topic, body));
    await waitFor('compressed', () => received.length === 1);
    assert.strictEqual(text(received[0]), body);
    assert(received[0].storeSize < 10000, `stored as ${received[0].storeSize}`);
    return `100,000 bytes stored as ${received[0].storeSize}`;
  },
  async 'push concurrently'(topic) {
    const [ received, consumer ] = startConsumer(topic, { parallelConsumeLimit: 4 });
    await sendAll(topic, 0, COUNT);
    await expectMessages(received, COUNT);
    await sleep(1000);
    await consumer.close();
    await send(numbered(topic, COUNT));
    const [ later ] = startConsumer(topic, { instanceName: `${topic}_again` });
    await waitFor('the last', () => later.length > 0);
    assert.deepStrictEqual([ ...bodies(later) ], [ `message ${COUNT}` ]);
    return `${COUNT}, and after a pause where it left off`;
  },
  async broadcast(topic) {
    const both = [ 0, 1 ].map(member => startConsumer(topic, { isBroadcast: true, instanceName: `broadcast${member}` })[0]);
    await sendAll(topic, 0, COUNT);
    for (const received of both) await expectMessages(received, COUNT);
    return `${COUNT} to each of two`;
  },
  async 'by tags'(topic) {
    const [ received ] = startConsumer(topic, { expression: 'TagA || TagC' });
    for (let number = 0; number < 24; number++) {
      await send(new Message(topic, 'Tag' + 'ABCD'[number % 4], `message ${number}`));
    }
    await waitFor('12 chosen by tag', () => received.length >= 12);
    assert(received.every(message => [ 'TagA', 'TagC' ].includes(message.tags)));
    assert.strictEqual(bodies(received).size, 12);
    return '12 of 24';
  },
  async 'by SQL92'(topic) {
    const subString = "number BETWEEN 3 AND 12 AND colour IN ('blue', 'red')";
    const [ received ] = startConsumer(topic, { expression: { expressionType: 'SQL92', subString } });
    for (let number = 0; number < 24; number++) {
      const message = numbered(topic, number);
      message.properties.number = String(number);
      message.properties.colour = number % 3 === 0 ? 'blue' : 'green';
      await send(message);
    }
    await waitFor('4 chosen', () => received.length >= 4);
    assert.deepStrictEqual(bodies(received), new Set([ 3, 6, 9, 12 ].map(number => `message ${number}`)));
    return '4 of 24';
  },
  async 'retry to DLQ'(topic) {
    const times = [];
    consume(topic, message => {
      times.push(message.reconsumeTimes);
      throw new Error('not today');
    }, { maxReconsumeTimes: 2 });
    await send(numbered(topic, 0));
    await waitFor('tried three times', () => times.length >= 3);
    const dead = `%DLQ%${topic}_group`;
    const [ letters ] = startConsumer(dead, { consumerGroup: `${topic}_dlq_reader`, instanceName: `${topic}_dlq_reader` });
    await waitFor('dead letter', () => letters.length > 0);
    assert.strictEqual(text(letters[0]), 'message 0');
    assert.deepStrictEqual(times, [ 0, 1, 2 ]);
    return 'tried 3 times, then a dead letter';
  },
  async 'offset reset'(topic) {
    const [ received, consumer ] = startConsumer(topic);
    await sendAll(topic, 0, COUNT);
    await expectMessages(received, COUNT);
    // The client ignores reset notifications of brokers, so offsets are reset while the consumer is stopped.
    await sleep(1000);
    await consumer.close();
    console.log(`please\treset\t${topic} ${topic}_group`);
    await sleep(3000);
    const [ again ] = startConsumer(topic, { instanceName: `${topic}_again` });
    await expectMessages(again, COUNT);
    return `${COUNT} taken twice, reset while it was away`;
  },
  async rebalancing(topic) {
    const both = [ 0, 1 ].map(member => startConsumer(topic, { instanceName: `member${member}` })[0]);
    const file = `${topic}.txt`;
    fs.writeFileSync(file, '');
    const third = () => fs.readFileSync(file, 'utf8').split('\n').filter(line => line.startsWith('message '));
    let sent = 0;
    const all = () => new Set([ ...bodies(both[0]), ...bodies(both[1]), ...third() ]);
    // Sends messages and waits until all are consumed; returns whether exactly the expected consumers got some.
    const isShared = async wanted => {
      const counts = () => [ both[0].length, both[1].length, third().length ];
      const before = counts();
      await sendAll(topic, sent, sent + 2 * COUNT);
      sent += 2 * COUNT;
      await waitFor('all consumed', () => all().size === sent);
      return counts().map((count, at) => count > before[at]).join() === wanted;
    };
    await waitFor('queues shared by two', () => isShared('true,true,false'));
    const output = fs.openSync(file, 'a');
    const child = spawn(process.execPath, [ __filename, nameSrv, 'member', topic, `${topic}_group` ],
      { stdio: [ 'ignore', output, 'ignore' ] });
    try {
      await waitFor('queues shared by three', () => isShared('true,true,true'));
    } finally {
      child.kill('SIGKILL');
    }
    const taken = third().length;
    await waitFor('queues shared by two again', () => isShared('true,true,false'));
    return `two, three, two consumers; the third took ${taken}, none of ${sent} lost`;
  },
};

// Features without support in this client: the API that they would need, and whether it exists.
const ABSENT = {
  'send oneway': [ 'Producer.sendOneway', () => 'sendOneway' in Producer.prototype ],
  'send batch': [ 'Producer.sendBatch', () => 'sendBatch' in Producer.prototype ],
  'transaction committed': [ 'TransactionProducer', () => 'TransactionProducer' in ons ],
  'transaction rolled back': [ 'TransactionProducer', () => 'TransactionProducer' in ons ],
  'transaction unknown, then checked': [ 'TransactionProducer', () => 'TransactionProducer' in ons ],
  'request-reply': [ 'Producer.request', () => 'request' in Producer.prototype ],
  'push orderly': [ 'LOCK_BATCH_MQ', () => /lockBatchMQ|LOCK_BATCH_MQ/.test(String(Consumer)) ],
  pull: [ 'PullConsumer', () => 'PullConsumer' in ons || 'pull' in Consumer.prototype ],
  'lite pull': [ 'LitePullConsumer', () => 'LitePullConsumer' in ons || 'poll' in Consumer.prototype ],
};

async function runFeature(feature) {
  const topic = `${prefix}_${feature.replace(/[^A-Za-z0-9]+/g, '_')}`;
  let line;
  try {
    if (feature in ABSENT) {
      const [ name, exists ] = ABSENT[feature];
      assert(!exists(), `the client has ${name}`);
      line = `absent\tno ${name}`;
    } else {
      line = `ok\t${await FEATURES[feature](topic)}`;
    }
  } catch (error) {
    line = `failed\t${String(error).replace(/\s+/g, ' ')}`;
  }
  console.log(`${feature}\t${line}`);
}

async function main() {
  if (prefix === 'member') {
    const [ topic, consumerGroup ] = rest;
    consume(topic, message => { console.log(text(message)); }, { consumerGroup, instanceName: 'third' });
    await new Promise(() => setInterval(() => {}, 1000));
  }
  producer = new Producer({ ...common, producerGroup: `${prefix}_producers`, instanceName: 'producer' });
  producer.on('error', () => {});
  await producer.ready();
  await Promise.all(rest.map(runFeature));
  console.log('ended');
  process.exit(0);
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
