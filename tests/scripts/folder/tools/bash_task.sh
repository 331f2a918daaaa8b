# Asks, and goes on, while nobody needs to wait.
# @task
source "$ZCP_SDK/zcp.sh"

zcp_progress 1/2 working
sleep 0.5
zcp_confirm sure 'Sure?' && echo done
