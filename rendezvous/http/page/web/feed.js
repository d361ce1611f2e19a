// Server-sent events by fetch, because EventSource cannot send a bearer token. A feed reconnects by
// itself.

const kRetryFirstMs = 500;
const kRetryMostMs = 5000;
const kSilenceMs = 15000;  // after this silence the rendezvous is asked whether it is alive

// Pieces of bytes -> events {name, data}. Accepts CRLF, comments, and several data lines.
class EventParser {
  constructor() {
    this.rest = "";
    this.name = "message";
    this.data = [];
  }

  take(text) {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop();
    const events = [];
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.data.length > 0) events.push({name: this.name, data: this.data.join("\n")});
        this.name = "message";
        this.data = [];
      } else if (line.startsWith("event:")) {
        this.name = line.slice(6).trim();
      } else if (line.startsWith("data:")) {
        this.data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    return events;
  }
}

// Reads one stream to its end, and calls onEvent(name, value of the JSON). Throws RequestError, or
// AbortError by `signal`.
async function readEvents(session, path, signal, onEvent) {
  const response = await session.fetch(path, {signal});
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new RequestError(0, "the connection broke");
    }
    if (piece.done) return;
    const events = parser.take(decoder.decode(piece.value, {stream: true}));
    onEvent(null, null);
    for (const event of events) onEvent(event.name, JSON.parse(event.data));
  }
}

// Follows `path` until stop(). onContact({live, why, since, retryAt}) says whether it is connected.
class Feed {
  constructor(session, path, onEvent, onContact) {
    this.session = session;
    this.path = path;
    this.onEvent = onEvent;
    this.onContact = onContact;
    this.ended = new AbortController();
    this.heard = performance.now();
    this.wake = () => {};
    this.lostSince = null;
    this.follow();
  }

  stop() {
    this.ended.abort();
    this.wake();
  }

  get stopped() {
    return this.ended.signal.aborted;
  }

  // Reconnects now instead of after the pause.
  retry() {
    this.wake();
  }

  async follow() {
    let pause = kRetryFirstMs;
    while (!this.stopped) {
      const failure = await this.readOnce(() => { pause = kRetryFirstMs; });
      if (this.stopped) return;
      this.lostSince ??= Date.now();
      const wait = failure.status === 503 ? kRetryMostMs : pause * (0.75 + Math.random() / 2);
      this.onContact({live: false, why: failure.message, status: failure.status, since: this.lostSince,
                      retryAt: Date.now() + wait});
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, wait);
      });
      pause = Math.min(kRetryMostMs, pause * 2);
    }
  }

  // Returns why the stream ended.
  async readOnce(onLife) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    this.ended.signal.addEventListener("abort", stop);
    this.heard = performance.now();
    const watch = setInterval(() => this.askIfSilent(attempt), kSilenceMs / 3);
    let bye = "";
    try {
      await readEvents(this.session, this.path, attempt.signal, (name, value) => {
        this.heard = performance.now();
        if (this.lostSince !== null || name === null) {
          onLife();
          this.lostSince = null;
          this.onContact({live: true});
        }
        if (name === "bye") bye = printable(value?.text ?? "the rendezvous has ended");
        else if (name !== null && !this.stopped) this.onEvent(name, value);
      });
      return new RequestError(0, bye || "the rendezvous closed the connection");
    } catch (error) {
      if (error instanceof RequestError) return error;
      return new RequestError(0, error.name === "AbortError" ? "the rendezvous does not answer" : error.message);
    } finally {
      clearInterval(watch);
      this.ended.signal.removeEventListener("abort", stop);
      attempt.abort();
    }
  }

  // Without this check, a connection whose other end vanished would stay open for minutes.
  async askIfSilent(attempt) {
    if (performance.now() - this.heard < kSilenceMs) return;
    try {
      await this.session.fetch("/healthz", {signal: AbortSignal.timeout(kSilenceMs / 3)});
      this.heard = performance.now();
    } catch {
      attempt.abort();
    }
  }
}
