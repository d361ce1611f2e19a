// Makes the pictures of docs/views.md: tests/browser/run.sh screenshots.mjs [FOLDER]
import {mkdirSync, statSync} from "node:fs";
import {join} from "node:path";
import {launch, open, sees} from "./browser.mjs";
import {FakeRendezvous} from "./fake_server.mjs";
import {failed, gathering, history, hung, large, running} from "./stories.mjs";

const kMostBytes = 200 << 10;
const folder = process.argv[2] ?? join(process.env.DDPRUN_ROOT, "docs/screenshots");
mkdirSync(folder, {recursive: true});

const browser = await launch();
const fake = new FakeRendezvous();
fake.set(running({straggler_ranks: [9]}), hung(), failed(), gathering(), large());
fake.lines = history();
fake.logs.set("0/stdout", Array.from({length: 40}, (_, i) => `step ${12440 + i} loss 0.${2171 - i} 8.4 steps/s`).join("\n") + "\n");
const home = await fake.start();

async function shoot(name, fragment, options, selector, text) {
  fake.code = "good-code";
  const page = await open(browser, `${home}${fragment}`, options);
  await sees(page, selector, text);
  const path = join(folder, `${name}.png`);
  await page.screenshot({path});
  await page.close();
  const {size} = statSync(path);
  console.log(`${path}: ${Math.round(size / 1024)} KiB`);
  if (size > kMostBytes) throw new Error(`${path} is larger than ${kMostBytes} bytes`);
}

const kDesk = {width: 1200, height: 900};
const kPhone = {width: 390, height: 844};
await shoot("list", "", {...kDesk, height: 570}, "table.jobs", "mnist");
await shoot("job", "#job=mnist&code=good-code", {...kDesk, height: 1620}, ".orders", "Save and stop");
await shoot("hang", "#job=llama-70b&code=good-code", kDesk, "#stacks pre", "[5]");
await shoot("large", "#job=exa", {...kDesk, height: 1700}, ".window-body", "n4712");
await shoot("phone", "#job=llama-70b&code=good-code", kPhone, "#stacks pre", "[5]");
await shoot("phone-list", "", kPhone, "table.jobs", "mnist");
await shoot("dark", "#job=mnist&code=good-code", {...kDesk, dark: true}, ".orders", "Save and stop");

await browser.close();
await fake.stop();
