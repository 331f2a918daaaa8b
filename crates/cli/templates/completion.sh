#!/usr/bin/env bash
# Prints what an argument could be, a line each. Which argument, and what is typed of it so far:
asked=$(cat)
name=$("$ZCP_JQ" -r .argument.name <<<"$asked")
typed=$("$ZCP_JQ" -r .argument.value <<<"$asked")

case $name in
    tone) known="friendly formal frank" ;;
    *) known="" ;;
esac
for word in $known; do
    if [[ $word == "$typed"* ]]; then echo "$word"; fi
done
