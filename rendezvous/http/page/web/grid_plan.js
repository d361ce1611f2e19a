// The layout of the grid. Nodes are rows, their ranks columns. If there are more nodes than fit
// below each other, several stand side by side. If there is no room for one cell per rank, a cell
// is a node, or, for very many nodes, several nodes. Pure.

const kGridMostHeight = 420;  // CSS pixels
const kRankSizes = [22, 18, 14, 11, 9, 7];
const kNodeSizes = [28, 22, 18, 14, 11, 9, 7, 6, 5];
const kNameWidth = 130;  // maximum
const kLetterWidth = 7.5;
const kLeastNamedSize = 14;

function planGrid(nodes, width) {
  const many = nodes.hosts.length;
  const most = Math.max(1, ...nodes.workers);
  return planRows(nodes, most, width) ?? planRanks(many, most, width) ?? planNodes(many, width);
}

// One row per node, with its name.
function planRows(nodes, most, width) {
  const many = nodes.hosts.length;
  const left = Math.min(kNameWidth, Math.ceil(kLetterWidth * Math.max(...nodes.hosts.map((host) => host.length))) + 12);
  const size = kRankSizes.find((one) => one >= kLeastNamedSize && many * one <= kGridMostHeight && most * one <= width - left);
  return size && new GridPlan({size, each: 1, ranks: most, nodes: many, across: 1, left, columns: most, lines: 1, gap: 0});
}

// Blocks of a node's ranks, several blocks in a row.
function planRanks(nodes, most, width) {
  for (const size of kRankSizes) {
    const gap = Math.ceil(size / 3);
    const columns = Math.max(1, Math.min(most, Math.floor(width / size)));
    const lines = Math.ceil(most / columns);
    const across = Math.max(1, Math.floor((width + gap) / (columns * size + gap)));
    const plan = new GridPlan({size, each: 1, ranks: most, nodes, across, left: 0, columns, lines, gap});
    if (plan.height <= kGridMostHeight) return plan;
  }
  return null;
}

function planNodes(nodes, width) {
  const plan = (size, each) => new GridPlan({size, each, ranks: 0, nodes, across: Math.max(1, Math.floor(width / size)), left: 0,
                                             columns: 1, lines: 1, gap: 0});
  const size = kNodeSizes.find((one) => plan(one, 1).height <= kGridMostHeight);
  if (size) return plan(size, 1);
  const least = kNodeSizes[kNodeSizes.length - 1] + 1;
  const fit = plan(least, 1).across * Math.floor(kGridMostHeight / least);
  return plan(least, Math.ceil(nodes / fit));
}

class GridPlan {
  // A cell is a rank (`ranks` per node) or, if `ranks` is 0, `each` nodes. `across`: nodes side by
  // side. `columns`, `lines`: of a node's ranks.
  constructor(plan) {
    Object.assign(this, plan);
    this.per = Math.max(1, this.ranks);
    this.blocks = Math.ceil(this.nodes / this.each);
    this.cells = this.blocks * this.per;
    this.blockWidth = this.columns * this.size + this.gap;
    this.blockHeight = this.lines * this.size + (this.lines > 1 ? this.gap : 0);
    this.height = Math.ceil(this.blocks / this.across) * this.blockHeight;
  }

  // The nodes of a cell, and its rank's place on the node.
  first(cell) { return Math.floor(cell / this.per) * this.each; }
  last(cell) { return Math.min(this.first(cell) + this.each, this.nodes) - 1; }
  local(cell) { return cell % this.per; }

  cellOf(node, local = 0) {
    return Math.floor(node / this.each) * this.per + (this.ranks > 0 ? local : 0);
  }

  place(cell) {
    const block = Math.floor(cell / this.per);
    const local = this.local(cell);
    return {x: this.left + (block % this.across) * this.blockWidth + (local % this.columns) * this.size,
            y: Math.floor(block / this.across) * this.blockHeight + Math.floor(local / this.columns) * this.size};
  }

  // −1: no cell.
  at(x, y) {
    const across = Math.floor((x - this.left) / this.blockWidth);
    const block = Math.floor(y / this.blockHeight) * this.across + across;
    const column = Math.floor((x - this.left - across * this.blockWidth) / this.size);
    const line = Math.floor((y % this.blockHeight) / this.size);
    if (x < this.left || y < 0 || across >= this.across || block >= this.blocks || column >= this.columns || line >= this.lines) return -1;
    const local = line * this.columns + column;
    return local < this.per ? block * this.per + local : -1;
  }
}
