// Stop, save and stop, drain: each asks for a confirmation that explains the effect.

class Orders {
  constructor(session, job) {
    this.session = session;
    this.job = job;
    this.heading = element("h2", {id: "confirm-title"});
    this.question = element("p", {id: "confirm-text"});
    this.yes = element("button", {type: "button", class: "danger", id: "confirm-yes"});
    this.no = element("button", {type: "button", autofocus: true}, "Leave it as it is");
    this.dialog = element("dialog", {"aria-labelledby": "confirm-title", "aria-describedby": "confirm-text"},
      this.heading, this.question, element("p", {class: "buttons"}, this.no, this.yes));
    this.no.addEventListener("click", () => this.dialog.close());
    this.yes.addEventListener("click", () => this.send());
    this.save = element("button", {type: "button", onclick: () => this.askToStop(true)}, "Save and stop");
    this.stopNow = element("button", {type: "button", class: "danger", onclick: () => this.askToStop(false)}, "Stop");
    this.answer = element("p", {role: "status", class: "answer"});
    this.buttons = element("p", {class: "buttons"}, this.save, this.stopNow);
    this.root = element("div", {class: "orders"}, this.buttons, this.answer, this.dialog);
    this.wanted = null;
  }

  update(job) {
    this.buttons.hidden = !this.session.mayAct || Boolean(job.outcome);
  }

  askToStop(save) {
    const name = printable(nameOf(this.job));
    this.ask(save ? `Save and stop ${name}?` : `Stop ${name}?`,
      save ? "All ranks save at one common step, then all its workers on all nodes are ended. It does not restart by itself."
           : "All its workers on all nodes are ended now. Steps since its last checkpoint are lost. It does not restart by itself.",
      save ? "Save and stop" : "Stop now", "/api/stop", {job: this.job, save});
  }

  askToDrain(host) {
    this.ask(`Drain ${printable(host)}?`,
      `This takes all nodes of this host out of ${printable(nameOf(this.job))}: it saves where it can and forms the next ` +
      "generation without them. It uses no restart. The nodes do not come back until their agents are started again.",
      "Drain it", "/api/drain", {job: this.job, host});
  }

  ask(title, text, button, path, body) {
    this.wanted = {path, body};
    setText(this.heading, title);
    setText(this.question, text);
    setText(this.yes, button);
    this.dialog.showModal();
  }

  async send() {
    const {path, body} = this.wanted;
    this.dialog.close();
    setText(this.answer, "Sent; waiting for the answer…");
    try {
      const answer = await this.session.post(path, body);
      setText(this.answer, `${capital(printable(answer.text))}.`);
    } catch (error) {
      setText(this.answer, `Not done: ${error.message}.`);
    }
  }
}
