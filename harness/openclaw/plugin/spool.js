// The spool: one file per process, appended to with one synchronous write per record. Python reads it; what lies here
// survives a daemon that is away, and a host that is killed.

import { randomBytes, randomUUID } from "node:crypto";
import { appendFileSync, chmodSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

export const FILE_BYTES = 4 * 2 ** 20;
export const TOTAL_BYTES = 256 * 2 ** 20;
// A file that lives on could not be removed, and it may hold texts.
export const FILE_AGE_MS = 10 * 60_000;
const LOOK_EVERY_MS = 1_000;

export class Spool {
  #folder;
  #limits;
  #now;
  #word = randomBytes(6).toString("hex");
  #path = null;
  #begun = 0;
  #size = 0;
  #total = 0;
  #looked = -Infinity;
  #at = 0;
  #n = 0;
  #dropped = 0;
  #torn = false;

  /**
   * @param {string} root folder of the memory
   * @param {{fileBytes?: number, totalBytes?: number, fileAgeMs?: number, now?: () => number}} [options]
   */
  constructor(root, { fileBytes = FILE_BYTES, totalBytes = TOTAL_BYTES, fileAgeMs = FILE_AGE_MS, now = Date.now } = {}) {
    this.#folder = join(root, "spool");
    this.#limits = { fileBytes, totalBytes, fileAgeMs };
    this.#now = now;
  }

  /** Records that could not be kept since the last one that was. */
  get dropped() {
    return this.#dropped;
  }

  /**
   * Keep what a hook told. Time and number are given here, in the order of the calls. Never throws.
   *
   * @param {string} hook
   * @param {object} facts
   * @returns {boolean} whether it is kept
   */
  append(hook, facts) {
    try {
      this.#at = Math.max(this.#at, this.#now());
      const record = { id: randomUUID(), at: this.#at, n: this.#n + 1, hook, ...facts };
      if (this.#dropped) record.dropped = this.#dropped;
      // Half a line of a write that failed gets its end first.
      const data = Buffer.from(`${this.#torn ? "\n" : ""}${JSON.stringify(record)}\n`);
      if (this.#isFull(data.length)) {
        this.#dropped += 1;
        return false;
      }
      this.#open();
      this.#torn = true;
      appendFileSync(this.#path, data, { mode: 0o600 });
      this.#torn = false;
      this.#n += 1;
      this.#dropped = 0;
      this.#size += data.length;
      this.#total += data.length;
      return true;
    } catch {
      this.#dropped += 1;
      return false;
    }
  }

  #open() {
    const old = this.#path !== null && (this.#size >= this.#limits.fileBytes || this.#at - this.#begun >= this.#limits.fileAgeMs);
    if (this.#path !== null && !old) return;
    if (this.#path === null) {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      chmodSync(this.#folder, 0o700);
    }
    this.#begun = Math.max(this.#at, this.#begun + 1);
    this.#path = join(this.#folder, `${process.pid}-${this.#begun}-${this.#word}.jsonl`);
    this.#size = 0;
    this.#torn = false;
  }

  #isFull(more) {
    if (this.#path === null && this.#looked === -Infinity) this.#look();
    if (this.#total + more <= this.#limits.totalBytes) return false;
    // Others write here too, and what was drained is removed: look again, but not with every record.
    if (this.#at - this.#looked >= LOOK_EVERY_MS) this.#look();
    return this.#total + more > this.#limits.totalBytes;
  }

  #look() {
    this.#looked = this.#at;
    this.#total = 0;
    let names = [];
    try {
      names = readdirSync(this.#folder);
    } catch {
      return;
    }
    for (const name of names) {
      try {
        this.#total += statSync(join(this.#folder, name)).size;
      } catch {
        // It was drained in between.
      }
    }
  }
}
