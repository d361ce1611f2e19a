// The page in a real browser, with a fake rendezvous whose answers the test chooses.
import assert from "node:assert/strict";
import {after, afterEach, before, beforeEach, test} from "node:test";
import {accessibilityFindings, isShown, launch, most, open, sees, textOf} from "./browser.mjs";
import {FakeRendezvous, send} from "./fake_server.mjs";
import {cause, failed, gathering, history, hung, kHangSentence, large, nodes, running} from "./stories.mjs";

let browser;
let fake;
let home;
let pages;

before(async () => { browser = await launch(); });
after(async () => { await browser?.close(); });

beforeEach(async () => {
  fake = new FakeRendezvous();
  home = await fake.start();
  pages = [];
});

afterEach(async () => {
  const complaints = pages.flatMap((page) => page.complaints);
  await Promise.all(pages.map((page) => page.close()));
  await fake.stop();
  assert.deepEqual(complaints, [], "no script throws, and nothing breaks the policy");
});

async function look(fragment = "", options = {}) {
  const page = await open(browser, `${home}${fragment}`, options);
  pages.push(page);
  return page;
}

const rowsOf = (page) => page.$$eval("table.jobs tbody th", (found) => found.map((one) => one.textContent));

test("the list counts spares apart", async () => {
  fake.set(large());
  await sees(await look(), "table.jobs", "16,300 (130,400 workers)");
});

test("a job that starts appears without a reload, and jobs that need somebody come first", async () => {
  fake.set(running());
  const page = await look();
  await sees(page, "table.jobs", "mnist");
  fake.set(hung(), failed(), gathering());
  await sees(page, ".summary", "4 jobs, 3 not over; 2 need you: llama-70b, exp7");
  assert.deepEqual(await rowsOf(page), ["llama-70b", "exp7", "vit-large", "mnist"]);
  assert.match(await page.title(), /\(2!\)/);
});

test("state, cause and what happens next come first, and change with the job", async () => {
  fake.set(running());
  const page = await look("#job=mnist");
  await sees(page, ".story", "it goes on; 1 of 3 restarts used, 2 left");
  await sees(page, ".story", "rank 9 (local rank 1, pid 4242) on n2: SIGKILL after step 12040");
  await sees(page, "#cause", "in generation 2: rank 9");
  await sees(page, "#cause pre", "illegal memory access");
  const newCause = cause({generation: 3, description: "rank 2 (local rank 2, pid 88) on n1: exit code 3", stderr_tail: ["bad"]});
  fake.set(running({state: "Draining", reason: newCause.description, last_root_cause: newCause, restarts: 2, restarts_left: 1}));
  await sees(page, ".headline .badge", "Draining");
  await sees(page, ".story", "in generation 3 at");
  await sees(page, ".story", "its workers are being ended; 2 of 3 restarts used, 1 left");
  await sees(page, ".figures", "2 of 3 used, 1 left");
  const said = await page.$eval("#announcer", (one) => one.textContent);
  assert.match(said, /Draining.*rank 2/, "a screen reader says it");
});

test("a hang names its rank and shows where all ranks are", async () => {
  fake.set(hung());
  const page = await look("#job=llama-70b");
  await sees(page, ".headline .badge", "Hung");
  await sees(page, ".story", `the job ${kHangSentence}`);
  await sees(page, "#stacks pre", "[5] step train.py:42");
});

// What the strip shows of a generation, in its order.
const kindsOf = (page, generation) => page.$$eval(".strip rect", (rects, number) => rects
  .filter((one) => one.textContent.startsWith(`generation ${number}:`)).map((one) => one.getAttribute("class")), generation);

test("each generation has why it ended, and the phases of its restart on hover", async () => {
  fake.set(running());
  const page = await look("#job=mnist");
  await sees(page, "#generations tbody", "n3 was lost");
  assert.equal(await isShown(page, "#generations .tip"), false);
  assert.deepEqual(await kindsOf(page, 1), ["forming", "running", "saving", "stopping"]);
  assert.deepEqual(await kindsOf(page, 2), ["forming", "running", "stopping"]);
  await sees(page, "#generations .legend", "draining, then waiting for the next generation");
  await sees(page, ".strip", "generation 2: draining, then waiting for the next generation");
  await sees(page, "#generations tbody tr:last-child", "forming 800 ms");  // no restart precedes generation 0
  await page.hover("#generations tbody tr .has-tip");
  await sees(page, "#generations .tip", "restore 512 ms");
});

test("what happens comes as it happens, and can be searched", async () => {
  fake.set(running());
  fake.lines = history();
  const page = await look("#job=mnist");
  await sees(page, ".events", "after 2.01 s");
  fake.addLine({time: "2026-11-21T03:13:00Z", job: "mnist", generation: 3, event: "lost", host: "n7", reason: "nothing heard for 3 s"});
  await sees(page, ".events li:first-child", "n7; nothing heard for 3 s");
  await page.type("#event-filter", "restarted");
  await page.waitForFunction(() => document.querySelectorAll(".events li").length === 1);
});

test("without a session there are no orders and no logs", async () => {
  fake.set(running());
  const page = await look("#job=mnist");
  await sees(page, "#log", "ddprun page JOB");
  for (const hidden of [".orders button", ".log-form", "#stacks", ".nodes button.small"]) {
    assert.equal(await isShown(page, hidden), false, hidden);
  }
  await page.click(".nodes button.rank");
  const status = await page.evaluate(async () => (await fetch("/api/logs?job=mnist&rank=0&stream=stdout")).status);
  assert.equal(status, 403);
});

test("the code of a link signs in once and leaves the address", async () => {
  fake.set(running());
  const page = await look("#job=mnist&code=good-code");
  await sees(page, ".orders", "Save and stop");
  assert.equal(new URL(page.url()).hash, "#job=mnist");
  assert.equal(await isShown(page, "#alarm"), false);
  await page.reload();
  await sees(page, ".orders", "Save and stop");
  const other = await look("#job=mnist&code=good-code");
  await sees(other, "#alarm", "works once, for 60 s");
  assert.equal(await isShown(other, ".orders button"), false);
});

test("what a worker prints is text: tags, escapes and overrides do nothing", async () => {
  fake.set(running({reason: "<img src=x onerror=alert(1)>"}));
  fake.logs.set("3/stdout", "one\n<script>document.title='owned'</script>\n\u001b[31mred\u001b[0m\u001b]0;t\u0007\n" +
    "abc\u202egnp.exe\n 10%|#\r 90%|#########\rdone\nhalf");
  const page = await look("#job=mnist&code=good-code");
  await sees(page, ".orders", "Stop");
  await page.click(".nodes button[data-rank='3']");
  const text = await sees(page, "pre.log", "half");
  assert.equal(text, "one\n<script>document.title='owned'</script>\nred\ufffd]0;t\ufffd\nabc\ufffdgnp.exe\ndone\nhalf");
  assert.equal(await page.$("pre.log *"), null);
  assert.equal(await page.$("img"), null);
  await sees(page, ".story", "<img src=x");
  assert.match(await page.title(), /Running/);
});

test("a log is live, can be searched, and says why it ends", async () => {
  fake.set(running());
  fake.logs.set("0/stderr", "step 1\nstep 2\n");
  const page = await look("#job=mnist&code=good-code");
  await sees(page, ".log-form", "Open");
  await page.select("#log-stream", "stderr");
  await page.click(".log-form button");
  await sees(page, "pre.log", "step 2");
  send(fake.lastLog, "text", "loss nan\nstep");
  await sees(page, "pre.log", "loss nan");
  send(fake.lastLog, "text", " 3\n");
  await sees(page, "pre.log", "step 3");
  await page.type("#log-filter", "NaN");
  await page.waitForFunction(() => document.querySelector("pre.log").textContent === "loss nan\n");
  send(fake.lastLog, "end", {text: "the worker has ended"});
  fake.lastLog.end();
  await sees(page, "#log [role=status]", "Stderr of rank 0, the newest generation: the worker has ended.");
});

test("a log of no generation in particular goes on when the job starts again", async () => {
  fake.set(running());
  fake.logs.set("0/stdout", "step 1\n");
  const page = await look("#job=mnist&code=good-code");
  await sees(page, ".log-form", "Open");
  await page.click(".log-form button");
  await sees(page, "pre.log", "step 1");
  assert.equal(fake.lastLogQuery.has("generation"), false, "the rendezvous takes the newest, and then the next one");
  await page.type("#log-generation", "2");
  await page.click(".log-form button");
  await sees(page, "#log [role=status]", "generation 2, live.");
  assert.equal(fake.lastLogQuery.get("generation"), "2");
});

test("the ages of the newest checkpoint and snapshot are told", async () => {
  fake.set(running());
  const page = await look("#job=mnist");
  const figures = await sees(page, ".figures", "step 12,000 (480 steps ago, ");
  assert.match(figures, /480 steps ago, (4[2-9]|5\d) s ago|480 steps ago, \d+ min \d+ s ago/);
  await sees(page, ".figures", "Snapshot in memory");
  await sees(page, ".figures", "step 12,040, a snapshot sent by n1");
});

test("the stacks of a hang stay when the job has started again", async () => {
  fake.set(hung());
  const page = await look("#job=llama-70b&code=good-code");
  await sees(page, "#stacks [role=status]", "Stacks of the hang in generation 3");
  const {hang_generation, hang_stacks} = hung();
  fake.set(running({job: "llama-70b", generation: 4, hang_generation, hang_stacks}));
  await sees(page, ".headline", "Running");
  await sees(page, "#stacks pre", "[5] step train.py:42");
  await sees(page, "#stacks [role=status]", "Stacks of the hang in generation 3");
});

test("a log is cut to what a browser bears", async () => {
  fake.set(running());
  fake.logs.set("0/stdout", Array.from({length: 30000}, (_, i) => `line ${i}`).join("\n") + "\n");
  const page = await look("#job=mnist&code=good-code");
  await sees(page, ".log-form", "Open");
  await page.click(".log-form button");
  const text = await sees(page, "pre.log", "line 29999");
  assert.equal(text.split("\n").length, 5001);
});

test("an order is sent only after it was confirmed, with what it does", async () => {
  fake.set(running());
  const page = await look("#job=mnist&code=good-code");
  await sees(page, ".nodes", "n2");
  await page.click("button[aria-label='Drain n2']");
  await sees(page, "dialog", "Drain n2?");
  await sees(page, "dialog", "all nodes of this host out of job mnist: it saves where it can and forms the next generation without them");
  await page.keyboard.press("Enter");  // the focus is on the answer that changes nothing
  await page.waitForFunction(() => !document.querySelector("dialog").open);
  assert.deepEqual(fake.posts, []);
  await page.click("button[aria-label='Drain n2']");
  await page.click("#confirm-yes");
  await sees(page, ".answer", "Job mnist does it.");
  await page.click(".orders .buttons button");
  await sees(page, "dialog", "All ranks save at one common step");
  await page.click("#confirm-yes");
  await page.waitForFunction(() => document.querySelector(".answer").textContent.includes("does it"));
  assert.deepEqual(fake.posts, [{path: "/api/drain", body: {job: "mnist", host: "n2"}},
                                {path: "/api/stop", body: {job: "mnist", save: true}}]);
});

test("stacks are taken when they are asked for, and who did not answer is named", async () => {
  fake.set(running());
  const page = await look("#job=mnist&code=good-code");
  await sees(page, "#stacks", "Take the stacks now");
  await page.click("#stacks button");
  await sees(page, "#stacks pre", "16 [0-15] main train.py:40");
  await sees(page, "#stacks [role=status]", "No answer in time from n9.");
});

test("a session that is over says how to begin another, and the state goes on", async () => {
  fake.set(running());
  const page = await look("#job=mnist&code=good-code");
  await sees(page, ".orders", "Stop");
  fake.token = "another";
  await page.click(".log-form button");
  await sees(page, "#alarm", "You are signed out");
  assert.equal(await isShown(page, ".orders button"), false);
  fake.set(running({step: 99999}));
  await sees(page, ".figures", "99,999");
});

test("a rendezvous that goes away is told of, and the page comes back by itself", async () => {
  fake.set(running());
  const page = await look("#job=mnist");
  await sees(page, "#contact", "live");
  const port = fake.port;
  fake.say("bye", {});
  await fake.stop();
  await sees(page, "#alarm", "No contact with the rendezvous since");
  await sees(page, ".story", "it goes on");  // what was known stays
  assert.match(await page.title(), /no contact/);
  const next = new FakeRendezvous();
  next.set(running({step: 77777}));
  fake = next;
  await next.start(port);
  await sees(page, ".figures", "77,777");
  assert.equal(await isShown(page, "#alarm"), false);
});

test("one viewer too many is told so, and so is who asks for a job that is not there", async () => {
  const page = await look("#job=nothing");
  await sees(page, "main", "There is no job nothing.");
  fake.viewersFull = true;
  const other = await look();
  await sees(other, "#alarm", "256 viewers look at this rendezvous already");
});

const legendOf = (page) => page.$$eval("#grid .legend li", (found) => found.map((one) => one.textContent));

test("16,384 nodes: 1 MiB of data, and the straggler named", async () => {
  const job = large();
  assert.ok(JSON.stringify(job).length <= 1 << 20, `${JSON.stringify(job).length} bytes`);
  fake.set(job);
  const page = await look("#job=exa");
  await sees(page, "#grid", "16,384 nodes. n12001 is 39 steps behind");
  assert.deepEqual(await legendOf(page),
    ["16,295 running", "1 running, more than 2 steps behind", "84 spare", "4 lost contact"]);
  const first = await page.$eval(".window-body", (body) => [...body.children].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)[0].textContent);
  assert.match(first, /^n71lost contact/, "the worst come first");
  assert.ok((await page.$$(".window-body > *")).length < 60, "only rows in sight exist");
  const median = await page.evaluate(async () => {
    const scroller = document.querySelector(".window");
    scroller.scrollIntoView();
    const times = [];
    for (let i = 0; i < 120; ++i) {
      scroller.scrollTop += 137;
      window.scrollBy(0, i % 2 ? 40 : -40);
      await new Promise((resolve) => requestAnimationFrame((now) => { times.push(now); resolve(); }));
    }
    const gaps = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
    return gaps[gaps.length >> 1];
  });
  console.log(`a frame takes ${median.toFixed(1)} ms: ${(1000 / median).toFixed(1)} a second`);
  assert.ok(median <= most(17.5), `${median} ms for a frame; 60 a second are 16.7 ms each`);
});

// The colour in the middle of the cell of a rank.
const kNames = 27;  // pixels of names of two letters, left of the ranks
const colourOf = (page, node, rank) => page.evaluate((i, local, kLeft) => {
  const canvas = document.querySelector("#grid canvas");
  const scale = window.devicePixelRatio || 1;
  const size = 22;
  const pixel = canvas.getContext("2d").getImageData((kLeft + local * size + 3) * scale, (i * size + 6) * scale, 1, 1).data;
  return [...pixel.slice(0, 3)].map((value) => value.toString(16).padStart(2, "0")).join("");
}, node, rank, kNames);

test("the grid has a row for each node and a cell for each rank, and rings the straggler", async () => {
  fake.set(running({straggler_ranks: [9]}));
  const page = await look("#job=mnist");
  await sees(page, "#grid", "Straggler: rank 9 on n2 keeps the others waiting.");
  await sees(page, "#grid-help", "A row is a node, a cell one of its ranks.");
  assert.deepEqual(await legendOf(page), ["1 running", "1 running, with a straggler"]);
  assert.equal(await colourOf(page, 1, 1), "bc4c00");
  assert.equal(await colourOf(page, 1, 2), "2da44e", "the others of its node run");
  await page.$eval("#grid canvas", (canvas) => canvas.scrollIntoView({block: "center"}));
  const box = await (await page.$("#grid canvas")).boundingBox();
  await page.mouse.move(box.x + kNames + 22 + 10, box.y + 22 + 10);
  await sees(page, "#grid [role=status]", "rank 9 on n2: running, straggler");
  await sees(page, ".nodes", "running (straggler)");
  const columns = nodes(2, 8, 12480);
  columns.states[0] = 1;
  fake.set(running({nodes: columns}));
  await sees(page, "#grid .legend", "1 lost contact");
  assert.equal(await colourOf(page, 0, 3), "cf222e");
});

test("the legend, the grid and the table have the same words for a node's state", async () => {
  const columns = nodes(4, 8, 12480);
  columns.state_names = ["ended", "held back: rank 5 (pid 4242) is still there", "lost contact: running", "running"];
  columns.states = [0, 1, 2, 3];
  columns.steps[3] = 12441;
  fake.set(running({nodes: columns, state: "Failed", outcome: "state_unreadable", exit_code: 66}));
  const page = await look("#job=mnist");
  await sees(page, ".headline .badge", "state unreadable");
  await sees(page, ".window-body", "held back: rank 5 (pid 4242) is still there");
  assert.deepEqual(await legendOf(page), ["1 running, more than 2 steps behind", "1 ended", "1 held back", "1 lost contact"]);
  await sees(page, ".window-body", "12,441 (39 steps behind)");
  await page.focus("#grid canvas");
  await page.keyboard.press("ArrowDown");
  await sees(page, "#grid [role=status]", "rank 8 on n2: held back");
  await page.keyboard.press("ArrowDown");
  await sees(page, "#grid [role=status]", "rank 16 on n3: lost contact");
  await page.keyboard.press("ArrowDown");
  await sees(page, "#grid [role=status]", "rank 24 on n4: running, 39 steps behind");
});

test("of more nodes than rows the ranks stand in blocks, and the keyboard reaches each", async () => {
  fake.set(running({nodes: nodes(200, 8, 12480), straggler_ranks: [1599]}));
  const page = await look("#job=mnist");
  await sees(page, "#grid-help", "A cell is a rank, a block a node.");
  await page.focus("#grid canvas");
  await page.keyboard.press("ArrowRight");
  await sees(page, "#grid [role=status]", "rank 1 on n1: running");
  await page.keyboard.press("ArrowDown");
  const below = await textOf(page, "#grid [role=status]");
  assert.match(below, /^rank \d*[19] on n\d+: running$/);
  assert.notEqual(below, "rank 1 on n1: running");
  await page.keyboard.press("Enter");
  await sees(page, ".nodes", "1 of 200 nodes");
});

test("why a hang would not be noticed is said in the list and of the job", async () => {
  fake.set(running({not_judged: {why: "no worker tells its steps", excuse: null}}));
  const list = await look();
  await sees(list, "table.jobs", "hangs are not noticed: no worker tells its steps");
  const page = await look("#job=mnist");
  await sees(page, ".story", "hangs are not noticed: no worker tells its steps");
  fake.set(running({not_judged: {why: "", excuse: null}}));
  await sees(page, ".story", "hangs are not noticed: shown after signing in");
});

test("who signs out sees states alone, and his token is worth nothing", async () => {
  fake.set(running());
  const page = await look("#job=mnist&code=good-code");
  await sees(page, ".orders", "Stop");
  const token = fake.token;
  await page.click("#sign-out");
  await sees(page, "#who", "not signed in");
  await sees(page, "#log", "ddprun page JOB");
  assert.equal(await isShown(page, ".orders button"), false);
  assert.equal(await isShown(page, "#sign-out"), false);
  assert.equal(await isShown(page, "#alarm"), false, "nothing went wrong");
  assert.notEqual(token, null);
  assert.equal(fake.token, null);
});

test("all ranks of a node are in sight, and its table is no longer than its rows", async () => {
  fake.set(large());
  const page = await look("#job=exa");
  await sees(page, ".window-body", "560");
  await page.type("#node-filter", "n16299");
  await sees(page, ".window-body", "130391");
  const hidden = await page.$$eval(".node-row > span:nth-child(3)",
                                   (cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth).length);
  assert.equal(hidden, 0);
  const heights = await page.evaluate(() => [document.querySelector(".window").clientHeight, document.querySelectorAll(".node-row").length * 32]);
  assert.ok(heights[0] <= heights[1] + 2, `${heights[0]} pixels for ${heights[1]} of rows`);
});

test("the grid is used with the keyboard alone", async () => {
  fake.set(large());
  const page = await look("#job=exa");
  await sees(page, "#grid", "A cell is");
  await page.focus("#grid canvas");
  await page.keyboard.press("ArrowRight");
  await sees(page, "#grid [role=status]", "running");
  await page.keyboard.press("Enter");
  await sees(page, ".nodes", "of 16,384 nodes");
  assert.ok((await page.$$(".window-body > *")).length <= 16);
});

const kLooks = [["light", {}], ["dark", {dark: true}], ["phone", {width: 390, height: 844}],
                ["dark phone", {width: 390, height: 844, dark: true}]];
for (const [name, options] of kLooks) {
  test(`no accessibility finding, and no sideways scrolling: ${name}`, async () => {
    fake.set(running(), hung(), failed(), gathering(), large());
    fake.lines = history();
    fake.logs.set("0/stdout", "step 1\n");
    const findings = [];
    const check = async (page, where) => {
      findings.push(...(await accessibilityFindings(page)).map((finding) => `${where}: ${finding}`));
      const [wide, most] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
      if (wide > most) findings.push(`${where}: ${wide} pixels wide of ${most}`);
    };
    const list = await look("", options);
    await sees(list, "table.jobs", "mnist");
    await check(list, "list");
    const page = await look("#job=llama-70b&code=good-code", options);
    await sees(page, ".log-form", "Open");
    await page.click(".log-form button");
    await sees(page, "pre.log", "step 1");
    await check(page, "job");
    await page.click(".orders .danger");
    await sees(page, "dialog", "Stop job llama-70b?");
    await check(page, "dialog");
    const many = await look("#job=exa", options);
    await sees(many, "#grid", "A cell is");
    await check(many, "large");
    fake.viewersFull = true;
    const refused = await look("", options);
    await sees(refused, "#alarm", "256 viewers");
    await check(refused, "alarm");
    assert.deepEqual(findings, []);
  });
}

test("this test can fail: axe finds what is wrong", async () => {
  fake.set(running());
  const page = await look();
  await sees(page, "table.jobs", "mnist");
  await page.evaluate(() => document.body.append(document.createElement("button")));
  assert.match((await accessibilityFindings(page)).join("\n"), /button-name/);
});
