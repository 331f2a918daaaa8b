// Asks, and goes on, while nobody needs to wait.
// @task
const zcp = require("zcp");

zcp.progress(1, 2, "working");
setTimeout(() => zcp.confirm("sure", "Sure?") && console.log("done"), 500);
