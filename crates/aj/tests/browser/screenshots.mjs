// Pictures of the six pages in both themes: node screenshots.mjs CHROMIUM URL DIRECTORY PROFILE

import { join } from "node:path";
import { smaller } from "./smaller.mjs";
import { start, theme, transcript } from "./lib.mjs";

const [browser, url, directory, profile] = process.argv.slice(2);

for (const name of ["light", "dark"]) {
  const options = { colorScheme: name, reducedMotion: "reduce" };
  const { context, page, origin, complaints } =
    await start({ browser, url, profile: join(profile, name) }, options);
  await theme(context, name);
  const pages = {
    sessions: origin + "/",
    search: origin + "/search?q=retry+backoff",
    transcript: await transcript(page, origin),
    analytics: origin + "/analytics?since=90d",
    insights: origin + "/insights",
    sources: origin + "/sources",
  };
  for (const [title, address] of Object.entries(pages)) {
    await page.goto(address);
    await page.waitForLoadState("load");
    const path = join(directory, `${title}-${name}.png`);
    await page.screenshot({ path });
    smaller(path);
  }
  await context.close();
  if (complaints.length) throw new Error(complaints.join("\n"));
}
