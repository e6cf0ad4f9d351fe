// Looks at pages in a headless Chromium: widths, colours, names. Usage: node reports.mjs FOLDER CHROMIUM FILE...
// Pictures go to FOLDER; the findings by file to standard output as JSON.
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { close, evaluate, go, inPage, lookAll, lowContrast, open, overflowing, unnamed } from "./chromium.mjs";

const [folder, chromium, ...files] = process.argv.slice(2);
let status = 0;
try {
  await open(chromium);
  const found = {};
  for (const file of files) {
    await go(pathToFileURL(resolve(file)).href);
    const name = basename(file, ".html");
    found[name] = { looks: await lookAll(folder, `${name}-`), unnamed: await inPage(unnamed) };
  }
  // What the checks are for, planted into the last page.
  await evaluate(`document.body.insertAdjacentHTML("afterbegin", '<p style="color:#999;background:#888">faint</p><p style="width:3000px">wide</p>')`);
  found.planted = { low_contrast: (await inPage(lowContrast)).found, overflowing: await inPage(overflowing) };
  console.log(JSON.stringify(found));
} catch (error) {
  console.error(`reports.mjs: ${error.message}`);
  status = 1;
}
await close();
process.exit(status);
