// What a person does with the dashboard, in a real browser:
//   node dashboard.mjs SCENARIO '{"browser": …, "url": …, "profile": …, …}'
// A scenario fails by throwing; in the end nothing may have been complained about.

import { readFileSync, appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import assert from "node:assert/strict";
import { start, theme, transcript } from "./lib.mjs";

const [scenario, given] = process.argv.slice(2);
const options = JSON.parse(given);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const PAGES = ["/", "/search?q=retry", "/analytics?since=all", "/insights", "/sources"];

/** No serious problem for people who do not see or do not use a mouse. */
async function accessible(page) {
  // The policy of the pages refuses foreign scripts; the browser's own console may run them.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
  }));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, help, nodes }) =>
    `${id}: ${help}\n${nodes.slice(0, 4).map(({ html, failureSummary }) => `  ${html}\n    ${failureSummary}`).join("\n")}`);
  assert.deepEqual(told, [], page.url());
}

const scenarios = {
  /** Every page in both themes: it has a heading, is in the navigation, and is accessible. */
  async pages() {
    for (const name of ["light", "dark"]) {
      await within({ colorScheme: name }, async ({ context, page, origin }) => {
        await theme(context, name);
        const color = () => page.evaluate(() => getComputedStyle(document.body).color);
        for (const address of [...PAGES, await transcript(page, origin)]) {
          const answer = await page.goto(new URL(address, origin).href);
          assert.equal(answer.status(), 200, address);
          await page.waitForLoadState("load");
          assert.equal(await page.locator("main h1").count(), 1, `${address}: one heading`);
          assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), name);
          const [red] = (await color()).match(/\d+/g).map(Number);
          assert.equal(red > 128, name === "dark", `${address}: ${name} has readable text`);
          await accessible(page);
        }
      });
    }
  },

  /** Narrow pages fit a phone. */
  async phone() {
    await within({ viewport: { width: 360, height: 740 } }, async ({ page, origin }) => {
      for (const address of [...PAGES, await transcript(page, origin)]) {
        await page.goto(new URL(address, origin).href);
        const [inner, wide] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
        assert.ok(wide <= inner, `${address} is ${wide} wide`);
      }
    });
  },

  /** Filters live in the address, and a chart leads to the sessions behind it. */
  async analytics() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + "/analytics?since=all");
      const tile = page.locator(".tiles dd strong").first();
      const all = await tile.textContent();
      await page.locator("select[name=agent]").selectOption("codex");
      await page.getByRole("button", { name: "Apply" }).click();
      await page.waitForURL(/agent=codex/);
      const some = await tile.textContent();
      assert.ok(Number(some) < Number(all) && Number(some) > 0, `${some} of ${all}`);
      await page.getByRole("link", { name: "30 days" }).click();
      await page.waitForURL(/agent=codex.*since=30d/);
      await page.getByText("Changes compare with the equal time before.").waitFor();
      // The numbers of a chart are a table; its rows lead to sessions.
      await page.goto(origin + "/analytics?since=all");
      const chart = page.locator("#sessions");
      await chart.locator("summary").click();
      await chart.getByRole("table").waitFor();
      const row = chart.locator("tbody tr", { has: page.locator("td:not(:text-is('0'))") }).first();
      await row.getByRole("link").click();
      await page.waitForURL(/since=.*until=/);
      assert.ok(await page.locator("main a[href*='/session']").count() > 0);
      // So does a bar.
      await page.goto(origin + "/analytics?since=all");
      await page.locator("#calendar a").last().click({ force: true });
      await page.waitForURL(/since=.*until=/);
    });
  },

  /** A repository is chosen; its score, its five categories and what to do are there. */
  async insights() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + "/insights");
      await page.locator("select[name=of]").selectOption("/home/sam/web");
      await page.getByRole("button", { name: "Show" }).click();
      await page.waitForURL(/of=/);
      await page.getByRole("heading", { name: "web", exact: true }).waitFor();
      await page.getByRole("img", { name: /web: \d+ of 100/ }).waitFor();
      assert.equal(await page.locator(".score tbody tr").count(), 5);
      assert.ok(await page.locator(".tips li").count() > 0);
      await page.getByRole("link", { name: /Claude Code \(all sessions\)/ }).click();
      await page.getByRole("heading", { name: "Claude Code (all sessions)" }).waitFor();
    });
  },

  /** A journal without anything helps on every page. */
  async empty() {
    await within({}, async ({ page, origin }) => {
      for (const address of PAGES) {
        await page.goto(origin + address);
        assert.equal(await page.locator("main h1, main h2").count() > 0, true, address);
        await accessible(page);
      }
    });
  },
};

/** Runs in a browser of its own; nothing may be left to complain about. */
let count = 0;
async function within(more, run) {
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

await scenarios[scenario]();
console.log("PASSED");
