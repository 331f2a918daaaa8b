// How far something is.
const bar = make("progress", { max: 100 });
const percent = make("span", { class: "quiet" });
const steps = make("ul", { class: "steps" });
const cancel = make("button", { type: "button" }, "Cancel");
let input = {};
let sure = false;

const draw = ({ part, words, list }) => {
  if (typeof part === "number" && Number.isFinite(part)) {
    const value = Math.max(0, Math.min(100, part));
    bar.value = value;
    if (config.showPercentage !== false) percent.textContent = Math.round(value) + " %";
  }
  if (words && config.showCurrentStep !== false) say(words);
  if (Array.isArray(list)) {
    steps.replaceChildren(...list.map((step) => {
      const label = typeof step === "object" ? step.label || step.name || step.title || "" : step;
      const state = typeof step === "object" ? step.status || (step.done ? "done" : "") : "";
      const mark = { done: "✓ ", completed: "✓ ", failed: "✗ ", error: "✗ ", running: "… ", active: "… " }[state] || "· ";
      return make("li", { class: mark === "✗ " ? "bad" : mark === "✓ " ? "good" : "" }, mark + label);
    }));
  }
};
const read = (value) => {
  if (!value || typeof value !== "object") return typeof value === "string" ? { words: value } : {};
  const total = value.total || (typeof value.progress === "number" && value.progress <= 1 ? 1 : 100);
  const done = value.progress ?? value.current ?? value.done;
  const part = value.percent ?? value.percentage ?? (typeof done === "number" ? done * 100 / total : undefined);
  return { part, words: value.message || value.step || value.currentStep || value.status, list: value.steps };
};
cancel.addEventListener("click", async () => {
  // Frames have no dialogs of their own: it is asked where it stands.
  if (!sure) {
    sure = true;
    cancel.textContent = "Yes, cancel";
    return say(config.cancelConfirm || "Are you sure you want to cancel?");
  }
  cancel.disabled = true;
  try {
    const result = await bridge.call(config.cancelTool, input);
    say(bridge.words(result) || "Cancelled.");
  } catch (error) {
    cancel.disabled = false;
    say(error.message, "bad");
  }
});
bridge.on("input", (args) => { input = args; });
bridge.on("progress", (params) => draw(read({ total: 100, ...params })));
bridge.on("cancelled", (reason) => say(reason || "Cancelled.", "bad"));
bridge.on("result", (result) => {
  cancel.hidden = true;
  if (result.isError) return say(bridge.words(result) || "It failed.", "bad");
  const read_ = read(bridge.data(result));
  draw({ ...read_, part: read_.part ?? 100 });
  if (!read_.words) say("Done.", "good");
});
show(heading("Progress"), make("div", { class: "row" }, bar, percent), status, steps,
  config.cancelTool ? cancel : null);
say("Working…");
start();
