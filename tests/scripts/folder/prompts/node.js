#!/usr/bin/env node
// Asks about something.
// @param topic string  About what.
const { topic } = require("zcp").args();

const asked = { role: "user", content: `About ${topic}` };
console.log(JSON.stringify([asked, { role: "assistant", content: "Yes?" }]));
