// Sherpa in OpenClaw: records what the agent does, answers its questions, and says before a turn what usually comes next.

import { homedir } from "node:os";
import { join } from "node:path";

import { handlersOf } from "./hooks.js";
import { sharedMemories } from "./memories.js";
import { hostTool, toolList } from "./tools.js";

const registered = new WeakSet();
// In these modes nothing of the host runs; only metadata are read.
const INERT = new Set(["cli-metadata", "setup-only"]);

function stateDirOf(api) {
  try {
    return api.runtime.state.resolveStateDir(process.env);
  } catch {
    return process.env.OPENCLAW_STATE_DIR || join(homedir(), ".openclaw");
  }
}

/**
 * Register hooks and tools; the host does so several times per process. Starts nothing.
 *
 * @param {object} api of the host
 */
export function register(api) {
  if (registered.has(api) || INERT.has(api.registrationMode)) return;
  registered.add(api);
  const memories = sharedMemories(api.pluginConfig, () => stateDirOf(api), api.logger);
  for (const [hook, handler] of Object.entries(handlersOf(memories))) api.on(hook, handler);
  for (const tool of toolList(memories.settings)) {
    api.registerTool((ctx) => hostTool(tool, memories, ctx), { name: tool.name });
  }
}

export default {
  id: "sherpa",
  name: "Sherpa",
  description: "Procedural memory: what usually comes next, and what goes wrong.",
  register,
};
