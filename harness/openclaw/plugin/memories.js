// The memories of this process: for each folder one spool and one link, made when they are first used.

import { ChildLink } from "./child.js";
import { DaemonLink } from "./daemon.js";
import { rootOf, settingsOf } from "./settings.js";
import { Spool } from "./spool.js";

const HELD = Symbol.for("sherpa.openclaw.memories");

export class Memories {
  #stateDir;
  #logger;
  #held = new Map();
  #said = false;

  /**
   * @param {object | undefined} config of the plugin
   * @param {() => string} stateDir the host's state directory; asked for when it is first needed
   * @param {{info?: (text: string) => void}} [logger]
   */
  constructor(config, stateDir, logger = {}) {
    this.settings = settingsOf(config);
    this.#stateDir = stateDir;
    this.#logger = logger;
  }

  /** The memory of an agent. */
  of(agentId) {
    const root = rootOf(this.settings, this.#stateDir(), agentId);
    let memory = this.#held.get(root);
    if (memory === undefined) {
      memory = { root, spool: new Spool(root), link: this.#link(root) };
      this.#held.set(root, memory);
    }
    return memory;
  }

  /** End all processes that were started. */
  close() {
    for (const memory of this.#held.values()) memory.link.close();
    this.#held.clear();
  }

  #link(root) {
    if (this.settings.mode === "http") return new DaemonLink(this.settings, root);
    if (this.settings.mode === "embedded" && !this.#said) {
      this.#said = true;
      this.#logger.info?.("sherpa: the memory is a Python program; embedded means a child process of this one");
    }
    return new ChildLink(this.settings, root);
  }
}

/**
 * The memories of this process. The host registers a plugin several times, and loads it anew when its configuration
 * changes: the same configuration shares everything, another one takes its place.
 */
export function sharedMemories(config, stateDir, logger) {
  const name = JSON.stringify(config ?? {});
  const held = globalThis[HELD];
  if (held?.name === name) return held.memories;
  held?.memories.close();
  const memories = new Memories(config, stateDir, logger);
  globalThis[HELD] = { name, memories };
  return memories;
}
