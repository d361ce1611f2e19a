// Nodes × ranks as coloured cells on a canvas. A cell for several nodes shows the worst one.

class Grid {
  // onPick(first node, number of nodes)
  constructor(onPick) {
    this.onPick = onPick;
    this.canvas = element("canvas", {tabindex: "0", role: "img", "aria-describedby": "grid-help"});
    this.legend = element("ul", {class: "legend"});
    this.words = element("p");
    this.help = element("p", {class: "quiet", id: "grid-help"});
    this.pointed = element("p", {class: "quiet", role: "status"});
    this.root = section("grid", "Nodes and ranks", this.words, this.legend, this.canvas, this.help, this.pointed);
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

  update(nodes, conditions) {
    this.root.hidden = conditions === null;
    if (this.root.hidden || nodes === this.nodes) return;
    this.nodes = nodes;
    this.conditions = conditions;
    this.describeAll();
    this.draw();
  }

  describeAll() {
    const {ofNodes} = this.conditions;
    const counts = new Map();
    ofNodes.forEach((condition, i) => {
      const label = this.conditions.labelOf(i);
      if (!counts.has(label)) counts.set(label, {label, condition, many: 0});
      ++counts.get(label).many;
    });
    const shown = [...counts.values()].sort((a, b) => a.condition - b.condition);
    syncChildren(this.legend, shown, (one) => one.label,
      (one) => element("li", {}, element("span", {class: `swatch ${kConditions[one.condition]}`}), element("span")),
      (child, one) => setText(child.lastElementChild, `${number(one.many)} ${one.label}`));
    const words = `${count(this.nodes.hosts.length, "node")}. ${this.conditions.words()}`.trim();
    setText(this.words, words);
    setAttribute(this.canvas, "aria-label", `${words} ${shown.map((one) => `${one.many} ${one.label}`).join("; ")}.`);
  }

  draw() {
    if (this.root.hidden || !this.nodes) return;
    const width = Math.floor(this.root.clientWidth);
    if (width === 0) return;
    this.drawnWidth = this.root.clientWidth;
    const plan = planGrid(this.nodes, width);
    this.plan = plan;
    this.cursor = Math.min(this.cursor, plan.cells - 1);
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.floor(width * scale);
    this.canvas.height = Math.floor(plan.height * scale);
    this.canvas.style.height = `${plan.height}px`;
    setText(this.help, `${this.whatACellIs()} Click one, or move with the arrow keys and press Enter, to see its node in the table below.`);
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const colours = coloursOf(this.canvas);
    for (let cell = 0; cell < plan.cells; ++cell) {
      if (this.exists(cell)) this.drawCell(context, colours, plan.place(cell), this.worstOf(cell));
    }
    if (plan.left > 0) this.drawNames(context, colours);
    for (const cell of this.stragglerCells()) this.ring(context, colours.ring, cell);
    if (document.activeElement === this.canvas) this.ring(context, colours.focus, this.cursor);
  }

  whatACellIs() {
    if (this.plan.ranks > 0) return this.plan.left > 0 ? "A row is a node, a cell one of its ranks." : "A cell is a rank, a block a node.";
    return this.plan.each > 1 ? `A cell is ${this.plan.each} nodes and shows the worst of them.` : "A cell is a node.";
  }

  // Nodes may have different numbers of ranks.
  exists(cell) {
    return this.plan.ranks === 0 || this.plan.local(cell) < this.nodes.workers[this.plan.first(cell)];
  }

  worstOf(cell) {
    if (this.plan.ranks > 0) return this.conditions.ofRank(this.plan.first(cell), this.plan.local(cell));
    return this.conditions.ofNodes[this.worstNode(cell)];
  }

  worstNode(cell) {
    const {ofNodes} = this.conditions;
    let worst = this.plan.first(cell);
    for (let i = worst; i <= this.plan.last(cell); ++i) if (ofNodes[i] > ofNodes[worst]) worst = i;
    return worst;
  }

  // The state of the cell's rank or node; of several nodes the worst state.
  stateOf(cell) {
    const [first, last] = [this.plan.first(cell), this.plan.last(cell)];
    if (first !== last) return this.conditions.labelOf(this.worstNode(cell));
    const said = [this.conditions.stateOf(first)];
    const lag = this.conditions.lagOf(first);
    if (lag > kLagSteps) said.push(`${count(lag, "step")} behind`);
    if (kConditions[this.worstOf(cell)] === "straggler") said.push(this.plan.ranks > 0 ? "straggler" : "with a straggler");
    return said.join(", ");
  }

  // Marks the ranks that keep the others waiting, and the first rank of the node that is most steps
  // behind.
  stragglerCells() {
    const cells = this.conditions.last < 0 ? [] : [this.plan.cellOf(this.conditions.last)];
    for (const rank of this.conditions.stragglers) {
      const node = this.conditions.nodeOf(rank);
      if (node >= 0) cells.push(this.plan.cellOf(node, rank - this.nodes.first_ranks[node]));
    }
    return cells;
  }

  drawCell(context, colours, {x, y}, condition) {
    const side = this.plan.size - 1;
    const name = kConditions[condition];
    context.fillStyle = colours[name];
    context.fillRect(x, y, side, side);
    if (condition === 0 || side < 5) return;
    // Marks are visible without colours, too.
    context.strokeStyle = colours.mark;
    context.lineWidth = Math.max(1, side / 9);
    context.beginPath();
    const [near, far] = [side * 0.25, side * 0.75];
    if (name !== "waiting") {
      context.moveTo(x + near, y + far);
      context.lineTo(x + far, y + near);
    }
    if (name === "lost") {
      context.moveTo(x + near, y + near);
      context.lineTo(x + far, y + far);
    }
    context.stroke();
  }

  drawNames(context, colours) {
    context.fillStyle = colours.quiet;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let node = 0; node < this.nodes.hosts.length; ++node) {
      const name = hostOf(this.nodes, node);
      const {y} = this.plan.place(this.plan.cellOf(node));
      context.fillText(name.length > 18 ? `${name.slice(0, 17)}…` : name, 0, y + this.plan.size / 2, this.plan.left - 8);
    }
  }

  ring(context, colour, cell) {
    const {x, y} = this.plan.place(cell);
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(x, y, this.plan.size - 1, this.plan.size - 1);
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const cell = this.plan.at(event.clientX - box.left, event.clientY - box.top);
    return cell >= 0 && this.exists(cell) ? cell : -1;
  }

  describe(cell) {
    if (cell < 0) return setText(this.pointed, "");
    const [first, last] = [this.plan.first(cell), this.plan.last(cell)];
    const begin = this.nodes.first_ranks[first];
    const rank = this.plan.ranks > 0 && begin !== null ? `rank ${number(begin + this.plan.local(cell))} on ` : "";
    const name = first === last ? hostOf(this.nodes, first) : `${hostOf(this.nodes, first)} to ${hostOf(this.nodes, last)}`;
    setText(this.pointed, `${rank}${name}: ${this.stateOf(cell)}`);
  }

  pick(cell) {
    if (cell < 0) return;
    this.cursor = cell;
    this.describe(cell);
    this.onPick(this.plan.first(cell), this.plan.last(cell) - this.plan.first(cell) + 1);
    this.draw();
  }

  onKey(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      this.pick(this.cursor);
      return;
    }
    const next = this.neighbour(event.key);
    if (next === null) return;
    event.preventDefault();
    if (next >= 0 && next < this.plan.cells && this.exists(next)) this.cursor = next;
    this.describe(this.cursor);
    this.draw();
  }

  neighbour(key) {
    const {x, y} = this.plan.place(this.cursor);
    switch (key) {
      case "ArrowLeft": return this.nextInOrder(-1);
      case "ArrowRight": return this.nextInOrder(1);
      case "ArrowUp": return this.plan.at(x, y - (this.plan.lines > 1 ? this.plan.size : this.plan.blockHeight));
      case "ArrowDown": return this.plan.at(x, y + (this.plan.lines > 1 ? this.plan.size : this.plan.blockHeight));
      default: return null;
    }
  }

  nextInOrder(by) {
    let cell = this.cursor + by;
    while (cell >= 0 && cell < this.plan.cells && !this.exists(cell)) cell += by;
    return cell;
  }
}

function coloursOf(canvas) {
  const style = getComputedStyle(canvas);
  const colours = {};
  for (const name of [...kConditions, "mark", "ring", "focus", "quiet"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
  return colours;
}
