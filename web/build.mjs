// Builds the page: one HTML file with its script and style in it, and the policy that allows these two by their hashes.
// Usage: node build.mjs FOLDER, where page.html and page.csp are written.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2];
if (folder === undefined) {
  console.error("usage: node build.mjs FOLDER");
  process.exit(2);
}
const built = await build({
  entryPoints: [join(here, "src/main.ts")],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  outdir: "out",
  write: false,
});
const text = (end) => built.outputFiles.find((file) => file.path.endsWith(end)).text.trim();
// A script ends at the first such tag, wherever it stands.
const script = text(".js").replaceAll("</script", "<\\/script");
const style = text(".css");
const hash = (content) => `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
// Its licence asks that its text goes along.
const licence = readFileSync(join(here, "node_modules/uplot/LICENSE"), "utf8").trim();
const page = readFileSync(join(here, "src/page.html"), "utf8")
  .replace("<style></style>", () => `<!-- Charts are drawn by uPlot:\n${licence}\n-->\n<style></style>`)
  .replace("<style></style>", () => `<style>${style}</style>`)
  .replace("<script></script>", () => `<script>${script}</script>`);
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
];
writeFileSync(join(folder, "page.html"), page);
writeFileSync(join(folder, "page.csp"), `${policy.join("; ")}\n`);
