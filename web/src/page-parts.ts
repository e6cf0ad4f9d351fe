// Elements of the page, by their names.

export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no ${id}`);
  return element;
}

export function write(id: string, text: string): void {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}
