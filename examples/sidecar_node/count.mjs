// Count orders per customer at a sidecar: npm ci && node count.mjs app.sock customer-totals
// The worker (kstreams-assign worker) is the member; this program polls, adds up, and commits.
// It may die at any moment.

import { createConnection } from "node:net";
import { decode, encode } from "@msgpack/msgpack";

class Sidecar {
  #socket;
  #held = Buffer.alloc(0);
  #waiting = new Map();
  #number = 0;

  constructor(path) {
    this.#socket = createConnection(path);
    this.#socket.on("data", (data) => this.#receive(data));
    this.#socket.on("error", (error) => this.#giveUp(error));
    this.#socket.on("close", () => this.#giveUp(new Error("the worker has hung up")));
  }

  // Sends a request; resolves to its ok, rejects with its error (error.code says why).
  request(op, fields = {}) {
    const id = ++this.#number;
    const packed = encode({ id, op, ...fields });
    const length = Buffer.alloc(4);
    length.writeUInt32BE(packed.length);
    this.#socket.write(Buffer.concat([length, packed]));
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  end() {
    this.#socket.destroy();
  }

  #receive(data) {
    this.#held = Buffer.concat([this.#held, data]);
    while (this.#held.length >= 4 && this.#held.length >= 4 + this.#held.readUInt32BE()) {
      const end = 4 + this.#held.readUInt32BE();
      this.#take(decode(this.#held.subarray(4, end)));
      this.#held = this.#held.subarray(end);
    }
  }

  #take({ id, ok, error, event }) {
    if (event) return; // assigned, restored, revoked, lost: this program need not know
    const answer = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error) (answer ?? { reject: (why) => this.#giveUp(why) }).reject(Object.assign(new Error(error.message), { code: error.code }));
    else answer.resolve(ok);
  }

  #giveUp(error) {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

async function count(sidecar, { task, key }, sink) {
  const orders = new Map();
  for (const customer of key) {
    if (customer === null) continue;
    const name = Buffer.from(customer).toString("latin1"); // a text that holds any bytes, to look it up by
    orders.set(name, (orders.get(name) ?? 0) + 1);
  }
  const keys = [...orders.keys()].map((name) => Buffer.from(name, "latin1"));
  const before = await sidecar.request("get", { task, store: "totals", keys });
  const values = [...orders.values()].map((n, i) => Buffer.from(String(n + Number(before[i] ? Buffer.from(before[i]) : 0))));
  await sidecar.request("put", { task, store: "totals", keys, values });
  await sidecar.request("emit", { task, topic: sink, keys, values });
}

const [path, sink] = process.argv.slice(2);
const sidecar = new Sidecar(path);
let ending = false;
process.on("SIGINT", () => (ending = true));

await sidecar.request("hello", { version: 1 });
while (!ending) {
  const { partitions } = await sidecar.request("poll", { max_records: 5000, timeout_ms: 500, columns: true });
  for (const orders of partitions) {
    await count(sidecar, orders, sink).catch((error) => {
      if (error.code !== "task_migrated") throw error; // its next owner reads these orders again
    });
  }
  await sidecar.request("commit");
}
await sidecar.request("close");
sidecar.end();
