// What a call of the memory fails with: a code that callers can tell apart, and a message for people.

export const UNAVAILABLE = "backend_unavailable";

export class BackendError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.name = "BackendError";
    this.code = code;
  }
}

export const unavailable = (message) => new BackendError(UNAVAILABLE, message);
