// Looks at the page in a headless Chromium: widths, colours, keys.
// Usage: node browser.mjs URL FOLDER [CHROMIUM]. Pictures go to FOLDER; the findings to standard output as JSON.
// TOKEN in the environment is that of the run. After the line `seen` it waits until the page says that the run has ended.
import { call, close, evaluate, events, inPage, lookAll, lowContrast, open, overflowing, unnamed, until } from "./chromium.mjs";

const [url, folder, chromium] = process.argv.slice(2);

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

let status = 0;
try {
  await open(chromium, url);
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
  const looks = await lookAll(folder, "");
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
await close();
process.exit(status);
