// The link to a child of our own: one JSON document per line in both directions, over its standard input and output.

import { Backoff } from "./backoff.js";
import { BackendError, unavailable } from "./errors.js";
import { startProcess, stopProcess } from "./process.js";
import { globalArguments, writeConfig } from "./settings.js";

// A child that has not answered for so long, or for as long as was waited, hangs.
const HANGS_MS = 120_000;

export class ChildLink {
  #settings;
  #root;
  #now;
  #backoff;
  #child = null;
  #pending = new Map();
  #last = 0;
  #rest = "";
  #closed = false;
  #why = "";

  /**
   * @param {object} settings see `settingsOf`
   * @param {string} root folder of the memory
   * @param {{now?: () => number}} [options]
   */
  constructor(settings, root, { now = Date.now } = {}) {
    this.#settings = settings;
    this.#root = root;
    this.#now = now;
    this.#backoff = new Backoff(now);
  }

  /** Start the child now, so that the first question need not wait for it. Never throws. */
  warm() {
    try {
      this.#ready();
    } catch {
      // The next call says why.
    }
  }

  /**
   * Do an operation.
   *
   * @param {string} operation
   * @param {object} params
   * @param {{timeoutMs: number, background?: boolean}} options `background`: it does not keep the process alive
   * @returns {Promise<unknown>} the result
   * @throws {BackendError}
   */
  async call(operation, params, { timeoutMs, background = false }) {
    const child = this.#ready();
    const id = ++this.#last;
    return await new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#settle(id, (waiting) => waiting.reject(unavailable(`no answer within ${timeoutMs} ms`)), { keep: true });
      }, timeoutMs);
      if (background) timer.unref();
      this.#pending.set(id, { resolve, reject, timer, hangsAt: this.#now() + Math.max(HANGS_MS, timeoutMs) });
      child.stdin.write(`${JSON.stringify({ id, operation, params })}\n`);
    });
  }

  /** End the child; later calls fail. */
  close() {
    this.#closed = true;
    if (this.#child !== null) stopProcess(this.#child);
  }

  #ready() {
    if (this.#closed) throw unavailable("the plugin was unloaded");
    const now = this.#now();
    if (this.#child !== null && [...this.#pending.values()].some(({ hangsAt }) => now > hangsAt)) {
      this.#child.kill("SIGKILL");
      this.#gone(this.#child, "it did not answer and was ended");
    }
    if (this.#child !== null) return this.#child;
    if (this.#backoff.wait > 0) throw unavailable(this.#why);
    const configFile = writeConfig(this.#root, this.#settings.config);
    const args = [...globalArguments(this.#settings, this.#root, configFile), "serve", "--stdio"];
    this.#rest = "";
    const child = startProcess(this.#settings.command, args, {
      env: this.#settings.env,
      output: true,
      ended: (why) => this.#gone(child, why),
    });
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (text) => this.#read(child, text));
    child.stdout.on("error", () => {});
    this.#child = child;
    return child;
  }

  #gone(child, why) {
    if (this.#child !== child) return;
    this.#child = null;
    this.#why = why;
    this.#backoff.failed();
    for (const id of [...this.#pending.keys()]) this.#settle(id, (waiting) => waiting.reject(unavailable(why)));
  }

  #read(child, text) {
    if (this.#child !== child) return;
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) {
      let answer;
      try {
        answer = JSON.parse(line);
      } catch {
        continue;
      }
      this.#backoff.worked();
      this.#settle(answer?.id, (waiting) => {
        if (answer.error) waiting.reject(new BackendError(String(answer.error.code), String(answer.error.message)));
        else waiting.resolve(answer.result);
      });
    }
  }

  // A request that nobody waits for any more is kept until it is answered: so a child that hangs is known.
  #settle(id, how, { keep = false } = {}) {
    const waiting = this.#pending.get(id);
    if (waiting === undefined) return;
    if (!keep) this.#pending.delete(id);
    clearTimeout(waiting.timer);
    how(waiting);
  }
}
