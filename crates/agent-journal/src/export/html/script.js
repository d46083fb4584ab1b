"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  const one = (id) => document.getElementById(id);
  root.classList.add("js");

  // Theme: what the reader chose last holds for every exported page.
  const themes = ["dark", "light", "auto"];
  const themeButton = one("theme");
  const store = (value) => { try { localStorage.setItem("agent-journal-theme", value); } catch { /* private mode */ } };
  const setTheme = (name) => { root.dataset.theme = name; themeButton.textContent = name[0].toUpperCase() + name.slice(1); };
  let chosen = null;
  try { chosen = localStorage.getItem("agent-journal-theme"); } catch { /* private mode */ }
  setTheme(themes.includes(chosen) ? chosen : root.dataset.theme);
  const nextTheme = () => {
    const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    setTheme(next);
    store(next);
  };
  themeButton.addEventListener("click", nextTheme);

  // Times on the reader's clock.
  const dates = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
  const clocks = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
  const showTimes = (within) => {
    for (const time of all("time", within)) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) {
        time.title = time.textContent + " UTC";
        time.textContent = dates.format(at) + ", " + clocks.format(at);
      }
    }
  };
  showTimes(document);

  // Everything folded, or nothing.
  const foldButton = one("fold");
  let unfolded = false;
  const foldAll = () => {
    unfolded = !unfolded;
    for (const box of all("main details")) { box.open = unfolded; }
    if (foldButton) { foldButton.textContent = unfolded ? "Collapse all" : "Expand all"; }
  };
  if (foldButton) { foldButton.addEventListener("click", foldAll); }

  // A long session waits in chunks, each of which becomes markup when the reader comes near.
  const markup = (chunk) => {
    const template = document.createElement("template");
    template.innerHTML = JSON.parse(chunk.firstElementChild.textContent);
    return template.content;
  };
  const waiting = () => all(".chunk:not(.there)");
  const render = (chunk) => {
    if (chunk.classList.contains("there")) { return; }
    near.unobserve(chunk);
    const content = markup(chunk);
    showTimes(content);
    if (unfolded) { for (const box of all("details", content)) { box.open = true; } }
    chunk.classList.add("there");
    chunk.style.minHeight = "";
    chunk.replaceChildren(content);
    watchMessages(chunk);
  };
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) { if (entry.isIntersecting) { render(entry.target); } }
  }, { rootMargin: "1500px 0px" });
  const findChunk = (id) => {
    const [, of, number] = /^(.*?)m(\d+)$/.exec(id) || [];
    return waiting().find((chunk) => chunk.dataset.of === of && +chunk.dataset.first <= +number && +number <= +chunk.dataset.last);
  };
  const find = (id) => {
    const chunk = one(id) ? null : findChunk(id);
    if (chunk) { render(chunk); }
    return one(id);
  };
  addEventListener("beforeprint", () => { waiting().forEach(render); });

  const reveal = (element) => {
    for (let box = element.parentElement; box; box = box.parentElement) {
      if (box.tagName === "DETAILS") { box.open = true; }
    }
  };
  // What is near a place becomes markup only when the reader is there, and moves it: the place is
  // held until it has stood still for some frames, unless the reader goes on.
  let held = 0;
  const hold = (element, block) => {
    const mine = ++held;
    let still = 0;
    let last = null;
    const align = () => {
      if (mine !== held) { return; }
      element.scrollIntoView({ block });
      const place = scrollY + " " + root.scrollHeight;
      still = place === last ? still + 1 : 0;
      last = place;
      if (still < 40) { requestAnimationFrame(align); }
    };
    align();
  };
  for (const sign of ["wheel", "pointerdown", "keydown"]) {
    addEventListener(sign, () => { held += 1; }, { capture: true, passive: true });
  }
  const goTo = (element) => {
    reveal(element);
    hold(element, "start");
  };
  const followHash = () => {
    const target = location.hash && find(decodeURIComponent(location.hash.slice(1)));
    if (target) { goTo(target); }
  };
  addEventListener("hashchange", followHash);

  // Search.
  const field = one("find");
  const output = one("found");
  const marks = "highlights" in CSS ? new Highlight() : null;
  if (marks) { CSS.highlights.set("found", marks); }
  let hits = [];
  let at = -1;
  const mark = (element, needle) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let first = null;
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const text = node.data.toLowerCase();
      for (let from = text.indexOf(needle); from >= 0; from = text.indexOf(needle, from + needle.length)) {
        if (from + needle.length > node.length) { break; }
        const range = document.createRange();
        range.setStart(node, from);
        range.setEnd(node, from + needle.length);
        if (marks) { marks.add(range); }
        first = first || node;
      }
    }
    return first;
  };
  const show = (index) => {
    for (const element of all(".m.here")) { element.classList.remove("here"); }
    if (marks) { marks.clear(); }
    at = index;
    const hit = hits[at];
    const element = typeof hit === "string" ? find(hit) : hit;
    output.textContent = hits.length ? (at + 1) + " of " + hits.length : field.value ? "nothing found" : "";
    if (!element) { return; }
    element.classList.add("here");
    const node = mark(element, field.value.toLowerCase());
    reveal(element);
    if (node) { reveal(node); }
    hold(node ? node.parentElement : element, "center");
  };
  // What a chunk says, message by message: read once, kept for the next search.
  const texts = new WeakMap();
  const textsOf = (chunk) => {
    if (!texts.has(chunk)) {
      texts.set(chunk, all(".m", markup(chunk)).map((element) => [element.id, element.textContent.toLowerCase()]));
    }
    return texts.get(chunk);
  };
  const pause = () => new Promise((done) => setTimeout(done));
  let searches = 0;
  const search = async () => {
    const needle = field.value.toLowerCase();
    const number = ++searches;
    hits = [];
    show(-1);
    if (needle.length < 2) { return; }
    const places = all("main .m, main .chunk:not(.there)");
    let since = performance.now();
    for (const place of places) {
      if (place.classList.contains("m")) {
        if (place.textContent.toLowerCase().includes(needle)) { hits.push(place); }
      } else {
        for (const [id, text] of textsOf(place)) { if (text.includes(needle)) { hits.push(id); } }
      }
      if (performance.now() - since > 40) {
        output.textContent = "searching";
        await pause();
        if (number !== searches) { return; }
        since = performance.now();
      }
    }
    show(hits.length ? 0 : -1);
  };
  const step = (by) => { if (hits.length) { show((at + by + hits.length) % hits.length); } };
  if (field) {
    let timer = 0;
    field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 150); });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); }
      if (event.key === "Escape") { field.value = ""; search(); field.blur(); }
    });
  }

  // Copy buttons, for the code that is in sight.
  const copyButton = (pre) => {
    const box = document.createElement("div");
    box.className = "code";
    pre.replaceWith(box);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    box.append(pre, button);
  };
  const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { sight.unobserve(entry.target); copyButton(entry.target); }
    }
  });
  // Folded code waits until it is unfolded: a long session has tens of thousands of blocks.
  const watch = (within) => {
    for (const pre of all("pre", within)) {
      const box = pre.closest("details");
      if (!pre.closest(".code") && (!box || box.open)) { sight.observe(pre); }
    }
  };
  const watchMessages = (within) => {
    for (const message of all(".m", within)) { if (message.querySelector(":scope > pre")) { watch(message); } }
  };
  watchMessages(document);
  document.addEventListener("toggle", (event) => { if (event.target.open) { watch(event.target); } }, true);

  // Something has to hold the place of what is not there yet.
  for (const chunk of waiting()) {
    chunk.style.minHeight = Math.min(20000, 60 * (1 + Number(chunk.dataset.last) - Number(chunk.dataset.first))) + "px";
    near.observe(chunk);
  }
  followHash();

  // Where the reader is.
  const prompts = all("main > .turn");
  const links = new Map(all(".toc a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = links.get(entry.target.id);
      if (link) { link.classList.toggle("here", entry.isIntersecting); }
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const prompt of prompts) { seen.observe(prompt); }
  const contents = document.querySelector(".toc details");
  if (contents && matchMedia("(max-width: 71.99rem)").matches) { contents.open = false; }

  const jump = (by) => {
    const line = 90;
    const tops = prompts.map((prompt) => prompt.getBoundingClientRect().top);
    const index = by > 0 ? tops.findIndex((top) => top > line) : tops.findLastIndex((top) => top < line - 30);
    if (index >= 0) { hold(prompts[index], "start"); }
  };
  const help = one("help");
  const openHelp = () => { if (help) { help.showModal(); } };
  if (one("keys")) { one("keys").addEventListener("click", openHelp); }
  if (help) { help.querySelector("button").addEventListener("click", () => help.close()); }
  const keys = {
    "/": () => field && field.focus(), "j": () => jump(1), "k": () => jump(-1), "n": () => step(1), "N": () => step(-1),
    "e": foldAll, "t": nextTheme, "?": openHelp,
  };
  if (waiting().length) { keys.End = () => hold(document.querySelector("footer"), "end"); }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|TEXTAREA/.test(event.target.tagName)) { return; }
    if (Object.hasOwn(keys, event.key)) { event.preventDefault(); keys[event.key](); }
  });
})();
