// From the events of hooks to what the spool holds of them: names, ids, and how a call ended. Values of arguments,
// results and texts stay out, but for the few that Python cannot do without.

const ID = 512;
const NAME = 80;
const NAMES = 64;
export const TEXT = 4_096;
const STATUS = 64;
const DETAILS = ["ok", "success", "timedOut", "persistedDetailsTruncated"];

// Half of a character pair is no text: nobody could read the record.
const cut = (value, most) =>
  typeof value === "string" && value !== "" ? value.slice(0, most).toWellFormed() : undefined;
const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : undefined);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The session that an event is about. Hooks of messages name the channel where others name the conversation. */
export function placeOf(event, ctx, { ofMessage = false } = {}) {
  const key = cut(ctx?.sessionKey, ID) ?? cut(event?.sessionKey, ID) ?? "";
  const channel = ctx?.channel ?? ctx?.messageProvider ?? event?.channel ?? (ofMessage ? ctx?.channelId : undefined);
  const isGroup = event?.isGroup ?? event?.metadata?.isGroup;
  return {
    key,
    sessionId: cut(ctx?.sessionId, ID) ?? cut(event?.sessionId, ID),
    agentId: agentOf(ctx?.agentId, key),
    channel: cut(channel, ID),
    isGroup: typeof isGroup === "boolean" ? isGroup : undefined,
  };
}

/** The agent: as the host says, or as the session key does. */
export function agentOf(agentId, key) {
  return cut(agentId, ID) ?? (/^agent:([^:]+):/.exec(key ?? "") ?? [])[1] ?? "main";
}

const base = (event, ctx, options) => ({
  session: placeOf(event, ctx, options),
  runId: cut(event?.runId, ID) ?? cut(ctx?.runId, ID),
});

function toolFacts(event, ctx) {
  const params = isObject(event?.params) ? event.params : {};
  return {
    ...base(event, ctx),
    tool: cut(event?.toolName ?? ctx?.toolName, ID) ?? "unnamed",
    callId: cut(event?.toolCallId ?? ctx?.toolCallId, ID),
    names: Object.keys(params)
      .slice(0, NAMES)
      .map((name) => cut(name, NAME) ?? ""),
    // The background command that a call is about.
    job: cut(params.sessionId ?? params.session_id, NAME),
  };
}

export const startFacts = toolFacts;

export function endFacts(event, ctx) {
  const result = event?.result;
  const text = firstText(result);
  const facts = {
    ...toolFacts(event, ctx),
    isError: Boolean(event?.error) || result?.isError === true || undefined,
    details: detailsOf(result?.details),
    hasResult: result !== undefined && result !== null,
    durationMs: number(event?.durationMs),
  };
  if (text === `Tool ${event?.toolName} not found`) facts.unknown = true;
  if (facts.details === undefined) facts.text = errorText(text);
  return facts;
}

/** What Python's contract looks at. Texts of errors may say anything; that there is one is enough. */
function detailsOf(details) {
  if (!isObject(details)) return undefined;
  const kept = {};
  for (const name of DETAILS) if (typeof details[name] === "boolean") kept[name] = details[name];
  if (typeof details.status === "string") kept.status = details.status.slice(0, STATUS).toWellFormed();
  else if (number(details.status) !== undefined) kept.status = details.status;
  if (number(details.exitCode) !== undefined) kept.exitCode = details.exitCode;
  if (number(details.durationMs) !== undefined) kept.durationMs = details.durationMs;
  if (details.error) kept.error = true;
  const job = cut(details.sessionId, NAME);
  if (job !== undefined) kept.sessionId = job;
  return kept;
}

function firstText(result) {
  if (typeof result === "string") return result;
  const block = Array.isArray(result?.content) ? result.content.find((part) => typeof part?.text === "string") : undefined;
  return block?.text;
}

/** Of a result without details: a text that tells of an error, in the form that old versions wrote. */
function errorText(text) {
  if (typeof text !== "string" || text.length > TEXT || !text.includes('"status"')) return undefined;
  try {
    const told = JSON.parse(text);
    if (told?.status !== "error" || typeof told.tool !== "string") return undefined;
    return JSON.stringify({ status: "error", tool: told.tool.slice(0, NAME).toWellFormed() });
  } catch {
    return undefined;
  }
}

function textFacts(text) {
  if (typeof text !== "string" || text === "") return {};
  if (text.length <= TEXT) return { text: text.toWellFormed() };
  let chars = 0;
  for (const _ of text) chars += 1;
  return { text: text.slice(0, TEXT).toWellFormed(), chars };
}

export function messageFacts(event, ctx, { texts = true } = {}) {
  const text = typeof event?.content === "string" ? event.content : event?.body;
  return {
    ...base(event, ctx, { ofMessage: true }),
    messageId: cut(event?.messageId ?? ctx?.messageId, ID),
    ...(texts ? textFacts(text) : {}),
  };
}

export function promptFacts(event, ctx, { texts = true } = {}) {
  // The request itself where the host has it apart; the prompt may hold history and what other plugins put before it.
  const own = typeof event?.currentUserMessage === "string" ? event.currentUserMessage : event?.prompt;
  return {
    ...base(event, ctx),
    trigger: cut(ctx?.trigger, NAME),
    origin: cut(ctx?.inputProvenance?.kind, NAME),
    ...(texts ? textFacts(own) : {}),
  };
}

export const runEndFacts = (event, ctx) => ({
  ...base(event, ctx),
  success: typeof event?.success === "boolean" ? event.success : undefined,
  durationMs: number(event?.durationMs),
});

export const sessionStartFacts = (event, ctx) => ({
  ...base(event, ctx),
  resumed: event?.resumedFrom !== undefined && event?.resumedFrom !== null ? true : undefined,
});

export const sessionEndFacts = (event, ctx) => ({
  ...base(event, ctx),
  messageCount: number(event?.messageCount),
  durationMs: number(event?.durationMs),
});
