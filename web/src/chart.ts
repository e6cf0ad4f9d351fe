// A line chart over time, drawn by uPlot, which follows the width of its place and the colours of the system.
import uPlot from "uplot";

export interface Line {
  /** A custom property of the style sheet. */
  colour: string;
  isDashed: boolean;
}

/** One list of times, then one of heights for each line. */
export type Lines = [number[], ...number[][]];

const HEIGHT = 200;

export class Chart {
  private plot: uPlot | null = null;
  private data: Lines | null = null;

  constructor(
    private readonly place: HTMLElement,
    private readonly lines: Line[],
    private readonly write: (height: number) => string,
    private readonly most: number | null,
  ) {
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Shows `data`, which `words` says for those who do not see it. */
  show(data: Lines, words: string): void {
    this.data = data;
    this.place.setAttribute("aria-label", words);
    if (this.plot === null) this.draw();
    else this.plot.setData(data);
  }

  private size(): { width: number; height: number } {
    return { width: Math.max(this.place.clientWidth, 100), height: HEIGHT };
  }

  private draw(): void {
    if (this.data === null) return;
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const axis: uPlot.Axis = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--rule"), width: 1 },
      ticks: { stroke: colour("--rule"), width: 1 },
      font: "13px system-ui, sans-serif",
    };
    const { most } = this;
    const options: uPlot.Options = {
      ...this.size(),
      scales: {
        x: { time: false },
        y: { range: (_plot, _least, top) => [0, most ?? Math.max(1, top * 1.08)] },
      },
      axes: [
        { ...axis, values: (_plot, values) => values.map((value) => `${value} s`), space: 70 },
        { ...axis, values: (_plot, values) => values.map((value) => this.write(value)), size: 60 },
      ],
      series: [
        {},
        ...this.lines.map((line) => ({
          stroke: colour(line.colour),
          width: 2,
          points: { show: false },
          ...(line.isDashed ? { dash: [6, 4] } : {}),
        })),
      ],
      legend: { show: false },
      cursor: { show: false },
    };
    this.plot = new uPlot(options, this.data, this.place);
  }
}
