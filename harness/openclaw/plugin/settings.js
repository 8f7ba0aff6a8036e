// What the plugin itself needs of its configuration; the rest is for Python, which checks all of it.

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";

export const CONFIG_FILE = "openclaw-plugin.json";

/** @param {object | undefined} config `plugins.entries.sherpa.config` as the host gives it */
export function settingsOf(config) {
  const given = config ?? {};
  const transport = given.transport ?? {};
  return {
    config: given,
    mode: transport.mode ?? "embedded",
    command: transport.command ?? "sherpa",
    args: transport.args ?? [],
    env: transport.env ?? {},
    baseUrl: (transport.baseUrl ?? "http://127.0.0.1:8787").replace(/\/+$/, ""),
    manageProcess: transport.manageProcess ?? false,
    timeoutMs: transport.timeoutMs ?? 3_000,
    root: given.store?.root ?? null,
    messages: given.capture?.messages ?? true,
    advises: given.advisory?.enabled ?? true,
    sagas: given.saga?.enabled ?? true,
    sagaRoot: given.saga?.root ?? null,
  };
}

/** The folder of an agent's memory. */
export function rootOf(settings, stateDir, agentId) {
  if (settings.root === null) return join(stateDir, "agents", agentId, "sherpa");
  return resolve(withHome(settings.root));
}

/** Whether any saga was begun beside a memory. */
export function hasSagas(settings, root) {
  if (!settings.sagas) return false;
  const folder = settings.sagaRoot === null ? join(root, "saga") : resolve(withHome(settings.sagaRoot));
  return existsSync(join(folder, "sessions.json"));
}

const withHome = (path) => path.replace(/^~(?=$|[/\\])/, homedir());

/**
 * Write the configuration down for Python to read; null if there is none, so that the memory's own file counts.
 *
 * @returns {string | null} path of the file
 */
export function writeConfig(root, config) {
  if (Object.keys(config).length === 0) return null;
  const path = join(root, CONFIG_FILE);
  const text = `${JSON.stringify(config, null, 2)}\n`;
  try {
    if (readFileSync(path, "utf8") === text) return path;
  } catch {
    // There is none yet.
  }
  mkdirSync(root, { recursive: true });
  const draft = `${path}.${process.pid}.tmp`;
  writeFileSync(draft, text, { mode: 0o600 });
  renameSync(draft, path);
  return path;
}

/** Arguments that come before the command in every call of the program. */
export function globalArguments(settings, root, configFile) {
  return [...settings.args, "--root", root, ...(configFile === null ? [] : ["--config", configFile])];
}
