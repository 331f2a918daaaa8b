/**
 * Shows what it was given.
 *
 * @param word string            A word.
 * @param [many] string[]        More of them.
 * @param loud boolean = false   Whether to shout.
 */
const { args } = require("zcp");

const word = process.env.ARG_WORD ?? null;
console.log(JSON.stringify({ args: args(), word, argv: process.argv.slice(2) }));
