// Two texts, and what differs between them.
const LONGEST = 4000;
const numbered = config.showLineNumbers !== false;
let unified = config.viewMode === "unified";
let lines = [];

// Which lines stay: the longest common sequence, after what is equal at both ends.
const compare = (left, right) => {
  const all = [];
  let top = 0;
  while (top < left.length && top < right.length && left[top] === right[top]) all.push(["same", left[top], right[top++]]);
  let end = 0;
  while (end < left.length - top && end < right.length - top
    && left[left.length - 1 - end] === right[right.length - 1 - end]) end += 1;
  const a = left.slice(top, left.length - end);
  const b = right.slice(top, right.length - end);
  if (a.length * b.length > LONGEST * LONGEST / 4) {
    a.forEach((line) => all.push(["gone", line]));
    b.forEach((line) => all.push(["new", undefined, line]));
  } else {
    const wide = b.length + 1;
    const best = new Uint32Array((a.length + 1) * wide);
    for (let i = a.length - 1; i >= 0; i -= 1) {
      for (let j = b.length - 1; j >= 0; j -= 1) {
        best[i * wide + j] = a[i] === b[j] ? best[(i + 1) * wide + j + 1] + 1
          : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
      }
    }
    let i = 0;
    let j = 0;
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) all.push(["same", a[i++], b[j++]]);
      else if (i < a.length && (j >= b.length || best[(i + 1) * wide + j] >= best[i * wide + j + 1])) all.push(["gone", a[i++]]);
      else all.push(["new", undefined, b[j++]]);
    }
  }
  left.slice(left.length - end).forEach((line) => all.push(["same", line, line]));
  return all;
};
const split = (text) => String(text).replace(/\n$/, "").split("\n");
// What `diff -u` and git print. Only within a hunk, which says how long it is, do signs mean something.
const patch = (text) => {
  let gone = 0;
  let come = 0;
  return split(text).map((line) => {
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk) {
      gone = Number(hunk[2] ?? 1);
      come = Number(hunk[4] ?? 1);
      return ["note", line, line, Number(hunk[1]) - 1, Number(hunk[3]) - 1];
    }
    if ((gone <= 0 && come <= 0) || line.startsWith("\\")) return ["note", line, line];
    if (line.startsWith("+")) { come -= 1; return ["new", undefined, line.slice(1)]; }
    if (line.startsWith("-")) { gone -= 1; return ["gone", line.slice(1)]; }
    gone -= 1;
    come -= 1;
    return ["same", line.slice(1), line.slice(1)];
  });
};
const take = (value) => {
  if (typeof value === "string") lines = /^(@@|--- |diff )/m.test(value) ? patch(value) : [];
  else if (value && typeof (value.diff ?? value.patch) === "string") lines = patch(value.diff ?? value.patch);
  else if (value && typeof value === "object") {
    const left = value.left ?? value.original ?? value.before ?? value.old ?? "";
    const right = value.right ?? value.modified ?? value.after ?? value.new ?? "";
    lines = left === "" && right === "" ? [] : compare(split(left), split(right));
  }
};
const cells = (at, text, kind) => [
  numbered ? make("td", { class: "at" }, text === undefined ? "" : at) : null,
  make("td", { class: kind }, text ?? ""),
];
const draw = () => {
  let left = 0;
  let right = 0;
  const rows = lines.map(([kind, before, after, ...begins]) => {
    if (begins.length) [left, right] = begins;
    if (kind === "note") return make("tr", { class: "quiet" }, make("td", { colspan: "4" }, before));
    if (before !== undefined) left += 1;
    if (after !== undefined) right += 1;
    if (!unified) {
      return make("tr", {}, cells(left, before, kind === "gone" ? "gone" : ""), cells(right, after, kind === "new" ? "new" : ""));
    }
    const mark = { gone: "- ", new: "+ ", same: "  " }[kind];
    return make("tr", {}, cells(kind === "new" ? right : left, mark + (before ?? after), kind === "same" ? "" : kind));
  });
  const titles = unified ? null : make("thead", {}, make("tr", {},
    make("th", { colspan: numbered ? "2" : "1" }, config.leftTitle || "Original"),
    make("th", { colspan: numbered ? "2" : "1" }, config.rightTitle || "Modified")));
  const turn = () => { unified = !unified; draw(); };
  show(heading("Differences"),
    make("div", { class: "row" }, make("button", { type: "button", onclick: turn }, unified ? "Side by side" : "Together"), status),
    make("div", { class: "wide" }, make("table", { class: "code" }, titles, make("tbody", {}, rows))));
  const count = (kind) => lines.filter((line) => line[0] === kind).length;
  if (status.className !== "bad") say("+" + count("new") + " −" + count("gone"));
};
bridge.on("result", (result) => {
  if (result.isError) say(bridge.words(result) || "The tool failed.", "bad");
  else {
    status.className = "quiet";
    take(bridge.data(result));
  }
  draw();
});
take(config);
draw();
start();
