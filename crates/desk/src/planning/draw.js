// Draws what the server says. Nothing is computed here but positions on the screen.

const figures = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const shares = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 0 });

/** An element with attributes and children; text never becomes markup. */
export function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawing(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function figure(value) {
  return value === null || value === undefined ? "–" : typeof value === "number" ? figures.format(value) : String(value);
}

/** A table: heads are [text, is a figure]; rows are lists of cells. */
export function table(heads, rows) {
  const head = heads.map(([text, right]) => node("th", { class: right ? "r" : null, scope: "col" }, text));
  return node("table", { class: "wide" }, node("thead", {}, node("tr", {}, ...head)),
    node("tbody", {}, ...rows.map((cells) => node("tr", {}, ...cells))));
}

const head = (text) => node("th", { scope: "row" }, text);
const cell = (text, kind = null) => node("td", { class: kind }, text);
const right = (text) => cell(text, "r");

/** The limits, the lowest first, each with a bar of how much of it is used. */
export function limits(answer) {
  const rows = answer.variants[0].plan_limits.map((limit) => {
    const used = limit.used_percent;
    const broken = used === null || used > 100;
    const bar = drawing("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      drawing("rect", { class: "bar", width: 100, height: 8 }),
      drawing("rect", { class: `bar ${broken ? "fail" : "pass"}`, width: used === null ? 100 : Math.min(used, 100), height: 8 }));
    return [head(limit.limit), cell(limit.part), right(limit.mailboxes === null ? "none" : figure(limit.mailboxes)),
      right(used === null ? "not by mailboxes" : `${figure(used)} %`), node("td", {}, bar)];
  });
  if (rows.length === 0) return node("p", {}, "The plan reaches no limit.");
  return table([["Limit"], ["Part"], ["Mailboxes", true], ["Used", true], ["Share of the limit"]], rows);
}

export function checks(plan) {
  const kinds = { pass: "pass", fail: "fail", not_judged: "unproved", note: "info" };
  const rows = plan.checks.map((check) => [
    cell(check.outcome.replace("_", " "), kinds[check.outcome]), head(check.name), cell(check.detail, "text")]);
  const rules = plan.architecture.map((rule) => [
    cell(rule.outcome.replace("_", " "), { kept: "pass", broken: "fail" }[rule.outcome] ?? "unproved"),
    head("Preferred Architecture"), cell(`${rule.rule}: ${rule.detail}`, "text")]);
  return table([["Outcome"], ["Check"], ["Figures"]], [...rows, ...rules]);
}

/** The rows of a plan that two designs have beside each other: key, group, label, unit, value. */
function rowsOf(plan) {
  const percent = (share) => (share === null ? null : shares.format(share));
  const volumes = [...plan.storage.volumes, ...plan.storage.pools].flatMap((used) => [
    [`${used.name} space`, "Storage", `${used.name}: space used`, "", percent(used.capacity_share)],
    [`${used.name} I/O`, "Storage", `${used.name}: I/O used`, "", percent(used.iops_share)],
    [`${used.name} disks`, "Storage", `${used.name}: disks`, "", used.disks_in_all],
  ]);
  return [
    ["mailboxes", "Solution", "Mailboxes", "", plan.mailboxes],
    ["servers", "Solution", "Servers of a group", "", plan.servers.length],
    ["databases", "Solution", "Databases of a group", "", plan.layout.databases.length],
    ["copies", "Solution", "Copies of a database", "", plan.copies],
    ["target", "Solution", "Target of the tests", "I/O per second", plan.targets.target_iops],
    ...plan.sizing.rows.map((row) => [`server ${row.key}`, "A server", row.label, row.unit, row.per_server]),
    ...plan.sizing.rows.map((row) => [`all ${row.key}`, "The environment", row.label, row.unit, row.per_environment]),
    ...plan.figures.map((one) => [`${one.group} ${one.key}`, one.group, one.label, one.unit, one.value]),
    ...volumes,
  ].filter((row) => row[4] !== null && row[4] !== undefined);
}

/** The figures of this design, and beside them those of the design that was kept. */
export function rows(plan, kept) {
  const before = new Map(kept === null ? [] : rowsOf(kept).map((row) => [row[0], row]));
  const now = rowsOf(plan);
  const known = new Set(now.map(([key]) => key));
  const gone = [...before.values()].filter(([key]) => !known.has(key)).map((row) => [...row.slice(0, 4), null]);
  const drawn = [];
  let last = null;
  for (const [key, group, label, unit, value] of [...now, ...gone]) {
    if (group !== last) {
      last = group;
      drawn.push([node("th", { class: "group", scope: "rowgroup", colspan: kept === null ? 3 : 4 }, group)]);
    }
    const text = figure(value);
    const old = before.has(key) ? figure(before.get(key)[4]) : "–";
    const cells = [head(label), cell(unit), cell(text, kept !== null && text !== old ? "r differs" : "r")];
    drawn.push(kept === null ? cells : [...cells, right(old)]);
  }
  const heads = [["Figure"], ["Unit"], ["This design", true]];
  return table(kept === null ? heads : [...heads, ["Kept design", true]], drawn);
}

/** What a failure does: active databases of each server, and the copies that move. */
export function failure(shown) {
  const lost = shown.lost_servers.join(", ");
  const servers = table([["Server"], ["Active before", true], ["Active after", true]], shown.servers.map((server) => [
    head(server.name), right(figure(server.before)), server.lost ? cell("lost", "r fail") : right(figure(server.after))]));
  const moves = table([["Database"], ["From"], ["To"], ["Preference", true]], shown.moves.map((move) => [
    head(move.database), cell(move.from), move.to === null ? cell("nowhere", "fail") : cell(move.to), right(figure(move.preference))]));
  return [
    node("p", { class: shown.loss === null ? null : "fail" }, lost === shown.label ? `${lost} fails. ` : `${shown.label} fails; lost: ${lost}. `,
      shown.loss === null ? "Every database stays active." : `${shown.loss}.`),
    node("div", { class: "split" },
      node("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Active databases of each server" }, servers),
      node("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Copies that move" },
        shown.moves.length ? moves : node("p", {}, "No copy moves."))),
  ];
}

/** Latency over load, with the limit as a dashed line. */
function chart(title, probed, rule) {
  const points = probed.flatMap((one) => one.limits.filter((limit) => limit.rule === rule && limit.measured !== null)
    .map((limit) => ({ mailboxes: one.mailboxes, ...limit })));
  if (points.length === 0) return null;
  const [width, height, left, bottom] = [340, 190, 46, 24];
  const most = Math.max(...points.map((point) => Math.max(point.measured, point.bound ?? 0)));
  const last = Math.max(...points.map((point) => point.mailboxes));
  const x = (mailboxes) => left + (width - left - 14) * mailboxes / last;
  const y = (value) => height - bottom - (height - bottom - 10) * value / (most || 1);
  const text = (at, kind, words) => drawing("text", { ...at, class: "tick", "text-anchor": kind }, words);
  const parts = [
    drawing("path", { class: "axis", d: `M${left} 8V${height - bottom}H${width - 8}` }),
    text({ x: left - 5, y: y(most) + 4 }, "end", figure(most)), text({ x: left - 5, y: y(0) + 4 }, "end", "0"),
    ...points.map((point) => text({ x: x(point.mailboxes), y: height - 8 }, "middle", figure(point.mailboxes))),
    drawing("polyline", { class: "line c0", fill: "none", points: points.map((point) => `${x(point.mailboxes)},${y(point.measured)}`).join(" ") }),
    ...points.map((point) => drawing("circle", { class: "dot", cx: x(point.mailboxes), cy: y(point.measured), r: 3 })),
  ];
  const bound = points[0].bound;
  if (bound !== null) parts.push(drawing("path", { class: "limit", d: `M${left} ${y(bound)}H${width - 8}` }));
  return node("figure", {}, node("figcaption", {}, `${title}, ${points[0].unit}, over mailboxes; dashed: the limit`),
    drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title} over mailboxes` }, ...parts));
}

export function loads(progress) {
  const measured = (one, rule) => one.limits.find((limit) => limit.rule === rule)?.measured;
  const rows = progress.probed.map((one) => [
    head(figure(one.mailboxes)), cell(one.holds ? "holds" : "breaks", one.holds ? "pass" : "fail"), right(figure(one.target_iops)),
    right(figure(measured(one, "read_latency_avg"))), right(figure(measured(one, "log_write_latency_avg"))),
    cell(one.limits.filter((limit) => limit.margin < 0).map((limit) => `${limit.limit} ${limit.place}`).join("; "), "text")]);
  const charts = [chart("Read latency", progress.probed, "read_latency_avg"), chart("Log write latency", progress.probed, "log_write_latency_avg")];
  return [
    charts.some((one) => one !== null) ? node("div", { class: "charts" }, ...charts) : null,
    rows.length === 0 ? null : node("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Simulated loads" },
      table([["Mailboxes"], ["Limits"], ["Target, 1/s", true], ["Read, ms", true], ["Log write, ms", true], ["Broken"]], rows)),
    progress.refused.length === 0 ? null : node("ul", { class: "reasons" }, ...progress.refused.map((why) => node("li", {}, why))),
  ].filter((part) => part !== null);
}
