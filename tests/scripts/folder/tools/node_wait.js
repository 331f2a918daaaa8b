// Waits for longer than anybody does.
//
// @param mark string  Seconds, by which its processes are known.
// @args {mark}
const { spawnSync } = require("child_process");
const zcp = require("zcp");

zcp.progress(1, null, "waiting");
spawnSync("sleep", process.argv.slice(2));
