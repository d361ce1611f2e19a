// The viewer's session. The one-time code of `ddprun page` is exchanged for a session, and every
// request carries it. On loopback the session is a bearer token, stored for this tab only.
// Elsewhere it is a cookie that scripts cannot read, and orders carry a CSRF token.

const kTokenKey = "ddprun.token";
const kCsrfKey = "ddprun.csrf";

class RequestError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

class Session {
  constructor() {
    this.signedIn = false;
    this.mayAct = false;
    this.version = "";
    this.onEnd = () => {};
  }

  headers() {
    const token = sessionStorage.getItem(kTokenKey);
    const csrf = sessionStorage.getItem(kCsrfKey);
    return {...(token ? {Authorization: `Bearer ${token}`} : {}), ...(csrf ? {"X-Ddprun-Csrf": csrf} : {})};
  }

  // Removes the code from the address, so that no history or screenshot shows it.
  async signIn() {
    const fragment = new URLSearchParams(location.hash.slice(1));
    const code = fragment.get("code");
    let failure = "";
    if (code !== null) {
      fragment.delete("code");
      history.replaceState(null, "", `${location.pathname}#${fragment}`);
      failure = await this.exchange(code);
    }
    await this.refresh();
    return failure;
  }

  async exchange(code) {
    try {
      const answer = await this.post("/api/login", {code});
      if (answer.token) sessionStorage.setItem(kTokenKey, answer.token);
      if (answer.csrf) sessionStorage.setItem(kCsrfKey, answer.csrf);
      return "";
    } catch (error) {
      return `${capital(error.message)}. A link of \`ddprun page\` works once, for 60 s: make another one.`;
    }
  }

  // Ends the session at the rendezvous, also for other tabs that share it.
  async signOut() {
    await this.post("/api/logout", {});
    this.signedIn = this.mayAct = false;
    sessionStorage.removeItem(kTokenKey);
    sessionStorage.removeItem(kCsrfKey);
  }

  async refresh() {
    const had = this.signedIn || sessionStorage.getItem(kTokenKey) !== null;
    const answer = await this.answerOf(await this.fetch("/api/session"));
    if (answer.csrf) sessionStorage.setItem(kCsrfKey, answer.csrf);
    this.signedIn = answer.signed_in === true;
    this.mayAct = answer.may_act === true;
    this.version = answer.version ?? this.version;
    if (had && !this.signedIn) this.end();
  }

  async get(path) {
    return this.answerOf(await this.fetch(path));
  }

  async post(path, body) {
    return this.answerOf(await this.fetch(path, {method: "POST", body: JSON.stringify(body)}));
  }

  // The response of an accepted request. `signal` aborts it.
  async fetch(path, {method = "GET", body = undefined, signal = undefined} = {}) {
    let response;
    try {
      response = await fetch(path, {
        method, body, signal, cache: "no-store", credentials: "same-origin", redirect: "error",
        headers: {...this.headers(), ...(body ? {"Content-Type": "application/json"} : {})},
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new RequestError(0, "the rendezvous cannot be reached");
    }
    if (response.ok) return response;
    const text = await response.text();
    // An expired session is refused like a missing one.
    if (response.status === 403 && this.signedIn && path !== "/api/session") await this.refresh();
    throw new RequestError(response.status, errorOf(text) || `the rendezvous answered ${response.status}`);
  }

  async answerOf(response) {
    try {
      return await response.json();
    } catch {
      throw new RequestError(response.status, "the rendezvous answered something that is no JSON");
    }
  }

  // The session is over: 12 h have passed, or the rendezvous was restarted.
  end() {
    sessionStorage.removeItem(kTokenKey);
    sessionStorage.removeItem(kCsrfKey);
    this.onEnd();
  }
}

function errorOf(text) {
  try {
    return printable(JSON.parse(text).error ?? "");
  } catch {
    return printable(text.slice(0, 300));
  }
}
