// Cards in columns, moved by hand or by keys.
let cards = Array.isArray(config.cards) ? config.cards : [];
let columns = Array.isArray(config.columns) && config.columns.length ? config.columns
  : [{ id: "todo", title: "To do" }, { id: "in-progress", title: "In progress" }, { id: "done", title: "Done" }];
const moves = config.draggable !== false;

const where = (card) => String(card.column ?? card.status ?? columns[0].id);
const place = (card, column) => {
  if ("status" in card && !("column" in card)) card.status = column;
  else card.column = column;
};
const move = async (card, to) => {
  const from = where(card);
  if (from === to) return;
  place(card, to);
  draw();
  if (!config.onMoveTool) return;
  say("Moving…");
  try {
    const args = { cardId: card.id, id: card.id, fromColumn: from, toColumn: to };
    const result = await bridge.call(config.onMoveTool, args);
    say(bridge.words(result) || "Moved.");
  } catch (error) {
    // What was not kept is not shown.
    place(card, from);
    draw();
    say(error.message, "bad");
  }
};
const open = async (card) => {
  if (!config.onCardClickTool) return;
  try {
    const result = await bridge.call(config.onCardClickTool, { cardId: card.id, id: card.id });
    say(bridge.words(result));
  } catch (error) {
    say(error.message, "bad");
  }
};
const step = (card, event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === "Enter") return open(card);
  const to = by && moves && columns[columns.findIndex((one) => String(one.id) === where(card)) + by];
  if (to) move(card, String(to.id));
};
let dragged = null;
const show_card = (card) => {
  const kind = ["high", "medium", "low"].includes(card.priority) ? " " + card.priority : "";
  const element = make("article", { class: "card" + kind, draggable: moves ? "true" : "false", tabindex: "0" },
    make("strong", {}, card.title ?? card.id ?? ""),
    card.description ? make("div", { class: "quiet" }, card.description) : null,
    (Array.isArray(card.tags) ? card.tags : []).map((tag) => make("span", { class: "tag" }, tag)),
    card.assignee ? make("div", { class: "quiet" }, card.assignee) : null);
  element.addEventListener("dragstart", (event) => {
    dragged = card;
    event.dataTransfer.setData("text/plain", "");
  });
  element.addEventListener("dragend", () => { dragged = null; });
  element.addEventListener("click", () => open(card));
  element.addEventListener("keydown", (event) => step(card, event));
  return element;
};
const show_column = (column) => {
  const id = String(column.id);
  const own = cards.filter((card) => where(card) === id);
  const element = make("section", { class: "column" },
    make("h2", {}, (column.title || id) + " (" + own.length + ")"), own.map(show_card));
  element.addEventListener("dragover", (event) => { event.preventDefault(); element.classList.add("over"); });
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    element.classList.remove("over");
    if (dragged && cards.includes(dragged)) move(dragged, id);
  });
  return element;
};
const draw = () => show(heading("Board"), make("div", { class: "board" }, columns.map(show_column)), status);
bridge.on("result", (result) => {
  if (result.isError) return say(bridge.words(result) || "The tool failed.", "bad");
  const value = bridge.data(result);
  if (value && Array.isArray(value.columns)) {
    columns = value.columns;
    // Columns may hold their cards.
    cards = columns.flatMap((column) => (column.cards || []).map((card) => ({ ...card, column: column.id })));
  }
  if (!value || !Array.isArray(value.columns) || Array.isArray(value.cards)) cards = bridge.list(value, ["cards", "tasks"]);
  cards = cards.filter((card) => card && typeof card === "object");
  draw();
});
draw();
start();
