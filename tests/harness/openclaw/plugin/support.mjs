// What the tests of the plugin share: a folder, a host that only remembers, a child that answers as it is told.

import { chmodSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const PLUGIN = new URL("../../../../harness/openclaw/plugin/", import.meta.url);
export const load = (name) => import(new URL(name, PLUGIN));

export const folder = () => mkdtempSync(join(tmpdir(), "sherpa-plugin-"));

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function until(condition, ms = 5_000) {
  const end = Date.now() + ms;
  while (!condition()) {
    if (Date.now() > end) throw new Error("it did not come");
    await sleep(10);
  }
}

/** Records of a spool, in the order of its files. */
export function records(root) {
  const spool = join(root, "spool");
  return readdirSync(spool)
    .filter((name) => name.endsWith(".jsonl"))
    .sort((a, b) => Number(a.split("-")[1]) - Number(b.split("-")[1]))
    .flatMap((name) => readFileSync(join(spool, name), "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line)));
}

export class Host {
  hooks = {};
  tools = {};
  info = [];

  constructor(config, stateDir, registrationMode = "full") {
    this.pluginConfig = config;
    this.registrationMode = registrationMode;
    this.runtime = { state: { resolveStateDir: () => stateDir } };
    this.logger = { info: (text) => this.info.push(text) };
  }

  on(hook, handler) {
    (this.hooks[hook] ??= []).push(handler);
  }

  registerTool(factory, { name }) {
    (this.tools[name] ??= []).push(factory);
  }

  fire(hook, event, ctx) {
    return this.hooks[hook][0](event, ctx);
  }
}

/**
 * A program that stands for `sherpa`: it notes its arguments and requests, and answers by `body`, the JavaScript of a
 * function of `{id, operation, params}` that may return an answer.
 */
export function program(at, body) {
  const path = join(at, "sherpa.mjs");
  writeFileSync(
    path,
    `#!${process.execPath}
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
const note = (what) => appendFileSync(${JSON.stringify(join(at, "notes.jsonl"))}, JSON.stringify(what) + "\\n");
note({ started: process.pid, args: process.argv.slice(2), at: Date.now(), env: process.env.MARK });
const answer = (request) => { ${body} };
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const request = JSON.parse(line);
  note(request);
  const found = answer(request);
  if (found !== undefined) process.stdout.write(JSON.stringify({ id: request.id, ...found }) + "\\n");
});
lines.on("close", () => { note({ ended: process.pid }); process.exit(0); });
`,
  );
  chmodSync(path, 0o755);
  return path;
}

export function notes(at) {
  try {
    return readFileSync(join(at, "notes.jsonl"), "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
  } catch {
    return [];
  }
}
