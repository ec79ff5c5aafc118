// Draws the charts of a page from their specifications, which stand beside them or in files of their own. Loads the
// library only where there are charts.
"use strict";

(() => {
  const here = document.currentScript?.src;
  const wide = (element) => element.clientWidth || document.querySelector("main").clientWidth;
  const font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  const CONFIG = {
    background: null,
    font,
    view: { stroke: null },
    axis: {
      labelColor: "var(--soft)", titleColor: "var(--soft)", gridColor: "var(--hair)", domainColor: "var(--rule)", tickColor: "var(--rule)",
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", titlePadding: 8,
    },
    axisY: { domain: false, ticks: false },
    axisBand: { labelColor: "var(--ink)" },
    point: { strokeWidth: 2 },
  };
  const views = new Map();

  function loaded() {
    if (window.vegaEmbed) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("vega.js", here).href;
      script.onload = resolve;
      script.onerror = () => reject(new Error("vega.js cannot be loaded"));
      document.head.append(script);
    });
  }

  // A chart that cannot become as narrow as the page scrolls in its own place.
  function widthOf(figure, spec) {
    return Math.max(wide(figure.querySelector(".view")), spec.usermeta?.narrowest ?? 0);
  }

  // A chart may have layers, by the first word of their names, for wide pages or for narrow ones alone.
  const NARROW = 560;
  const kindOf = (figure) => (wide(figure.querySelector(".view")) < NARROW ? "narrow" : "wide");
  const OTHER = { narrow: "wide", wide: "narrow" };

  // In one file, the specifications of a page stand at its end. Undefined where a file is missing.
  async function specOf(figure) {
    const file = figure.dataset.chart;
    const kept = file ? document.querySelector(`script[data-file="${CSS.escape(file)}"]`) : figure.querySelector("script");
    if (kept) return JSON.parse(kept.textContent);
    return structuredClone(here && await load(new URL(file, here).href, "showChart"));
  }

  async function draw(figure) {
    const spec = await specOf(figure);
    if (!spec) {
      figure.querySelector(".view").textContent = `${figure.dataset.chart}, which has this chart, is not beside this page.`;
      return;
    }
    const kind = kindOf(figure), every = spec.layer?.length;
    spec.layer = spec.layer?.filter(({ name }) => !name?.startsWith(OTHER[kind]));
    const fixed = spec.layer?.length === every;
    spec.$schema = "https://vega.github.io/schema/vega-lite/v6.json";
    spec.width = widthOf(figure, spec);
    spec.autosize = { type: "fit-x", contains: "padding" };
    const place = figure.querySelector(".view");
    const options = { mode: "vega-lite", ast: true, renderer: "svg", actions: false, config: CONFIG, tooltip: { theme: "report", disableDefaultStyle: true } };
    const { view } = await vegaEmbed(place, spec, options);
    views.set(figure, { view, spec, kind: fixed ? undefined : kind });
    // a picture with one name: its marks have none of their own
    place.setAttribute("role", "img");
    place.removeAttribute("aria-roledescription");
    place.querySelector("svg > g").setAttribute("aria-hidden", "true");
    if (place.scrollWidth > place.clientWidth) Object.assign(place, { tabIndex: 0, role: "group" });
    figure.querySelector(".save")?.remove();
    if (!figure.matches(".filed")) figure.append(saving(figure, view, spec));
  }

  // The rows behind a chart as CSV: those of its longest layer, with the names of variants.
  function csvOf(spec) {
    const every = [];
    JSON.stringify(spec, (key, value) => { if (key === "data" && Array.isArray(value?.values)) every.push(value.values); return value; });
    const rows = every.sort((one, other) => other.length - one.length)[0] ?? [];
    const names = spec.params?.find(({ name }) => name === "names")?.value ?? [];
    const columns = [...new Set(rows.flatMap(Object.keys))];
    const name = (key, value) => (["v", "i"].includes(key) && names[value] !== undefined ? [names[value]].flat().join(" ") : value ?? "");
    const quoted = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
    return [columns, ...rows.map((row) => columns.map((key) => name(key, row[key])))].map((line) => line.map(quoted).join(",")).join("\n") + "\n";
  }

  function saving(figure, view, spec) {
    const style = getComputedStyle(document.documentElement);
    const plain = (text) => text.replace(/var\((--[a-z0-9-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
    const save = (url, kind) => Object.assign(document.createElement("a"), { href: url, download: `${figure.id}.${kind}` }).click();
    const blob = (text, type) => URL.createObjectURL(new Blob([text], { type }));
    const kinds = {
      SVG: async () => save(blob(plain(await view.toSVG()), "image/svg+xml"), "svg"),
      PNG: async () => {
        const picture = new Image(), canvas = document.createElement("canvas");
        picture.src = `data:image/svg+xml,${encodeURIComponent(plain(await view.toSVG(2)))}`;
        await picture.decode();
        Object.assign(canvas, { width: picture.naturalWidth, height: picture.naturalHeight });
        const pen = canvas.getContext("2d");
        pen.fillStyle = style.getPropertyValue("--ground");
        pen.fillRect(0, 0, canvas.width, canvas.height);
        pen.drawImage(picture, 0, 0);
        save(canvas.toDataURL("image/png"), "png");
      },
      PDF: async () => {  // the browser prints the figure alone
        figure.classList.add("only");
        document.documentElement.classList.add("only-one");
        print();
        figure.classList.remove("only");
        document.documentElement.classList.remove("only-one");
      },
      CSV: async () => save(blob(csvOf(spec), "text/csv"), "csv"),
    };
    const place = Object.assign(document.createElement("div"), { className: "save", textContent: "Save as" });
    for (const [kind, action] of Object.entries(kinds)) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: kind, ariaLabel: `Save ${figure.querySelector("h3, h4, h5").textContent.trim()} as ${kind}` });
      button.addEventListener("click", action);
      place.append(button);
    }
    return place;
  }

  // A click on a name hides or shows its variant in all charts of the group; a double click shows it alone.
  function addToggles(list) {
    if (list.querySelector("button")) return;
    const hidden = new Set([...list.querySelectorAll("li[data-hidden]")].map((item) => Number(item.dataset.v)));
    const entries = [...list.querySelectorAll("li")].map((item) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...item.childNodes);
      item.append(button);
      return { number: Number(item.dataset.v), button };
    });
    const apply = () => {
      for (const { number, button } of entries) button.setAttribute("aria-pressed", String(!hidden.has(number)));
      for (const figure of list.closest("[data-group]").parentElement.querySelectorAll("figure.plot")) {
        if (figure.closest("[data-group]") === list.closest("[data-group]")) views.get(figure)?.view.signal("hidden", [...hidden]).runAsync();
      }
    };
    for (const { number, button } of entries) {
      button.addEventListener("click", () => {
        if (!hidden.delete(number)) hidden.add(number);
        apply();
      });
      button.addEventListener("dblclick", () => {
        hidden.clear();
        for (const other of entries) if (other.number !== number) hidden.add(other.number);
        apply();
      });
    }
    apply();
  }

  function fit() {
    for (const [figure, { view, spec, kind }] of views) {
      const width = widthOf(figure, spec);
      if (kind && kind !== kindOf(figure)) draw(figure);
      else if (Math.abs(view.width() - width) > 1) view.width(width).runAsync();
    }
  }

  // Charts that a reader sees at once are drawn first, those that are folded last.
  async function drawCharts(figures) {
    if (!figures.length) return;
    for (const figure of figures) figure.closest("[data-group]")?.querySelectorAll("ul.legend").forEach(addToggles);
    await loaded();
    const isFolded = (figure) => figure.closest("details:not([open])") !== null;
    const inOrder = [...figures.filter((figure) => !isFolded(figure)), ...figures.filter(isFolded)];
    for (const figure of inOrder) {
      await draw(figure);
      await new Promise((resolve) => { setTimeout(resolve); });  // the page answers between charts
    }
  }

  window.drawCharts = drawCharts;

  async function drawAll() {
    await drawCharts([...document.querySelectorAll("figure.plot")]);
    document.documentElement.dataset.charts = "drawn";
    let waiting;
    const later = () => { clearTimeout(waiting); waiting = setTimeout(fit, 120); };
    addEventListener("resize", later);
    document.addEventListener("toggle", later, true);
    fit();
  }

  // Print has what is folded; what is to be loaded first says that it is not printed.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open], [data-part], :has([data-part]))")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
  document.addEventListener("DOMContentLoaded", drawAll);
})();
