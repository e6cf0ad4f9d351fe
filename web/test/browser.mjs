// Looks at the page in a headless Chromium, over the DevTools protocol by pipes: widths, colours, keys.
// Usage: node browser.mjs URL FOLDER [CHROMIUM]. Pictures go to FOLDER; the findings to standard output as JSON.
// TOKEN in the environment is that of the run. After the line `seen` it waits until the page says that the run has ended.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [url, folder, chromium = "chromium"] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "paceline-browser-"));
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"];
const browser = spawn(chromium, [...flags, `--user-data-dir=${profile}`, "about:blank"], {
  stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
});
const [, , , to, from] = browser.stdio;
const waiting = new Map();
const events = [];
let number = 0;
let rest = "";
let loaded;
const isLoaded = new Promise((done) => (loaded = done));
from.on("data", (bytes) => {
  const parts = (rest + bytes.toString("utf8")).split("\0");
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    if (message.id === undefined) {
      events.push(message);
      if (message.method === "Page.loadEventFired") loaded();
    } else waiting.get(message.id)?.(message);
  }
});

function call(method, params = {}, sessionId = session) {
  const id = (number += 1);
  to.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${method} takes too long`)), 60_000);
    waiting.set(id, (message) => {
      clearTimeout(late);
      if (message.error) reject(new Error(`${method}: ${message.error.message}`));
      else resolve(message.result);
    });
  });
}

async function evaluate(source) {
  const { result, exceptionDetails } = await call("Runtime.evaluate", { expression: source, returnByValue: true, awaitPromise: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

/** Waits until the page says so: an event of the page, and no time. */
const until = (condition) =>
  evaluate(`new Promise((done) => {
    const look = () => (${condition}) && (done(true), true);
    look() || new MutationObserver((_, observer) => look() && observer.disconnect())
      .observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  })`);

/** In the page: text whose contrast with what is behind it is less than WCAG's AA asks for. */
function lowContrast() {
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
    const [ink, paper] = [luminance(parse(style.color).rgb), luminance(ground(element))];
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    checked += 1;
    if (contrast < (isLarge ? 3 : 4.5)) found.push(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return { checked, found };
}

/** In the page: elements that stand out of the window, but for those in a box that scrolls. */
function overflowing() {
  const wide = document.documentElement.clientWidth;
  const found = [];
  if (document.documentElement.scrollWidth > wide) found.push(`the page: ${document.documentElement.scrollWidth} of ${wide}`);
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || element.closest(".scroll") !== null || element.closest(".skip") !== null) continue;
    const inner = element.closest("section")?.getBoundingClientRect().right ?? wide;
    if (box.right > inner + 1) found.push(`${element.tagName} ${element.id} stands out of its section`);
    if (box.right > wide + 1) found.push(`${element.tagName} ${element.id}: ${Math.round(box.right)} of ${wide}`);
  }
  return found;
}

/** In the page: what a screen reader would miss. */
function unnamed() {
  const found = [];
  const named = (element) =>
    element.getAttribute("aria-label") || document.getElementById(element.getAttribute("aria-labelledby") ?? "")?.textContent;
  for (const element of document.querySelectorAll('[role="img"], [role="region"], [role="log"], section')) {
    if (!element.closest("[hidden]") && !named(element)) found.push(`${element.tagName} ${element.id} has no name`);
  }
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption?.textContent) found.push("a table without a caption");
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

/** Clicks where an element is, as a mouse does. */
async function click(id) {
  const [x, y] = await evaluate(`(() => {
    const element = document.getElementById("${id}");
    element.scrollIntoView({ block: "center" });
    const box = element.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  })()`);
  for (const type of ["mousePressed", "mouseReleased"]) await call("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
}

/** Gives a field of a form another value. */
const set = (id, value) =>
  evaluate(`(() => {
    const field = document.getElementById("${id}");
    field.value = ${JSON.stringify(value)};
    field.dispatchEvent(new Event("change"));
  })()`);

const inPage = (check) => evaluate(`(${check})()`);

/** The order in which the Tab key comes by, and whether each stop can be seen. */
async function keys() {
  // Where the last click was is where the next Tab begins.
  await evaluate("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex'); window.scrollTo(0, 0)");
  const stops = [];
  for (let press = 0; press < 30; press += 1) {
    for (const type of ["keyDown", "keyUp"]) await call("Input.dispatchKeyEvent", { type, key: "Tab", code: "Tab", windowsVirtualKeyCode: 9 });
    const stop = await evaluate(`(() => {
      const at = document.activeElement;
      if (at === document.body) return null;
      const all = [...document.querySelectorAll("*")];
      const style = getComputedStyle(at);
      return {
        what: at.className + " " + (at.getAttribute("aria-labelledby") ?? at.textContent.slice(0, 30)),
        place: all.indexOf(at),
        isSeen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
      };
    })()`);
    if (stop === null) break;
    stops.push(stop);
  }
  return stops;
}

let session;
let status = 0;
try {
  const { targetInfos } = await call("Target.getTargets", {}, undefined);
  const { targetId } = targetInfos.find(({ type }) => type === "page");
  session = (await call("Target.attachToTarget", { targetId, flatten: true }, undefined)).sessionId;
  for (const domain of ["Page", "Runtime", "Log"]) await call(`${domain}.enable`);
  await call("Emulation.setDeviceMetricsOverride", { width: 1280, height: 900, deviceScaleFactor: 1, mobile: false });
  await call("Page.navigate", { url });
  await isLoaded;
  await until('document.body?.dataset.state === "live" && document.querySelectorAll("#cores tbody tr").length > 0');
  // Rules are asked for as soon as somebody looks, and a rate takes two answers.
  await until('document.querySelector("#rules tbody td:nth-child(3)")?.textContent > "0"');
  // What people click.
  await click("flows-toggle");
  await until('document.querySelector("#flows-list tbody td")?.textContent > "0" && document.getElementById("flows-about").textContent.endsWith("of a core.")');
  const flow = 'document.querySelector("#flows-list tbody th").textContent';
  const by_packets = await evaluate(flow);
  await set("flows-order", "bits");
  const by_bits = await evaluate(flow);
  const about = (id) => evaluate(`document.getElementById("${id}").textContent`);
  await set("trace-port", "443");
  await click("trace-button");
  await until('document.getElementById("trace-about").textContent.startsWith("20 packets of")');
  const trace = { about: await about("trace-about"), packets: await about("trace-list") };
  const submit = async (token, told) => {
    await set("reload-token", token);
    await click("reload-button");
    await until(`document.getElementById("reload-told").textContent.includes("${told}") && !document.getElementById("reload-button").disabled`);
    return about("reload-told");
  };
  await set("reload-text", 'name = "edge"');
  const refused = await submit("not the token", "the token is another");
  const reloaded = await submit(process.env.TOKEN, "goes on with");
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
      writeFileSync(join(folder, `${width}-${scheme}.png`), Buffer.from(data, "base64"));
      const contrast = await inPage(lowContrast);
      looks.push({ width, scheme, overflowing: await inPage(overflowing), checked: contrast.checked, low_contrast: contrast.found });
    }
  }
  await call("Emulation.setDeviceMetricsOverride", { width: 390, height: 900, deviceScaleFactor: 1, mobile: false });
  const sections = await evaluate('[...document.querySelectorAll("section:not([hidden]) h2")].map((title) => title.textContent)');
  // What the checks are for, planted: each has to find it.
  await evaluate(`document.getElementById("headline").insertAdjacentHTML("beforebegin",
    '<div id="planted"><p id="faint">faint</p><p id="wide">wide</p><p id="out">out</p><div role="img" id="nameless"></div><input id="mute"></div>');
    document.getElementById("faint").style.color = "rgb(150, 150, 150)";
    document.getElementById("faint").style.backgroundColor = "rgb(120, 120, 120)";
    document.getElementById("wide").style.width = "3000px";
    document.getElementById("out").style.marginRight = "-22px"`);
  const planted = [...(await inPage(lowContrast)).found, ...(await inPage(overflowing)), ...(await inPage(unnamed))];
  await evaluate('document.getElementById("planted").remove()');
  const report = {
    planted,
    title: await evaluate("document.title"),
    headline: await evaluate('document.getElementById("headline").textContent'),
    warnings: await evaluate('[...document.querySelectorAll("#warnings li")].map((item) => item.textContent)'),
    sections,
    looks,
    unnamed: await inPage(unnamed),
    keys: await keys(),
    flows: { by_packets, by_bits, about: await evaluate('document.getElementById("flows-about").textContent') },
    trace,
    reload: { refused, reloaded },
    charts: await evaluate('document.querySelectorAll(".chart canvas").length'),
  };
  // The test that started this ends the run when it reads this line.
  console.log("seen");
  await until('document.body.dataset.state === "ended"');
  report.ended = await evaluate('document.getElementById("connection").textContent');
  report.still = await evaluate('document.querySelectorAll("#cores tbody tr").length');
  report.errors = events
    .filter(({ method }) => method === "Runtime.exceptionThrown" || method === "Log.entryAdded")
    .map(({ params }) => params.exceptionDetails?.exception?.description ?? params.entry?.text);
  console.log(JSON.stringify(report));
} catch (error) {
  console.error(`browser.mjs: ${error.message}`);
  status = 1;
}
browser.once("exit", () => {
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  process.exit(status);
});
browser.kill();
