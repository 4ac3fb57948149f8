// The list of runs, and a run that goes on. Text from runs only ever becomes text nodes.
"use strict";

const main = document.getElementById("main");
const link = document.getElementById("link");
const SVG = "http://www.w3.org/2000/svg";

function node(name, attributes, ...children) {
  const made = name === "svg" || attributes.svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key !== "svg" && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null).map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

function figure(value, decimals = 1) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

function length(seconds) {
  if (seconds === null) return "";
  const whole = Math.round(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].map(([unit, name], place, units) => {
    const above = place === 0 ? Infinity : units[place - 1][0];
    return [Math.floor((whole % above) / unit), name];
  });
  const first = Math.max(0, parts.findIndex(([amount]) => amount > 0));
  const shown = whole === 0 ? [[0, "s"]] : parts.slice(first, first + 2).filter(([amount]) => amount > 0);
  return shown.map(([amount, name]) => `${amount} ${name}`).join(" ");
}

function table(heads, rows) {
  const head = heads.map(([text, right]) => node("th", { class: right ? "r" : null, scope: "col" }, text));
  const body = rows.map((cells) => node("tr", {}, ...cells));
  return node("div", { class: "table", tabindex: 0 }, node("table", {}, node("thead", {}, node("tr", {}, ...head)), node("tbody", {}, ...body)));
}

const right = (text) => node("td", { class: "r" }, text);
const path = (id, file = "") => `/runs/${encodeURIComponent(id)}/${file}`;

// Names of the runs that are ticked, in the order in which they were: the first is the baseline.
const chosen = new Set();
const mostCompared = 8;

function comparison() {
  const ids = [...chosen];
  if (ids.length < 2 || ids.length > mostCompared) {
    return node("p", { id: "comparison", class: "muted" }, `Tick two to ${mostCompared} runs to compare them; the first one is the baseline.`);
  }
  const query = ids.map((id) => `run=${encodeURIComponent(id)}`).join("&");
  return node("p", { id: "comparison" }, node("a", { href: `/compare?${query}` }, `Compare ${ids.length} runs`), ` with ${ids[0]} as the baseline`);
}

function tick(id) {
  const box = node("input", { type: "checkbox", "aria-label": `Compare ${id}` });
  box.checked = chosen.has(id);
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(id); else chosen.delete(id);
    document.getElementById("comparison").replaceWith(comparison());
  });
  return node("td", {}, box);
}

function list(runs) {
  document.title = "Proofload runs";
  const names = new Set(runs.map((run) => run.id));
  for (const id of chosen) if (!names.has(id)) chosen.delete(id);
  const rows = runs.map((run) => {
    const reports = run.standing === "unreadable"
      ? node("td", { class: "text" }, run.note)
      : node("td", run.note ? { class: "text" } : {}, run.note ? `${run.note} ` : "", node("a", { href: path(run.id, "report.html") }, "report"), " ", node("a", { href: path(run.id, "report.json") }, "JSON"));
    return [
      run.standing === "unreadable" ? node("td", {}) : tick(run.id),
      node("td", { class: run.standing }, plain[run.standing] === undefined ? run.standing : `${plain[run.standing]}, ${run.standing}`),
      node("th", { class: "text", scope: "row" }, node("a", { href: path(run.id) }, run.id)),
      node("td", { class: "text" }, run.solution, run.world === "simulated" ? " (simulated)" : ""),
      node("td", {}, run.started.replace("T", " ").replace("Z", "")),
      right(length(run.duration_s)),
      node("td", {}, run.test ?? ""),
      right(run.passed + run.failed ? `${run.passed} of ${run.passed + run.failed}` : ""),
      reports,
    ];
  });
  main.replaceChildren(
    node("h1", {}, "Runs"),
    runs.length === 0
      ? node("p", {}, "There is none in this folder yet.")
      : table([["Compare"], ["Outcome"], ["Run"], ["Solution"], ["Started, UTC"], ["Length", true], ["Newest test"], ["Limits kept", true], ["Evidence"]], rows),
    runs.length > 1 ? comparison() : "",
  );
}

// A line of the newest values with the limit, scaled to both unless the limit is far above.
function chart(title, history, value, limit, word = "limit") {
  const [width, height, left, top, bottom] = [480, 170, 46, 8, 20];
  const points = history.map((second) => [second.t_s, value(second)]).filter(([, y]) => y !== null);
  const highest = Math.max(1e-9, ...points.map(([, y]) => y));
  const drawn = limit !== null && limit <= 4 * highest ? limit : null;
  const scale = Math.max(highest, drawn ?? 0) * 1.05;
  const [from, to] = points.length ? [points[0][0], points[points.length - 1][0]] : [0, 1];
  const x = (t) => left + ((t - from) / Math.max(1, to - from)) * (width - left - 4);
  const y = (v) => top + (1 - v / scale) * (height - top - bottom);
  const line = points.map(([t, v], place) => `${place ? "L" : "M"}${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  const label = (text, at, anchor = "end", where = left - 5) =>
    node("text", { svg: true, x: where, y: at, "text-anchor": anchor }, text);
  const decimals = scale < 10 ? 2 : scale < 100 ? 1 : 0;
  const parts = [
    node("path", { svg: true, class: "axis", d: `M${left} ${top}V${height - bottom}H${width - 4}` }),
    label(figure(scale, decimals), top + 9), label("0", height - bottom),
    label(length(Math.max(1, to - from)) + " ago", height - 5, "start", left), label("now", height - 5, "end", width - 4),
    node("path", { svg: true, class: "line", d: line || "M0 0" }),
  ];
  if (drawn !== null) {
    parts.push(node("path", { svg: true, class: "limit", d: `M${left} ${y(drawn).toFixed(1)}H${width - 4}` }));
  }
  const note = limit === null ? "" : drawn === null ? ` (${word} ${figure(limit)}, far above)` : ` (dashed: ${word} ${figure(limit)})`;
  return node("figure", {}, node("figcaption", {}, title, node("span", { class: "muted" }, note)),
    node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title }, ...parts));
}

function rates(what, rows, limits) {
  const over = (value, rule) => (limits[rule] !== undefined && value !== null && value > limits[rule] ? "r fail" : "r");
  return table(
    [[what], ["I/O per s", true], ["Batches per s", true], ["Read ms", true], ["longest", true], ["Write ms", true], ["Log write ms", true], ["MiB/s", true]],
    rows.map((row) => [
      node("th", { class: "text", scope: "row" }, row.database ?? row.host),
      right(figure(row.iops)), right(figure(row.batches_per_s)),
      node("td", { class: over(row.read_ms, "read_latency_avg") }, figure(row.read_ms, 2)), right(figure(row.read_max_ms, 2)),
      right(figure(row.write_ms, 2)), node("td", { class: over(row.log_write_ms, "log_write_latency_avg") }, figure(row.log_write_ms, 2)),
      right(figure(row.mib_per_s)),
    ]));
}

const limits_of = (count) => `${count} limit${count === 1 ? "" : "s"}`;

// The plain word of a grade or of a limit that is broken already; other standings say enough themselves. Only a
// qualification has passed.
const plain = { qualified: "PASS", failed: "FAIL", fail: "FAIL" };

// What the run proves comes first: the grade once it has ended, before that what is broken or missing already.
function verdict(judged) {
  const word = plain[judged.grade ?? judged.outcome];
  const reasons = judged.reasons.map((reason) => node("li", {}, reason));
  return node("section", { id: "verdict" },
    word === undefined ? null : node("p", { class: `word ${judged.outcome}` }, word),
    node("p", {}, node("b", { class: judged.grade ?? "running" }, judged.words.toUpperCase()), ` – ${judged.headline}`),
    reasons.length ? node("ul", {}, ...reasons) : null);
}

function live(id, run) {
  const test = run.tests[run.tests.length - 1];
  const limits = Object.fromEntries(run.limits.map((limit) => [limit.rule, limit.value]));
  document.title = `${run.solution} – Proofload`;
  const loads = run.history.some((second) => second.iops > 0);
  const now = test === undefined ? null : node("p", {},
    node("b", {}, `${test.ordinal} ${test.name}`), ` – ${test.phase}, ${length(test.elapsed_s)} `,
    test.window_done === null ? null : node("progress", { value: test.window_done, max: 1 }),
    test.window_done === null ? null : ` ${Math.floor(100 * test.window_done)} %`);
  const charts = !run.history.length ? null : node("div", { class: "charts" },
    loads ? chart("Transactional I/O per second", run.history, (s) => s.iops, test.target_iops, "target") : chart("MiB per second", run.history, (s) => s.mib_per_s, null),
    loads ? chart("Read latency, ms", run.history, (s) => s.read_ms, limits.read_latency_avg ?? null) : null);
  const parts = [
    verdict(run.judgement),
    node("h1", {}, run.solution),
    node("p", { class: "muted" }, `${run.world}, run ${run.id}, ${length(run.elapsed_s)}`),
    node("p", {}, run.ending !== null ? `It has ended: ${run.ending}. ` : run.judgement.grade === null ? "It goes on. " : "It did not end by itself. ", node("a", { href: path(id, "report.html") }, "Report"),
      run.failed ? node("span", { class: "fail" }, ` ${limits_of(run.failed)} broken`) : "", ` ${limits_of(run.passed)} kept`),
    run.judgement.grade === null ? now : null,
    charts,
    run.hosts.length ? node("h2", {}, "Hosts") : null, run.hosts.length ? rates("Host", run.hosts, limits) : null,
    run.databases.length ? node("h2", {}, "Databases") : null, run.databases.length ? rates("Database", run.databases, limits) : null,
    node("h2", {}, "Tests"),
    table([["No.", true], ["Test"], ["Phase"], ["Length", true], ["Outcome"]], run.tests.map((each) => [
      right(each.ordinal), node("th", { class: "text", scope: "row" }, each.name), node("td", {}, each.phase), right(length(each.elapsed_s)),
      node("td", { class: each.outcome }, each.outcome ?? ""),
    ])),
    node("h2", {}, "Log"),
    table([["At", true], ["What happened"]], run.events.slice().reverse().map((event) => [
      right(`${figure(event.t_s)} s`), node("td", { class: `text ${event.severity}` }, event.text),
    ])),
  ];
  main.replaceChildren(...parts.filter((part) => part !== null));
}

const page = location.pathname.split("/");
const id = page[1] === "runs" ? decodeURIComponent(page[2]) : null;
const events = new EventSource(id === null ? "/events" : `/events/${encodeURIComponent(id)}`);
events.onopen = () => { link.textContent = "live"; };
events.onerror = () => { link.textContent = "connection lost, trying again"; };
events.onmessage = (message) => {
  const data = JSON.parse(message.data);
  link.dataset.updates = Number(link.dataset.updates ?? 0) + 1;
  if (id === null) list(data); else live(id, data);
};
events.addEventListener("end", () => { events.close(); link.textContent = "ended"; });
