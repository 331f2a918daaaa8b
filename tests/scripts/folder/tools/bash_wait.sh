# Waits for longer than anybody does.
#
# @param mark string  Seconds, by which its processes are known.
# @args {mark}
source "$ZCP_SDK/zcp.sh"

zcp_progress 1 waiting
sleep "$1"
