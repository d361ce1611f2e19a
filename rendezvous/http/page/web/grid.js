// Nodes as coloured cells on a canvas. Of very many nodes a cell stands for several, and shows the worst
// of them.

const kGridMostHeight = 420;  // CSS pixels
const kCellSizes = [28, 22, 18, 14, 11, 9, 7, 6, 5];
const kConditions = ["running", "behind", "waiting", "draining", "lost"];  // the later the worse

// The condition of node i, from its state and how far it lags behind the newest step.
function conditionOf(nodes, i, newest) {
  const state = nodes.state_names[nodes.states[i]] ?? "";
  if (state.startsWith("lost contact")) return "lost";
  if (state.startsWith("held back")) return "lost";
  if (state === "draining") return "draining";
  if (state !== "running" && state !== "done") return "waiting";
  return lagOf(nodes, i, newest) > kLagSteps ? "behind" : "running";
}

const kLagSteps = 2;  // steps come with heartbeats, so nodes differ by one or two

function lagOf(nodes, i, newest) {
  const step = nodes.steps?.[i];
  return step === null || step === undefined || newest === null ? 0 : newest - step;
}

function newestStep(nodes) {
  let newest = null;
  for (const step of nodes.steps ?? []) if (step !== null && (newest === null || step > newest)) newest = step;
  return newest;
}

// The running node that is most steps behind; −1 where none is.
function stragglerOf(nodes, newest) {
  let worst = -1;
  for (let i = 0; i < nodes.hosts.length; ++i) {
    if (conditionOf(nodes, i, newest) !== "behind") continue;
    if (worst < 0 || nodes.steps[i] < nodes.steps[worst]) worst = i;
  }
  return worst;
}

// How `cells` cells fit into a width: their size, how many in a row, how many nodes each stands for.
function layOut(cells, width) {
  for (const size of kCellSizes) {
    const columns = Math.max(1, Math.floor(width / size));
    if (Math.ceil(cells / columns) * size <= kGridMostHeight) return {size, columns, each: 1};
  }
  const size = kCellSizes[kCellSizes.length - 1] + 1;
  const columns = Math.max(1, Math.floor(width / size));
  const each = Math.ceil(cells / (columns * Math.floor(kGridMostHeight / size)));
  return {size, columns, each};
}

class Grid {
  // onPick(first node, number of nodes)
  constructor(onPick) {
    this.onPick = onPick;
    this.canvas = element("canvas", {tabindex: "0", role: "img", "aria-describedby": "grid-help"});
    this.legend = element("ul", {class: "legend"});
    this.words = element("p");
    this.help = element("p", {class: "quiet", id: "grid-help"});
    this.pointed = element("p", {class: "quiet", role: "status"});
    this.root = section("grid", "Nodes", this.words, this.legend, this.canvas, this.help, this.pointed);
    this.nodes = null;
    this.cursor = 0;
    this.canvas.addEventListener("click", (event) => this.pick(this.cellAt(event)));
    this.canvas.addEventListener("mousemove", (event) => this.describe(this.cellAt(event)));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("focus", () => this.draw());
    this.canvas.addEventListener("blur", () => this.draw());
    new ResizeObserver(() => {
      if (this.root.clientWidth !== this.drawnWidth) requestAnimationFrame(() => this.draw());
    }).observe(this.root);
  }

  update(nodes) {
    this.root.hidden = !nodes || nodes.hosts.length === 0;
    if (this.root.hidden) return;
    if (nodes === this.nodes) return;
    this.nodes = nodes;
    const newest = newestStep(nodes);
    this.conditions = nodes.hosts.map((_, i) => kConditions.indexOf(conditionOf(nodes, i, newest)));
    this.straggler = stragglerOf(nodes, newest);
    this.newest = newest;
    this.describeAll();
    this.draw();
  }

  describeAll() {
    const counts = kConditions.map(() => 0);
    for (const condition of this.conditions) ++counts[condition];
    const shown = kConditions.map((name, i) => ({name, many: counts[i]})).filter((one) => one.many > 0);
    syncChildren(this.legend, shown, (one) => one.name,
      (one) => element("li", {}, element("span", {class: `swatch ${one.name}`}), element("span")),
      (child, one) => setText(child.lastElementChild, `${number(one.many)} ${one.name}`));
    const behind = this.straggler < 0 ? "" :
      ` ${hostOf(this.nodes, this.straggler)} is ${count(lagOf(this.nodes, this.straggler, this.newest), "step")} behind: the straggler, marked by a ring.`;
    setText(this.words, `${count(this.nodes.hosts.length, "node")}.${behind}`);
    setAttribute(this.canvas, "aria-label",
                 `${count(this.nodes.hosts.length, "node")}: ${shown.map((one) => `${one.many} ${one.name}`).join(", ")}.${behind}`);
  }

  draw() {
    if (this.root.hidden || !this.nodes) return;
    const width = Math.floor(this.root.clientWidth);
    if (width === 0) return;
    this.drawnWidth = this.root.clientWidth;
    const plan = layOut(this.nodes.hosts.length, width);
    this.plan = plan;
    const cells = Math.ceil(this.nodes.hosts.length / plan.each);
    const height = Math.ceil(cells / plan.columns) * plan.size;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.floor(width * scale);
    this.canvas.height = Math.floor(height * scale);
    this.canvas.style.height = `${height}px`;
    setText(this.help, (plan.each > 1 ? `A cell is ${plan.each} nodes and shows the worst of them. ` : "A cell is a node. ") +
                       "Click one, or move with the arrow keys and press Enter, to see it in the table below.");
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const colours = coloursOf(this.canvas);
    for (let i = 0; i < cells; ++i) this.drawCell(context, colours, i, this.worstOf(i));
    if (this.straggler >= 0) this.ring(context, colours.ring, Math.floor(this.straggler / plan.each));
    if (document.activeElement === this.canvas) this.ring(context, colours.focus, this.cursor);
  }

  worstOf(cellIndex) {
    const first = cellIndex * this.plan.each;
    let worst = 0;
    for (let i = first; i < Math.min(first + this.plan.each, this.conditions.length); ++i) {
      worst = Math.max(worst, this.conditions[i]);
    }
    return worst;
  }

  drawCell(context, colours, cellIndex, condition) {
    const {size, columns} = this.plan;
    const x = (cellIndex % columns) * size;
    const y = Math.floor(cellIndex / columns) * size;
    const side = size - 1;
    context.fillStyle = colours[kConditions[condition]];
    context.fillRect(x, y, side, side);
    if (condition === 0 || side < 5) return;
    // Not by colour alone.
    context.strokeStyle = colours.mark;
    context.lineWidth = Math.max(1, side / 9);
    context.beginPath();
    const [near, far] = [side * 0.25, side * 0.75];
    if (kConditions[condition] !== "waiting") {
      context.moveTo(x + near, y + far);
      context.lineTo(x + far, y + near);
    }
    if (kConditions[condition] === "lost") {
      context.moveTo(x + near, y + near);
      context.lineTo(x + far, y + far);
    }
    context.stroke();
  }

  ring(context, colour, cellIndex) {
    const {size, columns} = this.plan;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect((cellIndex % columns) * size, Math.floor(cellIndex / columns) * size, size - 1, size - 1);
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.plan.size);
    const row = Math.floor((event.clientY - box.top) / this.plan.size);
    if (column < 0 || column >= this.plan.columns || row < 0) return -1;
    const index = row * this.plan.columns + column;
    return index * this.plan.each < this.nodes.hosts.length ? index : -1;
  }

  describe(cellIndex) {
    if (cellIndex < 0) return setText(this.pointed, "");
    const first = cellIndex * this.plan.each;
    const last = Math.min(first + this.plan.each, this.nodes.hosts.length) - 1;
    const name = first === last ? hostOf(this.nodes, first) : `${hostOf(this.nodes, first)} to ${hostOf(this.nodes, last)}`;
    setText(this.pointed, `${name}: ${kConditions[this.worstOf(cellIndex)]}`);
  }

  pick(cellIndex) {
    if (cellIndex < 0) return;
    this.cursor = cellIndex;
    this.describe(cellIndex);
    this.onPick(cellIndex * this.plan.each, this.plan.each);
    this.draw();
  }

  onKey(event) {
    const moves = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.plan.columns, ArrowDown: this.plan.columns};
    if (event.key === "Enter") {
      event.preventDefault();
      this.pick(this.cursor);
    } else if (event.key in moves) {
      event.preventDefault();
      const cells = Math.ceil(this.nodes.hosts.length / this.plan.each);
      this.cursor = Math.min(cells - 1, Math.max(0, this.cursor + moves[event.key]));
      this.describe(this.cursor);
      this.draw();
    }
  }
}

function hostOf(nodes, i) {
  return printable(nodes.hosts[i]);
}

function coloursOf(canvas) {
  const style = getComputedStyle(canvas);
  const colours = {};
  for (const name of [...kConditions, "mark", "ring", "focus"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
  return colours;
}
