// What a person does with an exported page, in a real browser and under the page's own policy:
//   node page.mjs SCENARIO '{"browser": …, "url": "file://…", "profile": …}'
// A scenario fails by throwing; in the end nothing may have been complained about.

import assert from "node:assert/strict";
import { join } from "node:path";
import { start, within } from "./lib.mjs";

const [scenario, given] = process.argv.slice(2);
const options = JSON.parse(given);

/** Has the words searched for and waits for what is said of them. */
async function find(page, words, answer) {
  await page.locator("#find").fill(words);
  await page.locator("#found", { hasText: new RegExp(`^${answer}$`) }).waitFor();
}

const scenarios = {
  /** The page is quiet; it folds, finds, changes its colours and tells its keys. */
  async whole() {
    await within(options, {}, async ({ page }) => {
      await page.goto(options.url);
      assert.equal(await page.locator(".toc a").count(), 2, "the prompts are listed");
      const open = () => page.locator("main details[open]").count();
      assert.equal(await page.locator("main details").count(), 5);
      assert.equal(await open(), 0, "tools are folded");
      await page.locator("#fold").click();
      assert.equal(await open(), 5, "tools unfold");
      await page.keyboard.press("e");
      assert.equal(await open(), 0, "tools fold again");
      const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
      const color = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const colors = new Map();
      for (let turn = 0; turn < 3; turn += 1) {
        colors.set(await theme(), await color());
        await page.locator("#theme").click();
      }
      assert.deepEqual([...colors.keys()].sort(), ["auto", "dark", "light"]);
      assert.notEqual(colors.get("dark"), colors.get("light"));
      await find(page, "ERR_CONNECTION_RESET", "1 of 1");
      assert.equal(await open(), 1, "a match in a folded tool is unfolded");
      await find(page, "nowhere to be found", "nothing found");
      await page.keyboard.press("Escape");
      await page.keyboard.press("?");
      await page.locator("#help[open]").waitFor();
    });
  },

  /** A page whose later parts wait: links, searches and keys lead to them all the same. */
  async long() {
    await within(options, {}, async ({ page }) => {
      await page.goto(options.url);
      const all = await page.locator(".chunk").count();
      const waiting = () => page.locator(".chunk:not(.there)").count();
      assert.ok(all > 20 && await waiting() > all - 10, "much of the page waits");
      assert.equal(await page.locator("main > .turn").count(), 4, "every prompt is there");
      assert.equal(await page.locator(".toc a").count(), 4);
      await page.goto(`${options.url}#m2002`);
      await page.waitForFunction(() => {
        const target = document.getElementById("m2002");
        return target && Math.abs(target.getBoundingClientRect().top) < 200;
      });
      assert.ok(await waiting() > all / 2, "a link fetches its message and not all the others");
      await find(page, "needle number 2600", "1 of 1");
      assert.match(await page.locator(".m.here").textContent(), /needle number 2600/);
      await page.waitForFunction(() => {
        const { top } = document.querySelector(".m.here").getBoundingClientRect();
        return top > 0 && top < innerHeight;
      });
      const rooms = await page.locator(".chunk:not(.there)").evaluateAll((chunks) => chunks.map((chunk) => parseFloat(chunk.style.minHeight)));
      assert.ok(rooms.every((room) => room < 5000), "what waits takes about the room that it will need");
      await page.locator("#find").blur();
      await page.keyboard.press("End");
      await page.waitForFunction(() => {
        const last = [...document.querySelectorAll(".chunk")].at(-1);
        const { bottom } = document.querySelector("footer").getBoundingClientRect();
        return last.classList.contains("there") && Math.abs(bottom - innerHeight) < 2;
      });
      await find(page, "output of step", "1 of 1500");
      assert.equal(await page.evaluate(() => window.RAN), undefined, "nothing ran");
      assert.equal(await page.locator("main script:not([type])").count(), 0);
      await page.locator("#fold").click();
      assert.equal(await page.locator(".chunk.there details:not([open])").count(), 0, "all is unfolded");
      await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      assert.equal(await waiting(), 0, "all of it can be printed");
      assert.equal(await page.locator("main .m").count(), 1504);
      assert.equal(await page.locator("main details:not([open])").count(), 0, "unfolding holds for what comes");
    });
  },

  /** A script that is not the page's own does not run. */
  async evil() {
    const { context, page, complaints } = await start({ ...options, profile: join(options.profile, "evil") });
    await page.goto(options.url);
    assert.equal(await page.evaluate(() => window.RAN), undefined);
    for (let left = 600; left > 0 && complaints.length === 0; left -= 1) await page.waitForTimeout(50);
    assert.match(complaints.join("\n"), /Content Security Policy/);
    await context.close();
  },
};

await scenarios[scenario]();
console.log("PASSED");
