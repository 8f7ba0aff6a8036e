// The tools of the memory for the model. Which there are, tools.json says; it is written from Python's list.

import { readFileSync } from "node:fs";

import { BackendError, UNAVAILABLE } from "./errors.js";
import { sessionOf } from "./hooks.js";
import { placeOf } from "./records.js";

const SLOW_MS = 60_000;

/** @returns {Array<{name: string, operation: string, description: string, parameters: object, readOnly: boolean}>} */
export function toolList() {
  return JSON.parse(readFileSync(new URL("./tools.json", import.meta.url), "utf8"));
}

/**
 * A tool in the form of the host.
 *
 * @param {object} tool of `toolList`
 * @param {import("./memories.js").Memories} memories
 * @param {object | undefined} ctx of the run that the tool is made for; it knows the session
 */
export function hostTool(tool, memories, ctx) {
  const { mode, timeoutMs } = memories.settings;
  return {
    name: tool.name,
    label: tool.name,
    description: tool.description,
    parameters: tool.parameters,
    async execute(_id, params) {
      try {
        const place = placeOf(undefined, ctx);
        const given = withSession(tool, params, place);
        const limit = tool.readOnly && tool.operation !== "doctor" ? timeoutMs : Math.max(timeoutMs, SLOW_MS);
        const result = await memories.of(place.agentId).link.call(tool.operation, given, { timeoutMs: limit });
        return answer(result, { backend: mode, ok: true, result });
      } catch (error) {
        const code = error instanceof BackendError ? error.code : UNAVAILABLE;
        const refusal = { backend: mode, ok: false, error: { code, message: String(error?.message ?? error) } };
        return answer(refusal, refusal);
      }
    },
  };
}

/** Without a case the question is about the present one. */
function withSession(tool, params, place) {
  const { caseId, ...given } = params ?? {};
  if (caseId) return { caseId, ...given };
  if (!("caseId" in (tool.parameters.properties ?? {})) || tool.parameters.required?.includes("caseId")) return given;
  return place.key ? { ...given, session: sessionOf(place) } : given;
}

const answer = (shown, details) => ({ content: [{ type: "text", text: JSON.stringify(shown) }], details });
