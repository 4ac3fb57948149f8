// The desk: sends each change to the server, and draws what it answers.

import { checks, failure, limits, loads, node, rows } from "./draw.js";
import { fill, mark } from "./form.js";

const LOOK_EVERY_MS = 400;
const token = document.querySelector("meta[name=token]").content;
const at = (id) => document.getElementById(id);

/** Changed values by their path, and what fails. */
const edits = new Map();
const lost = new Set();
let kept = null;
let current = null;

async function ask(path, body) {
  const wish = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Proofload-Token": token },
    body: JSON.stringify(body),
  };
  const answer = await fetch(path, wish);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error);
  return data;
}

const design = () => ({ edits: [...edits].map(([path, value]) => ({ path, value })) });

function say(error) {
  at("status").textContent = error instanceof TypeError ? "The server does not answer." : error.message;
}

/** Calls `work` now, or once more when it is done if it is at work: the last state is always shown. */
function latest(work) {
  let busy = false;
  let again = false;
  return async () => {
    again = true;
    if (busy) return;
    busy = true;
    while (again) {
      again = false;
      await work().catch(say);
    }
    busy = false;
  };
}

function judge(kind, sentence, mistakes) {
  at("verdict").className = `verdict ${kind}`;
  at("sentence").className = kind;
  at("sentence").textContent = sentence;
  at("errors").replaceChildren(...mark(at("form"), mistakes));
  for (const id of ["keep", "simulate"]) at(id).disabled = kind === "wrong";
}

const plan = latest(async () => {
  const answer = await ask("/api/plan", { ...design(), lost: [...lost] });
  at("status").textContent = edits.size === 0 ? "As in the file." : `Changed: ${[...edits.keys()].join(", ")}.`;
  if (answer.errors) {
    judge("wrong", "The solution cannot be planned. Below stands the last plan.", answer.errors);
    return;
  }
  current = answer.plan;
  at("name").textContent = current.solution;
  judge(current.passed ? "pass" : "fail", current.verdict, []);
  at("losses").replaceChildren(...current.losses.map((loss) => node("li", {}, `Loses service: ${loss}`)));
  compare();
  at("checks").replaceChildren(checks(current));
  offer(answer.can_fail);
  at("failure").replaceChildren(...(answer.failure === null ? [] : failure(answer.failure)));
  room();
});

const room = latest(async () => {
  const answer = await ask("/api/limits", design());
  if (!answer.errors) at("limits").replaceChildren(limits(answer));
});

function compare() {
  at("forget").hidden = kept === null;
  if (current !== null) at("rows").replaceChildren(rows(current, kept));
}

/** A button for each thing that can fail. The buttons stay while their names do, so that the focus stays. */
function offer(canFail) {
  const names = canFail.map((one) => one.name);
  const same = [...at("failures").children].map((button) => button.value).join("\n") === names.join("\n");
  if (same) return;
  for (const name of lost) if (!names.includes(name)) lost.delete(name);
  at("failures").replaceChildren(...canFail.map(({ kind, name }) => {
    const button = node("button", { type: "button", value: name, "aria-pressed": String(lost.has(name)) }, `${kind} ${name}`);
    button.addEventListener("click", () => {
      const fails = !lost.delete(name);
      if (fails) lost.add(name);
      button.setAttribute("aria-pressed", String(fails));
      plan();
    });
    return button;
  }));
}

function changed(path, value) {
  if (value === undefined) edits.delete(path); else edits.set(path, value);
  plan();
}

async function load() {
  const form = await ask("/api/form");
  document.title = `${form.file} – Proofload desk`;
  fill(at("form"), form.sections, changed);
}

const words = { running: "Simulating", done: "Simulated", stopped: "Stopped" };

/** Shows a simulation, and looks again while it goes on. */
function watch(progress) {
  if (progress === null) return;
  const runs = progress.state === "running";
  at("stop").disabled = !runs;
  at("simulate").disabled = runs;
  at("simulated").textContent = `${words[progress.state]} ${progress.solution} on ${progress.servers.join(", ")}: `
    + `${progress.probed.length} of ${progress.loads} loads.`;
  at("loads").replaceChildren(...loads(progress));
  if (runs) setTimeout(() => ask("/api/simulate").then(watch).catch(say), LOOK_EVERY_MS);
}

async function simulate() {
  const answer = await ask("/api/simulate", design());
  if (answer.errors) at("simulated").textContent = answer.errors.map((one) => one.message).join(" "); else watch(answer);
}

/** Sends the name in a form with the design, and says what was written. */
function writes(id, path, key) {
  at(id).addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = (text) => { at("written").textContent = text; };
    try {
      const answer = await ask(path, { ...design(), [key]: at(`${id}-name`).value });
      said(answer.errors ? answer.errors.map((one) => one.message).join(" ") : `Wrote ${answer.written}.`);
    } catch (error) {
      said(error.message);
    }
  });
}

at("form").addEventListener("submit", (event) => event.preventDefault());
at("keep").addEventListener("click", () => { kept = current; compare(); });
at("forget").addEventListener("click", () => { kept = null; compare(); });
at("undo").addEventListener("click", () => { edits.clear(); load().then(plan).catch(say); });
at("simulate").addEventListener("click", () => simulate().catch((error) => { at("simulated").textContent = error.message; }));
at("stop").addEventListener("click", () => ask("/api/stop", {}).then(watch).catch(say));
writes("save", "/api/save", "name");
writes("export", "/api/export", "folder");
load().then(plan).catch(say);
ask("/api/simulate").then(watch).catch(say);
