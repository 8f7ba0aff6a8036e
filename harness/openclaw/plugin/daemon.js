// The link to the HTTP daemon: one that somebody else runs, or (manageProcess) one that is started here when none answers.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { Backoff } from "./backoff.js";
import { BackendError, unavailable } from "./errors.js";
import { startProcess, stopProcess } from "./process.js";
import { globalArguments, writeConfig } from "./settings.js";

const TOKEN_FILE = "daemon.token";
const POLL_MS = 100;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class DaemonLink {
  #settings;
  #root;
  #backoff;
  #child = null;
  #starting = null;
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
    this.#backoff = new Backoff(now);
  }

  /** Start the daemon now if it is ours and does not run. Never throws. */
  warm() {
    if (this.#settings.manageProcess && !this.#closed) this.#manage().catch(() => {});
  }

  /** Do an operation; see `ChildLink.call`. */
  async call(operation, params, { timeoutMs }) {
    if (this.#closed) throw unavailable("the plugin was unloaded");
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      return await this.#post(operation, params, signal);
    } catch (error) {
      if (error instanceof BackendError || signal.aborted || !this.#settings.manageProcess) throw this.#told(error, timeoutMs);
    }
    try {
      await Promise.race([this.#manage(), aborted(signal)]);
      return await this.#post(operation, params, signal);
    } catch (error) {
      throw this.#told(error, timeoutMs);
    }
  }

  /** End the daemon if it is ours; later calls fail. */
  close() {
    this.#closed = true;
    if (this.#child !== null) stopProcess(this.#child);
  }

  #told(error, timeoutMs) {
    if (error instanceof BackendError) return error;
    if (error?.name === "TimeoutError") return unavailable(`no answer within ${timeoutMs} ms`);
    return unavailable(`no daemon at ${this.#settings.baseUrl}: ${error?.cause?.code ?? error?.message ?? error}`);
  }

  async #post(operation, params, signal) {
    const response = await fetch(`${this.#settings.baseUrl}/v1/${operation}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${this.#token()}` },
      body: JSON.stringify(params),
      redirect: "error",
      signal,
    });
    const answer = await response.json();
    if (response.ok) {
      this.#backoff.worked();
      return answer;
    }
    throw new BackendError(String(answer?.error?.code ?? response.status), String(answer?.error?.message ?? ""));
  }

  // Read every time: a daemon that starts anew may have another one.
  #token() {
    try {
      return readFileSync(join(this.#root, TOKEN_FILE), "utf8").trim();
    } catch {
      return "";
    }
  }

  #manage() {
    this.#starting ??= this.#start().finally(() => {
      this.#starting = null;
    });
    return this.#starting;
  }

  async #start() {
    const until = Date.now() + this.#settings.timeoutMs;
    if (await this.#healthy()) return;
    if (this.#child === null) {
      if (this.#backoff.wait > 0) throw unavailable(this.#why || "the daemon has just failed");
      this.#spawn();
    }
    while (Date.now() < until) {
      await pause(POLL_MS);
      if (await this.#healthy()) return;
      if (this.#child === null) throw unavailable(this.#why);
    }
    throw unavailable(`the daemon did not answer within ${this.#settings.timeoutMs} ms`);
  }

  async #healthy() {
    try {
      const signal = AbortSignal.timeout(Math.max(POLL_MS, this.#settings.timeoutMs));
      const response = await fetch(`${this.#settings.baseUrl}/health`, { signal, redirect: "error" });
      return (await response.json())?.status === "ok";
    } catch {
      return false;
    }
  }

  #spawn() {
    const url = new URL(this.#settings.baseUrl);
    const configFile = writeConfig(this.#root, this.#settings.config);
    const args = [
      ...globalArguments(this.#settings, this.#root, configFile),
      ...["serve", "--owned", "--host", url.hostname.replace(/^\[|\]$/g, ""), "--port", url.port || "80"],
    ];
    const child = startProcess(this.#settings.command, args, {
      env: this.#settings.env,
      output: false,
      ended: (why) => {
        if (this.#child !== child) return;
        this.#child = null;
        this.#why = why;
        this.#backoff.failed();
      },
    });
    this.#child = child;
  }
}

function aborted(signal) {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
}
