// Rows as a table, sorted by the column that is asked for.
let rows = Array.isArray(config.rows) ? config.rows : [];
let sorted = { key: null, down: false };

const columns = () => {
  if (Array.isArray(config.columns) && config.columns.length) return config.columns;
  const keys = new Set(rows.flatMap((row) => row && typeof row === "object" ? Object.keys(row) : []));
  return [...keys].map((key) => ({ key, sortable: true }));
};
const shown = (value) => {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};
const compare = (a, b) => {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return shown(a).localeCompare(shown(b), undefined, { numeric: true });
};
const head = (column) => {
  const label = column.label || column.key;
  if (!column.sortable) return make("th", { scope: "col" }, label);
  const is = sorted.key === column.key;
  const turn = () => {
    sorted = { key: column.key, down: is && !sorted.down };
    draw();
  };
  const order = is ? (sorted.down ? "descending" : "ascending") : "none";
  return make("th", { scope: "col", "aria-sort": order },
    make("button", { type: "button", onclick: turn }, label, is ? (sorted.down ? " ▼" : " ▲") : ""));
};
const draw = () => {
  const all = columns();
  const ordered = [...rows];
  if (sorted.key !== null) ordered.sort((a, b) => compare(a[sorted.key], b[sorted.key]) * (sorted.down ? -1 : 1));
  const body = ordered.map((row) => make("tr", {}, all.map((column) => {
    const value = row && row[column.key];
    return make("td", { class: typeof value === "number" ? "number" : undefined }, shown(value));
  })));
  const count = rows.length === 1 ? "1 row" : rows.length + " rows";
  show(heading("Data"), make("div", { class: "wide" }, make("table", {},
    make("thead", {}, make("tr", {}, all.map(head))), make("tbody", {}, body))), status);
  if (status.className !== "bad") say(count);
};
bridge.on("result", (result) => {
  if (result.isError) {
    say(bridge.words(result) || "The tool failed.", "bad");
  } else {
    rows = bridge.list(bridge.data(result), ["rows"]).filter((row) => row && typeof row === "object");
    status.className = "quiet";
  }
  draw();
});
draw();
start();
