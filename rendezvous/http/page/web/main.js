// Chooses the view, and handles the contact to the rendezvous and the session.

class Page {
  constructor() {
    this.session = new Session();
    this.main = document.getElementById("main");
    this.contact = document.getElementById("contact");
    this.who = document.getElementById("who");
    this.alarm = document.getElementById("alarm");
    this.signOutButton = document.getElementById("sign-out");
    this.view = null;
    this.feed = null;
    this.lost = null;      // the feed's report of a lost connection
    this.trouble = "";     // error of signing in
    this.received = 0;     // when the last state came
    this.session.onEnd = () => {
      this.trouble = "You are signed out: run `ddprun page JOB` and open its link.";
      this.restart();
    };
  }

  async start() {
    document.getElementById("skip").addEventListener("click", (event) => {
      event.preventDefault();
      this.main.focus();
    });
    this.signOutButton.addEventListener("click", () => this.signOut());
    window.addEventListener("hashchange", () => this.onAddress());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.feed?.retry();
    });
    window.addEventListener("online", () => this.feed?.retry());
    setInterval(() => this.draw(), 1000);
    await this.signIn();
    this.show();
  }

  async signIn() {
    this.trouble = "";
    try {
      const failure = await this.session.signIn();
      if (failure !== "") this.trouble = failure;
    } catch (error) {
      // If the rendezvous does not answer, the feed below reports it and retries.
      if (error.status !== 0) this.trouble = `${capital(error.message)}.`;
    }
  }

  async signOut() {
    this.trouble = "";
    try {
      await this.session.signOut();
    } catch (error) {
      this.trouble = `Not signed out: ${error.message}.`;
    }
    this.show();  // removes everything that was visible
  }

  // A link of `ddprun page` was opened in a tab that shows the page already.
  async onAddress() {
    if (new URLSearchParams(location.hash.slice(1)).has("code")) await this.signIn();
    this.show();
  }

  show() {
    const name = new URLSearchParams(location.hash.slice(1)).get("job");
    this.view?.stop?.();
    this.view = name === null ? new ListView() : new JobView(this.session, name);
    this.main.replaceChildren(this.view.root);
    window.scrollTo(0, 0);
    this.restart();
  }

  restart() {
    this.feed?.stop();
    if (this.view === null) return;
    const feed = new Feed(this.session, this.view.path, (name, value) => this.take(feed, name, value),
                          (contact) => this.onContact(feed, contact));
    this.feed = feed;
    this.draw();
  }

  take(feed, name, value) {
    if (feed !== this.feed) return;
    this.view.take(name, value);
    if (name === "job" || name === "jobs") this.received = performance.now();
    this.draw();
  }

  onContact(feed, contact) {
    if (feed !== this.feed) return;
    const back = contact.live && this.lost !== null;
    this.lost = contact.live ? null : contact;
    if (!contact.live) this.view.refuse?.(contact.why);
    // It may be another daemon now, which does not know this session.
    if (back) this.session.refresh().catch(() => {}).then(() => this.draw());
    if (back || !contact.live) this.draw();
  }

  draw() {
    this.drawContact();
    // Without contact it is unknown whether the job still runs.
    const until = this.lost === null ? performance.now() : this.received;
    this.view?.draw(Math.max(0, until - this.received));
    document.title = (this.lost === null ? "" : "no contact · ") + (this.view?.title() ?? "ddprun");
  }

  drawContact() {
    const without = this.lost?.status ? "refused" : "no contact";
    setText(this.contact, this.lost === null ? (this.received > 0 ? "live" : "connecting") : without);
    setClass(this.contact, this.lost === null ? "contact" : "contact lost");
    const may = this.session.mayAct ? "signed in" : this.session.signedIn ? "signed in to look" : "not signed in";
    this.signOutButton.hidden = !this.session.signedIn;
    setText(this.who, this.session.version ? `${may} · ${this.session.version}` : may);
    const text = [this.trouble, this.lostText()].filter((part) => part !== "").join(" ");
    this.alarm.hidden = text === "";
    setText(this.alarm, text);
  }

  lostText() {
    if (this.lost === null) return "";
    if (this.lost.status !== 0) return `${capital(this.lost.why)}.`;
    const since = new Date(this.lost.since).toLocaleTimeString("en-GB");
    return `No contact with the rendezvous since ${since}: ${this.lost.why}. What you see is from before. ` +
      "Workers train on while it is away, for 5 min unless --daemon-grace says otherwise. This page comes back by itself.";
  }
}

new Page().start();
