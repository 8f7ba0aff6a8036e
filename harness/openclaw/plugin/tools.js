// The tools of the memory for the model. Which there are, tools.json says; it is written from Python's list.

import { readFileSync } from "node:fs";

import { codeOf } from "./errors.js";
import { sessionOf } from "./hooks.js";
import { placeOf } from "./records.js";

/**
 * @param {object} settings see `settingsOf`
 * @returns {Array<{name: string, operation: string, description: string, parameters: object, limitMs: number}>}
 */
export function toolList({ sagas }) {
  const all = JSON.parse(readFileSync(new URL("./tools.json", import.meta.url), "utf8"));
  return all.filter((tool) => sagas || !tool.name.startsWith("saga_"));
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
        const limit = { timeoutMs: Math.max(timeoutMs, tool.limitMs) };
        const result = await memories.of(place.agentId).link.call(tool.operation, given, limit);
        return answer(result, { backend: mode, ok: true, result });
      } catch (error) {
        const refusal = { backend: mode, ok: false, error: { code: codeOf(error), message: String(error?.message ?? error) } };
        return answer(refusal, refusal);
      }
    },
  };
}

/** Without a case the question is about the present one; a saga belongs to the session that it is begun in. */
function withSession(tool, params, place) {
  if (tool.name === "saga_start" && place.key) return { ...params, session: place.key };
  const { caseId, ...given } = params ?? {};
  if (caseId) return { caseId, ...given };
  if (!("caseId" in (tool.parameters.properties ?? {})) || tool.parameters.required?.includes("caseId")) return given;
  return place.key ? { ...given, session: sessionOf(place) } : given;
}

const answer = (shown, details) => ({ content: [{ type: "text", text: JSON.stringify(shown) }], details });
