// Themes, sorting, filtering and copying. The pages are complete without this script.
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

function addCopies() {
  for (const place of document.querySelectorAll(".commands .copy")) {
    place.after(copyButton("Copy", () => place.textContent));
  }
  for (const list of document.querySelectorAll("ul.commands")) {
    const all = [...list.querySelectorAll(".copy")];
    if (all.length > 1) {
      list.before(make("div", { className: "tools" }, copyButton("Copy all", () => all.map((one) => one.textContent).join("\n") + "\n")));
    }
  }
  for (const place of document.querySelectorAll("pre.copy")) {
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

function addSorting(table) {
  const heads = [...table.tHead.querySelectorAll("th:not(.group)")];
  let ranking = null;
  heads.forEach((head, column) => {
    const sort = button("", () => {
      ranking ??= rankingOf(table);
      // The first click sorts numbers from the largest and names from the first, the third restores the sections.
      const first = head.matches(".list .num, .data th:not(.head)") ? "descending" : "ascending";
      const second = first === "ascending" ? "descending" : "ascending";
      const now = head.getAttribute("aria-sort");
      const next = now === "none" ? first : now === first ? second : ranking.undo ? "none" : first;
      for (const other of heads) other.setAttribute("aria-sort", other === head ? next : "none");
      if (next === "none") ranking.undo();
      else ranking.body.append(...sorted(ranking.groups, column, heads.length, next === "ascending"));
      table.classList.toggle("ranked", next !== "none" && ranking.undo !== null);
    });
    sort.append(...head.childNodes);
    head.append(sort);
    head.setAttribute("aria-sort", "none");
  });
}

// What a filter searches: the title of the section, the texts of the rows and the codes of their names.
function textOf(title, group) {
  const codes = group.flatMap((row) => [...row.querySelectorAll("[title]")].map((one) => one.title));
  return [title, ...group.map((row) => row.textContent), ...codes].join(" ").toLowerCase();
}

function addFilter(table) {
  const bodies = [...table.tBodies].map((body) => {
    const title = body.querySelector(".section")?.textContent ?? "";
    return { body, groups: groupsOf(body).map((group) => [textOf(title, group), group]) };
  });
  const total = bodies.reduce((sum, { groups }) => sum + groups.length, 0);
  if (total < 6) return;
  const count = make("span", { ariaLive: "polite" });
  const input = make("input", { type: "search", placeholder: "Filter rows", ariaLabel: `Filter rows of ${table.parentElement.getAttribute("aria-label")}` });
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
    count.textContent = words.length ? `${shown} of ${total} rows` : `${total} rows`;
  };
  input.addEventListener("input", apply);
  if (table.classList.contains("runs")) input.value = new URLSearchParams(location.search).get("filter") ?? "";
  apply();
  table.parentElement.before(make("div", { className: "tools" }, input, count));
}

// A page longer than three screens has a table of contents.
function addContents() {
  const main = document.querySelector("main");
  const heads = [...main.querySelectorAll("h2, h3")].filter((head) => head.querySelector(".anchor") && !head.closest("figure, .board, .page"));
  if (heads.length < 4 || main.scrollHeight < 3 * innerHeight) return;
  const lines = heads.map((head) => make("li", { className: head.tagName === "H3" ? "deep" : "" }, make("a", { href: head.querySelector(".anchor").hash, textContent: head.textContent.trim() })));
  main.querySelector("header").after(make("details", { className: "toc" }, make("summary", { textContent: "Contents" }), make("nav", { ariaLabel: "Contents" }, make("ul", {}, ...lines))));
}

// The leaderboard: choices at its top, folded variants, gains as bars, and two rows compared. All choices are in the address.
const CHOICES = ["profile", "setting", "encoder", "metric"];
const minus = (text) => text.replace(/(^|\s|\()-(?=\d)/g, "$1\u2212");

function table(heads, rows) {
  const line = (cells, tag) => make("tr", {}, ...cells.map((cell, at) => make(at ? tag : "th", { textContent: minus(String(cell)), className: at ? "num" : "" })));
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

class Board {
  constructor(section) {
    this.section = section;
    this.folded = true;
    this.rows = [...section.querySelectorAll("tr[data-row]")];
    this.chosen = [];
  }

  get data() {
    this.parsed ??= JSON.parse(this.section.querySelector(".board-data").textContent);
    return this.parsed;
  }

  prepare(change) {
    if (this.ready) return;
    this.ready = true;
    for (const [at, row] of this.rows.entries()) {
      const number = Number(row.dataset.row);
      const pick = button("Compare", () => {
        this.chosen = this.chosen.includes(number) ? this.chosen.filter((one) => one !== number) : [...this.chosen.slice(-1), number];
        change();
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
        const fold = button(label, () => {
          const open = variants[0].hidden;
          for (const one of variants) one.hidden = !open;
          fold.setAttribute("aria-expanded", String(open));
        });
        fold.setAttribute("aria-expanded", "false");
        fold.className = "fold";
        row.querySelector("th").append(fold);
        for (const one of variants) one.hidden = true;
      }
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
    if (base) head.querySelector(".base").textContent = base;
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

  drawPair() {
    const place = this.section.querySelector(".pair");
    for (const one of this.section.querySelectorAll("[data-pick]")) one.setAttribute("aria-pressed", String(this.chosen.includes(Number(one.dataset.pick))));
    const [a, b] = [...this.chosen].sort((one, other) => one - other);
    const pair = this.data.pairs[`${a} ${b}`];
    if (b === undefined || !pair) {
      place.replaceChildren(...(this.chosen.length ? [make("p", { className: "about", textContent: b === undefined ? "Choose a second row to compare." : "These two are not compared here: the table is too long." })] : []));
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
  }
}

function addLeaderboard() {
  const boards = [...document.querySelectorAll(".board")].map((section) => new Board(section));
  if (!boards.length) return;
  const first = boards[0].section;
  const tools = make("div", { className: "tools choices" });
  first.before(tools);
  const folded = document.querySelector("details.boards");
  folded?.before(...boards.slice(1).map(({ section }) => section));
  folded?.remove();
  let state;
  const read = () => {
    const anchored = boards.find(({ section }) => `#${section.id}` === location.hash);
    state = anchored ? { ...anchored.section.dataset } : Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? ""));
  };
  const show = () => {
    let left = boards;
    tools.replaceChildren();
    const choice = (name, values, value, changed) => {
      const select = make("select", { name });
      for (const one of values) select.append(make("option", { value: one, textContent: one, selected: one === value }));
      select.addEventListener("change", () => { changed(select.value); tools.querySelector(`[name=${name}]`).focus(); });
      tools.append(make("label", {}, `${name} `, select));
    };
    for (const name of CHOICES) {
      const values = [...new Set(left.map(({ section }) => section.dataset[name]))];
      const value = values.includes(state[name]) ? state[name] : values[0];
      left = left.filter(({ section }) => section.dataset[name] === value);
      choice(name, values, value, (to) => { state[name] = to; write(); });
    }
    const [board] = left;
    for (const { section } of boards) section.hidden = section !== board.section;
    board.prepare(() => { state.compare = board.chosen.join(" "); write(); });
    const bases = Object.keys(board.data.gains);
    const base = bases.includes(state.baseline) ? state.baseline : board.data.base;
    if (bases.length && base) choice("baseline", bases, base, (to) => { state.baseline = to; write(); });
    board.drawGains(base);
    board.chosen = (state.compare ?? "").split(" ").filter(Boolean).map(Number).filter((one) => one < board.data.rows.length).slice(0, 2);
    board.drawPair();
  };
  const write = () => {
    history.replaceState(null, "", `#leaderboard?${new URLSearchParams(state)}`);
    show();
  };
  addEventListener("hashchange", () => { read(); show(); });
  read();
  show();
}

document.addEventListener("DOMContentLoaded", () => {
  addTheme();
  addCopies();
  addLeaderboard();
  addContents();
  document.querySelectorAll("table.filterable").forEach(addFilter);
  document.querySelectorAll("table.sortable").forEach(addSorting);
});
