// Things in things, which open and close.
const SIGNS = { folder: "📁", "folder-open": "📂", file: "📄" };
const depth = Number.isFinite(config.expandLevel) ? config.expandLevel : 1;
let chosen = null;

const nodes = (value) => {
  if (Array.isArray(value)) return value.map((one) => typeof one === "object" && one ? one : { label: String(one) });
  if (!value || typeof value !== "object") return [];
  for (const name of ["tree", "nodes", "items", "children"]) if (Array.isArray(value[name])) return nodes(value[name]);
  // Any object is a tree of its members.
  return Object.entries(value).map(([key, inner]) => inner && typeof inner === "object"
    ? { id: key, label: key, children: nodes(inner) } : { id: key, label: key, meta: String(inner) });
};
const choose = async (element, node) => {
  if (!config.selectable && !config.onSelectTool) return;
  if (chosen) chosen.setAttribute("aria-selected", "false");
  chosen = element;
  chosen.setAttribute("aria-selected", "true");
  if (!config.onSelectTool) return;
  say("Opening " + (node.label ?? node.id) + "…");
  try {
    const result = await bridge.call(config.onSelectTool, { id: node.id ?? node.label, label: node.label });
    say(bridge.words(result) || "Done.");
  } catch (error) {
    say(error.message, "bad");
  }
};
const branch = (node, level) => {
  const inner = Array.isArray(node.children) ? node.children : [];
  const sign = config.showIcons === false ? "" : (node.iconChar || SIGNS[node.icon] || (inner.length ? SIGNS.folder : SIGNS.file)) + " ";
  const label = [sign + (node.label ?? node.name ?? node.id ?? ""), node.meta ? make("span", { class: "quiet" }, "  " + node.meta) : null];
  if (!inner.length) {
    const leaf = make("span", { class: "leaf", tabindex: "0", role: "treeitem" }, label);
    leaf.addEventListener("click", () => choose(leaf, node));
    leaf.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(leaf, node); });
    return make("li", {}, leaf);
  }
  const summary = make("summary", { role: "treeitem" }, label);
  summary.addEventListener("click", () => choose(summary, node));
  const details = make("details", { open: level < depth }, summary);
  // What is closed is made when it is opened.
  const fill = () => {
    if (details.childElementCount === 1) details.append(make("ul", { role: "group" }, inner.map((one) => branch(one, level + 1))));
  };
  if (level < depth) fill();
  details.addEventListener("toggle", () => { if (details.open) fill(); });
  return make("li", {}, details);
};
const draw = (value) => {
  const all = nodes(value);
  show(heading("Tree"), make("ul", { class: "tree", role: "tree" }, all.map((node) => branch(node, 0))), status);
  if (!all.length && status.className !== "bad") say("There is nothing yet.");
};
bridge.on("result", (result) => {
  if (result.isError) return say(bridge.words(result) || "The tool failed.", "bad");
  say("");
  draw(bridge.data(result));
});
draw(config.tree || config.nodes || []);
start();
