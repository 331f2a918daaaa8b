// Just enough of a browser to run a page: elements, events, and a client on the other side.
// Reads {page, script} from standard input; `script` is a list of what the client and the user do.
// Prints what the page said, and what it shows.
const vm = require("node:vm");
const { page, script } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));

class Node {
  constructor() { this.childNodes = []; }
}
class Text extends Node {
  constructor(text) { super(); this.text = text; }
  get textContent() { return this.text; }
}
class Element extends Node {
  constructor(name) {
    super();
    Object.assign(this, { name, attributes: {}, listeners: {}, dataset: {}, value: "", type: "", checked: false, required: false, open: false, hidden: false, disabled: false, selected: false, max: 0 });
    this.style = { setProperty: (key, value) => { this.attributes["style:" + key] = value; } };
    this.classList = { add() {}, remove() {} };
    if (name === "textarea") this.append = (...all) => { super.append?.(...all); this.value = all.join(""); };
  }
  get children() { return this.childNodes.filter((one) => one instanceof Element); }
  get childElementCount() { return this.children.length; }
  get textContent() { return this.childNodes.map((one) => one.textContent).join(""); }
  set textContent(text) { this.childNodes = [new Text(text)]; }
  set className(text) { this.attributes.class = text; }
  get className() { return this.attributes.class || ""; }
  append(...all) { this.childNodes.push(...all.map((one) => one instanceof Node ? one : new Text(one))); }
  replaceChildren(...all) { this.childNodes = []; this.append(...all); }
  setAttribute(key, value) {
    this.attributes[key] = String(value);
    if (["value", "type"].includes(key)) this[key] = String(value);
    if (key in this && typeof this[key] === "boolean") this[key] = true;
  }
  addEventListener(kind, does) { (this.listeners[kind] ||= []).push(does); }
  fire(kind, event = {}) {
    const dataTransfer = { data: {}, setData(k, v) { this.data[k] = v; }, getData(k) { return this.data[k]; } };
    const whole = { preventDefault() {}, dataTransfer, ...event };
    (this.listeners[kind] || []).forEach((does) => does(whole));
    return whole;
  }
  reset() {}
  getBoundingClientRect() { return { width: 300, height: 10 * this.all().length }; }
  get scrollWidth() { return 300; }
  all() { return [this, ...this.children.flatMap((one) => one.all())]; }
}

const config = new Element("script");
config.textContent = /id="config">([^<]*)</.exec(page)[1];
const main = new Element("main");
const body = new Element("body");
body.append(main);
const said = [];
const listeners = [];
const client = { postMessage: (message) => said.push(structuredClone(message)) };
const window = { parent: client, addEventListener: (kind, does) => kind === "message" && listeners.push(does) };
const document = {
  title: /<title>(.*)<\/title>/.exec(page)[1], body, documentElement: new Element("html"),
  createElement: (name) => new Element(name),
  getElementById: (id) => ({ config, page: main })[id],
};
const code = /<script>\n([\s\S]*)<\/script>/.exec(page)[1];
vm.runInNewContext(code, { window, document, Node, structuredClone });

const tell = (data, source = client) => listeners.forEach((does) => does({ source, data }));
const settle = () => new Promise((resolve) => setImmediate(resolve));
const find = ({ name, label, field }) => main.all().find((one) => (!name || one.name === name)
  && (!label || one.textContent.includes(label)) && (!field || one.attributes.name === field));
(async () => {
  for (const step of script) {
    if (step.answer) {
      const asked = said.findLast((one) => one.method === step.answer && one.id !== undefined);
      tell({ jsonrpc: "2.0", id: asked.id, ...step.with });
    } else if (step.tell) tell(step.tell);
    else if (step.stranger) tell(step.stranger, {});
    else if (step.fill) find({ field: step.fill }).value = step.value;
    else if (step.fire) find(step.on).fire(step.fire, step.event);
    await settle();
  }
  process.stdout.write(JSON.stringify({ said, shows: main.textContent, theme: document.documentElement.dataset.theme }));
})();
