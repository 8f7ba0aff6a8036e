// What happens when the host calls: everything is written to the spool at once; only the prompt waits, and not for long.

import {
  agentOf,
  endFacts,
  messageFacts,
  placeOf,
  promptFacts,
  runEndFacts,
  sessionEndFacts,
  sessionStartFacts,
  startFacts,
} from "./records.js";
import { hasSagas } from "./settings.js";

export const ADVICE_MS = 1_000;
const DRAIN_MS = { agent_end: 5_000, session_end: 1_500 };
const OF_USER = new Set([undefined, null, "user", "manual"]);

/**
 * The handlers by hook. None of them throws; all but those of `before_prompt_build`, `agent_end` and `session_end`
 * return nothing at once.
 *
 * @param {import("./memories.js").Memories} memories
 */
export function handlersOf(memories) {
  const texts = memories.settings.messages;
  const keep = (hook, event, ctx, facts) => {
    try {
      const memory = memories.of(facts.session.agentId);
      memory.spool.append(hook, facts);
      return memory;
    } catch {
      return null;
    }
  };
  const keeping = (hook, factsOf) => (event, ctx) => {
    try {
      keep(hook, event, ctx, factsOf(event, ctx));
    } catch {
      // What cannot be told is not worth a failed tool.
    }
  };
  const message = (event, ctx) => messageFacts(event, ctx, { texts });
  const draining = (hook, factsOf) => async (event, ctx) => {
    try {
      const memory = keep(hook, event, ctx, factsOf(event, ctx));
      await memory?.link.call("drain", {}, { timeoutMs: DRAIN_MS[hook], background: true });
    } catch {
      // It lies in the spool; the next one takes it.
    }
  };
  return {
    before_tool_call: keeping("before_tool_call", startFacts),
    after_tool_call: keeping("after_tool_call", endFacts),
    before_dispatch: keeping("before_dispatch", message),
    message_received: keeping("message_received", message),
    session_start: keeping("session_start", sessionStartFacts),
    session_end: draining("session_end", sessionEndFacts),
    agent_end: draining("agent_end", runEndFacts),
    // A run begins: the host takes a second to prepare it, and the memory can start meanwhile.
    before_model_resolve: (_event, ctx) => {
      try {
        if (memories.settings.advises && OF_USER.has(ctx?.trigger)) {
          memories.of(agentOf(ctx?.agentId, ctx?.sessionKey)).link.warm();
        }
      } catch {
        // The prompt will find out.
      }
    },
    before_prompt_build: async (event, ctx) => {
      try {
        const memory = keep("before_prompt_build", event, ctx, promptFacts(event, ctx, { texts }));
        if (memory === null) return undefined;
        const place = placeOf(event, ctx);
        const asked = [];
        if (place.key && hasSagas(memories.settings, memory.root)) asked.push(["saga_reminder", { session: place.key }]);
        if (memories.settings.advises && OF_USER.has(ctx?.trigger)) {
          asked.push(["advise", { session: sessionOf(place), record: true }]);
        }
        const told = await Promise.allSettled(
          asked.map(async ([operation, params]) => await memory.link.call(operation, params, { timeoutMs: ADVICE_MS })),
        );
        const said = told.map(({ value }) => value?.text).filter((text) => typeof text === "string" && text !== "");
        return said.length > 0 ? { prependContext: said.join("\n\n") } : undefined;
      } catch {
        return undefined;
      }
    },
  };
}

/** A session as the memory's operations take it. */
export function sessionOf({ key, agentId, channel, isGroup }) {
  return { key, agentId, channel, isGroup };
}
