"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const svgNames = "http://www.w3.org/2000/svg";
  const margin = { left: 52, right: 10, top: 10, bottom: 22 };
  const height = 190;
  const choice = { x: "step", log: false, smooth: 0 };
  const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, useGrouping: false });

  // Curves come as differences of steps and as values; null is a gap.
  for (const run of page.runs) {
    for (const curve of Object.values(run.metrics)) {
      let step = 0;
      curve.steps = curve.s.map((more) => (step += more));
    }
  }

  const short = (value) => {
    const size = Math.abs(value);
    if (!size) return "0";
    return size >= 1e6 || size < 1e-3 ? String(Number(value.toPrecision(3)).toExponential()).replace("e+", "e") : number.format(value);
  };
  const clock = (seconds) => (seconds < 120 ? `${number.format(seconds)} s` : seconds < 7200 ? `${number.format(seconds / 60)} min` : `${number.format(seconds / 3600)} h`);
  const shownX = (x) => (choice.x === "step" ? number.format(x) : clock(x));

  function element(name, attributes, ...inside) {
    const made = document.createElementNS(svgNames, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  }

  function secondsAt(run, step) { // between the steps whose time is known, in proportion
    const { s, t } = run.time;
    let low = 0, high = s.length - 1;
    if (high < 0 || step < s[0] || step > s[high]) return null;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (s[middle] <= step) low = middle; else high = middle;
    }
    return high === low || s[high] === s[low] ? t[low] : t[low] + ((t[high] - t[low]) * (step - s[low])) / (s[high] - s[low]);
  }

  function pointsOf(run, metric) {
    const curve = run.metrics[metric];
    if (!curve) return [];
    const points = [];
    curve.steps.forEach((step, at) => {
      const x = choice.x === "step" ? step : secondsAt(run, step);
      if (x !== null) points.push({ step, x, value: curve.v[at] });
    });
    return points;
  }

  function smoothed(points) { // exponential moving average, corrected for its start; a gap ends nothing
    let sum = 0, weight = 0;
    return points.map((point) => {
      if (point.value === null) return point;
      sum = choice.smooth * sum + (1 - choice.smooth) * point.value;
      weight = choice.smooth * weight + (1 - choice.smooth);
      return { ...point, value: sum / weight };
    });
  }

  function ticks(low, high, log) {
    if (log) {
      const all = [];
      for (let power = Math.ceil(low); power <= high; power++) all.push(power);
      const every = Math.ceil(all.length / 5);
      if (all.length >= 2) return all.filter((_, at) => at % every === 0);
    }
    const rough = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * unit).find((size) => size >= rough);
    const found = [];
    const begin = Math.ceil(low / step - 1e-9); // beyond 2 ** 53, adding 1 changes nothing: count apart from it
    for (let more = 0; more <= 10 && (begin + more) * step <= high + step * 1e-9; more++) found.push(begin + more ? Number(((begin + more) * step).toPrecision(12)) : 0);
    return found;
  }

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.svg = figure.querySelector("svg");
      this.output = figure.querySelector("output");
      this.note = figure.querySelector(".note");
      this.metric = figure.dataset.metric;
      this.cursor = null;
      this.svg.addEventListener("pointermove", (event) => this.near(event.clientX));
      this.svg.addEventListener("pointerdown", (event) => this.near(event.clientX));
      this.svg.addEventListener("pointerleave", () => this.show(null));
      this.svg.addEventListener("blur", () => this.show(null));
      this.svg.addEventListener("focus", () => this.show(this.xs.length - 1));
      this.svg.addEventListener("keydown", (event) => this.key(event));
    }

    measure() {
      this.width = Math.max(240, this.svg.clientWidth || 360);
    }

    draw() {
      const width = this.width;
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.replaceChildren();
      this.dropped = 0;
      this.curves = page.runs.map((run, at) => {
        const raw = pointsOf(run, this.metric).map((point) => {
          if (!choice.log || point.value === null || point.value > 0) return point;
          this.dropped += 1;
          return { ...point, value: null };
        });
        return { at, name: run.name, raw, line: choice.smooth ? smoothed(raw) : raw };
      }).filter((curve) => curve.raw.some((point) => point.value !== null));
      if (this.note) this.note.textContent = this.dropped ? `${this.dropped} values that are not above 0 have no place on a log scale.` : this.note.dataset.text;
      this.xs = [...new Set(this.curves.flatMap((curve) => curve.raw.filter((point) => point.value !== null).map((point) => point.x)))].sort((a, b) => a - b);
      if (!this.xs.length) {
        this.output.textContent = choice.x === "time" ? "No time is recorded for these steps." : "No value can be drawn.";
        return;
      }
      const scale = choice.log ? Math.log10 : (value) => value;
      const values = this.curves.flatMap((curve) => curve.raw.filter((point) => point.value !== null).map((point) => scale(point.value)));
      const limits = (page.limits[this.metric] || []).flatMap((limit) => [limit.low, limit.high]).filter((value) => value !== null && (!choice.log || value > 0)).map(scale);
      let low = Infinity, high = -Infinity;
      for (const value of [...values, ...limits]) { low = Math.min(low, value); high = Math.max(high, value); }
      const size = Math.max(Math.abs(low), Math.abs(high));
      const pad = high - low <= size * 1e-12 ? size / 10 || 1 : high / 20 - low / 20; // what is only rounding is a flat line
      low -= pad; high += pad;
      const ends = this.curves.map(({ raw }) => [raw[0].x, raw[raw.length - 1].x]); // a gap at an end has its place too
      const first = Math.min(...ends.map((each) => each[0])), last = Math.max(...ends.map((each) => each[1]));
      this.toX = (x) => margin.left + (last === first ? 0.5 : (x - first) / (last - first)) * (width - margin.left - margin.right);
      this.toY = (value) => height - margin.bottom - ((scale(value) - low) / (high - low)) * (height - margin.top - margin.bottom);
      const raw = (position) => height - margin.bottom - ((position - low) / (high - low)) * (height - margin.top - margin.bottom);
      for (const tick of ticks(low, high, choice.log)) {
        const y = raw(tick);
        this.svg.append(element("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: y, y2: y }),
          element("text", { class: "tick", x: margin.left - 6, y: y + 4, "text-anchor": "end" }, short(choice.log ? 10 ** tick : tick)));
      }
      this.svg.append(element("text", { class: "tick", x: margin.left, y: height - 6 }, shownX(first)),
        element("text", { class: "tick", x: width - margin.right, y: height - 6, "text-anchor": "end" }, (choice.x === "step" ? "step " : "") + shownX(last)));
      for (const limit of page.limits[this.metric] || []) this.limit(limit, width);
      for (const curve of this.curves) {
        if (choice.smooth) this.path(curve.raw, `curve faint k${curve.at % 6}`);
        this.path(curve.line, `curve k${curve.at % 6}${curve.at % 2 ? " dash" : ""}`);
      }
      this.marks = element("g", {});
      this.svg.append(this.marks);
      this.show(null);
    }

    limit(limit, width) {
      const inside = (value) => Math.min(height - margin.bottom, Math.max(margin.top, value));
      if (choice.log && [limit.low, limit.high].some((value) => value !== null && value <= 0)) return;
      const top = limit.high === null ? margin.top : inside(this.toY(limit.high));
      const bottom = limit.low === null ? height - margin.bottom : inside(this.toY(limit.low));
      this.svg.append(element("rect", { class: "band", x: margin.left, y: top, width: width - margin.left - margin.right, height: Math.max(0, bottom - top) },
        element("title", {}, limit.text)));
      for (const value of [limit.low, limit.high]) {
        if (value !== null) this.svg.append(element("line", { class: "limit", x1: margin.left, x2: width - margin.right, y1: this.toY(value), y2: this.toY(value) }));
      }
    }

    path(points, kind) {
      let path = "", pen = false;
      points.forEach((point, at) => {
        if (point.value === null) { pen = false; return; }
        const alone = !pen && (at + 1 === points.length || points[at + 1].value === null);
        path += `${pen ? "L" : "M"}${this.toX(point.x).toFixed(1)} ${this.toY(point.value).toFixed(1)}`;
        if (alone) this.svg.append(element("circle", { class: kind.replace(/.*k(\d).*/, "d$1"), cx: this.toX(point.x), cy: this.toY(point.value), r: 2.5 }));
        pen = true;
      });
      this.svg.append(element("path", { class: kind, d: path }));
    }

    near(clientX) {
      if (!this.xs.length) return;
      const box = this.svg.getBoundingClientRect();
      const at = ((clientX - box.left) * this.width) / box.width;
      let low = 0, high = this.xs.length - 1;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (this.toX(this.xs[middle]) <= at) low = middle; else high = middle;
      }
      this.show(at - this.toX(this.xs[low]) <= this.toX(this.xs[high]) - at ? low : high);
    }

    key(event) {
      const end = this.xs.length - 1;
      const jump = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      const now = this.cursor === null ? end : this.cursor;
      const next = event.key === "Home" ? 0 : event.key === "End" ? end : jump ? Math.min(end, Math.max(0, now + jump)) : null;
      if (next === null || end < 0) return;
      event.preventDefault();
      this.show(next);
    }

    show(at) { // the values at one position, or the last ones
      this.cursor = at;
      if (!this.xs.length) return;
      const x = this.xs[at === null ? this.xs.length - 1 : at];
      const here = this.curves.map((curve) => ({ curve, point: curve.raw.findLast((point) => point.x <= x && point.value !== null) })).filter((one) => one.point);
      this.marks.replaceChildren();
      if (at !== null) {
        this.marks.append(element("line", { class: "cursor", x1: this.toX(x), x2: this.toX(x), y1: margin.top, y2: height - margin.bottom }));
        for (const { curve, point } of here) this.marks.append(element("circle", { class: `d${curve.at % 6}`, cx: this.toX(point.x), cy: this.toY(point.value), r: 3.5 }));
      }
      this.output.replaceChildren(...here.map(({ curve, point }, index) => {
        const text = document.createElement("span");
        text.className = `t${curve.at % 6}`;
        text.textContent = `${index ? " · " : ""}${page.runs.length > 1 ? `${curve.name}: ` : ""}step ${point.step}${choice.x === "time" ? ` (${clock(point.x)})` : ""}: ${point.value}`;
        return text;
      }));
    }
  }

  const charts = [...document.querySelectorAll("figure[data-metric]")].map((figure) => new Chart(figure));
  const drawAll = () => { // every size first: a chart that changes makes the next size a layout of the page
    for (const chart of charts) chart.measure();
    for (const chart of charts) chart.draw();
  };
  for (const input of document.querySelectorAll("input[name=x]")) input.addEventListener("change", () => { choice.x = input.value; drawAll(); });
  document.getElementById("log")?.addEventListener("change", (event) => { choice.log = event.target.checked; drawAll(); });
  document.getElementById("smooth")?.addEventListener("change", (event) => { choice.smooth = Number(event.target.value); drawAll(); });
  const any = document.getElementById("any");
  any?.addEventListener("change", () => {
    const chart = charts.find((one) => one.figure.id === "any-chart");
    chart.metric = any.value;
    chart.svg.setAttribute("aria-label", any.value);
    chart.figure.querySelector("figcaption").textContent = any.value;
    chart.draw();
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; drawAll(); } });
  let opened = [];
  window.addEventListener("beforeprint", () => { // on paper nothing can be opened
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
    drawAll();
  });
  window.addEventListener("afterprint", () => { for (const each of opened) each.open = false; });
  drawAll();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
