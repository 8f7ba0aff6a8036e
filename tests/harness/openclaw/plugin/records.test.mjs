import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./support.mjs";

const records = await load("records.js");
const ctx = { agentId: "main", sessionKey: "agent:main:telegram:direct:42", sessionId: "s1", runId: "r1" };
const kept = (facts) => JSON.stringify(facts);

test("of arguments only the names are kept, and which background command they are about", () => {
  const params = { command: "cat secret.txt", sessionId: "ember-cove", nested: { password: "secret" } };
  const facts = records.startFacts({ toolName: "exec", params, toolCallId: "c1" }, ctx);
  assert.deepEqual(facts.names, ["command", "sessionId", "nested"]);
  assert.equal(facts.job, "ember-cove");
  assert.equal(facts.runId, "r1");
  assert.doesNotMatch(kept(facts), /secret/);
});

test("of results only what the outcome needs is kept", () => {
  const details = {
    status: "error", tool: "read", error: "secret", exitCode: 3, ok: false, content: "secret", sessionId: "nova-dune",
    durationMs: 5, cwd: "/secret", timedOut: false,
  };
  const result = { content: [{ type: "text", text: '{"status":"error","tool":"read","error":"secret"}' }], details };
  const facts = records.endFacts({ toolName: "read", params: {}, result, error: "secret", durationMs: 7 }, ctx);
  assert.deepEqual(facts.details, {
    ok: false, timedOut: false, status: "error", exitCode: 3, durationMs: 5, error: true, sessionId: "nova-dune",
  });
  assert.deepEqual([facts.isError, facts.hasResult, facts.durationMs, facts.text], [true, true, 7, undefined]);
  assert.doesNotMatch(kept(facts), /secret/);
});

for (const [name, result, expected] of [
  ["an error as old versions wrote it", '{"status":"error","tool":"read","error":"secret"}', '{"status":"error","tool":"read"}'],
  ["a list of blocks", { content: [{ type: "text", text: '{"status":"error","tool":"x"}' }] }, '{"status":"error","tool":"x"}'],
  ["another text", "secret", undefined],
  ["a status without a tool", '{"status":"error","secret":1}', undefined],
  ["a text that is too long", `{"status":"error","tool":"read","x":"${"y".repeat(5_000)}"}`, undefined],
  ["nothing", undefined, undefined],
]) {
  test(`a result without details: ${name}`, () => {
    const facts = records.endFacts({ toolName: "read", params: null, result }, ctx);
    assert.equal(facts.text, expected);
    assert.equal(facts.details, undefined);
    assert.doesNotMatch(kept(facts), /secret/);
  });
}

test("a tool that the host does not have is known", () => {
  const result = { content: [{ type: "text", text: "Tool nosuch not found" }], details: {} };
  assert.equal(records.endFacts({ toolName: "nosuch", result, error: "x" }, ctx).unknown, true);
  assert.equal(records.endFacts({ toolName: "other", result, error: "x" }, ctx).unknown, undefined);
});

test("long texts are cut, and how long they were is kept", () => {
  const facts = records.promptFacts({ prompt: "😀".repeat(5_000) }, ctx);
  assert.equal(facts.text.length, records.TEXT);
  assert.equal(facts.chars, 5_000);
  assert.deepEqual(records.promptFacts({ prompt: "hello" }, ctx).chars, undefined);
});

test("half of a character pair does not break a record", () => {
  const facts = records.startFacts({ toolName: "a\ud83e", params: { "b\ud83e": 1, sessionId: "\udc00" }, toolCallId: "c\ud83e" }, ctx);
  assert.ok(kept(facts).isWellFormed() && !kept(facts).includes("\\ud"));
  assert.equal(records.promptFacts({ prompt: `${"x".repeat(records.TEXT - 1)}😀 and more` }, ctx).text.isWellFormed(), true);
});

test("the request itself comes before the prompt, also when it is empty", () => {
  assert.equal(records.promptFacts({ prompt: "history", currentUserMessage: "now" }, ctx).text, "now");
  assert.equal(records.promptFacts({ prompt: "history", currentUserMessage: "" }, ctx).text, undefined);
  assert.equal(records.promptFacts({ prompt: "secret" }, ctx, { texts: false }).text, undefined);
  assert.equal(records.messageFacts({ content: "secret" }, ctx, { texts: false }).text, undefined);
});

test("where it comes from", () => {
  assert.deepEqual(records.placeOf({ isGroup: true, channel: "sms" }, {}), {
    key: "", sessionId: undefined, agentId: "main", channel: "sms", isGroup: true,
  });
  assert.equal(records.placeOf({}, { sessionKey: "agent:ops:main" }).agentId, "ops");
  assert.equal(records.placeOf({}, { channelId: "42" }).channel, undefined);
  assert.equal(records.placeOf({}, { channelId: "telegram" }, { ofMessage: true }).channel, "telegram");
  assert.equal(records.promptFacts({ prompt: "x" }, { ...ctx, inputProvenance: { kind: "inter_session" } }).origin, "inter_session");
});

test("strange events give a record or nothing, but the makers never run away", () => {
  for (const event of [undefined, null, {}, { params: "text", result: 7 }, { params: [], result: [], error: {} }]) {
    for (const make of ["startFacts", "endFacts", "messageFacts", "promptFacts", "runEndFacts", "sessionStartFacts", "sessionEndFacts"]) {
      assert.equal(records[make](event, undefined).session.agentId, "main");
    }
  }
});
