// The flows with the highest rates. The run is asked for them while the list is open.
import { count, percent, rate, time } from "./format";
import { byId, write } from "./page-parts";
import { Table } from "./table";
import type { FlowsView, FlowView } from "./view";

/** Flows that are shown: the first ones by what the reader chose. */
const SHOWN = 20;

const CLOSED = "While the list is open all flows are looked through again and again, at 1% of a core at most.";
const NONE = "No function of the chain counts packets of a flow: flow-statistics, firewall, access-list, load-balancer and heavy-hitters do.";

export class Flows {
  private readonly table = new Table(
    byId("flows-list"),
    "Flows with the highest rates since the look before",
    ["Flow", "Packets/s", "Bit/s", "Packets", "Bytes", "Core", "Function"],
    [0, 6],
  );
  private readonly button = byId("flows-toggle") as HTMLButtonElement;
  private readonly order = byId("flows-order") as HTMLSelectElement;
  private source: EventSource | null = null;
  private last: FlowsView | null = null;
  private seconds = 0;

  constructor() {
    this.button.addEventListener("click", () => (this.source === null ? this.open() : this.close()));
    this.order.addEventListener("change", () => this.draw());
    this.draw();
  }

  /** The run's seconds, in each message. A run that has ended is asked no more; the last list stays. */
  heed(isOffered: boolean, seconds: number, hasEnded: boolean): void {
    byId("flows").hidden = !isOffered;
    this.seconds = seconds;
    if (hasEnded) {
      this.source?.close();
      this.button.disabled = true;
    }
    this.tell();
  }

  private open(): void {
    this.source = new EventSource("/flows");
    this.source.onmessage = (message: MessageEvent<string>) => {
      this.last = JSON.parse(message.data) as FlowsView;
      this.draw();
    };
    // A refusal, or the end of the run: the page's other stream says which.
    this.source.onerror = () => {
      if (this.source?.readyState === EventSource.CLOSED) this.close();
    };
    this.draw();
  }

  private close(): void {
    this.source?.close();
    this.source = null;
    this.last = null;
    this.draw();
  }

  private draw(): void {
    const isOpen = this.source !== null;
    write("flows-toggle", isOpen ? "Close the list" : "Look for flows");
    this.button.setAttribute("aria-expanded", String(isOpen));
    const flows = this.last?.flows ?? [];
    byId("flows-list").hidden = flows.length === 0;
    byId("flows-by").hidden = flows.length === 0;
    // They come in the order of packets; sorting keeps that where there are no bytes.
    const bits = (flow: FlowView): number => (this.last?.has_rates ? flow.bits_per_s : flow.bytes) ?? -1;
    const sorted = this.order.value === "bits" ? [...flows].sort((a, b) => bits(b) - bits(a)) : flows;
    const orNone = (number: number | null, text: (number: number) => string): string => (number === null ? "–" : text(number));
    this.table.fill(
      sorted.slice(0, SHOWN).map((flow) => [
        flow.key,
        orNone(flow.packets_per_s, rate),
        orNone(flow.bits_per_s, rate),
        count(flow.packets),
        orNone(flow.bytes, count),
        flow.core === null ? "all" : `core ${flow.core}`,
        flow.function,
      ]),
    );
    this.tell();
  }

  /** How old the list is, how it came to be, and what it costs. */
  private tell(): void {
    write("flows-about", this.source === null ? CLOSED : this.last === null ? "Looking through all flows." : this.about(this.last));
  }

  private about({ seconds, took_seconds, core_percent, seen, has_rates, error }: FlowsView): string {
    const age = Math.max(0, this.seconds - seconds);
    const look = `${count(seen)} flows looked through in ${time(took_seconds)}, ${time(age)} ago, at ${percent(core_percent / 100)} of a core.`;
    const rates = has_rates ? "" : " Rates come with the next look; these have the most packets.";
    if (error !== null) return `${look} It is not all: ${error}`;
    return seen === 0 ? NONE : look + rates;
  }
}
