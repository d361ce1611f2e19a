// Graphs of steps per second, as SVG: a small one in each row of the list, a large one for a job.

// Points of a polyline in a box of width × height, with the newest at its right edge.
function polyline(values, width, height, top) {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  return values.map((value, i) => {
    const x = values.length > 1 ? i * step : width;
    return `${x.toFixed(1)},${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`;
  }).join(" ");
}

function makeSparkline() {
  return graphic("svg", {class: "spark", viewBox: "0 0 90 20", "aria-hidden": "true"},
                 graphic("polyline", {points: ""}));
}

function updateSparkline(svg, values) {
  const top = Math.max(...values, 1e-9);
  setAttribute(svg.firstElementChild, "points", values.length > 1 ? polyline(values, 90, 20, top) : "");
}

// Steps per second over the time that the rendezvous stores.
class RateChart {
  constructor() {
    this.line = graphic("polyline", {points: ""});
    this.area = graphic("polygon", {points: ""});
    this.svg = graphic("svg", {class: "rate", viewBox: "0 0 600 120", preserveAspectRatio: "none", role: "img"},
                       this.area, this.line);
    this.top = element("span", {class: "axis"});
    this.oldest = element("span", {class: "axis"});
    this.words = element("p", {class: "quiet"});
    this.root = section("rate", "Steps per second",
                        element("div", {class: "plot"}, this.top, this.svg,
                                element("div", {class: "below"}, this.oldest, element("span", {class: "axis"}, "now"))),
                        this.words);
  }

  // points: [[ms ago, steps/s], ...], oldest first
  update(points, now) {
    this.root.hidden = points.length < 2;
    if (this.root.hidden) return;
    const rates = points.map((point) => point[1]);
    const top = Math.max(...rates, 1e-9);
    const oldest = Math.max(points[0][0], 1);
    const place = ([ago, value]) =>
      `${(600 * (1 - ago / oldest)).toFixed(1)},${(119 - (value / top) * 117).toFixed(1)}`;
    const line = points.map(place).join(" ");
    setAttribute(this.line, "points", line);
    setAttribute(this.area, "points", `0,120 ${line} 600,120`);
    setText(this.top, rate(top));
    setText(this.oldest, `${wholeAge(oldest)} ago`);
    const sorted = [...rates].sort((a, b) => a - b);
    const words = `Now ${rate(now ?? rates[rates.length - 1])}, median ${rate(sorted[sorted.length >> 1])}, ` +
      `lowest ${rate(sorted[0])}, highest ${rate(top)}.`;
    setText(this.words, words);
    setAttribute(this.svg, "aria-label", `Steps per second over ${wholeAge(oldest)}. ${words}`);
  }
}
