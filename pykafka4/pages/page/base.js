// The parts that the pages share: words, elements, rows, curves, the headline, outages, brokers and the poll.
// Invariant: text of a client becomes text, never markup.

const POLL_MS = 1000;
const ANSWER_MS = 20000; // a page answers within 15 s, or says why it does not
const TIMELINE_S = 3600;
const SVG = "http://www.w3.org/2000/svg";

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

// ---------------------------------------------------------------- words

// Other people choose the names: characters that cannot be seen, or that turn the direction of the text, are shown as escapes like \u{202e}.
function text(value) {
  return value.replace(/\p{C}/gu, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
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

// ---------------------------------------------------------------- sections that pages share

function showHeadline({ headline, at }, name) {
  const section = byId("headline");
  section.className = `headline ${headline.level}`;
  put("headline-text", headline.text);
  const details = byId("headline-details");
  if (details.textContent !== headline.details.join("")) details.replaceChildren(...headline.details.map((line) => make("p", {}, line)));
  put("headline-since", headline.since === null ? "" : `since ${moment(headline.since)}, for ${duration(at - headline.since)}`);
  document.title = headline.level === "ok" ? name : `${headline.text} – ${name}`;
}

// Two curves of the last ten minutes: [values, values]; `say` makes the words for a rate.
function showCurves([first, second], step_s, say) {
  const top = Math.max(1, ...first, ...second);
  const begin = first.findIndex((value) => value !== null);
  const left = begin < 0 ? 0 : Math.min(begin, first.length - 13); // a young process: the time since its start, at least a minute
  const width = 600 / (first.length - 1 - left);
  const place = (value, at) => `${((at - left) * width).toFixed(1)},${(95 - (value / top) * 90).toFixed(1)}`;
  const line = (values) => values.map((value, at) => (value === null ? "" : place(value, at))).filter(Boolean).join(" ");
  const points = line(first);
  const area = begin < 0 ? "" : `${((begin - left) * width).toFixed(1)},95 ${points} 600,95`;
  byId("curve").replaceChildren(
    shape("polygon", { class: "area", points: area }),
    shape("polyline", { class: "a", points }),
    shape("polyline", { class: "k", points: line(second) }),
  );
  put("curve-begin", `${duration((first.length - left) * step_s).replace(" 0 s", "")} ago`);
  put("curve-top", begin < 0 ? "" : `highest ${say(top)}`);
  return top;
}

function showOutages({ outages, at, since }) {
  rows("outages", outages.rows.map((row) => {
    const lasted = duration((row.ended_at ?? at) - row.started_at);
    return {
      key: `${row.subject} ${row.started_at}`,
      cells: [[row.subject, row.ended_at === null ? "bad" : "", row.reason], [moment(row.started_at), "n"], [lasted, "n", row.ended_at === null ? "ongoing" : ""]],
    };
  }));
  const going = outages.rows.filter((row) => row.ended_at === null).length;
  put("outages-count", going ? `${count(going)} now` : "");
  put("outages-note", outages.rows.length ? (outages.count > outages.rows.length ? `${count(outages.count - outages.rows.length)} older outages are left out.` : "") : "None since the start.");
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

function showBrokers({ brokers }, whom) {
  rows("brokers", brokers.rows.map((row) => {
    const state = row.error ?? (row.throttled_ms ? `throttles ${whom} for ${duration(row.throttled_ms / 1000)}` : row.state);
    const name = row.node === null || row.node < 0 ? "bootstrap" : String(row.node);
    return { key: `${name} ${row.address}`, cells: [[name, "", row.address], [state, row.error ? "bad" : "good"], [count(row.in_flight), "n"]] };
  }));
  put("brokers-count", brokers.count ? count(brokers.count) : "");
  put("brokers-note", brokers.count ? "" : "No broker is known yet. ");
}

// ---------------------------------------------------------------- columns that can be sorted

// `sorting` is { column, down }: a column's name, or "" for the order that the page chooses. A column is [name, title, words, help].
function prepareHead(id, columns, sorting, show) {
  const head = byId(id).tHead.rows[0];
  head.replaceChildren(...columns.map(([name, title, , help], at) => {
    const button = make("button", { type: "button", title: help }, title);
    const cell = make("th", { scope: "col", class: at ? "n" : "" }, button);
    button.addEventListener("click", () => {
      sorting.down = sorting.column === name ? !sorting.down : at > 0;
      sorting.column = name;
      markSorting(id, sorting);
      show();
    });
    cell.dataset.column = name;
    return cell;
  }));
  markSorting(id, sorting);
}

function markSorting(id, sorting) {
  for (const cell of byId(id).tHead.rows[0].cells) {
    if (cell.dataset.column === sorting.column) cell.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
}

// ---------------------------------------------------------------- life

function warn(words) {
  put("banner", words);
  byId("banner").hidden = words === "";
  byId("main").classList.toggle("stale", words !== "");
}

let answeredAt = null; // when the last answer arrived

// Asks for `path()` once, and shows the answer. `whom` is the name of the process in messages.
async function poll(path, whom, show) {
  let data;
  try {
    const answer = await fetch(path(), { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
    if (!answer.ok) {
      warn(`The ${whom} has no figures now (${(await answer.text()).trim()}).`);
      return;
    }
    data = await answer.json();
  } catch {
    warn(answeredAt === null ? `No answer from the ${whom}. Trying again every second.` : `No answer since ${moment(answeredAt)}. Trying again every second.`);
    return;
  }
  answeredAt = Date.now() / 1000;
  warn("");
  show(data);
  byId("main").removeAttribute("aria-busy");
}

async function pollForever(path, whom, show) {
  for (;;) {
    await poll(path, whom, show);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

export { byId, bytes, count, duration, figures, make, moment, poll, pollForever, prepareHead, put, rate, rows, shape };
export { showBrokers, showCurves, showHeadline, showOutages, text };
