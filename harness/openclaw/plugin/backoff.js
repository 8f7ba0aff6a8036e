// How long to leave something alone that has failed: 250 ms, doubling to 5 s, from the start again after a success.

export const FIRST_MS = 250;
export const LAST_MS = 5_000;

export class Backoff {
  #now;
  #pause = 0;
  #until = 0;

  /** @param {() => number} now present time in milliseconds */
  constructor(now = Date.now) {
    this.#now = now;
  }

  /** Milliseconds until the next try is due; 0 if it is. */
  get wait() {
    return Math.max(0, this.#until - this.#now());
  }

  /** It failed. */
  failed() {
    this.#pause = Math.min(LAST_MS, this.#pause ? 2 * this.#pause : FIRST_MS);
    this.#until = this.#now() + this.#pause;
  }

  /** It works. */
  worked() {
    this.#pause = 0;
    this.#until = 0;
  }
}
