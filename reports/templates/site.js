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
      head.append(make("span", { className: "where", textContent: titleOf(body) }));
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

document.addEventListener("DOMContentLoaded", () => {
  addTheme();
  addCopies();
  document.querySelectorAll("table.filterable").forEach(addFilter);
  document.querySelectorAll("table.sortable").forEach(addSorting);
});
