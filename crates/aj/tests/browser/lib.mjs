// A real browser on a running dashboard or an exported page. Whatever it says on the console, asks
// of another server or fails to load is remembered, and is an error in the end.

import assert from "node:assert/strict";
import { join } from "node:path";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
  "--disable-background-networking", "--disable-component-update",
];

/** Opens a browser with a new profile. */
export async function start({ browser, url, profile }, options = {}) {
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: browser,
    headless: true,
    args: FLAGS,
    viewport: { width: 1280, height: 800 },
    ...options,
  });
  // A busy machine is waited for.
  context.setDefaultTimeout(180_000);
  context.setDefaultNavigationTimeout(180_000);
  const origin = url.startsWith("file:") ? "file://" : new URL(url).origin;
  const complaints = [];
  const page = context.pages()[0] ?? await context.newPage();
  context.on("request", (request) => {
    const target = request.url();
    if (!target.startsWith(origin + "/") && !/^(data|blob|about):/.test(target)) {
      complaints.push(`asked another server: ${target}`);
    }
  });
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) {
      complaints.push(`console ${message.type()}: ${message.text()} (${page.url()})`);
    }
  });
  page.on("pageerror", (error) => complaints.push(`error: ${error.message} (${page.url()})`));
  page.on("dialog", (dialog) => {
    complaints.push(`a dialog opened: ${dialog.message()}`);
    dialog.dismiss();
  });
  return { context, page, origin, complaints };
}

/** Runs in a browser of its own; nothing may be left to complain about. */
let count = 0;
export async function within(options, more, run) {
  const profile = join(options.profile, String(count++));
  const started = await start({ ...options, profile }, more);
  try {
    await run(started);
  } catch (error) {
    const said = started.complaints.join("\n");
    error.message += `\nat ${started.page.url()}\n${said}`;
    throw error;
  } finally {
    await started.context.close();
  }
  assert.deepEqual(started.complaints, []);
}

/** Makes every page light or dark, as if that had been chosen. */
export async function theme(context, name) {
  await context.addInitScript((name) => localStorage.setItem("aj-theme", name), name);
}

/** The address of the transcript listed first. */
export async function transcript(page, origin) {
  await page.goto(origin + "/");
  const link = page.locator("main a[href*='/session']").first();
  await link.waitFor();
  return new URL(await link.getAttribute("href"), origin).href;
}
