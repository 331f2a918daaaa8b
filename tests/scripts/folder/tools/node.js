// Does one of the things that scripts can.
//
// @param do string        Which.
// @param [about] string   A file or an address to do it with.
const fs = require("fs");
const { setTimeout: sleep } = require("timers/promises");
const zcp = require("zcp");

const { about } = zcp.args();
const name = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };

const things = {
  async progress() {
    zcp.progress(1, 4, "begun");
    await sleep(100);
    zcp.progress(2.5, 4);
    await sleep(100);
    zcp.progress(4, 4, "all done");
    console.log("told");
  },
  log() {
    zcp.log("info", "starting");
    zcp.log("warning", { disk: 91 });
    console.log("told");
  },
  content() {
    console.log('{"city":"Oslo"}');
    zcp.text("and more");
    zcp.file("files/dot.png");
    zcp.file("files/tone.wav");
    zcp.file("files/note.txt");
    zcp.link("https://example.com/map", "Map");
  },
  print: () => process.stdout.write(fs.readFileSync(about)),
  ask: () => console.log(JSON.stringify(zcp.ask("name", "Your name?", name))),
  confirm: () => console.log(zcp.confirm("sure", "Sure?") ? "yes" : "no"),
  visit() {
    zcp.visit("page", "Please sign.", about);
    console.log("visited");
  },
  sample: () => console.log(zcp.sample("joke", "A joke, please.", 50)),
  roots: () => zcp.roots().forEach(({ uri }) => console.log(uri)),
  once() {
    fs.appendFileSync(about, "run\n");
    const runs = zcp.once("runs", () => fs.readFileSync(about, "utf8").match(/\n/g).length);
    zcp.confirm("sure", "Sure?");
    console.log(runs);
  },
  twice: () => console.log(zcp.once("word", () => "first"), zcp.once("word", () => "second")),
  updated: () => zcp.updated(about),
  async detach() {
    zcp.detach();
    await sleep(500);
    console.log("done");
  },
  exit() {
    console.log("half done");
    console.error("no such city");
    process.exitCode = 3;
  },
  fail: () => zcp.fail("Give a city."),
};

try {
  things[zcp.args().do]();
} catch (why) {
  if (!(why instanceof zcp.NoAnswer)) throw why;
  console.log(why.name);
}
