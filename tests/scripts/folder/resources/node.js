#!/usr/bin/env node
const { args } = require("zcp");

console.log(JSON.stringify({ ...args(), uri: process.env.ZCP_URI }));
