"use strict";
// What a page and the client that shows it say to each other: JSON-RPC by messages between windows.
const bridge = (() => {
  const waiting = new Map();
  const heard = new Map();
  const client = window.parent;
  let number = 0;
  let capabilities = {};

  const send = (message) => client.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params = {}) => send({ method, params });
  const ask = (method, params = {}) => new Promise((resolve, reject) => {
    number += 1;
    waiting.set(number, { resolve, reject });
    send({ id: number, method, params });
  });
  const on = (name, does) => {
    if (!heard.has(name)) heard.set(name, []);
    heard.get(name).push(does);
  };
  const tell = (name, value) => (heard.get(name) || []).forEach((does) => does(value));

  const dress = (context) => {
    if (!context) return;
    const root = document.documentElement;
    if (context.theme) root.dataset.theme = context.theme;
    const variables = (context.styles && context.styles.variables) || {};
    for (const [name, value] of Object.entries(variables)) {
      if (name.startsWith("--") && typeof value === "string") root.style.setProperty(name, value);
    }
    tell("context", context);
  };

  const told = {
    "ui/notifications/tool-input": (params) => tell("input", params.arguments || {}),
    "ui/notifications/tool-input-partial": (params) => tell("partial", params.arguments || {}),
    "ui/notifications/tool-result": (params) => tell("result", params),
    "ui/notifications/tool-cancelled": (params) => tell("cancelled", params.reason || ""),
    "ui/notifications/host-context-changed": dress,
    "notifications/progress": (params) => tell("progress", params),
  };

  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== client || !message || message.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      const one = waiting.get(message.id);
      waiting.delete(message.id);
      if (!one) return;
      if (message.error) one.reject(new Error(message.error.message || "it was refused"));
      else one.resolve(message.result || {});
    } else if (message.id === undefined) {
      const does = told[message.method];
      if (does) does(message.params || {});
    } else if (message.method === "ping" || message.method === "ui/resource-teardown") {
      if (message.method !== "ping") tell("end", message.params || {});
      send({ id: message.id, result: {} });
    } else {
      send({ id: message.id, error: { code: -32601, message: "a page does not know " + message.method } });
    }
  });

  // The client makes as much room as there is to see.
  let last = "";
  const measure = () => {
    const root = document.documentElement;
    const size = { width: Math.ceil(root.scrollWidth), height: Math.ceil(document.body.getBoundingClientRect().height) };
    const now = size.width + "x" + size.height;
    if (now === last) return;
    last = now;
    notify("ui/notifications/size-changed", size);
  };

  const begin = async () => {
    const begun = await ask("ui/initialize", {
      protocolVersion: "2026-01-26",
      appInfo: { name: document.title, version: "1.0.0" },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
    });
    capabilities = begun.hostCapabilities || {};
    dress(begun.hostContext);
    notify("ui/notifications/initialized");
    if (window.ResizeObserver) new ResizeObserver(measure).observe(document.body);
    measure();
    tell("begun", begun);
  };

  // What a tool answered, as data: what is structured, or else text that is JSON, or else text.
  const data = (result) => {
    const own = result && result.structuredContent;
    if (own !== undefined && own !== null) return own;
    const blocks = (result && result.content) || [];
    const text = blocks.filter((one) => one.type === "text").map((one) => one.text).join("\n");
    try { return JSON.parse(text); } catch { return text; }
  };
  const words = (result) => ((result && result.content) || [])
    .filter((one) => one.type === "text").map((one) => one.text).join("\n");

  // A tool is called through the client, if it lets pages do so.
  const call = async (name, args) => {
    if (Object.keys(capabilities).length && !capabilities.serverTools) {
      throw new Error("this client does not let pages call tools");
    }
    const result = await ask("tools/call", { name, arguments: args });
    if (result.isError) throw new Error(words(result) || "the tool failed");
    return result;
  };

  // The first list among what was answered.
  const list = (value, names) => {
    if (Array.isArray(value)) return value;
    if (!value || typeof value !== "object") return [];
    for (const name of [...names, "items", "data", "result", "results"]) {
      if (Array.isArray(value[name])) return value[name];
    }
    return Object.values(value).find(Array.isArray) || [];
  };

  const log = (words) => notify("notifications/message", { level: "warning", data: String(words) });
  return { ask, notify, on, begin, call, data, words, list, log };
})();

const config = JSON.parse(document.getElementById("config").textContent) || {};
const page = document.getElementById("page");

// An element, made of its properties and what is in it. Text is text, and never markup.
const make = (name, properties = {}, ...inside) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...inside.flat().filter((one) => one !== undefined && one !== null && one !== false).map((one) => one instanceof Node ? one : String(one)));
  return element;
};
const show = (...inside) => page.replaceChildren(...inside.flat().filter(Boolean));
const heading = (usual) => [
  make("h1", {}, config.title || usual),
  config.description ? make("p", { class: "quiet" }, config.description) : null,
];
// A line that says what goes on.
const status = make("p", { role: "status", class: "quiet" });
const say = (words, kind = "quiet") => {
  status.className = kind;
  status.textContent = words;
};
const start = () => bridge.begin().catch((error) => say("The client does not answer: " + error.message, "bad"));
