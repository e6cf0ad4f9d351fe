// A headless Chromium over the DevTools protocol by pipes, and what is checked in a page.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const waiting = new Map();
export const events = [];
let number = 0;
let rest = "";
let loaded;
let browser;
let profile;
let session;

/** Starts Chromium, and waits until it has loaded a page. */
export async function open(chromium = "chromium", url = "about:blank") {
  profile = mkdtempSync(join(tmpdir(), "paceline-browser-"));
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"];
  browser = spawn(chromium, [...flags, `--user-data-dir=${profile}`, "about:blank"], {
    stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
  });
  browser.stdio[4].on("data", hear);
  const { targetInfos } = await call("Target.getTargets", {}, undefined);
  const { targetId } = targetInfos.find(({ type }) => type === "page");
  session = (await call("Target.attachToTarget", { targetId, flatten: true }, undefined)).sessionId;
  for (const domain of ["Page", "Runtime", "Log"]) await call(`${domain}.enable`);
  await call("Emulation.setDeviceMetricsOverride", { width: 1280, height: 900, deviceScaleFactor: 1, mobile: false });
  await go(url);
}

/** Goes to a page, and waits until it is there. */
export async function go(url) {
  const isLoaded = new Promise((done) => (loaded = done));
  await call("Page.navigate", { url });
  await isLoaded;
}

/** Ends Chromium, and waits until it has. */
export async function close() {
  if (browser === undefined) return;
  const isOver = new Promise((done) => browser.once("exit", done));
  browser.kill();
  await isOver;
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}

function hear(bytes) {
  const parts = (rest + bytes.toString("utf8")).split("\0");
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    if (message.id === undefined) {
      events.push(message);
      if (message.method === "Page.loadEventFired") loaded?.();
    } else waiting.get(message.id)?.(message);
  }
}

export function call(method, params = {}, sessionId = session) {
  const id = (number += 1);
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${method} takes too long`)), 60_000);
    waiting.set(id, (message) => {
      clearTimeout(late);
      if (message.error) reject(new Error(`${method}: ${message.error.message}`));
      else resolve(message.result);
    });
  });
}

export async function evaluate(source) {
  const { result, exceptionDetails } = await call("Runtime.evaluate", { expression: source, returnByValue: true, awaitPromise: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

/** Waits until the page says so: an event of the page, and no time. */
export const until = (condition) =>
  evaluate(`new Promise((done) => {
    const look = () => (${condition}) && (done(true), true);
    look() || new MutationObserver((_, observer) => look() && observer.disconnect())
      .observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  })`);

/** In the page: text whose contrast with what is behind it is less than WCAG's AA asks for. */
export function lowContrast() {
  const parse = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return { rgb: [r, g, b], a };
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const { rgb, a } = parse(getComputedStyle(at).backgroundColor);
      if (a === 1) return rgb;
    }
    return [255, 255, 255];
  };
  const found = [];
  let checked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script,noscript") || element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    const [ink, paper] = [luminance(parse(colour).rgb), luminance(ground(element))];
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    checked += 1;
    if (contrast < (isLarge ? 3 : 4.5)) found.push(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return { checked, found };
}

/** In the page: elements that stand out of the window, but for those in a box that scrolls. */
export function overflowing() {
  const wide = document.documentElement.clientWidth;
  const found = [];
  if (document.documentElement.scrollWidth > wide) found.push(`the page: ${document.documentElement.scrollWidth} of ${wide}`);
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || element.closest(".scroll") !== null || element.closest(".skip") !== null) continue;
    const what = `${element.tagName} ${element.id || element.textContent.trim().slice(0, 30)}`;
    const inner = element.closest("section")?.getBoundingClientRect().right ?? wide;
    if (box.right > inner + 1) found.push(`${what} stands out of its section`);
    if (box.right > wide + 1) found.push(`${what}: ${Math.round(box.right)} of ${wide}`);
  }
  return found;
}

/** In the page: what a screen reader would miss. */
export function unnamed() {
  const found = [];
  const named = (element) =>
    element.getAttribute("aria-label") || document.getElementById(element.getAttribute("aria-labelledby") ?? "")?.textContent;
  for (const element of document.querySelectorAll('[role="img"], [role="region"], [role="log"], section')) {
    if (!element.closest("[hidden]") && !named(element)) found.push(`${element.tagName} ${element.id} has no name`);
  }
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption?.textContent && !table.ariaLabel) found.push("a table without a name");
    if ([...table.querySelectorAll("th")].some((heading) => !heading.scope)) found.push("a heading without a scope");
  }
  for (const field of document.querySelectorAll("input, select, textarea, button")) {
    const name = field.tagName === "BUTTON" ? field.textContent : field.labels?.[0]?.textContent;
    if (!field.closest("[hidden]") && !name?.trim()) found.push(`${field.tagName} ${field.id} has no name`);
  }
  for (const one of ["h1", "main"]) {
    if (document.querySelectorAll(one).length !== 1) found.push(`${document.querySelectorAll(one).length} of ${one}`);
  }
  const levels = [...document.querySelectorAll("h1,h2,h3")].map((heading) => Number(heading.tagName[1]));
  levels.forEach((level, index) => {
    if (index > 0 && level > levels[index - 1] + 1) found.push(`h${level} after h${levels[index - 1]}`);
  });
  if (!document.documentElement.lang) found.push("no language");
  return found;
}

/** Runs one of these checks in the page. */
export const inPage = (check) => evaluate(`(${check})()`);

/** What the checks find at each width, light and dark. Pictures go to a folder; their names begin with `name`. */
export async function lookAll(folder, name) {
  const looks = [];
  for (const width of [390, 1280, 1920]) {
    for (const scheme of ["light", "dark"]) {
      await call("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: false });
      await call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
      // Two frames: layout and observers of size are done.
      await evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
      const { contentSize } = await call("Page.getLayoutMetrics");
      const clip = { x: 0, y: 0, width, height: Math.ceil(contentSize.height), scale: 1 };
      const { data } = await call("Page.captureScreenshot", { clip, captureBeyondViewport: true });
      writeFileSync(join(folder, `${name}${width}-${scheme}.png`), Buffer.from(data, "base64"));
      const contrast = await inPage(lowContrast);
      looks.push({ width, scheme, overflowing: await inPage(overflowing), checked: contrast.checked, low_contrast: contrast.found });
    }
  }
  return looks;
}
