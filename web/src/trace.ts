// The way of a few packets through the chain, when the reader asks.
import { count } from "./format";
import { byId, write } from "./page-parts";
import type { TraceView } from "./view";

const IDLE = "The next 20 packets that match, step by step; a trace ends by itself after 30 seconds. paceline ctl trace takes any filter.";
const BY: Record<string, string> = { packets: "that is as many as are shown", time: "30 seconds are over", run: "the run has ended" };

export class Trace {
  private readonly form = byId("trace-form") as HTMLFormElement;
  private readonly button = byId("trace-button") as HTMLButtonElement;
  private stop: AbortController | null = null;

  constructor() {
    write("trace-about", IDLE);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.stop === null) void this.trace();
      else this.stop.abort();
    });
  }

  heed(isOffered: boolean, hasEnded: boolean): void {
    byId("trace").hidden = !isOffered;
    this.button.disabled = hasEnded;
  }

  private async trace(): Promise<void> {
    this.stop = new AbortController();
    write("trace-button", "End the trace");
    write("trace-about", "Waiting for packets.");
    const list = byId("trace-list");
    list.textContent = "";
    byId("trace-box").hidden = true;
    try {
      const value = (id: string): string | null => (byId(id) as HTMLInputElement).value.trim() || null;
      const port = value("trace-port");
      const filter = { host: value("trace-host"), port: port === null ? null : Number(port), protocol: value("trace-protocol") };
      const answer = await fetch("/trace", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(filter),
        signal: this.stop.signal,
      });
      if (!answer.ok || answer.body === null) write("trace-about", `Nothing is traced: ${(await answer.text()).trim()}.`);
      else await this.read(answer.body, list);
    } catch {
      write("trace-about", this.stop.signal.aborted ? "The trace was ended." : "The run does not answer.");
    }
    this.stop = null;
    write("trace-button", "Trace packets");
  }

  private async read(body: ReadableStream<Uint8Array>, list: HTMLElement): Promise<void> {
    const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
    let rest = "";
    let filter = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (rest + part.value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines.filter((line) => line !== "")) {
        const { began, packet, refused, ended } = JSON.parse(line) as TraceView;
        if (began !== null) filter = began === "" ? "packets" : `packets of “${began}”`;
        if (began !== null) write("trace-about", `Waiting for ${filter}.`);
        if (refused !== null) write("trace-about", `Nothing is traced: ${refused}.`);
        if (packet !== null) {
          list.textContent += `${packet.trimEnd()}\n\n`;
          byId("trace-box").hidden = false;
        }
        if (ended !== null) {
          const missed = ended.missed === 0 ? "" : ` ${count(ended.missed)} more were missed.`;
          write("trace-about", `${count(ended.shown)} ${filter}; ${BY[ended.by] ?? ended.by}.${missed}`);
        }
      }
    }
  }
}
