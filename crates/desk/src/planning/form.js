// The inputs of the solution as fields.

import { node } from "./draw.js";

const NOT_SET = "not set";

/** The text that stands in a field for a value. */
function shown(field) {
  if (field.value === null) return "";
  return field.kind === "list" ? JSON.stringify(field.value) : String(field.value);
}

/** The value that a text in a field means. What is none stays text, and the server says what is wrong with it. */
function meant(field, text) {
  if (text.trim() === "") return null;
  if (field.kind === "text" || field.kind === "choice") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function control(field, id) {
  const common = { id, name: field.path, "aria-describedby": `${id}-about` };
  const choices = field.kind === "yes_no" ? ["true", "false"] : field.choices;
  if (choices.length === 0) {
    const made = node("input", { ...common, autocomplete: "off", spellcheck: "false", inputmode: field.kind === "number" ? "decimal" : null });
    made.value = shown(field);
    return made;
  }
  const made = node("select", common, node("option", { value: "" }, NOT_SET),
    ...choices.map((choice) => node("option", { value: choice }, choice)));
  made.value = shown(field);
  return made;
}

/** One field; `changed` is called with its path and its new value, undefined when it is that of the file. */
function row(field, changed) {
  const id = `field-${field.path.replaceAll(".", "-")}`;
  const input = control(field, id);
  const about = [field.key, field.range, field.value === null ? "the file leaves it to its default" : null];
  const made = node("div", { class: "field" },
    node("label", { for: id }, field.title || field.key, field.unit === null ? null : node("span", { class: "unit" }, `, ${field.unit}`)),
    input, node("small", { id: `${id}-about` }, about.filter((part) => part !== null).join(" · ")));
  input.addEventListener("input", () => {
    const same = input.value === shown(field);
    made.classList.toggle("changed", !same);
    changed(field.path, same ? undefined : meant(field, input.value));
  });
  return made;
}

/** Fills the form; the sections that a plan begins with are open. */
export function fill(form, sections, changed) {
  form.replaceChildren(...sections.filter((section) => section.fields.length > 0).map((section) => {
    const name = section.name === null ? "" : `: ${section.name}`;
    const open = ["profile", "dag", "copies"].includes(section.path);
    return node("details", open ? { open: "" } : {}, node("summary", {}, `${section.title}${name}`),
      ...section.fields.map((field) => row(field, changed)));
  }));
}

/** Marks the fields that mistakes are about, and returns the mistakes as items of a list. */
export function mark(form, mistakes) {
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  return mistakes.map((mistake) => {
    const input = mistake.path === null ? null : form.elements.namedItem(mistake.path);
    if (input !== null) input.setAttribute("aria-invalid", "true");
    const place = mistake.path ?? (mistake.line === null ? "" : `line ${mistake.line}`);
    const where = input === null ? place : node("a", { href: `#${input.id}` }, place);
    if (input !== null) {
      where.addEventListener("click", (event) => {
        event.preventDefault();
        input.closest("details").open = true;
        input.focus();
      });
    }
    return node("li", {}, where, `: ${mistake.message}`, mistake.help === null ? null : ` – ${mistake.help}`);
  });
}
