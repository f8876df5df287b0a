// Polls the samples since the last poll, keeps an hour of them, and redraws the charts.
const colours = ["#0b6477", "#c2410c", "#6d28d9", "#15803d", "#b91c1c", "#1d4ed8", "#8a5a00", "#be185d"];
const samplesMax = 720;
const [width, height] = [480, 180];
const margin = { left: 52, right: 6, top: 8, bottom: 20 };
const charts = document.getElementById("charts");
const problem = document.getElementById("chart-problem");
const samples = [];

function svg(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function formatValue(value, unit) {
  if (unit === "%") return `${Math.round(value * 100)} %`;
  const digits = Math.abs(value) < 10 && value % 1 !== 0 ? 2 : 0;
  const label = value === 1 && unit === "messages" ? "message" : unit;
  return `${value.toLocaleString("en", { maximumFractionDigits: digits })} ${label}`;
}

// The smallest round number that is not below the value.
function ceiling(value) {
  if (value <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((it) => it * step).find((it) => it >= value);
}

function draw(figure) {
  const { series, unit, title } = figure.dataset;
  const last = samples[samples.length - 1][series];
  const names = Object.keys(last).sort((a, b) => last[b] - last[a] || a.localeCompare(b)).slice(0, Number(charts.dataset.lines));
  const shown = [...names].sort();
  const values = samples.flatMap((it) => shown.map((name) => it[series][name] ?? 0));
  const high = unit === "%" ? 1 : ceiling(Math.max(0, ...values));
  const [begin, end] = [samples[0].millis, samples[samples.length - 1].millis];
  const x = (millis) => margin.left + ((width - margin.left - margin.right) * (millis - begin)) / Math.max(1, end - begin);
  const y = (value) => margin.top + (height - margin.top - margin.bottom) * (1 - value / high);
  const parts = [0, 0.5, 1].flatMap((part) => [
    svg("line", { class: "axis", x1: margin.left, x2: width - margin.right, y1: y(part * high), y2: y(part * high) }),
    svg("text", { x: margin.left - 6, y: y(part * high) + 4, "text-anchor": "end" }, formatValue(part * high, unit === "%" ? unit : "").trim()),
  ]);
  const clock = (millis) => new Date(millis).toISOString().slice(11, 19);
  parts.push(svg("text", { x: margin.left, y: height - 4 }, clock(begin)));
  parts.push(svg("text", { x: width - margin.right, y: height - 4, "text-anchor": "end" }, clock(end)));
  shown.forEach((name, number) => {
    const points = samples.filter((it) => name in it[series]).map((it) => `${x(it.millis).toFixed(1)},${y(it[series][name]).toFixed(1)}`);
    if (points.length === 1) points.push(points[0].replace(/^[^,]+/, String(width - margin.right)));
    parts.push(svg("polyline", { class: "line", points: points.join(" "), stroke: colours[number % colours.length] }));
  });
  const picture = figure.querySelector("svg");
  picture.replaceChildren(...parts);
  const now = shown.map((name) => `${name} ${formatValue(last[name], unit)}`);
  picture.setAttribute("aria-label", `${title}: ${now.join(", ") || "no data"}`);
  figure.querySelector(".legend").replaceChildren(...(shown.length ? shown : [null]).map((name, number) => {
    const item = document.createElement("li");
    if (name === null) {
      item.textContent = "no data";
      return item;
    }
    const mark = svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
    mark.append(svg("rect", { width: 10, height: 10, rx: 2, fill: colours[number % colours.length] }));
    item.append(mark, `${name}: ${formatValue(last[name], unit)}`);
    return item;
  }));
}

async function poll() {
  try {
    const since = samples.length ? samples[samples.length - 1].millis : 0;
    const response = await fetch(`/charts/data.json?since=${since}`, { credentials: "same-origin" });
    if (response.status === 401) location.reload();
    const received = await response.json();
    samples.push(...received.samples);
    samples.splice(0, Math.max(0, samples.length - samplesMax));
    problem.hidden = received.problem === null;
    problem.textContent = received.problem ?? "";
    if (received.samples.length) charts.querySelectorAll(".chart").forEach(draw);
  } catch {
    problem.hidden = false;
    problem.textContent = "The dashboard does not respond; the charts show the last samples.";
  }
  // Poll faster until the first sample is taken.
  setTimeout(poll, samples.length ? Number(charts.dataset.seconds) * 1000 : 1000);
}

poll();
