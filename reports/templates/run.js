// Shows the run that the address names, run.html?KEY: its data are in KEY.js, which calls `showRun`.
"use strict";

const key = location.search.slice(1);
if (/^[a-z0-9][a-z0-9.-]*$/.test(key)) document.write(`<script src="${key}.js"></script>`);

const LINK = '<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M7 4.5 9 2.6a3.2 3.2 0 0 1 4.5 4.5l-2 2M9 11.5l-2 1.9a3.2 3.2 0 0 1-4.5-4.5l2-2M5.8 10.2l4.4-4.4"/></svg>';
const LINKED = new DOMParser().parseFromString(LINK.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"'), "image/svg+xml").documentElement;

// A text that may break before its options and after separators.
function breaking(text) {
  return text.split(/(?=\[)|(?<=[,=/+_])/).flatMap((part, at) => (at ? [make("wbr"), part] : [part]));
}

const signed = (text) => text.replace(/(^|\s)-(?=\d)/g, "$1\u2212");

function heading(level, text, id) {
  const anchor = make("a", { className: "anchor", href: `#${id}`, title: "Permanent link", ariaLabel: `Permanent link: ${text}` }, LINKED.cloneNode(true));
  return make(`h${level}`, {}, `${text} `, anchor);
}

function part(id, title, ...children) {
  return make("section", { id }, heading(2, title, id), ...children);
}

function pairs(rows) {
  return make("dl", { className: "pairs" }, ...Object.entries(rows).map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, ...(value ? breaking(value) : ["–"])))));
}

function scoreTable(table) {
  const head = (text, className) => make("th", { scope: "col", className }, text);
  const heads = make("tr", {}, ...table.heads.map((text) => head(text, "head")), ...table.columns.map((text) => head(text, "")));
  const rows = table.rows.map(([at, cells]) => make("tr", { className: at[0] === "Avg" ? "first total" : "first" },
    make("th", { scope: "row" }, at[0]), ...at.slice(1).map((text) => make("td", { className: "head" }, text)),
    ...cells.map((text) => make("td", {}, signed(text)))));
  const region = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: `${table.suite}: ${table.title}` },
    make("table", { className: "data" }, make("thead", {}, heads), make("tbody", {}, ...rows)));
  return table.folded ? [make("details", {}, make("summary", {}, `${table.suite}: ${table.title}`), region)] : [make("h3", {}, table.title), region];
}

function curve({ id, title, label, points }, name) {
  const spec = JSON.parse(document.getElementById("curve").textContent);
  spec.data.values = points.map(([x, y]) => ({ v: 1, x, y }));
  spec.params.find(({ name }) => name === "names").value[1] = name;
  spec.description = spec.encoding.y.title = label;
  if (points.length === 1) spec.layer.at(-1).encoding.opacity.value = 1;
  return make("figure", { id, className: "plot" }, heading(3, title, id), make("div", { className: "view" }),
    make("script", { type: "application/json", textContent: JSON.stringify(spec) }));
}

// The pairs of a task whose rank by cosine is furthest from their rank by gold score, or the captions whose own image
// ranks lowest.
function worst({ task, file, cosines, ranks }) {
  const place = make("div", {});
  load(`${file}.js`, "showJudged").then((data) => {
    if (data && cosines) {
      const by = ranksOf(cosines);
      const columns = { cosine: cosines.map((value) => value.toFixed(4)), "rank of cosine": by.map(Math.round) };
      place.append(...furthest("Their rank by cosine is furthest from that by gold score.", data, columns, ranksOf(data.gold), by));
    } else if (data) {
      place.append(...furthest("Their own image ranks lowest.", data, { "rank of its image": ranks }, ranks.map(() => 1), ranks));
    }
  });
  return [make("h3", {}, task), place];
}

function columns(parts) {
  return make("div", { className: "columns" }, ...Object.entries(parts).map(([name, rows]) => make("div", {}, make("h3", {}, name), pairs(rows))));
}

function showRun(run) {
  document.title = `${run.name}, seed ${run.seed} – results`;
  const crumbs = run.crumbs.flatMap(([text, href], at) => [at ? " / " : "", make("a", { href }, text)]);
  const header = make("header", {}, make("p", { className: "crumb" }, ...crumbs), make("h1", {}, ...breaking(run.name)), make("p", { className: "lede" }, ...breaking(run.about)), make("p", { className: "key" }, make("code", { className: "copy" }, ...breaking(run.key))));
  const seeds = Object.entries(run.seeds);
  if (seeds.length > 1) {
    const links = seeds.map(([seed, page]) => make("a", { href: `run.html?${page}`, className: page === key ? "here" : "", ariaCurrent: page === key ? "page" : null }, seed));
    header.append(make("nav", { className: "sub", ariaLabel: "Seeds" }, "Seeds ", ...links));
  }
  const warnings = make("ul", { className: "warnings", hidden: !run.warnings.length }, ...run.warnings.map((line) => make("li", {}, `Warning: ${line}`)));
  const scores = run.scores.length ? run.scores.flatMap(scoreTable) : [make("p", {}, "This run has not been evaluated.")];
  const about = `${run.best} Each point of a loss term is the unweighted mean since the previous point.`;
  const curves = make("div", { className: "panels" }, ...run.curves.map((one) => curve(one, run.name)));
  const command = make("ul", { className: "commands" }, make("li", {}, make("code", { className: "copy" }, run.command)));
  const log = make("details", { className: "log" }, make("summary", {}, "Log"), make("pre", { tabIndex: 0 }, run.log));
  const inputs = run.inputs.length ? [make("h3", {}, "What was read"), make("ul", {}, ...run.inputs.map((line) => make("li", {}, ...breaking(line))))] : [];
  document.getElementById("main").append(
    header, warnings, part("scores", "Scores", ...scores),
    ...(run.curves.length ? [part("curves", "Curves", make("p", { className: "about" }, about), curves)] : []),
    ...(run.judged.length ? [part("judged", "Worst pairs and captions", ...run.judged.flatMap(worst))] : []),
    part("values", "Hyperparameters", columns(run.values)),
    part("origin", "Origin", command, pairs(run.facts), columns(run.machine), ...inputs, ...(run.log ? [log] : [])),
  );
}

// A link from another report, or one typed wrong.
document.addEventListener("DOMContentLoaded", () => {
  const main = document.getElementById("main");
  if (main.querySelector("h1")) return;
  document.title = "No such run – results";
  const index = make("a", { href: "index.html" }, "All runs");
  main.append(make("header", {}, make("h1", {}, "No such run"), make("p", { className: "lede" }, `This report has no run ${key ? `“${key}”` : "without a key"}. `, index)));
});
