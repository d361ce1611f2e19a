// Chromium, and helpers with which tests inspect a page.
import {cpus, loadavg} from "node:os";
import axe from "axe-core";
import puppeteer from "puppeteer-core";

export async function launch() {
  return puppeteer.launch({executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true,
                           args: ["--no-sandbox", "--disable-dev-shm-usage"]});
}

// A page that fails the test which opened it where a script throws or something breaks the policy.
export async function open(browser, url, {width = 1200, height = 900, dark = false} = {}) {
  const page = await browser.newPage();
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => {
    // A connection that a test breaks, and a status that it asks for, are reported here too.
    if (message.type() === "error" && !message.text().includes("Failed to load resource")) page.complaints.push(message.text());
  });
  await page.setViewport({width, height, hasTouch: width < 500, isMobile: width < 500});
  await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: dark ? "dark" : "light"}]);
  await page.goto(url);
  return page;
}

// What may take `ms` on a machine that does nothing else. Where others use it, twenty times that.
export function most(ms) {
  return loadavg()[0] > cpus().length / 2 ? 20 * ms : ms;
}

// Waits until the text of `selector` contains `text`, and returns it.
export async function sees(page, selector, text, timeout = 30000) {
  try {
    await page.waitForFunction((css, wanted) => [...document.querySelectorAll(css)].some(
      (one) => one.checkVisibility() && one.textContent.includes(wanted)), {timeout, polling: 20}, selector, text);
  } catch {
    throw new Error(`waited ${timeout} ms for "${text}" in ${selector}; it has: ${await textOf(page, selector)}`);
  }
  return textOf(page, selector);
}

export async function textOf(page, selector) {
  return page.$$eval(selector, (found) => found.filter((one) => one.checkVisibility()).map((one) => one.textContent).join("\n"));
}

export async function isShown(page, selector) {
  return page.$$eval(selector, (found) => found.some((one) => one.checkVisibility()));
}

// What WCAG 2.2 A and AA and axe's best practices find, as lines.
export async function accessibilityFindings(page) {
  const session = await page.createCDPSession();  // past the page's own policy
  const {executionContextId} = await session.send("Page.createIsolatedWorld", {frameId: page.mainFrame()._id});
  const run = async (expression) => {
    const answer = await session.send("Runtime.evaluate", {expression, contextId: executionContextId, awaitPromise: true, returnByValue: true});
    if (answer.exceptionDetails) throw new Error(answer.exceptionDetails.exception?.description ?? answer.exceptionDetails.text);
    return answer.result.value;
  };
  await run(`${axe.source}; undefined`);
  const results = await run("axe.run(document, {resultTypes: ['violations']})");
  await session.detach();
  if (results.passes.length === 0) throw new Error("axe has looked at nothing");
  return results.violations.flatMap((found) => found.nodes.map((node) => `${found.id}: ${node.html} ${node.failureSummary}`));
}
