// One job: the most important facts first, then the details.

class JobView {
  constructor(session, name) {
    this.session = session;
    this.name = name;
    this.path = `/api/events?${new URLSearchParams({job: name})}`;
    this.job = null;
    this.orders = new Orders(session, name);
    this.headline = new Headline(name);
    this.cause = new CausePanel();
    this.stacks = new Stacks(session, name);
    this.rate = new RateChart();
    this.generations = new Generations();
    this.logs = new Logs(session, name);
    this.table = new NodeTable((rank) => this.logs.openRank(rank), (host) => this.orders.askToDrain(host));
    this.grid = new Grid((first, many) => this.table.show(first, many));
    this.history = new History();
    this.parts = element("div", {hidden: true}, this.headline.root, this.orders.root, this.cause.root, this.stacks.root,
      this.rate.root, this.generations.root, this.grid.root, this.table.root, this.logs.root, this.history.root);
    this.waiting = element("p", {}, `Asking the rendezvous for ${printable(nameOf(name))}…`);
    this.root = element("div", {}, element("p", {}, element("a", {href: "#"}, "← All jobs")), this.waiting, this.parts);
  }

  title() {
    return this.job === null ? `${this.name} · ddprun` : `${stateWord(this.job)} · ${this.name} · ddprun`;
  }

  take(name, value) {
    if (name === "job") this.takeJob(value);
    else if (name === "history") this.history.replace(value);
    else if (name === "line") this.history.add(value);
  }

  takeJob(job) {
    this.job = job;
    const nodes = job.nodes;
    this.conditions = nodes && nodes.hosts.length > 0 ? new Conditions(nodes, job.straggler_ranks ?? []) : null;
  }

  // Shows an answer instead of a state: that there is no such job.
  refuse(why) {
    if (this.job === null) setText(this.waiting, `${capital(why)}.`);
  }

  draw(elapsed) {
    if (this.job === null) return;
    // Without a session the rendezvous leaves out all texts that may name a host.
    const job = {...later(this.job, elapsed), redacted: !this.session.signedIn};
    this.waiting.hidden = true;
    this.parts.hidden = false;
    this.headline.update(job);
    this.orders.update(job);
    this.cause.update(job);
    this.stacks.update(job);
    this.rate.update(job.spark ?? [], rateOf(job));
    this.generations.update(job.generations ?? [], job, elapsed);
    this.grid.update(job.nodes, this.conditions);
    this.table.update(job.nodes, this.conditions, this.session.mayAct && !job.outcome, elapsed);
    this.logs.update(job);
  }

  stop() {
    this.logs.stop();
  }
}
