// ali_ons_features.js NAMESRV PREFIX FEATURE...: tries what the JavaScript client can do, as Features.java does with
// Java's. Prints for each feature a line "FEATURE, ok, failed or absent, what was seen", parted by tabs. What it cannot
// do for itself it asks for in a line "please reset TOPIC GROUP". "NAMESRV member TOPIC GROUP" consumes until killed.
'use strict';

const assert = require('assert');
const fs = require('fs');
const { spawn } = require('child_process');
const ons = require('ali-ons');

const { Producer, Consumer, Message } = ons;
const COUNT = 16;
const SECONDS = 60;
const [ nameSrv, prefix, ...rest ] = process.argv.slice(2);
const quiet = { info() {}, warn() {}, debug() {}, error() {} };
// It insists on an HTTP client although an address given outright never asks it anything.
const httpclient = { request: () => Promise.reject(new Error('no address server here')) };
const common = { httpclient, nameSrv, logger: quiet, rebalanceInterval: 1000, persistConsumerOffsetInterval: 500,
  pollNameServerInteval: 5000, heartbeatBrokerInterval: 5000 };
let producer;

const sleep = millis => new Promise(resolve => setTimeout(resolve, millis));

async function until(what, isTrue) {
  const deadline = Date.now() + SECONDS * 1000;
  while (!(await isTrue())) {
    assert(Date.now() < deadline, `not within ${SECONDS} s: ${what}`);
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

function watch(topic, options) {
  const seen = [];
  return [ seen, consume(topic, message => { seen.push(message); }, options) ];
}

const bodies = seen => new Set(seen.map(text));

async function expect(seen, count) {
  await until(`${count} consumed`, () => seen.length >= count);
  assert.deepStrictEqual(seen.map(text).sort(), Array.from({ length: count }, (_, number) => `message ${number}`).sort());
}

const FEATURES = {
  async 'send sync'(topic) {
    const [ seen ] = watch(topic);
    const brokers = new Set();
    for (let number = 0; number < COUNT; number++) {
      brokers.add((await send(numbered(topic, number))).messageQueue.brokerName);
    }
    await expect(seen, COUNT);
    assert.strictEqual(brokers.size, 2);
    return `${COUNT} over 2 brokers`;
  },
  async 'send async'(topic) {
    const [ seen ] = watch(topic);
    await Promise.all(Array.from({ length: COUNT }, (_, number) => send(numbered(topic, number))));
    await expect(seen, COUNT);
    return `${COUNT} answered and consumed`;
  },
  async 'send ordered'(topic) {
    const [ seen ] = watch(topic);
    for (let step = 0; step < 10; step++) {
      for (const order of [ 'a', 'b', 'c' ]) {
        const message = new Message(topic, `${order}:${step}`);
        message.shardingKey = order;
        await send(message);
      }
    }
    await until('30 steps', () => seen.length >= 30);
    const last = {};
    for (const message of seen) {
      const [ order, step ] = text(message).split(':');
      const where = `${message.storeHost} ${message.queueId} ${order}`;
      assert(!(where in last) || last[where] < Number(step), `${where} has ${step} after ${last[where]}`);
      last[where] = Number(step);
    }
    return 'in order within each queue; the client spreads a key over brokers';
  },
  async 'send delayed'(topic) {
    const [ seen ] = watch(topic);
    for (let number = 0; number < 4; number++) {
      const message = numbered(topic, number);
      message.delayTimeLevel = 2;
      await send(message);
    }
    await expect(seen, 4);
    const least = Math.min(...seen.map(message => Number(message.storeTimestamp) - Number(message.bornTimestamp)));
    assert(least >= 1900 && least < 10000, `after ${least} ms`);
    return '4 after two seconds';
  },
  async 'send keyed'(topic) {
    const [ seen ] = watch(topic);
    const message = numbered(topic, 3);
    message.keys = [ 'first3', 'second3' ];
    await send(message);
    await until('keyed', () => seen.length === 1);
    assert.strictEqual(seen[0].keys, 'first3 second3');
    return 'found by key';
  },
  async 'send compressed'(topic) {
    const [ seen ] = watch(topic);
    const body = '0123456789'.repeat(10000);
    await send(new Message(topic, body));
    await until('compressed', () => seen.length === 1);
    assert.strictEqual(text(seen[0]), body);
    assert(seen[0].storeSize < 10000, `stored as ${seen[0].storeSize}`);
    return `100,000 bytes stored as ${seen[0].storeSize}`;
  },
  async 'push concurrently'(topic) {
    const [ seen, consumer ] = watch(topic, { parallelConsumeLimit: 4 });
    await sendAll(topic, 0, COUNT);
    await expect(seen, COUNT);
    await sleep(1000);
    await consumer.close();
    await send(numbered(topic, COUNT));
    const [ later ] = watch(topic, { instanceName: `${topic}_again` });
    await until('the last', () => later.length > 0);
    assert.deepStrictEqual([ ...bodies(later) ], [ `message ${COUNT}` ]);
    return `${COUNT}, and after a pause where it left off`;
  },
  async broadcast(topic) {
    const both = [ 0, 1 ].map(member => watch(topic, { isBroadcast: true, instanceName: `broadcast${member}` })[0]);
    await sendAll(topic, 0, COUNT);
    for (const seen of both) await expect(seen, COUNT);
    return `${COUNT} to each of two`;
  },
  async 'by tags'(topic) {
    const [ seen ] = watch(topic, { expression: 'TagA || TagC' });
    for (let number = 0; number < 24; number++) {
      await send(new Message(topic, 'Tag' + 'ABCD'[number % 4], `message ${number}`));
    }
    await until('12 chosen by tag', () => seen.length >= 12);
    assert(seen.every(message => [ 'TagA', 'TagC' ].includes(message.tags)));
    assert.strictEqual(bodies(seen).size, 12);
    return '12 of 24';
  },
  async 'by SQL92'(topic) {
    const subString = "number BETWEEN 3 AND 12 AND colour IN ('blue', 'red')";
    const [ seen ] = watch(topic, { expression: { expressionType: 'SQL92', subString } });
    for (let number = 0; number < 24; number++) {
      const message = numbered(topic, number);
      message.properties.number = String(number);
      message.properties.colour = number % 3 === 0 ? 'blue' : 'green';
      await send(message);
    }
    await until('4 chosen', () => seen.length >= 4);
    assert.deepStrictEqual(bodies(seen), new Set([ 3, 6, 9, 12 ].map(number => `message ${number}`)));
    return '4 of 24';
  },
  async 'retry to DLQ'(topic) {
    const times = [];
    consume(topic, message => {
      times.push(message.reconsumeTimes);
      throw new Error('not today');
    }, { maxReconsumeTimes: 2 });
    await send(numbered(topic, 0));
    await until('tried three times', () => times.length >= 3);
    const dead = `%DLQ%${topic}_group`;
    const [ letters ] = watch(dead, { consumerGroup: `${topic}_undertaker`, instanceName: `${topic}_undertaker` });
    await until('dead letter', () => letters.length > 0);
    assert.strictEqual(text(letters[0]), 'message 0');
    assert.deepStrictEqual(times, [ 0, 1, 2 ]);
    return 'tried 3 times, then a dead letter';
  },
  async 'offset reset'(topic) {
    const [ seen, consumer ] = watch(topic);
    await sendAll(topic, 0, COUNT);
    await expect(seen, COUNT);
    // It does not listen to a broker that resets it, so that this is done while it is away.
    await sleep(1000);
    await consumer.close();
    console.log(`please\treset\t${topic} ${topic}_group`);
    await sleep(3000);
    const [ again ] = watch(topic, { instanceName: `${topic}_again` });
    await expect(again, COUNT);
    return `${COUNT} taken twice, reset while it was away`;
  },
  async rebalancing(topic) {
    const both = [ 0, 1 ].map(member => watch(topic, { instanceName: `member${member}` })[0]);
    const file = `${topic}.txt`;
    fs.writeFileSync(file, '');
    const third = () => fs.readFileSync(file, 'utf8').split('\n').filter(line => line.startsWith('message '));
    let sent = 0;
    const all = () => new Set([ ...bodies(both[0]), ...bodies(both[1]), ...third() ]);
    // Sends on until exactly these take messages.
    const share = async wanted => {
      const counts = () => [ both[0].length, both[1].length, third().length ];
      const before = counts();
      await sendAll(topic, sent, sent + 2 * COUNT);
      sent += 2 * COUNT;
      await until('all taken', () => all().size === sent);
      return counts().map((count, at) => count > before[at]).join() === wanted;
    };
    await until('a share for two', () => share('true,true,false'));
    const output = fs.openSync(file, 'a');
    const child = spawn(process.execPath, [ __filename, nameSrv, 'member', topic, `${topic}_group` ],
      { stdio: [ 'ignore', output, 'ignore' ] });
    try {
      await until('a share for three', () => share('true,true,true'));
    } finally {
      child.kill('SIGKILL');
    }
    const taken = third().length;
    await until('a share for two again', () => share('true,true,false'));
    return `two, three, two consumers; the third took ${taken}, none of ${sent} lost`;
  },
};

// Where there is no way to it: what was looked for, and whether it is there.
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

async function attempt(feature) {
  const topic = `${prefix}_${feature.replace(/[^A-Za-z0-9]+/g, '_')}`;
  let line;
  try {
    if (feature in ABSENT) {
      const [ name, isThere ] = ABSENT[feature];
      assert(!isThere(), `there is ${name}`);
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
  await Promise.all(rest.map(attempt));
  console.log('ended');
  process.exit(0);
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
