// The condition of each node and rank of a job, computed from the states, steps and stragglers that
// the rendezvous sends. Pure.

// From best to worst.
const kConditions = ["running", "behind", "straggler", "waiting", "draining", "lost"];
const kLagSteps = 2;  // steps come with heartbeats, so nodes differ by one or two
// What a condition says in addition to the node's state.
const kAdded = {behind: `, more than ${kLagSteps} steps behind`, straggler: ", with a straggler"};

class Conditions {
  // `stragglers`: ranks that keep the others waiting.
  constructor(nodes, stragglers) {
    this.nodes = nodes;
    this.stragglers = new Set(stragglers);
    this.newest = newestStep(nodes);
    this.ofNodes = nodes.hosts.map((_, i) => kConditions.indexOf(this.conditionOf(i)));
    // The stragglers' nodes, and the running node that is most steps behind.
    this.last = this.mostBehind();
    for (const rank of this.stragglers) {
      const node = this.nodeOf(rank);
      if (node >= 0) this.ofNodes[node] = Math.max(this.ofNodes[node], kConditions.indexOf("straggler"));
    }
  }

  // The node's state as in the table, without a reason: "lost contact", "held back", "spare".
  stateOf(i) {
    return (this.nodes.state_names[this.nodes.states[i]] ?? "?").split(":")[0];
  }

  // "running", "running, with a straggler"
  labelOf(i) {
    return this.stateOf(i) + (kAdded[kConditions[this.ofNodes[i]]] ?? "");
  }

  conditionOf(i) {
    const state = this.stateOf(i);
    if (state === "lost contact" || state === "held back") return "lost";
    if (state === "draining") return "draining";
    if (state !== "running" && state !== "done") return "waiting";
    return this.lagOf(i) > kLagSteps ? "behind" : "running";
  }

  // The condition of the rank at this place on the node.
  ofRank(node, local) {
    const first = this.nodes.first_ranks[node];
    if (first !== null && this.stragglers.has(first + local)) return this.ofNodes[node];
    return kConditions.indexOf(this.conditionOf(node));
  }

  lagOf(i) {
    const step = this.nodes.steps?.[i];
    return step === null || step === undefined || this.newest === null ? 0 : this.newest - step;
  }

  nodeOf(rank) {
    const {first_ranks: first, workers} = this.nodes;
    return first.findIndex((begin, i) => begin !== null && rank >= begin && rank < begin + workers[i]);
  }

  mostBehind() {
    let last = -1;
    for (let i = 0; i < this.ofNodes.length; ++i) {
      if (kConditions[this.ofNodes[i]] === "behind" && (last < 0 || this.nodes.steps[i] < this.nodes.steps[last])) last = i;
    }
    return last;
  }

  // "Straggler: rank 9 on n2 keeps the others waiting. n7 is 39 steps behind. ..." Empty if neither is so.
  words() {
    const said = [];
    const named = [...this.stragglers].slice(0, 4).map((rank) => {
      const node = this.nodeOf(rank);
      return `${number(rank)}${node < 0 ? "" : ` on ${hostOf(this.nodes, node)}`}`;
    });
    if (this.stragglers.size > named.length) named.push(`${this.stragglers.size - named.length} more`);
    if (named.length > 0) {
      const one = named.length === 1;
      said.push(`${one ? "Straggler: rank" : "Stragglers: ranks"} ${named.join(", ")} ${one ? "keeps" : "keep"} the others waiting.`);
    }
    if (this.last >= 0) said.push(`${hostOf(this.nodes, this.last)} is ${count(this.lagOf(this.last), "step")} behind.`);
    if (said.length > 0) said.push("A ring marks stragglers and the node that is most steps behind.");
    return said.join(" ");
  }
}

function newestStep(nodes) {
  let newest = null;
  for (const step of nodes.steps ?? []) if (step !== null && (newest === null || step > newest)) newest = step;
  return newest;
}

function hostOf(nodes, i) {
  return printable(nodes.hosts[i]);
}
