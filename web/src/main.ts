// The page of a run: listens to the server, and shows each message.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Chart } from "./chart";
import { Flows } from "./flows";
import { count, percent, rate, time } from "./format";
import { byId, write } from "./page-parts";
import { Reload } from "./reload";
import { Table, type Cell } from "./table";
import { Trace } from "./trace";
import type { Point, View } from "./view";

/** Points that are kept: as many as the server keeps. */
const POINTS = 600;

/** A section with a table; it is shown from the first row on. */
class Part {
  private readonly table: Table;

  constructor(private readonly id: string, caption: string, columns: string[], words: number[]) {
    this.table = new Table(byId(id), caption, columns, words);
  }

  fill(rows: Cell[][]): void {
    byId(this.id).hidden = rows.length === 0;
    this.table.fill(rows);
  }
}

const parts = {
  verdicts: new Part("verdicts", "Packets by verdict", ["Verdict", "Packets/s", "Share", "In the run"], [0]),
  interfaces: new Part(
    "interfaces",
    "What each interface receives, sends and loses",
    ["Interface", "In, packets/s", "In, bit/s", "Out, packets/s", "Out, bit/s", "Lost/s", "Lost in the run", "Most for"],
    [0],
  ),
  drops: new Part("drops", "Dropped packets by reason", ["Reason", "By", "Packets/s", "In the run"], [0, 1]),
  functions: new Part("functions", "What reaches each function", ["Function", "Packets/s", "Dropped/s"], [0]),
  tables: new Part(
    "tables",
    "How full the fullest core's table is",
    ["Function", "Full", "Until full", "Flows, all cores", "Fullest core", "Room there", "New/s", "Ended/s", "Evicted/s", "Refused/s"],
    [0],
  ),
  rules: new Part("rules", "How often each rule was the first that fits", ["Rule", "Function", "Per second", "Decided", "Text"], [0, 1, 4]),
  cores: new Part(
    "cores",
    "Load of each core",
    ["Core", "Busy", "Packets/s", "Bit/s", "Dropped/s", "In its queue", "Moved in", "Moved out"],
    [0],
  ),
  events: new Part("events", "What functions and the strategy count", ["Event", "By", "Per second", "In the run"], [0, 1]),
};

const percentAxis = (height: number): string => `${height}%`;
const rates = new Chart(byId("rates"), [{ colour: "--first", isDashed: false }, { colour: "--second", isDashed: true }], rate, null);
const load = new Chart(byId("load"), [{ colour: "--first", isDashed: false }], percentAxis, 100);

const flows = new Flows();
const trace = new Trace();
const reload = new Reload();

/** The run's seconds in the newest message; 0 before the first one. */
let seen = 0;
let points: Point[] = [];
let lastLogged = 0;

function show(view: View): void {
  document.title = `${view.chain}: ${rate(view.packets_per_s)} packets/s`;
  write("version", view.paceline);
  write("chain", view.chain);
  const cores = view.cores.length === 1 ? "1 core" : `${view.cores.length} cores`;
  write("about", `${view.strategy} on ${cores}, for ${time(view.seconds)}; ${count(view.packets)} packets so far`);
  write("headline", view.headline);
  byId("now").hidden = false;
  showWarnings(view.warnings);
  showPoints(view.points);
  const all = view.verdicts.reduce((sum, verdict) => sum + verdict.total, 0);
  parts.verdicts.fill(
    view.verdicts.map(({ verdict, per_s, total }) => {
      const share = view.packets_per_s > 0 ? per_s / view.packets_per_s : total / all;
      return [verdict, rate(per_s), { text: percent(Math.min(share, 1)), share: Math.min(share, 1) }, count(total)];
    }),
  );
  parts.interfaces.fill(
    view.interfaces.map((one) => [
      one.name,
      rate(one.received_per_s),
      rate(one.received_bits_per_s),
      rate(one.sent_per_s),
      rate(one.sent_bits_per_s),
      rate(one.lost_per_s),
      count(one.lost),
      one.lost_most ?? "–",
    ]),
  );
  parts.drops.fill(view.drops.map(({ reason, by, per_s, total }) => [reason, by, rate(per_s), count(total)]));
  parts.functions.fill(view.functions.map((one) => [one.name, rate(one.packets_per_s), rate(one.drops_per_s)]));
  const withTable = view.functions.flatMap(({ name, table }) => (table === null ? [] : [{ name, table }]));
  parts.tables.fill(
    withTable.map(({ name, table }) => [
      name,
      { text: percent(table.load), share: table.load },
      table.full_in_seconds === null ? (table.load >= 1 ? "full" : "does not fill") : time(table.full_in_seconds),
      count(table.flows),
      `core ${table.fullest_core}`,
      `${count(table.fullest_flows)} of ${count(table.fullest_capacity)}`,
      rate(table.created_per_s),
      rate(table.ended_per_s),
      rate(table.evicted_per_s),
      rate(table.rejected_per_s),
    ]),
  );
  parts.rules.fill(
    view.rules.shown.map((one) => [one.rule, one.function, rate(one.per_s), count(one.decided), one.text]),
  );
  byId("rules-more").hidden = view.rules.left_out === 0;
  write("rules-more", `${count(view.rules.left_out)} more rules decide less often; paceline ctl rules shows all.`);
  parts.cores.fill(
    view.cores.map((one) => [
      `core ${one.core}`,
      { text: percent(one.busy), share: one.busy },
      rate(one.packets_per_s),
      rate(one.bits_per_s),
      rate(one.drops_per_s),
      one.queue === null ? "–" : count(one.queue),
      count(one.moved_in),
      count(one.moved_out),
    ]),
  );
  flows.heed(view.offers.includes("flows"), view.seconds, view.has_ended);
  trace.heed(view.offers.includes("trace"), view.has_ended);
  reload.heed(view.offers.includes("reload"), view.has_ended);
  showStrategy(view);
  parts.events.fill(view.events.map(({ event, by, per_s, total }) => [event, by, rate(per_s), count(total)]));
  showLog(view);
}

function showWarnings(warnings: string[]): void {
  byId("wrong").hidden = warnings.length === 0;
  const list = byId("warnings");
  while (list.children.length > warnings.length) list.lastElementChild?.remove();
  warnings.forEach((text, index) => {
    const item = list.children[index] ?? list.appendChild(document.createElement("li"));
    if (item.textContent !== text) item.textContent = text;
  });
}

function showPoints(added: Point[]): void {
  const last = points.at(-1)?.seconds ?? -1;
  points = [...points, ...added.filter((point) => point.seconds > last)].slice(-POINTS);
  const seconds = points.map((point) => point.seconds);
  const now = points.at(-1);
  if (now === undefined) return;
  const most = Math.max(...points.map((point) => point.packets_per_s));
  rates.show(
    [seconds, points.map((point) => point.packets_per_s), points.map((point) => point.drops_per_s)],
    `Line chart: ${rate(now.packets_per_s)} packets per second received now, ${rate(now.drops_per_s)} dropped; ${rate(most)} at most.`,
  );
  const busiest = Math.max(...points.map((point) => point.busiest));
  load.show(
    [seconds, points.map((point) => 100 * point.busiest)],
    `Line chart: the busiest core is busy for ${percent(now.busiest)} of its time now, ${percent(busiest)} at most.`,
  );
}

function showStrategy({ told }: View): void {
  byId("strategy").hidden = told === null;
  if (told === null) return;
  const microseconds = (value: number | null): string | null => (value === null ? null : `${count(value)} µs`);
  const facts: [string, string | null][] = [
    ["Runs now", `${told.runs} on ${told.cores === 1 ? "1 core" : `${told.cores} cores`}`],
    ["Cores that get packets", told.active_cores === null ? null : count(told.active_cores)],
    ["Looks at the loads", count(told.looks)],
    [told.unit === "shard" ? "Shards moved" : "Entries moved", count(told.moves)],
    ["Promotions", told.promotions === null ? null : count(told.promotions)],
    ["Packets of promoted values", told.promoted_share === null ? null : percent(told.promoted_share)],
    ["99% of packets may wait", microseconds(told.p99_objective_us)],
    ["99% of packets waited", microseconds(told.p99_measured_us)],
    ["99% of packets wait by the model", microseconds(told.p99_predicted_us)],
  ];
  const shown = facts.filter((fact): fact is [string, string] => fact[1] !== null);
  const list = byId("told");
  const words = shown.flat();
  if (list.children.length !== words.length) {
    list.replaceChildren(...words.map((_, index) => document.createElement(index % 2 === 0 ? "dt" : "dd")));
  }
  words.forEach((word, index) => {
    const element = list.children[index] as HTMLElement;
    if (element.textContent !== word) element.textContent = word;
  });
}

function showLog({ log }: View): void {
  byId("changes").hidden = log.length === 0;
  const list = byId("log");
  for (const entry of log.filter(({ number }) => number > lastLogged)) {
    const item = document.createElement("li");
    item.value = entry.number;
    item.textContent = `${time(entry.seconds)}: ${entry.text}`;
    list.prepend(item);
    lastLogged = entry.number;
  }
  while (list.children.length > 30) list.lastElementChild?.remove();
  const box = list.parentElement as HTMLElement;
  if (box.scrollHeight > box.clientHeight) box.tabIndex = 0;
}

function connect(): void {
  const source = new EventSource("/events");
  source.onmessage = (message: MessageEvent<string>) => {
    const view = JSON.parse(message.data) as View;
    // Another run listens here by now.
    if (view.seconds < seen) {
      location.reload();
      return;
    }
    seen = view.seconds;
    show(view);
    document.body.dataset["state"] = view.has_ended ? "ended" : "live";
    if (!view.has_ended) return write("connection", "Live: a look each second.");
    source.close();
    document.title = `${view.chain}: ended`;
    write("connection", `The run has ended after ${time(view.seconds)}. This is its last state.`);
  };
  source.onerror = () => {
    document.body.dataset["state"] = "lost";
    const last = seen === 0 ? "" : " This is what was seen last.";
    write("connection", `The run does not answer; trying again.${last}`);
    // A refusal ends it for the browser; the run may have room again later.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
}

connect();
