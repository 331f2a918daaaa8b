// A form whose values a tool is called with.
const fields = Array.isArray(config.fields) ? config.fields : [];

const control = (field) => {
  const shared = { name: field.name, required: field.required, placeholder: field.placeholder };
  if (field.type === "textarea") return make("textarea", shared, field.default ?? "");
  if (field.type === "select") {
    const options = (field.options || []).map((option) => {
      const value = typeof option === "object" ? option.value : option;
      const label = typeof option === "object" ? option.label ?? option.value : option;
      return make("option", { value: String(value), selected: String(field.default ?? "") === String(value) }, label);
    });
    const none = field.default === undefined ? [make("option", { value: "" }, field.placeholder || "")] : [];
    return make("select", { name: field.name, required: field.required }, none, options);
  }
  if (field.type === "checkbox" || field.type === "boolean") {
    return make("input", { name: field.name, type: "checkbox", checked: String(field.default) === "true" });
  }
  const type = { integer: "number", string: "text" }[field.type] || field.type || "text";
  const limits = { min: field.min, max: field.max, pattern: field.pattern };
  const step = field.type === "number" ? { step: "any" } : {};
  const value = field.default === undefined ? {} : { value: String(field.default) };
  return make("input", { ...shared, ...limits, ...step, ...value, type });
};
const controls = fields.map((field) => ({ field, element: control(field) }));

const values = () => {
  const all = { ...(config.submitArgs || {}) };
  for (const { field, element } of controls) {
    if (element.type === "checkbox") all[field.name] = element.checked;
    else if (element.value === "") continue;
    else if (element.type === "number") all[field.name] = Number(element.value);
    else all[field.name] = element.value;
  }
  return all;
};

const submit = make("button", { type: "submit", class: "main" }, config.submitLabel || "Submit");
const cancel = make("button", { type: "button", onclick: () => { form.reset(); say("Cancelled."); } }, "Cancel");
const form = make("form", {},
  controls.map(({ field, element }) => make("label", { class: element.type === "checkbox" ? "check" : undefined },
    element.type === "checkbox" ? [element, make("span", {}, field.label || field.name)]
      : [make("span", {}, (field.label || field.name) + (field.required ? " *" : "")), element])),
  make("div", { class: "row" }, submit, config.cancelable ? cancel : null), status);

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!config.submitTool) return say("This form has no `submitTool`.", "bad");
  submit.disabled = true;
  say("Sending…");
  try {
    const result = await bridge.call(config.submitTool, values());
    say(bridge.words(result) || "Done.", "good");
  } catch (error) {
    say(error.message, "bad");
  } finally {
    submit.disabled = false;
  }
});
// What the model filled in already.
bridge.on("input", (args) => {
  for (const { field, element } of controls) {
    if (args[field.name] === undefined) continue;
    if (element.type === "checkbox") element.checked = Boolean(args[field.name]);
    else element.value = String(args[field.name]);
  }
});
show(heading("Form"), form);
start();
