// The status page of a client: requests /status.json every second and shows the figures. Invariant: names and errors become text, never markup.

import { byId, bytes, count, duration, figures, poll, pollForever, prepareHead, put, rate, rows, text } from "./base.js";
import { showBrokers, showCurves, showHeadline, showOutages } from "./base.js";

const FEW = 100; // rows of partitions; the filter finds the others
const MANY = 1000;

const plain = (value) => (value === null ? "–" : text(String(value)));
const number = (value) => (value === null ? "–" : count(value));
const size = (value) => (value === null ? "–" : bytes(value));
const age = (value) => (value === null ? "–" : duration(value));

// [name, title, words, help]; the state and its reason are the small text of the name's column.
const COLUMNS = {
  name: ["name", "Partition", plain, "Topic and partition"],
  state: ["state", "State", plain, "State of the partition"],
  since_s: ["since_s", "For", age, "How long the partition has been offline"],
  queued: ["queued", "Waiting", number, "Records that wait to be sent"],
  queued_bytes: ["queued_bytes", "Bytes", size, "Bytes of the records that wait"],
  oldest_s: ["oldest_s", "Oldest", age, "Age of the oldest record without an outcome"],
  in_flight: ["in_flight", "In flight", number, "Records that were sent; the broker has not responded yet"],
  position: ["position", "Position", number, "Offset of the next record"],
  lag: ["lag", "Lag", number, "Offsets between the position and the end"],
  buffered: ["buffered", "Buffered", size, "Bytes that wait for the application"],
  leader: ["leader", "Leader", plain, "Number of the broker that leads the partition"],
  fetched_from: ["fetched_from", "Fetched from", plain, "Number of the broker that records are fetched from"],
};
const COUNTS = {
  producer: [
    ["accepted", number], ["acked", number, "acknowledged"], ["queued", number, "waiting"], ["in_flight", number, "in flight"],
    ["failed", sum], ["dropped", sum], ["retries", number], ["buffered_bytes", size, "memory in use"],
  ],
  consumer: [
    ["fetched_bytes", size, "fetched"], ["buffered_bytes", size, "wait for the application"], ["partitions", number],
    ["lost_offsets", number, "offsets lost"], ["poison_records", number, "records left out"], ["held_bytes", size, "columns held"],
  ],
  "share consumer": [
    ["delivered", number], ["acknowledged", number], ["failed", number], ["dropped", number], ["in_hand", number, "in hand"], ["buffered", number],
  ],
  client: [],
};
const SERIES = { fetched_bytes: "fetched", read_bytes: "read by the application" };
const MEMBER = { group_id: "group", state: "state", generation: "generation", epoch: "epoch", member_id: "member", coordinator: "coordinator", pattern: "pattern" };

const sorting = { column: "", down: true }; // "": the worst first
let everything = false;
let headFor = "";
let data = null; // the last answer

function sum(parts) {
  return count(Object.values(parts).reduce((total, value) => total + value, 0));
}

function path() {
  const words = new URLSearchParams({ most: everything ? MANY : FEW, filter: byId("partitions-filter").value.trim() });
  if (sorting.column) {
    words.set("sort", sorting.column);
    words.set("order", sorting.down ? "desc" : "asc");
  }
  return `/status.json?${words}`;
}

// ---------------------------------------------------------------- sections

function showFacts({ kind, client_id, program, version, pid, at, since }) {
  put("name", `${kind} ${text(client_id)}`);
  put("facts", `pykafka4 ${version}, ${text(program)}, process ${pid}, page open for ${duration(at - since)}`);
}

function showRates({ rates }) {
  byId("throughput").hidden = rates.names.length === 0;
  if (!rates.names.length) return;
  const [first, second] = rates.names;
  const say = (value) => (first.endsWith("bytes") ? `${bytes(value)}/s` : `${rate(value)} /s`);
  const names = rates.names.map((name) => SERIES[name] ?? name);
  put("first-name", names[0]);
  put("second-name", names[1]);
  put("first-rate", say(rates.now[first]));
  put("second-rate", say(rates.now[second]));
  const top = showCurves([rates[first], rates[second]], rates.step_s, say);
  byId("curve").setAttribute("aria-label", `Rates of the last ten minutes; at most ${say(top)}, now ${say(rates.now[first])} ${names[0]} and ${say(rates.now[second])} ${names[1]}`);
}

function showCounts({ kind, stats, member, cluster }) {
  const found = COUNTS[kind].filter(([name]) => name in stats).map(([name, word, title]) => [title ?? name, word(stats[name])]);
  const { metadata } = cluster;
  found.push(["metadata, age", metadata.age === null ? "–" : duration(metadata.age)]);
  figures("counts", found);
  byId("member-section").hidden = member === null;
  if (member === null) return;
  figures("member", Object.entries(MEMBER).filter(([name]) => member[name] !== undefined && member[name] !== null).map(([name, title]) => [title, plain(member[name])]));
}

function showPartitions({ partitions }) {
  const shown = partitions.columns.filter((name) => name in COLUMNS).map((name) => COLUMNS[name]);
  const key = shown.map(([name]) => name).join();
  if (headFor !== key) {
    headFor = key;
    byId("partitions").tBodies[0].replaceChildren();
    prepareHead("partitions", shown, sorting, ask);
  }
  const at = Object.fromEntries(partitions.columns.map((name, place) => [name, place]));
  rows("partitions", partitions.rows.map((row) => {
    const bad = ["offline", "stopped"].includes(row[at.state]);
    const last = row[at.last_error] ?? null; // rows of consumers have no last error
    const why = row[at.reason] ?? (last === null ? "" : `last error: ${last}`);
    return {
      key: row[at.name],
      cells: shown.map(([name, , word]) => {
        const value = row[at[name]];
        if (name === "name") return [word(value), bad ? "bad" : "", text(why)];
        if (name === "state") return [word(value), `n${bad ? " bad" : ""}`];
        return [word(value), `n${value ? "" : " zero"}`];
      }),
    };
  }));
  const sorted = sorting.column || partitions.count < 2 ? "" : ", the worst first";
  put("partitions-count", `${count(partitions.count)}${partitions.offline ? `, ${count(partitions.offline)} offline` : ""}${sorted}`);
  const rest = partitions.found - partitions.rows.length;
  const notes = [];
  if (!partitions.count) notes.push(data.kind === "client" ? "No partition is offline." : "No partition is in use.");
  else if (!partitions.found) notes.push("No partition matches the filter.");
  if (rest > 0) notes.push(`${count(rest)} more${everything ? "; the filter finds them" : ""}.`);
  put("partitions-rest", notes.join(" "));
  const all = byId("partitions-all");
  all.hidden = !((rest > 0 && !everything) || (everything && partitions.rows.length > FEW));
  put(all, everything ? "Show fewer" : `Show up to ${count(MANY)}`);
}

function showUsers({ kind, users }) {
  byId("users-section").hidden = kind !== "client";
  rows("users", users.map((user, at) => ({ key: String(at), cells: [[user.kind], [plain(user.group)]] })));
  put("users-note", users.length ? "" : "None.");
}

const SECTIONS = [
  (found) => showHeadline(found, `${found.kind} ${text(found.client_id)}`), showFacts, showRates, showCounts, showPartitions,
  (found) => showBrokers(found, "this client"), showOutages, showUsers,
];

function show(found) {
  data = found;
  for (const section of SECTIONS) section(found);
}

function ask() {
  poll(path, "client", show);
}

byId("partitions-filter").addEventListener("input", ask);
byId("partitions-all").addEventListener("click", () => {
  everything = !everything;
  ask();
});
pollForever(path, "client", show);
