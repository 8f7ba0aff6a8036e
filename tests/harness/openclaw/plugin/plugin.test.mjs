import assert from "node:assert/strict";
import { createServer } from "node:http";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { Host, folder, load, notes, program, records, sleep, until } from "./support.mjs";

const { default: plugin } = await load("index.js");
const { Memories } = await load("memories.js");
const { ADVICE_MS, handlersOf } = await load("hooks.js");
const { hostTool, toolList } = await load("tools.js");
const manifest = JSON.parse(readFileSync(new URL("openclaw.plugin.json", new URL("../../../../harness/openclaw/plugin/", import.meta.url))));

const ctx = { agentId: "main", sessionKey: "agent:main:telegram:direct:42", sessionId: "s1", runId: "r1" };
const at = (stateDir) => join(stateDir, "agents", "main", "sherpa");
const tool = (name) => toolList({ sagas: true }).find((one) => one.name === name);
const told = async (made, params = {}) => JSON.parse((await made.execute("id", params)).content[0].text);

function fresh(stateDir, command, transport = {}, config = {}) {
  const memories = new Memories({ transport: { mode: "stdio", command, ...transport }, ...config }, () => stateDir);
  return { memories, handlers: handlersOf(memories) };
}

test("registering again and again starts nothing and registers once for each host", () => {
  const state = folder();
  const hosts = ["full", "discovery", "discovery", "cli-metadata"].map((mode) => new Host({}, state, mode));
  for (const host of hosts) for (let time = 0; time < 3; time += 1) assert.equal(plugin.register(host), undefined);
  for (const host of hosts.slice(0, 3)) {
    assert.ok(Object.values(host.hooks).every((handlers) => handlers.length === 1));
    assert.deepEqual(Object.keys(host.tools).sort(), [...manifest.contracts.tools].sort());
  }
  assert.deepEqual(hosts[3].hooks, {});
  assert.equal(existsSync(join(state, "agents")), false);
  // The same memory serves them all, so times and numbers go on.
  hosts[0].fire("before_tool_call", { toolName: "exec", toolCallId: "a", params: {} }, ctx);
  hosts[1].fire("after_tool_call", { toolName: "exec", toolCallId: "a", params: {} }, ctx);
  assert.deepEqual(records(at(state)).map((r) => [r.n, r.hook]), [[1, "before_tool_call"], [2, "after_tool_call"]]);
});

test("before_tool_call neither waits nor throws nor blocks, whatever it is given", () => {
  const state = folder();
  const { handlers } = fresh(state, "/no/such/program");
  const trap = new Proxy({}, { get() { throw new Error("trap"); } });
  for (const event of [undefined, null, {}, { toolName: "exec", params: { a: 1 } }, trap]) {
    assert.equal(handlers.before_tool_call(event, ctx), undefined);
    assert.equal(handlers.after_tool_call(event, trap), undefined);
  }
  writeFileSync(join(at(state), "spool", "x"), "");
  chmodSync(join(at(state), "spool"), 0o500);
  assert.equal(handlers.before_tool_call({ toolName: "exec" }, ctx), undefined);
  chmodSync(join(at(state), "spool"), 0o700);
  const broken = handlersOf({ settings: { messages: true }, of: () => { throw new Error("no folder"); } });
  assert.equal(broken.before_tool_call({ toolName: "exec" }, ctx), undefined);
});

test("advice comes before the prompt, and the child is told who asks", async () => {
  const state = folder();
  const command = program(state, 'return { result: { text: request.operation === "advise" ? "Sherpa advisory" : null } };');
  const { memories, handlers } = fresh(state, command, { env: { MARK: "set" } }, { advisory: { injectThreshold: 0.5 } });
  assert.deepEqual(await handlers.before_prompt_build({ prompt: "do it" }, { ...ctx, channel: "telegram" }), {
    prependContext: "Sherpa advisory",
  });
  const [started, request] = notes(state);
  const file = join(at(state), "openclaw-plugin.json");
  assert.deepEqual(started.args, ["--root", at(state), "--config", file, "serve", "--stdio"]);
  assert.equal(started.env, "set");
  assert.equal(JSON.parse(readFileSync(file, "utf8")).advisory.injectThreshold, 0.5);
  assert.deepEqual(request.params, {
    session: { key: ctx.sessionKey, agentId: "main", channel: "telegram" },
    record: true,
  });
  // One child for all that follows, and no advice for what the user did not begin.
  assert.equal(await handlers.before_prompt_build({ prompt: "do it" }, { ...ctx, trigger: "heartbeat" }), undefined);
  await handlers.agent_end({ success: true }, ctx);
  assert.deepEqual(notes(state).map((n) => n.operation).filter(Boolean), ["advise", "drain"]);
  memories.close();
  await until(() => notes(state).some((n) => n.ended));
});

test("the memory starts while the host prepares a run of the user", async () => {
  const state = folder();
  const command = program(state, "return { result: { text: null } };");
  const { memories, handlers } = fresh(state, command);
  assert.equal(handlers.before_model_resolve({ prompt: "x" }, { ...ctx, trigger: "heartbeat" }), undefined);
  assert.equal(handlers.before_model_resolve({ prompt: "x" }, ctx), undefined);
  assert.equal(handlers.before_model_resolve(undefined, undefined), undefined);
  await until(() => notes(state).length === 1);
  await handlers.before_prompt_build({ prompt: "x" }, ctx);
  assert.equal(notes(state).filter((n) => n.started).length, 1);
  memories.close();
  const none = fresh(folder(), "/no/such/program");
  assert.equal(none.handlers.before_model_resolve({ prompt: "x" }, ctx), undefined);
  await sleep(50);
  none.memories.close();
});

for (const [name, body] of [
  ["no text", "return { result: { text: null, gate: 'cooldown' } };"],
  ["an error", "return { error: { code: 'x', message: 'y' } };"],
  ["nonsense", "process.stdout.write('nonsense\\n'); return { result: 7 };"],
  ["its death", "process.exit(3);"],
]) {
  test(`no advice of ${name}`, async () => {
    const state = folder();
    const { memories, handlers } = fresh(state, program(state, body));
    assert.equal(await handlers.before_prompt_build({ prompt: "do it" }, ctx), undefined);
    assert.equal(records(at(state)).length, 1);
    memories.close();
  });
}

test("advice is waited for one second, of a child and of a server that hang", async () => {
  const state = folder();
  const server = createServer(() => {});
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const baseUrl = `http://127.0.0.1:${server.address().port}`;
  const hanging = [
    fresh(state, program(state, "return undefined;")),
    fresh(state, "unused", { mode: "http", baseUrl }),
    fresh(state, "unused", { mode: "http", baseUrl, manageProcess: true }),
  ];
  await Promise.all(
    hanging.map(async ({ handlers, memories }) => {
      const begun = Date.now();
      assert.equal(await handlers.before_prompt_build({ prompt: "do it" }, ctx), undefined);
      const waited = Date.now() - begun;
      assert.ok(waited >= ADVICE_MS - 50 && waited < 2 * ADVICE_MS, `${waited} ms`);
      memories.close();
    }),
  );
  server.closeAllConnections();
  server.close();
});

test("advice that is switched off starts nothing", async () => {
  const state = folder();
  const command = program(state, "return { result: { text: 'x' } };");
  const { handlers } = fresh(state, command, {}, { advisory: { enabled: false }, capture: { messages: false } });
  assert.equal(await handlers.before_prompt_build({ prompt: "secret" }, ctx), undefined);
  assert.deepEqual(notes(state), []);
  assert.equal(records(at(state))[0].text, undefined);
});

test("a tool asks about the present case unless the model names one", async () => {
  const state = folder();
  const { memories } = fresh(state, program(state, "return { result: { echo: request } };"));
  const next = hostTool(tool("workflow_next"), memories, ctx);
  assert.equal(next.parameters.type, "object");
  const answer = await next.execute("id", { limit: 2 });
  assert.deepEqual(answer.details.result.echo.params, { limit: 2, session: { key: ctx.sessionKey, agentId: "main" } });
  assert.deepEqual([answer.details.ok, answer.details.backend], [true, "stdio"]);
  assert.deepEqual((await told(next, { caseId: "session:7" })).echo.params, { caseId: "session:7" });
  assert.deepEqual((await told(next, { caseId: "" })).echo.params.session.key, ctx.sessionKey);
  assert.deepEqual((await told(hostTool(tool("workflow_status"), memories, ctx))).echo.params, {});
  const event = await told(hostTool(tool("workflow_ingest_event"), memories, ctx), { caseId: "c", type: "t", source: "s" });
  assert.deepEqual(event.echo.params, { caseId: "c", type: "t", source: "s" });
  assert.equal((await told(hostTool(tool("workflow_risks"), memories, ctx))).echo.operation, "outcomes");
  memories.close();
});

test("what the memory refuses is an answer with its code", async () => {
  const state = folder();
  const { memories } = fresh(state, program(state, "return { error: { code: 'not_found', message: 'no such case' } };"));
  assert.deepEqual(await told(hostTool(tool("workflow_next"), memories, ctx), { caseId: "x" }), {
    backend: "stdio",
    ok: false,
    error: { code: "not_found", message: "no such case" },
  });
  memories.close();
});

for (const [name, transport] of [
  ["a program that is not there", { mode: "embedded", command: "/no/such/program" }],
  ["no daemon", { mode: "http", baseUrl: "http://127.0.0.1:9" }],
  ["a daemon that cannot be started", { mode: "http", baseUrl: "http://127.0.0.1:9", manageProcess: true, command: "/no/such/program", timeoutMs: 500 }],
]) {
  test(`without a backend a tool says so: ${name}`, async () => {
    const { memories } = fresh(folder(), undefined, transport);
    const answer = await told(hostTool(tool("workflow_next"), memories, ctx));
    assert.equal(answer.backend, transport.mode);
    assert.equal(answer.ok, false);
    assert.equal(answer.error.code, "backend_unavailable");
    assert.ok(answer.error.message.length > 0);
    memories.close();
  });
}

test("a child that dies is started again, after pauses that double", async () => {
  const state = folder();
  const { memories } = fresh(state, program(state, "process.exit(1);"));
  const next = hostTool(tool("workflow_next"), memories, ctx);
  const end = Date.now() + 1_700;
  while (Date.now() < end) {
    assert.equal((await told(next)).ok, false);
    await sleep(5);
  }
  const starts = notes(state).filter((n) => n.started).map((n) => n.at);
  const pauses = starts.slice(1).map((time, index) => time - starts[index]);
  assert.ok(pauses.length >= 2 && pauses.length <= 3, `${pauses}`);
  pauses.forEach((pause, index) => assert.ok(pause >= 250 * 2 ** index, `${pauses}`));
  memories.close();
});

test("pauses end at five seconds, and a success ends them", async () => {
  const { Backoff } = await load("backoff.js");
  let now = 0;
  const backoff = new Backoff(() => now);
  const pauses = [];
  for (let time = 0; time < 7; time += 1) {
    backoff.failed();
    pauses.push(backoff.wait);
    now += backoff.wait;
    assert.equal(backoff.wait, 0);
  }
  assert.deepEqual(pauses, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
  backoff.worked();
  backoff.failed();
  assert.equal(backoff.wait, 250);
});

test("embedded is a child, and says so once", async () => {
  const state = folder();
  const said = [];
  const command = program(state, "return { result: {} };");
  const memories = new Memories({ transport: { command } }, () => state, { info: (text) => said.push(text) });
  for (const agent of ["main", "ops"]) await memories.of(agent).link.call("status", {}, { timeoutMs: 5_000 });
  assert.equal(said.length, 1);
  assert.deepEqual(notes(state).filter((n) => n.started).map((n) => n.args[1]), [
    at(state),
    join(state, "agents", "ops", "sherpa"),
  ]);
  memories.close();
});

test("a daemon of our own is started when none answers, and ended with us", async () => {
  const state = folder();
  const path = join(state, "sherpa.mjs");
  writeFileSync(
    path,
    `#!${process.execPath}
import { createServer } from "node:http";
import { mkdirSync, writeFileSync, appendFileSync } from "node:fs";
const args = process.argv.slice(2);
const note = (what) => appendFileSync(${JSON.stringify(join(state, "notes.jsonl"))}, JSON.stringify(what) + "\\n");
note({ args });
const root = args[args.indexOf("--root") + 1];
mkdirSync(root, { recursive: true });
writeFileSync(root + "/daemon.token", "a-token-of-some-length\\n");
createServer((request, response) => {
  const ok = request.headers.authorization === "Bearer a-token-of-some-length";
  response.setHeader("Content-Type", "application/json");
  if (request.url === "/health") return response.end('{"status":"ok"}');
  response.statusCode = ok ? 200 : 401;
  response.end(JSON.stringify(ok ? { path: request.url } : { error: { code: "unauthorized", message: "no" } }));
}).listen(Number(args[args.indexOf("--port") + 1]), args[args.indexOf("--host") + 1]);
process.stdin.resume();
process.stdin.on("end", () => { note({ ended: true }); process.exit(0); });
`,
  );
  chmodSync(path, 0o755);
  const probe = createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const port = probe.address().port;
  await new Promise((resolve) => probe.close(resolve));
  const { memories } = fresh(state, path, { mode: "http", baseUrl: `http://127.0.0.1:${port}/`, manageProcess: true });
  const link = memories.of("main").link;
  const answers = await Promise.all([1, 2, 3].map(() => link.call("next", {}, { timeoutMs: 5_000 })));
  assert.deepEqual(answers[0], { path: "/v1/next" });
  assert.deepEqual(notes(state), [
    { args: ["--root", at(state), "--config", join(at(state), "openclaw-plugin.json"), "serve", "--owned", "--host", "127.0.0.1", "--port", String(port)] },
  ]);
  memories.close();
  await until(() => notes(state).length === 2);
  await assert.rejects(link.call("next", {}, { timeoutMs: 1_000 }), { code: "backend_unavailable" });
});

test("another configuration takes the place of the one before", async () => {
  const state = folder();
  const command = program(state, "return { result: { text: 'x' } };");
  const first = new Host({ transport: { mode: "stdio", command } }, state);
  plugin.register(first);
  await first.fire("before_prompt_build", { prompt: "x" }, ctx);
  plugin.register(new Host({ transport: { mode: "stdio", command }, advisory: { enabled: false } }, state));
  await until(() => notes(state).some((n) => n.ended));
});

test("an idle child does not keep the host alive", async () => {
  const state = folder();
  const { spawnSync } = await import("node:child_process");
  const command = program(state, "return { result: { text: 'advice' } };");
  const script = `
    const { Memories } = await import(${JSON.stringify(new URL("../../../../harness/openclaw/plugin/memories.js", import.meta.url).href)});
    const { handlersOf } = await import(${JSON.stringify(new URL("../../../../harness/openclaw/plugin/hooks.js", import.meta.url).href)});
    const handlers = handlersOf(new Memories({ transport: { mode: "stdio", command: ${JSON.stringify(command)} } }, () => ${JSON.stringify(state)}));
    console.log((await handlers.before_prompt_build({ prompt: "x" }, ${JSON.stringify(ctx)})).prependContext);
  `;
  const done = spawnSync(process.execPath, ["--input-type=module", "-e", script], { timeout: 10_000, encoding: "utf8" });
  assert.deepEqual([done.status, done.stdout], [0, "advice\n"], done.stderr);
  await until(() => notes(state).some((n) => n.ended));
});

test("a saga belongs to the session that it is begun in, and its steps may take long", async () => {
  const state = folder();
  const { memories } = fresh(state, program(state, "return { result: { given: request.params } };"));
  const start = hostTool(tool("saga_start"), memories, ctx);
  const result = await told(start, { goal: "g", profile: "generic", session: "another" });
  assert.deepEqual(result.given, { goal: "g", profile: "generic", session: ctx.sessionKey });
  const advance = hostTool(tool("saga_advance"), memories, ctx);
  assert.deepEqual((await told(advance, { sagaId: "saga-1-a" })).given, { sagaId: "saga-1-a" });
  assert.equal(tool("saga_advance").limitMs, 600_000);
  assert.equal(tool("workflow_next").limitMs, 0);
  assert.equal(tool("workflow_doctor").limitMs, 60_000);
  memories.close();
});

test("tools of sagas can be left out", () => {
  assert.deepEqual(toolList({ sagas: false }).filter(({ name }) => name.startsWith("saga_")), []);
  assert.equal(toolList({ sagas: true }).filter(({ name }) => name.startsWith("saga_")).length, 4);
});

test("what a saga waits for comes before the prompt, once one was begun", async () => {
  const state = folder();
  const body = 'return { result: { text: { advise: "advice", saga_reminder: "Saga x waits" }[request.operation] } };';
  const { memories, handlers } = fresh(state, program(state, body));
  assert.deepEqual(await handlers.before_prompt_build({ prompt: "p" }, ctx), { prependContext: "advice" });
  mkdirSync(join(at(state), "saga"));
  writeFileSync(join(at(state), "saga", "sessions.json"), "{}");
  assert.deepEqual(await handlers.before_prompt_build({ prompt: "p" }, ctx), { prependContext: "Saga x waits\n\nadvice" });
  assert.deepEqual(await handlers.before_prompt_build({ prompt: "p" }, { ...ctx, trigger: "cron" }), {
    prependContext: "Saga x waits",
  });
  const asked = notes(state).filter((n) => n.operation === "saga_reminder");
  assert.deepEqual(asked.map((n) => n.params), [{ session: ctx.sessionKey }, { session: ctx.sessionKey }]);
  memories.close();
});

test("an error of links that an earlier load of the plugin made keeps its code", async () => {
  const foreign = Object.assign(new Error("no"), { name: "BackendError", code: "refused" });
  const link = { call: async () => { throw foreign; } };
  const memories = { settings: { mode: "stdio", timeoutMs: 1_000 }, of: () => ({ link }) };
  const { error } = await told(hostTool(tool("saga_status"), memories, ctx), { sagaId: "s" });
  assert.deepEqual(error, { code: "refused", message: "no" });
});
