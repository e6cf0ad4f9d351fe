// A table that is filled anew with each message, cell by cell: what is selected or has the focus stays.

/** A cell: its text, and a share from 0 to 1 to be drawn as a bar beside it. */
export type Cell = string | { text: string; share: number };

export class Table {
  private readonly body: HTMLTableSectionElement;
  private readonly scroll: HTMLDivElement;

  /** `words` are the columns of words, which are set left; those of numbers are set right. */
  constructor(parent: HTMLElement, caption: string, columns: string[], private readonly words: number[]) {
    this.scroll = document.createElement("div");
    this.scroll.className = "scroll";
    this.scroll.setAttribute("role", "region");
    const table = document.createElement("table");
    const title = table.createCaption();
    title.textContent = caption;
    title.id = `caption-${parent.id}`;
    this.scroll.setAttribute("aria-labelledby", title.id);
    const head = table.createTHead().insertRow();
    columns.forEach((column, index) => {
      const heading = document.createElement("th");
      heading.scope = "col";
      heading.textContent = column;
      if (words.includes(index)) heading.className = "words";
      head.append(heading);
    });
    this.body = table.createTBody();
    this.scroll.append(table);
    parent.append(this.scroll);
    new ResizeObserver(() => this.heedSize()).observe(this.scroll);
  }

  fill(rows: Cell[][]): void {
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((cells, index) => {
      const row = this.body.rows[index] ?? this.newRow(cells.length);
      cells.forEach((cell, column) => fill(row.cells[column] as HTMLTableCellElement, cell));
    });
    this.heedSize();
  }

  private newRow(columns: number): HTMLTableRowElement {
    const row = this.body.insertRow();
    for (let column = 0; column < columns; column += 1) {
      const cell = document.createElement(column === 0 ? "th" : "td");
      if (column === 0) cell.scope = "row";
      if (this.words.includes(column)) cell.className = "words";
      row.append(cell);
    }
    return row;
  }

  /** What does not fit scrolls, by keys as well; what fits is no stop for the Tab key. */
  private heedSize(): void {
    const { scrollWidth, clientWidth, scrollHeight, clientHeight } = this.scroll;
    if (scrollWidth > clientWidth || scrollHeight > clientHeight) this.scroll.tabIndex = 0;
    else this.scroll.removeAttribute("tabindex");
  }
}

function fill(element: HTMLTableCellElement, cell: Cell): void {
  if (typeof cell === "string") {
    if (element.textContent !== cell) element.textContent = cell;
    return;
  }
  let bar = element.querySelector<HTMLElement>(".bar");
  if (bar === null) {
    element.textContent = "";
    element.className = "barred";
    bar = document.createElement("span");
    bar.className = "bar";
    bar.setAttribute("aria-hidden", "true");
    bar.append(document.createElement("span"));
    element.append(bar, document.createElement("span"));
  }
  (bar.firstElementChild as HTMLElement).style.width = `${100 * cell.share}%`;
  (element.lastElementChild as HTMLElement).textContent = cell.text;
}
