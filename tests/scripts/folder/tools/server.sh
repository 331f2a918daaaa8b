# Says which command runs it.
# @returns text
ps -o args= -p "$PPID"
