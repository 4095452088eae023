// Orders through kafkajs, one in each codec.
//
// usage: node clients.mjs BROKERS
//
// Submits bare JSON orders, waits for their statuses, and prints what it found as one line of JSON.

import { init as zstdIsReady, compress as zstd } from "@bokuweb/zstd-wasm";
import kafkajs from "kafkajs";
import SnappyCodec from "kafkajs-snappy";
import lz4 from "lz4js";

const WAIT_MS = 120_000;
const FINAL = new Set(["completed", "compensated", "failed"]);

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs;

/** What only sends needs no way back. */
const sending = (compress) => () => ({
  compress: async ({ buffer }) => Buffer.from(compress(buffer)),
  decompress: async () => {
    throw new Error("nothing is read in this codec");
  },
});

const details = {
  customerID: "ÅSA",
  freight: 12.5,
  shipVia: 1,
  shipName: "Åsas Café",
  shipAddress: { street: "1", city: "Malmö", country: "Sweden" },
  details: [{ productID: 11, unitPrice: 14, quantity: 2 }],
};

async function submit(kafka) {
  const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
  await producer.connect();
  const orders = [];
  for (const [name, compression] of Object.entries(CompressionTypes)) {
    const order = { order_id: `kafkajs-${name}`, workflow: "order-fulfilment", details };
    const message = { key: order.order_id, value: JSON.stringify(order) };
    await producer.send({ topic: "orders", compression, messages: [message] });
    orders.push(order.order_id);
  }
  await producer.disconnect();
  return orders;
}

async function follow(kafka, orders) {
  const statuses = Object.fromEntries(orders.map((order) => [order, []]));
  const consumer = kafka.consumer({ groupId: "clients-kafkajs" });
  await consumer.connect();
  await consumer.subscribe({ topics: ["status"], fromBeginning: true });
  const isDone = (told) => told.some(([, status]) => FINAL.has(status));
  await new Promise((done, failed) => {
    const late = setTimeout(
      () => failed(new Error(`waited ${WAIT_MS} ms in vain: ${JSON.stringify(statuses)}`)),
      WAIT_MS,
    );
    const eachMessage = async ({ message }) => {
      const { order_id, sequence, status } = JSON.parse(message.value.toString());
      statuses[order_id]?.push([sequence, status]);
      if (Object.values(statuses).every(isDone)) {
        clearTimeout(late);
        done();
      }
    };
    consumer.run({ eachMessage }).catch(failed);
  });
  await consumer.disconnect();
  return statuses;
}

await zstdIsReady();
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
CompressionCodecs[CompressionTypes.LZ4] = sending((bytes) => lz4.compress(bytes));
CompressionCodecs[CompressionTypes.ZSTD] = sending((bytes) => zstd(bytes));

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.ERROR });
const statuses = await follow(kafka, await submit(kafka));
console.log(JSON.stringify({ statuses }));
