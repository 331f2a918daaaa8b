// zcp for Node: what a script tells the server, and what it asks.
//
//   const zcp = require("zcp");
//   const { name = "world" } = zcp.args();
//   if (!zcp.confirm("sure", `Greet ${name}?`)) zcp.fail(`nobody wants to greet ${name}`);
//   zcp.progress(1, 2, "Looking for the words");
//   console.log(`Hello ${name}`);
//
// In a module: const { default: zcp } = await import(process.env.ZCP_SDK + "/zcp.js");
//
// Ask first and act after: a script may be ended at a question and run again from the top
// with the answer in hand. Run by hand, without a server, what is told goes to stderr and
// every question throws `Unable`. Every call waits until it is done; none is a promise.
"use strict";

const fs = require("fs");
const path = require("path");
const tty = require("tty");

/** A question without an answer. */
class NoAnswer extends Error {
  get name() {
    return this.constructor.name;
  }
}
/** The user said no. */
class Declined extends NoAnswer {}
/** The user went away without an answer. */
class Cancelled extends NoAnswer {}
/** There is nobody to ask: the client has no way to, or there is no server. */
class Unable extends NoAnswer {}

let given;

/** The arguments, from stdin. Without them there, from ARG_NAME as `name`. */
function args() {
  if (given) return given;
  const whole = tty.isatty(0) ? null : parsed(fs.readFileSync(0, "utf8"));
  if (whole && typeof whole === "object" && !Array.isArray(whole)) return (given = whole);
  const named = Object.entries(process.env).filter(([name]) => name.startsWith("ARG_"));
  return (given = Object.fromEntries(
    named.map(([name, text]) => [name.slice(4).toLowerCase(), parsed(text)]),
  ));
}

/** Tells how far the call is: `progress(3, 10, "Reading")`. */
function progress(done, total = null, message = "") {
  const line = `progress ${done}${total === null ? "" : `/${total}`} ${message}`.trimEnd();
  tell(line, line);
}

/** Logs a text, or anything that JSON can hold, at `debug`, `info`, `warning`, … */
function log(level, data) {
  const text = JSON.stringify(data ?? null);
  tell(`log ${level} ${text}`, `${level}: ${typeof data === "string" ? data : text}`);
}

/**
 * Asks the user for a form and returns its content. Without a schema the form has one text,
 * `answer`. Throws `Declined`, `Cancelled` or `Unable`.
 */
function ask(key, message, schema = null) {
  schema ??= {
    type: "object",
    properties: { answer: { type: "string" } },
    required: ["answer"],
  };
  return agree("ask", key, { message, schema });
}

/** Whether the user says yes. Throws `Unable`. */
function confirm(key, message) {
  try {
    ask(key, message, { type: "object", properties: {} });
    return true;
  } catch (error) {
    if (error instanceof Declined || error instanceof Cancelled) return false;
    throw error;
  }
}

/** Asks the user to open a page. Throws `Declined`, `Cancelled` or `Unable`. */
function visit(key, message, url) {
  agree("visit", key, { message, url: String(url) });
}

/**
 * Asks the client's model and returns its text. Throws `Unable`. For more than a prompt, give
 * the parameters: `{ prompt, system }` or those of `sampling/createMessage`.
 */
function sample(key, prompt, maxTokens = 1000) {
  const blocks = [sampleRaw(key, prompt, maxTokens).content ?? []].flat();
  return blocks.flatMap((block) => block.text ?? []).join("\n");
}

/** As `sample`, but returns the whole result: role, content, model and the rest. */
function sampleRaw(key, prompt, maxTokens = 1000) {
  return question("sample", key, {
    maxTokens,
    ...(typeof prompt === "string" ? { prompt } : prompt),
  });
}

/** The client's folders, each with its `uri` and perhaps a `name`. Throws `Unable`. */
function roots(key = "roots") {
  return question("roots", key).roots ?? [];
}

/**
 * Runs a function once, however often the script runs for this call. The value must be one
 * JSON can hold, and comes back as JSON gives it back, in the first run too. A function that
 * returns a promise makes the first run's value a promise, so `await` it.
 */
function once(key, run) {
  const kept = process.env.ZCP_OUT ? question("once", key) : {};
  if ("value" in kept) return kept.value;
  const keep = (value) => {
    const text = JSON.stringify(value) ?? "null";
    tell(`keep ${word(key)} ${text}`);
    return JSON.parse(text);
  };
  const value = run();
  return typeof value?.then === "function" ? value.then(keep) : keep(value);
}

/** Says that nobody needs to wait: the call goes on as a task. */
function detach() {
  tell("detach");
}

/** Tells whoever subscribed that a resource changed. */
function updated(uri) {
  tell(`updated ${uri}`, `updated ${uri}`);
}

/** Adds a text to the answer. */
function text(words) {
  tell(`text ${JSON.stringify(String(words))}`, String(words));
}

/** Adds a file to the answer. */
function file(name, mime = "") {
  // The server does not follow the script's `chdir`.
  const line = `file ${path.resolve(name)} ${mime}`.trimEnd();
  tell(line, line);
}

/** Adds a link to the answer. */
function link(uri, name = "") {
  const line = `link ${String(uri).replace(/ /g, "%20")} ${name}`.trimEnd();
  tell(line, line);
}

/** Ends the script: the call failed, and this is why. */
function fail(message) {
  tell(`error ${message}`, `error: ${message}`);
  process.exit(1);
}

let out;

/** Sends one line, or shows it when there is no server. */
function tell(line, shown = "") {
  if (!process.env.ZCP_OUT) {
    if (shown) console.error(shown);
    return;
  }
  out ??= fs.openSync(process.env.ZCP_OUT, fs.constants.O_WRONLY);
  let left = Buffer.from(line.replace(/[\r\n]+/g, " ") + "\n");
  while (left.length > 0) left = left.subarray(fs.writeSync(out, left));
}

function question(verb, key, body = null) {
  if (!process.env.ZCP_OUT || !process.env.ZCP_IN) {
    throw new Unable(`no server to answer \`${verb} ${key}\``);
  }
  tell(`${verb} ${word(key)}${body ? ` ${JSON.stringify(body)}` : ""}`);
  const line = readLine();
  const answer = line ? JSON.parse(line) : { error: "the server went away" };
  if ("error" in answer) throw new Unable(String(answer.error));
  return answer;
}

function agree(verb, key, body) {
  const { action, content } = question(verb, key, body);
  if (action === "accept") return content ?? {};
  if (action === "decline") throw new Declined(`the user declined \`${key}\``);
  throw new Cancelled(`the user cancelled \`${key}\``);
}

let input;
let unread = Buffer.alloc(0);

/** The next line, or an empty text at the end. */
function readLine() {
  input ??= fs.openSync(process.env.ZCP_IN, fs.constants.O_RDONLY);
  const chunk = Buffer.alloc(65536);
  while (!unread.includes(10)) {
    const size = fs.readSync(input, chunk);
    if (size === 0) return "";
    unread = Buffer.concat([unread, chunk.subarray(0, size)]);
  }
  const end = unread.indexOf(10);
  const line = unread.toString("utf8", 0, end);
  unread = unread.subarray(end + 1);
  return line;
}

/** A key as one word, and never two keys as the same word. */
function word(key) {
  return String(key).replace(/[%\s]/g, encodeURIComponent);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

module.exports = {
  args,
  progress,
  log,
  ask,
  confirm,
  visit,
  sample,
  sampleRaw,
  roots,
  once,
  detach,
  updated,
  text,
  file,
  link,
  fail,
  NoAnswer,
  Declined,
  Cancelled,
  Unable,
};
