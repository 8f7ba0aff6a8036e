import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { folder, load, records } from "./support.mjs";

const { Spool } = await load("spool.js");
const facts = { session: { key: "agent:main:x:direct:1" } };

test("records are numbered, and time never goes back", () => {
  const root = folder();
  let now = 1_000;
  const spool = new Spool(root, { now: () => now });
  for (const time of [1_000, 1_005, 990]) {
    now = time;
    assert.equal(spool.append("agent_end", facts), true);
  }
  const found = records(root);
  assert.deepEqual(found.map((r) => [r.n, r.at]), [[1, 1_000], [2, 1_005], [3, 1_005]]);
  assert.equal(new Set(found.map((r) => r.id)).size, 3);
});

test("only the owner may read it", { skip: process.platform === "win32" }, () => {
  const root = folder();
  mkdirSync(join(root, "spool"), { mode: 0o755 });
  new Spool(root).append("agent_end", facts);
  const [name] = readdirSync(join(root, "spool"));
  assert.match(name, new RegExp(`^${process.pid}-\\d+-[0-9a-f]{12}\\.jsonl$`));
  assert.equal(statSync(join(root, "spool")).mode & 0o777, 0o700);
  assert.equal(statSync(join(root, "spool", name)).mode & 0o777, 0o600);
});

test("a file that is long or old is followed by another, and numbers go on", () => {
  const root = folder();
  let now = 1_000;
  const spool = new Spool(root, { fileBytes: 300, fileAgeMs: 5_000, now: () => now });
  for (let at = 0; at < 9; at += 1) spool.append("agent_end", facts);
  now += 5_000;
  spool.append("agent_end", facts);
  const files = readdirSync(join(root, "spool"));
  assert.ok(files.length > 3);
  assert.equal(new Set(files.map((name) => name.split("-")[2])).size, 1);
  assert.deepEqual(records(root).map((r) => r.n), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});

test("a full spool drops, counts, and tells the count when there is room again", () => {
  const root = folder();
  mkdirSync(join(root, "spool"));
  writeFileSync(join(root, "spool", "1-1-other.jsonl"), "x".repeat(2_000));
  let now = 1_000;
  const spool = new Spool(root, { totalBytes: 2_050, now: () => now });
  assert.equal(spool.append("agent_end", facts), false);
  assert.equal(spool.append("agent_end", facts), false);
  rmSync(join(root, "spool", "1-1-other.jsonl"));
  assert.equal(spool.append("agent_end", facts), false, "it does not look at once");
  now += 1_000;
  assert.equal(spool.append("agent_end", facts), true);
  assert.equal(spool.append("agent_end", facts), true);
  assert.deepEqual(records(root).map((r) => [r.n, r.dropped]), [[1, 3], [2, undefined]]);
});

test("a folder that cannot be written costs the record, never an exception", () => {
  const root = folder();
  writeFileSync(join(root, "spool"), "a file");
  const spool = new Spool(root);
  assert.equal(spool.append("agent_end", facts), false);
  assert.equal(spool.dropped, 1);
  rmSync(join(root, "spool"));
  assert.equal(spool.append("agent_end", facts), true);
  assert.equal(records(root)[0].dropped, 1);
  const circle = {};
  circle.circle = circle;
  assert.equal(spool.append("agent_end", circle), false);
});

test("a record takes tens of microseconds", () => {
  const spool = new Spool(folder());
  spool.append("agent_end", facts);
  const begun = process.hrtime.bigint();
  for (let at = 0; at < 500; at += 1) spool.append("agent_end", facts);
  const each = Number(process.hrtime.bigint() - begun) / 500 / 1_000;
  assert.ok(each < 2_000, `${each} µs`);
});
