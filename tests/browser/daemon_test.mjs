// The page of a real rendezvous, with a real job.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";
import {isShown, launch, most, open, sees, textOf} from "./browser.mjs";
import {canNameHosts, Cluster} from "./daemon.mjs";

let browser;
let cluster;

before(async () => {
  browser = await launch();
  cluster = new Cluster();
  await cluster.start();
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});

test("a job from its start to the drain of a node", {skip: !canNameHosts() && "it may not name hosts"}, async () => {
  const list = await open(browser, cluster.link(""));
  await sees(list, "main", "No job is here");
  cluster.addNode(1);
  cluster.addNode(2);
  await sees(list, "table.jobs", "train", 30000);

  const page = await open(browser, cluster.link("train"));
  await sees(page, ".headline .badge", "Running", 30000);
  await sees(page, ".nodes", "n2", 30000);

  // A worker dies: the restart and its cause are there.
  await cluster.killWorker(0, 3);
  const killed = performance.now();
  const limit = most(1000);
  await sees(page, ".events", "resta");
  await sees(page, ".events", "SIGKILL");
  const seen = performance.now() - killed;
  console.log(`restart and cause were on the page ${Math.round(seen)} ms after the kill`);
  assert.ok(seen <= limit, `${seen} ms, limit ${limit} ms`);
  await sees(page, ".story", "SIGKILL");
  await sees(page, ".headline .badge", "Running", 30000);
  await sees(page, "#generations tbody", "SIGKILL");

  // Rank 1's log.
  await page.click(".nodes button[data-rank='1']");
  await sees(page, "pre.log", "hello <b>from</b> rank 1");

  // Somebody without a session sees states alone.
  const stranger = await open(browser, new URL("/#job=train", page.url()).href);
  await stranger.evaluate(() => sessionStorage.clear());
  await stranger.reload();
  await sees(stranger, ".headline .badge", "Running");
  await sees(stranger, ".nodes", "node 1");
  assert.equal(await isShown(stranger, ".orders button"), false);
  assert.doesNotMatch(await textOf(stranger, "main"), /\bn2\b|SIGKILL/);
  const statuses = await stranger.evaluate(async () => Promise.all([
    fetch("/api/logs?job=train&rank=1&generation=0&stream=stdout&tail=10"),
    fetch("/api/stacks?job=train"),
    fetch("/api/stop", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({job: "train", save: false})}),
  ].map(async (answer) => (await answer).status)));
  assert.deepEqual(statuses, [403, 403, 403]);

  // A node is drained by the button.
  await page.bringToFront();  // a page behind another one draws nothing
  await page.click("button[aria-label='Drain n2']");
  await sees(page, "dialog", "Drain n2?");
  await page.click("#confirm-yes");
  await page.waitForFunction(() => !document.querySelector(".nodes .window-body").textContent.includes("n2"), {timeout: 30000});
  await sees(page, ".headline .badge", "Running", 30000);
  assert.deepEqual([...list.complaints, ...page.complaints, ...stranger.complaints], []);
});
