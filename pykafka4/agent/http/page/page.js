// The page of the agent: requests /page/json every second and shows the figures. Invariant: names and errors become text, never markup.

import { byId, bytes, count, duration, figures, moment, pollForever, prepareHead, put, rate, rows, shape } from "./base.js";
import { showBrokers, showCurves, showHeadline, showOutages, text } from "./base.js";

const MOST_ROWS = 50; // topics in the table at first; the filter or "Show all" shows the others
const COLUMNS = [
  ["topic", "Topic", topicName, "Topics"],
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
  BAD_TOPIC: "the topic is unknown, or its name is illegal",
  LONG_MSG: "larger than the agent or the topic allows",
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

const sorting = { column: "", down: true }; // "": by the number of messages that wait, in memory or on disk
let everyTopic = false;
let data = null; // the last answer

function topicName(value) {
  return value === "" ? "(other topics)" : text(value);
}

// ---------------------------------------------------------------- sections

function showFacts({ version, pid, since, now }) {
  put("facts", `version ${version}, process ${pid}, running for ${duration(now - since)}`);
}

function showRates({ rates }) {
  put("rate-accepted", rate(rates.now.accepted));
  put("rate-acknowledged", rate(rates.now.acknowledged));
  const top = showCurves([rates.accepted, rates.acknowledged], rates.step_s, (value) => `${rate(value)} /s`);
  byId("curve").setAttribute("aria-label", `Messages per second in the last ten minutes; at most ${rate(top)}, now ${rate(rates.now.accepted)} accepted and ${rate(rates.now.acknowledged)} acknowledged`);
}

function showBalance({ balance, spool }) {
  put("balance-accepted", count(balance.accepted));
  const parts = [
    ["acknowledged", balance.acknowledged, "acknowledged"],
    ["in memory", balance.queued, "memory"],
    ...(spool || balance.spooled ? [["on disk", balance.spooled, "disk"]] : []),
    ["discarded", balance.discarded, "discarded"],
  ];
  const widths = parts.map(([, value]) => (value > 0 ? Math.max(2, (value / balance.accepted) * 600) : 0)); // small parts stay visible
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
  if (balance.restored) notes.push(`${count(balance.restored)} had been left on disk by an earlier process.`);
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
  put("topics-count", `${count(topics.count)}${sorting.column || topics.count < 2 ? "" : ", those with the most waiting messages first"}`);
  const rest = found.length - shown.length;
  const unsent = topics.count - topics.rows.length;
  const notes = [];
  if (!topics.count) notes.push("No message has arrived yet.");
  else if (!found.length) notes.push("No topic matches the filter.");
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
      [topicName(row.topic), "", REASONS[row.reason] ?? row.reason], [count(row.count), "n bad"],
      [row.first_ms === null ? "" : moment(row.first_ms / 1000), "n"], [row.last_ms === null ? "" : moment(row.last_ms / 1000), "n"],
    ],
  })));
  const total = Object.values(discards.by_reason).reduce((sum, value) => sum + value, 0);
  put("discards-count", total ? `${count(total)}` : "");
  const kinds = Object.entries(refused).map(([reason, value]) => `${count(value)} ${REASONS[reason] ?? reason}`);
  const notes = [];
  if (!discards.rows.length) notes.push("None.");
  if (discards.count > discards.rows.length) notes.push(`${count(discards.count - discards.rows.length)} more rows are in /account/json.`);
  if (kinds.length) notes.push(`Refused, because they are not messages: ${kinds.join(", ")}.`);
  put("discards-note", notes.join(" "));
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

function showPartitions({ partitions, at }) {
  rows("partitions", partitions.offline.map((row) => ({
    key: row.name,
    cells: [[row.name, "bad", row.reason], [count(row.waiting), "n"], [row.since === null ? "" : duration(at - row.since), "n"]],
  })));
  const { offline, offline_count: down, online_count: up } = partitions;
  put("partitions-count", `${count(up)} online${down ? `, ${count(down)} offline` : ""}`);
  put("partitions-note", down ? (down > offline.length ? `${count(down - offline.length)} more are offline.` : "") : "No partition is offline.");
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
  if (spool.failure) notes.push(`The disk has been failing${spool.failing_for_s === null ? "" : ` for ${duration(spool.failing_for_s)}`}: ${spool.failure}`);
  if (spool.damaged_bytes) notes.push(`${bytes(spool.damaged_bytes)} could not be read any more.`);
  if (spool.counting) notes.push("Messages of an earlier process are still being counted.");
  put("spool-note", notes.join(" "));
  byId("spool-note").classList.toggle("bad", Boolean(spool.failure));
}

const SECTIONS = [
  (found) => showHeadline(found, "pykafka4 agent"), showFacts, showRates, showBalance, showTopics, showDiscards, showOutages, showInputs,
  (found) => showBrokers(found, "the agent"), showPartitions, showSpool,
];

// ---------------------------------------------------------------- life

function prepareTopics() {
  prepareHead("topics", COLUMNS, sorting, () => data && showTopics(data));
  byId("topics-filter").addEventListener("input", () => data && showTopics(data));
  byId("topics-all").addEventListener("click", () => {
    everyTopic = !everyTopic;
    showTopics(data);
  });
}

function showAll(found) {
  data = found;
  for (const show of SECTIONS) show(data);
}

async function refresh() {
  const button = byId("refresh");
  button.disabled = true;
  try {
    const answer = await fetch("/metadata_update", { method: "POST" });
    put("refresh-said", answer.ok ? `requested at ${moment(Date.now() / 1000)}` : (await answer.text()).trim());
  } catch {
    put("refresh-said", "no answer");
  }
  button.disabled = false;
}

prepareTopics();
byId("refresh").addEventListener("click", refresh);
pollForever(() => "/page/json", "agent", showAll);
