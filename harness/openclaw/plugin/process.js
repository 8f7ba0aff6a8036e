// A process that works for this one: it never keeps the host alive, and it ends with it, because its input ends then.

import { spawn } from "node:child_process";

const LAST_WORDS = 2_000;

/**
 * @param {string} command
 * @param {string[]} args
 * @param {{env: object, output: boolean, ended: (why: string) => void}} options
 *   `output` opens standard output; `ended` is called once, when the process is gone or could not be started
 */
export function startProcess(command, args, { env, output, ended }) {
  const child = spawn(command, args, {
    env: { ...process.env, ...env },
    stdio: ["pipe", output ? "pipe" : "ignore", "pipe"],
    windowsHide: true,
  });
  let words = "";
  let told = false;
  const tell = (why) => {
    if (told) return;
    told = true;
    const last = words.trim().split("\n").at(-1);
    ended(last ? `${why}: ${last}` : why);
  };
  child.on("error", (error) => tell(`${command} cannot be started: ${error.code ?? error.message}`));
  child.on("exit", (code, signal) => tell(`${command} ended with ${signal ?? code}`));
  child.stdin.on("error", () => {});
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (text) => {
    words = (words + text).slice(-LAST_WORDS);
  });
  child.stderr.on("error", () => {});
  for (const part of [child, child.stdin, child.stdout, child.stderr]) part?.unref?.();
  return child;
}

/** Let it end: its input ends, and that is what it waits for. */
export function stopProcess(child) {
  try {
    child.stdin.end();
  } catch {
    child.kill("SIGKILL");
  }
}
