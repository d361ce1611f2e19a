// The nodes as a table. Only the visible rows exist, so it scrolls equally well with 16,384 nodes.

const kRowHeight = 32;  // CSS pixels, as in the style sheet
const kNodeColumns = ["Node", "State", "Ranks", "Step", "Heard", ""];

class NodeTable {
  // onRank(rank): shows the rank's log; onDrain(host)
  constructor(onRank, onDrain) {
    this.onRank = onRank;
    this.onDrain = onDrain;
    this.filter = element("input", {type: "search", id: "node-filter", placeholder: "name or state"});
    this.body = element("div", {class: "window-body", role: "rowgroup"});
    this.scroller = element("div", {class: "window", role: "table", tabindex: "0", "aria-label": "Nodes"},
      element("div", {role: "rowgroup", class: "window-head"},
        element("div", {role: "row", class: "node-row"},
          ...kNodeColumns.map((name) => element("span", {role: "columnheader"}, name || "Orders")))),
      this.body);
    this.found = element("span", {class: "quiet", role: "status"});
    this.root = element("div", {class: "nodes"},
      element("p", {}, element("label", {for: "node-filter"}, "Show only"), " ", this.filter, " ", this.found),
      this.scroller);
    this.nodes = null;
    this.picked = null;
    this.mayAct = false;
    this.filter.addEventListener("input", () => {
      this.picked = null;
      this.choose();
      this.scroller.scrollTop = 0;
    });
    this.scroller.addEventListener("scroll", () => this.draw(), {passive: true});
  }

  update(nodes, conditions, mayAct, elapsed) {
    this.root.hidden = conditions === null;
    if (this.root.hidden) return;
    this.mayAct = mayAct;
    this.elapsed = elapsed;
    if (nodes !== this.nodes) {
      this.nodes = nodes;
      this.conditions = conditions;
      this.badness = conditions.ofNodes;
      this.choose();
    } else {
      this.draw();
    }
  }

  // Shows only these nodes, until the user edits the filter.
  show(first, many) {
    this.picked = [first, first + many];
    this.filter.value = "";
    this.choose();
    this.scroller.scrollTop = 0;
  }

  choose() {
    if (this.nodes === null) return;
    const wanted = this.filter.value.trim().toLowerCase();
    this.rows = [];
    for (let i = 0; i < this.nodes.hosts.length; ++i) {
      if (this.picked && (i < this.picked[0] || i >= this.picked[1])) continue;
      if (wanted === "" || this.matches(i, wanted)) this.rows.push(i);
    }
    // Nodes in an unusual state come first.
    if (!this.picked) this.rows.sort((a, b) => this.badness[b] - this.badness[a] || a - b);
    const all = this.nodes.hosts.length;
    setText(this.found, this.rows.length === all ? count(all, "node") : `${number(this.rows.length)} of ${count(all, "node")}`);
    setAttribute(this.scroller, "aria-rowcount", String(this.rows.length + 1));
    this.body.style.height = `${this.rows.length * kRowHeight}px`;
    this.draw();
  }

  matches(i, wanted) {
    return this.nodes.hosts[i].toLowerCase().includes(wanted) || this.stateOf(i).toLowerCase().includes(wanted);
  }

  stateOf(i) {
    return this.nodes.state_names[this.nodes.states[i]] ?? "?";
  }

  draw() {
    if (this.nodes === null) return;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / kRowHeight) - 4);
    const shown = Math.ceil((this.scroller.clientHeight || 400) / kRowHeight) + 8;
    const places = [];
    for (let at = first; at < Math.min(first + shown, this.rows.length); ++at) places.push({at, node: this.rows[at]});
    syncChildren(this.body, places, (place) => this.nodes.hosts[place.node] + place.node,
                 (place) => this.makeRow(place.node), (row, place) => this.updateRow(row, place));
  }

  makeRow(node) {
    const cells = kNodeColumns.map(() => element("span", {role: "cell"}));
    cells[2].addEventListener("click", (event) => {
      if (event.target.dataset.rank !== undefined) this.onRank(Number(event.target.dataset.rank));
    });
    cells[5].append(element("button", {type: "button", class: "small", onclick: () => this.onDrain(this.nodes.hosts[node])}, "Drain"));
    return element("div", {role: "row", class: "node-row"}, ...cells);
  }

  updateRow(row, {at, node}) {
    const nodes = this.nodes;
    const [host, state, ranks, step, heard, orders] = row.children;
    row.style.transform = `translateY(${at * kRowHeight}px)`;
    setAttribute(row, "aria-rowindex", String(at + 2));
    setClass(row, `node-row ${kConditions[this.badness[node]]}`);
    setText(host, hostOf(nodes, node));
    setText(state, printable(this.stateOf(node)) + (this.straggles(node) ? " (straggler)" : ""));
    this.updateRanks(ranks, nodes.first_ranks[node], nodes.workers[node]);
    const lag = this.conditions.lagOf(node);
    setText(step, number(nodes.steps[node]) + (lag > kLagSteps ? ` (${count(lag, "step")} behind)` : ""));
    setText(heard, `${wholeAge(nodes.heard_ms_ago[node] + this.elapsed)} ago`);
    orders.firstElementChild.hidden = !this.mayAct;
    setAttribute(orders.firstElementChild, "aria-label", `Drain ${hostOf(nodes, node)}`);
  }

  // Each rank is a button that opens its log.
  updateRanks(holder, first, workers) {
    const ranks = first === null || first === undefined || first < 0 ? [] : Array.from({length: workers}, (_, i) => first + i);
    syncChildren(holder, ranks, (rank) => rank,
      (rank) => element("button", {type: "button", "data-rank": rank, "aria-label": `Log of rank ${rank}`}, String(rank)),
      (button, rank) => setClass(button, this.conditions.stragglers.has(rank) ? "rank straggler" : "rank"));
  }

  straggles(node) {
    return kConditions[this.badness[node]] === "straggler";
  }
}
