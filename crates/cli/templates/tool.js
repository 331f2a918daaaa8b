#!/usr/bin/env node
// Says hello to somebody. (The model reads this sentence: say what the tool does, and when to use it.)
//
// @param name string            Who to greet.
// @param loud boolean = false   Whether to shout.
// @read-only

const zcp = require("zcp");

const { name, loud } = zcp.args();
const greeting = `Hello, ${name}!`;
console.log(loud ? greeting.toUpperCase() : greeting);
