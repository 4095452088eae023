// A service with flights, hotel rooms and a bank: what the workflow's agents call.
//
// `triad dev` starts it, and says in PORT where to listen and in DATA_DIR where to keep its data. Nothing but
// Node's standard library is needed. The rules of the contract are in `answer`; what the service does is in
// `actions`, and is yours to change.

import { createServer } from "node:http";
import fs from "node:fs";
import path from "node:path";

/** The service will not do it, now or later. Nothing has happened. */
class Refused extends Error {
  constructor(code, message, status = 422) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

const bookFlight = (request, number) => ({ reference: `F-${number}`, price: 120 * request.guests });

const bookRoom = (request, number) => {
  if (request.guests > 4) throw new Refused("no-room", `no room has ${request.guests} beds`);
  return { reference: `H-${number}`, price: 80 * request.nights };
};

const charge = (request, number) => {
  if (request.amount > 5000) throw new Refused("card-declined", "the card has not so much");
  return { reference: `B-${number}`, amount: request.amount };
};

// Here the booking would be cancelled, or the money sent back.
const reverse = (request, number) => ({ reference: `C-${number}` });

const actions = {
  "flights/book": bookFlight,
  "flights/cancel": reverse,
  "hotel/book": bookRoom,
  "hotel/cancel": reverse,
  "bank/charge": charge,
  "bank/refund": reverse,
};

// What has happened under each key. It is kept for good: a call may come again after days. Each call that
// changes something is one line of a file, on disk before the call is answered.
const keys = new Map();
const file = path.join(process.env.DATA_DIR ?? ".", "service.jsonl");
const log = fs.openSync(file, "a+");
{
  const bytes = fs.readFileSync(file);
  const whole = bytes.lastIndexOf("\n") + 1; // a crash may have left the beginning of a line
  fs.ftruncateSync(log, whole);
  for (const line of bytes.subarray(0, whole).toString().split("\n")) {
    if (line) for (const [name, entry] of JSON.parse(line)) keys.set(name, entry);
  }
}

/** Keeps entries, all of them or none. Nothing else runs meanwhile. */
function keep(entries) {
  fs.writeSync(log, JSON.stringify(entries) + "\n");
  fs.fsyncSync(log);
  for (const [name, entry] of entries) keys.set(name, entry);
}

/** JSON with sorted keys: the same request has the same text. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical)}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const fields = Object.keys(value).sort();
  return `{${fields.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)}}`;
}

/** One call, by the contract of a remote service (`triad docs service-contract`). */
function answer(agent, action, headers, body) {
  const direction = headers["triad-direction"] ?? "forward";
  const key = headers["idempotency-key"];
  if (!key) throw new Refused("no-key", "the header Idempotency-Key is missing", 400);
  const name = `${agent} ${key}`;
  const known = keys.get(name);
  if (direction === "probe") {
    // asked only whether it has happened
    return known?.state === "applied" ? { applied: true, output: known.output } : { applied: false };
  }
  const act = actions[`${agent}/${action}`];
  if (!act) throw new Refused("no-such-action", `there is no action ${agent}/${action}`, 404);
  const compensates = direction === "compensate" ? headers["triad-compensates"] : null;
  if (direction === "compensate" && !compensates) {
    throw new Refused("no-compensates", "the header Triad-Compensates is missing", 400);
  }
  const request = canonical([action, compensates, body]);
  if (known?.state === "compensated" || known?.state === "tombstone") {
    // the call was compensated, perhaps before it came
    throw new Refused("compensated", "this was compensated", 409);
  }
  if (known) {
    // the same again is answered the same
    if (known.request !== request) throw new Refused("key-reused", "this key came with another request");
    return known.output;
  }
  const number = keys.size + 1;
  if (direction === "compensate") {
    const target = keys.get(`${agent} ${compensates}`);
    // What comes first leaves a tombstone: should the forward call come later, it is refused.
    const output = target?.state === "applied" ? act(body, number) : {};
    const state = target && target.state !== "tombstone" ? "compensated" : "tombstone";
    keep([
      [`${agent} ${compensates}`, { ...target, state }],
      [name, { state: "done", request, output }],
    ]);
    return output;
  }
  const output = act(body, number);
  keep([[name, { state: "applied", request, output }]]);
  return output;
}

createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const [agent, ...rest] = request.url.split("/").filter(Boolean);
    const action = rest.join("/");
    let status = 200;
    let result;
    try {
      const text = Buffer.concat(parts).toString();
      result = answer(agent, action, request.headers, text ? JSON.parse(text) : null);
    } catch (error) {
      // What is no refusal may pass: Triad asks again with the same key.
      const refused = error instanceof Refused;
      status = refused ? error.status : 500;
      const message = refused ? error.message : `${error.name}: ${error.message}`;
      result = { error: { code: refused ? error.code : "broken", message } };
    }
    console.log(`${agent} ${action} ${request.headers["triad-order"] ?? "-"} -> ${status}`);
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(result));
  });
}).listen(Number(process.env.PORT ?? 8080), "127.0.0.1");
