// The page of the agent: asks for /page/json each second and shows it. Invariant: what the agent sends becomes text, never markup.

const POLL_MS = 1000;
const ANSWER_MS = 20000; // the agent answers within 15 s, or says why it does not
const MOST_ROWS = 50; // of topics; the others come with the filter, or with "show all"
const TIMELINE_S = 3600;
const SVG = "http://www.w3.org/2000/svg";

const COLUMNS = [
  ["topic", "Topic", text, "Topics"],
  ["new", "New", count, "Wait until the partitions of their topic are known"],
  ["batch", "Batch", count, "In a batch that may still grow"],
  ["waiting", "Waiting", count, "In a batch that waits for its turn or for a broker"],
  ["in_flight", "In flight", count, "Sent; the broker has not responded yet"],
  ["spooled", "On disk", count, "Only on disk"],
  ["oldest_s", "Oldest", duration, "Age of the oldest message in memory"],
  ["accepted", "Accepted", count, "Since the start"],
  ["acknowledged", "Acknowledged", count, "Since the start"],
  ["discarded", "Discarded", count, "Since the start"],
];
const REASONS = {
  BAD_TOPIC: "the topic is unknown, or its name illegal",
  LONG_MSG: "larger than the topic allows",
  NO_MEM: "the memory of the agent was full",
  RATE_LIMIT: "more than the topic's rate limit",
  NO_AVAILABLE_PARTITIONS: "no partition was available",
  TOPIC_AUTOCREATE_FAIL: "the topic could not be created",
  DELIVERY_ATTEMPT_LIMIT: "too many failed attempts",
  KAFKA_ERROR_ACK: "a broker refused it",
  SERVER_SHUTDOWN: "the agent ended",
  BUG: "a bug in the agent",
  TIMED_OUT: "not delivered in time",
  NOT_AUTHORIZED: "the agent may not write to the topic",
  SPOOL_FULL: "the spool was full",
  SPOOL_FAILED: "the disk refused it",
  SPOOL_DAMAGED: "damaged on disk",
  MALFORMED: "malformed",
  API_KEY: "unknown API key",
  VERSION: "unknown version",
  UNCLEAN_U: "a UNIX stream ended inside a message",
  UNCLEAN_T: "a TCP connection ended inside a message",
};
const KINDS = { unix_datagram: "UNIX datagram", unix_stream: "UNIX stream", tcp: "TCP" };

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const sorting = { column: "", down: true }; // "": by all messages that wait, wherever they are
let everyTopic = false;
let data = null; // the last answer
let answeredAt = null; // when it arrived

// ---------------------------------------------------------------- words

// Clients choose names: characters that cannot be seen, or that turn the direction of the text, are shown as \u{202e}.
function text(value) {
  return value === "" ? "(other topics)" : value.replace(/\p{C}/gu, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
}

function count(value) {
  return whole.format(value);
}

function rate(value) {
  return whole.format(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return "< 1 s";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

function moment(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? String(seconds) : (Math.abs(Date.now() / 1000 - seconds) < 72000 ? clock : day).format(date);
}

// ---------------------------------------------------------------- elements

const byId = (id) => document.getElementById(id);

function put(target, value) {
  const element = typeof target === "string" ? byId(target) : target;
  if (element.textContent !== value) element.textContent = value;
}

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// Rows are kept and changed, so that focus, selection and the position of the scroll bar stay. A cell is [text, classes, small text].
function rows(id, items) {
  const body = byId(id).tBodies[0];
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  let place = body.firstElementChild;
  for (const { key, cells } of items) {
    const row = old.get(key) ?? make("tr", { "data-key": key }, ...cells.map((_, at) => make(at ? "td" : "th", at ? {} : { scope: "row" })));
    old.delete(key);
    cells.forEach(([value, classes = "", more = ""], at) => fill(row.cells[at], value, classes, more));
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
  for (const row of old.values()) row.remove();
  byId(id).hidden = items.length === 0;
  byId(id).parentElement.hidden = items.length === 0; // the region that scrolls
}

function fill(cell, value, classes, more) {
  const shown = `${value}\n${more}`;
  if (cell.className !== classes) cell.className = classes;
  if (cell.shown === shown) return;
  cell.shown = shown;
  cell.replaceChildren(value, ...(more ? [make("small", {}, more)] : []));
}

function figures(id, items) {
  const list = byId(id);
  if (list.children.length !== items.length) {
    list.replaceChildren(...items.map(([name, , classes]) => make("div", { class: classes }, make("dt", {}, name), make("dd"))));
  }
  items.forEach(([, value], at) => put(list.children[at].lastElementChild, value));
}

// ---------------------------------------------------------------- sections

function showHeadline({ headline, at }) {
  const section = byId("headline");
  section.className = `headline ${headline.level}`;
  put("headline-text", headline.text);
  const details = byId("headline-details");
  if (details.textContent !== headline.details.join("")) details.replaceChildren(...headline.details.map((line) => make("p", {}, line)));
  put("headline-since", headline.since === null ? "" : `since ${moment(headline.since)}, for ${duration(at - headline.since)}`);
  document.title = headline.level === "ok" ? "pykafka4 agent" : `${headline.text} – pykafka4 agent`;
}

function showFacts({ version, pid, since, now }) {
  put("facts", `version ${version}, process ${pid}, runs for ${duration(now - since)}`);
}

function showRates({ rates }) {
  put("rate-accepted", rate(rates.now.accepted));
  put("rate-acknowledged", rate(rates.now.acknowledged));
  const top = Math.max(1, ...rates.accepted, ...rates.acknowledged);
  const first = rates.accepted.findIndex((value) => value !== null);
  const left = first < 0 ? 0 : Math.min(first, rates.accepted.length - 13); // a young agent: the time since its start, at least a minute
  const width = 600 / (rates.accepted.length - 1 - left);
  const place = (value, at) => `${((at - left) * width).toFixed(1)},${(95 - (value / top) * 90).toFixed(1)}`;
  const line = (values) => values.map((value, at) => (value === null ? "" : place(value, at))).filter(Boolean).join(" ");
  const accepted = line(rates.accepted);
  const svg = byId("curve");
  const area = first < 0 ? "" : `${((first - left) * width).toFixed(1)},95 ${accepted} 600,95`;
  svg.replaceChildren(
    shape("polygon", { class: "area", points: area }),
    shape("polyline", { class: "a", points: accepted }),
    shape("polyline", { class: "k", points: line(rates.acknowledged) }),
  );
  put("curve-begin", `${duration((rates.accepted.length - left) * rates.step_s).replace(" 0 s", "")} ago`);
  put("curve-top", first < 0 ? "" : `highest ${rate(top)} /s`);
  svg.setAttribute("aria-label", `Messages per second in the last ten minutes; at most ${rate(top)}, now ${rate(rates.now.accepted)} accepted and ${rate(rates.now.acknowledged)} acknowledged`);
}

function showBalance({ balance, spool }) {
  put("balance-accepted", count(balance.accepted));
  const parts = [
    ["acknowledged", balance.acknowledged, "acknowledged"],
    ["in memory", balance.queued, "memory"],
    ...(spool || balance.spooled ? [["on disk", balance.spooled, "disk"]] : []),
    ["discarded", balance.discarded, "discarded"],
  ];
  const widths = parts.map(([, value]) => (value > 0 ? Math.max(2, (value / balance.accepted) * 600) : 0)); // a little is seen, too
  widths[0] = Math.max(0, 600 - widths.slice(1).reduce((sum, width) => sum + width, 0));
  let left = 0;
  byId("balance-bar").replaceChildren(
    ...(balance.accepted ? parts : []).map(([, , classes], at) => {
      const width = widths[at];
      const bar = shape("rect", { class: classes, x: left, y: 0, width, height: 14 });
      left += width;
      return bar;
    }),
  );
  const oldest = ["oldest in memory", balance.oldest_s === null ? "–" : duration(balance.oldest_s)];
  const { memory } = balance;
  const used = ["memory in use", memory.max_size ? `${Math.round((memory.bytes / memory.max_size) * 100)} % of ${bytes(memory.max_size)}` : bytes(memory.bytes)];
  figures("parts", [...parts.map(([name, value, classes]) => [name, count(value), classes]), oldest, used]);
  const notes = [];
  if (balance.restored) notes.push(`${count(balance.restored)} came from the disk of an earlier process.`);
  if (balance.possible_duplicates) notes.push(`${count(balance.possible_duplicates)} may be in Kafka twice.`);
  put("balance-note", notes.join(" "));
}

function showTopics({ topics }) {
  const at = topics.columns.indexOf(sorting.column);
  const wanted = byId("topics-filter").value.trim().toLowerCase();
  const found = topics.rows.filter((row) => row[0].toLowerCase().includes(wanted));
  const value = (row) => (sorting.column === "" ? row[1] + row[2] + row[3] + row[4] + row[5] : row[at] ?? -1);
  found.sort((a, b) => {
    const order = at === 0 ? a[0].localeCompare(b[0]) : value(a) - value(b);
    return (sorting.down ? -order : order) || a[0].localeCompare(b[0]);
  });
  const shown = everyTopic ? found : found.slice(0, MOST_ROWS);
  const places = COLUMNS.map(([name]) => topics.columns.indexOf(name));
  rows("topics", shown.map((row) => ({
    key: row[0],
    cells: COLUMNS.map(([name, , word], column) => {
      const value = row[places[column]];
      return column === 0 ? [word(value)] : [word(value), `n${value ? (name === "discarded" ? " bad" : "") : " zero"}`];
    }),
  })));
  put("topics-count", `${count(topics.count)}${sorting.column || topics.count < 2 ? "" : ", those with most messages waiting first"}`);
  const rest = found.length - shown.length;
  const unsent = topics.count - topics.rows.length;
  const notes = [];
  if (!topics.count) notes.push("No message has arrived yet.");
  else if (!found.length) notes.push("No topic has this in its name.");
  if (rest > 0) notes.push(`${count(rest)} more.`);
  if (unsent > 0) notes.push(`${unsent === 1 ? "1 topic with fewer messages is" : `${count(unsent)} topics with fewer messages are`} only in /account/json.`);
  put("topics-rest", notes.join(" "));
  const all = byId("topics-all");
  all.hidden = !(rest > 0 || (everyTopic && found.length > MOST_ROWS));
  put(all, everyTopic ? "Show fewer" : "Show all");
}

function showDiscards({ discards, refused }) {
  rows("discards", discards.rows.map((row) => ({
    key: `${row.reason} ${row.topic}`,
    cells: [
      [text(row.topic), "", REASONS[row.reason] ?? row.reason], [count(row.count), "n bad"],
      [row.first_ms === null ? "" : moment(row.first_ms / 1000), "n"], [row.last_ms === null ? "" : moment(row.last_ms / 1000), "n"],
    ],
  })));
  const total = Object.values(discards.by_reason).reduce((sum, value) => sum + value, 0);
  put("discards-count", total ? `${count(total)}` : "");
  const kinds = Object.entries(refused).map(([reason, value]) => `${count(value)} ${REASONS[reason] ?? reason}`);
  const notes = [];
  if (!discards.rows.length) notes.push("None.");
  if (discards.count > discards.rows.length) notes.push(`${count(discards.count - discards.rows.length)} more rows are in /account/json.`);
  if (kinds.length) notes.push(`Refused, because they are no messages: ${kinds.join(", ")}.`);
  put("discards-note", notes.join(" "));
}

function showOutages({ outages, at, since }) {
  rows("outages", outages.rows.map((row) => {
    const lasted = duration((row.ended_at ?? at) - row.started_at);
    return {
      key: `${row.subject} ${row.started_at}`,
      cells: [[row.subject, row.ended_at === null ? "bad" : "", row.reason], [moment(row.started_at), "n"], [lasted, "n", row.ended_at === null ? "goes on" : ""]],
    };
  }));
  const going = outages.rows.filter((row) => row.ended_at === null).length;
  put("outages-count", going ? `${count(going)} now` : "");
  put("outages-note", outages.rows.length ? (outages.count > outages.rows.length ? `${count(outages.count - outages.rows.length)} older ones are left out.` : "") : "None since the start.");
  const length = Math.min(TIMELINE_S, Math.max(at - since, 60));
  const begin = at - length;
  const place = (time) => ((Math.max(time, begin) - begin) / length) * 600;
  const visible = outages.rows.filter((row) => (row.ended_at ?? at) >= begin);
  visible.sort((a, b) => (a.subject === "cluster") - (b.subject === "cluster"));
  byId("timeline").replaceChildren(...visible.map((row) => {
    const whole = row.subject === "cluster";
    const left = place(row.started_at);
    const width = Math.max(2, place(row.ended_at ?? at) - left);
    return shape("rect", { class: whole ? "whole" : "part", x: left, y: whole ? 0 : 12, width, height: whole ? 24 : 12 });
  }));
  byId("timeline-axis").replaceChildren(make("span", {}, length === TIMELINE_S ? "1 h ago" : `${duration(length)} ago`), make("span", {}, "now"));
}

function showInputs({ inputs }) {
  rows("inputs", inputs.map((row) => ({
    key: row.kind,
    cells: [
      [KINDS[row.kind] ?? row.kind, row.open ? "" : "bad", row.open ? row.address : `${row.address}, closed`], [row.clients === null ? "–" : count(row.clients), "n"],
      [count(row.messages), "n"], [bytes(row.bytes), "n"], [count(row.refused), row.refused ? "n bad" : "n zero"],
    ],
  })));
  put("inputs-note", inputs.length ? "" : "No input is open.");
}

function showBrokers({ brokers }) {
  rows("brokers", brokers.rows.map((row) => {
    const state = row.error ?? (row.throttled_ms ? `throttles the agent for ${duration(row.throttled_ms / 1000)}` : row.state);
    const name = row.node === null || row.node < 0 ? "bootstrap" : String(row.node);
    return { key: `${name} ${row.address}`, cells: [[name, "", row.address], [state, row.error ? "bad" : "good"], [count(row.in_flight), "n"]] };
  }));
  put("brokers-count", brokers.count ? count(brokers.count) : "");
  put("brokers-note", brokers.count ? "" : "None is known yet. ");
}

function showPartitions({ partitions, at }) {
  rows("partitions", partitions.offline.map((row) => ({
    key: row.name,
    cells: [[row.name, "bad", row.reason], [count(row.waiting), "n"], [row.since === null ? "" : duration(at - row.since), "n"]],
  })));
  const { offline, offline_count: down, online_count: up } = partitions;
  put("partitions-count", `${count(up)} online${down ? `, ${count(down)} offline` : ""}`);
  put("partitions-note", down ? (down > offline.length ? `${count(down - offline.length)} more are offline.` : "") : "None is offline.");
}

function showSpool({ spool, at }) {
  byId("spool-bar").toggleAttribute("hidden", !spool);
  if (!spool) {
    put("spool-note", "There is no spool: messages that the cluster cannot take wait in memory only. [spool] in the configuration keeps them on disk.");
    return;
  }
  const width = Math.min(1, spool.bytes / spool.max_size) * 600;
  byId("spool-bar").replaceChildren(shape("rect", { class: width > 480 ? "discarded" : "disk", x: 0, y: 0, width, height: 14 }));
  figures("spool", [
    ["messages", count(spool.messages)],
    ["bytes", bytes(spool.bytes)],
    ["at most", bytes(spool.max_size)],
    ["being replayed", count(spool.replaying)],
    ["oldest", spool.oldest_ms === null ? "–" : moment(spool.oldest_ms / 1000)],
  ]);
  const notes = [];
  if (spool.failure) notes.push(`The disk takes nothing${spool.failing_for_s === null ? "" : ` for ${duration(spool.failing_for_s)}`}: ${spool.failure}`);
  if (spool.damaged_bytes) notes.push(`${bytes(spool.damaged_bytes)} could not be read any more.`);
  if (spool.counting) notes.push("Messages of an earlier process are still being counted.");
  put("spool-note", notes.join(" "));
  byId("spool-note").classList.toggle("bad", Boolean(spool.failure));
}

const SECTIONS = [showHeadline, showFacts, showRates, showBalance, showTopics, showDiscards, showOutages, showInputs, showBrokers, showPartitions, showSpool];

// ---------------------------------------------------------------- life

function prepareTopics() {
  const head = byId("topics").tHead.rows[0];
  head.append(...COLUMNS.map(([name, title, , help]) => {
    const button = make("button", { type: "button", title: help }, title);
    const cell = make("th", { scope: "col", class: name === "topic" ? "" : "n" }, button);
    button.addEventListener("click", () => {
      sorting.down = sorting.column === name ? !sorting.down : name !== "topic";
      sorting.column = name;
      markSorting();
      if (data) showTopics(data);
    });
    cell.dataset.column = name;
    return cell;
  }));
  markSorting();
  byId("topics-filter").addEventListener("input", () => data && showTopics(data));
  byId("topics-all").addEventListener("click", () => {
    everyTopic = !everyTopic;
    showTopics(data);
  });
}

function markSorting() {
  for (const cell of byId("topics").tHead.rows[0].cells) {
    if (cell.dataset.column === sorting.column) cell.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
}

function warn(words) {
  put("banner", words);
  byId("banner").hidden = words === "";
  byId("main").classList.toggle("stale", words !== "");
}

async function poll() {
  let answer;
  try {
    answer = await fetch("/page/json", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
    if (!answer.ok) {
      warn(`The agent has no figures now (${(await answer.text()).trim()}).`);
      return;
    }
    data = await answer.json();
  } catch {
    warn(answeredAt === null ? "No answer from the agent. Trying again each second." : `No answer since ${moment(answeredAt)}. Trying again each second.`);
    return;
  }
  answeredAt = Date.now() / 1000;
  warn("");
  for (const show of SECTIONS) show(data);
  byId("main").removeAttribute("aria-busy");
}

async function pollForever() {
  for (;;) {
    await poll();
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function refresh() {
  const button = byId("refresh");
  button.disabled = true;
  try {
    const answer = await fetch("/metadata_update", { method: "POST" });
    put("refresh-said", answer.ok ? `asked at ${moment(Date.now() / 1000)}` : (await answer.text()).trim());
  } catch {
    put("refresh-said", "no answer");
  }
  button.disabled = false;
}

prepareTopics();
byId("refresh").addEventListener("click", refresh);
pollForever();
