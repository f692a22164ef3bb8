// The page of elasticjob: shows what /api streams, and changes nothing anywhere.
//
// Every text may come from a job and is hostile: it reaches the document as a text node or as the value of an
// attribute that is no address and no script, through h() and svg() alone. No HTML is ever made of a string.
"use strict";

const WORDS = { P: "pending", S: "starting", R: "running", C: "completed", F: "failed", T: "stopped", U: "unknown" };
const FIELDS = { running: "R", starting: "S", pending: "P", succeeded: "C", failed: "F", stopped: "T", unknown: "U" };
const MANY = 256;
const main = document.getElementById("main");
const where = document.getElementById("where");
const link = document.getElementById("link");
let source = null;

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "style") Object.assign(node.style, value);
    else if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined).map((c) => (c instanceof Node ? c : String(c))));
  return node;
}
const h = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const card = (title, ...children) => h("section", { class: "card" }, h("h2", null, title), ...children);

// -- words -------------------------------------------------------------------------------------

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (value < 172800) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86400)} d ${Math.floor((value % 86400) / 3600)} h`;
}
const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const now = () => Date.now() / 1000;
const age = (moment) => (moment === null ? "–" : seconds(Math.max(0, Math.floor(now() - moment))));
const clock = (moment) => (moment === null ? "–" : new Date(moment * 1000).toLocaleTimeString([], { hourCycle: "h23" }));
const bytes = (value) => (value === null ? "–" : value < 2 ** 30 ? `${Math.round(value / 2 ** 20)} MiB` : `${(value / 2 ** 30).toFixed(1)} GiB`);
const phase = (name) => h("span", { class: `phase ${/^[A-Za-z]+$/.test(name) ? name : ""}` }, name);

function progress(told) {
  if (!told || told.step === null) return h("span", { class: "soft" }, "–");
  if (!told.total) return `step ${told.step}`;
  const share = Math.max(0, Math.min(1, told.step / told.total));
  return h("div", { class: "progress", title: `step ${told.step} of ${told.total}` },
    h("div", { class: "bar" }, h("i", { style: { width: `${share * 100}%` } })), h("span", null, `${Math.floor(share * 100)} %`));
}

function strip(workers) {
  const parts = Object.entries(FIELDS).filter(([field]) => workers[field] > 0);
  const title = parts.map(([field]) => `${workers[field]} ${field}`).join(", ") || "no workers";
  return h("div", { class: "strip", title, role: "img", "aria-label": title },
    parts.map(([field, letter]) => h("i", { class: letter, style: { flex: `${workers[field]} 0 0` } })));
}

// -- the list ----------------------------------------------------------------------------------

const list = { jobs: new Map(), text: "", only: "" };
const placeOf = (job) => `${job.namespace}/${job.name}`;
const address = (job) => `#/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;

function showList() {
  where.textContent = "";
  list.jobs.clear();
  const body = h("tbody", { id: "jobs" });
  const count = h("span", { class: "soft", id: "count" });
  const filter = h("input", { type: "search", placeholder: "namespace or name", "aria-label": "filter by name", value: list.text,
    on: { input: (event) => { list.text = event.target.value; drawList(body, count); } } });
  const phases = ["", "Running", "Restarting", "Resizing", "Starting", "Pending", "Suspended", "Succeeded", "Failed"];
  const choice = h("select", { "aria-label": "filter by phase", on: { change: (event) => { list.only = event.target.value; drawList(body, count); } } },
    phases.map((name) => h("option", { value: name }, name || "all phases")));
  choice.value = list.only;
  const head = ["Job", "Phase", "Nodes", "Workers", "Round", "Restarts", "Nodes lost", "Progress", "Age", "Why"];
  main.replaceChildren(h("section", { class: "card" }, h("div", { class: "tools" }, filter, choice, count),
    h("table", null, h("thead", null, h("tr", null, head.map((title, i) => h("th", { class: [2, 4, 5, 6, 8].includes(i) ? "n" : "" }, title)))), body)));
  listen("api/jobs", (news) => {
    if (news.all) { list.jobs.clear(); news.all.forEach((job) => list.jobs.set(placeOf(job), job)); }
    (news.some ?? []).forEach((job) => list.jobs.set(placeOf(job), job));
    (news.gone ?? []).forEach(([namespace, name]) => list.jobs.delete(`${namespace}/${name}`));
    drawList(body, count);
  });
}

function drawList(body, count) {
  const wanted = [...list.jobs.values()]
    .filter((job) => placeOf(job).includes(list.text) && (!list.only || job.phase === list.only))
    .sort((a, b) => (b.created ?? 0) - (a.created ?? 0) || placeOf(a).localeCompare(placeOf(b)));
  count.textContent = wanted.length === list.jobs.size ? `${wanted.length} jobs` : `${wanted.length} of ${list.jobs.size} jobs`;
  body.replaceChildren(...wanted.map((job) => h("tr", null,
    h("td", { class: "w" }, h("a", { href: address(job) }, placeOf(job))),
    h("td", null, phase(job.phase)),
    h("td", { class: "n" }, `${job.nodes[0]}/${job.nodes[1]}`),
    h("td", null, strip(job.workers)),
    h("td", { class: "n" }, job.round),
    h("td", { class: "n" }, job.restarts),
    h("td", { class: "n" }, job.nodeLosses),
    h("td", null, progress(job.progress)),
    h("td", { class: "n" }, age(job.created)),
    h("td", { class: "w soft" }, job.reason || ""))));
}

// -- one job -----------------------------------------------------------------------------------

const chosen = { rank: null, colour: "state" };

function showJob(namespace, name) {
  where.textContent = `${namespace}/${name}`;
  chosen.rank = null;
  main.replaceChildren(h("p", { class: "soft" }, "waiting for the job …"));
  listen(`api/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, (news) => {
    if (news.gone) main.replaceChildren(h("p", null, `There is no job ${namespace}/${name} (any more). `, h("a", { href: "#/" }, "All jobs")));
    else drawJob(news.job);
  });
}

function drawJob(job) {
  const scrolled = [...main.querySelectorAll(".scroll, pre")].map((box) => box.scrollTop);
  main.replaceChildren(facts(job), ranks(job), rounds(job), h("div", { class: "two" }, failure(job), conditions(job)));
  [...main.querySelectorAll(".scroll, pre")].forEach((box, i) => { box.scrollTop = scrolled[i] ?? 0; });
}

function kept(keep) {
  const held = bytes(keep.bytes ?? 0);
  if ((keep.step ?? null) === null) return `${held}, no step committed`;
  const since = keep.committedTime ? `, ${age(keep.committedTime)} ago` : "";
  const took = (keep.copyMilliseconds ?? null) === null ? "" : `, copied in ${seconds(keep.copyMilliseconds / 1000)}`;
  const skipped = keep.skipped ? `, ${keep.skipped} skipped` : "";
  return `${held}, step ${keep.step} on ${many((keep.copies ?? 0) + 1, "node")}${since}${took}${skipped}${keep.degraded ? `: ${keep.degraded}` : ""}`;
}

function persisted(keep) {
  const none = (keep.persistedStep ?? null) === null;
  const step = none ? "no step" : `step ${keep.persistedStep}${keep.persistedTime ? `, ${age(keep.persistedTime)} ago` : ""}`;
  return `${step}${keep.persistError ? `: ${keep.persistError}` : ""}`;
}

function facts(job) {
  const told = [["Phase", phase(job.phase)], ["Nodes", `${job.nodes[0]} of ${job.nodes[1]}`], ["Workers", job.worldSize],
    ["Round", job.round], ["Restarts", job.restarts], ["Nodes lost", job.nodeLosses], ["Age", age(job.created)], ["Progress", progress(job.progress)]];
  if (job.progress?.total) told.push(["Step", `${job.progress.step} of ${job.progress.total}`]);
  Object.entries(job.progress?.metrics ?? {}).forEach(([name, value]) => told.push([name, value]));
  if (job.keep) told.push(["Kept in memory", kept(job.keep)]);
  if (job.keep?.persistTo) told.push([`Kept in ${job.keep.persistTo}`, persisted(job.keep)]);
  const why = job.message || job.reason;
  return h("section", { class: "card" }, h("dl", { class: "facts" }, told.map(([title, value]) => h("div", null, h("dt", null, title), h("dd", null, value)))),
    why ? h("p", { class: "detail" }, why) : null);
}

function cells(job) {
  const found = [];
  for (const node of job.ranks) {
    [...node.letters].forEach((letter, i) => found.push({ node, i, letter, rank: node.first === null ? null : node.first + i,
      cpu: node.cpu[i] ?? null, memory: node.memory[i] ?? null, pid: node.pids[i] || null }));
  }
  return found;
}

function started(start) {
  if (!start) return "";
  const how = `started ${start.kind.toLowerCase()}${start.reason ? ` (${start.reason})` : ""}`;
  const first = start.firstOutputMilliseconds ?? null;
  return first === null ? how : `${how}, first output of the node after ${seconds(first / 1000)}`;
}

function shade(cell, most) {
  if (chosen.colour === "state") return {};
  const value = cell[chosen.colour];
  if (value === null) return { background: "var(--none)" };
  const share = most > 0 ? value / most : 0;
  return { background: `color-mix(in oklab, #f0c419 ${Math.round(share * 100)}%, #2b4c8c)`, color: "#fff" };
}

function ranks(job) {
  const all = cells(job);
  const most = Math.max(1e-9, ...all.map((cell) => cell[chosen.colour] ?? 0).filter((value) => typeof value === "number"));
  const detail = h("p", { class: "detail soft", id: "rank", "aria-live": "polite" }, "Point at a rank.");
  const tell = (cell) => {
    detail.classList.remove("soft");
    detail.textContent = [cell.rank === null ? `worker ${cell.i}` : `rank ${cell.rank}`, WORDS[cell.letter] ?? cell.letter, `pod ${cell.node.pod}`,
      cell.node.node && `node ${cell.node.node}`, cell.pid && `pid ${cell.pid}`, cell.cpu !== null && `cpu ${cell.cpu.toFixed(0)} %`,
      cell.memory !== null && `memory ${bytes(cell.memory)}`, started(cell.node.start), cell.node.state && `node is ${cell.node.state}`, cell.node.reason].filter(Boolean).join(" · ");
  };
  const boxes = all.map((cell) => h("div", { class: `cell ${WORDS[cell.letter] ? cell.letter : "U"} ${cell.i === 0 ? "first" : ""}`, style: shade(cell, most) },
    all.length > MANY ? null : chosen.colour === "state" ? cell.letter : ""));
  const map = h("div", { class: `map ${all.length > MANY ? "many" : ""}`, id: "map", tabindex: "0", role: "img",
    "aria-label": `${all.length} ranks; arrow keys go through them` }, boxes);
  const choose = (i) => {
    boxes[chosen.rank]?.classList.remove("on");
    chosen.rank = Math.max(0, Math.min(all.length - 1, i));
    boxes[chosen.rank]?.classList.add("on");
    if (all[chosen.rank]) tell(all[chosen.rank]);
  };
  map.addEventListener("mouseover", (event) => { const i = boxes.indexOf(event.target); if (i >= 0) choose(i); });
  map.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (step) { event.preventDefault(); choose((chosen.rank ?? -step) + step); }
  });
  if (chosen.rank !== null) choose(chosen.rank);
  const counts = {};
  all.forEach((cell) => { counts[cell.letter] = (counts[cell.letter] ?? 0) + 1; });
  const colour = h("select", { "aria-label": "colour by", id: "colour", on: { change: (event) => { chosen.colour = event.target.value; drawJob(job); } } },
    h("option", { value: "state" }, "colour by state"), h("option", { value: "cpu" }, "colour by cpu"), h("option", { value: "memory" }, "colour by memory"));
  colour.value = chosen.colour;
  const legend = chosen.colour === "state"
    ? Object.entries(WORDS).filter(([letter]) => counts[letter]).map(([letter, word]) => h("span", null, h("i", { class: letter }), `${counts[letter]} ${word}`))
    : [h("span", null, `0 (blue) to ${chosen.colour === "cpu" ? `${most.toFixed(0)} %` : bytes(most)} (yellow)`)];
  return card(`${many(all.length, "rank")} on ${many(job.ranks.length, "node")}`, h("div", { class: "tools" }, colour, h("div", { class: "legend" }, legend)),
    h("div", { class: "scroll" }, map), detail, job.truncated ? h("p", { class: "soft" }, "Not all nodes are shown: the status is cut at its limit.") : null);
}

function rounds(job) {
  const all = job.rounds;
  if (!all.length) return card("Rounds", h("p", { class: "soft" }, "No round yet."));
  const begin = Math.min(...all.map((r) => r.opened ?? r.active).filter((t) => t !== null));
  const end = Math.max(now(), begin + 1);
  const lastEnd = all[all.length - 1].ended;
  const until = lastEnd ?? end;
  const x = (moment) => ((moment - begin) / Math.max(1e-6, until - begin)) * 1000;
  const bars = all.flatMap((r) => {
    const close = r.ended ?? until;
    const title = `round ${r.round}: ${r.cause}${r.detail ? `, ${r.detail}` : ""}`;
    const bar = (from, to, kind) => svg("rect", { x: x(from), width: Math.max(1.5, x(to) - x(from)), y: 8, height: 40, class: kind }, svg("title", null, title));
    const opened = r.opened ?? r.active;
    const forming = r.active === null ? bar(opened, close, "rect-forming") : r.active > opened ? bar(opened, r.active, "rect-forming") : null;
    return [r.active === null ? null : bar(r.active, close, "rect-active"), forming, r.end === "failed" ? bar(close, close, "rect-bad") : null];
  });
  const chart = svg("svg", { viewBox: "0 0 1000 64", preserveAspectRatio: "none", role: "img", "aria-label": `${all.length} rounds over time`, id: "rounds" },
    svg("line", { x1: 0, x2: 1000, y1: 56, y2: 56, class: "axis" }), bars);
  const rows = [...all].reverse().map((r) => h("tr", null,
    h("td", { class: "n" }, r.round), h("td", { class: "k" }, r.cause), h("td", { class: "w" }, r.detail || (r.cause === "First" ? "the job began" : "")),
    h("td", { class: "n" }, clock(r.active ?? r.opened)), h("td", { class: "n" }, r.nodes || "–"), h("td", { class: "n" }, r.workers || "–"),
    h("td", { class: "n" }, took(r)), h("td", { class: "n" }, r.active === null ? "–" : seconds((r.ended ?? until) - r.active)),
    h("td", { class: r.end === "failed" ? "bad" : "soft" }, r.end === "forming" ? "next round" : r.end)));
  const head = ["Round", "Cause", "What happened", "At", "Nodes", "Workers", "To come about", "Lasted", "Then"];
  return card(`Rounds: ${clock(begin)} to ${lastEnd === null ? "now" : clock(lastEnd)}`, chart, h("div", { class: "legend" },
    h("span", null, h("i", { class: "R" }), "active"), h("span", null, h("i", { class: "S" }), "forming")),
    h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, head.map((t, i) => h("th", { class: i === 0 || (i > 2 && i < 8) ? "n" : "" }, t)))), h("tbody", null, rows))));
}

function took(round) {
  const steps = Object.entries(round.steps);
  if (!steps.length) return round.opened !== null && round.active !== null ? seconds(round.active - round.opened) : "–";
  const sum = steps.reduce((total, [, value]) => total + value, 0);
  return h("span", { title: steps.map(([name, value]) => `${name} ${seconds(value)}`).join(", ") }, seconds(sum));
}

function failure(job) {
  const last = job.failure;
  if (!last && !job.failures.length) return card("Last failure", h("p", { class: "soft" }, "None."));
  const at = last ? Date.parse(last.time) / 1000 : NaN;
  const when = Number.isNaN(at) ? last?.time : `${clock(at)}, ${age(at)} ago`;
  const told = last ? [["When", when], ["Round", last.round], ["Rank", last.rank], ["Pod", last.podName], ["Node", last.nodeName],
    ["Exit code", last.exitCode], ["Signal", last.signal], ["Reason", last.reason]].filter(([, value]) => value !== "") : [];
  const root = job.failures[0];
  const others = job.failures.slice(1);
  return card("Last failure", h("dl", { class: "facts" }, told.map(([title, value]) => h("div", null, h("dt", null, title), h("dd", null, value)))),
    h("p", { class: "detail bad" }, last?.message || root?.message || ""),
    root?.tail ? [h("h2", null, `The end of what rank ${root.rank} wrote`), h("pre", { id: "tail" }, root.tail)] : null,
    others.length ? h("p", { class: "soft" }, `With it: ${others.map((f) => `rank ${f.rank} (${f.signal || `exit ${f.exitCode}`}${f.late ? ", late" : ""})`).join(", ")}`) : null);
}

function conditions(job) {
  return card("Conditions", h("div", { class: "scroll" }, h("table", null, h("tbody", null, job.conditions.map((c) => h("tr", null,
    h("td", null, c.type), h("td", { class: "k" }, c.status), h("td", null, c.reason), h("td", { class: "w soft" }, c.message)))))));
}

// -- streams -----------------------------------------------------------------------------------

function listen(path, take) {
  source?.close();
  const mine = source = new EventSource(path);
  const say = (text, lost) => { link.textContent = text; link.className = lost ? "lost" : ""; };
  say("connecting …", false);
  mine.onmessage = (event) => { if (mine === source) { say("live", false); take(JSON.parse(event.data)); } };
  mine.onerror = () => {
    if (mine !== source) return;
    say("no connection: what you see is old; trying again", true);
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (mine === source) listen(path, take); }, 3000);
  };
}

function route() {
  const [namespace, name] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  if (namespace && name) showJob(namespace, name);
  else showList();
}

addEventListener("hashchange", route);
route();
