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

/** Its code. Not by `instanceof`: the host loads the plugin anew, and the links of the first time stay. */
export const codeOf = (error) => (error?.name === "BackendError" ? error.code : UNAVAILABLE);

export const unavailable = (message) => new BackendError(UNAVAILABLE, message);
