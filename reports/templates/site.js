// Themes, search, sorting, filtering, choices of columns and copying. The pages are complete without this script.
"use strict";

const root = document.documentElement;

function remembered(value) {
  // Storage may be forbidden, as it is for files in some browsers.
  try {
    if (value !== undefined) localStorage.setItem("harness-theme", value);
    return localStorage.getItem("harness-theme");
  } catch {
    return null;
  }
}

const theme = remembered();
if (theme === "dark" || theme === "light") root.dataset.theme = theme;

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function button(label, action) {
  const element = make("button", { type: "button", textContent: label });
  element.addEventListener("click", () => action(element));
  return element;
}

// What a reader chose stands in the address as #ID?KEY=VALUE, with names of rows and columns; the permanent link of the
// part with this id has it too.
function chosenIn(id) {
  const [at, query = ""] = location.hash.slice(1).split("?");
  return new URLSearchParams(at === id ? query : "");
}

function keep(id, choices) {
  const hash = `#${id}${choices.size ? `?${choices}` : ""}`;
  history.replaceState(null, "", hash);
  const link = document.getElementById(id)?.querySelector(".anchor");
  if (link) link.href = hash;
}

function addTheme() {
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => (isDark() ? "Light" : "Dark");
  const toggle = button(label(), (self) => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remembered(root.dataset.theme);
    self.textContent = label();
  });
  toggle.className = "theme";
  toggle.title = "Switch between light and dark";
  document.querySelector(".bar").append(toggle);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { value: text, readOnly: true });
    area.style.position = "fixed";
    area.style.opacity = "0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function copyButton(label, text) {
  return button(label, async (self) => {
    const back = document.activeElement;
    self.textContent = (await copyText(text())) ? "Copied" : "Select and copy";
    back?.focus();
    setTimeout(() => { self.textContent = label; }, 1500);
  });
}

function addCopies(within = document) {
  for (const place of within.querySelectorAll(":is(.commands, .key) .copy")) {
    place.after(copyButton("Copy", () => place.textContent));
  }
  for (const list of within.querySelectorAll("ul.commands")) {
    const all = [...list.querySelectorAll(".copy")];
    if (all.length > 1) {
      list.before(make("div", { className: "tools" }, copyButton("Copy all", () => all.map((one) => one.textContent).join("\n") + "\n")));
    }
  }
  for (const place of within.querySelectorAll("blockquote.copied")) {
    place.after(make("div", { className: "tools" }, copyButton("Copy sentence", () => place.textContent)));
  }
  for (const place of within.querySelectorAll("pre.copy")) {
    place.before(make("div", { className: "tools" }, copyButton(`Copy ${place.dataset.what}`, () => place.textContent)));
  }
}

// A group of rows is sorted and filtered as one: a single row, or the rows that share a heading cell.
function groupsOf(body) {
  const groups = [];
  for (const row of body.rows) {
    if (row.classList.contains("section")) continue;
    const cut = groups.length && row.cells.length < groups.at(-1)[0].cells.length && !row.classList.contains("first");
    if (cut) groups.at(-1).push(row);
    else groups.push([row]);
  }
  return groups;
}

const isEmpty = (text) => text === "" || text === "–";

// The sort key of a group: its measured row if it has one, else its first row.
function textAt(group, column, columns) {
  const fromEnd = columns - column;
  const rows = [...group.filter((row) => row.classList.contains("measured") && row.cells.length >= fromEnd), group[0]];
  const texts = rows.map((row) => row.cells[row.cells.length - fromEnd]).map((cell) => cell.dataset.v ?? cell.textContent.trim());
  return texts.find((text) => !isEmpty(text)) ?? "";
}

function asNumber(text) {
  const found = /^[+-]?\d[\d\u2009]*(\.\d+)?(e[+-]?\d+)?(?![\w-])/i.exec(text.replace("\u2212", "-"));
  return found ? Number(found[0].replaceAll("\u2009", "")) : NaN;
}

function sorted(groups, column, columns, ascending) {
  const keyed = groups.map((group) => [textAt(group, column, columns), group]);
  const filled = keyed.filter(([text]) => !isEmpty(text));
  const numeric = filled.every(([text]) => !Number.isNaN(asNumber(text)));
  const collator = new Intl.Collator("en", { numeric: true });
  const order = ascending ? 1 : -1;
  filled.sort(([a], [b]) => order * (numeric ? asNumber(a) - asNumber(b) : collator.compare(a, b)));
  return [...filled, ...keyed.filter(([text]) => isEmpty(text))].flatMap(([, group]) => group);
}

const titleOf = (body) => body.querySelector(".section").textContent.trim();

// A table in sections is sorted as a whole: its rows move into one body, each with the title of its section.
function rankingOf(table) {
  const bodies = [...table.tBodies].map((body) => ({ body, groups: groupsOf(body) }));
  if (bodies.length === 1) return { groups: bodies[0].groups, body: bodies[0].body, undo: null };
  const ranking = make("tbody", { className: "ranking" });
  // An untrained encoder stands in every section of its encoder: it is ranked once.
  const seen = new Set();
  const once = (title, group) => {
    if (!group[0].querySelector("[title^=none]")) return true;
    const key = `${title.split(" / ").at(-1)} ${group.map((row) => row.textContent).join(" ")}`;
    return !seen.has(key) && seen.add(key);
  };
  const groups = bodies.flatMap(({ body, groups: some }) => some.filter((group) => once(titleOf(body), group)));
  for (const { body, groups: some } of bodies) {
    for (const [row] of some) {
      const head = row.cells[0];
      head.dataset.v = head.textContent.trim();
      const where = row.querySelector("[title^=none]") ? titleOf(body).split(" / ").at(-1) : titleOf(body);
      head.append(make("span", { className: "where", textContent: where }));
    }
  }
  table.append(ranking);
  const undo = () => {
    for (const { body, groups: some } of bodies) body.append(...some.flat());
  };
  return { groups, body: ranking, undo };
}

function addSorting(table, choices, changed) {
  const heads = headsOf(table);
  let ranking = null;
  const sort = (head, column, next) => {
    ranking ??= rankingOf(table);
    for (const other of heads) other.setAttribute("aria-sort", other === head ? next : "none");
    if (next === "none") ranking.undo();
    else ranking.body.append(...sorted(ranking.groups, column, heads.length, next === "ascending"));
    table.classList.toggle("ranked", next !== "none" && ranking.undo !== null);
  };
  namesOf(heads).forEach((name, column) => {
    const head = heads[column];
    const click = button("", () => {
      // The first click sorts numbers from the largest and names from the first, the third restores the sections.
      const first = head.matches(".list .num, .data th:not(.head)") ? "descending" : "ascending";
      const second = first === "ascending" ? "descending" : "ascending";
      const now = head.getAttribute("aria-sort");
      const next = now === "none" ? first : now === first ? second : ranking.undo ? "none" : first;
      sort(head, column, next);
      changed({ sort: next === "none" ? [] : [name], order: next === "none" ? [] : [next] });
    });
    click.append(...head.childNodes);
    head.append(click);
    head.setAttribute("aria-sort", "none");
    const order = choices.get("order");
    if (choices.get("sort") === name && ["ascending", "descending"].includes(order)) sort(head, column, order);
  });
}

const headsOf = (table) => [...table.tHead.querySelectorAll("th:not(.group)")];

// The titles of columns; a repeated one gets a number.
function namesOf(heads) {
  const titles = heads.map((head) => head.textContent.trim());
  return titles.map((title, at) => {
    const before = titles.slice(0, at).filter((other) => other === title).length;
    return before ? `${title} (${before + 1})` : title;
  });
}

// Boxes that hide columns of numbers; the columns with the names of rows stay. Optional columns are hidden until they are
// chosen; an address has the columns that a reader hid, and the optional ones that a reader shows.
function addColumns(table, tools, choices, changed) {
  const heads = headsOf(table), names = namesOf(heads);
  const optional = new Set(names.filter((name, column) => "optional" in heads[column].dataset));
  const hidden = new Set([...optional, ...choices.getAll("hide")]);
  for (const name of choices.getAll("show")) hidden.delete(name);
  const named = table.matches(".data") ? heads.findLastIndex((head) => head.matches(".head")) : [...table.tBodies[0].rows[0].cells].findLastIndex((cell) => cell.tagName === "TH");
  if (heads.length - named - 1 < 3) return;
  const groups = [...table.tHead.querySelectorAll(".group")].map((head) => [head, head.colSpan]);
  const apply = () => {
    heads.forEach((head, column) => { head.hidden = hidden.has(names[column]); });
    for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
      if (row.matches(".section")) continue;
      for (let column = named + 1; column < heads.length; column += 1) {
        const cell = row.cells[row.cells.length - heads.length + column];
        if (cell) cell.hidden = heads[column].hidden;
      }
    }
    let start = heads.length - groups.reduce((sum, [, span]) => sum + span, 0);
    for (const [head, span] of groups) {
      const shown = heads.slice(start, start + span).filter((one) => !one.hidden).length;
      Object.assign(head, { hidden: !shown, colSpan: shown || 1 });
      start += span;
    }
  };
  const boxes = names.map((name, column) => {
    const box = make("input", { type: "checkbox", checked: !hidden.has(name) });
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(name);
      else hidden.add(name);
      apply();
      changed({
        hide: [...hidden].filter((name) => !optional.has(name)),
        show: [...optional].filter((name) => !hidden.has(name)),
      });
    });
    return make("label", { hidden: column <= named }, box, name);
  });
  apply();
  tools.append(make("details", { className: "columns-of" }, make("summary", {}, "Columns"), make("div", {}, ...boxes)));
}

// What a filter searches: the title of the section, the texts of the rows and the codes of their names.
function textOf(title, group) {
  const codes = group.flatMap((row) => [...row.querySelectorAll("[title]")].map((one) => one.title));
  return [title, ...group.map((row) => row.textContent), ...codes].join(" ").toLowerCase();
}

function addFilter(table, tools, choices, changed) {
  const bodies = [...table.tBodies].map((body) => {
    const title = body.querySelector(".section")?.textContent ?? "";
    return { body, groups: groupsOf(body).map((group) => [textOf(title, group), group]) };
  });
  const total = bodies.reduce((sum, { groups }) => sum + groups.length, 0);
  const given = table.matches(".runs") ? new URLSearchParams(location.search).get("filter") ?? "" : "";
  // a list of pages of runs hands its filter on
  const handOn = (text) => { for (const link of table.querySelectorAll('a[href^="index-"]')) link.search = text && `?filter=${encodeURIComponent(text)}`; };
  handOn(given);
  if (total < 6) return;
  const count = make("span", { ariaLive: "polite" });
  const input = make("input", { type: "search", placeholder: "Filter rows", ariaLabel: `Filter rows of ${table.parentElement.getAttribute("aria-label")}`, value: choices.get("filter") ?? "" });
  const bold = table.matches(".data") && table.querySelector("b:not(.mark, .caveats)");
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { body, groups } of bodies) {
      let here = 0;
      for (const [text, group] of groups) {
        const match = words.every((word) => text.includes(word));
        for (const row of group) row.hidden = !match;
        here += match;
      }
      body.hidden = here === 0;
      shown += here;
    }
    handOn(input.value);
    table.classList.toggle("filtered", shown < total);  // bold print is of the best of all rows
    count.textContent = words.length ? `${shown} of ${total} rows${bold && shown < total ? ", none in bold" : ""}` : `${total} rows`;
  };
  input.addEventListener("input", () => { apply(); changed({ filter: input.value ? [input.value] : [] }); });
  input.value ||= given;
  apply();
  tools.append(input, count);
}

function addTools(table) {
  const id = table.closest("section[id]")?.id ?? "main", choices = chosenIn(id);
  const tools = make("div", { className: "tools" });
  const changed = (values) => {
    for (const [key, all] of Object.entries(values)) {
      choices.delete(key);
      for (const one of all) choices.append(key, one);
    }
    keep(id, choices);
  };
  if (table.matches(".filterable")) addFilter(table, tools, choices, changed);
  if (table.matches(".sortable")) addColumns(table, tools, choices, changed);
  if (table.matches(".sortable")) addSorting(table, choices, changed);
  if (tools.children.length) table.parentElement.before(tools);
  if (choices.size) keep(id, choices);
}

// A page longer than three screens has a table of contents.
function addContents() {
  const main = document.querySelector("main");
  const heads = [...main.querySelectorAll("h2, h3")].filter((head) => head.querySelector(".anchor") && !head.closest("figure, .board, .page"));
  if (heads.length < 4 || main.scrollHeight < 3 * innerHeight) return;
  const lines = heads.map((head) => make("li", { className: head.tagName === "H3" ? "deep" : "" }, make("a", { href: head.querySelector(".anchor").hash, textContent: head.textContent.trim() })));
  main.querySelector("header").after(make("details", { className: "toc" }, make("summary", { textContent: "Contents" }), make("nav", { ariaLabel: "Contents" }, make("ul", {}, ...lines))));
}

// One file shows one page at a time, and prints all.
function addPages() {
  const pages = [...document.querySelectorAll("section.page")];
  if (!pages.length) return;
  const show = () => {
    const target = document.getElementById(location.hash.slice(1).split("?")[0]);
    const page = target?.closest("section.page") ?? pages[0];
    for (const one of pages) one.hidden = one !== page;
    for (const link of document.querySelectorAll(".bar nav a")) {
      link.className = link.dataset.kind === page.dataset.kind ? "here" : "";
    }
    if (target) target.scrollIntoView();
    dispatchEvent(new Event("resize"));  // charts take the width of their page
  };
  addEventListener("hashchange", show);
  show();
}

// Search over the headings of all pages and the rows below them. The index of a site is loaded on first use; one file
// has its own headings.
function addSearch() {
  const { root: folder } = root.dataset;
  const input = make("input", { type: "search", placeholder: "Search", ariaLabel: "Search all pages" });
  const list = make("ul", { hidden: true });
  let entries;
  const own = () => [...document.querySelectorAll("main :is(h1, h2, h3)")].map((head) => {
    const page = head.closest("section.page"), link = head.querySelector(".anchor");
    const rows = head.parentElement.querySelectorAll(":scope > .scroll tbody th[scope=row]");
    return [head.textContent.trim(), link?.hash ?? `#${page?.id || "top"}`, page?.querySelector("h1").textContent.trim() ?? "", [...rows].map((row) => row.textContent).join(" ")];
  });
  const load = () => {
    if (entries) return;
    entries = folder === undefined ? own() : [];
    if (folder === undefined) return;
    window.takeSearch = (all) => { entries = all.map(([title, place, ...rest]) => [title, folder + place, ...rest]); show(); };
    document.head.append(make("script", { src: `${folder}search.js` }));
  };
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (text) => words.every((word) => text.toLowerCase().includes(word));
    const found = words.length ? entries.filter((one) => has(`${one[0]} ${one[2]} ${one[3]}`)) : [];
    found.sort((one, other) => has(other[0]) - has(one[0]));
    const lines = found.slice(0, 30).map(([title, href, page]) => make("li", {}, make("a", { href }, title, ...(page && page !== title ? [make("span", { className: "extra" }, ` ${page}`)] : []))));
    if (words.length && folder !== undefined) lines.push(make("li", {}, make("a", { href: `${folder}runs/index.html?filter=${encodeURIComponent(input.value)}` }, `Runs with “${input.value}”`)));
    else if (words.length && !found.length) lines.push(make("li", {}, "Nothing found"));
    list.replaceChildren(...lines);
    list.hidden = !lines.length;
  };
  input.addEventListener("focus", load);
  input.addEventListener("input", () => { load(); show(); });
  const place = make("search", { className: "search" }, input, list);
  place.addEventListener("keydown", (event) => { if (event.key === "Escape") list.hidden = true; });
  list.addEventListener("click", () => { list.hidden = true; });
  document.addEventListener("click", (event) => { if (!place.contains(event.target)) list.hidden = true; });
  document.querySelector(".bar").append(place);
}

// The leaderboard: choices at its top, folded variants, gains as bars, and two rows compared. All choices are in the address.
const CHOICES = ["profile", "setting", "encoder", "metric"];
const minus = (text) => text.replace(/(^|\s|\()-(?=\d)/g, "$1\u2212");

function table(heads, rows, ofRow = "") {
  const line = (cells, tag) => make("tr", {}, ...cells.map((cell, at) => make(at ? tag : "th", { textContent: at ? minus(String(cell)) : cell, className: at ? "num" : ofRow })));
  return make("div", { className: "scroll", tabIndex: 0 }, make("table", { className: "list" }, make("thead", {}, line(heads, "th")), make("tbody", {}, ...rows.map((row) => line(row, "td")))));
}

// A scale over some intervals and zero, with round ticks.
function scaleOf(gains) {
  const ends = [0, ...gains.filter(Boolean).flatMap(([size, low, high]) => [size, low, high])];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const rough = (high - low || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
  const [first, last] = [Math.floor(low / step), Math.ceil(high / step) || 1];
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
  const percent = (value) => `${(100 * (value - first * step)) / ((last - first) * step)}%`;
  return { ticks, percent };
}

function mark(className, left, width) {
  const element = make("i", { className });
  element.style.left = left;
  if (width !== undefined) element.style.width = width;
  return element;
}

// The data of a script that calls a function with them, such as those of a run; undefined if its file is missing.
const loaded = new Map();
function load(src, call) {
  if (!loaded.has(src)) {
    loaded.set(src, new Promise((resolve) => {
      window[call] = (data) => { window.lastLoaded = data; };
      document.head.append(make("script", { src, onerror: () => resolve(undefined), onload: () => resolve(window.lastLoaded) }));
    }));
  }
  return loaded.get(src);
}

// Ranks from 1; equal values have the mean of their ranks.
function ranksOf(values) {
  const order = [...values.keys()].sort((a, b) => values[a] - values[b]);
  const ranks = [];
  for (let start = 0, end = 0; start < order.length; start = end) {
    while (end < order.length && values[order[end]] === values[order[start]]) end += 1;
    for (const at of order.slice(start, end)) ranks[at] = (start + 1 + end) / 2;
  }
  return ranks;
}

// The pairs or captions of a task whose two ranks are furthest apart, with their numbers in columns by headings.
const MOST_SHOWN = 10;
function furthest(said, { gold, texts }, columns, one, other) {
  const apart = one.map((_, at) => Math.abs(one[at] - other[at])), what = gold.length ? "pair" : "caption";
  const rows = [...apart.keys()].filter((at) => apart[at]).sort((a, b) => apart[b] - apart[a]).slice(0, MOST_SHOWN);
  const shown = gold.length ? { gold, "rank of gold": ranksOf(gold).map(Math.round), ...columns } : columns;
  const cells = rows.map((at) => [texts.length ? texts[at].map((text) => `“${text}”`).join("\n") : `${what} ${at + 1}`, ...Object.values(shown).map((column) => column[at])]);
  const ends = gold.length ? `Ranks are from 1, the least similar, to ${gold.length}.` : "A rank is that of a caption's own image among all images, from 1, the most similar.";
  const about = `${said} ${ends}${texts.length ? "" : ` The test's data were not at hand where this report was written: numbers of ${what}s are in place of their texts.`}`;
  return [make("p", { className: "about" }, about), table([what, ...Object.keys(shown)], cells, "long")];
}

// The pairs and captions that two rows judge most differently, by the mean rank of each over the seeds of a row.
async function judgedOf(names, rows) {
  const [ours, theirs] = rows.map((some) => Map.groupBy(some.flatMap((run) => run?.judged ?? []), ({ file }) => file));
  const parts = [...ours].filter(([file]) => theirs.has(file)).map(async ([file, mine]) => {
    const data = await load(`runs/${file}.js`, "showJudged");
    const [one, other] = [mine, theirs.get(file)].map((runs) => {
      const every = runs.map(({ cosines, ranks }) => ranks ?? ranksOf(cosines));
      return every[0].map((_, at) => Math.round(every.reduce((sum, each) => sum + each[at], 0) / every.length));
    });
    const columns = Object.fromEntries([[`rank, ${names[0]}`, one], [`rank, ${names[1]}`, other]]);
    const what = data?.gold.length ? "Pairs" : "Captions";
    return data ? [make("h5", {}, `${what} of ${mine[0].task} that they judge most differently`), ...furthest("By the mean rank over the seeds of a row.", data, columns, one, other)] : [];
  });
  return (await Promise.all(parts)).flat();
}

// The values and facts in which the first runs of two rows differ.
const OF_ONE_RUN = ["seed", "fingerprint of the training", "group, equal for all seeds", "started", "finished", "peak memory"];
function difference(names, [ours, theirs]) {
  const flat = ([run]) => Object.assign({}, ...Object.values(run.values), run.facts, run.machine.Machine);
  const [a, b] = [flat(ours), flat(theirs)];
  const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((key) => a[key] !== b[key] && !OF_ONE_RUN.includes(key));
  return [make("h5", {}, "Values that differ"), keys.length ? table(["value", ...names], keys.map((key) => [key, a[key] ?? "–", b[key] ?? "–"])) : make("p", {}, "None.")];
}

// The curves of two rows: means over the seeds that have a step, and single seeds.
function curvesOf(names, rows, section) {
  const text = section.parentElement.querySelector(".pair-curve").textContent;
  const of = (run, id) => run?.curves.find((curve) => curve.id === id)?.points ?? [];
  const first = rows.flat().flatMap((run) => run?.curves ?? []);
  const panels = [...new Map(first.map((curve) => [curve.id, curve]))].map(([id, { title, label }]) => {
    const spec = JSON.parse(text);
    spec.data.values = rows.flatMap((some, at) => {
      const seeds = some.flatMap((run, s) => of(run, id).map(([x, y]) => ({ v: at + 1, x, y, s })));
      const means = Map.groupBy(seeds, ({ x }) => x);
      return [...seeds, ...[...means].map(([x, points]) => points.map(({ y }) => y)).map((ys, step) => ({ v: at + 1, x: [...means.keys()][step], y: ys.reduce((sum, y) => sum + y, 0) / ys.length, lo: Math.min(...ys), hi: Math.max(...ys) }))];
    });
    spec.params.find(({ name }) => name === "names").value.splice(1, 2, ...names);
    spec.description = spec.encoding.y.title = label;
    return make("figure", { className: "plot", id: `pair-${id}` }, make("h5", {}, title), make("div", { className: "view" }), make("script", { type: "application/json", textContent: JSON.stringify(spec) }));
  });
  if (!panels.length) return [];
  const colours = JSON.parse(text).encoding.color.scale.range;
  const legend = make("ul", { className: "legend" }, ...names.map((name, at) => {
    const line = make("i", {});
    line.style.cssText = `display: inline-block; width: 1.9rem; margin-right: .35rem; vertical-align: middle; border-top: 2px solid ${colours[at]}`;
    return make("li", {}, line, name);
  }));
  const place = make("div", { className: "panels" }, ...panels);
  window.drawCharts(panels);
  return [make("h5", {}, "Curves"), legend, place];
}

// What is not on the page: in one file it is in a template, in a folder in a script of its own. Undefined where the script
// is missing. What is parsed so executes nothing.
async function fragmentOf(file) {
  const kept = document.querySelector(`template.fragment[data-file="${CSS.escape(file)}"]`);
  if (kept) return kept.content;
  const html = await load(`${root.dataset.root ?? ""}${file}`, "showFragment");
  return html === undefined ? undefined : new DOMParser().parseFromString(html, "text/html").body;
}

// A part of a page that is loaded when it is opened: it is then as if it had stood there.
async function fillPart(part) {
  const file = part.dataset.part;
  const content = await fragmentOf(file);
  if (part.dataset.part !== file) return;  // filled meanwhile
  if (content === undefined) {
    const problem = make("p", { className: "about", textContent: `${file}, which has this part, is not beside this page.` });
    part.replaceChildren(part.querySelector("summary"), problem);
    return;
  }
  delete part.dataset.part;
  const place = make("div", {}, ...content.children);
  part.append(place);
  addCopies(place);
  place.querySelectorAll("table:is(.filterable, .sortable)").forEach(addTools);
  await window.drawCharts([...place.querySelectorAll("figure.plot")]);
}

const foldOf = (element) => element.parentElement.closest("details");

function addParts() {
  const parts = [...document.querySelectorAll("details[data-part]")];
  for (const part of parts) {
    part.addEventListener("toggle", () => { if (part.open && part.dataset.part) fillPart(part); });
    const fold = foldOf(part);
    fold?.addEventListener("toggle", () => { part.open = fold.open; });
  }
  // The address names a part, or what stands in the same section.
  const openNamed = () => {
    const id = location.hash.slice(1).split("?")[0];
    for (const part of parts) if (part.closest("section[id]").id === id) part.open = true;
  };
  addEventListener("hashchange", openNamed);
  openNamed();
  for (const main of document.querySelectorAll("section.page, main:not(:has(section.page))")) {
    const own = parts.filter((part) => main.contains(part));
    const openAll = button(`Load all ${own.length} folded parts, to print them or to search in them`, () => {
      for (const part of own) part.open = true;
      openAll.remove();
    });
    if (own.length) main.querySelector("header").append(make("div", { className: "tools" }, openAll));
  }
}

class Board {
  constructor(choice) {
    this.choice = choice;
    this.methods = [];
    this.chosen = [];
  }

  attach(section) {
    this.section = section;
    this.rows = [...section.querySelectorAll("tr[data-row]")];
  }

  // Boards but the first are loaded when they are chosen; false where that fails.
  async open(place) {
    if (this.section) return true;
    const fragment = await fragmentOf(this.choice.file);
    if (fragment === undefined) return false;
    if (this.section) return true;
    this.attach(fragment.querySelector(".board"));
    place.after(this.section);
    window.drawCharts([...this.section.querySelectorAll("figure.plot")]);
    return true;
  }

  is(hash) {
    return hash === `#${this.choice.id}` || (this.section && hash === `#${this.section.id}`);
  }

  // Rows have numbers here and names in addresses.
  numberOf(code) {
    return this.data.rows.findIndex((row) => row.code === code);
  }

  get data() {
    this.parsed ??= JSON.parse(this.section.querySelector(".board-data").textContent);
    return this.parsed;
  }

  prepare(choices, change) {
    if (this.ready) return;
    this.ready = true;
    const leaders = this.section.querySelector(".leaders"), tools = make("div", { className: "tools" });
    this.find = make("input", { type: "search", placeholder: "Filter rows", ariaLabel: "Filter rows of the leaderboard" });
    this.find.addEventListener("input", () => change());
    tools.append(this.find);
    addColumns(leaders, tools, choices, (columns) => { this.columns = columns; change(); });
    leaders.parentElement.before(tools);
    for (const [at, row] of this.rows.entries()) {
      const number = Number(row.dataset.row);
      const pick = button("Compare", () => {
        this.chosen = this.chosen.includes(number) ? this.chosen.filter((one) => one !== number) : [...this.chosen.slice(-1), number];
        change(true);
      });
      pick.dataset.pick = number;
      row.lastElementChild.append(" ", pick);
      const variants = [];
      for (const other of this.rows.slice(at + 1)) {
        if (!other.matches(".variant")) break;
        variants.push(other);
      }
      if (row.matches(".method") && variants.length) {
        const label = variants.length === 1 ? "1 variant" : `${variants.length} variants`;
        const unfold = (open) => {
          for (const one of variants) one.hidden = !open;
          fold.setAttribute("aria-expanded", String(open));
        };
        const fold = button(label, () => {
          unfold(variants[0].hidden);
          change();
        });
        this.methods.push({ code: this.data.rows[number].code, unfold, isOpen: () => !variants[0].hidden });
        fold.setAttribute("aria-expanded", "false");
        fold.className = "fold";
        row.querySelector("th").append(fold);
        for (const one of variants) one.hidden = true;
      }
    }
  }

  // Variants that match a filter are shown without their method being unfolded.
  filter(text) {
    this.find.value = text;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of this.rows) {
      if (words.length) row.hidden = !words.every((word) => textOf("", [row]).includes(word));
      else if (row.matches(".method")) row.hidden = false;
    }
  }

  // The gains over a baseline, in words and as bars below one axis.
  drawGains(base) {
    const gains = this.data.gains[base] ?? [];
    const { ticks, percent } = scaleOf(gains);
    const axis = make("span", { className: "axis" });
    for (const tick of ticks) {
      const label = mark("tick", percent(tick));
      label.textContent = minus(String(tick));
      axis.append(label);
    }
    const head = this.section.querySelector("th.gain");
    head.querySelector(".axis")?.remove();
    const shownBase = head.querySelector(".base");
    if (base && shownBase) shownBase.textContent = base;
    if (gains.some(Boolean)) head.append(axis);
    for (const row of this.rows) {
      const gain = gains[Number(row.dataset.row)];
      const cell = row.querySelector("td.gain");
      if (!gain) {
        if (gains.length) cell.textContent = "–";
        continue;
      }
      const [size, low, high, text, test] = gain;
      const kind = test.startsWith("better") ? "good" : test.startsWith("worse") ? "bad" : "";
      const sure = !test.includes("alone") && kind;
      const bar = make("span", { className: `gains ${kind} ${sure ? "sure" : ""}`, ariaHidden: "true" });
      for (const tick of ticks) bar.append(mark(tick === 0 ? "zero" : "line", percent(tick)));
      bar.append(mark("ends", percent(low), `calc(${percent(high)} - ${percent(low)})`), mark("dot", percent(size)));
      cell.replaceChildren(bar, make("span", { className: "words", textContent: minus(text) }), make("span", { className: "extra", textContent: test }));
    }
  }

  async drawPair(scroll) {
    const place = this.section.querySelector(".pair");
    for (const one of this.section.querySelectorAll("[data-pick]")) one.setAttribute("aria-pressed", String(this.chosen.includes(Number(one.dataset.pick))));
    const chosen = [...this.chosen];
    const [a, b] = [...chosen].sort((one, other) => one - other);
    const pair = this.data.pairs[`${a} ${b}`];
    if (b === undefined || !pair) {
      place.replaceChildren(...(this.chosen.length ? [make("p", { className: "about", textContent: b === undefined ? `${this.data.rows[a].name}: choose a second row to compare.` : "These two are not compared here: the table is too long." })] : []));
      return;
    }
    const [one, other] = [this.data.rows[a], this.data.rows[b]];
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const text = (value) => value.toFixed(this.data.digits);
    const signed = (value) => (value > 0 ? "+" : "") + text(value);
    const tasks = Object.keys(one.scores).filter((task) => task in other.scores);
    const byTask = tasks.map((task) => [task, mean(one.scores[task]), mean(other.scores[task])]);
    const seeds = one.seeds.filter((seed) => other.seeds.includes(seed));
    const ofSeed = (row, seed) => row.scores[this.data.column]?.[row.seeds.indexOf(seed)];
    const bySeed = seeds.map((seed) => [seed, ofSeed(one, seed), ofSeed(other, seed)]).filter(([, x, y]) => x !== undefined && y !== undefined);
    const lines = (rows) => rows.map(([name, x, y]) => [name, text(x), text(y), signed(x - y)]);
    const names = [one.name, other.name, "difference"];
    place.replaceChildren(
      make("h4", { textContent: `${one.name} and ${other.name}` }),
      make("p", { textContent: minus(pair[0]) }),
      make("div", { className: "columns" }, ...(pair[1].length ? [table(["test", "result"], pair[1])] : []), table(["task", ...names], lines(byTask)), table(["seed", ...names], lines(bySeed))),
    );
    if (scroll) place.scrollIntoView({ block: "nearest" });
    if (root.dataset.root === undefined) return place.append(make("p", { className: "about" }, "The report as a folder also has their values, pairs and curves here."));
    const runs = await Promise.all([one, other].map(({ pages }) => Promise.all(pages.map((page) => load(`runs/${page}.js`, "showRun")))));
    const judged = await judgedOf(names, runs);
    if (String(this.chosen) === String(chosen) && runs.every((some) => some[0])) place.append(...difference(names.slice(0, 2), runs), ...judged, ...curvesOf(names.slice(0, 2), runs, this.section));
  }
}

function addLeaderboard() {
  const first = document.querySelector(".board");
  if (!first) return;
  const boards = JSON.parse(document.querySelector(".board-choices").textContent).map((choice) => new Board(choice));
  boards[0].attach(first);
  const home = first.parentElement.closest("section[id]").id;  // in one file, ids begin with that of their page
  const tools = make("div", { className: "tools choices" });
  const problem = make("p", { className: "about", hidden: true });
  first.before(tools, problem);
  let state;
  const read = () => {
    const anchored = boards.find((board) => board.is(location.hash));
    const named = anchored && Object.fromEntries(CHOICES.map((name) => [name, anchored.choice[name]]));
    state = new URLSearchParams(named ?? chosenIn(home));
  };
  const choose = (name, ...values) => {
    state.delete(name);
    for (const value of values) state.append(name, value);
  };
  let latest = 0, current;
  const show = async (scroll = false) => {
    const turn = (latest += 1);
    let left = boards;
    tools.replaceChildren();
    const choice = (name, values, value, changed) => {
      const select = make("select", { name });
      for (const one of values) select.append(make("option", { value: one, textContent: one, selected: one === value }));
      select.addEventListener("change", async () => { await changed(select.value); tools.querySelector(`[name=${name}]`)?.focus(); });
      tools.append(make("label", {}, `${name} `, select));
    };
    const chosen = {};
    for (const name of CHOICES) {
      const values = [...new Set(left.map((board) => board.choice[name]))];
      const value = values.includes(state.get(name)) ? state.get(name) : values[0];
      left = left.filter((board) => board.choice[name] === value);
      chosen[name] = value;
      choice(name, values, value, (to) => { choose(name, to); return write(); });
    }
    const [board] = left;
    current = board;
    const hideOthers = () => { for (const other of boards) if (other.section) other.section.hidden = other !== current; };
    hideOthers();
    problem.hidden = true;
    const isLoaded = await board.open(first);
    hideOthers();
    if (turn !== latest) return;
    if (!isLoaded) {
      problem.textContent = `${board.choice.file}, which has this leaderboard, is not beside this page.`;
      problem.hidden = false;
      return;
    }
    board.prepare(state, (scrolled) => {
      for (const [name, columns] of Object.entries(board.columns ?? {})) choose(name, ...columns);
      if (!state.get("filter")) choose("open", ...board.methods.filter((method) => method.isOpen()).map(({ code }) => code));
      choose("filter", ...[board.find.value].filter(Boolean));
      choose("compare", ...board.chosen.map((number) => board.data.rows[number].code));
      write(scrolled);
    });
    const bases = Object.keys(board.data.gains);
    const base = bases.includes(state.get("baseline")) ? state.get("baseline") : board.data.base;
    if (bases.length && base) choice("baseline", bases, base, (to) => { choose("baseline", to); return write(); });
    board.drawGains(base);
    for (const method of board.methods) method.unfold(state.getAll("open").includes(method.code));
    board.filter(state.get("filter") ?? "");
    board.chosen = state.getAll("compare").map((code) => board.numberOf(code)).filter((number) => number >= 0).slice(0, 2);
    board.drawPair(scroll);
    // the permanent links of what is shown have all choices, also those that nobody changed
    const link = `#${home}?${new URLSearchParams([...Object.entries(chosen), ...[...state].filter(([name]) => !CHOICES.includes(name))])}`;
    for (const anchor of [board.section.querySelector(".anchor"), document.getElementById(home).querySelector("h2 .anchor")]) if (anchor) anchor.href = link;
  };
  const write = (scroll = false) => {
    history.replaceState(null, "", `#${home}?${state}`);
    return show(scroll);
  };
  addEventListener("hashchange", () => { if (location.hash.startsWith(`#${home}`) || boards.some((board) => board.is(location.hash))) { read(); show(); } });
  read();
  show();
}

// Links of earlier reports lead to the leaderboard on the first page.
if (location.pathname.endsWith("/index.html") && /^#(leaderboard|board-)/.test(location.hash) && root.dataset.root === "") location.replace(`overview.html${location.hash}`);

document.addEventListener("DOMContentLoaded", () => {
  addSearch();
  addTheme();
  addCopies();
  addLeaderboard();
  addContents();
  document.querySelectorAll("table:is(.filterable, .sortable)").forEach(addTools);
  addParts();
  addPages();
  if (location.hash.includes("?")) document.getElementById(location.hash.slice(1).split("?")[0])?.scrollIntoView();
});
