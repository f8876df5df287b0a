// ali_ons_send.js NAMESRV TOPIC BODY: sends one message with the JavaScript client and prints its id.
'use strict';

const { Producer, Message } = require('ali-ons');

async function main([nameSrv, topic, body]) {
  // The client requires an HTTP client, which it does not use if the NameServer address is given.
  const httpclient = { request: () => Promise.reject(new Error('no address server here')) };
  const producer = new Producer({ httpclient, nameSrv, producerGroup: 'compat_ali_ons' });
  producer.on('error', error => console.error(error));
  await producer.ready();
  const result = await producer.send(new Message(topic, 'TagA', body));
  console.log('sent', result.msgId);
  process.exit(result.sendStatus === 'SEND_OK' ? 0 : 1);
}

main(process.argv.slice(2)).catch(error => {
  console.error(error);
  process.exit(1);
});
