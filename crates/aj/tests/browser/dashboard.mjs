// What a person does with the dashboard, in a real browser:
//   node dashboard.mjs SCENARIO '{"browser": …, "url": …, "profile": …, …}'
// A scenario fails by throwing; in the end nothing may have been complained about.

import { readFileSync, appendFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import { theme, transcript, within as inside } from "./lib.mjs";

const [scenario, given] = process.argv.slice(2);
const options = JSON.parse(given);
const within = (more, run) => inside(options, more, run);
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

  /** The list: a filter, a session, the way back. */
  async sessions() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + "/");
      const rows = page.locator("#rows > li.row:not(.labels)");
      const all = await rows.count();
      await page.locator("select[name=agent]").selectOption("codex");
      await page.waitForURL(/agent=codex/);
      await page.locator("#rows .badge.agent-codex").first().waitFor();
      const some = await rows.count();
      assert.ok(some > 0 && some < all, `${some} of ${all}`);
      assert.equal(await page.locator("#rows .badge:not(.agent-codex)").count(), 0);
      await page.goBack();
      await page.waitForURL((url) => !url.search);
      assert.equal(await page.locator("select[name=agent]").inputValue(), "", "the filter is as it is applied");
      await page.goto(origin + "/?project=nowhere-at-all");
      await page.getByText("No sessions match").waitFor();
      await page.getByRole("link", { name: "Show all sessions" }).click();
      await rows.first().locator("a.name").click();
      await page.waitForURL(/\/session\//);
      await page.locator("#transcript").waitFor();
    });
  },

  /** The search: as one types, by keyboard, to the message. */
  async search() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + "/");
      await page.keyboard.press("/");
      await page.locator("#q").waitFor();
      await page.waitForFunction(() => document.activeElement?.id === "q");
      await page.keyboard.type("backoff");
      await page.locator(".hits .hit mark").first().waitFor();
      await page.waitForURL(/q=backoff/);
      // A facet counts the whole answer and narrows it.
      const count = async (text) => Number((await text.textContent()).match(/[\d,]+/)[0].replaceAll(",", ""));
      const all = await count(page.locator("p.summary"));
      const agents = await page.locator(".facets ul").first().locator(".muted").allTextContents();
      assert.equal(agents.map((number) => Number(number.replaceAll(",", ""))).reduce((a, b) => a + b), all);
      await page.locator(".hits summary", { hasText: "context" }).first().click();
      await page.locator(".context[open] .transcript .m").first().waitFor();
      await page.locator(".facets ul").first().getByRole("link").first().click();
      await page.waitForURL(/agent/);
      const some = await count(page.locator("p.summary"));
      assert.ok(some > 0 && some <= all, `${some} of ${all}`);
      await page.locator(".facets a.on").first().waitFor();
      await page.locator("#q").fill("project:docs");
      await page.waitForFunction(() => !document.querySelector(".hits")?.textContent.includes("backoff"));
      await page.locator("#q").fill("prjoect:web retry");
      await page.getByText("did you mean").waitFor();
      await page.locator("#q").fill("xyzzyplugh");
      await page.waitForFunction(() => !document.querySelector(".hits"));
      await page.locator("#q").fill("backoff");
      await page.locator(".hits .hit mark").first().waitFor();
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/session\//);
      await page.locator("#transcript").waitFor();
    });
  },

  /** The transcript: tools fold, text is found, prompts are landmarks. */
  async transcript() {
    await within({}, async ({ page, origin }) => {
      const list = await page.goto(origin + "/?agent=claude-code&sort=tools");
      assert.equal(list.status(), 200);
      await page.locator("#rows a.name").first().click();
      await page.waitForURL(/\/session\//);
      const boxes = page.locator("#transcript details");
      await boxes.first().waitFor();
      const open = () => boxes.evaluateAll((all) => all.filter((box) => box.open).length);
      assert.equal(await open(), 0, "tools are folded");
      await page.locator("#fold").click();
      await page.waitForFunction(() => [...document.querySelectorAll("#transcript details")].every((box) => box.open));
      await page.locator("#fold").click();
      await page.waitForFunction(() => ![...document.querySelectorAll("#transcript details")].some((box) => box.open));
      await boxes.first().locator("summary").first().click();
      assert.ok(await open() >= 1, "one unfolds");
      assert.ok(await page.locator("#outline a").count() > 1, "prompts are listed");
      await page.locator("#find").fill("waitForSession");
      await page.locator("#occurrences mark, #occurrences a").first().waitFor();
      await page.locator("#outline a").last().click();
      await page.waitForURL(/#m\d+/);
    });
  },

  /** From prompt to prompt, tool to tool, failure to failure: by button, by key, past what is loaded. */
  async jumps() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + options.session);
      await page.locator(".jumps:not([hidden])").waitFor();
      const here = () => page.evaluate(() => {
        const place = document.querySelector(".transcript .here");
        return [place?.className ?? "", place?.textContent.match(/(?:step|ask)-\d+/)?.[0] ?? ""];
      });
      const landed = async (kind, text) => {
        await page.waitForFunction((text) => document.querySelector(".transcript .here")?.textContent.includes(text), text);
        assert.match((await here())[0], kind);
        assert.ok(await page.locator(".transcript .here").first().isVisible(), text);
      };
      await page.getByRole("button", { name: "Next tool" }).click();
      await landed(/tool/, "step-0");
      await page.getByRole("button", { name: "Next tool" }).click();
      await landed(/tool/, "step-1");
      await page.keyboard.press("u");
      await landed(/tool/, "step-2");
      await page.keyboard.press("U");
      await landed(/tool/, "step-1");
      await page.keyboard.press("n");
      await landed(/prompt/, "ask-2");
      await page.keyboard.press("p");
      await landed(/prompt/, "ask-1");
      // The only failure lies far beyond the first window.
      await page.keyboard.press("e");
      await page.waitForURL(/from=\d+#m\d+/);
      await page.locator(".transcript details.failed").waitFor();
      await page.goto(origin + `${options.session}?show=prompts`);
      await page.locator(".transcript .prompt").first().waitFor();
      assert.equal(await page.locator(".transcript details.tool").count(), 0);
      await page.getByRole("link", { name: "Tools", exact: true }).click();
      await page.waitForURL(/show=tools/);
      await page.locator(".transcript details.tool").first().waitFor();
      assert.equal(await page.locator(".transcript .prompt").count(), 0);
      await page.getByRole("link", { name: "Answers", exact: true }).click();
      await page.waitForURL(/show=answers/);
      await page.getByText("answer-0").waitFor();
      assert.equal(await page.locator(".transcript .prompt, .transcript details.tool").count(), 0);
    });
  },

  /** More prompts than can be listed at once: parts, opened as they are read, and none left out. */
  async outline() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + options.session);
      await page.locator("#outline details.part").first().waitFor();
      assert.equal(await page.locator("#outline details.part").count(), 7);
      await page.locator("#outline .part[open] a[data-index]", { hasText: "ask-0" }).waitFor();
      const fifth = page.locator("#outline details.part").nth(4);
      // The list follows what is read, but not under the pointer.
      await fifth.locator("summary").hover();
      await fifth.locator("summary").click();
      await fifth.locator("a", { hasText: /ask-477\b/ }).click();
      await page.locator(".transcript .prompt", { hasText: /ask-477\b/ }).waitFor();
      await page.locator("#outline a.here", { hasText: /ask-477\b/ }).waitFor();
    });
  },

  /** A place in a long session: found under the bar, unfolded, and where its address leads back to. */
  async places() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + options.session);
      const here = page.locator(".transcript .here");
      // Below what stays at the top, and on the screen, once everything has come to rest.
      const stands = () => page.waitForFunction(() => {
        const bar = document.querySelector(".text > .tools").getBoundingClientRect().bottom;
        const top = document.querySelector(".transcript .here")?.getBoundingClientRect().top;
        return top >= bar && top < bar + 40;
      });
      for (const key of ["n", "n"]) { await page.keyboard.press(key); await stands(); }
      // What is found is listed where the reader is.
      await page.mouse.wheel(0, 3000);
      await page.waitForFunction(() => scrollY > 2000);
      await page.locator("#find").fill("outcome of step-150");
      const found = page.locator("#occurrences a").first();
      await found.waitFor();
      const box = await found.boundingBox();
      assert.ok(box.y > 0 && box.y < 400, `the list is at ${box.y}`);
      // The output of a tool is shown in its call.
      await found.click();
      await page.waitForURL(/#m\d+/);
      await page.locator(".transcript details.tool.here[open]", { hasText: "outcome of step-150" }).waitFor();
      await stands();
      // So is what went into it.
      await page.locator("#find").fill("step-151");
      const call = page.locator("#occurrences a", { hasText: "command" }).first();
      await call.click();
      await page.locator(".transcript .m.here details.tool[open]", { hasText: "step-151" }).waitFor();
      // Several thousand lines further on, without the way there.
      await page.locator("#find").press("Escape");
      assert.equal(await page.locator("#occurrences a").count(), 0, "the list is closed");
      await page.goto(origin + options.session);
      for (let turn = 0; turn < 3; turn += 1) {
        const before = await page.evaluate(() => document.querySelectorAll(".transcript .m").length);
        await page.evaluate(() => scrollTo({ top: document.body.scrollHeight, behavior: "instant" }));
        await page.waitForFunction((before) => document.querySelectorAll(".transcript .m").length > before, before);
      }
      await page.locator("#outline a", { hasText: /ask-30\b/ }).click();
      await stands();
      assert.match(await here.textContent(), /ask-30\b/);
      // Its address leads back to it.
      assert.match(page.url(), /#m\d+$/);
      await page.reload();
      await page.locator(".transcript .here", { hasText: /ask-30\b/ }).waitFor();
      await stands();
      await page.goto(`${origin}${options.session}#m601`);
      await page.locator(".transcript .here", { hasText: /ask-150\b/ }).waitFor();
      await stands();
    });
  },

  /** Everything by keyboard: the sheet of keys, pages, rows, the theme. */
  async keyboard() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + "/");
      await page.locator("#theme:not([hidden])").waitFor();
      await page.keyboard.press("?");
      await page.locator("dialog#keys[open]").waitFor();
      await page.keyboard.press("Escape");
      await page.locator("dialog#keys:not([open])").waitFor({ state: "attached" });
      // Three themes in turn: light, dark, and as the system has it.
      const seen = new Set();
      for (let turn = 0; turn < 3; turn += 1) {
        const label = await page.locator("#theme").textContent();
        seen.add(label);
        await page.keyboard.press("t");
        await page.waitForFunction((label) => document.getElementById("theme").textContent !== label, label);
      }
      assert.equal(seen.size, 3, [...seen].join());
      for (const [key, path] of [["3", "/analytics"], ["4", "/insights"], ["5", "/sources"], ["2", "/search"]]) {
        await page.evaluate(() => document.activeElement?.blur());
        await page.keyboard.press(key);
        await page.waitForURL((url) => url.pathname === path);
        await page.locator("#theme:not([hidden])").waitFor();
      }
      await page.goto(origin + "/");
      await page.locator("#theme:not([hidden])").waitFor();
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/session\//);
      // The first stop of the tabulator is the way past the navigation.
      await page.goto(origin + "/analytics");
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    });
  },

  /** What an agent writes appears by itself, in the list and in the session. */
  async live() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + options.session);
      await page.locator("#transcript").waitFor();
      const facts = () => page.locator(".tabs a[aria-current] .muted").textContent();
      assert.equal(await facts(), "2");
      // What comes before the page listens is in it already.
      const listening = () => page.locator("#live", { hasText: "Up to date" }).waitFor();
      await listening();
      appendFileSync(options.file, options.line);
      await page.locator("#transcript", { hasText: "a message that has just been written" }).waitFor();
      await page.locator(".tabs a[aria-current] .muted", { hasText: /^4$/ }).waitFor();
      await page.locator("#outline a", { hasText: "one more thing" }).waitFor();
      assert.equal(await page.locator("#transcript .m").count(), 4, "nothing is there twice");
      // The list counts what is new, under one line of labels.
      await page.goto(origin + "/");
      await page.locator("#total", { hasText: "1 session" }).waitFor();
      await listening();
      writeFileSync(options.other, options.lines);
      await page.locator("#total", { hasText: "2 sessions" }).waitFor();
      assert.equal(await page.locator("#rows > .labels").count(), 1);
      assert.equal(await page.locator("#rows > .row:not(.labels)").count(), 2);
    });
  },

  /** News that come while others are being fetched lose nothing; who reads on is left alone. */
  async news() {
    await within({}, async ({ context, page, origin }) => {
      // What the page was told so far.
      await context.addInitScript(() => {
        window.told = [];
        window.EventSource = class extends EventSource {
          constructor(address) {
            super(address);
            this.addEventListener("news", ({ data }) => window.told.push(JSON.parse(data).change));
          }
        };
      });
      // Keeps answers with a text in them back until they are let go.
      const hold = async (isMeant, text) => {
        let begin, letGo;
        const first = new Promise((resolve) => { begin = resolve; });
        const free = new Promise((resolve) => { letGo = resolve; });
        await page.route(isMeant, async (route) => {
          const response = await route.fetch();
          if ((await response.text()).includes(text)) {
            begin();
            await free;
          }
          await route.fulfill({ response });
        });
        return { first, letGo };
      };
      const last = () => page.evaluate(() => window.told.at(-1));
      const newer = (known) => page.waitForFunction((known) => window.told.at(-1) > known, known);
      await page.goto(origin + options.session);
      await page.waitForFunction(() => window.told.length > 0);
      const count = await page.locator("#transcript .m").count();
      const parts = await hold((url) => url.pathname.endsWith("/part"), "the first news");
      appendFileSync(options.file, options.lines[0]);
      await parts.first;
      const known = await last();
      appendFileSync(options.file, options.lines[1]);
      await newer(known);
      parts.letGo();
      await page.locator("#transcript", { hasText: "the second news" }).waitFor();
      assert.equal(await page.locator("#transcript", { hasText: "the first news" }).count(), 1);
      assert.equal(await page.locator("#transcript .m").count(), count + 2, "nothing is lost, nothing is there twice");
      // Who reads the end stays there, unless they leave it.
      const facts = page.locator(".tabs a[aria-current] .muted");
      await facts.filter({ hasText: /^42$/ }).waitFor();
      await page.evaluate(() => scrollTo({ top: document.body.scrollHeight, behavior: "instant" }));
      const pages = await hold((url) => url.pathname === new URL(origin + options.session).pathname && url.search, "the third news");
      appendFileSync(options.file, options.lines[2]);
      await pages.first;
      await page.locator("#transcript", { hasText: "the third news" }).waitFor();
      assert.ok(await page.evaluate(() => innerHeight + scrollY > document.body.scrollHeight - 120), "the end is shown");
      await page.evaluate(() => scrollTo({ top: 0, behavior: "instant" }));
      pages.letGo();
      await facts.filter({ hasText: /^43$/ }).waitFor();
      assert.equal(await page.evaluate(() => scrollY), 0, "the reader is left alone");
      await page.unrouteAll({ behavior: "wait" });
    });
  },

  /** Ten thousand sessions: the list is quick to come and stays smooth. */
  async many() {
    await within({}, async ({ page, origin }) => {
      await page.goto(origin + "/");
      await page.locator("#total", { hasText: "10,000 sessions" }).waitFor();
      const rows = () => page.locator("#rows > li.row:not(.labels)").count();
      const first = await rows();
      assert.ok(first > 0 && first <= 500, `${first} rows at first`);
      await page.locator("#rows .more").scrollIntoViewIfNeeded();
      await page.waitForFunction((first) => document.querySelectorAll("#rows > li.row:not(.labels)").length > first, first);
      await page.goto(origin + "/analytics?since=all");
      assert.equal(await page.locator(".tiles dd strong").first().textContent(), "10,000");
    });
  },

  /** Nothing that a session holds can run, load or leave its place. */
  async hostile() {
    await within({}, async ({ page, origin }) => {
      for (const address of [options.session, "/", "/search?q=hostile", "/analytics?since=all", "/insights"]) {
        await page.goto(origin + address);
        await page.waitForLoadState("load");
        assert.equal(await page.evaluate(() => window.pwned), undefined, address);
        const foreign = await page.evaluate(() => document.querySelectorAll(
          "main script, main iframe, main object, main embed, main form[action^='http'], main [onerror], main [onclick], main a[href^='javascript:'], main img[src^='http'], main style, main [style]").length);
        assert.equal(foreign, 0, address);
      }
    });
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
      await page.getByText("Changes are relative to the period before.").waitFor();
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
      await page.locator("#calendar svg a").last().click();
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

await scenarios[scenario]();
console.log("PASSED");
