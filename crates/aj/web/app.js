// Every page works without this. It adds: the theme, the keys, search as you type, windows that
// arrive while scrolling, and news of what the agents write.

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
const root = document.documentElement;

// Fetches a piece of a page. `null` when it was asked for in vain.
async function piece(address, signal) {
  try {
    const response = await fetch(address, { signal, headers: { accept: "text/html" } });
    return response.ok ? await response.text() : null;
  } catch {
    return null;
  }
}

function parsed(text) {
  const template = document.createElement("template");
  // The server escaped it, and the page's policy lets nothing in it run.
  template.innerHTML = text;
  return template.content;
}

// Theme: light, dark, or as the system has it.
const themes = ["system", "light", "dark"];
const themeButton = one("#theme");
function showTheme() {
  const name = root.dataset.theme ?? "system";
  themeButton.textContent = `Theme: ${name}`;
}
function nextTheme() {
  const next = themes[(themes.indexOf(root.dataset.theme ?? "system") + 1) % themes.length];
  if (next === "system") {
    delete root.dataset.theme;
    localStorage.removeItem("aj-theme");
  } else {
    root.dataset.theme = next;
    localStorage.setItem("aj-theme", next);
  }
  showTheme();
}
if (themeButton) {
  themeButton.hidden = false;
  themeButton.addEventListener("click", nextTheme);
  showTheme();
}

// The sheet of keys.
const sheet = one("#keys");
const sheetButton = one("#keys-open");
if (sheetButton) {
  sheetButton.hidden = false;
  sheetButton.addEventListener("click", () => sheet.showModal());
}

// Filters apply when they are changed; without scripts there is a button.
for (const form of all("form[data-auto]")) {
  form.classList.add("auto");
  form.addEventListener("change", () => {
    const params = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value && !(name === "sort" && value === "latest")) params.append(name, value);
    location.search = params.toString();
  });
  // Who comes back to a page that was kept finds the filters as they are applied.
  addEventListener("pageshow", (event) => { if (event.persisted) form.reset(); });
}

// Times on the reader's clock, in words of the browser.
function localTimes(within) {
  for (const time of all(".transcript time", within)) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime()) || time.title) continue;
    time.title = at.toLocaleString();
    time.textContent = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  }
}

// What follows a list or a conversation arrives when its end comes near.
const ends = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) follow(entry.target);
}, { rootMargin: "1200px 0px" });
async function follow(end) {
  ends.unobserve(end);
  const address = end.dataset.more ?? one("[data-part]", end)?.dataset.part;
  if (!address) return;
  const text = await piece(address);
  if (text === null) return;
  const content = parsed(text);
  const added = Array.from(content.children);
  end.replaceWith(content);
  for (const element of added) ready(element.parentElement ?? document);
}
function watchEnds(within) {
  for (const end of all("[data-more], .more.later", within)) ends.observe(end);
}

// Earlier messages, above what is shown, without moving what is read.
async function precede(box) {
  const link = one("a[data-part]", box);
  const text = await piece(link.dataset.part);
  if (text === null) return;
  const after = box.nextElementSibling;
  const top = after?.getBoundingClientRect().top ?? 0;
  box.after(parsed(text));
  const from = Number(new URL(link.dataset.part, location).searchParams.get("from"));
  if (from <= 1) box.remove();
  else {
    const next = new URL(link.dataset.part, location);
    next.searchParams.set("from", Math.max(1, from - 60));
    next.searchParams.set("until", from);
    link.dataset.part = next.pathname + next.search;
  }
  if (after) scrollBy({ top: after.getBoundingClientRect().top - top, behavior: "instant" });
  ready(document);
}
document.addEventListener("click", (event) => {
  const link = event.target.closest(".earlier a[data-part]");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  precede(link.closest(".earlier"));
});

// Folded parts that are fetched when they are opened.
document.addEventListener("toggle", async (event) => {
  const box = event.target;
  if (!box.open || !box.dataset?.load || box.dataset.loaded) return;
  box.dataset.loaded = "1";
  const text = await piece(box.dataset.load);
  // Opened once more, it is asked for once more.
  if (text === null) { delete box.dataset.loaded; return; }
  const place = box.lastElementChild;
  place.replaceChildren(parsed(text));
  ready(place);
  markHere();
}, true);

// The prompts of a long session come after its first messages.
const outline = one("#outline");
if (outline?.dataset.load) {
  piece(outline.dataset.load).then((text) => {
    if (text !== null) outline.replaceChildren(parsed(text));
    markHere();
  });
}

// Shows a prompt in its list, without moving the page, nor the list under the hand of its reader.
function reveal(link) {
  if (outline.matches(":hover, :focus-within")) return;
  const [list, box] = [outline.getBoundingClientRect(), link.getBoundingClientRect()];
  if (box.top < list.top) outline.scrollTop -= list.top - box.top;
  else if (box.bottom > list.bottom) outline.scrollTop += box.bottom - list.bottom;
}

// Which prompt is being read.
function markHere() {
  if (!outline) return;
  const links = all("a[data-index]", outline);
  const turns = all("#transcript .turn[id]");
  const read = turns.findLast((turn) => turn.getBoundingClientRect().top < innerHeight / 3) ?? turns[0];
  const here = read?.id.slice(1);
  // Of many prompts, the part is opened that is being read.
  const part = all("details.part", outline).findLast((part) => Number(part.dataset.from) <= Number(here));
  if (part && !part.open) part.open = true;
  for (const link of links) {
    const is = link.dataset.index === here;
    if (is && !link.classList.contains("here")) reveal(link);
    link.classList.toggle("here", is);
  }
}
let marking = false;
addEventListener("scroll", () => {
  if (marking || !outline) return;
  marking = true;
  requestAnimationFrame(() => { marking = false; markHere(); });
}, { passive: true });

// A jump within what is loaded needs no new page.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-index]");
  if (!link || event.ctrlKey || event.metaKey) return;
  const target = document.getElementById(`m${link.dataset.index}`);
  if (!target) return;
  event.preventDefault();
  jumpTo(target, new URL(link.href).searchParams.get("find"));
});
function jumpTo(target, text) {
  for (let box = target; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  if (text) unfold(one(":scope > .prompt", target) ?? target, text.toLowerCase());
  for (const old of all(".transcript .here")) old.classList.remove("here");
  target.classList.add("here");
  hold(target);
  history.replaceState(null, "", `#${target.id}`);
}
// Opens what has a text in it that was found.
function unfold(message, text) {
  for (const box of all("details", message)) if (box.textContent.toLowerCase().includes(text)) box.open = true;
}
// What is laid out only when it comes near moves everything around it: a place is held until it
// has stood still for some frames, unless the reader goes on.
let held = 0;
function hold(place) {
  const mine = ++held;
  let still = 0;
  let last = null;
  const align = () => {
    if (mine !== held) return;
    place.scrollIntoView({ block: "start", behavior: "instant" });
    const seen = `${scrollY} ${document.documentElement.scrollHeight}`;
    still = seen === last ? still + 1 : 0;
    last = seen;
    if (still < 30) requestAnimationFrame(align);
  };
  align();
}
for (const sign of ["wheel", "pointerdown", "keydown"]) {
  addEventListener(sign, () => { held += 1; }, { capture: true, passive: true });
}
// What stays at the top while one reads covers nothing that one jumps to.
const bar = one(".text > .tools");
function clearBar() {
  const stays = getComputedStyle(bar).position === "sticky";
  root.style.setProperty("--bar", `${stays ? bar.offsetHeight + 8 : 16}px`);
}
if (bar) {
  clearBar();
  new ResizeObserver(clearBar).observe(bar);
}
// The messages that are here, with their numbers.
function messages(within) {
  return all(".m[id^='m'], .turn[id^='m']", within).map((place) => [Number(place.id.slice(1)), place]);
}
// Goes to the message that the address names: it is here, or what holds it, or it is fetched.
function followHash() {
  const index = Number(/^#m(\d+)$/.exec(location.hash)?.[1]);
  const transcript = one("#transcript");
  if (!index || !transcript) return;
  const known = messages(transcript);
  const isLoaded = known.some(([number]) => number <= index) && known.some(([number]) => number >= index);
  const target = document.getElementById(`m${index}`) ?? (isLoaded && known.findLast(([number]) => number <= index)?.[1]);
  const address = new URL(location);
  if (target) return jumpTo(target, address.searchParams.get("find"));
  if (Number(address.searchParams.get("from")) === index) return;
  address.searchParams.set("from", index);
  location.replace(address);
}
addEventListener("hashchange", followHash);

// Folding.
const foldButton = one("#fold");
let unfolded = false;
function foldAll() {
  unfolded = !unfolded;
  for (const box of all(".transcript details.tool, .transcript details.thinking")) box.open = unfolded;
  if (foldButton) foldButton.textContent = unfolded ? "Collapse tools" : "Expand tools";
}
if (foldButton) {
  foldButton.hidden = false;
  foldButton.addEventListener("click", foldAll);
}

// Copying.
function copyButton(code) {
  if (code.nextElementSibling?.className === "copy") return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy ${code.textContent}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  code.after(button);
}

// Every message can be seen as it is kept.
function recordLinks(within) {
  const base = one("[data-session]")?.dataset.session;
  if (!base) return;
  for (const number of all("#transcript .who > a[href^='#m']", within)) {
    if (number.nextElementSibling?.classList.contains("record")) continue;
    const link = document.createElement("a");
    link.className = "record";
    link.href = `${base}/message/${number.textContent.slice(1)}`;
    link.textContent = "record";
    number.after(link);
  }
}

// Finding in a session.
const findForm = one("form[data-find]");
if (findForm) {
  const place = one("#occurrences");
  let asked = 0;
  const find = async () => {
    const turn = ++asked;
    const text = new FormData(findForm).get("q").trim();
    if (text.length < 2) return place.replaceChildren();
    const found = await piece(`${findForm.action}?rows=1&q=${encodeURIComponent(text)}`);
    if (turn === asked && found !== null) place.replaceChildren(parsed(found));
  };
  let timer = 0;
  findForm.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(find, 250); });
  findForm.addEventListener("submit", (event) => { event.preventDefault(); find(); });
  findForm.addEventListener("keydown", (event) => { if (event.key === "Escape") { findForm.reset(); find(); } });
}

// Search as you type: older answers are discarded, the address always says what is shown.
const searchForm = one("form[data-search]");
if (searchForm) {
  const field = one("#q");
  const agent = one("select[data-agent]", searchForm);
  const place = one("#results");
  const list = one("#suggestions");
  let running = null;
  const search = async () => {
    running?.abort();
    running = new AbortController();
    const text = field.value.trim();
    const sort = new URL(location).searchParams.get("sort");
    const said = Object.entries({ q: text, agent: agent.value, sort: text && sort }).filter(([, value]) => value);
    const query = said.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
    const address = query ? `/search?${query}` : "/search";
    const found = await piece(`${address}${query ? "&" : "?"}rows=1`, running.signal);
    if (found === null) return;
    place.replaceChildren(parsed(found));
    history.replaceState(null, "", address);
    document.title = `${text ? `${text} · ` : ""}Search · agent-journal`;
  };
  const word = () => field.value.slice(0, field.selectionStart).split(/\s+/).at(-1);
  const close = () => { list.hidden = true; field.setAttribute("aria-expanded", "false"); field.removeAttribute("aria-activedescendant"); };
  const take = (text) => {
    const at = field.selectionStart;
    const start = at - word().length;
    const space = text.endsWith(":") ? "" : " ";
    field.value = field.value.slice(0, start) + text + space + field.value.slice(at).trimStart();
    const end = start + text.length + space.length;
    field.setSelectionRange(end, end);
    close();
    suggest();
    search();
  };
  let suggesting = 0;
  const suggest = async () => {
    const turn = ++suggesting;
    const begun = word();
    if (!/^-?[a-z]+:?/.test(begun)) return close();
    let offers = [];
    try {
      const response = await fetch(`/api/v1/complete?q=${encodeURIComponent(begun)}`);
      offers = response.ok ? (await response.json()).completions : [];
    } catch { /* the next letter asks again */ }
    if (turn !== suggesting) return;
    if (!offers.length) return close();
    list.replaceChildren(...offers.map((offer, index) => {
      const item = document.createElement("li");
      item.id = `offer-${index}`;
      item.setAttribute("role", "option");
      const name = document.createElement("b");
      name.textContent = offer.text;
      const about = document.createElement("span");
      about.textContent = offer.about;
      item.append(name, about);
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(offer.text); });
      return item;
    }));
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
  };
  const move = (by) => {
    const items = all("li", list);
    const at = items.findIndex((item) => item.getAttribute("aria-selected"));
    items[at]?.removeAttribute("aria-selected");
    const next = items[(at + by + items.length + (at < 0 && by < 0 ? 1 : 0)) % items.length];
    next.setAttribute("aria-selected", "true");
    field.setAttribute("aria-activedescendant", next.id);
  };
  let timer = 0;
  field.addEventListener("input", () => {
    suggest();
    clearTimeout(timer);
    timer = setTimeout(search, 120);
  });
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    const chosen = list.hidden ? null : one("[aria-selected]", list);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!list.hidden) move(event.key === "ArrowDown" ? 1 : -1);
      else if (event.key === "ArrowDown") { field.blur(); step(1); }
    } else if ((event.key === "Enter" || event.key === "Tab") && chosen) {
      event.preventDefault();
      take(one("b", chosen).textContent);
    } else if (event.key === "Enter") {
      event.preventDefault();
      close();
      search();
    } else if (event.key === "Escape" && !list.hidden) {
      event.stopPropagation();
      close();
    }
  });
  searchForm.addEventListener("submit", (event) => { event.preventDefault(); search(); });
  agent.addEventListener("change", search);
  if (!field.value) field.focus();
}

// Walking rows and results.
function stops() {
  return all(".sessions > .row .name, .hits a.name, .hits.flat a, .hits li li > a");
}
function step(by) {
  const places = stops();
  const at = places.indexOf(document.activeElement);
  const next = places[Math.min(Math.max(at + by, 0), places.length - 1)];
  if (at === 0 && by < 0 && one("#q")) return one("#q").focus();
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

// Walking a conversation, further than has been loaded if need be.
const kinds = {
  prompt: ".transcript .prompt",
  tool: ".transcript details.tool",
  error: ".transcript details.failed, .transcript .m > .bad",
};
let landed = null;
function nearest(kind, by) {
  const places = all(kinds[kind]).filter((place) => place.offsetParent !== null);
  const box = landed?.isConnected && landed.getBoundingClientRect();
  // From where the last jump led, unless the reader has left it.
  if (box && box.bottom > 0 && box.top < innerHeight) {
    const side = by > 0 ? Node.DOCUMENT_POSITION_FOLLOWING : Node.DOCUMENT_POSITION_PRECEDING;
    const beside = places.filter((place) => landed.compareDocumentPosition(place) & side);
    return by > 0 ? beside[0] : beside.at(-1);
  }
  const line = parseFloat(getComputedStyle(root).scrollPaddingTop);
  const top = (place) => place.getBoundingClientRect().top;
  return by > 0 ? places.find((place) => top(place) > line + 18) : places.findLast((place) => top(place) < line - 22);
}
function land(place) {
  for (const old of all(".transcript .here")) old.classList.remove("here");
  landed = place;
  place.classList.add("here");
  hold(place);
  one("summary", place)?.focus({ preventScroll: true });
  one("#jumped").textContent = place.textContent.trim().slice(0, 120);
}
let jumping = false;
async function jump(kind, by) {
  if (jumping || !isReading()) return;
  jumping = true;
  try {
    for (;;) {
      const place = nearest(kind, by);
      if (place) return land(place);
      if (kind === "error" && farError(by)) return;
      const end = one(by > 0 ? ".transcript > .more.later" : ".transcript > .more.earlier");
      if (!end) break;
      await (by > 0 ? follow(end) : precede(end));
      // What could not be fetched will not be there the next time either.
      if (end.isConnected && by > 0) break;
    }
    one("#jumped").textContent = "No more.";
  } finally {
    jumping = false;
  }
}
// Where a failure is that has not been loaded is known beforehand.
function farError(by) {
  const numbers = messages(one("#transcript")).map(([number]) => number);
  const [first, last] = [Math.min(...numbers), Math.max(...numbers)];
  const known = all(".errors li", outline ?? document).map((item) => Number(item.dataset.index));
  const next = by > 0 ? known.find((index) => index > last) : known.findLast((index) => index < first);
  const base = one("[data-session]")?.dataset.session;
  if (next && base) location.href = `${base}?from=${next}#m${next}`;
  return Boolean(next);
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-jump]");
  if (button) jump(button.dataset.jump, Number(button.dataset.by));
});

const pages = { 1: "/", 2: "/search", 3: "/analytics", 4: "/insights", 5: "/sources" };
const isReading = () => Boolean(one("#transcript"));
const keys = {
  "?": () => sheet?.showModal(),
  "/": () => { const field = one("#q") ?? one("#find"); if (field) { field.focus(); field.select(); } else location.href = "/search"; },
  "t": nextTheme,
  "j": () => (isReading() ? scrollBy({ top: 80 }) : step(1)),
  "k": () => (isReading() ? scrollBy({ top: -80 }) : step(-1)),
  "n": () => { jump("prompt", 1); },
  "p": () => { jump("prompt", -1); },
  "u": () => { jump("tool", 1); },
  "U": () => { jump("tool", -1); },
  "e": () => { jump("error", 1); },
  "E": () => { jump("error", -1); },
  "o": foldAll,
  "ArrowDown": () => { if (isReading()) return false; step(1); },
  "ArrowUp": () => { if (isReading()) return false; step(-1); },
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || sheet?.open) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (Object.hasOwn(pages, event.key)) { location.href = pages[event.key]; return; }
  if (Object.hasOwn(keys, event.key) && keys[event.key]() !== false) event.preventDefault();
});

// News: what changed is fetched again, where it is shown.
const live = one("#live");
let known = null;
// One look at a time: two at once would both replace the end of a conversation. For news that come
// meanwhile there is another look.
let looking = false;
let isStale = false;
async function refresh() {
  isStale = true;
  if (looking) return;
  looking = true;
  try {
    while (isStale) {
      isStale = false;
      await look();
    }
  } finally {
    looking = false;
  }
}
async function look() {
  const rows = one("[data-live='rows']");
  if (rows && scrollY < 400 && !rows.contains(document.activeElement)) {
    const text = await piece(location.href);
    if (text !== null && scrollY < 400) renew(parsed(text), ["#total", "#rows"]);
  } else if (one(".empty") && location.pathname === "/") {
    location.reload();
  }
  const transcript = one("[data-live='transcript']");
  const end = transcript && one("[data-end]", transcript);
  if (end) await append(transcript, end);
}
// Puts parts of a page as it is now in their places, but for those that somebody uses.
function renew(page, names) {
  for (const name of names) {
    const [old, fresh] = [one(name), one(name, page)];
    if (old && fresh && !old.contains(document.activeElement)) old.replaceWith(fresh);
  }
  ready(document);
}
// What is said about a running session grows with it.
async function renewFacts(from, hasPrompt) {
  const address = new URL(location);
  address.searchParams.set("from", from);
  const text = await piece(address);
  if (text === null) return;
  const page = parsed(text);
  renew(page, [".session > .head", ".session > .tabs", ".jumps"]);
  const fresh = one("#outline", page);
  if (!fresh || outline.matches(":focus-within")) return;
  // To list the prompts of a long session takes a while: only when there is a new one.
  const list = fresh.dataset.load ? hasPrompt && await piece(fresh.dataset.load) : fresh.innerHTML;
  if (list) outline.replaceChildren(parsed(list));
  markHere();
}
// A running session goes on below; who reads its end stays at its end.
async function append(transcript, end) {
  const [from] = messages(transcript).at(-1) ?? [1];
  const address = new URL(`${one("[data-session]").dataset.session}/part`, location);
  address.searchParams.set("from", from);
  const show = new URL(location).searchParams.get("show");
  if (show) address.searchParams.set("show", show);
  const text = await piece(address);
  if (text === null) return;
  const isAtEnd = innerHeight + scrollY > document.body.scrollHeight - 120;
  const content = parsed(text);
  const numbers = messages(content).map(([number]) => number);
  const hasPrompt = all(".turn", content).some((turn) => Number(turn.id.slice(1)) > from);
  // The last message may have got its results: it is replaced, the rest is added.
  for (const [number, old] of messages(transcript)) if (number >= Math.min(...numbers)) old.remove();
  end.replaceWith(content);
  ready(transcript);
  if (isAtEnd) scrollTo({ top: document.body.scrollHeight, behavior: "instant" });
  await renewFacts(from, hasPrompt);
}
function listen() {
  const events = new EventSource("/events");
  events.addEventListener("news", (event) => {
    const news = JSON.parse(event.data);
    if (live) live.textContent = news.total ? `Reading… ${Math.floor((100 * news.done) / news.total)} %` : "Up to date";
    if (known !== null && news.change !== known) refresh();
    known = news.change;
  });
  events.addEventListener("error", () => { if (live) live.textContent = "aj serve is not running"; });
  return events;
}
let events = null;
function attend() {
  if (document.hidden) { events?.close(); events = null; } else events ??= listen();
}
document.addEventListener("visibilitychange", attend);
addEventListener("pagehide", () => { events?.close(); events = null; });
addEventListener("pageshow", attend);

// Makes new parts of the page work like the first.
function ready(within) {
  watchEnds(within);
  localTimes(within);
  recordLinks(within);
  for (const code of all("[data-copy]", within)) copyButton(code);
  for (const jumps of all(".jumps", within)) jumps.hidden = false;
}
root.classList.add("js");
ready(document);
attend();
followHash();
markHere();
